/* Lists of integers from inputs, contents of outputs, and the rules of ints.h. */
#include "ops/ints.h"

/* ------------------------------------------------------------------ reading inputs */
static sparta_status constant_list(sp_graph *g, const sparta_tensor *t, sp_list *out)
{
    int64_t n = sparta_tensor_elements(t);
    if (n > 1 << 20) return sp_fail(g->cx, SPARTA_E_LIMIT, "a list of %lld integers", (long long)n);
    const sp_expr **x = sp_arena_array(g->arena, (size_t)n, sizeof *x);
    SP_NEED(g->cx, x);
    for (int64_t i = 0; i < n; i++) {
        int64_t value = sp_element_get_int(t->dtype, t->data, i);
        /* No expression says INT64_MIN, a bound of Slice. */
        x[i] = sp_expr_const(g->arena, SP_MAX(value, -INT64_MAX));
        SP_NEED(g->cx, x[i]);
    }
    *out = (sp_list){(int)n, x};
    return SPARTA_OK;
}

sparta_status sp_ops_list(sp_graph *g, const sp_node *n, int i, const char *what, sp_list *out)
{
    *out = (sp_list){.n = -1};
    if (!sp_ops_has(n, i)) return SPARTA_OK;
    const sp_value *v = n->in[i];
    SP_TRY(sp_ops_types(g, n, i, SP_INDICES));
    SP_TRY(sp_ops_rank(g, n, i, 0, 1));
    if (v->ints) {
        *out = (sp_list){v->n_ints, v->ints};
        return SPARTA_OK;
    }
    if (v->constant) return constant_list(g, v->constant, out);
    return sp_ops_fail(
        g, n, SPARTA_E_UNSUPPORTED,
        "%s ('%.200s') is computed from data, so the shape of the result is not known before running; "
        "fix the symbols with options.dims or export with static shapes",
        what, v->name);
}

sparta_status sp_ops_constants(sp_graph *g, const sp_node *n, int i, const char *what, int most, int64_t *out,
                               int *count)
{
    sp_list list;
    SP_TRY(sp_ops_list(g, n, i, what, &list));
    if (list.n > most)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s has %d elements; at most %d", what, list.n, most);
    for (int k = 0; k < list.n; k++)
        if (!sp_expr_is_const(list.x[k], &out[k]))
            return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                               "%s depends on a symbol (%s); fix it with options.dims", what,
                               sp_ops_say(g, list.x[k]));
    *count = list.n;
    return SPARTA_OK;
}

