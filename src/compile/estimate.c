/* estimate: how long a node takes on its reference, and which share of a model's time has no kernel, by counting, without running anything.
 * The rates are those of one core of a server of 2020 and are right to a factor of two or three, which is enough here: a kernel is a
 * hundred times faster than the reference of the same product. */
#include "compile/estimate.h"
#include "compile/lower.h"
#include "run/run.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ sizes */

static int64_t usual_tokens(const sp_graph *g)
{
    return g->most_tokens ? g->most_tokens : LOWER_TOKENS;
}

/* Of an input of f32: what is appended to it (Concat) lies along this axis; -1: nothing is. */
static int appended_axis(const sp_graph *g, const sp_value *past)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        if (n->op != SP_OP_Concat || n->in[0] != past || n->n_in != 2) continue;
        const int64_t axis = sp_attr_int(&n->attrs, "axis", 0);
        return (int)(axis < 0 ? axis + past->dims.rank : axis);
    }
    return -1;
}

bool sp_compile_is_past(const sp_graph *g, const char *symbol)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_value *v = g->input[i];
        const char *name;
        if (v->dtype != SPARTA_F32 || v->dims.rank < 3) continue;
        const int axis = appended_axis(g, v);
        if (axis > 0 && axis < v->dims.rank && sp_expr_is_symbol(v->dims.dim[axis], &name) &&
            !strcmp(name, symbol))
            return true;
    }
    return false;
}

/* Symbols in front of their first input (batch-like) are 1 beside others, which are a usual sequence or image. What came before is as long for few tokens. */
static int64_t usual(const sp_graph *g, const char *symbol, int axis)
{
    const int64_t size = sp_symbol_is_image_side(g, symbol) ? 224
                         : axis == 0                        ? 1
                         : sp_compile_is_past(g, symbol)    ? LOWER_TOKENS
                                                            : usual_tokens(g);
    return sp_symbol_within(g, symbol, size);
}

static void set_usual(const sp_graph *g, int n, const char **name, const int *axis, int64_t *value)
{
    bool more = false;
    for (int i = 0; i < n; i++) {
        value[i] = usual(g, name[i], axis[i]);
        more |= axis[i] > 0;
    }
    for (int i = 0; i < n && !more; i++) /* items alone: as many as candidates are timed with */
        value[i] = sp_symbol_within(g, name[i], usual_tokens(g));
}

