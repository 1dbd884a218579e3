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
    sparta_graph *g;
    sparta_users users;
    int values; /* that the graph had: those that rewriting adds are in no list */
    int *axis;  /* by value id; -1: stays as it is */
    bool *seen; /* by node */
    sparta_value **member;
    int *node, members, nodes, work;
    const sparta_expr *major, *minor, *both;
    bool fails, simpler; /* it cannot be done; it is done only where it makes a Reshape superfluous */
} region;

/* ------------------------------------------------------------------ dims */
static sparta_dims dims_of(const region *r, const sparta_value *v)
{
    const int at = r->axis[v->id];
    if (at < 0) return v->dims;
    sparta_dims d = {.rank = v->dims.rank + 1};
    for (int i = 0; i < d.rank; i++) d.dim[i] = v->dims.dim[i - (i > at)];
    d.dim[at] = r->major;
    d.dim[at + 1] = r->minor;
    return d;
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

/* Does the list that a Reshape has say its dims whatever the input's are? */
static bool list_holds(const sparta_node *n)
{
    const sparta_value *list = n->in[1];
    for (int i = 0; i < list->n_ints; i++)
        if (sparta_expr_is(list->ints[i], 0)) return false;
    return list->n_ints == n->out[0]->dims.rank;
}

/* ------------------------------------------------------------------ the region */
static void want(region *r, sparta_value *v, int axis)
{
    if (r->axis[v->id] == axis || r->fails) return;
    r->fails = r->axis[v->id] >= 0 || !v->typed || v->constant || v->is_input || v->is_output ||
               v->dims.rank >= OPEN_RANK || !sparta_expr_equal(v->dims.dim[axis], r->both);
    if (r->fails) return;
    r->axis[v->id] = axis;
    r->member[r->members++] = v;
}

/* The label that operand o goes through index by index along its axis; -1: it does not. */
static int plain_label(const sparta_axes *a, int o, int axis)
{
    const sparta_axis *x = &a->in[o].axis[axis];
    if (a->in[o].role == SPARTA_SIDE || x->n != 1 || x->window) return -1;
    return a->label[x->label[0]].kind == SPARTA_EACH ? x->label[0] : -1;
}

/* Every operand that has the label gets it as two axes; one that does not must not reach as far: they are counted from the right. */
static void want_label(region *r, const sparta_axes *a, int label)
{
    const sparta_node *n = a->n;
    int behind = 0, y = n->out[0]->dims.rank;
    while (behind < y && plain_label(a, n->n_in, y - 1 - behind) != label) behind++;
    for (int o = 0; o < sparta_node_slots(n) && !r->fails; o++) {
        sparta_value *v = sparta_node_slot(n, o);
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
    const sparta_node *n = r->g->node[at];
    sparta_axes a;
    uint32_t done = 0; /* labels */
    if (r->work >= OPEN_WORK) {
        r->fails = true;
        return SPARTA_OK;
    }
    r->work += sparta_node_slots(n);
    if (!r->seen[at]) r->node[r->nodes++] = at;
    r->seen[at] = true;
    if (n->op == SPARTA_OP_Reshape) return SPARTA_OK; /* looked at when all are known */
    if (n->op == SPARTA_OP_Shape &&
        !n->attrs.n) { /* it tells sizes of a value, and is none; or did, and was rewritten */
        r->fails |= n->out[0]->id >= r->values || r->axis[n->out[0]->id] >= 0;
        return SPARTA_OK;
    }
    sparta_arena *scratch = sparta_arena_create(r->g->cx);
    SPARTA_NEED(r->g->cx, scratch);
    sparta_status status = sparta_axes_of(r->g, n, scratch, &a);
    const bool allowed =
        status == SPARTA_OK && (a.broadcasts || n->op == SPARTA_OP_MatMul || n->op == SPARTA_OP_Transpose ||
                                n->op == SPARTA_OP_Softmax || n->op == SPARTA_OP_Identity);
    r->fails |= !allowed;
    for (int o = 0; o < sparta_node_slots(n) && !r->fails; o++) {
        const sparta_value *v = sparta_node_slot(n, o);
        if (!v || r->axis[v->id] < 0) continue;
        const int label = plain_label(&a, o, r->axis[v->id]);
        r->fails |= label < 0;
        if (!r->fails && !(done & 1u << label)) want_label(r, &a, label);
        if (!r->fails) done |= 1u << label;
    }
    sparta_arena_free(scratch);
    return status;
}

/* What a Reshape of the region says in numbers; *list: it keeps its list instead. false: it cannot be said. */
static bool reshapes(const region *r, const sparta_node *n, int64_t *shape, bool *list)
{
    const sparta_dims x = dims_of(r, n->in[0]), y = dims_of(r, n->out[0]);
    *list = !in_numbers(&x, &y, shape);
    return !*list || (r->axis[n->out[0]->id] < 0 && list_holds(n));
}

static sparta_status grow(region *r, sparta_value *v, int axis)
{
    want(r, v, axis);
    for (int i = 0; i < r->members && !r->fails; i++)
        for (int k = r->users.first[r->member[i]->id]; k < r->users.first[r->member[i]->id + 1] && !r->fails;
             k++)
            SPARTA_TRY(through(r, r->users.user[k]));
    bool simpler = false;
    for (int i = 0; i < r->nodes && !r->fails; i++) {
        int64_t shape[SPARTA_RANK];
        bool list;
        const sparta_node *n = r->g->node[r->node[i]];
        if (n->op != SPARTA_OP_Reshape) continue;
        const sparta_dims x = dims_of(r, n->in[0]), y = dims_of(r, n->out[0]);
        r->fails |= !reshapes(r, n, shape, &list);
        simpler |= sparta_dims_equal(&x, &y);
    }
    r->fails |= r->simpler && !simpler;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ rewriting */
static sparta_status set_attr(sparta_graph *g, sparta_node *n, sparta_attr attr)
{
    sparta_attr *one = sparta_arena_alloc(g->arena, sizeof *one);
    SPARTA_NEED(g->cx, one);
    *one = attr;
    n->attrs = (sparta_attrs){1, one};
    return SPARTA_OK;
}

/* Axis `at` of the input is two. */
static sparta_status open_perm(sparta_graph *g, sparta_node *n, int at)
{
    const sparta_attr *old = sparta_attr_find(&n->attrs, "perm");
    const int rank = n->in[0]->dims.rank;
    int64_t *perm = sparta_arena_array(g->arena, (size_t)rank + 1, sizeof *perm);
    SPARTA_NEED(g->cx, perm);
    for (int k = 0, to = 0; k < rank; k++) {
        const int64_t from = old ? old->ints[k] + (old->ints[k] < 0 ? rank : 0) : rank - 1 - k;
        perm[to++] = from + (from > at);
        if (from == at) perm[to++] = from + 1;
    }
    return set_attr(g, n,
                    (sparta_attr){.name = "perm", .kind = SPARTA_ATTR_INTS, .n = rank + 1, .ints = perm});
}

static sparta_status open_axis(sparta_graph *g, sparta_node *n, int at)
{
    const int rank = n->in[0]->dims.rank;
    int64_t axis = sparta_attr_int(&n->attrs, "axis", -1);
    axis += axis < 0 ? rank : 0;
    return set_attr(g, n, (sparta_attr){.name = "axis", .kind = SPARTA_ATTR_INT, .i = axis + (axis > at)});
}

/* Sizes as they were: those of the two axes times each other. */
static sparta_status close_sizes(region *r, sparta_node *n)
{
    sparta_graph *g = r->g;
    const int at = r->axis[n->in[0]->id], rank = n->in[0]->dims.rank;
    int64_t from[OPEN_RANK], times[OPEN_RANK];
    sparta_value *y = n->out[0], *sizes, *picked[2], *product[2], *some = NULL;
    for (int i = 0; i < rank; i++) {
        from[i] = i + (i > at);
        times[i] = 1;
    }
    (void)sparta_expr_is_const(r->minor, &times[at]);
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){rank}, from);
    SPARTA_TRY(sparta_graph_add_constant(g, NULL, &t, true, &picked[1]));
    t.data = times;
    SPARTA_TRY(sparta_graph_add_constant(g, NULL, &t, true, &product[1]));
    SPARTA_TRY(sparta_graph_add_value(g, NULL, &sizes));
    const char *gather = sparta_arena_printf(g->arena, "%s/%s", n->name, picked[1]->name),
               *mul = sparta_arena_printf(g->arena, "%s/%s", n->name, product[1]->name);
    SPARTA_NEED(g->cx, gather && mul);
    n->out[0] = picked[0] = sizes;
    sizes->producer = n;
    y->producer = NULL;
    SPARTA_TRY(sparta_graph_add_node(g, SPARTA_OP_Gather, gather, 2, picked, 1, &some, NULL, NULL));
    product[0] = some;
    return sparta_graph_add_node(g, SPARTA_OP_Mul, mul, 2, product, 1, &y, NULL, NULL);
}

static sparta_status rewrite_node(region *r, sparta_node *n)
{
    int64_t shape[SPARTA_RANK];
    bool list;
    sparta_value *numbers;
    if (n->op == SPARTA_OP_Transpose) return open_perm(r->g, n, r->axis[n->in[0]->id]);
    if (n->op == SPARTA_OP_Softmax) return open_axis(r->g, n, r->axis[n->in[0]->id]);
    if (n->op == SPARTA_OP_Shape) return close_sizes(r, n);
    if (n->op != SPARTA_OP_Reshape) return SPARTA_OK;
    if (!reshapes(r, n, shape, &list) || list) return SPARTA_OK;
    const int64_t rank[] = {dims_of(r, n->out[0]).rank};
    const sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, rank, shape);
    SPARTA_TRY(sparta_graph_add_constant(r->g, NULL, &t, true, &numbers));
    n->in[1] = numbers;
    n->attrs = (sparta_attrs){0};
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
        sparta_value *v = r->member[i];
        if (!r->fails) v->dims = dims_of(r, v);
        r->axis[v->id] = -1;
    }
    *changed |= !r->fails && r->members;
    r->members = r->nodes = 0;
    return status;
}

