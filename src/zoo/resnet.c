/* resnet50: torchvision's, with its names.
 *
 *   x (B,3,224,224) --conv1 7x7/2, bn1, Relu, MaxPool 3x3/2--> layer1 .. layer4 of 3, 4, 6, 3 blocks --> mean --> fc
 *
 *   a block:   x --conv1 1x1--bn1--Relu--conv2 3x3--bn2--Relu--conv3 1x1--bn3-- + --Relu-->
 *               \-------------- downsample.0 1x1, downsample.1 where the size changes -/
 *
 * All convolutions but the first are pruned. Sizes: image width classes. */
#include "zoo/images.h"

typedef struct place { /* the block, and the channels that enter and leave it */
    const char *path;
    int64_t in, width, out, stride;
} place;

static sparta_value *layer(sparta_zoo_builder *b, const place *p, int i, sparta_value *x, sparta_zoo_conv c)
{
    const char *conv = sparta_zoo_join(b, p->path, sparta_zoo_numbered(b, ".conv", i, "")),
               *bn = sparta_zoo_join(b, p->path, sparta_zoo_numbered(b, ".bn", i, ""));
    c.pruned = true;
    x = sparta_zoo_convolve(b, conv, x, c);
    return sparta_zoo_normalise(b, bn, x, c.out, i == 3 ? 0.3f : 1); /* residuals add up: each adds little */
}

static sparta_value *block(sparta_zoo_builder *b, const place *p, sparta_value *x)
{
    const char *node = sparta_zoo_join(b, "/", p->path);
    sparta_value *same = x;
    sparta_value *y = layer(b, p, 1, x, (sparta_zoo_conv){p->in, p->width, 1, 1, .group = 1});
    y = sparta_zoo_relu(b, sparta_zoo_join(b, node, "/relu/Relu"), y);
    y = layer(b, p, 2, y, (sparta_zoo_conv){p->width, p->width, 3, p->stride, .group = 1});
    y = sparta_zoo_relu(b, sparta_zoo_join(b, node, "/relu_1/Relu"), y);
    y = layer(b, p, 3, y, (sparta_zoo_conv){p->width, p->out, 1, 1, .group = 1});
    if (p->in != p->out || p->stride != 1) {
        same = sparta_zoo_convolve(b, sparta_zoo_join(b, p->path, ".downsample.0"), x,
                                   (sparta_zoo_conv){p->in, p->out, 1, p->stride, .pruned = true});
        same = sparta_zoo_normalise(b, sparta_zoo_join(b, p->path, ".downsample.1"), same, p->out, 0.7f);
    }
    y = sparta_zoo_binary(b, SPARTA_OP_Add, sparta_zoo_join(b, node, "/Add"), y, same);
    return sparta_zoo_relu(b, sparta_zoo_join(b, node, "/relu_2/Relu"), y);
}

sparta_status sparta_zoo_resnet50(sparta_graph *g, const sparta_zoo_request *r)
{
    static const int blocks[] = {3, 4, 6, 3};
    int64_t image = 224, width = 64, classes = 1000;
    const sparta_zoo_size size[] = {
        {"image", &image}, {"width", &width}, {"classes", &classes}, {"batch", NULL}};
    SPARTA_TRY(sparta_zoo_sizes(g, r, size, (int)SPARTA_COUNT(size)));
    sparta_zoo_builder b = {.g = g, .request = r};
    sparta_value *x = sparta_zoo_image(&b, image);
    x = sparta_zoo_convolve(&b, "conv1", x, (sparta_zoo_conv){3, width, 7, 2, .group = 1});
    x = sparta_zoo_relu(&b, "/relu/Relu", sparta_zoo_normalise(&b, "bn1", x, width, 1));
    x = sparta_zoo_pool(&b, SPARTA_OP_MaxPool, "/maxpool/MaxPool", x, 3, 2, 1);
    int64_t in = width;
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage] && !b.status; i++) {
            const char *path =
                sparta_zoo_numbered(&b, sparta_zoo_numbered(&b, "layer", stage + 1, "."), i, "");
            place p = {path, in, width << stage, 4 * (width << stage), stage > 0 && i == 0 ? 2 : 1};
            x = block(&b, &p, x);
            in = p.out;
        }
    sparta_zoo_classify(&b, "fc", x, in, classes);
    return b.status;
}
