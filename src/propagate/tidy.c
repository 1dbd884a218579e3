/* Ways of writing that hide axes, written plainly before facts flow.
 *
 * torch and older models write attention with the batch and the heads as one axis, whose size is then not a number:
 *
 *     (s,b,h*d) --Reshape--> (s,b*h,d) --Transpose--> (b*h,s,d) --MatMul, Softmax, MatMul--> (b*h,s,d) --Reshape--> (b,h,s,d)
 *     (s,b,h*d) --Reshape--> (s,b,h,d) --Transpose--> (b,h,s,d) --MatMul, Softmax, MatMul--> (b,h,s,d)              is the same
 *
 * No head could go from the first: their number is part of one that is not known. Between the Reshapes no operator cares how an axis
 * is counted that it goes through index by index, so a whole region of values may have it as two axes, or none of them. */
#include "ops/ints.h"
#include "propagate/facts.h"

enum {
    OPEN_RANK = 4,      /* (batch, heads, rows, columns): what attention is written with elsewhere */
    OPEN_WORK = 1 << 20 /* slots of nodes looked at: beyond that the rest stays as it is */
};

/* Values that get an axis as two: major, minor. */
typedef struct region {
    sp_graph *g;
    sp_users users;
    int values; /* that the graph had: those that rewriting adds are in no list */
    int *axis;  /* by value id; -1: stays as it is */
    bool *seen; /* by node */
    sp_value **member;
    int *node, members, nodes, work;
    const sp_expr *major, *minor, *both;
    bool fails, simpler; /* it cannot be done; it is done only where it makes a Reshape superfluous */
} region;

/* ------------------------------------------------------------------ dims */
static sp_dims dims_of(const region *r, const sp_value *v)
{
    const int at = r->axis[v->id];
    if (at < 0) return v->dims;
    sp_dims d = {.rank = v->dims.rank + 1};
    for (int i = 0; i < d.rank; i++) d.dim[i] = v->dims.dim[i - (i > at)];
    d.dim[at] = r->major;
    d.dim[at + 1] = r->minor;
    return d;
}

/* The dims as a Reshape of x says them with numbers: 0 copies, one may be open. */
static bool in_numbers(const sp_dims *x, const sp_dims *y, int64_t *shape)
{
    int open = 0;
    for (int i = 0; i < y->rank; i++) {
        if (sp_expr_is_const(y->dim[i], &shape[i])) {
            if (!shape[i]) return false;
            continue;
        }
        const bool same = i < x->rank && sp_expr_equal(x->dim[i], y->dim[i]);
        shape[i] = same ? 0 : -1;
        open += !same;
    }
    return open < 2;
}

/* Does the list that a Reshape has say its dims whatever the input's are? */
static bool list_holds(const sp_node *n)
{
    const sp_value *list = n->in[1];
    for (int i = 0; i < list->n_ints; i++)
        if (sp_expr_is(list->ints[i], 0)) return false;
    return list->n_ints == n->out[0]->dims.rank;
}

/* ------------------------------------------------------------------ the region */
static void want(region *r, sp_value *v, int axis)
{
    if (r->axis[v->id] == axis || r->fails) return;
    r->fails = r->axis[v->id] >= 0 || !v->typed || v->constant || v->is_input || v->is_output ||
               v->dims.rank >= OPEN_RANK || !sp_expr_equal(v->dims.dim[axis], r->both);
    if (r->fails) return;
    r->axis[v->id] = axis;
    r->member[r->members++] = v;
}

/* The label that operand o goes through index by index along its axis; -1: it does not. */
static int plain_label(const sp_axes *a, int o, int axis)
{
    const sp_axis *x = &a->in[o].axis[axis];
    if (a->in[o].role == SP_SIDE || x->n != 1 || x->window) return -1;
    return a->label[x->label[0]].kind == SP_EACH ? x->label[0] : -1;
}

/* Every operand that has the label gets it as two axes; one that does not must not reach as far: they are counted from the right. */
static void want_label(region *r, const sp_axes *a, int label)
{
    const sp_node *n = a->n;
    int behind = 0, y = n->out[0]->dims.rank;
    while (behind < y && plain_label(a, n->n_in, y - 1 - behind) != label) behind++;
    for (int o = 0; o < sp_node_slots(n) && !r->fails; o++) {
        sp_value *v = sp_node_slot(n, o);
        bool has = false;
        for (int k = 0; v && k < v->dims.rank; k++) {
            if (plain_label(a, o, k) != label) continue;
            want(r, v, k);
            has = true;
        }
        r->fails |= v && !has && v->dims.rank > behind;
    }
}