/* ------------------------------------------------------------------ where it begins */
/* Are the dims of x those of y, but for axis k, which is two there? */
static sparta_status parted(region *r, const sparta_dims *x, const sparta_dims *y, int k, bool *yes)
{
    *yes = x->rank == y->rank + 1;
    for (int i = 0; *yes && i < y->rank; i++)
        *yes = i == k || sparta_expr_equal(y->dim[i], x->dim[i + (i > k)]);
    if (!*yes) return SPARTA_OK;
    const sparta_expr *both = sparta_expr_mul(r->g->arena, x->dim[k], x->dim[k + 1]);
    SPARTA_NEED(r->g->cx, both);
    *yes = sparta_expr_equal(both, y->dim[k]) && !sparta_expr_is(x->dim[k], 1);
    r->major = x->dim[k];
    r->minor = x->dim[k + 1];
    return SPARTA_OK;
}

/* Is axis k of y a dim of x times a number? */
static sparta_status multiple(region *r, const sparta_dims *x, const sparta_dims *y, int k, bool *yes)
{
    for (int j = 0; j < x->rank; j++)
        if (sparta_expr_equal(x->dim[j], y->dim[k])) return SPARTA_OK;
    for (int j = 0; j < x->rank && !*yes; j++) {
        if (sparta_expr_is_const(x->dim[j], NULL)) continue;
        SPARTA_TRY(sparta_ops_divide(r->g, y->dim[k], x->dim[j], &r->minor));
        *yes = r->minor != NULL;
        r->major = x->dim[j];
    }
    return SPARTA_OK;
}

