/* densenet-small: a DenseNet-BC for small images, with torchvision's names. Every layer reads all results before it in its block.
 *
 *   x --conv0 3x3--> denseblock1 --transition1--> denseblock2 --transition2--> denseblock3 --norm5, Relu, mean--> classifier
 *
 *   a layer:   Concat of all before --norm1, Relu, conv1 1x1 to 4 growth--norm2, Relu, conv2 3x3--> growth channels more
 *   between:   norm, Relu, conv 1x1 to half the channels, AveragePool 2x2
 *
 * All convolutions but the first are pruned. Sizes: image layers (of each block) growth classes. */
#include "zoo/images.h"

enum { BLOCKS = 3, MOST_LAYERS = 100 };

typedef struct shape {
    int64_t image, layers, growth, classes;
} shape;

/* Normalisation, Relu, convolution: "<path>norm<i>", "relu<i>", "conv<i>"; `i` is a text, "" where there is only one. */
static sp_value *unit(sp_zoo_builder *b, const char *path, const char *i, sp_value *x, sp_zoo_conv c)
{
    const char *norm = sp_zoo_join(b, sp_zoo_join(b, path, "norm"), i),
               *conv = sp_zoo_join(b, sp_zoo_join(b, path, "conv"), i),
               *relu = sp_zoo_join(b, sp_zoo_join(b, sp_zoo_join(b, "/", path), "relu"), i);
    x = sp_zoo_normalise(b, norm, x, c.in, 1);
    x = sp_zoo_relu(b, sp_zoo_join(b, relu, "/Relu"), x);
    c.pruned = true;
    return sp_zoo_convolve(b, conv, x, c);
}

/* All that came before, and `growth` channels for each layer. *channels grows. */
static sp_value *block(sp_zoo_builder *b, const char *path, const shape *s, sp_value *x, int64_t *channels)
{
    sp_value *part[MOST_LAYERS + 1] = {x};
    for (int i = 0; i < s->layers && !b->status; i++) {
        const char *layer = sp_zoo_numbered(b, sp_zoo_join(b, path, ".denselayer"), i + 1, ".");
        sp_value *all = part[0];
        if (i > 0) all = sp_zoo_concat(b, sp_zoo_join(b, sp_zoo_join(b, "/", layer), "/Concat"), i + 1, part);
        all = unit(b, layer, "1", all, (sp_zoo_conv){*channels, 4 * s->growth, 1, 1, .group = 1});
        part[i + 1] = unit(b, layer, "2", all, (sp_zoo_conv){4 * s->growth, s->growth, 3, 1, .group = 1});
        *channels += s->growth;
    }
    return sp_zoo_concat(b, sp_zoo_join(b, sp_zoo_join(b, "/", path), "/Concat"), (int)s->layers + 1, part);
}

static sp_value *features(sp_zoo_builder *b, const shape *s, sp_value *x, int64_t *channels)
{
    x = sp_zoo_convolve(b, "features.conv0", x, (sp_zoo_conv){3, *channels, 3, 1, .group = 1});
    for (int i = 1; i <= BLOCKS && !b->status; i++) {
        x = block(b, sp_zoo_numbered(b, "features.denseblock", i, ""), s, x, channels);
        if (i == BLOCKS) break;
        const char *path = sp_zoo_numbered(b, "features.transition", i, ".");
        x = unit(b, path, "", x, (sp_zoo_conv){*channels, *channels / 2, 1, 1, .group = 1});
        *channels /= 2;
        x = sp_zoo_pool(b, SP_OP_AveragePool, sp_zoo_join(b, sp_zoo_join(b, "/", path), "pool/AveragePool"),
                        x, 2, 2, 0);
    }
    x = sp_zoo_normalise(b, "features.norm5", x, *channels, 1);
    return sp_zoo_relu(b, "/Relu", x);
}

sparta_status sp_zoo_densenet_small(sp_graph *g, const sp_zoo_request *r)
{
    shape s = {.image = 32, .layers = 8, .growth = 12, .classes = 10};
    const sp_zoo_size size[] = {{"image", &s.image},
                                {"layers", &s.layers},
                                {"growth", &s.growth},
                                {"classes", &s.classes},
                                {"batch", NULL}};
    SP_TRY(sp_zoo_sizes(g, r, size, (int)SP_COUNT(size)));
    if (s.layers > MOST_LAYERS || s.image < 4)
        return sp_fail(g->cx, SPARTA_E_USAGE, "zoo %s: layers=%lld, image=%lld; at most %d, at least 4",
                       g->name, (long long)s.layers, (long long)s.image, MOST_LAYERS);
    sp_zoo_builder b = {.g = g, .request = r};
    int64_t channels = 2 * s.growth;
    sp_value *x = features(&b, &s, sp_zoo_image(&b, s.image), &channels);
    sp_zoo_classify(&b, "classifier", x, channels, s.classes);
    return b.status;
}
