/* The comparison of close.h. */
#include "ops/close.h"
#include <math.h>
#include <string.h>

#define UNIT_FACTOR 2

/* ------------------------------------------------------------------ two results */
typedef struct sums {
    double ab, aa, bb; /* of finite pairs */
    double max_abs, max_b;
    int64_t broken;
} sums;

bool sp_is_broken(double a, double b)
{
    const bool same = (isnan(a) && isnan(b)) || a == b;
    return (!isfinite(a) || !isfinite(b)) && !same;
}

static void add(sums *s, double a, double b)
{
    if (isfinite(b)) s->max_b = fmax(s->max_b, fabs(b));
    s->broken += sp_is_broken(a, b);
    if (!isfinite(a) || !isfinite(b)) return;
    s->max_abs = fmax(s->max_abs, fabs(a - b));
    s->ab += a * b;
    s->aa += a * a;
    s->bb += b * b;
}

static double element(const sparta_tensor *t, int64_t at)
{
    return sp_element_get(t->dtype, t->data, at);
}

/* Not elements that are NaN in mark, which is of this shape; NULL: all. */
static sums compare(const sparta_tensor *a, const sparta_tensor *b, const sparta_tensor *mark)
{
    sums s = {0};
    const sparta_tensor *all[] = {a, b, mark};
    for (sp_cursor w = sp_cursor_begin(a->rank, a->dim, mark ? 3 : 2, all); w.more; sp_cursor_next(&w))
        if (!mark || !isnan(element(mark, w.at[2]))) add(&s, element(a, w.at[0]), element(b, w.at[1]));
    return s;
}

/* Smaller numbers have fewer digits. */
static double smallest(sparta_dtype dtype)
{
    return dtype == SPARTA_F64        ? 0x1p-1022
           : dtype == SPARTA_F16      ? 0x1p-14
           : sp_dtype_is_float(dtype) ? 0x1p-126
                                      : 0;
}

/* What max|a-b| may be. */
static double allowed(const sp_tolerance *t, sparta_dtype dtype, double max_b, double slack)
{
    const bool narrow = dtype == SPARTA_F16 || dtype == SPARTA_BF16, real = sp_dtype_is_float(dtype);
    const double rtol = t->rtol >= 0 ? t->rtol : !real ? 0 : narrow ? 2e-2 : 1e-4;
    return rtol * fmax(max_b, smallest(dtype)) + (t->atol >= 0 ? t->atol : slack);
}

bool sp_close_units(const sparta_tensor *a, const sparta_tensor *b, const sp_tolerance *t, double slack,
                    const sp_units *units, sp_closeness *out)
{
    *out = (sp_closeness){.max_abs = INFINITY, .max_rel = INFINITY};
    if (a->dtype != b->dtype || !sp_tensor_same_shape(a, b)) return false;
    if (units) slack += UNIT_FACTOR * units->change;
    const bool some = units && units->broken && units->broken < units->elements;
    const sums c = compare(a, b, some ? &units->mark : NULL);
    out->max_abs = c.broken ? INFINITY : c.max_abs;
    out->finite = c.max_abs;
    out->broken = c.broken;
    out->max_rel = out->max_abs == 0 ? 0 : out->max_abs / c.max_b;
    out->cosine = c.aa > 0 && c.bb > 0 ? c.ab / sqrt(c.aa * c.bb) : c.aa == c.bb;
    out->largest = c.max_b;
    out->allowed = allowed(t, b->dtype, c.max_b, slack);
    out->ok = !c.broken && c.max_abs <= out->allowed;
    return out->ok;
}

bool sp_close(const sparta_tensor *a, const sparta_tensor *b, const sp_tolerance *t, double slack,
              sp_closeness *out)
{
    return sp_close_units(a, b, t, slack, NULL, out);
}

/* ------------------------------------------------------------------ the scale of an output */
double sp_largest(const sparta_tensor *t)
{
    double most = 0;
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, &t); w.more; sp_cursor_next(&w)) {
        const double x = fabs(sp_element_get(t->dtype, t->data, w.at[0]));
        if (x > most && isfinite(x)) most = x;
    }
    return most;
}

/* Sums of integers are exact. */
static double scale_of(const sparta_tensor *t)
{
    return sp_dtype_is_float(t->dtype) ? sp_largest(t) : 0;
}

