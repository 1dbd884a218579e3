/* The builder: constants with seeded contents and nodes named as PyTorch names them. */
#include "zoo/build.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ sizes */

static sparta_status override(sp_graph *g, const char *name, int64_t value, const sp_zoo_size *size, int n)
{
    if (value < 1 || value > INT32_MAX)
        return sp_fail(g->cx, SPARTA_E_USAGE, "zoo %s: %s=%lld; a size is from 1 to %d", g->name, name,
                       (long long)value, INT32_MAX);
    for (int i = 0; i < n; i++)
        if (!strcmp(size[i].name, name)) {
            if (size[i].value) *size[i].value = value;
            return SPARTA_OK;
        }
    sp_text known;
    sp_text_init(&known, g->cx);
    for (int i = 0; i < n; i++) sp_text_printf(&known, " %s", size[i].name);
    sparta_status status = sp_fail(g->cx, SPARTA_E_USAGE, "zoo %s: there is no size \"%s\"; it has%s",
                                   g->name, name, sp_text_str(&known));
    sp_text_free(&known);
    return status;
}

sparta_status sp_zoo_sizes(sp_graph *g, const sp_zoo_request *r, const sp_zoo_size *size, int n)
{
    for (int i = 0; i < r->dims.n; i++) SP_TRY(override(g, r->dims.name[i], r->dims.value[i], size, n));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the sticky status */

/* Keep a failed allocation: pointers that are NULL without a status must not get further. */
static bool have(sp_zoo_builder *b, const void *p)
{
    if (!p && !b->status) b->status = sp_ctx_status(b->g->cx);
    return p != NULL && !b->status;
}

const char *sp_zoo_join(sp_zoo_builder *b, const char *prefix, const char *rest)
{
    if (b->status) return "";
    const char *s = sp_arena_printf(b->g->arena, "%s%s", prefix, rest);
    return have(b, s) ? s : "";
}

const char *sp_zoo_numbered(sp_zoo_builder *b, const char *before, int64_t i, const char *after)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)i);
    return sp_zoo_join(b, sp_zoo_join(b, before, number), after);
}

/* ------------------------------------------------------------------ inputs and outputs */

const sp_expr *sp_zoo_symbol(sp_zoo_builder *b, const char *name)
{
    if (b->status) return NULL;
    const sp_bindings *dims = &b->request->dims;
    const sp_expr *e = NULL;
    int fixed = -1;
    for (int i = 0; i < dims->n; i++)
        if (!strcmp(dims->name[i], name)) fixed = i;
    e = fixed < 0 ? sp_expr_symbol(b->g->arena, name) : sp_expr_const(b->g->arena, dims->value[fixed]);
    return have(b, e) ? e : NULL;
}

const sp_expr *sp_zoo_number(sp_zoo_builder *b, int64_t n)
{
    const sp_expr *e = b->status ? NULL : sp_expr_const(b->g->arena, n);
    return have(b, e) ? e : NULL;
}

static sp_dims shape(int rank, const sp_expr *const *dim)
{
    sp_dims d = {.rank = rank};
    for (int i = 0; i < rank; i++) d.dim[i] = dim[i];
    return d;
}

sp_value *sp_zoo_input(sp_zoo_builder *b, const char *name, sparta_dtype dtype, int rank,
                       const sp_expr *const *dim)
{
    sp_value *v = NULL;
    if (b->status) return NULL;
    sp_dims d = shape(rank, dim);
    b->status = sp_graph_add_input(b->g, name, dtype, &d, &v);
    return b->status ? NULL : v;
}

/* The output is an Identity's, so that it can have the name that users of the model expect. */
void sp_zoo_output(sp_zoo_builder *b, sp_value *v, const char *name, int rank, const sp_expr *const *dim)
{
    sp_value *out = NULL;
    if (b->status) return;
    b->status = sp_graph_add_value(b->g, name, &out);
    if (b->status) return;
    out->typed = true;
    out->dtype = SPARTA_F32;
    out->dims = shape(rank, dim);
    b->status = sp_graph_add_node(b->g, SP_OP_Identity, "/output/Identity", 1, &v, 1, &out, NULL, NULL);
    if (!b->status) b->status = sp_graph_add_output(b->g, out);
}

/* ------------------------------------------------------------------ constants */

static sp_value *constant(sp_zoo_builder *b, const char *name, const sparta_tensor *t, bool copy)
{
    sp_value *v = NULL;
    if (!b->status) b->status = sp_graph_add_constant(b->g, name, t, copy, &v);
    return b->status ? NULL : v;
}

sp_value *sp_zoo_constant(sp_zoo_builder *b, const char *name, const sparta_tensor *t)
{
    return constant(b, name, t, false);
}

sp_value *sp_zoo_ints(sp_zoo_builder *b, const char *name, int n, const int64_t *value)
{
    int64_t dim[1] = {n};
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, dim, (void *)value);
    return constant(b, name, &t, true);
}