/* Is axis k of y joined from two, which x tells apart? A number of heads is a number. Where all are numbers facts can tell them apart
 * by themselves: then it is only done if that makes a Reshape superfluous. */
static sparta_status joined(region *r, const sparta_dims *x, const sparta_dims *y, int k, bool *yes)
{
    int64_t times = 0;
    r->both = y->dim[k];
    r->simpler = sparta_expr_is_const(r->both, NULL);
    SPARTA_TRY(parted(r, x, y, k, yes));
    if (!*yes && !r->simpler) SPARTA_TRY(multiple(r, x, y, k, yes));
    *yes = *yes && sparta_expr_is_const(r->minor, &times) && times > 1;
    return SPARTA_OK;
}

static sparta_status open_side(region *r, const sparta_value *x, sparta_value *y, bool *changed)
{
    for (int k = 0; k < y->dims.rank; k++) {
        bool yes;
        SPARTA_TRY(joined(r, &x->dims, &y->dims, k, &yes));
        if (!yes) continue;
        r->fails = false;
        sparta_status status = grow(r, y, k);
        r->fails |= status != SPARTA_OK;
        sparta_status after = finish(r, changed);
        return status == SPARTA_OK ? after : status;
    }
    return SPARTA_OK;
}

static sparta_status set_up(region *r, sparta_arena *arena)
{
    const sparta_graph *g = r->g;
    const size_t values = (size_t)g->n_values, nodes = (size_t)SPARTA_MAX(g->n_nodes, 1);
    SPARTA_TRY(sparta_graph_users(g, arena, &r->users));
    r->axis = sparta_arena_array(arena, values + 1, sizeof *r->axis);
    r->member = sparta_arena_array(arena, values + 1, sizeof(void *));
    r->seen = sparta_arena_array(arena, nodes, sizeof *r->seen);
    r->node = sparta_arena_array(arena, nodes, sizeof *r->node);
    SPARTA_NEED(g->cx, r->axis && r->member && r->seen && r->node);
    for (size_t i = 0; i < values; i++) r->axis[i] = -1;
    return SPARTA_OK;
}

