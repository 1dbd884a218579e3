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
static sparta_value *twice(sparta_zoo_builder *b, const char *path, sparta_value *x, int64_t in, int64_t out)
{
    const char *layer = sparta_zoo_join(b, path, ".double_conv.");
    for (int i = 0; i < 2; i++) {
        sparta_zoo_conv c = {i ? out : in, out, 3, 1, .pruned = in != 3 || i};
        x = sparta_zoo_convolve(b, sparta_zoo_numbered(b, layer, 3 * i, ""), x, c);
        x = sparta_zoo_normalise(b, sparta_zoo_numbered(b, layer, 3 * i + 1, ""), x, out, 1);
        x = sparta_zoo_relu(b, sparta_zoo_numbered(b, sparta_zoo_join(b, "/", layer), 3 * i + 2, "/Relu"), x);
    }
    return x;
}

/* Twice the image, half the channels. */
static sparta_value *enlarge(sparta_zoo_builder *b, const char *path, sparta_value *x, int64_t in)
{
    static const int64_t two[] = {2, 2};
    const int64_t dim[] = {in, in / 2, 2, 2};
    const char *layer = sparta_zoo_join(b, path, ".up");
    const sparta_attr attr[] = {{.name = "kernel_shape", .kind = SPARTA_ATTR_INTS, .n = 2, .ints = two},
                                {.name = "strides", .kind = SPARTA_ATTR_INTS, .n = 2, .ints = two}};
    sparta_value *w =
        sparta_zoo_filters(b, sparta_zoo_join(b, layer, ".weight"), dim, sqrtf(1.0f / (float)in), false);
    sparta_value *bias = sparta_zoo_vector(b, sparta_zoo_join(b, layer, ".bias"), in / 2, 0, 0.02f);
    return sparta_zoo_node(b, SPARTA_OP_ConvTranspose,
                           sparta_zoo_join(b, sparta_zoo_join(b, "/", layer), "/ConvTranspose"), 3,
                           (sparta_value *[]){x, w, bias}, &(sparta_attrs){2, attr});
}

static sparta_value *levels(sparta_zoo_builder *b, sparta_value *x, int64_t width)
{
    sparta_value *skip[LEVELS];
    x = twice(b, "inc", x, 3, width);
    for (int i = 0; i < LEVELS; i++) {
        const char *path = sparta_zoo_numbered(b, "down", i + 1, ".maxpool_conv.1");
        skip[i] = x;
        x = sparta_zoo_pool(b, SPARTA_OP_MaxPool, sparta_zoo_numbered(b, "/down", i + 1, "/MaxPool"), x, 2, 2,
                            0);
        x = twice(b, path, x, width << i, width << (i + 1));
    }
    for (int i = LEVELS - 1; i >= 0; i--) {
        const char *path = sparta_zoo_numbered(b, "up", LEVELS - i, "");
        const int64_t in = width << (i + 1);
        sparta_value *both[] = {skip[i], enlarge(b, path, x, in)};
        x = sparta_zoo_concat(b, sparta_zoo_join(b, sparta_zoo_join(b, "/", path), "/Concat"), 2, both);
        x = twice(b, sparta_zoo_join(b, path, ".conv"), x, in, in / 2);
    }
    return x;
}

sparta_status sparta_zoo_unet(sparta_graph *g, const sparta_zoo_request *r)
{
    int64_t image = 256, width = 32, classes = 2;
    const sparta_zoo_size size[] = {
        {"image", &image}, {"width", &width}, {"classes", &classes}, {"batch", NULL}};
    SPARTA_TRY(sparta_zoo_sizes(g, r, size, (int)SPARTA_COUNT(size)));
    if (image % 16)
        return sparta_fail(g->cx, SPARTA_E_USAGE, "zoo %s: image=%lld is no multiple of 16", g->name,
                           (long long)image);
    sparta_zoo_builder b = {.g = g, .request = r};
    sparta_value *x = levels(&b, sparta_zoo_image(&b, image), width);
    x = sparta_zoo_convolve(&b, "outc.conv", x, (sparta_zoo_conv){width, classes, 1, 1, .bias = true});
    const sparta_expr *batch = sparta_zoo_symbol(&b, "batch"),
                      *channels = sparta_expr_const(g->arena, classes),
                      *side = sparta_expr_const(g->arena, image);
    if (!channels || !side) return sparta_ctx_status(g->cx);
    sparta_zoo_output(&b, x, "logits", 4, (const sparta_expr *const[]){batch, channels, side, side});
    return b.status;
}