sparta_status sp_ops_axes(sp_graph *g, const sp_node *n, int i, int rank, bool set[SPARTA_RANK], int *count)
{
    int64_t axes[SPARTA_RANK];
    for (int k = 0; k < SPARTA_RANK; k++) set[k] = false;
    SP_TRY(sp_ops_constants(g, n, i, "axes", SPARTA_RANK, axes, count));
    for (int k = 0; k < *count; k++) {
        int axis;
        SP_TRY(sp_ops_axis(g, n, axes[k], rank, &axis));
        if (set[axis]) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "axis %d is named twice", axis);
        set[axis] = true;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ contents of outputs */
/* A row-major i64 view of the dims, if they are constant and the type and number of elements are right for
 * contents. */
static bool small_view(const sp_value *v, sparta_tensor *out)
{
    int64_t dim[SPARTA_RANK];
    if (sp_dtype_is_float(v->dtype) || !sp_dims_const(&v->dims, dim)) return false;
    *out = sparta_tensor_view(SPARTA_I64, v->dims.rank, dim, NULL);
    int64_t n = sparta_tensor_elements(out);
    return n >= 0 && n <= SP_GRAPH_INTS;
}

void sp_ops_set_ints(sp_node *n, int i, const sp_expr *const *ints)
{
    sparta_tensor view;
    if (!small_view(n->out[i], &view)) return;
    n->out[i]->ints = ints;
    n->out[i]->n_ints = (int)sparta_tensor_elements(&view);
}

/* ------------------------------------------------------------------ moving */
#define MOVED 64 /* the most inputs of a Concat that is followed */

typedef struct mover {
    sparta_tensor in[MOVED], out[MOVED];
    int64_t in_data[MOVED * SP_GRAPH_INTS], out_data[MOVED * SP_GRAPH_INTS];
} mover;

/* Positions in place of data: element e of input i is i * SP_GRAPH_INTS + e. false: something is not
 * known. */
static bool prepare(const sp_node *n, unsigned data, mover *m)
{
    for (int i = 0; i < n->n_in; i++) {
        const sp_value *v = n->in[i];
        m->in[i] = (sparta_tensor){.rank = -1};
        if (!v) continue;
        if (i < 32 ? data >> i & 1 : data >> 31) {
            if (!v->ints || !small_view(v, &m->in[i])) return false;
            m->in[i].data = m->in_data + i * SP_GRAPH_INTS;
            for (int e = 0; e < v->n_ints; e++) m->in_data[i * SP_GRAPH_INTS + e] = i * SP_GRAPH_INTS + e;
        } else if (v->constant) {
            m->in[i] = *v->constant;
        } else {
            return false;
        }
    }
    for (int i = 0; i < n->n_out; i++) {
        if (!small_view(n->out[i], &m->out[i])) return false;
        m->out[i].data = m->out_data + i * SP_GRAPH_INTS;
    }
    return true;
}

static sparta_status look_up(sp_graph *g, sp_node *n, const mover *m)
{
    for (int i = 0; i < n->n_out; i++) {
        int64_t count = sparta_tensor_elements(&m->out[i]);
        const sp_expr **ints = sp_arena_array(g->arena, (size_t)count, sizeof *ints);
        SP_NEED(g->cx, ints);
        for (int64_t e = 0; e < count; e++) {
            int64_t from = m->out_data[i * SP_GRAPH_INTS + e];
            ints[e] = n->in[from / SP_GRAPH_INTS]->ints[from % SP_GRAPH_INTS];
        }
        sp_ops_set_ints(n, i, ints);
    }
    return SPARTA_OK;
}

sparta_status sp_ops_move(sp_graph *g, sp_node *n, unsigned data)
{
    if (n->n_in > MOVED || n->n_out > MOVED || !n->in[0]->typed || sp_dtype_is_float(n->out[0]->dtype))
        return SPARTA_OK;
    mover *m = sp_zalloc(g->cx, sizeof *m);
    SP_NEED(g->cx, m);
    sparta_status status = SPARTA_OK;
    if (prepare(n, data, m)) {
        sp_op_args args = {&n->attrs, n->n_in, n->n_out, m->in, m->out};
        status = sp_builtin_run(g->cx, n->op, &args);
        if (status != SPARTA_OK)
            status = sp_fail_in(g->cx, "node '%.200s'", n->name);
        else
            status = look_up(g, n, m);
    }
    sp_free(g->cx, m);
    return status;
}

/* ------------------------------------------------------------------ elementwise rules */
/* Contents of output 0 from those of a and b; stops quietly where `follow` does not know. */
static sparta_status combine(sp_graph *g, sp_node *n, const sp_value *a, const sp_value *b)
{
    const sp_ints_fn follow = sp_rule_of(n->op)->follow;
    sparta_tensor va, vb, out;
    if (!follow || !a->ints || !b->ints || !small_view(n->out[0], &out) || !small_view(a, &va) ||
        !small_view(b, &vb))
        return SPARTA_OK;
    SP_TRY(sp_tensor_broadcast(g->cx, &va, out.rank, out.dim, &va));
    SP_TRY(sp_tensor_broadcast(g->cx, &vb, out.rank, out.dim, &vb));
    const sp_expr **ints = sp_arena_array(g->arena, (size_t)sparta_tensor_elements(&out), sizeof *ints);
    SP_NEED(g->cx, ints);
    const sparta_tensor *all[] = {&va, &vb, &out};
    for (sp_cursor w = sp_cursor_begin(out.rank, out.dim, 3, all); w.more; sp_cursor_next(&w)) {
        SP_TRY(follow(g, a->ints[w.at[0]], b->ints[w.at[1]], &ints[w.at[2]]));
        if (!ints[w.at[2]]) return SPARTA_OK;
    }
    sp_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

/* Arithmetic on narrow types wraps, which expressions do not; on i32 and i64 sizes fit. */
static bool wide(const sp_node *n)
{
    return n->in[0]->dtype == SPARTA_I64 || n->in[0]->dtype == SPARTA_I32;
}

sparta_status sp_ops_unary(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_same(g, n));
    if (!sp_rule_of(n->op)->follow || !wide(n)) return SPARTA_OK;
    const sp_expr *zero = sp_expr_const(g->arena, 0);
    SP_NEED(g->cx, zero);
    const sp_value scalar = {.dtype = n->in[0]->dtype, .ints = &zero, .n_ints = 1};
    return combine(g, n, &scalar, n->in[0]);
}

static sparta_status broadcast_both(sp_graph *g, sp_node *n, sparta_dtype dtype)
{
    sp_dims dims;
    SP_TRY(sp_ops_same_type(g, n, 0, 1));
    SP_TRY(sp_ops_broadcast(g, n, &n->in[0]->dims, &n->in[1]->dims, &dims));
    return sp_ops_done(n, dtype, &dims);
}

sparta_status sp_ops_binary(sp_graph *g, sp_node *n)
{
    SP_TRY(broadcast_both(g, n, n->in[0]->dtype));
    return wide(n) ? combine(g, n, n->in[0], n->in[1]) : SPARTA_OK;
}

sparta_status sp_ops_compare(sp_graph *g, sp_node *n)
{
    SP_TRY(broadcast_both(g, n, SPARTA_BOOL));
    return combine(g, n, n->in[0], n->in[1]);
}

sparta_status sp_ops_variadic(sp_graph *g, sp_node *n)
{
    sp_dims dims = n->in[0]->dims;
    for (int i = 1; i < n->n_in; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_broadcast(g, n, &dims, &n->in[i]->dims, &dims));
    }
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    if (n->n_in == 1) return sp_ops_move(g, n, 1);
    return n->n_in == 2 && wide(n) ? combine(g, n, n->in[0], n->in[1]) : SPARTA_OK;
}

