/* mlp: the smallest model worth pruning. x f32[batch,784] -> Gemm Relu -> Gemm Relu -> Gemm -> logits
 * f32[batch,10]. The hidden layers are pruned, the last one is not. Sizes: inputs hidden1 hidden2 classes. */
#include "zoo/build.h"

sparta_status sp_zoo_mlp(sp_graph *g, const sp_zoo_request *r)
{
    int64_t inputs = 784, hidden1 = 512, hidden2 = 256, classes = 10;
    const sp_zoo_size size[] = {{"inputs", &inputs},
                                {"hidden1", &hidden1},
                                {"hidden2", &hidden2},
                                {"classes", &classes},
                                {"batch", NULL}};
    SP_TRY(sp_zoo_sizes(g, r, size, (int)SP_COUNT(size)));
    sp_zoo_builder b = {.g = g, .request = r};
    const sp_expr *dim[2] = {sp_zoo_symbol(&b, "batch"), sp_zoo_number(&b, inputs)};
    sp_value *x = sp_zoo_input(&b, "x", SPARTA_F32, 2, dim);
    x = sp_zoo_unary(&b, SP_OP_Relu, "/fc1/Relu", sp_zoo_gemm(&b, "fc1", x, inputs, hidden1, true));
    x = sp_zoo_unary(&b, SP_OP_Relu, "/fc2/Relu", sp_zoo_gemm(&b, "fc2", x, hidden1, hidden2, true));
    x = sp_zoo_gemm(&b, "fc3", x, hidden2, classes, false);
    dim[1] = sp_zoo_number(&b, classes);
    sp_zoo_output(&b, x, "logits", 2, dim);
    return b.status;
}
