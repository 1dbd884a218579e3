/* The builder: constants with seeded contents and nodes named as PyTorch names them. */
#include "zoo/build.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ sizes */

static sparta_status override(sparta_graph *g, const char *name, int64_t value, const sparta_zoo_size *size,
                              int n)
{
    if (value < 1 || value > INT32_MAX)
        return sparta_fail(g->cx, SPARTA_E_USAGE, "zoo %s: %s=%lld; a size is from 1 to %d", g->name, name,
                           (long long)value, INT32_MAX);
    for (int i = 0; i < n; i++)
        if (!strcmp(size[i].name, name)) {
            if (size[i].value) *size[i].value = value;
            return SPARTA_OK;
        }
    sparta_text known;
    sparta_text_init(&known, g->cx);
    for (int i = 0; i < n; i++) sparta_text_printf(&known, " %s", size[i].name);
    sparta_status status = sparta_fail(g->cx, SPARTA_E_USAGE, "zoo %s: there is no size \"%s\"; it has%s",
                                       g->name, name, sparta_text_str(&known));
    sparta_text_free(&known);
    return status;
}

sparta_status sparta_zoo_sizes(sparta_graph *g, const sparta_zoo_request *r, const sparta_zoo_size *size,
                               int n)
{
    for (int i = 0; i < r->dims.n; i++) SPARTA_TRY(override(g, r->dims.name[i], r->dims.value[i], size, n));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the sticky status */

/* Keep a failed allocation: pointers that are NULL without a status must not get further. */
static bool have(sparta_zoo_builder *b, const void *p)
{
    if (!p && !b->status) b->status = sparta_ctx_status(b->g->cx);
    return p != NULL && !b->status;
}

const char *sparta_zoo_join(sparta_zoo_builder *b, const char *prefix, const char *rest)
{
    if (b->status) return "";
    const char *s = sparta_arena_printf(b->g->arena, "%s%s", prefix, rest);
    return have(b, s) ? s : "";
}

/* ------------------------------------------------------------------ inputs and outputs */

const sparta_expr *sparta_zoo_symbol(sparta_zoo_builder *b, const char *name)
{
    if (b->status) return NULL;
    const sparta_bindings *dims = &b->request->dims;
    const sparta_expr *e = NULL;
    int fixed = -1;
    for (int i = 0; i < dims->n; i++)
        if (!strcmp(dims->name[i], name)) fixed = i;
    e = fixed < 0 ? sparta_expr_symbol(b->g->arena, name)
                  : sparta_expr_const(b->g->arena, dims->value[fixed]);
    return have(b, e) ? e : NULL;
}

static sparta_dims shape(int rank, const sparta_expr *const *dim)
{
    sparta_dims d = {.rank = rank};
    for (int i = 0; i < rank; i++) d.dim[i] = dim[i];
    return d;
}

sparta_value *sparta_zoo_input(sparta_zoo_builder *b, const char *name, sparta_dtype dtype, int rank,
                               const sparta_expr *const *dim)
{
    sparta_value *v = NULL;
    if (b->status) return NULL;
    sparta_dims d = shape(rank, dim);
    b->status = sparta_graph_add_input(b->g, name, dtype, &d, &v);
    return b->status ? NULL : v;
}

/* The output is an Identity's, so that it can have the name that users of the model expect. */
void sparta_zoo_output(sparta_zoo_builder *b, sparta_value *v, const char *name, int rank,
                       const sparta_expr *const *dim)
{
    sparta_value *out = NULL;
    if (b->status) return;
    b->status = sparta_graph_add_value(b->g, name, &out);
    if (b->status) return;
    out->typed = true;
    out->dtype = SPARTA_F32;
    out->dims = shape(rank, dim);
    b->status =
        sparta_graph_add_node(b->g, SPARTA_OP_Identity, "/output/Identity", 1, &v, 1, &out, NULL, NULL);
    if (!b->status) b->status = sparta_graph_add_output(b->g, out);
}

/* ------------------------------------------------------------------ constants */

static sparta_value *constant(sparta_zoo_builder *b, const char *name, const sparta_tensor *t, bool copy)
{
    sparta_value *v = NULL;
    if (!b->status) b->status = sparta_graph_add_constant(b->g, name, t, copy, &v);
    return b->status ? NULL : v;
}

sparta_value *sparta_zoo_ints(sparta_zoo_builder *b, const char *name, int n, const int64_t *value)
{
    int64_t dim[1] = {n};
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, dim, (void *)value);
    return constant(b, name, &t, true);
}

sparta_value *sparta_zoo_int(sparta_zoo_builder *b, const char *name, int64_t value)
{
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 0, NULL, &value);
    return constant(b, name, &t, true);
}

sparta_value *sparta_zoo_float(sparta_zoo_builder *b, const char *name, float value)
{
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 0, NULL, &value);
    return constant(b, name, &t, true);
}

