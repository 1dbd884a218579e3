/* What the convolutional models of the zoo are made of: layers as torchvision names them. A layer `conv1` has "conv1.weight", its node
 * is "/conv1/Conv". Filters keep the size of activations through Relu. */
#ifndef SP_ZOO_IMAGES_H
#define SP_ZOO_IMAGES_H

#include "zoo/build.h"

typedef struct sp_zoo_conv {
    int64_t in, out, kernel, stride;
    int64_t group;     /* 0 is 1 */
    bool bias, pruned; /* pruned: where the request asks for it */
} sp_zoo_conv;

/* torch.nn.Conv2d, padded by kernel / 2 on every side. */
sp_value *sp_zoo_convolve(sp_zoo_builder *b, const char *layer, sp_value *x, sp_zoo_conv c);
/* torch.nn.BatchNorm2d in inference; `gain` is the mean of its weight. */
sp_value *sp_zoo_normalise(sp_zoo_builder *b, const char *layer, sp_value *x, int64_t channels, float gain);
/* MaxPool or AveragePool of size x size by stride. */
sp_value *sp_zoo_pool(sp_zoo_builder *b, sp_op_id op, const char *name, sp_value *x, int64_t size,
                      int64_t stride, int64_t pad);
sp_value *sp_zoo_relu(sp_zoo_builder *b, const char *name, sp_value *x);
/* Mean of each plane, then a Gemm named `layer`: the end of a classifier. Its output is "logits". */
void sp_zoo_classify(sp_zoo_builder *b, const char *layer, sp_value *x, int64_t channels, int64_t classes);
/* Input "x" f32[batch,3,image,image]. */
sp_value *sp_zoo_image(sp_zoo_builder *b, int64_t image);

#endif
