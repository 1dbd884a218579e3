/* Attention of ONNX: y has the form of q, (B, heads, S, Dv) or (B, S, heads*Dv); present_key and present_value are (B, heads of k,
 * past + T, ...), and the scores (B, heads, S, past + T). */
#include "ops/flow.h"
#include "ops/heads.h"
#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD };

typedef struct shapes {
    sp_dims q, k, v; /* (B, heads, S, D) */
    const sp_expr *total;
} shapes;

static sparta_status check_heads(sp_graph *g, sp_node *n, shapes *s)
{
    SP_TRY(sp_ops_heads(g, n, Q, "q_num_heads", &s->q));
    SP_TRY(sp_ops_heads(g, n, K, "kv_num_heads", &s->k));
    SP_TRY(sp_ops_heads(g, n, V, "kv_num_heads", &s->v));
    if (n->in[Q]->dims.rank != n->in[K]->dims.rank || n->in[Q]->dims.rank != n->in[V]->dims.rank)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE,
                           "q, k and v have ranks %d, %d and %d; all must be 3, or all 4",
                           n->in[Q]->dims.rank, n->in[K]->dims.rank, n->in[V]->dims.rank);
    SP_TRY(sp_ops_agree(g, n, "batch of q and k", s->q.dim[0], s->k.dim[0]));
    SP_TRY(sp_ops_agree(g, n, "batch of q and v", s->q.dim[0], s->v.dim[0]));
    SP_TRY(sp_ops_agree(g, n, "heads of k and v", s->k.dim[1], s->v.dim[1]));
    SP_TRY(sp_ops_agree(g, n, "length of k and v", s->k.dim[2], s->v.dim[2]));
    SP_TRY(sp_ops_agree(g, n, "columns of a head of q and of k", s->q.dim[3], s->k.dim[3]));
    const sp_expr *each = NULL;
    if (sp_ops_positive(g, s->k.dim[1])) SP_TRY(sp_ops_divide(g, s->q.dim[1], s->k.dim[1], &each));
    if (each) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s heads of q are no multiple of %s heads of k and v",
                       sp_ops_say(g, s->q.dim[1]), sp_ops_say(g, s->k.dim[1]));
}

static sparta_status check_past(sp_graph *g, sp_node *n, shapes *s)
{
    s->total = s->k.dim[2];
    if (sp_ops_has(n, PAST_K) != sp_ops_has(n, PAST_V))
        return sp_ops_fail(g, n, SPARTA_E_FORMAT, "past_key and past_value come together");
    if (!sp_ops_has(n, PAST_K)) return SPARTA_OK;
    if (sp_ops_has(n, NONPAD))
        return sp_ops_fail(g, n, SPARTA_E_FORMAT, "past_key and nonpad_kv_seqlen exclude each other");
    for (int i = 0; i < 2; i++) {
        const sp_dims *now = i ? &s->v : &s->k, *past = &n->in[PAST_K + i]->dims;
        SP_TRY(sp_ops_rank(g, n, PAST_K + i, 4, 4));
        SP_TRY(sp_ops_same_type(g, n, K + i, PAST_K + i));
        SP_TRY(sp_ops_agree(g, n, "batch of the past", past->dim[0], now->dim[0]));
        SP_TRY(sp_ops_agree(g, n, "heads of the past", past->dim[1], now->dim[1]));
        SP_TRY(sp_ops_agree(g, n, "length of the past", past->dim[2], n->in[PAST_K]->dims.dim[2]));
        SP_TRY(sp_ops_agree(g, n, "columns of the past", past->dim[3], now->dim[3]));
    }
    s->total = sp_expr_add(g->arena, n->in[PAST_K]->dims.dim[2], s->k.dim[2]);
    SP_NEED(g->cx, s->total);
    return SPARTA_OK;
}

/* The mask repeats into (B, heads, S, total); its last dim may be shorter, and what it does not reach is masked. One column would
 * be both: one key, or the same for all. */
static sparta_status check_mask(sp_graph *g, sp_node *n, const shapes *s)
{
    int64_t length, total;
    if (!sp_ops_has(n, MASK)) return SPARTA_OK;
    const sp_dims *m = &n->in[MASK]->dims;
    SP_TRY(sp_ops_rank(g, n, MASK, 1, 4));
    if (n->in[MASK]->dtype != SPARTA_BOOL) SP_TRY(sp_ops_same_type(g, n, Q, MASK));
    const sp_expr *last = m->dim[m->rank - 1];
    bool shorter = sp_expr_is_const(last, &length) && sp_expr_is_const(s->total, &total) && length < total;
    if (sp_expr_is(last, 1) && !sp_expr_is(s->total, 1))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "a mask of one column for %s keys may mean all of them or the first; expand it",
                           sp_ops_say(g, s->total));
    if (!shorter) SP_TRY(sp_ops_agree(g, n, "columns of the mask and keys", last, s->total));
    sp_dims full = {.rank = 4, .dim = {s->q.dim[0], s->q.dim[1], s->q.dim[2], last}};
    return sp_ops_broadcasts_to(g, n, m, &full);
}