sp_value *sp_zoo_int(sp_zoo_builder *b, const char *name, int64_t value)
{
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 0, NULL, &value);
    return constant(b, name, &t, true);
}

sp_value *sp_zoo_float(sp_zoo_builder *b, const char *name, float value)
{
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 0, NULL, &value);
    return constant(b, name, &t, true);
}

/* The sum of four 16-bit pieces of one random word is nearly normal; twice it, less its mean, is odd, hence
 * never 0. It has 19 bits and the scale 24, so their product is exact in a double and the number is the same
 * on every machine, fused multiply or not. */
static void draw(sp_zoo_builder *b, const char *name, float *x, int64_t n, float mean, float deviation)
{
    const float scale = deviation / 75674.45f; /* the sum's own deviation: 2 * sqrt(4 * (2^32 - 1) / 12) */
    sp_rng rng = sp_rng_seed(sp_hash(name, strlen(name), b->request->seed));
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = sp_rng_next(&rng);
        int32_t sum = (int32_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
        x[i] = (float)((double)mean + (double)(2 * sum - 262139) * (double)scale);
    }
}

static bool random_tensor(sp_zoo_builder *b, const char *name, int rank, const int64_t *dim, float mean,
                          float deviation, sparta_tensor *out)
{
    if (!b->status) b->status = sp_check_cancel(b->g->cx);
    if (!b->status) b->status = sp_tensor_alloc_in(b->g->arena, SPARTA_F32, rank, dim, out);
    if (b->status) return false;
    draw(b, name, out->data, sparta_tensor_elements(out), mean, deviation);
    return true;
}

sp_value *sp_zoo_vector(sp_zoo_builder *b, const char *name, int64_t n, float mean, float deviation)
{
    sparta_tensor t;
    return random_tensor(b, name, 1, &n, mean, deviation, &t) ? constant(b, name, &t, false) : NULL;
}

sp_value *sp_zoo_matrix(sp_zoo_builder *b, const char *name, int64_t rows, int64_t cols, float deviation)
{
    int64_t dim[2] = {rows, cols};
    sparta_tensor t;
    return random_tensor(b, name, 2, dim, 0, deviation, &t) ? constant(b, name, &t, false) : NULL;
}

/* `seen` is the tensor as (out, in). */
static void prune(sp_zoo_builder *b, const char *name, const sparta_tensor *seen)
{
    if (!b->request->prune) return;
    sp_prune_note(b->g->cx, b->request->prune, seen);
    b->status = sp_prune(b->g->cx, b->request->prune, seen, NULL);
    if (b->status) sp_fail_in(b->g->cx, "%s", name);
}

sp_value *sp_zoo_weight(sp_zoo_builder *b, const char *name, int64_t out, int64_t in, bool in_out,
                        float deviation)
{
    int64_t dim[2] = {in_out ? in : out, in_out ? out : in};
    sparta_tensor t;
    if (!random_tensor(b, name, 2, dim, 0, deviation, &t)) return NULL;
    sparta_tensor seen = t;
    if (in_out) seen = (sparta_tensor){SPARTA_F32, 2, {out, in}, {1, out}, t.data, 0};
    prune(b, name, &seen);
    return constant(b, name, &t, false);
}

sp_value *sp_zoo_filters(sp_zoo_builder *b, const char *name, const int64_t dim[4], float deviation,
                         bool pruned)
{
    sparta_tensor t;
    if (!random_tensor(b, name, 4, dim, 0, deviation, &t)) return NULL;
    int64_t flat[2] = {dim[0], dim[1] * dim[2] * dim[3]};
    sparta_tensor seen = sparta_tensor_view(SPARTA_F32, 2, flat, t.data);
    if (pruned) prune(b, name, &seen);
    return constant(b, name, &t, false);
}

/* ------------------------------------------------------------------ nodes */

sp_value *sp_zoo_node(sp_zoo_builder *b, sp_op_id op, const char *name, int n_in, sp_value *const *in,
                      const sp_attrs *attrs)
{
    sp_value *out = NULL;
    const char *value = sp_zoo_join(b, name, "_output_0");
    if (!b->status) b->status = sp_graph_add_value(b->g, value, &out);
    if (!b->status) b->status = sp_graph_add_node(b->g, op, name, n_in, in, 1, &out, attrs, NULL);
    return b->status ? NULL : out;
}

sp_value *sp_zoo_unary(sp_zoo_builder *b, sp_op_id op, const char *name, sp_value *x)
{
    return sp_zoo_node(b, op, name, 1, &x, NULL);
}

sp_value *sp_zoo_binary(sp_zoo_builder *b, sp_op_id op, const char *name, sp_value *x, sp_value *y)
{
    sp_value *in[] = {x, y};
    return sp_zoo_node(b, op, name, 2, in, NULL);
}

