/* Reshape: the dims that the second input holds. 0 copies the dim of x at the same place (unless attribute
 * allowzero=1), one -1 is what makes the number of elements come out. */
#include "ops/ints.h"

/* [batch1, s] to [batch2, -1]: symbols at one place are taken for one where the -1 has no size otherwise. */
static sparta_status same_places(sp_graph *g, const sp_node *n, const sp_dims *to)
{
    const sp_dims *from = &n->in[0]->dims;
    for (int i = 0; i < from->rank && i < to->rank; i++)
        if (sp_expr_is_symbol(from->dim[i], NULL) && sp_expr_is_symbol(to->dim[i], NULL))
            SP_TRY(sp_ops_agree(g, n, "a dim of the input and of the shape", from->dim[i], to->dim[i]));
    return SPARTA_OK;
}

/* The elements of x over those of the other dims, where that comes out only for some sizes: runs compare. */
static sparta_status divide_later(sp_graph *g, const sp_node *n, const sp_expr *have, const sp_expr *want,
                                  const sp_expr **out)
{
    const sp_expr *rest = sp_expr_div(g->arena, have, want);
    SP_NEED(g->cx, rest);
    const sp_expr *whole = sp_expr_mul(g->arena, rest, want);
    SP_NEED(g->cx, whole);
    *out = rest;
    return sp_ops_agree(g, n, "elements of the input and of the shape", have, whole);
}

/* Solve the -1 at `unknown` (1 so far), or check that the elements come out. */
static sparta_status complete(sp_graph *g, const sp_node *n, int unknown, sp_dims *dims)
{
    const sp_expr *have = sp_dims_elements(g->arena, &n->in[0]->dims),
                  *want = sp_dims_elements(g->arena, dims);
    SP_NEED(g->cx, have && want);
    if (unknown < 0) return sp_ops_agree(g, n, "elements of the input and of the shape", have, want);
    const sp_expr *rest = NULL;
    if (!sp_expr_is(want, 0)) SP_TRY(sp_ops_divide(g, have, want, &rest));
    if (!rest && !sp_expr_is_const(have, NULL) && sp_ops_positive(g, want)) {
        SP_TRY(same_places(g, n, dims));
        SP_TRY(divide_later(g, n, have, want, &rest));
    }
    if (!rest)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE,
                           "the -1 in dim %d has no size: the %s elements of %s over the other dims, %s",
                           unknown, sp_ops_say(g, have), sp_ops_say_dims(g, &n->in[0]->dims),
                           sp_ops_say(g, want));
    dims->dim[unknown] = rest;
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_list shape;
    sp_dims dims = {.rank = 0};
    int unknown = -1;
    SP_TRY(sp_ops_list(g, n, 1, "the shape", &shape));
    for (int i = 0; i < shape.n; i++) {
        const sp_expr *d = shape.x[i];
        if (sp_expr_is(d, -1)) {
            if (unknown >= 0)
                return sp_ops_fail(g, n, SPARTA_E_SHAPE, "two dims are -1 (%d and %d)", unknown, i);
            unknown = i;
            d = sp_expr_const(g->arena, 1);
        } else if (sp_expr_is(d, 0) && !sp_attr_int(&n->attrs, "allowzero", 0)) {
            if (i >= n->in[0]->dims.rank)
                return sp_ops_fail(g, n, SPARTA_E_SHAPE, "dim %d is 0 (copy), and the input has rank %d", i,
                                   n->in[0]->dims.rank);
            d = n->in[0]->dims.dim[i];
        }
        SP_TRY(sp_ops_append(g, n, &dims, d));
    }
    SP_TRY(complete(g, n, unknown, &dims));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

/* ------------------------------------------------------------------ flow */
/* The new shape, with numbers: 0 copies, and one dim may be open. Where more are, they are read from the list that computes them. */
static sparta_status shrink(const sp_shrink *s)
{
    const sp_dims *x = &s->n->in[0]->dims, *y = &s->n->out[0]->dims;
    int64_t shape[SPARTA_RANK] = {0};
    bool changed = false, none = false, set[SPARTA_RANK];
    int open = 0;
    for (int l = 0; l < s->axes->labels; l++) changed |= s->kept[l] != NULL;
    if (!changed) return SPARTA_OK;
    for (int i = 0; i < y->rank; i++) {
        const bool copied = i < x->rank && sp_expr_equal(x->dim[i], y->dim[i]);
        set[i] = sp_expr_is_const(y->dim[i], &shape[i]);
        none |= set[i] && shape[i] == 0;
        if (!set[i]) shape[i] = copied ? 0 : -1;
        open += shape[i] == -1;
    }
    if (open > 1) return sp_shrink_some(s, 1, y->rank, set, shape);
    SP_TRY(sp_shrink_list(s, 1, y->rank, shape));
    return none ? sp_shrink_int(s, "allowzero", 1) : sp_graph_drop_attr(s->g, s->n, "allowzero");
}

SP_RULE(Reshape, shape, SP_ALL, SP_CONSERVATIVE, sp_flow_reshape, shrink,
        "the same elements; exact where blocks stay whole, axes that it mixes stay",
        "a shape computed from data");
