/* unet: an encoder, a decoder, and a skip at every level, as it is usually written in PyTorch (inc, down1-4, up1-4, outc).
 *
 *   x --inc--> w ------------------------------------------------ Concat --up4--> --outc 1x1--> classes
 *               \--MaxPool, down1--> 2w ---------------- Concat --up3--/   ConvTranspose 2x2/2 between the levels
 *                                     \--down2--> 4w ... down4--> 16w
 *
 * A level is two times 3x3 convolution, normalisation, Relu. These convolutions are pruned, but the first. Sizes: image (a multiple
 * of 16) width classes. */
#include "zoo/images.h"
#include <math.h>

enum { LEVELS = 4 };

/* "<path>.double_conv": 0 and 3 are convolutions, 1 and 4 normalisations, 2 and 5 Relu. */
static sp_value *twice(sp_zoo_builder *b, const char *path, sp_value *x, int64_t in, int64_t out)
{
    const char *layer = sp_zoo_join(b, path, ".double_conv.");
    for (int i = 0; i < 2; i++) {
        sp_zoo_conv c = {i ? out : in, out, 3, 1, .pruned = in != 3 || i};
        x = sp_zoo_convolve(b, sp_zoo_numbered(b, layer, 3 * i, ""), x, c);
        x = sp_zoo_normalise(b, sp_zoo_numbered(b, layer, 3 * i + 1, ""), x, out, 1);
        x = sp_zoo_relu(b, sp_zoo_numbered(b, sp_zoo_join(b, "/", layer), 3 * i + 2, "/Relu"), x);
    }
    return x;
}

/* Twice the image, half the channels. */
static sp_value *enlarge(sp_zoo_builder *b, const char *path, sp_value *x, int64_t in)
{
    static const int64_t two[] = {2, 2};
    const int64_t dim[] = {in, in / 2, 2, 2};
    const char *layer = sp_zoo_join(b, path, ".up");
    sp_value *w = sp_zoo_filters(b, sp_zoo_join(b, layer, ".weight"), dim, sqrtf(1.0f / (float)in), false);
    sp_value *bias = sp_zoo_vector(b, sp_zoo_join(b, layer, ".bias"), in / 2, 0, 0.02f);
    return sp_zoo_node(b, SP_OP_ConvTranspose, sp_zoo_join(b, sp_zoo_join(b, "/", layer), "/ConvTranspose"),
                       3, (sp_value *[]){x, w, bias},
                       SP_ATTRS(SP_INTS("kernel_shape", 2, two), SP_INTS("strides", 2, two)));
}

static sp_value *levels(sp_zoo_builder *b, sp_value *x, int64_t width)
{
    sp_value *skip[LEVELS];
    x = twice(b, "inc", x, 3, width);
    for (int i = 0; i < LEVELS; i++) {
        const char *path = sp_zoo_numbered(b, "down", i + 1, ".maxpool_conv.1");
        skip[i] = x;
        x = sp_zoo_pool(b, SP_OP_MaxPool, sp_zoo_numbered(b, "/down", i + 1, "/MaxPool"), x, 2, 2, 0);
        x = twice(b, path, x, width << i, width << (i + 1));
    }
    for (int i = LEVELS - 1; i >= 0; i--) {
        const char *path = sp_zoo_numbered(b, "up", LEVELS - i, "");
        const int64_t in = width << (i + 1);
        sp_value *both[] = {skip[i], enlarge(b, path, x, in)};
        x = sp_zoo_concat(b, sp_zoo_join(b, sp_zoo_join(b, "/", path), "/Concat"), 2, both);
        x = twice(b, sp_zoo_join(b, path, ".conv"), x, in, in / 2);
    }
    return x;
}

sparta_status sp_zoo_unet(sp_graph *g, const sp_zoo_request *r)
{
    int64_t image = 256, width = 32, classes = 2;
    const sp_zoo_size size[] = {{"image", &image}, {"width", &width}, {"classes", &classes}, {"batch", NULL}};
    SP_TRY(sp_zoo_sizes(g, r, size, (int)SP_COUNT(size)));
    if (image % 16)
        return sp_fail(g->cx, SPARTA_E_USAGE, "zoo %s: image=%lld is no multiple of 16", g->name,
                       (long long)image);
    sp_zoo_builder b = {.g = g, .request = r};
    sp_value *x = levels(&b, sp_zoo_image(&b, image), width);
    x = sp_zoo_convolve(&b, "outc.conv", x, (sp_zoo_conv){width, classes, 1, 1, .bias = true});
    const sp_expr *batch = sp_zoo_symbol(&b, "batch"), *side = sp_zoo_number(&b, image);
    sp_zoo_output(&b, x, "logits", 4,
                  (const sp_expr *const[]){batch, sp_zoo_number(&b, classes), side, side});
    return b.status;
}
