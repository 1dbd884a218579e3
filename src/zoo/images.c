/* The layers of images.h. */
#include "zoo/images.h"
#include <math.h>

static const char *join(sp_zoo_builder *b, const char *layer, const char *rest)
{
    return sp_zoo_join(b, layer, rest);
}

static const char *node_of(sp_zoo_builder *b, const char *layer, const char *op)
{
    return join(b, join(b, "/", layer), op);
}

sp_value *sp_zoo_convolve(sp_zoo_builder *b, const char *layer, sp_value *x, sp_zoo_conv c)
{
    const int64_t group = c.group ? c.group : 1, pad = c.kernel / 2;
    const int64_t dim[] = {c.out, c.in / group, c.kernel, c.kernel}, pads[] = {pad, pad, pad, pad},
                  strides[] = {c.stride, c.stride}, dilations[] = {1, 1};
    const float deviation = sqrtf(2.0f / (float)(dim[1] * c.kernel * c.kernel));
    const sp_attr attr[] = {SP_INTS("dilations", 2, dilations), SP_INT("group", group),
                            SP_INTS("kernel_shape", 2, dim + 2), SP_INTS("pads", 4, pads),
                            SP_INTS("strides", 2, strides)};
    sp_value *in[3] = {x, sp_zoo_filters(b, join(b, layer, ".weight"), dim, deviation, c.pruned)};
    if (c.bias) in[2] = sp_zoo_vector(b, join(b, layer, ".bias"), c.out, 0, 0.02f);
    return sp_zoo_node(b, SP_OP_Conv, node_of(b, layer, "/Conv"), c.bias ? 3 : 2, in, &(sp_attrs){5, attr});
}

sp_value *sp_zoo_normalise(sp_zoo_builder *b, const char *layer, sp_value *x, int64_t channels, float gain)
{
    sp_value *in[] = {x, sp_zoo_vector(b, join(b, layer, ".weight"), channels, gain, 0.05f * gain),
                      sp_zoo_vector(b, join(b, layer, ".bias"), channels, 0, 0.02f),
                      sp_zoo_vector(b, join(b, layer, ".running_mean"), channels, 0, 0.1f),
                      sp_zoo_vector(b, join(b, layer, ".running_var"), channels, 1, 0.1f)};
    return sp_zoo_node(b, SP_OP_BatchNormalization, node_of(b, layer, "/BatchNormalization"), 5, in,
                       SP_ATTRS(SP_FLOAT("epsilon", 1e-5f)));
}

sp_value *sp_zoo_pool(sp_zoo_builder *b, sp_op_id op, const char *name, sp_value *x, int64_t size,
                      int64_t stride, int64_t pad)
{
    const int64_t kernel[] = {size, size}, strides[] = {stride, stride}, pads[] = {pad, pad, pad, pad};
    const sp_attr attr[] = {SP_INTS("kernel_shape", 2, kernel), SP_INTS("pads", 4, pads),
                            SP_INTS("strides", 2, strides)};
    return sp_zoo_node(b, op, name, 1, &x, &(sp_attrs){3, attr});
}

sp_value *sp_zoo_relu(sp_zoo_builder *b, const char *name, sp_value *x)
{
    return sp_zoo_unary(b, SP_OP_Relu, name, x);
}

sp_value *sp_zoo_image(sp_zoo_builder *b, int64_t image)
{
    const sp_expr *size = sp_zoo_number(b, image);
    return sp_zoo_input(b, "x", SPARTA_F32, 4,
                        (const sp_expr *const[]){sp_zoo_symbol(b, "batch"), sp_zoo_number(b, 3), size, size});
}

void sp_zoo_classify(sp_zoo_builder *b, const char *layer, sp_value *x, int64_t channels, int64_t classes)
{
    x = sp_zoo_unary(b, SP_OP_GlobalAveragePool, "/avgpool/GlobalAveragePool", x);
    x = sp_zoo_node(b, SP_OP_Flatten, "/Flatten", 1, &x, SP_ATTRS(SP_INT("axis", 1)));
    x = sp_zoo_gemm(b, layer, x, channels, classes, false);
    sp_zoo_output(b, x, "logits", 2,
                  (const sp_expr *const[]){sp_zoo_symbol(b, "batch"), sp_zoo_number(b, classes)});
}