static sparta_status through(region *r, int at)
{
    const sp_node *n = r->g->node[at];
    sp_axes a;
    uint32_t done = 0; /* labels */
    if (r->work >= OPEN_WORK) {
        r->fails = true;
        return SPARTA_OK;
    }
    r->work += sp_node_slots(n);
    if (!r->seen[at]) r->node[r->nodes++] = at;
    r->seen[at] = true;
    if (n->op == SP_OP_Reshape) return SPARTA_OK; /* looked at when all are known */
    if (n->op == SP_OP_Shape && !n->attrs.n) {
        /* It tells sizes of a value, and is none; or did, and was rewritten. */
        r->fails |= n->out[0]->id >= r->values || r->axis[n->out[0]->id] >= 0;
        return SPARTA_OK;
    }
    sp_arena *scratch = sp_arena_create(r->g->cx);
    SP_NEED(r->g->cx, scratch);
    sparta_status status = sp_axes_of(r->g, n, scratch, &a);
    const bool allowed =
        status == SPARTA_OK && (a.broadcasts || n->op == SP_OP_MatMul || n->op == SP_OP_Transpose ||
                                n->op == SP_OP_Softmax || n->op == SP_OP_Identity);
    r->fails |= !allowed;
    for (int o = 0; o < sp_node_slots(n) && !r->fails; o++) {
        const sp_value *v = sp_node_slot(n, o);
        if (!v || r->axis[v->id] < 0) continue;
        const int label = plain_label(&a, o, r->axis[v->id]);
        r->fails |= label < 0;
        if (!r->fails && !(done & 1u << label)) want_label(r, &a, label);
        if (!r->fails) done |= 1u << label;
    }
    sp_arena_free(scratch);
    return status;
}

/* What a Reshape of the region says in numbers; *list: it keeps its list instead. false: it cannot be said. */
static bool reshapes(const region *r, const sp_node *n, int64_t *shape, bool *list)
{
    const sp_dims x = dims_of(r, n->in[0]), y = dims_of(r, n->out[0]);
    *list = !in_numbers(&x, &y, shape);
    return !*list || (r->axis[n->out[0]->id] < 0 && list_holds(n));
}

