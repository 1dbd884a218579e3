/* Attention of ONNX: y has the form of q, (B, heads, S, Dv) or (B, S, heads*Dv); present_key and present_value are (B, heads of k,
 * past + T, ...), and the scores (B, heads, S, past + T). */
#include "ops/flow.h"
#include "ops/heads.h"
#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD };

typedef struct shapes {
    sparta_dims q, k, v; /* (B, heads, S, D) */
    const sparta_expr *total;
} shapes;

static sparta_status check_heads(sparta_graph *g, sparta_node *n, shapes *s)
{
    SPARTA_TRY(sparta_ops_heads(g, n, Q, "q_num_heads", &s->q));
    SPARTA_TRY(sparta_ops_heads(g, n, K, "kv_num_heads", &s->k));
    SPARTA_TRY(sparta_ops_heads(g, n, V, "kv_num_heads", &s->v));
    if (n->in[Q]->dims.rank != n->in[K]->dims.rank || n->in[Q]->dims.rank != n->in[V]->dims.rank)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                               "q, k and v have ranks %d, %d and %d; all must be 3, or all 4",
                               n->in[Q]->dims.rank, n->in[K]->dims.rank, n->in[V]->dims.rank);
    SPARTA_TRY(sparta_ops_agree(g, n, "batch of q and k", s->q.dim[0], s->k.dim[0]));
    SPARTA_TRY(sparta_ops_agree(g, n, "batch of q and v", s->q.dim[0], s->v.dim[0]));
    SPARTA_TRY(sparta_ops_agree(g, n, "heads of k and v", s->k.dim[1], s->v.dim[1]));
    SPARTA_TRY(sparta_ops_agree(g, n, "length of k and v", s->k.dim[2], s->v.dim[2]));
    SPARTA_TRY(sparta_ops_agree(g, n, "columns of a head of q and of k", s->q.dim[3], s->k.dim[3]));
    const sparta_expr *each = NULL;
    if (sparta_ops_positive(g, s->k.dim[1]))
        SPARTA_TRY(sparta_ops_divide(g, s->q.dim[1], s->k.dim[1], &each));
    if (each) return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s heads of q are no multiple of %s heads of k and v",
                           sparta_ops_say(g, s->q.dim[1]), sparta_ops_say(g, s->k.dim[1]));
}

static sparta_status check_past(sparta_graph *g, sparta_node *n, shapes *s)
{
    s->total = s->k.dim[2];
    if (sparta_ops_has(n, PAST_K) != sparta_ops_has(n, PAST_V))
        return sparta_ops_fail(g, n, SPARTA_E_FORMAT, "past_key and past_value come together");
    if (!sparta_ops_has(n, PAST_K)) return SPARTA_OK;
    if (sparta_ops_has(n, NONPAD))
        return sparta_ops_fail(g, n, SPARTA_E_FORMAT, "past_key and nonpad_kv_seqlen exclude each other");
    for (int i = 0; i < 2; i++) {
        const sparta_dims *now = i ? &s->v : &s->k, *past = &n->in[PAST_K + i]->dims;
        SPARTA_TRY(sparta_ops_rank(g, n, PAST_K + i, 4, 4));
        SPARTA_TRY(sparta_ops_same_type(g, n, K + i, PAST_K + i));
        SPARTA_TRY(sparta_ops_agree(g, n, "batch of the past", past->dim[0], now->dim[0]));
        SPARTA_TRY(sparta_ops_agree(g, n, "heads of the past", past->dim[1], now->dim[1]));
        SPARTA_TRY(sparta_ops_agree(g, n, "length of the past", past->dim[2], n->in[PAST_K]->dims.dim[2]));
        SPARTA_TRY(sparta_ops_agree(g, n, "columns of the past", past->dim[3], now->dim[3]));
    }
    s->total = sparta_expr_add(g->arena, n->in[PAST_K]->dims.dim[2], s->k.dim[2]);
    SPARTA_NEED(g->cx, s->total);
    return SPARTA_OK;
}

/* The mask repeats into (B, heads, S, total); its last dim may be shorter, and what it does not reach is masked. One column would
 * be both: one key, or the same for all. */
static sparta_status check_mask(sparta_graph *g, sparta_node *n, const shapes *s)
{
    int64_t length, total;
    if (!sparta_ops_has(n, MASK)) return SPARTA_OK;
    const sparta_dims *m = &n->in[MASK]->dims;
    SPARTA_TRY(sparta_ops_rank(g, n, MASK, 1, 4));
    if (n->in[MASK]->dtype != SPARTA_BOOL) SPARTA_TRY(sparta_ops_same_type(g, n, Q, MASK));
    const sparta_expr *last = m->dim[m->rank - 1];
    bool shorter =
        sparta_expr_is_const(last, &length) && sparta_expr_is_const(s->total, &total) && length < total;
    if (sparta_expr_is(last, 1) && !sparta_expr_is(s->total, 1))
        return sparta_ops_fail(
            g, n, SPARTA_E_UNSUPPORTED,
            "a mask of one column for %s keys may mean all of them or the first; expand it",
            sparta_ops_say(g, s->total));
    if (!shorter) SPARTA_TRY(sparta_ops_agree(g, n, "columns of the mask and keys", last, s->total));
    sparta_dims full = {.rank = 4, .dim = {s->q.dim[0], s->q.dim[1], s->q.dim[2], last}};
    return sparta_ops_broadcasts_to(g, n, m, &full);
}