sparta_status sp_compile_usual_sizes(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, sp_bindings *out)
{
    static const bool fixed[SP_GRAPH_SYMBOLS]; /* none is */
    sp_symbols *s = sp_arena_alloc(arena, sizeof *s);
    SP_NEED(cx, s);
    SP_TRY(sp_input_symbols(cx, g, s));
    int64_t *value = sp_arena_array(arena, (size_t)s->n + 1, sizeof *value);
    SP_NEED(cx, value);
    set_usual(g, s->n, s->name, s->axis, value);
    SP_TRY(sp_sizes_that_run(cx, g, s->n, s->name, fixed, value));
    *out = (sp_bindings){s->n, s->name, value};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ rates */
/* Nanoseconds, measured with `bench --profile` on a model of one node each. */
#define KERNEL_PRODUCT .025 /* at 40 G a second */
#define KERNEL_ELEMENT .5
#define NARROW         8 /* times as much on a reference that converts each element: fp16, bf16 */

static double product_ns(sp_op_id op)
{
    if (op == SP_OP_Einsum) return 10;
    if (SP_OP_AMONG(op, SP_OP_Attention, SP_OP_OnnxAttention))
        return 4; /* with its softmax, as for the kernel */
    return SP_OP_AMONG(op, SP_OP_Conv, SP_OP_ConvTranspose) ? 1.5 : .7;
}

/* Of a reference, for each element: those that only move, those that compilers make vectors of, and all others. */
static double element_ns(sp_op_id op)
{
    if (SP_OP_AMONG(op, SP_OP_Shape, SP_OP_Size, SP_OP_Identity, SP_OP_Reshape, SP_OP_Flatten, SP_OP_Squeeze,
                    SP_OP_Unsqueeze)) /* views, mostly */
        return 0;
    if (SP_OP_AMONG(op, SP_OP_Transpose, SP_OP_Concat, SP_OP_Split, SP_OP_Slice, SP_OP_Gather)) return .5;
    if (SP_OP_AMONG(op, SP_OP_Add, SP_OP_Sub, SP_OP_Mul, SP_OP_Div, SP_OP_Relu, SP_OP_Equal, SP_OP_Less,
                    SP_OP_Greater, SP_OP_Not, SP_OP_And, SP_OP_Sparsify, SP_OP_Route))
        return 2;
    if (op == SP_OP_Cast) return 4;
    return SP_OP_AMONG(op, SP_OP_Linear, SP_OP_MatMul, SP_OP_Gemm, SP_OP_Conv) ? 1 : 20;
}

double sp_compile_estimate_node(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes)
{
    if (!n->n_out || !n->out[0]) return 0;
    const sparta_dtype type = n->out[0]->dtype;
    const double each = element_ns(n->op);
    /* What moves is not converted. */
    const bool narrow = (type == SPARTA_F16 || type == SPARTA_BF16) && n->op != SP_OP_Cast && each >= 1;
    return (sp_ops_products(cx, n, sizes) * product_ns(n->op) + sp_ops_touched(cx, n, sizes) * each) *
           (narrow ? NARROW : 1) * 1e-3;
}

/* Of the keys of an attention, those that a list leaves. */
static double share_listed(const sp_node *n)
{
    int64_t blocks, room;
    if (!sp_implement_listed(n, &blocks, &room) || !blocks) return 1;
    return (double)room / (double)blocks;
}

double sp_compile_estimate_kernel(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes)
{
    if (!n->n_out || !n->out[0]) return 0;
    const double present = sp_implement_present(n);
    const double share = sp_node_is_fused(n)        ? sp_attr_float(&n->attrs, "density", 1)
                         : n->op == SP_OP_Attention ? 4 * share_listed(n)
                         : present > 0              ? present
                                                    : 1;
    return (sp_ops_products(cx, n, sizes) * KERNEL_PRODUCT * share +
            sp_ops_touched(cx, n, sizes) * KERNEL_ELEMENT) *
           1e-3;
}

/* ------------------------------------------------------------------ what has no kernel, and why */

/* Does a kernel run this node of a plan, or, of a graph after the passes, would one? Of nodes that one generated kernel runs the last one has it. */
static bool has_kernel(sparta_ctx *cx, const sp_node *n, bool plan)
{
    sparta_tensor w;
    sp_task t = {.node = n, .present = sp_implement_present(n), .strict = sp_ctx_strict(cx)};
    if (SP_OP_AMONG(n->op, SP_OP_Sparsify, SP_OP_Route) && n->in[0]->dtype == SPARTA_F32)
        return true; /* quick twins take all of f32, at the speed of memory */
    if (plan) return sp_attr_find(&n->attrs, "kernel") || sp_attr_find(&n->attrs, "chain");
    if (sp_node_is_fused(n)) return sp_implement_weight(n, &w);
    if (sp_implement_layouts(cx, n, &t.generated) != SPARTA_OK) sp_ctx_clear(cx);
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        if (im->kernel && sp_implement_matches(im, &t)) return true;
    }
    return false;
}

