/* What the convolutional models of the zoo are made of: layers as torchvision names them. A layer `conv1` has "conv1.weight", its node
 * is "/conv1/Conv". Filters keep the size of activations through Relu. */
#ifndef SPARTA_ZOO_IMAGES_H
#define SPARTA_ZOO_IMAGES_H

#include "zoo/build.h"

typedef struct sparta_zoo_conv {
    int64_t in, out, kernel, stride;
    int64_t group;     /* 0 is 1 */
    bool bias, pruned; /* pruned: where the request asks for it */
} sparta_zoo_conv;

/* torch.nn.Conv2d, padded by kernel / 2 on every side. */
sparta_value *sparta_zoo_convolve(sparta_zoo_builder *b, const char *layer, sparta_value *x,
                                  sparta_zoo_conv c);
/* torch.nn.BatchNorm2d in inference; `gain` is the mean of its weight. */
sparta_value *sparta_zoo_normalise(sparta_zoo_builder *b, const char *layer, sparta_value *x,
                                   int64_t channels, float gain);
/* MaxPool or AveragePool of size x size by stride. */
sparta_value *sparta_zoo_pool(sparta_zoo_builder *b, sparta_op_id op, const char *name, sparta_value *x,
                              int64_t size, int64_t stride, int64_t pad);
sparta_value *sparta_zoo_concat(sparta_zoo_builder *b, const char *name, int n, sparta_value *const *in);
sparta_value *sparta_zoo_relu(sparta_zoo_builder *b, const char *name, sparta_value *x);
/* Mean of each plane, then a Gemm named `layer`: the end of a classifier. Its output is "logits". */
void sparta_zoo_classify(sparta_zoo_builder *b, const char *layer, sparta_value *x, int64_t channels,
                         int64_t classes);
/* Input "x" f32[batch,3,image,image]. */
sparta_value *sparta_zoo_image(sparta_zoo_builder *b, int64_t image);
const char *sparta_zoo_numbered(sparta_zoo_builder *b, const char *before, int64_t i, const char *after);

#endif