sparta_status sp_scales_create(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *inputs, int n,
                               sp_scales *out)
{
    sp_scales s = {.cx = cx, .g = g};
    s.largest = sp_alloc_array(cx, (size_t)g->n_values + 1, sizeof *s.largest);
    SP_NEED(cx, s.largest);
    for (int i = 0; i < g->n_values; i++) s.largest[i] = -1;
    for (int i = 0; i < n; i++) {
        const sp_value *v = sp_graph_find(g, inputs[i].name);
        if (v) s.largest[v->id] = scale_of(&inputs[i].tensor);
    }
    *out = s;
    return SPARTA_OK;
}

void sp_scales_free(sp_scales *s)
{
    if (s->largest) sp_free(s->cx, s->largest);
    s->largest = NULL;
}

sparta_status sp_scales_watch(void *scales, const sp_value *v, const sparta_tensor *t)
{
    const sp_scales *s = scales;
    s->largest[v->id] = scale_of(t);
    return SPARTA_OK;
}

/* What only moves elements computes nothing: what comes before it does. */
static bool moves(const sp_node *n)
{
    return SP_OP_AMONG(n->op, SP_OP_Identity, SP_OP_Reshape, SP_OP_Transpose, SP_OP_Flatten, SP_OP_Squeeze,
                       SP_OP_Unsqueeze);
}

/* The largest of an operand; 0: it is not there. */
static double operand(const sp_scales *s, const sp_node *n, int i)
{
    const sp_value *v = i < n->n_in ? n->in[i] : NULL;
    if (!v) return 0;
    if (s->largest[v->id] < 0 && v->constant) s->largest[v->id] = scale_of(v->constant);
    return SP_MAX(s->largest[v->id], 0);
}

/* The largest of the result. */
static double result(const sp_scales *s, const sp_node *n)
{
    return SP_MAX(s->largest[n->out[0]->id], 0);
}

/* A product adds up terms that are no larger than the product of both. */
static double largest_term(const sp_scales *s, const sp_node *n)
{
    double most = operand(s, n, 0) * operand(s, n, 1);
    for (int i = 2; i < n->n_in; i++) most = SP_MAX(most, operand(s, n, i));
    return most;
}

/* What s is at most, whatever the operands are. What picks elements gives some of them as they are, and those left out do not count
 * (padding of -1e9 or -3.4e38, a Clip without an upper end). What multiplies, or takes a root, is off in the last digits of its result;
 * so are an exponential, whose operand is added to by at most 32 such digits, and a logarithm, but for the one of 1. */
static double ceiling(const sp_scales *s, const sp_node *n)
{
    if (SP_OP_AMONG(n->op, SP_OP_MatMul, SP_OP_Gemm, SP_OP_Linear, SP_OP_Conv, SP_OP_ConvTranspose))
        return largest_term(s, n);
    if (n->op == SP_OP_Clip) return operand(s, n, 0);
    if (SP_OP_AMONG(n->op, SP_OP_Where, SP_OP_Max, SP_OP_Min, SP_OP_ReduceMax, SP_OP_ReduceMin, SP_OP_MaxPool,
                    SP_OP_GlobalMaxPool, SP_OP_TopK, SP_OP_Slice, SP_OP_Split, SP_OP_Gather,
                    SP_OP_GatherElements, SP_OP_GatherND, SP_OP_Sparsify, SP_OP_Mul, SP_OP_Div,
                    SP_OP_Reciprocal, SP_OP_Sqrt, SP_OP_Pow))
        return result(s, n);
    if (SP_OP_AMONG(n->op, SP_OP_Softmax, SP_OP_Sigmoid, SP_OP_Tanh, SP_OP_Exp)) return 32 * result(s, n);
    if (SP_OP_AMONG(n->op, SP_OP_Log, SP_OP_ReduceLogSumExp)) return SP_MAX(result(s, n), 1);
    return INFINITY;
}

const sp_node *sp_computed_by(const sp_value *v)
{
    while (v->producer && moves(v->producer)) v = v->producer->in[0];
    return v->producer;
}

double sp_scales_of(const sp_scales *s, const sp_value *v)
{
    double most = 0;
    const sp_node *n = sp_computed_by(v);
    if (!n) return SP_MAX(s->largest[v->id], 0);
    for (int i = 0; i < n->n_in; i++) most = SP_MAX(most, operand(s, n, i));
    return SP_MIN(most, ceiling(s, n));
}

double sp_slack(const sp_scales *s, const sp_value *v)
{
    return sp_dtype_is_float(v->dtype) ? 1e-6 * sp_scales_of(s, v) : 0;
}
