/* mlp: the smallest model worth pruning. x f32[batch,784] -> Gemm Relu -> Gemm Relu -> Gemm -> logits
 * f32[batch,10]. The hidden layers are pruned, the last one is not. Sizes: inputs hidden1 hidden2 classes. */
#include "zoo/build.h"
#include <math.h>

/* Weights are (out, in), as torch.nn.Linear keeps them and Gemm takes them with transB. */
static sparta_value *linear(sparta_zoo_builder *b, const char *layer, sparta_value *x, int64_t in,
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

sparta_status sparta_zoo_mlp(sparta_graph *g, const sparta_zoo_request *r)
{
    int64_t inputs = 784, hidden1 = 512, hidden2 = 256, classes = 10;
    const sparta_zoo_size size[] = {{"inputs", &inputs},
                                    {"hidden1", &hidden1},
                                    {"hidden2", &hidden2},
                                    {"classes", &classes},
                                    {"batch", NULL}};
    SPARTA_TRY(sparta_zoo_sizes(g, r, size, (int)SPARTA_COUNT(size)));
    sparta_zoo_builder b = {.g = g, .request = r};
    const sparta_expr *dim[2] = {sparta_zoo_symbol(&b, "batch"), sparta_expr_const(g->arena, inputs)};
    SPARTA_NEED(g->cx, dim[1]);
    sparta_value *x = sparta_zoo_input(&b, "x", SPARTA_F32, 2, dim);
    x = sparta_zoo_unary(&b, SPARTA_OP_Relu, "/fc1/Relu", linear(&b, "fc1", x, inputs, hidden1, true));
    x = sparta_zoo_unary(&b, SPARTA_OP_Relu, "/fc2/Relu", linear(&b, "fc2", x, hidden1, hidden2, true));
    x = linear(&b, "fc3", x, hidden2, classes, false);
    dim[1] = sparta_expr_const(g->arena, classes);
    SPARTA_NEED(g->cx, dim[1]);
    sparta_zoo_output(&b, x, "logits", 2, dim);
    return b.status;
}