static sparta_status check_attributes(sparta_graph *g, sparta_node *n)
{
    int64_t mode = sparta_attr_int(&n->attrs, "qk_matmul_output_mode", 0);
    int64_t precision = sparta_attr_int(&n->attrs, "softmax_precision", 1);
    sparta_dtype dtype;
    if (mode < 0 || mode > 3)
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "qk_matmul_output_mode %lld; 0 to 3 are known",
                               (long long)mode);
    if (!sparta_dtype_from_onnx(precision, &dtype) || !sparta_dtype_is_float(dtype))
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "softmax_precision %lld is no float type",
                               (long long)precision);
    return SPARTA_OK;
}

static sparta_status check_nonpad(sparta_graph *g, sparta_node *n, const shapes *s)
{
    if (!sparta_ops_has(n, NONPAD)) return SPARTA_OK;
    SPARTA_TRY(sparta_ops_types(g, n, NONPAD, SPARTA_TYPE(SPARTA_I64)));
    SPARTA_TRY(sparta_ops_rank(g, n, NONPAD, 1, 1));
    return sparta_ops_agree(g, n, "batch of nonpad_kv_seqlen", n->in[NONPAD]->dims.dim[0], s->q.dim[0]);
}

sparta_status sparta_shape_OnnxAttention(sparta_graph *g, sparta_node *n)
{
    shapes s;
    for (int i = Q; i <= V; i++) SPARTA_TRY(sparta_ops_types(g, n, i, SPARTA_FLOATS));
    SPARTA_TRY(sparta_ops_same_type(g, n, Q, K));
    SPARTA_TRY(check_attributes(g, n));
    SPARTA_TRY(check_heads(g, n, &s));
    SPARTA_TRY(check_past(g, n, &s));
    SPARTA_TRY(check_mask(g, n, &s));
    SPARTA_TRY(check_nonpad(g, n, &s));
    sparta_dims y = {.rank = 4, .dim = {s.q.dim[0], s.q.dim[1], s.q.dim[2], s.v.dim[3]}};
    if (n->in[Q]->dims.rank == 3) {
        const sparta_expr *columns = sparta_expr_mul(g->arena, s.q.dim[1], s.v.dim[3]);
        SPARTA_NEED(g->cx, columns);
        y = (sparta_dims){.rank = 3, .dim = {s.q.dim[0], s.q.dim[2], columns}};
    }
    sparta_dims keys = {.rank = 4, .dim = {s.k.dim[0], s.k.dim[1], s.total, s.k.dim[3]}};
    sparta_dims values = {.rank = 4, .dim = {s.v.dim[0], s.v.dim[1], s.total, s.v.dim[3]}};
    sparta_dims scores = {.rank = 4, .dim = {s.q.dim[0], s.q.dim[1], s.q.dim[2], s.total}};
    sparta_ops_set(n, 0, n->in[Q]->dtype, &y);
    sparta_ops_set(n, 1, n->in[K]->dtype, &keys);
    sparta_ops_set(n, 2, n->in[V]->dtype, &values);
    sparta_ops_set(n, 3, n->in[Q]->dtype, &scores);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ flow */
enum { B, H, R, S, T, D, E, AXES }; /* R: heads of q for one head of k and v */

static void head_axes(sparta_flow_operand *o, const int *l, bool four, bool q, int length, int columns)
{
    o->axis[0] = sparta_axis_of(l[B]);
    sparta_axis heads = q ? sparta_axis_pair(l[H], l[R]) : sparta_axis_of(l[H]), all = heads;
    all.label[all.n++] = l[columns];
    o->axis[four ? 2 : 1] = sparta_axis_of(l[length]);
    o->axis[four ? 1 : 2] = four ? heads : all;
    if (four) o->axis[3] = sparta_axis_of(l[columns]);
}

static void mask_axes(sparta_axes *a, const int *l)
{
    if (!sparta_ops_has(a->n, MASK)) return;
    const sparta_dims *m = &a->n->in[MASK]->dims;
    sparta_axis full[4] = {sparta_axis_of(l[B]), sparta_axis_pair(l[H], l[R]), sparta_axis_of(l[S]),
                           sparta_axis_of(l[T])};
    a->in[MASK].role = SPARTA_ARG;
    for (int k = 0; k < m->rank; k++)
        if (!sparta_expr_is(m->dim[k], 1)) a->in[MASK].axis[k] = full[4 - m->rank + k];
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
            double x = sparta_element_get(m->dtype, m->data, r * keys + t);
            some = m->dtype == SPARTA_BOOL ? x != 0 : x > -INFINITY;
        }
        if (!some) return true;
    }
    return false;
}

