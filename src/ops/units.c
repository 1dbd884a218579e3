/* What the last digits of sums and normalisations do to the answer of the references.
 *
 * A normalisation of nearly equal values, or a sum that cancels, magnifies the rounding of what comes before it, which no two programs
 * share:
 *
 *     mean(x^2) - mean(x)^2      0.49003 - 0.49001: one unit in the last place of either, 3e-8, is a part in 700 of what is left
 *
 * How far that moves an output is a property of the model, and is measured: the references run once more, with every computed value that a
 * sum or a normalisation reads moved at random by up to one unit in its last place; what was itself summed up by up to the root of
 * the number of its terms, as it was rounded with each. Only the reference moves: what is checked has no say in it. Where nothing is magnified
 * the answer moves by its last digits, and next to nothing is forgiven. A number below 2^-126 is moved whoever reads it: it has few digits, and a kernel
 * that goes on from it without storing it has more.
 *
 * Where that makes a NaN of a number, or a number of a NaN (a root of what may be a little below 0), nobody can say what is right: those
 * elements are not compared, unless none would be left, and how many they are is said. Which ones is chance: where NaN or Inf are on one
 * side only there are BROKEN_RUNS runs in place of one, if the first makes any.
 *
 * Numbers of few digits (whole ones, halves, masks, positions) are exact: rounding makes hardly any, and what is computed of them may be
 * compared, rounded or used as an index. */
#include "ops/close.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { F32_DIGITS = 23, F16_DIGITS = 10, BF16_DIGITS = 7, FEW_DIGITS = 11, SMALLEST = -126 };
enum { BROKEN_RUNS = 16 };

/* ------------------------------------------------------------------ one tensor */

/* One unit in the last place of x; 0: the number is exact. */
static double unit_of(sparta_dtype dtype, double x)
{
    int exponent;
    if (!isfinite(x) || x == 0) return 0;
    (void)frexp(x, &exponent);
    exponent = SP_MAX(exponent - 1, SMALLEST);
    const bool exact = dtype == SPARTA_F32 ? fmod(x, ldexp(1, exponent - FEW_DIGITS)) == 0 : x == rint(x);
    const int digits = dtype == SPARTA_F32 ? F32_DIGITS : dtype == SPARTA_F16 ? F16_DIGITS : BF16_DIGITS;
    return exact ? 0 : ldexp(1, exponent - digits);
}

/* Of elements that are smaller than `below`, by their absolute value. */
static void move_small(const sparta_tensor *t, double units, double below, sp_rng *rng)
{
    if (t->dtype != SPARTA_F32 && t->dtype != SPARTA_F16 && t->dtype != SPARTA_BF16) return;
    for (int64_t i = 0, n = sparta_tensor_elements(t); i < n; i++) {
        const double x = sp_element_get(t->dtype, t->data, i), unit = unit_of(t->dtype, x),
                     by = units * (2 * sp_rng_uniform(rng) - 1);
        if (unit > 0 && fabs(x) < below)
            sp_element_set(t->dtype, t->data, i, x + unit * (by < 0 ? floor(by) : ceil(by)));
    }
}

void sp_move_units(const sparta_tensor *t, double units, sp_rng *rng)
{
    move_small(t, units, INFINITY, rng);
}

/* ------------------------------------------------------------------ a graph */
typedef struct moving {
    bool *read;        /* by value id: a sum or a normalisation reads it */
    int64_t *elements; /* by value id: of what is computed */
    sp_rng rng;
} moving;

static bool reduces(const sp_node *n)
{
    return SP_OP_AMONG(n->op, SP_OP_ReduceSum, SP_OP_ReduceMean, SP_OP_ReduceL1, SP_OP_ReduceL2,
                       SP_OP_ReduceSumSquare, SP_OP_ReduceLogSum, SP_OP_ReduceLogSumExp,
                       SP_OP_GlobalAveragePool, SP_OP_GlobalLpPool);
}

static bool adds(const sp_node *n)
{
    return reduces(n) ||
           SP_OP_AMONG(n->op, SP_OP_Add, SP_OP_Sub, SP_OP_CumSum, SP_OP_MatMul, SP_OP_Gemm, SP_OP_Linear,
                       SP_OP_Einsum, SP_OP_Conv, SP_OP_ConvTranspose, SP_OP_Attention, SP_OP_OnnxAttention,
                       SP_OP_Interact, SP_OP_Softmax, SP_OP_LogSoftmax, SP_OP_AveragePool, SP_OP_LpPool,
                       SP_OP_LayerNormalization, SP_OP_RMSNormalization, SP_OP_BatchNormalization,
                       SP_OP_InstanceNormalization, SP_OP_GroupNormalization);
}

/* Numbers that one element of a value adds up, where that is all its operator does. */
static double terms(const moving *m, const sp_value *v)
{
    const int64_t all = reduces(v->producer) ? m->elements[v->producer->in[0]->id] : 0,
                  left = m->elements[v->id];
    return left > 0 && all > left ? (double)all / (double)left : 1;
}

