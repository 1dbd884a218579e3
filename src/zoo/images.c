/* The layers of images.h. */
#include "zoo/images.h"
#include <math.h>
#include <stdio.h>

static const char *join(sparta_zoo_builder *b, const char *layer, const char *rest)
{
    return sparta_zoo_join(b, layer, rest);
}

static const char *node_of(sparta_zoo_builder *b, const char *layer, const char *op)
{
    return join(b, join(b, "/", layer), op);
}

const char *sparta_zoo_numbered(sparta_zoo_builder *b, const char *before, int64_t i, const char *after)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)i);
    return join(b, join(b, before, number), after);
}

static sparta_attr ints(const char *name, int n, const int64_t *value)
{
    return (sparta_attr){.name = name, .kind = SPARTA_ATTR_INTS, .n = n, .ints = value};
}

sparta_value *sparta_zoo_convolve(sparta_zoo_builder *b, const char *layer, sparta_value *x,
                                  sparta_zoo_conv c)
{
    const int64_t group = c.group ? c.group : 1, pad = c.kernel / 2;
    const int64_t dim[] = {c.out, c.in / group, c.kernel, c.kernel}, pads[] = {pad, pad, pad, pad},
                  strides[] = {c.stride, c.stride}, dilations[] = {1, 1};
    const float deviation = sqrtf(2.0f / (float)(dim[1] * c.kernel * c.kernel));
    const sparta_attr attr[] = {ints("dilations", 2, dilations),
                                {.name = "group", .kind = SPARTA_ATTR_INT, .i = group},
                                ints("kernel_shape", 2, dim + 2),
                                ints("pads", 4, pads),
                                ints("strides", 2, strides)};
    sparta_value *in[3] = {x, sparta_zoo_filters(b, join(b, layer, ".weight"), dim, deviation, c.pruned)};
    if (c.bias) in[2] = sparta_zoo_vector(b, join(b, layer, ".bias"), c.out, 0, 0.02f);
    return sparta_zoo_node(b, SPARTA_OP_Conv, node_of(b, layer, "/Conv"), c.bias ? 3 : 2, in,
                           &(sparta_attrs){5, attr});
}

sparta_value *sparta_zoo_normalise(sparta_zoo_builder *b, const char *layer, sparta_value *x,
                                   int64_t channels, float gain)
{
    sparta_value *in[] = {x, sparta_zoo_vector(b, join(b, layer, ".weight"), channels, gain, 0.05f * gain),
                          sparta_zoo_vector(b, join(b, layer, ".bias"), channels, 0, 0.02f),
                          sparta_zoo_vector(b, join(b, layer, ".running_mean"), channels, 0, 0.1f),
                          sparta_zoo_vector(b, join(b, layer, ".running_var"), channels, 1, 0.1f)};
    const sparta_attr attr = {.name = "epsilon", .kind = SPARTA_ATTR_FLOAT, .f = 1e-5f};
    return sparta_zoo_node(b, SPARTA_OP_BatchNormalization, node_of(b, layer, "/BatchNormalization"), 5, in,
                           &(sparta_attrs){1, &attr});
}

sparta_value *sparta_zoo_pool(sparta_zoo_builder *b, sparta_op_id op, const char *name, sparta_value *x,
                              int64_t size, int64_t stride, int64_t pad)
{
    const int64_t kernel[] = {size, size}, strides[] = {stride, stride}, pads[] = {pad, pad, pad, pad};
    const sparta_attr attr[] = {ints("kernel_shape", 2, kernel), ints("pads", 4, pads),
                                ints("strides", 2, strides)};
    return sparta_zoo_node(b, op, name, 1, &x, &(sparta_attrs){3, attr});
}

sparta_value *sparta_zoo_concat(sparta_zoo_builder *b, const char *name, int n, sparta_value *const *in)
{
    const sparta_attr attr = {.name = "axis", .kind = SPARTA_ATTR_INT, .i = 1};
    return sparta_zoo_node(b, SPARTA_OP_Concat, name, n, in, &(sparta_attrs){1, &attr});
}

sparta_value *sparta_zoo_relu(sparta_zoo_builder *b, const char *name, sparta_value *x)
{
    return sparta_zoo_unary(b, SPARTA_OP_Relu, name, x);
}

sparta_value *sparta_zoo_image(sparta_zoo_builder *b, int64_t image)
{
    const sparta_expr *batch = sparta_zoo_symbol(b, "batch"), *colours = sparta_expr_const(b->g->arena, 3),
                      *size = sparta_expr_const(b->g->arena, image);
    if ((!colours || !size) && !b->status) b->status = sparta_ctx_status(b->g->cx);
    return sparta_zoo_input(b, "x", SPARTA_F32, 4, (const sparta_expr *const[]){batch, colours, size, size});
}

void sparta_zoo_classify(sparta_zoo_builder *b, const char *layer, sparta_value *x, int64_t channels,
                         int64_t classes)
{
    const sparta_attr attr = {.name = "axis", .kind = SPARTA_ATTR_INT, .i = 1};
    x = sparta_zoo_unary(b, SPARTA_OP_GlobalAveragePool, "/avgpool/GlobalAveragePool", x);
    x = sparta_zoo_node(b, SPARTA_OP_Flatten, "/Flatten", 1, &x, &(sparta_attrs){1, &attr});
    x = sparta_zoo_gemm(b, layer, x, channels, classes, false);
    const sparta_expr *dim[] = {sparta_zoo_symbol(b, "batch"), sparta_expr_const(b->g->arena, classes)};
    if (!dim[1] && !b->status) b->status = sparta_ctx_status(b->g->cx);
    sparta_zoo_output(b, x, "logits", 2, dim);
}
