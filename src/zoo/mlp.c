/* mlp: the smallest model worth pruning. x f32[batch,784] -> Gemm Relu -> Gemm Relu -> Gemm -> logits
 * f32[batch,10]. The hidden layers are pruned, the last one is not. Sizes: inputs hidden1 hidden2 classes. */
#include "zoo/build.h"

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
    x = sparta_zoo_unary(&b, SPARTA_OP_Relu, "/fc1/Relu",
                         sparta_zoo_gemm(&b, "fc1", x, inputs, hidden1, true));
    x = sparta_zoo_unary(&b, SPARTA_OP_Relu, "/fc2/Relu",
                         sparta_zoo_gemm(&b, "fc2", x, hidden1, hidden2, true));
    x = sparta_zoo_gemm(&b, "fc3", x, hidden2, classes, false);
    dim[1] = sparta_expr_const(g->arena, classes);
    SPARTA_NEED(g->cx, dim[1]);
    sparta_zoo_output(&b, x, "logits", 2, dim);
    return b.status;
}
