/* How much goes of whole models: parameters before and after, worked out by hand, and the answers stay.
 *
 * Channels and heads are pruned as a tool would (zeros in the weights and in what follows them), then the models of the zoo must become
 * as small as reason says. w is a width; a BatchNormalization of c channels has 4 c parameters (scale, bias, mean, variance). */
#include "models.h"
#include "propagate/propagate.h"

/* ------------------------------------------------------------------ pruning */
/* Indices [from, to) of an axis of a constant become `what`. */
static void fill(sp_graph *g, const char *name, int axis, int64_t from, int64_t to, double what)
{
    const sp_value *v = sp_graph_find(g, name);
    if (!v || !v->constant) fail_msg("no constant '%s'", name);
    const sparta_tensor *t = v->constant;
    int64_t inner = 1;
    assert_true(axis < t->rank && to <= t->dim[axis]);
    for (int k = axis + 1; k < t->rank; k++) inner *= t->dim[k];
    for (int64_t i = 0, n = sparta_tensor_elements(t); i < n; i++) {
        const int64_t at = i / inner % t->dim[axis];
        if (at >= from && at < to) sp_element_set(t->dtype, t->data, i, what);
    }
}

static void zero(sp_graph *g, const char *name, int axis, int64_t from, int64_t to)
{
    fill(g, name, axis, from, to, 0);
}

static const char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *say(const char *format, ...)
{
    static char text[16][128]; /* in turn */
    static int turn;
    char *s = text[turn++ % 16];
    va_list list;
    va_start(list, format);
    vsnprintf(s, sizeof text[0], format, list);
    va_end(list);
    return s;
}

/* Scale and bias of a BatchNormalization. */
static void silence(sp_graph *g, const char *norm, int64_t from, int64_t to)
{
    zero(g, say("%s.weight", norm), 0, from, to);
    zero(g, say("%s.bias", norm), 0, from, to);
}

/* Output channels [from, to) of a convolution and of the normalisation behind it. */
static void prune_unit(sp_graph *g, const char *conv, const char *norm, int64_t from, int64_t to)
{
    zero(g, say("%s.weight", conv), 0, from, to);
    silence(g, norm, from, to);
}

/* ------------------------------------------------------------------ counting */
static sp_propagate_report report;

static const sp_kept *kept(const char *name)
{
    for (int i = 0; i < report.n; i++)
        if (!strcmp(report.tensor[i].name, name)) return &report.tensor[i];
    fail_msg("the report has no '%s'", name);
    return NULL;
}

static void show(void)
{
    for (int i = 0; i < report.n; i++) {
        const sp_kept *k = &report.tensor[i];
        fprintf(stderr, "%s %lld,%lld -> %lld,%lld%s %s\n", k->name, (long long)k->before[0],
                (long long)k->before[1], (long long)k->after[0], (long long)k->after[1],
                k->gone ? " gone" : "", k->blocked_by);
    }
}

/* The model goes from so many parameters to so many, and answers as `whole` does, which is made alike and gets the request as an edit;
 * NULL: as it did before. The graph stays for more questions: free it. */
static void becomes(sp_graph *g, sp_graph *whole, const char *request, int64_t before, int64_t after)
{
    sp_propagate_options options = {.n_remove = request != NULL, .remove = &request};
    inputs in = make_inputs(g, 2, 5, 11);
    if (whole) {
        ok(sp_propagate_remove(whole, request));
        ok(sp_ops_infer(whole));
    }
    results truth = reference(whole ? whole : g, &in);
    ok(sp_propagate(g, &options, &report));
    results small = reference(g, &in);
    close_enough(&small, &truth, 1e-5, g->name);
    free_results(&truth);
    free_results(&small);
    free_inputs(&in);
    sp_graph_free(whole);
    if (report.parameters_after != after) show();
    assert_int_equal(report.parameters_before, before);
    assert_int_equal(report.parameters_after, after);
}

static sp_graph *model(const char *name, const char *sizes)
{
    return typed(zoo(name, NULL, sizes));
}

