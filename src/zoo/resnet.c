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

static sp_value *layer(sp_zoo_builder *b, const place *p, int i, sp_value *x, sp_zoo_conv c)
{
    const char *conv = sp_zoo_join(b, p->path, sp_zoo_numbered(b, ".conv", i, "")),
               *bn = sp_zoo_join(b, p->path, sp_zoo_numbered(b, ".bn", i, ""));
    c.pruned = true;
    x = sp_zoo_convolve(b, conv, x, c);
    return sp_zoo_normalise(b, bn, x, c.out, i == 3 ? 0.3f : 1); /* residuals add up: each adds little */
}

static sp_value *block(sp_zoo_builder *b, const place *p, sp_value *x)
{
    const char *node = sp_zoo_join(b, "/", p->path);
    sp_value *same = x;
    sp_value *y = layer(b, p, 1, x, (sp_zoo_conv){p->in, p->width, 1, 1, .group = 1});
    y = sp_zoo_relu(b, sp_zoo_join(b, node, "/relu/Relu"), y);
    y = layer(b, p, 2, y, (sp_zoo_conv){p->width, p->width, 3, p->stride, .group = 1});
    y = sp_zoo_relu(b, sp_zoo_join(b, node, "/relu_1/Relu"), y);
    y = layer(b, p, 3, y, (sp_zoo_conv){p->width, p->out, 1, 1, .group = 1});
    if (p->in != p->out || p->stride != 1) {
        same = sp_zoo_convolve(b, sp_zoo_join(b, p->path, ".downsample.0"), x,
                               (sp_zoo_conv){p->in, p->out, 1, p->stride, .pruned = true});
        same = sp_zoo_normalise(b, sp_zoo_join(b, p->path, ".downsample.1"), same, p->out, 0.7f);
    }
    y = sp_zoo_binary(b, SP_OP_Add, sp_zoo_join(b, node, "/Add"), y, same);
    return sp_zoo_relu(b, sp_zoo_join(b, node, "/relu_2/Relu"), y);
}

sparta_status sp_zoo_resnet50(sp_graph *g, const sp_zoo_request *r)
{
    static const int blocks[] = {3, 4, 6, 3};
    int64_t image = 224, width = 64, classes = 1000;
    const sp_zoo_size size[] = {{"image", &image}, {"width", &width}, {"classes", &classes}, {"batch", NULL}};
    SP_TRY(sp_zoo_sizes(g, r, size, (int)SP_COUNT(size)));
    sp_zoo_builder b = {.g = g, .request = r};
    sp_value *x = sp_zoo_image(&b, image);
    x = sp_zoo_convolve(&b, "conv1", x, (sp_zoo_conv){3, width, 7, 2, .group = 1});
    x = sp_zoo_relu(&b, "/relu/Relu", sp_zoo_normalise(&b, "bn1", x, width, 1));
    x = sp_zoo_pool(&b, SP_OP_MaxPool, "/maxpool/MaxPool", x, 3, 2, 1);
    int64_t in = width;
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage] && !b.status; i++) {
            const char *path = sp_zoo_numbered(&b, sp_zoo_numbered(&b, "layer", stage + 1, "."), i, "");
            place p = {path, in, width << stage, 4 * (width << stage), stage > 0 && i == 0 ? 2 : 1};
            x = block(&b, &p, x);
            in = p.out;
        }
    sp_zoo_classify(&b, "fc", x, in, classes);
    return b.status;
}