/* A mask that is shorter than the keys has a rule of its own. */
static bool plain_mask(const sparta_node *n, const sparta_expr *keys)
{
    if (!sparta_ops_has(n, MASK)) return true;
    const sparta_value *m = n->in[MASK];
    if (!sparta_expr_equal(m->dims.dim[m->dims.rank - 1], keys)) return false;
    return !m->constant || !hides_all(m->constant, sparta_attr_int(&n->attrs, "is_causal", 0) != 0);
}

/* What runs must know: the heads that the attributes count; and unknown booleans would be taken for false, so none is made. */
static void run_sizes(sparta_axes *a, const int *l)
{
    for (int i = H; i <= R; i++) a->label[l[i]].run = SPARTA_MAX(a->label[l[i]].size, 0);
    if (sparta_ops_has(a->n, MASK) && !a->n->in[MASK]->constant && a->n->in[MASK]->dtype == SPARTA_BOOL)
        a->label[l[T]].run = -1;
}

/* y = softmax(q k) v: zero where all of v's column is. Opaque with a past, with padding and with further outputs. */
static sparta_status axes(sparta_axes *a)
{
    sparta_node *n = (sparta_node *)a->n;
    shapes s;
    int l[AXES];
    if (n->n_out > 1 || sparta_ops_has(n, PAST_K) || sparta_ops_has(n, NONPAD)) return SPARTA_OK;
    SPARTA_TRY(check_heads(a->g, n, &s));
    const sparta_expr *each;
    SPARTA_TRY(sparta_ops_divide(a->g, s.q.dim[1], s.k.dim[1], &each));
    const sparta_expr *dim[AXES] = {s.q.dim[0], s.k.dim[1], each,      s.q.dim[2],
                                    s.k.dim[2], s.q.dim[3], s.v.dim[3]};
    static const sparta_label_kind kind[AXES] = {[T] = SPARTA_SUM, [D] = SPARTA_WHOLE};
    static const char *const why[AXES] = {
        [T] = "a softmax runs over them", [D] = "scores are sums over them; prune whole heads"};
    if (!plain_mask(n, s.k.dim[2])) return SPARTA_OK;
    for (int i = 0; i < AXES; i++) SPARTA_TRY(sparta_axes_label(a, dim[i], kind[i], why[i], &l[i]));
    if (sparta_attr_int(&n->attrs, "is_causal", 0)) a->label[l[S]].why = "a causal mask counts them";
    run_sizes(a, l);
    bool four = n->in[Q]->dims.rank == 4;
    /* Bools may hide every key of a query, whose result is then NaN, not zero. */
    bool hides = sparta_ops_has(n, MASK) && n->in[MASK]->dtype == SPARTA_BOOL && !n->in[MASK]->constant;
    if (hides) a->label[l[T]].kind = SPARTA_WHOLE;
    a->how = hides ? SPARTA_FLOW_FUNCTION : SPARTA_FLOW_PRODUCT;
    a->no_values = true;
    a->in[Q].role = a->in[K].role = a->out[0].role = SPARTA_ARG;
    a->in[V].role = hides ? SPARTA_ARG : SPARTA_FACTOR;
    head_axes(&a->in[Q], l, four, true, S, D);
    head_axes(&a->in[K], l, four, false, T, D);
    head_axes(&a->in[V], l, four, false, T, E);
    head_axes(&a->out[0], l, four, true, S, E);
    mask_axes(a, l);
    return SPARTA_OK;
}

static sparta_status shrink(const sparta_shrink *s)
{
    const sparta_label *label = s->axes->label;
    int64_t kv = sparta_shrink_count(s, H, 0, label[H].size),
            q = kv * sparta_shrink_count(s, R, 0, label[R].size);
    if (sparta_attr_int(&s->n->attrs, "q_num_heads", 0)) SPARTA_TRY(sparta_shrink_int(s, "q_num_heads", q));
    if (sparta_attr_int(&s->n->attrs, "kv_num_heads", 0))
        SPARTA_TRY(sparta_shrink_int(s, "kv_num_heads", kv));
    return SPARTA_OK;
}

const sparta_flow sparta_flow_OnnxAttention = {
    SPARTA_CONSERVATIVE,
    "head by head; zero where the values of a head are; opaque with a past",
    "floats",
    "",
    axes,
    shrink};