/* ------------------------------------------------------------------ ResNet50, width 8, 10 classes
 *
 * A block of width w that c channels enter has c w + 9 w w + 4 w w + (4 + 4 + 16) w, the first of a stage also 4 w c + 16 w:
 *
 *     stage   w    c   first block            the others, c = 4 w
 *     1       8    8     1088 +   384     2 x  1280             4032
 *     2      16   32     4224 +  2304     3 x  4736            20736
 *     3      32   64    16128 +  8704     5 x 18176           115712
 *     4      64  128    62976 + 33792     2 x 71168           239104
 *     conv1 3 8 49, bn1 32, fc 2560 + 10                        3778      together 383362 */
#define RESNET 383362

static const int blocks[] = {3, 4, 6, 3};

/* conv1 and conv2 of each block lose half of their outputs: c w / 2, 9 w w 3/4, 4 w w / 2 and half of two normalisations, 4 w:
 *
 *     stage 1     624 + 2 x   720  =   2064
 *     stage 2    2560 + 3 x  2816  =  11008
 *     stage 3   10112 + 5 x 11136  =  65792
 *     stage 4   40192 + 2 x 44288  = 128768     together 207632 */
static void resnet_inside_blocks(void **state)
{
    (void)state;
    sp_graph *g = model("resnet50", "image=32 width=8 classes=10");
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++)
            for (int c = 1; c <= 2; c++) {
                const int64_t w = 8 << stage;
                prune_unit(g, say("layer%d.%d.conv%d", stage + 1, i, c),
                           say("layer%d.%d.bn%d", stage + 1, i, c), w / 2, w);
            }
    becomes(g, NULL, NULL, RESNET, RESNET - 207632);
    assert_int_equal(kept("layer4.2.conv2.weight")->after[0], 32);
    assert_int_equal(kept("layer4.2.conv2.weight")->after[1], 32);
    assert_int_equal(report.moved, 0);
    sp_graph_free(g);
}

/* 16 of the 32 channels between the blocks of stage 1, in every branch that adds to them. */
static void prune_stage_1(sp_graph *g)
{
    prune_unit(g, "layer1.0.downsample.0", "layer1.0.downsample.1", 16, 32);
    for (int i = 0; i < 3; i++) prune_unit(g, say("layer1.%d.conv3", i), say("layer1.%d.bn3", i), 16, 32);
}

/*     downsample, 3 x conv3     16 x 8 + 4 x 16 each      768
 *     layer1.1, layer1.2 conv1  16 x 8 each               256
 *     layer2.0 conv1            16 x 16                   256
 *     layer2.0 downsample       16 x 64                  1024     together 2304 */
static void resnet_residual_group(void **state)
{
    (void)state;
    sp_graph *g = model("resnet50", "image=32 width=8 classes=10");
    prune_stage_1(g);
    becomes(g, NULL, NULL, RESNET, RESNET - 2304);
    assert_int_equal(report.moved, 0);
    sp_graph_free(g);
}

/* With biases left the channels are constants, which 1x1 convolutions take up: layer1.1.conv1 and layer1.2.conv1 (8 each), layer2.0.conv1
 * (16) and its downsample (64) get a bias. */
static void resnet_residual_constants(void **state)
{
    (void)state;
    sp_graph *g = model("resnet50", "image=32 width=8 classes=10");
    prune_stage_1(g);
    for (int i = 0; i < 3; i++) fill(g, say("layer1.%d.bn3.bias", i), 0, 16, 32, 0.25);
    becomes(g, NULL, NULL, RESNET, RESNET - 2304 + 96);
    assert_int_equal(report.moved, 4);
    sp_graph_free(g);
}