/* The sum of four 16-bit pieces of one random word is nearly normal; twice it, less its mean, is odd, hence
 * never 0. It has 19 bits and the scale 24, so their product is exact in a double and the number is the same
 * on every machine, fused multiply or not. */
static void fill(sparta_zoo_builder *b, const char *name, float *x, int64_t n, float mean, float deviation)
{
    const float scale = deviation / 75674.45f; /* the sum's own deviation: 2 * sqrt(4 * (2^32 - 1) / 12) */
    sparta_rng rng = sparta_rng_seed(sparta_hash(name, strlen(name), b->request->seed));
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = sparta_rng_next(&rng);
        int32_t sum = (int32_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48));
        x[i] = (float)((double)mean + (double)(2 * sum - 262139) * (double)scale);
    }
}

static bool random_tensor(sparta_zoo_builder *b, const char *name, int rank, const int64_t *dim, float mean,
                          float deviation, sparta_tensor *out)
{
    if (!b->status) b->status = sparta_check_cancel(b->g->cx);
    if (!b->status) b->status = sparta_tensor_alloc_in(b->g->arena, SPARTA_F32, rank, dim, out);
    if (b->status) return false;
    fill(b, name, out->data, sparta_tensor_elements(out), mean, deviation);
    return true;
}

sparta_value *sparta_zoo_vector(sparta_zoo_builder *b, const char *name, int64_t n, float mean,
                                float deviation)
{
    sparta_tensor t;
    return random_tensor(b, name, 1, &n, mean, deviation, &t) ? constant(b, name, &t, false) : NULL;
}

sparta_value *sparta_zoo_matrix(sparta_zoo_builder *b, const char *name, int64_t rows, int64_t cols,
                                float deviation)
{
    int64_t dim[2] = {rows, cols};
    sparta_tensor t;
    return random_tensor(b, name, 2, dim, 0, deviation, &t) ? constant(b, name, &t, false) : NULL;
}

/* `seen` is the tensor as (out, in). */
static void prune(sparta_zoo_builder *b, const char *name, const sparta_tensor *seen)
{
    if (!b->request->prune) return;
    sparta_prune_note(b->g->cx, b->request->prune, seen);
    b->status = sparta_prune(b->g->cx, b->request->prune, seen, NULL);
    if (b->status) sparta_fail_in(b->g->cx, "%s", name);
}

sparta_value *sparta_zoo_weight(sparta_zoo_builder *b, const char *name, int64_t out, int64_t in, bool in_out,
                                float deviation)
{
    int64_t dim[2] = {in_out ? in : out, in_out ? out : in};
    sparta_tensor t;
    if (!random_tensor(b, name, 2, dim, 0, deviation, &t)) return NULL;
    sparta_tensor seen = t;
    if (in_out) seen = (sparta_tensor){SPARTA_F32, 2, {out, in}, {1, out}, t.data};
    prune(b, name, &seen);
    return constant(b, name, &t, false);
}

sparta_value *sparta_zoo_filters(sparta_zoo_builder *b, const char *name, const int64_t dim[4],
                                 float deviation, bool pruned)
{
    sparta_tensor t;
    if (!random_tensor(b, name, 4, dim, 0, deviation, &t)) return NULL;
    int64_t flat[2] = {dim[0], dim[1] * dim[2] * dim[3]};
    sparta_tensor seen = sparta_tensor_view(SPARTA_F32, 2, flat, t.data);
    if (pruned) prune(b, name, &seen);
    return constant(b, name, &t, false);
}

/* ------------------------------------------------------------------ nodes */

sparta_value *sparta_zoo_node(sparta_zoo_builder *b, sparta_op_id op, const char *name, int n_in,
                              sparta_value *const *in, const sparta_attrs *attrs)
{
    sparta_value *out = NULL;
    const char *value = sparta_zoo_join(b, name, "_output_0");
    if (!b->status) b->status = sparta_graph_add_value(b->g, value, &out);
    if (!b->status) b->status = sparta_graph_add_node(b->g, op, name, n_in, in, 1, &out, attrs, NULL);
    return b->status ? NULL : out;
}

sparta_value *sparta_zoo_unary(sparta_zoo_builder *b, sparta_op_id op, const char *name, sparta_value *x)
{
    return sparta_zoo_node(b, op, name, 1, &x, NULL);
}

sparta_value *sparta_zoo_binary(sparta_zoo_builder *b, sparta_op_id op, const char *name, sparta_value *x,
                                sparta_value *y)
{
    sparta_value *in[] = {x, y};
    return sparta_zoo_node(b, op, name, 2, in, NULL);
}

sparta_value *sparta_zoo_transpose(sparta_zoo_builder *b, const char *name, sparta_value *x, int n,
                                   const int64_t *perm)
{
    sparta_attr attr = {.name = "perm", .kind = SPARTA_ATTR_INTS, .n = n, .ints = perm};
    sparta_attrs attrs = {1, &attr};
    return sparta_zoo_node(b, SPARTA_OP_Transpose, name, 1, &x, &attrs);
}