typedef enum { BY_TYPE, BY_QUANTISED, BY_CONVOLUTION, BY_PRODUCT, BY_STACK, BY_OPERATOR } cause;
static const struct {
    const char *why, *help;
} causes[] = {
    [BY_TYPE] = {"kernels are for f32", "export the model in float32"},
    [BY_QUANTISED] = {"there are no kernels of 8 bits yet", "the float32 model is faster for now"},
    [BY_CONVOLUTION] = {"there are no kernels of convolutions yet",
                        "networks of images are faster elsewhere for now"},
    [BY_PRODUCT] = {"product of two activations that is no attention",
                    "an exporter's plain attention is recognised: report the model if it is one"},
    [BY_STACK] = {"product with a constant in a form that has no kernel, as a stack of matrices",
                  "if you need it fast, report the model"},
    [BY_OPERATOR] = {"there is no kernel of it yet", "if you need it fast, report the model"},
};

static cause cause_of(const sp_node *n)
{
    if (SP_OP_AMONG(n->op, SP_OP_QuantizeLinear, SP_OP_DequantizeLinear)) return BY_QUANTISED;
    if (sp_dtype_is_float(n->out[0]->dtype) && n->out[0]->dtype != SPARTA_F32) return BY_TYPE;
    if (SP_OP_AMONG(n->op, SP_OP_Conv, SP_OP_ConvTranspose, SP_OP_BatchNormalization, SP_OP_MaxPool,
                    SP_OP_AveragePool))
        return BY_CONVOLUTION;
    const bool product = SP_OP_AMONG(n->op, SP_OP_MatMul, SP_OP_Gemm, SP_OP_Attention, SP_OP_Einsum);
    if (!product) return BY_OPERATOR;
    for (int i = 0; i < n->n_in && i < 2; i++)
        if (n->in[i] && n->in[i]->constant) return BY_STACK;
    return BY_PRODUCT;
}

void sp_compile_without_kernel(const sp_node *n, char *out, size_t size)
{
    snprintf(out, size, "%s: the reference runs it", causes[cause_of(n)].why);
}

static bool is_plan(const sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (sp_attr_find(&g->node[i]->attrs, "kernel")) return true;
    return false;
}

sparta_status sp_compile_coverage(sparta_ctx *cx, const sp_graph *g, sp_coverage *out)
{
    sp_arena *arena = sp_arena_create(cx);
    sp_bindings sizes;
    sp_coverage c = {.worst = -1};
    double by_op[SP_OPS] = {0}, by_cause[SP_COUNT(causes)] = {0}, all = 0, without = 0;
    SP_NEED(cx, arena);
    const bool plan = is_plan(g);
    sparta_status s = sp_compile_usual_sizes(cx, arena, g, &sizes);
    for (int i = 0; i < g->n_nodes && s == SPARTA_OK; i++) {
        const sp_node *n = g->node[i];
        const bool fast = has_kernel(cx, n, plan);
        const double us =
            fast ? sp_compile_estimate_kernel(cx, n, &sizes) : sp_compile_estimate_node(cx, n, &sizes);
        all += us;
        if (fast) continue;
        without += us;
        by_op[n->op] += us;
        by_cause[cause_of(n)] += us;
        s = sp_check_cancel(cx);
    }
    sp_arena_free(arena);
    SP_TRY(s);
    int worst = 0;
    for (int i = 0; i < SP_OPS; i++)
        if (by_op[i] > 0 && (c.worst < 0 || by_op[i] > by_op[c.worst])) c.worst = i;
    for (size_t i = 0; i < SP_COUNT(causes); i++)
        if (by_cause[i] > by_cause[worst]) worst = (int)i;
    c.without_kernel = all > 0 ? without / all : 0;
    c.worst_share = c.worst >= 0 ? by_op[c.worst] / all : 0;
    c.why = causes[worst].why;
    c.help = causes[worst].help;
    *out = c;
    return SPARTA_OK;
}

void sp_compile_note_coverage(sparta_ctx *cx, const sp_coverage *c)
{
    if (c->without_kernel < SP_COVERAGE_SAID || c->worst < 0) return;
    sp_note(cx, "about %.0f %% of the time runs without a kernel, on references (%s %.0f %%): %s; %s",
            c->without_kernel * 100, sp_builtin_row((sp_op_id)c->worst)->name, c->worst_share * 100, c->why,
            c->help);
}