/* One branch alone: nothing goes, and the report names the other. */
static void resnet_residual_blocked(void **state)
{
    (void)state;
    sp_graph *g = model("resnet50", "image=32 width=8 classes=10");
    prune_unit(g, "layer1.0.conv3", "layer1.0.bn3", 16, 32);
    becomes(g, NULL, NULL, RESNET, RESNET);
    mentions(kept("layer1.0.conv3.weight")->blocked_by,
             "keeps 16 zero outputs of 32, because 'layer1.0.downsample.0.weight' needs them", __FILE__,
             __LINE__);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ MobileNetV2, 10 classes: 2270794, and the two scalars of Relu6
 *
 * A block from c to o channels has 6 c between, of which 3 c go: 3 c (c + 4 + 9 + 4 + o).
 *
 *     c 16 24 24 32 32 32  64 64 64 64 96 96 96  160 160 160      48x57 72x65 72x73 96x81 twice 96x113 192x145 three times 192x177
 *     o 24 24 32 32 32 64  64 64 64 96 96 96 160 160 160 320      288x209 twice 288x273 480x337 twice 480x497: 917664 */
static void mobilenet_depthwise(void **state)
{
    (void)state;
    static const int64_t in[] = {16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160};
    sp_graph *g = model("mobilenet-v2", "image=32 classes=10");
    for (int i = 0; i < 16; i++) {
        prune_unit(g, say("features.%d.conv.0.0", i + 2), say("features.%d.conv.0.1", i + 2), 3 * in[i],
                   6 * in[i]);
        silence(g, say("features.%d.conv.1.1", i + 2), 3 * in[i], 6 * in[i]);
    }
    becomes(g, NULL, NULL, 2270796, 2270796 - 917664);
    assert_int_equal(kept("features.2.conv.1.0.weight")->after[0], 48);
    sp_graph_free(g);
}

/* The depthwise convolution alone is pruned: what feeds its channels is not needed, so as much goes. */
static void mobilenet_backward(void **state)
{
    (void)state;
    sp_graph *g = model("mobilenet-v2", "image=32 classes=10");
    prune_unit(g, "features.2.conv.1.0", "features.2.conv.1.1", 48, 96);
    becomes(g, NULL, NULL, 2270796, 2270796 - 2736);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ BERT and GPT-2, 2 layers, hidden 16, 4 heads of 4, ffn 32
 *
 * A head is 4 columns of query, key and value with their biases, 3 (16 x 4 + 4), and 4 rows of the output, 4 x 16: 268.
 * A unit of the feed-forward is a column, its bias and a row: 16 + 1 + 16 = 33. */
#define TINY "layers=2 hidden=16 heads=4 ffn=32 vocab=20 positions=20"

/* Embeddings (20 + 20 + 2) x 16 + 32; a layer 4 x 272 + 2 x 32 + 512 + 32 + 512 + 16 = 2224; 5 scalars (1, 1/2, root of 2, scale, lowest). */
#define BERT (704 + 2 * 2224 + 5)

/* Layer 0: heads 1 and 3 on request, 16 units without bias. Layer 1: head 0 has no output rows, head 2 no values, 8 units are constants. */
static sp_graph *pruned_bert(void)
{
    sp_graph *g = model("bert-mini", TINY);
    zero(g, "encoder.layer.0.intermediate.dense.weight", 1, 16, 32);
    zero(g, "encoder.layer.0.intermediate.dense.bias", 0, 16, 32);
    zero(g, "encoder.layer.1.attention.output.dense.weight", 0, 0, 4);
    zero(g, "encoder.layer.1.attention.self.value.weight", 1, 8, 12);
    zero(g, "encoder.layer.1.attention.self.value.bias", 0, 8, 12);
    zero(g, "encoder.layer.1.intermediate.dense.weight", 1, 0, 8);
    return g;
}

static void bert_heads_and_ffn(void **state)
{
    (void)state;
    sp_graph *g = pruned_bert();
    becomes(g, pruned_bert(), "encoder.layer.0.heads=1,3", BERT, BERT - 4 * 268 - (16 + 8) * 33);
    assert_int_equal(kept("encoder.layer.1.attention.self.key.weight")->after[1], 8);
    sp_graph_free(g);
}

/* Tables (20 + 20) x 16, and the words' once more, transposed; a layer 2 x 32 + 16 x 48 + 48 + 272 + 512 + 32 + 512 + 16 = 2224; ln_f 32;
 * 6 scalars (1, 1/2, 3, cubic, root, scale). */
#define GPT2 (960 + 2 * 2224 + 32 + 6)

/* The same of a fused query, key and value: columns 0, 16, 32 and so on of c_attn begin them. */
static sp_graph *pruned_gpt2(void)
{
    sp_graph *g = model("gpt2-small", TINY);
    zero(g, "h.0.mlp.c_fc.weight", 1, 16, 32);
    zero(g, "h.0.mlp.c_fc.bias", 0, 16, 32);
    zero(g, "h.1.attn.c_proj.weight", 0, 0, 4);
    zero(g, "h.1.attn.c_attn.weight", 1, 40, 44);
    zero(g, "h.1.attn.c_attn.bias", 0, 40, 44);
    zero(g, "h.1.mlp.c_fc.weight", 1, 0, 8);
    return g;
}

static void gpt2_heads_and_ffn(void **state)
{
    (void)state;
    sp_graph *g = pruned_gpt2();
    becomes(g, pruned_gpt2(), "h.0.heads=1,3", GPT2, GPT2 - 4 * 268 - (16 + 8) * 33);
    assert_int_equal(kept("h.0.attn.c_attn.weight")->after[1], 24);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ U-Net, width 4
 *
 * Two convolutions from i to o: 9 i o + 9 o o + 8 o; up from i: 2 i i + i / 2.
 *
 *     inc 284, down 928 + 3584 + 14080 + 55808, up 8224 + 27904, 2064 + 7040, 520 + 1792, 132 + 464, outc 10: 122834 */
#define UNET 122834

static const char *const levels[] = {"inc", "down1.maxpool_conv.1", "down2.maxpool_conv.1",
                                     "down3.maxpool_conv.1", "down4.maxpool_conv.1"};

static void prune_level(sp_graph *g, const char *path, int first, int64_t width)
{
    for (int i = first; i < 2; i++)
        prune_unit(g, say("%s.double_conv.%d", path, 3 * i), say("%s.double_conv.%d", path, 3 * i + 1),
                   width / 2, width);
}

/* Half of the channels of each skip, w = 4, 8, 16, 32: w/2 x (9 w + 4) where they come from, 9 x 2 w below, 9 w at the other end:
 * 296 + 1168 + 4640 + 18496. */
static void unet_skips(void **state)
{
    (void)state;
    sp_graph *g = model("unet", "image=16 width=4");
    for (int i = 0; i < 4; i++) prune_level(g, levels[i], 1, 4 << i);
    becomes(g, NULL, NULL, UNET, UNET - 24600);
    sp_graph_free(g);
}

/* Half of everything is a U-Net of width 2:
 * inc 106, down 248 + 928 + 3584 + 14080, up 2064 + 7040, 520 + 1792, 132 + 464, 34 + 124, outc 6. */
static void unet_halved(void **state)
{
    (void)state;
    sp_graph *g = model("unet", "image=16 width=4");
    for (int i = 0; i < 5; i++) prune_level(g, levels[i], 0, 4 << i);
    for (int i = 1; i <= 4; i++) {
        const int64_t w = 64 >> i;
        zero(g, say("up%d.up.weight", i), 1, w / 2, w);
        zero(g, say("up%d.up.bias", i), 0, w / 2, w);
        prune_level(g, say("up%d.conv", i), 0, w);
    }
    becomes(g, NULL, NULL, UNET, 31122);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ DenseNet, 3 blocks of 2 layers, growth 4, 10 classes
 *
 *     conv0 216; a block, 8 channels enter, 12, 16 leave:   32 + 128 + 64 + 576,  48 + 192 + 64 + 576  =  1680
 *     transition 64 + 128; norm5 64; classifier 170;        216 + 3 x 1680 + 2 x 192 + 64 + 170        =  5874
 *
 * Of the 4 channels that a layer adds 2 go: 2 x 16 x 9 of conv2, twice; of the second layer's norm1 and conv1 8 + 32; of the
 * transition 16 + 32, of norm5 and the classifier 16 + 40: 3 x 616 + 2 x 48 + 56 = 2000. */
#define DENSENET 5874

/* What normalisations make of the channels that are gone: their scale is left, the bias is set. */
static void prune_dense(sp_graph *g, double bias, bool scaled)
{
    for (int b = 1; b <= 3; b++) {
        char second[64], last[64];
        snprintf(second, sizeof second, "features.denseblock%d.denselayer2.norm1", b);
        snprintf(last, sizeof last, b == 3 ? "features.norm5" : "features.transition%d.norm", b);
        const struct {
            const char *norm;
            int64_t at;
        } reader[] = {{second, 10}, {last, 10}, {last, 14}};
        for (int i = 1; i <= 2; i++)
            zero(g, say("features.denseblock%d.denselayer%d.conv2.weight", b, i), 0, 2, 4);
        for (int i = 0; i < 3; i++) {
            if (!scaled) zero(g, say("%s.weight", reader[i].norm), 0, reader[i].at, reader[i].at + 2);
            fill(g, say("%s.bias", reader[i].norm), 0, reader[i].at, reader[i].at + 2, bias);
        }
    }
}

static void densenet_concatenations(void **state)
{
    (void)state;
    sp_graph *g = model("densenet-small", "image=8 layers=2 growth=4");
    prune_dense(g, 0, false);
    becomes(g, NULL, NULL, DENSENET, DENSENET - 2000);
    assert_int_equal(report.moved, 0);
    sp_graph_free(g);
}

/* Normalised zeros are constants: each second layer's conv1 (16) and each transition's conv (8) get a bias, the classifier has one. */
static void densenet_constants(void **state)
{
    (void)state;
    sp_graph *g = model("densenet-small", "image=8 layers=2 growth=4");
    prune_dense(g, 0.5, true);
    becomes(g, NULL, NULL, DENSENET, DENSENET - 2000 + 3 * 16 + 2 * 8);
    assert_int_equal(report.moved, 6);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ a convolution of 4 groups of 2 channels
 *
 *     a 8 x 3, w 8 x 2 x 3 x 3, c 5 x 8:   24 + 144 + 40 = 208 */
#define GROUPED 208

static sp_graph *grouped(void)
{
    return typed(graph("graph \"grouped\"\n"
                       "input x: f32[batch,3,5,5]\n"
                       "const a: f32[8,3,1,1] @\"a\"\n"
                       "const w: f32[8,2,3,3] @\"w\"\n"
                       "const c: f32[5,8,1,1] @\"c\"\n"
                       "node p: f32[batch,8,5,5] = Conv(x, a) {kernel_shape=[1,1]}\n"
                       "node q: f32[batch,8,5,5] = Relu(p)\n"
                       "node r: f32[batch,8,5,5] = Conv(q, w) {group=4, kernel_shape=[3,3], pads=[1,1,1,1]}\n"
                       "node s: f32[batch,8,5,5] = Relu(r)\n"
                       "node y: f32[batch,5,5,5] = Conv(s, c) {kernel_shape=[1,1]}\n"
                       "output y\n"));
}

/* The second output of every group: 4 x 18 of w, 4 x 5 of c. */
static void grouped_same_outputs(void **state)
{
    (void)state;
    sp_graph *g = grouped();
    for (int i = 1; i < 8; i += 2) zero(g, "w", 0, i, i + 1);
    becomes(g, NULL, NULL, GROUPED, GROUPED - 72 - 20);
    sp_graph_free(g);
}

/* The first input of every group: 4 x 3 of a, 8 x 9 of w. */
static void grouped_same_inputs(void **state)
{
    (void)state;
    sp_graph *g = grouped();
    for (int i = 0; i < 8; i += 2) zero(g, "a", 0, i, i + 1);
    becomes(g, NULL, NULL, GROUPED, GROUPED - 12 - 72);
    sp_graph_free(g);
}

/* Group 1 by its outputs, group 3 by its inputs: 4 x 3 of a, 4 x 18 of w, 4 x 5 of c; two groups are left. */
static void grouped_whole_groups(void **state)
{
    (void)state;
    sp_graph *g = grouped();
    zero(g, "w", 0, 2, 4);
    zero(g, "a", 0, 6, 8);
    becomes(g, NULL, NULL, GROUPED, GROUPED - 12 - 72 - 20);
    assert_int_equal(kept("w")->after[0], 4);
    assert_int_equal(kept("w")->after[1], 2);
    sp_graph_free(g);
}

/* Another channel in each group: groups must stay alike, so nothing goes, and the report says so. */
static void grouped_unlike(void **state)
{
    (void)state;
    sp_graph *g = grouped();
    zero(g, "w", 0, 0, 1);
    zero(g, "w", 0, 3, 4);
    becomes(g, NULL, NULL, GROUPED, GROUPED);
    mentions(kept("w")->blocked_by, "keeps 2 zero outputs of", __FILE__, __LINE__);
    mentions(kept("w")->blocked_by, "it takes them as 4 x 2; prune whole blocks of that (heads, groups)",
             __FILE__, __LINE__);
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ batch and heads as one axis, as torch writes them
 *
 * 2 heads of 4. The rows of head 1 are 0 in o: 8 x 4 of w and 4 x 3 of o go, though the shape is computed as the model runs. */
static const char merged_heads[] = "graph \"heads\"\n"
                                   "input x: f32[sequence,batch,8]\n"
                                   "const w: f32[8,8] @\"w\"\n"
                                   "const o: f32[8,3] = [1,2,3,4,5,6,7,8,9,1,2,3,0,0,0,0,0,0,0,0,0,0,0,0]\n"
                                   "const merge: i64[3] = [0,-1,4]\n"
                                   "const join: i64[3] = [0,0,8]\n"
                                   "const zero: i64[1] = [0]\n"
                                   "const one: i64[1] = [1]\n"
                                   "const two: i64[1] = [2]\n"
                                   "const four: i64[1] = [4]\n"
                                   "node k: ? = MatMul(x, w)\n"
                                   "node z: ? = Shape(k)\n"
                                   "node s: ? = Slice(z, zero, one)\n"
                                   "node b: ? = Slice(z, one, two)\n"
                                   "node apart: ? = Concat(b, two, s, four) {axis=0}\n"
                                   "node r: ? = Reshape(k, merge)\n"
                                   "node t: ? = Transpose(r) {perm=[1,0,2]}\n"
                                   "node h: ? = Reshape(t, apart)\n"
                                   "node e: ? = Exp(h)\n"
                                   "node u: ? = Transpose(e) {perm=[0,2,1,3]}\n"
                                   "node v: ? = Reshape(u, join)\n"
                                   "node y: ? = MatMul(v, o)\n"
                                   "output y\n";

static void heads_in_the_batch(void **state)
{
    (void)state;
    sp_graph *g = typed(graph(merged_heads));
    becomes(g, NULL, NULL, 88, 44);
    sp_graph_free(g);
}

/* Memory that ends anywhere is an error that leaves nothing behind; the graph may be freed. */
static void heads_out_of_memory(void **state)
{
    (void)state;
    bool done = false;
    for (uint64_t at = 1; !done && at < 5000; at++) {
        sp_graph *g = typed(graph(merged_heads));
        sp_propagate_report r;
        sp_ctx_fail_alloc(cx, at, false);
        sparta_status status = sp_propagate(g, NULL, &r);
        done = status == SPARTA_OK;
        sp_ctx_fail_alloc(cx, 0, false);
        if (!done) assert_int_equal(status, SPARTA_E_MEMORY);
        sp_ctx_clear(cx);
        sp_graph_free(g);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet_inside_blocks),
        cmocka_unit_test(resnet_residual_group),
        cmocka_unit_test(resnet_residual_constants),
        cmocka_unit_test(resnet_residual_blocked),
        cmocka_unit_test(mobilenet_depthwise),
        cmocka_unit_test(mobilenet_backward),
        cmocka_unit_test(bert_heads_and_ffn),
        cmocka_unit_test(gpt2_heads_and_ffn),
        cmocka_unit_test(unet_skips),
        cmocka_unit_test(unet_halved),
        cmocka_unit_test(densenet_concatenations),
        cmocka_unit_test(densenet_constants),
        cmocka_unit_test(grouped_same_outputs),
        cmocka_unit_test(grouped_same_inputs),
        cmocka_unit_test(grouped_whole_groups),
        cmocka_unit_test(grouped_unlike),
        cmocka_unit_test(heads_in_the_batch),
        cmocka_unit_test(heads_out_of_memory),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
