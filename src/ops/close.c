/* The comparison of close.h. */
#include "ops/close.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ two results */
typedef struct sums {
    double ab, aa, bb; /* of finite pairs */
    double max_abs, max_b;
    bool broken; /* a NaN or an Inf on one side only */
} sums;

static void add(sums *s, double a, double b)
{
    if (isfinite(b)) s->max_b = fmax(s->max_b, fabs(b));
    if (!isfinite(a) || !isfinite(b)) {
        bool same = (isnan(a) && isnan(b)) || a == b;
        s->broken |= !same;
        return;
    }
    s->max_abs = fmax(s->max_abs, fabs(a - b));
    s->ab += a * b;
    s->aa += a * a;
    s->bb += b * b;
}

static sums compare(const sparta_tensor *a, const sparta_tensor *b)
{
    sums s = {0};
    const sparta_tensor *both[] = {a, b};
    for (sparta_walk w = sparta_walk_begin(a->rank, a->dim, 2, both); w.more; sparta_walk_next(&w))
        add(&s, sparta_element_get(a->dtype, a->data, w.at[0]),
            sparta_element_get(b->dtype, b->data, w.at[1]));
    return s;
}

/* What max|a-b| may be. */
static double allowed(const sparta_tolerance *t, sparta_dtype dtype, double max_b, double slack)
{
    const bool narrow = dtype == SPARTA_F16 || dtype == SPARTA_BF16, real = sparta_dtype_is_float(dtype);
    const double rtol = t->rtol >= 0 ? t->rtol : !real ? 0 : narrow ? 2e-2 : 1e-4;
    return rtol * max_b + (t->atol >= 0 ? t->atol : slack);
}

bool sparta_close(const sparta_tensor *a, const sparta_tensor *b, const sparta_tolerance *t, double slack,
                  sparta_closeness *out)
{
    *out = (sparta_closeness){.max_abs = INFINITY, .max_rel = INFINITY};
    if (a->dtype != b->dtype || !sparta_tensor_same_shape(a, b)) return false;
    const sums c = compare(a, b);
    out->max_abs = c.broken ? INFINITY : c.max_abs;
    out->max_rel = out->max_abs == 0 ? 0 : out->max_abs / c.max_b;
    out->cosine = c.aa > 0 && c.bb > 0 ? c.ab / sqrt(c.aa * c.bb) : c.aa == c.bb;
    out->largest = c.max_b;
    out->allowed = allowed(t, b->dtype, c.max_b, slack);
    out->ok = !c.broken && c.max_abs <= out->allowed;
    return out->ok;
}

/* ------------------------------------------------------------------ the scale of an output */
static double largest_of(const sparta_tensor *t)
{
    double most = 0;
    if (!sparta_dtype_is_float(t->dtype)) return 0; /* sums of integers are exact */
    for (sparta_walk w = sparta_walk_begin(t->rank, t->dim, 1, &t); w.more; sparta_walk_next(&w)) {
        const double x = fabs(sparta_element_get(t->dtype, t->data, w.at[0]));
        if (x > most && isfinite(x)) most = x;
    }
    return most;
}

sparta_status sparta_scales_create(sparta_ctx *cx, const sparta_graph *g, const sparta_named_tensor *inputs,
                                   int n, sparta_scales *out)
{
    sparta_scales s = {.cx = cx, .g = g};
    s.largest = sparta_alloc_array(cx, (size_t)g->n_values + 1, sizeof *s.largest);
    SPARTA_NEED(cx, s.largest);
    for (int i = 0; i < g->n_values; i++) s.largest[i] = -1;
    for (int i = 0; i < n; i++) {
        const sparta_value *v = sparta_graph_find(g, inputs[i].name);
        if (v) s.largest[v->id] = largest_of(&inputs[i].tensor);
    }
    *out = s;
    return SPARTA_OK;
}

void sparta_scales_free(sparta_scales *s)
{
    if (s->largest) sparta_free(s->cx, s->largest);
    s->largest = NULL;
}

sparta_status sparta_scales_watch(void *scales, const sparta_value *v, const sparta_tensor *t)
{
    const sparta_scales *s = scales;
    s->largest[v->id] = largest_of(t);
    return SPARTA_OK;
}