static sparta_status grow(region *r, sp_value *v, int axis)
{
    want(r, v, axis);
    for (int i = 0; i < r->members && !r->fails; i++)
        for (int k = r->users.first[r->member[i]->id]; k < r->users.first[r->member[i]->id + 1] && !r->fails;
             k++)
            SP_TRY(through(r, r->users.user[k]));
    bool simpler = false;
    for (int i = 0; i < r->nodes && !r->fails; i++) {
        int64_t shape[SPARTA_RANK];
        bool list;
        const sp_node *n = r->g->node[r->node[i]];
        if (n->op != SP_OP_Reshape) continue;
        const sp_dims x = dims_of(r, n->in[0]), y = dims_of(r, n->out[0]);
        r->fails |= !reshapes(r, n, shape, &list);
        simpler |= sp_dims_equal(&x, &y);
    }
    r->fails |= r->simpler && !simpler;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ rewriting */
/* Axis `at` of the input is two. */
static sparta_status open_perm(sp_graph *g, sp_node *n, int at)
{
    const sp_attr *old = sp_attr_find(&n->attrs, "perm");
    const int rank = n->in[0]->dims.rank;
    int64_t *perm = sp_arena_array(g->arena, (size_t)rank + 1, sizeof *perm);
    SP_NEED(g->cx, perm);
    for (int k = 0, to = 0; k < rank; k++) {
        const int64_t from = old ? old->ints[k] + (old->ints[k] < 0 ? rank : 0) : rank - 1 - k;
        perm[to++] = from + (from > at);
        if (from == at) perm[to++] = from + 1;
    }
    return sp_graph_set_attr(g, n, &SP_INTS("perm", rank + 1, perm));
}

static sparta_status open_axis(sp_graph *g, sp_node *n, int at)
{
    const int rank = n->in[0]->dims.rank;
    int64_t axis = sp_attr_int(&n->attrs, "axis", -1);
    axis += axis < 0 ? rank : 0;
    return sp_graph_set_attr(g, n, &SP_INT("axis", axis + (axis > at)));
}

/* Sizes as they were: those of the two axes times each other. */
static sparta_status close_sizes(region *r, sp_node *n)
{
    sp_graph *g = r->g;
    const int at = r->axis[n->in[0]->id], rank = n->in[0]->dims.rank;
    int64_t from[OPEN_RANK], times[OPEN_RANK];
    sp_value *y = n->out[0], *sizes, *picked[2], *product[2], *some = NULL;
    for (int i = 0; i < rank; i++) {
        from[i] = i + (i > at);
        times[i] = 1;
    }
    (void)sp_expr_is_const(r->minor, &times[at]);
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){rank}, from);
    SP_TRY(sp_graph_add_constant(g, NULL, &t, true, &picked[1]));
    t.data = times;
    SP_TRY(sp_graph_add_constant(g, NULL, &t, true, &product[1]));
    SP_TRY(sp_graph_add_value(g, NULL, &sizes));
    const char *gather = sp_arena_printf(g->arena, "%s/%s", n->name, picked[1]->name),
               *mul = sp_arena_printf(g->arena, "%s/%s", n->name, product[1]->name);
    SP_NEED(g->cx, gather && mul);
    n->out[0] = picked[0] = sizes;
    sizes->producer = n;
    y->producer = NULL;
    SP_TRY(sp_graph_add_node(g, SP_OP_Gather, gather, 2, picked, 1, &some, NULL, NULL));
    product[0] = some;
    return sp_graph_add_node(g, SP_OP_Mul, mul, 2, product, 1, &y, NULL, NULL);
}

static sparta_status rewrite_node(region *r, sp_node *n)
{
    int64_t shape[SPARTA_RANK];
    bool list;
    sp_value *numbers;
    if (n->op == SP_OP_Transpose) return open_perm(r->g, n, r->axis[n->in[0]->id]);
    if (n->op == SP_OP_Softmax) return open_axis(r->g, n, r->axis[n->in[0]->id]);
    if (n->op == SP_OP_Shape) return close_sizes(r, n);
    if (n->op != SP_OP_Reshape) return SPARTA_OK;
    if (!reshapes(r, n, shape, &list) || list) return SPARTA_OK;
    const int64_t rank[] = {dims_of(r, n->out[0]).rank};
    const sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, rank, shape);
    SP_TRY(sp_graph_add_constant(r->g, NULL, &t, true, &numbers));
    n->in[1] = numbers;
    n->attrs = (sp_attrs){0};
    return SPARTA_OK;
}

/* All of it, if nothing was in the way; and the lists are free for the next. */
static sparta_status finish(region *r, bool *changed)
{
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < r->nodes; i++) {
        if (!r->fails && status == SPARTA_OK) status = rewrite_node(r, r->g->node[r->node[i]]);
        r->seen[r->node[i]] = false;
    }
    for (int i = 0; i < r->members; i++) {
        sp_value *v = r->member[i];
        if (!r->fails) v->dims = dims_of(r, v);
        r->axis[v->id] = -1;
    }
    *changed |= !r->fails && r->members;
    r->members = r->nodes = 0;
    return status;
}

/* ------------------------------------------------------------------ where it begins */
/* Are the dims of x those of y, but for axis k, which is two there? */
static sparta_status parted(region *r, const sp_dims *x, const sp_dims *y, int k, bool *yes)
{
    *yes = x->rank == y->rank + 1;
    for (int i = 0; *yes && i < y->rank; i++) *yes = i == k || sp_expr_equal(y->dim[i], x->dim[i + (i > k)]);
    if (!*yes) return SPARTA_OK;
    const sp_expr *both = sp_expr_mul(r->g->arena, x->dim[k], x->dim[k + 1]);
    SP_NEED(r->g->cx, both);
    *yes = sp_expr_equal(both, y->dim[k]) && !sp_expr_is(x->dim[k], 1);
    r->major = x->dim[k];
    r->minor = x->dim[k + 1];
    return SPARTA_OK;
}