static sparta_status check_attributes(sp_graph *g, sp_node *n)
{
    int64_t mode = sp_attr_int(&n->attrs, "qk_matmul_output_mode", 0);
    int64_t precision = sp_attr_int(&n->attrs, "softmax_precision", 1);
    sparta_dtype dtype;
    if (mode < 0 || mode > 3)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "qk_matmul_output_mode %lld; 0 to 3 are known",
                           (long long)mode);
    if (!sp_dtype_from_onnx(precision, &dtype) || !sp_dtype_is_float(dtype))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "softmax_precision %lld is no float type",
                           (long long)precision);
    return SPARTA_OK;
}

static sparta_status check_nonpad(sp_graph *g, sp_node *n, const shapes *s)
{
    if (!sp_ops_has(n, NONPAD)) return SPARTA_OK;
    SP_TRY(sp_ops_types(g, n, NONPAD, SP_TYPE(SPARTA_I64)));
    SP_TRY(sp_ops_rank(g, n, NONPAD, 1, 1));
    return sp_ops_agree(g, n, "batch of nonpad_kv_seqlen", n->in[NONPAD]->dims.dim[0], s->q.dim[0]);
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    shapes s;
    for (int i = Q; i <= V; i++) SP_TRY(sp_ops_types(g, n, i, SP_FLOATS));
    SP_TRY(sp_ops_same_type(g, n, Q, K));
    SP_TRY(check_attributes(g, n));
    SP_TRY(check_heads(g, n, &s));
    SP_TRY(check_past(g, n, &s));
    SP_TRY(check_mask(g, n, &s));
    SP_TRY(check_nonpad(g, n, &s));
    sp_dims y = {.rank = 4, .dim = {s.q.dim[0], s.q.dim[1], s.q.dim[2], s.v.dim[3]}};
    if (n->in[Q]->dims.rank == 3) {
        const sp_expr *columns = sp_expr_mul(g->arena, s.q.dim[1], s.v.dim[3]);
        SP_NEED(g->cx, columns);
        y = (sp_dims){.rank = 3, .dim = {s.q.dim[0], s.q.dim[2], columns}};
    }
    sp_dims keys = {.rank = 4, .dim = {s.k.dim[0], s.k.dim[1], s.total, s.k.dim[3]}};
    sp_dims values = {.rank = 4, .dim = {s.v.dim[0], s.v.dim[1], s.total, s.v.dim[3]}};
    sp_dims scores = {.rank = 4, .dim = {s.q.dim[0], s.q.dim[1], s.q.dim[2], s.total}};
    sp_ops_set(n, 0, n->in[Q]->dtype, &y);
    sp_ops_set(n, 1, n->in[K]->dtype, &keys);
    sp_ops_set(n, 2, n->in[V]->dtype, &values);
    sp_ops_set(n, 3, n->in[Q]->dtype, &scores);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ flow */
enum { B, H, R, S, T, D, E, AXES }; /* R: heads of q for one head of k and v */

static void head_axes(sp_flow_operand *o, const int *l, bool four, bool q, int length, int columns)
{
    o->axis[0] = sp_axis_of(l[B]);
    sp_axis heads = q ? sp_axis_pair(l[H], l[R]) : sp_axis_of(l[H]), all = heads;
    all.label[all.n++] = l[columns];
    o->axis[four ? 2 : 1] = sp_axis_of(l[length]);
    o->axis[four ? 1 : 2] = four ? heads : all;
    if (four) o->axis[3] = sp_axis_of(l[columns]);
}

static void mask_axes(sp_axes *a, const int *l)
{
    if (!sp_ops_has(a->n, MASK)) return;
    const sp_dims *m = &a->n->in[MASK]->dims;
    sp_axis full[4] = {sp_axis_of(l[B]), sp_axis_pair(l[H], l[R]), sp_axis_of(l[S]), sp_axis_of(l[T])};
    a->in[MASK].role = SP_ARG;
    for (int k = 0; k < m->rank; k++)
        if (!sp_expr_is(m->dim[k], 1)) a->in[MASK].axis[k] = full[4 - m->rank + k];
}

/* Is there a query that the mask hides every key from? Its answer is NaN. */
static bool hides_all(const sparta_tensor *m, bool causal)
{
    const int64_t keys = m->dim[m->rank - 1], queries = m->rank > 1 ? m->dim[m->rank - 2] : 1;
    const int64_t rows = keys > 0 ? sparta_tensor_elements(m) / keys : 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t seen = causal && r % queries + 1 < keys ? r % queries + 1 : keys;
        bool some = false;
        for (int64_t t = 0; t < seen && !some; t++) {
            double x = sp_element_get(m->dtype, m->data, r * keys + t);
            some = m->dtype == SPARTA_BOOL ? x != 0 : x > -INFINITY;
        }
        if (!some) return true;
    }
    return false;
}