static sparta_status move(void *arg, const sp_value *v, const sparta_tensor *t)
{
    moving *m = arg;
    m->elements[v->id] = sparta_tensor_elements(t);
    const double n = terms(m, v);
    const bool moved = m->read[v->id] || n > 1;
    move_small(t, sqrt(n), moved ? INFINITY : ldexp(1, SMALLEST), &m->rng);
    return SPARTA_OK;
}

static void find_read(const sp_graph *g, bool *read)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_in; k++)
            if (g->node[i]->in[k] && adds(g->node[i])) read[g->node[i]->in[k]->id] = true;
}

sp_units sp_units_of(const sparta_tensor *moved, const sparta_tensor *answer)
{
    sp_units u = {.elements = sparta_tensor_elements(answer), .mark = *moved};
    for (int64_t i = 0, n = sp_dtype_is_float(answer->dtype) ? u.elements : 0; i < n; i++) {
        const double a = sp_element_get(moved->dtype, moved->data, i),
                     b = sp_element_get(answer->dtype, answer->data, i);
        const bool broken = sp_is_broken(a, b);
        if (isfinite(a) && isfinite(b)) u.change = fmax(u.change, fabs(a - b));
        sp_element_set(moved->dtype, moved->data, i, broken ? NAN : 0);
        u.broken += broken;
    }
    return u;
}

static bool is_marked(const sp_units *u, int64_t i)
{
    return isnan(sp_element_get(u->mark.dtype, u->mark.data, i));
}

/* Of two runs: what either does. */
static void join(sp_units *to, const sp_units *more)
{
    to->change = fmax(to->change, more->change);
    for (int64_t i = 0, n = more->broken ? more->elements : 0; i < n; i++) {
        if (!is_marked(more, i) || is_marked(to, i)) continue;
        sp_element_set(to->mark.dtype, to->mark.data, i, NAN);
        to->broken++;
    }
}

const char *sp_units_print(const sp_units *units, char out[SP_UNITS_TEXT])
{
    const int n = snprintf(out, SP_UNITS_TEXT, "one unit in the last place changes %.3g", units->change);
    if (units->broken)
        snprintf(out + n, SP_UNITS_TEXT - (size_t)n,
                 " and makes %" PRId64 " of %" PRId64 " elements NaN or Inf", units->broken, units->elements);
    return out;
}

/* Once more, into what is known of each output. */
static sparta_status run_moved(sparta_ctx *cx, const sp_graph *g, const sp_answer *a, moving *m,
                               sp_units *units)
{
    sparta_tensor *moved = sp_alloc_array(cx, (size_t)g->n_outputs + 1, sizeof *moved);
    SP_NEED(cx, moved);
    sparta_status status = sp_ops_run(cx, g, a->in, a->n_in, moved, move, m);
    for (int i = 0; i < g->n_outputs && !status; i++) {
        const sp_units one = sp_units_of(&moved[i], &a->out[i]);
        if (units[i].mark.data) {
            join(&units[i], &one);
            sp_free(cx, moved[i].data);
        } else
            units[i] = one;
    }
    sp_free(cx, moved);
    return status;
}

static bool any_broken(const sp_graph *g, const sp_units *units)
{
    bool any = false;
    for (int i = 0; i < g->n_outputs; i++) any |= units[i].broken > 0;
    return any;
}

static sparta_status move_often(sparta_ctx *cx, const sp_graph *g, const sp_answer *a, int runs,
                                sp_units *units)
{
    moving m = {.rng = sp_rng_seed(23)};
    m.read = sp_alloc_array(cx, (size_t)g->n_values + 1, sizeof *m.read);
    m.elements = sp_alloc_array(cx, (size_t)g->n_values + 1, sizeof *m.elements);
    sparta_status status = m.read && m.elements ? SPARTA_OK : sp_ctx_status(cx);
    if (!status) {
        find_read(g, m.read);
        for (int i = 0; i < a->n_in; i++) {
            const sp_value *v = sp_graph_find(g, a->in[i].name);
            if (v) m.elements[v->id] = sparta_tensor_elements(&a->in[i].tensor);
        }
    }
    for (int run = 0; run < runs && !status && (run == 0 || any_broken(g, units)); run++)
        status = run_moved(cx, g, a, &m, units);
    sp_free(cx, m.read);
    sp_free(cx, m.elements);
    return status;
}

sparta_status sp_ops_units(sparta_ctx *cx, const sp_graph *g, const sp_answer *a, bool broken,
                           sp_units *units)
{
    const sparta_status status = move_often(cx, g, a, broken ? BROKEN_RUNS : 1, units);
    if (status) sp_units_free(cx, units, g->n_outputs);
    return status;
}

void sp_units_free(sparta_ctx *cx, sp_units *units, int n)
{
    for (int i = 0; i < n; i++) {
        sp_free(cx, units[i].mark.data);
        units[i] = (sp_units){0};
    }
}
