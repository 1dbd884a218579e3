/* Ways of writing that hide axes, written plainly before facts flow.
 *
 * torch writes attention with the batch and the heads as one axis, and takes them apart again by sizes that it reads as the model runs:
 *
 *     (s,b,h*d) --Reshape--> (s,b*h,d) --Transpose--> (b*h,s,d) --Reshape--> (b,h,s,d)
 *     (s,b,h*d) --Reshape 0,0,h,d--> (s,b,h,d) --Transpose 1,2,0,3-->        (b,h,s,d)      is the same
 *
 * No head could go from the first: their number is part of one that is not known. */
#include "propagate/facts.h"

typedef struct chain {
    sparta_node *reshape, *transpose, *last;
    int at;                  /* the axis of the transposed value that `last` takes apart */
    int axis;                /* the same axis of the reshaped value */
    const sparta_attr *perm; /* of the transpose */
    sparta_dims dims;        /* of the reshaped value, with that axis apart */
} chain;

/* The node that makes input 0 and serves this one alone, if it is of this operator. */
static sparta_node *before(const sparta_graph *g, const sparta_node *n, sparta_op_id op)
{
    sparta_node *from = n->in[0] ? n->in[0]->producer : NULL;
    if (!from || from->op != op || !from->in[0] || !from->in[0]->typed || !from->out[0]->typed) return NULL;
    return sparta_graph_uses(g, from->out[0]) == 1 ? from : NULL;
}

/* Is z the same dims as y, but for one that is two in z? *at is where. */
static sparta_status splits_one(sparta_graph *g, const sparta_dims *y, const sparta_dims *z, int *at,
                                bool *yes)
{
    int i = 0;
    *yes = false;
    if (z->rank != y->rank + 1) return SPARTA_OK;
    while (i < y->rank && sparta_expr_equal(y->dim[i], z->dim[i])) i++;
    if (i == y->rank) return SPARTA_OK;
    for (int k = i + 1; k < y->rank; k++)
        if (!sparta_expr_equal(y->dim[k], z->dim[k + 1])) return SPARTA_OK;
    const sparta_expr *both = sparta_expr_mul(g->arena, z->dim[i], z->dim[i + 1]);
    SPARTA_NEED(g->cx, both);
    *at = i;
    *yes = sparta_expr_equal(both, y->dim[i]);
    return SPARTA_OK;
}

/* Does such a chain end in c->last? */
static sparta_status find_chain(sparta_graph *g, chain *c, bool *yes)
{
    *yes = false;
    if (!c->last->out[0]->typed || !(c->transpose = before(g, c->last, SPARTA_OP_Transpose)))
        return SPARTA_OK;
    if (!(c->reshape = before(g, c->transpose, SPARTA_OP_Reshape)) ||
        c->last->out[0]->dims.rank > SPARTA_RANK)
        return SPARTA_OK;
    const sparta_dims *y = &c->reshape->out[0]->dims, *z = &c->last->out[0]->dims;
    c->perm = sparta_attr_find(&c->transpose->attrs, "perm");
    if (!c->perm || c->perm->n != y->rank) return SPARTA_OK;
    SPARTA_TRY(splits_one(g, &c->transpose->out[0]->dims, z, &c->at, yes));
    if (!*yes) return SPARTA_OK;
    c->axis = (int)c->perm->ints[c->at];
    c->axis += c->axis < 0 ? y->rank : 0;
    c->dims.rank = z->rank;
    for (int i = 0; i < z->rank; i++) {
        const bool apart = i == c->axis || i == c->axis + 1;
        c->dims.dim[i] = apart ? z->dim[c->at + i - c->axis] : y->dim[i - (i > c->axis)];
    }
    return SPARTA_OK;
}

/* The dims as a Reshape of x says them with numbers: 0 copies, one may be open. */
static bool in_numbers(const sparta_dims *x, const sparta_dims *y, int64_t *shape)
{
    int open = 0;
    for (int i = 0; i < y->rank; i++) {
        if (sparta_expr_is_const(y->dim[i], &shape[i])) {
            if (!shape[i]) return false;
            continue;
        }
        const bool same = i < x->rank && sparta_expr_equal(x->dim[i], y->dim[i]);
        shape[i] = same ? 0 : -1;
        open += !same;
    }
    return open < 2;
}

static sparta_status set_perm(sparta_graph *g, const chain *c)
{
    int64_t *perm = sparta_arena_array(g->arena, (size_t)c->dims.rank, sizeof *perm);
    sparta_attr *attr = sparta_arena_alloc(g->arena, sizeof *attr);
    SPARTA_NEED(g->cx, perm && attr);
    for (int k = 0, n = 0; k < c->perm->n; k++) {
        const int64_t old = c->perm->ints[k] + (c->perm->ints[k] < 0 ? c->perm->n : 0);
        perm[n++] = old + (old > c->axis);
        if (old == c->axis) perm[n++] = old + 1;
    }
    *attr = (sparta_attr){.name = "perm", .kind = SPARTA_ATTR_INTS, .n = c->dims.rank, .ints = perm};
    c->transpose->attrs = (sparta_attrs){1, attr};
    return SPARTA_OK;
}

static sparta_status rewrite(sparta_graph *g, const chain *c, const int64_t *shape)
{
    sparta_value *x = c->reshape->in[0], *list;
    if (sparta_dims_equal(&x->dims, &c->dims)) {
        c->transpose->in[0] = x;
    } else {
        const sparta_tensor t =
            sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){c->dims.rank}, (void *)(uintptr_t)shape);
        SPARTA_TRY(sparta_graph_add_constant(g, NULL, &t, true, &list));
        c->reshape->in[1] = list;
        c->reshape->attrs = (sparta_attrs){0};
    }
    SPARTA_TRY(set_perm(g, c));
    sparta_graph_replace(g, c->last->out[0], c->transpose->out[0]);
    return SPARTA_OK;
}

sparta_status sparta_tidy(sparta_graph *g)
{
    bool changed = false;
    for (int i = 0; i < g->n_nodes; i++) {
        chain c = {.last = g->node[i]};
        int64_t shape[SPARTA_RANK];
        bool yes;
        if (c.last->op != SPARTA_OP_Reshape) continue;
        SPARTA_TRY(find_chain(g, &c, &yes));
        if (!yes || !in_numbers(&c.reshape->in[0]->dims, &c.dims, shape)) continue;
        SPARTA_TRY(rewrite(g, &c, shape));
        c.transpose->out[0]->dims =
            c.last->out[0]->dims; /* in case the next looks at it before all is inferred again */
        changed = true;
    }
    return changed ? sparta_ops_infer(g) : SPARTA_OK;
}