static sparta_status open_all(sparta_graph *g, sparta_arena *arena, bool *changed)
{
    region r = {.g = g, .values = g->n_values};
    SPARTA_TRY(set_up(&r, arena));
    const int nodes = g->n_nodes; /* more are added behind them */
    for (int i = 0; i < nodes; i++) {
        const sparta_node *n = g->node[i];
        if (n->op != SPARTA_OP_Reshape || !n->in[0]->typed || !n->out[0]->typed) continue;
        SPARTA_TRY(sparta_check_cancel(g->cx));
        SPARTA_TRY(open_side(&r, n->in[0], n->out[0], changed));
        SPARTA_TRY(open_side(&r, n->out[0], n->in[0], changed));
    }
    return SPARTA_OK;
}

/* Reshapes that change nothing any more. */
static sparta_status bypass(sparta_graph *g, sparta_arena *arena)
{
    sparta_users u;
    SPARTA_TRY(sparta_graph_users(g, arena, &u));
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->node[i]->op != SPARTA_OP_Reshape) continue;
        sparta_value *x = g->node[i]->in[0], *y = g->node[i]->out[0];
        if (!y->is_output && sparta_dims_equal(&x->dims, &y->dims)) sparta_graph_replace_among(g, &u, y, x);
    }
    return SPARTA_OK;
}

sparta_status sparta_tidy(sparta_graph *g)
{
    bool changed = false;
    sparta_arena *arena = sparta_arena_create(g->cx);
    SPARTA_NEED(g->cx, arena);
    sparta_status status = open_all(g, arena, &changed);
    if (status == SPARTA_OK && changed) status = bypass(g, arena);
    sparta_arena_free(arena);
    return status == SPARTA_OK && changed ? sparta_ops_infer(g) : status;
}