sp_value *sp_zoo_concat(sp_zoo_builder *b, const char *name, int n, sp_value *const *in)
{
    return sp_zoo_node(b, SP_OP_Concat, name, n, in, SP_ATTRS(SP_INT("axis", 1)));
}

sp_value *sp_zoo_transpose(sp_zoo_builder *b, const char *name, sp_value *x, int n, const int64_t *perm)
{
    return sp_zoo_node(b, SP_OP_Transpose, name, 1, &x, SP_ATTRS(SP_INTS("perm", n, perm)));
}

void sp_zoo_split(sp_zoo_builder *b, const char *name, sp_value *x, int64_t axis, int n, sp_value **out)
{
    const sp_attrs *attrs = SP_ATTRS(SP_INT("axis", axis), SP_INT("num_outputs", n));
    for (int i = 0; i < n; i++) {
        const char *value = sp_zoo_numbered(b, sp_zoo_join(b, name, "_output_"), i, "");
        out[i] = NULL;
        if (!b->status) b->status = sp_graph_add_value(b->g, value, &out[i]);
    }
    if (!b->status) b->status = sp_graph_add_node(b->g, SP_OP_Split, name, 1, &x, n, out, attrs, NULL);
}

sp_value *sp_zoo_positions(sp_zoo_builder *b, const char *name, const char *node, int64_t most, sp_value *ids)
{
    int64_t dim[2] = {1, most};
    sparta_tensor t;
    if (!b->status) b->status = sp_tensor_alloc_in(b->g->arena, SPARTA_I64, 2, dim, &t);
    if (b->status) return NULL;
    for (int64_t i = 0; i < most; i++) ((int64_t *)t.data)[i] = i;
    sp_value *all = constant(b, name, &t, false);
    sp_value *size = sp_zoo_unary(b, SP_OP_Shape, sp_zoo_join(b, node, "/Shape"), ids);
    size = sp_zoo_binary(b, SP_OP_Gather, sp_zoo_join(b, node, "/Gather"), size,
                         sp_zoo_int(b, sp_zoo_join(b, node, "/Constant_1"), 1));
    sp_value *zero = sp_zoo_ints(b, sp_zoo_join(b, node, "/Constant_0"), 1, (int64_t[]){0});
    sp_value *axis = sp_zoo_ints(b, sp_zoo_join(b, node, "/Constant_2"), 1, (int64_t[]){1});
    size = sp_zoo_binary(b, SP_OP_Unsqueeze, sp_zoo_join(b, node, "/Unsqueeze"), size, zero);
    sp_value *in[] = {all, zero, size, axis, axis}; /* data, starts, ends, axes, steps */
    return sp_zoo_node(b, SP_OP_Slice, sp_zoo_join(b, node, "/Slice"), 5, in, NULL);
}

sp_value *sp_zoo_gemm(sp_zoo_builder *b, const char *layer, sp_value *x, int64_t in, int64_t out, bool pruned)
{
    const char *weight = sp_zoo_join(b, layer, ".weight"), *bias = sp_zoo_join(b, layer, ".bias");
    float deviation = sqrtf(2.0f / (float)in); /* keeps the size of activations through Relu */
    sp_value *args[3] = {x};
    args[1] = pruned ? sp_zoo_weight(b, weight, out, in, false, deviation)
                     : sp_zoo_matrix(b, weight, out, in, deviation);
    args[2] = sp_zoo_vector(b, bias, out, 0, 0.02f);
    const char *name = sp_zoo_join(b, sp_zoo_join(b, "/", layer), "/Gemm");
    return sp_zoo_node(b, SP_OP_Gemm, name, 3, args, SP_ATTRS(SP_INT("transB", 1)));
}

sp_value *sp_zoo_matmul(sp_zoo_builder *b, const char *path, const char *node, sp_value *x, int64_t in,
                        int64_t out, float deviation)
{
    sp_value *w = sp_zoo_weight(b, sp_zoo_join(b, path, ".weight"), out, in, true, deviation);
    return sp_zoo_binary(b, SP_OP_MatMul, sp_zoo_join(b, node, "/MatMul"), x, w);
}

sp_value *sp_zoo_layer_norm(sp_zoo_builder *b, const char *path, const char *node, sp_value *x, int64_t size,
                            float epsilon, float deviation)
{
    sp_value *in[3] = {x};
    in[1] = sp_zoo_vector(b, sp_zoo_join(b, path, ".weight"), size, 1, 0.05f);
    in[2] = sp_zoo_vector(b, sp_zoo_join(b, path, ".bias"), size, 0, deviation);
    return sp_zoo_node(b, SP_OP_LayerNormalization, sp_zoo_join(b, node, "/LayerNormalization"), 3, in,
                       SP_ATTRS(SP_INT("axis", -1), SP_FLOAT("epsilon", epsilon)));
}
