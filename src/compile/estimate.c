/* estimate: how long a node takes on its reference, and which share of a model's time has no kernel, by counting, without running anything.
 * The rates are those of one core of a server of 2020 and are right to a factor of two or three, which is enough here: a kernel is a
 * hundred times faster than the reference of the same product. */
#include "compile/estimate.h"
#include "compile/lower.h"
#include "run/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ sizes */

/* Symbols in front of their first input (batch-like) are 1 beside others, which are a usual sequence or image. */
static int64_t usual(const sparta_graph *g, const char *symbol, int axis)
{
    const int64_t size = sparta_symbol_is_image_side(g, symbol) ? 224 : axis == 0 ? 1 : LOWER_TOKENS;
    return SPARTA_MIN(size, sparta_symbol_bound(g, symbol));
}

static void set_usual(const sparta_graph *g, int n, const char **name, const int *axis, int64_t *value)
{
    bool more = false;
    for (int i = 0; i < n; i++) {
        value[i] = usual(g, name[i], axis[i]);
        more |= axis[i] > 0;
    }
    for (int i = 0; i < n && !more; i++) /* items alone: as many as candidates are timed with */
        value[i] = SPARTA_MIN(LOWER_TOKENS, sparta_symbol_bound(g, name[i]));
}

sparta_status sparta_compile_usual_sizes(sparta_ctx *cx, sparta_arena *arena, const sparta_graph *g,
                                         sparta_bindings *out)
{
    size_t most = 1;
    for (int i = 0; i < g->n_inputs; i++) most += (size_t)g->input[i]->dims.rank;
    const char **name = sparta_arena_array(arena, most, sizeof *name);
    int64_t *value = sparta_arena_array(arena, most, sizeof *value);
    bool *fixed = sparta_arena_array(arena, most, sizeof *fixed);
    int *axis = sparta_arena_array(arena, most, sizeof *axis);
    SPARTA_NEED(cx, name && value && fixed && axis);
    const int n = sparta_input_symbols(g, name, axis);
    set_usual(g, n, name, axis, value);
    SPARTA_TRY(sparta_sizes_that_run(cx, g, n, name, fixed, value));
    *out = (sparta_bindings){n, name, value};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ counting */

typedef struct count { /* at given sizes */
    sparta_ctx *cx;
    const sparta_bindings *sizes;
} count;

/* One dim; what cannot be worked out counts as 1. */
static double dim_of(const count *c, const sparta_value *v, int d)
{
    int64_t size = 0;
    if (d < 0 || d >= v->dims.rank) return 1;
    if (sparta_expr_eval(c->cx, v->dims.dim[d], c->sizes, &size) != SPARTA_OK) sparta_ctx_clear(c->cx);
    return size > 0 ? (double)size : 1;
}

/* Of the dims from `first` on. */
static double elements(const count *c, const sparta_value *v, int first)
{
    double n = 1;
    for (int d = first; v && d < v->dims.rank; d++) n *= dim_of(c, v, d);
    return n;
}

/* Multiplications of a product; 0: the node is none. */
static double products(const count *c, const sparta_node *n)
{
    const sparta_value *a = n->n_in ? n->in[0] : NULL, *b = n->n_in > 1 ? n->in[1] : NULL, *y = n->out[0];
    if (!a || !b) return 0;
    switch (n->op) {
    case SPARTA_OP_Linear:
    case SPARTA_OP_MatMul: return elements(c, y, 0) * dim_of(c, a, a->dims.rank - 1);
    case SPARTA_OP_Gemm: return elements(c, y, 0) * dim_of(c, a, !sparta_attr_int(&n->attrs, "transA", 0));
    case SPARTA_OP_Conv: return elements(c, y, 0) * elements(c, b, 1);
    case SPARTA_OP_ConvTranspose: return elements(c, a, 0) * elements(c, b, 1);
    case SPARTA_OP_Attention: return (elements(c, a, 0) + elements(c, y, 0)) * dim_of(c, b, b->dims.rank - 2);
    /* right for a product of matrices, whichever the axes */
    case SPARTA_OP_Einsum: return sqrt(elements(c, a, 0) * elements(c, b, 0) * elements(c, y, 0));
    default: return 0;
    }
}

/* Nanoseconds, measured with `bench --profile` on a model of one node each. */
#define KERNEL_PRODUCT .025 /* at 40 G a second */
#define KERNEL_ELEMENT .5
#define NARROW         8 /* times as much on a reference that converts each element: fp16, bf16 */

static double product_ns(sparta_op_id op)
{
    switch (op) {
    case SPARTA_OP_Einsum: return 10;
    case SPARTA_OP_Attention: return 4; /* with its softmax, as for the kernel */
    case SPARTA_OP_Conv:
    case SPARTA_OP_ConvTranspose: return 1.5;
    default: return .7;
    }
}

/* Of a reference, for each element: those that only move, those that compilers make vectors of, and all others. */
static double element_ns(sparta_op_id op)
{
    switch (op) {
    case SPARTA_OP_Shape:
    case SPARTA_OP_Size: return 0;
    case SPARTA_OP_Identity:
    case SPARTA_OP_Reshape:
    case SPARTA_OP_Flatten:
    case SPARTA_OP_Squeeze:
    case SPARTA_OP_Unsqueeze:
    case SPARTA_OP_Transpose:
    case SPARTA_OP_Concat:
    case SPARTA_OP_Split:
    case SPARTA_OP_Slice:
    case SPARTA_OP_Gather: return .5;
    case SPARTA_OP_Add:
    case SPARTA_OP_Sub:
    case SPARTA_OP_Mul:
    case SPARTA_OP_Div:
    case SPARTA_OP_Relu:
    case SPARTA_OP_Equal:
    case SPARTA_OP_Less:
    case SPARTA_OP_Greater:
    case SPARTA_OP_Not:
    case SPARTA_OP_And: return 2;
    case SPARTA_OP_Cast: return 4;
    case SPARTA_OP_Linear:
    case SPARTA_OP_MatMul:
    case SPARTA_OP_Gemm:
    case SPARTA_OP_Conv: return 1;
    default: return 20;
    }
}

/* What a node reads or makes, the larger. */
static double touched(const count *c, const sparta_node *n)
{
    const double in = n->n_in && n->in[0] && !n->in[0]->constant ? elements(c, n->in[0], 0) : 0;
    return SPARTA_MAX(in, elements(c, n->out[0], 0));
}

double sparta_compile_estimate_node(sparta_ctx *cx, const sparta_node *n, const sparta_bindings *sizes)
{
    const count c = {cx, sizes};
    if (!n->n_out || !n->out[0]) return 0;
    const sparta_dtype type = n->out[0]->dtype;
    const double each = element_ns(n->op);
    const bool narrow = (type == SPARTA_F16 || type == SPARTA_BF16) && n->op != SPARTA_OP_Cast &&
                        each >= 1; /* what moves is not converted */
    return (products(&c, n) * product_ns(n->op) + touched(&c, n) * each) * (narrow ? NARROW : 1) * 1e-3;
}

double sparta_compile_estimate_kernel(sparta_ctx *cx, const sparta_node *n, const sparta_bindings *sizes)
{
    const count c = {cx, sizes};
    if (!n->n_out || !n->out[0]) return 0;
    const double share = n->op == SPARTA_OP_Linear      ? sparta_attr_float(&n->attrs, "density", 1)
                         : n->op == SPARTA_OP_Attention ? 4
                                                        : 1;
    return (products(&c, n) * KERNEL_PRODUCT * share + touched(&c, n) * KERNEL_ELEMENT) * 1e-3;
}

/* ------------------------------------------------------------------ what has no kernel, and why */

bool sparta_compile_has_kernel(const sparta_node *n, bool plan)
{
    sparta_tensor w;
    if (plan) return sparta_attr_find(&n->attrs, "kernel") != NULL;
    if (n->op == SPARTA_OP_Linear) return sparta_lower_weight(n, &w);
    const sparta_task t = {.node = n};
    for (int i = 0; i < sparta_implement_count(); i++) {
        const sparta_implement *im = sparta_implement_row(i);
        if (im->kernel && im->match(&t)) return true;
    }
    return false;
}

typedef enum { BY_TYPE, BY_QUANTISED, BY_CONVOLUTION, BY_PRODUCT, BY_OPERATOR } cause;
static const struct {
    const char *why, *help;
} causes[] = {
    [BY_TYPE] = {"kernels are for f32", "export the model in float32"},
    [BY_QUANTISED] = {"there are no kernels of 8 bits yet", "the float32 model is faster for now"},
    [BY_CONVOLUTION] = {"there are no kernels of convolutions yet",
                        "networks of images are faster elsewhere for now"},
    [BY_PRODUCT] = {"product of two activations that is no attention",
                    "an exporter's plain attention is recognised: report the model if it is one"},
    [BY_OPERATOR] = {"there is no kernel of it yet", "report the model if it matters"},
};

static cause cause_of(const sparta_node *n)
{
    switch (n->op) {
    case SPARTA_OP_QuantizeLinear:
    case SPARTA_OP_DequantizeLinear: return BY_QUANTISED;
    default: break;
    }
    if (sparta_dtype_is_float(n->out[0]->dtype) && n->out[0]->dtype != SPARTA_F32) return BY_TYPE;
    switch (n->op) {
    case SPARTA_OP_Conv:
    case SPARTA_OP_ConvTranspose:
    case SPARTA_OP_BatchNormalization:
    case SPARTA_OP_MaxPool:
    case SPARTA_OP_AveragePool: return BY_CONVOLUTION;
    case SPARTA_OP_MatMul:
    case SPARTA_OP_Gemm:
    case SPARTA_OP_Attention:
    case SPARTA_OP_Einsum: return BY_PRODUCT;
    default: return BY_OPERATOR;
    }
}

void sparta_compile_without_kernel(const sparta_node *n, char *out, size_t size)
{
    snprintf(out, size, "%s: the reference runs it", causes[cause_of(n)].why);
}

static bool is_plan(const sparta_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (sparta_attr_find(&g->node[i]->attrs, "kernel")) return true;
    return false;
}

sparta_status sparta_compile_coverage(sparta_ctx *cx, const sparta_graph *g, sparta_coverage *out)
{
    sparta_arena *arena = sparta_arena_create(cx);
    sparta_bindings sizes;
    sparta_coverage c = {.worst = -1};
    double by_op[SPARTA_OPS] = {0}, by_cause[SPARTA_COUNT(causes)] = {0}, all = 0, without = 0;
    SPARTA_NEED(cx, arena);
    const bool plan = is_plan(g);
    sparta_status s = sparta_compile_usual_sizes(cx, arena, g, &sizes);
    for (int i = 0; i < g->n_nodes && s == SPARTA_OK; i++) {
        const sparta_node *n = g->node[i];
        const bool fast = sparta_compile_has_kernel(n, plan);
        const double us = fast ? sparta_compile_estimate_kernel(cx, n, &sizes)
                               : sparta_compile_estimate_node(cx, n, &sizes);
        all += us;
        if (fast) continue;
        without += us;
        by_op[n->op] += us;
        by_cause[cause_of(n)] += us;
        s = sparta_check_cancel(cx);
    }
    sparta_arena_free(arena);
    SPARTA_TRY(s);
    int worst = 0;
    for (int i = 0; i < SPARTA_OPS; i++)
        if (by_op[i] > 0 && (c.worst < 0 || by_op[i] > by_op[c.worst])) c.worst = i;
    for (size_t i = 0; i < SPARTA_COUNT(causes); i++)
        if (by_cause[i] > by_cause[worst]) worst = (int)i;
    c.without_kernel = all > 0 ? without / all : 0;
    c.worst_share = c.worst >= 0 ? by_op[c.worst] / all : 0;
    c.why = causes[worst].why;
    c.help = causes[worst].help;
    *out = c;
    return SPARTA_OK;
}

void sparta_compile_note_coverage(sparta_ctx *cx, const sparta_coverage *c)
{
    if (c->without_kernel < SPARTA_COVERAGE_SAID || c->worst < 0) return;
    sparta_note(cx, "about %.0f %% of the time runs without a kernel, on references (%s %.0f %%): %s; %s",
                c->without_kernel * 100, sparta_builtin_row((sparta_op_id)c->worst)->name,
                c->worst_share * 100, c->why, c->help);
}