void sparta_zoo_split(sparta_zoo_builder *b, const char *name, sparta_value *x, int64_t axis, int n,
                      sparta_value **out)
{
    const sparta_attr attr[] = {{.name = "axis", .kind = SPARTA_ATTR_INT, .i = axis},
                                {.name = "num_outputs", .kind = SPARTA_ATTR_INT, .i = n}};
    const sparta_attrs attrs = {2, attr};
    for (int i = 0; i < n; i++) {
        char number[24];
        snprintf(number, sizeof number, "_output_%d", i);
        const char *value = sparta_zoo_join(b, name, number);
        out[i] = NULL;
        if (!b->status) b->status = sparta_graph_add_value(b->g, value, &out[i]);
    }
    if (!b->status)
        b->status = sparta_graph_add_node(b->g, SPARTA_OP_Split, name, 1, &x, n, out, &attrs, NULL);
}

sparta_value *sparta_zoo_positions(sparta_zoo_builder *b, const char *name, const char *node, int64_t most,
                                   sparta_value *ids)
{
    int64_t dim[2] = {1, most};
    sparta_tensor t;
    if (!b->status) b->status = sparta_tensor_alloc_in(b->g->arena, SPARTA_I64, 2, dim, &t);
    if (b->status) return NULL;
    for (int64_t i = 0; i < most; i++) ((int64_t *)t.data)[i] = i;
    sparta_value *all = constant(b, name, &t, false);
    sparta_value *size = sparta_zoo_unary(b, SPARTA_OP_Shape, sparta_zoo_join(b, node, "/Shape"), ids);
    size = sparta_zoo_binary(b, SPARTA_OP_Gather, sparta_zoo_join(b, node, "/Gather"), size,
                             sparta_zoo_int(b, sparta_zoo_join(b, node, "/Constant_1"), 1));
    sparta_value *zero = sparta_zoo_ints(b, sparta_zoo_join(b, node, "/Constant_0"), 1, (int64_t[]){0});
    sparta_value *axis = sparta_zoo_ints(b, sparta_zoo_join(b, node, "/Constant_2"), 1, (int64_t[]){1});
    size = sparta_zoo_binary(b, SPARTA_OP_Unsqueeze, sparta_zoo_join(b, node, "/Unsqueeze"), size, zero);
    sparta_value *in[] = {all, zero, size, axis, axis}; /* data, starts, ends, axes, steps */
    return sparta_zoo_node(b, SPARTA_OP_Slice, sparta_zoo_join(b, node, "/Slice"), 5, in, NULL);
}

sparta_value *sparta_zoo_gemm(sparta_zoo_builder *b, const char *layer, sparta_value *x, int64_t in,
                              int64_t out, bool pruned)
{
    const char *weight = sparta_zoo_join(b, layer, ".weight"), *bias = sparta_zoo_join(b, layer, ".bias");
    float deviation = sqrtf(2.0f / (float)in); /* keeps the size of activations through Relu */
    sparta_value *args[3] = {x};
    args[1] = pruned ? sparta_zoo_weight(b, weight, out, in, false, deviation)
                     : sparta_zoo_matrix(b, weight, out, in, deviation);
    args[2] = sparta_zoo_vector(b, bias, out, 0, 0.02f);
    sparta_attr attr = {.name = "transB", .kind = SPARTA_ATTR_INT, .i = 1};
    sparta_attrs attrs = {1, &attr};
    const char *name = sparta_zoo_join(b, sparta_zoo_join(b, "/", layer), "/Gemm");
    return sparta_zoo_node(b, SPARTA_OP_Gemm, name, 3, args, &attrs);
}

sparta_value *sparta_zoo_matmul(sparta_zoo_builder *b, const char *path, const char *node, sparta_value *x,
                                int64_t in, int64_t out, float deviation)
{
    sparta_value *w = sparta_zoo_weight(b, sparta_zoo_join(b, path, ".weight"), out, in, true, deviation);
    return sparta_zoo_binary(b, SPARTA_OP_MatMul, sparta_zoo_join(b, node, "/MatMul"), x, w);
}

sparta_value *sparta_zoo_layer_norm(sparta_zoo_builder *b, const char *path, const char *node,
                                    sparta_value *x, int64_t size, float epsilon, float deviation)
{
    sparta_attr attr[] = {{.name = "axis", .kind = SPARTA_ATTR_INT, .i = -1},
                          {.name = "epsilon", .kind = SPARTA_ATTR_FLOAT, .f = epsilon}};
    sparta_attrs attrs = {2, attr};
    sparta_value *in[3] = {x};
    in[1] = sparta_zoo_vector(b, sparta_zoo_join(b, path, ".weight"), size, 1, 0.05f);
    in[2] = sparta_zoo_vector(b, sparta_zoo_join(b, path, ".bias"), size, 0, deviation);
    return sparta_zoo_node(b, SPARTA_OP_LayerNormalization, sparta_zoo_join(b, node, "/LayerNormalization"),
                           3, in, &attrs);
}