/* What only moves elements computes nothing: what comes before it does. */
static bool moves(const sparta_node *n)
{
    return n->op == SPARTA_OP_Identity || n->op == SPARTA_OP_Reshape || n->op == SPARTA_OP_Transpose ||
           n->op == SPARTA_OP_Flatten || n->op == SPARTA_OP_Squeeze || n->op == SPARTA_OP_Unsqueeze;
}

/* The largest of an operand; 0: it is not there. */
static double operand(const sparta_scales *s, const sparta_node *n, int i)
{
    const sparta_value *v = i < n->n_in ? n->in[i] : NULL;
    if (!v) return 0;
    if (s->largest[v->id] < 0 && v->constant) s->largest[v->id] = largest_of(v->constant);
    return SPARTA_MAX(s->largest[v->id], 0);
}

/* The largest of the result. */
static double result(const sparta_scales *s, const sparta_node *n)
{
    return SPARTA_MAX(s->largest[n->out[0]->id], 0);
}

/* A product adds up terms that are no larger than the product of both. */
static double largest_term(const sparta_scales *s, const sparta_node *n)
{
    double most = operand(s, n, 0) * operand(s, n, 1);
    for (int i = 2; i < n->n_in; i++) most = SPARTA_MAX(most, operand(s, n, i));
    return most;
}

/* What s is at most, whatever the operands are. What picks elements gives some of them as they are, and those left out do not count
 * (padding of -1e9 or -3.4e38, a Clip without an upper end). What multiplies, or takes a root, is off in the last digits of its result;
 * so are an exponential, whose operand is added to by at most 32 such digits, and a logarithm, but for the one of 1. */
static double ceiling(const sparta_scales *s, const sparta_node *n)
{
    switch (n->op) {
    case SPARTA_OP_MatMul:
    case SPARTA_OP_Gemm:
    case SPARTA_OP_Linear:
    case SPARTA_OP_Conv:
    case SPARTA_OP_ConvTranspose: return largest_term(s, n);
    case SPARTA_OP_Clip: return operand(s, n, 0);
    case SPARTA_OP_Where:
    case SPARTA_OP_Max:
    case SPARTA_OP_Min:
    case SPARTA_OP_ReduceMax:
    case SPARTA_OP_ReduceMin:
    case SPARTA_OP_MaxPool:
    case SPARTA_OP_GlobalMaxPool:
    case SPARTA_OP_TopK:
    case SPARTA_OP_Slice:
    case SPARTA_OP_Split:
    case SPARTA_OP_Gather:
    case SPARTA_OP_GatherElements:
    case SPARTA_OP_GatherND:
    case SPARTA_OP_Mul:
    case SPARTA_OP_Div:
    case SPARTA_OP_Reciprocal:
    case SPARTA_OP_Sqrt:
    case SPARTA_OP_Pow: return result(s, n);
    case SPARTA_OP_Softmax:
    case SPARTA_OP_Sigmoid:
    case SPARTA_OP_Tanh:
    case SPARTA_OP_Exp: return 32 * result(s, n);
    case SPARTA_OP_Log:
    case SPARTA_OP_ReduceLogSumExp: return SPARTA_MAX(result(s, n), 1);
    default: return INFINITY;
    }
}

const sparta_node *sparta_computed_by(const sparta_value *v)
{
    while (v->producer && moves(v->producer)) v = v->producer->in[0];
    return v->producer;
}

double sparta_scales_of(const sparta_scales *s, const sparta_value *v)
{
    double most = 0;
    const sparta_node *n = sparta_computed_by(v);
    if (!n) return SPARTA_MAX(s->largest[v->id], 0);
    for (int i = 0; i < n->n_in; i++) most = SPARTA_MAX(most, operand(s, n, i));
    return SPARTA_MIN(most, ceiling(s, n));
}

double sparta_slack(const sparta_scales *s, const sparta_value *v)
{
    return sparta_dtype_is_float(v->dtype) ? 1e-6 * sparta_scales_of(s, v) : 0;
}
