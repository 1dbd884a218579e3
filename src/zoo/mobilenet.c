/* mobilenet-v2: torchvision's, with its names: inverted residuals around depthwise convolutions.
 *
 *   a block:   x --1x1 to t times the channels, Relu6--> --3x3 of each channel by itself, Relu6--> --1x1--> + x, where sizes agree
 *
 * Relu6 is Clip(0, 6), as it is exported. The 1x1 convolutions are pruned. Sizes: image classes. */
#include "zoo/images.h"

typedef struct net {
    sp_zoo_builder b;
    sp_value *zero, *six;
} net;

/* Convolution, normalisation, Relu6: "<path>.0" and "<path>.1" of one torch.nn.Sequential. */
static sp_value *unit(net *n, const char *path, sp_value *x, sp_zoo_conv c)
{
    sp_zoo_builder *b = &n->b;
    x = sp_zoo_convolve(b, sp_zoo_join(b, path, ".0"), x, c);
    x = sp_zoo_normalise(b, sp_zoo_join(b, path, ".1"), x, c.out, 1);
    const char *name = sp_zoo_join(b, sp_zoo_join(b, "/", path), ".2/Clip");
    return sp_zoo_node(b, SP_OP_Clip, name, 3, (sp_value *[]){x, n->zero, n->six}, NULL);
}

static sp_value *block(net *n, const char *name, sp_value *x, sp_zoo_conv c, int64_t expand)
{
    sp_zoo_builder *b = &n->b;
    const char *path = sp_zoo_join(b, name, ".conv.");
    const int64_t hidden = c.in * expand;
    sp_value *y = x;
    int at = 0;
    if (expand > 1)
        y = unit(n, sp_zoo_numbered(b, path, at++, ""), y, (sp_zoo_conv){c.in, hidden, 1, 1, .pruned = true});
    y = unit(n, sp_zoo_numbered(b, path, at++, ""), y,
             (sp_zoo_conv){hidden, hidden, 3, c.stride, .group = hidden});
    y = sp_zoo_convolve(b, sp_zoo_numbered(b, path, at, ""), y,
                        (sp_zoo_conv){hidden, c.out, 1, 1, .pruned = true});
    y = sp_zoo_normalise(b, sp_zoo_numbered(b, path, at + 1, ""), y, c.out, 0.7f);
    if (c.stride != 1 || c.in != c.out) return y;
    return sp_zoo_binary(b, SP_OP_Add, sp_zoo_join(b, sp_zoo_join(b, "/", name), "/Add"), x, y);
}

static sp_value *features(net *n, sp_value *x)
{
    static const struct {
        int expand, out, repeat, stride;
    } stage[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    sp_zoo_builder *b = &n->b;
    int64_t in = 32, at = 1;
    x = unit(n, "features.0", x, (sp_zoo_conv){3, in, 3, 2, .group = 1});
    for (size_t s = 0; s < SP_COUNT(stage); s++)
        for (int i = 0; i < stage[s].repeat && !b->status; i++) {
            sp_zoo_conv c = {in, stage[s].out, 3, i == 0 ? stage[s].stride : 1, .group = 1};
            x = block(n, sp_zoo_numbered(b, "features.", at++, ""), x, c, stage[s].expand);
            in = c.out;
        }
    return unit(n, sp_zoo_numbered(b, "features.", at, ""), x, (sp_zoo_conv){in, 1280, 1, 1, .pruned = true});
}

sparta_status sp_zoo_mobilenet_v2(sp_graph *g, const sp_zoo_request *r)
{
    int64_t image = 224, classes = 1000;
    const sp_zoo_size size[] = {{"image", &image}, {"classes", &classes}, {"batch", NULL}};
    SP_TRY(sp_zoo_sizes(g, r, size, (int)SP_COUNT(size)));
    net n = {.b = {.g = g, .request = r}};
    sp_value *x = sp_zoo_image(&n.b, image);
    n.zero = sp_zoo_float(&n.b, "/Constant_zero", 0);
    n.six = sp_zoo_float(&n.b, "/Constant_six", 6);
    sp_zoo_classify(&n.b, "classifier.1", features(&n, x), 1280, classes);
    return n.b.status;
}