/* A mask that is shorter than the keys has a rule of its own. */
static bool plain_mask(const sp_node *n, const sp_expr *keys)
{
    if (!sp_ops_has(n, MASK)) return true;
    const sp_value *m = n->in[MASK];
    if (!sp_expr_equal(m->dims.dim[m->dims.rank - 1], keys)) return false;
    return !m->constant || !hides_all(m->constant, sp_attr_int(&n->attrs, "is_causal", 0) != 0);
}

/* What runs must know: the heads that the attributes count; and unknown booleans would be taken for false, so none is made. */
static void run_sizes(sp_axes *a, const int *l)
{
    for (int i = H; i <= R; i++) a->label[l[i]].run = SP_MAX(a->label[l[i]].size, 0);
    if (sp_ops_has(a->n, MASK) && !a->n->in[MASK]->constant && a->n->in[MASK]->dtype == SPARTA_BOOL)
        a->label[l[T]].run = -1;
}

/* y = softmax(q k) v: zero where all of v's column is. Opaque with a past, with padding and with further outputs. */
static sparta_status axes(sp_axes *a)
{
    sp_node *n = (sp_node *)a->n;
    shapes s;
    int l[AXES];
    if (n->n_out > 1 || sp_ops_has(n, PAST_K) || sp_ops_has(n, NONPAD)) return SPARTA_OK;
    SP_TRY(check_heads(a->g, n, &s));
    const sp_expr *each;
    SP_TRY(sp_ops_divide(a->g, s.q.dim[1], s.k.dim[1], &each));
    const sp_expr *dim[AXES] = {s.q.dim[0], s.k.dim[1], each, s.q.dim[2], s.k.dim[2], s.q.dim[3], s.v.dim[3]};
    static const sp_label_kind kind[AXES] = {[T] = SP_SUM, [D] = SP_WHOLE};
    static const char *const why[AXES] = {
        [T] = "a softmax runs over them", [D] = "scores are sums over them; prune whole heads"};
    if (!plain_mask(n, s.k.dim[2])) return SPARTA_OK;
    for (int i = 0; i < AXES; i++) SP_TRY(sp_axes_label(a, dim[i], kind[i], why[i], &l[i]));
    if (sp_attr_int(&n->attrs, "is_causal", 0)) a->label[l[S]].why = "a causal mask counts them";
    run_sizes(a, l);
    bool four = n->in[Q]->dims.rank == 4;
    /* Bools may hide every key of a query, whose result is then NaN, not zero. */
    bool hides = sp_ops_has(n, MASK) && n->in[MASK]->dtype == SPARTA_BOOL && !n->in[MASK]->constant;
    if (hides) a->label[l[T]].kind = SP_WHOLE;
    a->how = hides ? SP_FLOW_FUNCTION : SP_FLOW_PRODUCT;
    a->no_values = true;
    a->in[Q].role = a->in[K].role = a->out[0].role = SP_ARG;
    a->in[V].role = hides ? SP_ARG : SP_FACTOR;
    head_axes(&a->in[Q], l, four, true, S, D);
    head_axes(&a->in[K], l, four, false, T, D);
    head_axes(&a->in[V], l, four, false, T, E);
    head_axes(&a->out[0], l, four, true, S, E);
    mask_axes(a, l);
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    const sp_label *label = s->axes->label;
    int64_t kv = sp_shrink_count(s, H, 0, label[H].size), q = kv * sp_shrink_count(s, R, 0, label[R].size);
    if (sp_attr_int(&s->n->attrs, "q_num_heads", 0)) SP_TRY(sp_shrink_int(s, "q_num_heads", q));
    if (sp_attr_int(&s->n->attrs, "kv_num_heads", 0)) SP_TRY(sp_shrink_int(s, "kv_num_heads", kv));
    return SPARTA_OK;
}

SP_RULE(OnnxAttention, shape, SP_FLOATS, SP_CONSERVATIVE, axes, shrink,
        "head by head; zero where the values of a head are; opaque with a past", "");
