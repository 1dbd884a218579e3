/* mobilenet-v2: torchvision's, with its names: inverted residuals around depthwise convolutions.
 *
 *   a block:   x --1x1 to t times the channels, Relu6--> --3x3 of each channel by itself, Relu6--> --1x1--> + x, where sizes agree
 *
 * Relu6 is Clip(0, 6), as it is exported. The 1x1 convolutions are pruned. Sizes: image classes. */
#include "zoo/images.h"

typedef struct net {
    sparta_zoo_builder b;
    sparta_value *zero, *six;
} net;

/* Convolution, normalisation, Relu6: "<path>.0" and "<path>.1" of one torch.nn.Sequential. */
static sparta_value *unit(net *n, const char *path, sparta_value *x, sparta_zoo_conv c)
{
    sparta_zoo_builder *b = &n->b;
    x = sparta_zoo_convolve(b, sparta_zoo_join(b, path, ".0"), x, c);
    x = sparta_zoo_normalise(b, sparta_zoo_join(b, path, ".1"), x, c.out, 1);
    const char *name = sparta_zoo_join(b, sparta_zoo_join(b, "/", path), ".2/Clip");
    return sparta_zoo_node(b, SPARTA_OP_Clip, name, 3, (sparta_value *[]){x, n->zero, n->six}, NULL);
}

static sparta_value *block(net *n, const char *name, sparta_value *x, sparta_zoo_conv c, int64_t expand)
{
    sparta_zoo_builder *b = &n->b;
    const char *path = sparta_zoo_join(b, name, ".conv.");
    const int64_t hidden = c.in * expand;
    sparta_value *y = x;
    int at = 0;
    if (expand > 1)
        y = unit(n, sparta_zoo_numbered(b, path, at++, ""), y,
                 (sparta_zoo_conv){c.in, hidden, 1, 1, .pruned = true});
    y = unit(n, sparta_zoo_numbered(b, path, at++, ""), y,
             (sparta_zoo_conv){hidden, hidden, 3, c.stride, .group = hidden});
    y = sparta_zoo_convolve(b, sparta_zoo_numbered(b, path, at, ""), y,
                            (sparta_zoo_conv){hidden, c.out, 1, 1, .pruned = true});
    y = sparta_zoo_normalise(b, sparta_zoo_numbered(b, path, at + 1, ""), y, c.out, 0.7f);
    if (c.stride != 1 || c.in != c.out) return y;
    return sparta_zoo_binary(b, SPARTA_OP_Add, sparta_zoo_join(b, sparta_zoo_join(b, "/", name), "/Add"), x,
                             y);
}

static sparta_value *features(net *n, sparta_value *x)
{
    static const struct {
        int expand, out, repeat, stride;
    } stage[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    sparta_zoo_builder *b = &n->b;
    int64_t in = 32, at = 1;
    x = unit(n, "features.0", x, (sparta_zoo_conv){3, in, 3, 2, .group = 1});
    for (size_t s = 0; s < SPARTA_COUNT(stage); s++)
        for (int i = 0; i < stage[s].repeat && !b->status; i++) {
            sparta_zoo_conv c = {in, stage[s].out, 3, i == 0 ? stage[s].stride : 1, .group = 1};
            x = block(n, sparta_zoo_numbered(b, "features.", at++, ""), x, c, stage[s].expand);
            in = c.out;
        }
    return unit(n, sparta_zoo_numbered(b, "features.", at, ""), x,
                (sparta_zoo_conv){in, 1280, 1, 1, .pruned = true});
}

sparta_status sparta_zoo_mobilenet_v2(sparta_graph *g, const sparta_zoo_request *r)
{
    int64_t image = 224, classes = 1000;
    const sparta_zoo_size size[] = {{"image", &image}, {"classes", &classes}, {"batch", NULL}};
    SPARTA_TRY(sparta_zoo_sizes(g, r, size, (int)SPARTA_COUNT(size)));
    net n = {.b = {.g = g, .request = r}};
    sparta_value *x = sparta_zoo_image(&n.b, image);
    n.zero = sparta_zoo_float(&n.b, "/Constant_zero", 0);
    n.six = sparta_zoo_float(&n.b, "/Constant_six", 6);
    sparta_zoo_classify(&n.b, "classifier.1", features(&n, x), 1280, classes);
    return n.b.status;
}