/* ------------------------------------------------------------------ reductions */
/* A whole list to one number: Prod of a shape. */
static sparta_status reduce_list(sp_graph *g, sp_node *n)
{
    const sp_ints_fn follow = sp_rule_of(n->op)->follow;
    const sp_value *v = n->in[0];
    if (!follow || !wide(n) || !v->ints || v->n_ints == 0) return SPARTA_OK;
    const sp_expr **total = sp_arena_alloc(g->arena, sizeof *total);
    SP_NEED(g->cx, total);
    *total = v->ints[0];
    for (int i = 1; i < v->n_ints && *total; i++) SP_TRY(follow(g, *total, v->ints[i], total));
    if (*total) sp_ops_set_ints(n, 0, total);
    return SPARTA_OK;
}

sparta_status sp_ops_reduce(sp_graph *g, sp_node *n)
{
    const sp_value *x = n->in[0];
    bool set[SPARTA_RANK], keep = sp_attr_int(&n->attrs, "keepdims", 1), all = true;
    int count;
    SP_TRY(sp_ops_axes(g, n, 1, x->dims.rank, set, &count));
    bool every = count <= 0 && !sp_attr_int(&n->attrs, "noop_with_empty_axes", 0);
    sp_dims dims = {.rank = 0};
    for (int i = 0; i < x->dims.rank; i++) {
        bool reduced = every || set[i];
        all &= reduced;
        if (!reduced)
            SP_TRY(sp_ops_append(g, n, &dims, x->dims.dim[i]));
        else if (keep)
            SP_TRY(sp_ops_append(g, n, &dims, sp_expr_const(g->arena, 1)));
    }
    sp_ops_set(n, 0, x->dtype, &dims);
    return all ? reduce_list(g, n) : SPARTA_OK;
}