/* Is axis k of y a dim of x times a number? */
static sparta_status multiple(region *r, const sp_dims *x, const sp_dims *y, int k, bool *yes)
{
    for (int j = 0; j < x->rank; j++)
        if (sp_expr_equal(x->dim[j], y->dim[k])) return SPARTA_OK;
    for (int j = 0; j < x->rank && !*yes; j++) {
        if (sp_expr_is_const(x->dim[j], NULL)) continue;
        SP_TRY(sp_ops_divide(r->g, y->dim[k], x->dim[j], &r->minor));
        *yes = r->minor != NULL;
        r->major = x->dim[j];
    }
    return SPARTA_OK;
}

/* Is axis k of y joined from two, which x tells apart? A number of heads is a number. Where all are numbers facts can tell them apart
 * by themselves: then it is only done if that makes a Reshape superfluous. */
static sparta_status joined(region *r, const sp_dims *x, const sp_dims *y, int k, bool *yes)
{
    int64_t times = 0;
    r->both = y->dim[k];
    r->simpler = sp_expr_is_const(r->both, NULL);
    SP_TRY(parted(r, x, y, k, yes));
    if (!*yes && !r->simpler) SP_TRY(multiple(r, x, y, k, yes));
    *yes = *yes && sp_expr_is_const(r->minor, &times) && times > 1;
    return SPARTA_OK;
}

static sparta_status open_side(region *r, const sp_value *x, sp_value *y, bool *changed)
{
    for (int k = 0; k < y->dims.rank; k++) {
        bool yes;
        SP_TRY(joined(r, &x->dims, &y->dims, k, &yes));
        if (!yes) continue;
        r->fails = false;
        sparta_status status = grow(r, y, k);
        r->fails |= status != SPARTA_OK;
        sparta_status after = finish(r, changed);
        return status == SPARTA_OK ? after : status;
    }
    return SPARTA_OK;
}

static sparta_status set_up(region *r, sp_arena *arena)
{
    const sp_graph *g = r->g;
    const size_t values = (size_t)g->n_values, nodes = (size_t)SP_MAX(g->n_nodes, 1);
    SP_TRY(sp_graph_users(g, arena, &r->users));
    r->axis = sp_arena_array(arena, values + 1, sizeof *r->axis);
    r->member = sp_arena_array(arena, values + 1, sizeof(void *));
    r->seen = sp_arena_array(arena, nodes, sizeof *r->seen);
    r->node = sp_arena_array(arena, nodes, sizeof *r->node);
    SP_NEED(g->cx, r->axis && r->member && r->seen && r->node);
    for (size_t i = 0; i < values; i++) r->axis[i] = -1;
    return SPARTA_OK;
}

static sparta_status open_all(sp_graph *g, sp_arena *arena, bool *changed)
{
    region r = {.g = g, .values = g->n_values};
    SP_TRY(set_up(&r, arena));
    const int nodes = g->n_nodes; /* more are added behind them */
    for (int i = 0; i < nodes; i++) {
        const sp_node *n = g->node[i];
        if (n->op != SP_OP_Reshape || !n->in[0]->typed || !n->out[0]->typed) continue;
        SP_TRY(sp_check_cancel(g->cx));
        SP_TRY(open_side(&r, n->in[0], n->out[0], changed));
        SP_TRY(open_side(&r, n->out[0], n->in[0], changed));
    }
    return SPARTA_OK;
}

/* Reshapes that change nothing any more. */
static sparta_status bypass(sp_graph *g, sp_arena *arena)
{
    sp_users u;
    SP_TRY(sp_graph_users(g, arena, &u));
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->node[i]->op != SP_OP_Reshape) continue;
        sp_value *x = g->node[i]->in[0], *y = g->node[i]->out[0];
        if (!y->is_output && sp_dims_equal(&x->dims, &y->dims)) sp_graph_replace(g, &u, y, x);
    }
    return SPARTA_OK;
}

sparta_status sp_tidy(sp_graph *g)
{
    bool changed = false;
    sp_arena *arena = sp_arena_create(g->cx);
    SP_NEED(g->cx, arena);
    sparta_status status = open_all(g, arena, &changed);
    if (status == SPARTA_OK && changed) status = bypass(g, arena);
    sp_arena_free(arena);
    return status == SPARTA_OK && changed ? sp_ops_infer(g) : status;
}
