/* Shape rules of convolutional networks: dims that are expressions, and attributes that make no sense. */
#include "ops_bed.h"
#include <stdio.h>

/* y = node; the dims of y after inference. Inputs: x, w, b, image and others below. */
#define HEAD                                                                                                 \
    "graph \"t\"\ninput x: f32[batch,6,height,width]\ninput image: f32[2,6,10,9]\ninput line: "              \
    "f32[n,4,length]\n"                                                                                      \
    "input cube: f32[1,2,5,6,7]\ninput w: f32[8,6,3,3]\ninput grouped: f32[9,2,3,3]\ninput depth: "          \
    "f32[6,1,3,3]\n"                                                                                         \
    "input l: f32[4,5,2]\ninput v: f32[3,2,1,2,3]\ninput b8: f32[8]\ninput b6: f32[6]\ninput b6c: "          \
    "f32[6,1,1]\ninput h: f16[8,6,3,3]\n"                                                                    \
    "input huge: f32[1,1,9223372036854775807]\ninput one: f32[1,1,1]\ninput w2: f32[8,6,3,k]\n"              \
    "input ints: i32[1,1,8]\ninput many: f32[2,2,2,2,2,2]\n"                                                 \
    "const pads: i64[8] = [0,0,1,2,0,0,3,-1]\nconst two: f32[4] = [1,1,2,0.5]\nconst tenth: f32[4] = "       \
    "[1,1,0.1,1]\nconst bad: f32[4] = [1,1,-1,1]\nconst zero: f32[4] = [1,1,0,1]\nconst sizes: i64[4] = "    \
    "[2,6,7,20]\nconst axes: i64[2] = [3,-2]\nconst axis3: i64[2] = [3,-1]\nconst few: i64[4] = "            \
    "[1,1,1,1]\nconst scalar: f32[] = [1]\n"                                                                 \
    "const minus: i64[8] = [0,0,-6,0,0,0,-6,0]\n"                                                            \
    "const far: i64[8] = [0,0,9223372036854775807,0,0,0,9223372036854775807,0]\n"

static void expect_dims(const char *node, const char *want)
{
    char text[4096];
    snprintf(text, sizeof text, HEAD "node y: ? = %s \"y\"\noutput y\n", node);
    sp_graph *g = parse(text);
    if (sp_ops_infer(g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), node);
    if (sp_graph_verify(g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), node);
    sp_text t;
    sp_text_init(&t, cx);
    sp_dims_print(&sp_graph_find(g, "y")->dims, &t);
    if (strcmp(sp_text_str(&t), want)) fail_msg("%s: %s, wanted %s", node, sp_text_str(&t), want);
    sp_text_free(&t);
    sp_graph_free(g);
}

static void refuse(const char *node, sparta_status status, const char *says)
{
    char text[4096];
    snprintf(text, sizeof text, HEAD "node y: ? = %s \"y\"\noutput y\n", node);
    sp_graph *g = parse(text);
    sparta_status got = sp_ops_infer(g);
    if (got != status) fail_msg("%s: %s (%s)", node, sparta_status_name(got), sparta_message(cx));
    if (!strstr(sparta_message(cx), says)) fail_msg("%s: '%s' is not in: %s", node, says, sparta_message(cx));
    sp_graph_free(g);
}

static void test_windows(void **state)
{
    (void)state;
    expect_dims("Conv(x, w)", "[batch,8,height-2,width-2]");
    expect_dims("Conv(x, w, b8) {pads=[1,1,1,1], strides=[2,1]}", "[batch,8,(height+1)/2,width]");
    expect_dims("Conv(image, w) {strides=[3,2], dilations=[2,4], pads=[1,0,0,1]}", "[2,8,3,1]");
    expect_dims("Conv(image, grouped) {group=3}", "[2,9,8,7]");
    expect_dims("Conv(x, depth) {group=6, auto_pad=\"SAME_UPPER\", strides=[2,2]}",
                "[batch,6,(height+1)/2,(width+1)/2]");
    expect_dims("Conv(image, w) {auto_pad=\"VALID\", pads=[9,9,9,9]}", "[2,8,8,7]");
    expect_dims("Conv(cube, v)", "[1,3,5,5,5]");
    expect_dims("ConvTranspose(line, l) {strides=[2]}", "[n,5,2*length]");
    expect_dims("ConvTranspose(line, l) {strides=[3], pads=[1,0], output_padding=[1], group=2}",
                "[n,10,3*length-1]");
    expect_dims("ConvTranspose(line, l) {strides=[2], auto_pad=\"SAME_LOWER\"}", "[n,5,2*length]");
    expect_dims("MaxPool(x) {kernel_shape=[2,2], strides=[2,2]}", "[batch,6,height/2,width/2]");
    expect_dims("MaxPool(image) {kernel_shape=[3,3], strides=[3,2], ceil_mode=1}", "[2,6,4,4]");
    /* a last window that would begin in the padding behind is none */
    expect_dims("AveragePool(image) {kernel_shape=[3,3], strides=[3,3], pads=[0,0,2,2], ceil_mode=1}",
                "[2,6,4,3]");
    /* one that is longer than the input ends beyond it, as the last may */
    expect_dims("MaxPool(image) {kernel_shape=[11,3], strides=[2,1], ceil_mode=1}", "[2,6,1,7]");
    expect_dims("LpPool(image) {kernel_shape=[3,3], auto_pad=\"SAME_LOWER\", strides=[4,4], p=3}",
                "[2,6,3,3]");
    expect_dims("GlobalAveragePool(x)", "[batch,6,1,1]");
    expect_dims("GlobalMaxPool(cube)", "[1,2,1,1,1]");
}

static void test_others(void **state)
{
    (void)state;
    expect_dims("BatchNormalization(x, b6, b6, b6, b6) {epsilon=0.1}", "[batch,6,height,width]");
    expect_dims("InstanceNormalization(x, b6, b6)", "[batch,6,height,width]");
    expect_dims("GroupNormalization(x, b6, b6) {num_groups=3}", "[batch,6,height,width]");
    expect_dims("Pad(x, pads)", "[batch,6,height+4,width+1]");
    expect_dims("Pad(x, few, scalar, axes)", "[batch,6,height+2,width+2]");
}

static void test_resize(void **state)
{
    (void)state;
    expect_dims("Resize(x, _, two)", "[batch,6,2*height,width/2]");
    expect_dims("Resize(image, _, tenth)", "[2,6,1,9]");
    expect_dims("Resize(x, _, _, sizes)", "[2,6,7,20]");
    expect_dims("Resize(image, _, _, sizes) {keep_aspect_ratio_policy=\"not_larger\"}", "[1,4,7,6]");
    expect_dims("DepthToSpace(w) {blocksize=1}", "[8,6,3,3]");
    expect_dims("SpaceToDepth(w) {blocksize=3}", "[8,54,1,1]");
    expect_dims("PRelu(w, b6c)", "[8,6,3,3]");
    expect_dims("HardSwish(x)", "[batch,6,height,width]");
}

static void test_hostile_windows(void **state)
{
    (void)state;
    refuse("Conv(image, w) {strides=[1,-2]}", SPARTA_E_SHAPE, "strides[1] is -2");
    refuse("Conv(image, w) {strides=[0,1]}", SPARTA_E_SHAPE, "strides[0] is 0");
    refuse("Conv(image, w) {strides=[1,9223372036854775807]}", SPARTA_E_SHAPE, "strides[1]");
    refuse("Conv(image, w) {dilations=[0,0]}", SPARTA_E_SHAPE, "dilations[0] is 0");
    refuse("Conv(image, w) {dilations=[2147483647,1]}", SPARTA_E_SHAPE, "the kernel spans 4294967295");
    refuse("Conv(image, w) {group=0}", SPARTA_E_SHAPE, "group is 0");
    refuse("Conv(image, w) {group=-3}", SPARTA_E_SHAPE, "group is -3");
    refuse("Conv(image, w) {group=2}", SPARTA_E_SHAPE, "6 and 12 differ");
    refuse("Conv(image, w) {group=9223372036854775807}", SPARTA_E_SHAPE, "group is 9223372036854775807");
    refuse("Conv(x, grouped)", SPARTA_E_SHAPE, "6 and 2 differ");
    refuse("Conv(image, w) {pads=[1,1,1]}", SPARTA_E_SHAPE, "pads has 3 numbers; 4");
    refuse("Conv(image, w) {pads=[1,-1,1,1]}", SPARTA_E_SHAPE, "pads[1] is -1");
    refuse("Conv(image, w) {pads=[9223372036854775807,0,0,0]}", SPARTA_E_SHAPE, "pads[0]");
    refuse("Conv(image, w) {kernel_shape=[3,2]}", SPARTA_E_SHAPE,
           "kernel_shape[1] is 2 and the weights have 3");
    refuse("Conv(image, w) {auto_pad=\"SAME\"}", SPARTA_E_UNSUPPORTED, "auto_pad is \"SAME\"");
    refuse("Conv(depth, w)", SPARTA_E_SHAPE, "1 and 6 differ");
    refuse("Conv(image, w, b6)", SPARTA_E_SHAPE, "8 and 6 differ");
    refuse("Conv(image, h)", SPARTA_E_DTYPE, "f16");
    refuse("Conv(image, l)", SPARTA_E_SHAPE, "rank");
    refuse("Conv(image, w2)", SPARTA_E_UNSUPPORTED, "depends on a symbol");
    refuse("Conv(many, many)", SPARTA_E_SHAPE, "rank 6");
    refuse("Conv(b8, b8)", SPARTA_E_SHAPE, "rank 1");
    refuse("Conv(huge, one) {pads=[2147483647,2147483647]}", SPARTA_E_RANGE,
           "Conv 'y': expr: a number does not fit");
    refuse("ConvTranspose(line, l) {group=3}", SPARTA_E_SHAPE, "4 channels do not make 3 groups");
    refuse("ConvTranspose(line, l) {output_shape=[3,4]}", SPARTA_E_SHAPE, "output_shape has 2");
    refuse("ConvTranspose(line, l) {output_shape=[-3]}", SPARTA_E_SHAPE, "-3");
    refuse("ConvTranspose(line, l) {output_padding=[-1]}", SPARTA_E_SHAPE, "output_padding[0]");
    refuse("ConvTranspose(one, one) {pads=[3,3]}", SPARTA_E_SHAPE, "sizes are not negative");
    refuse("ConvTranspose(one, one) {pads=[1,0]}", SPARTA_E_SHAPE, "pads are too large");
    refuse("ConvTranspose(one, one) {output_shape=[5]}", SPARTA_E_UNSUPPORTED, "reach only 1");
    refuse("ConvTranspose(one, one) {strides=[2], auto_pad=\"SAME_UPPER\"}", SPARTA_E_UNSUPPORTED, "reach");
    refuse("ConvTranspose(huge, one) {strides=[2]}", SPARTA_E_RANGE, "does not fit");
}

static void test_hostile_others(void **state)
{
    (void)state;
    refuse("MaxPool(image)", SPARTA_E_FORMAT, "kernel_shape is missing");
    refuse("MaxPool(image) {kernel_shape=[3]}", SPARTA_E_SHAPE, "kernel_shape has 1");
    refuse("MaxPool(image) {kernel_shape=[3,0]}", SPARTA_E_SHAPE, "kernel_shape[1] is 0");
    refuse("MaxPool(image) {kernel_shape=[11,3]}", SPARTA_E_SHAPE, "the kernel spans 11");
    refuse("MaxPool(image) {kernel_shape=[12,3], strides=[2,1], ceil_mode=1}", SPARTA_E_SHAPE,
           "the kernel spans 12");
    refuse("MaxPool(image) {kernel_shape=[11,3], strides=[2,1]}", SPARTA_E_SHAPE, "the kernel spans 11");
    refuse("MaxPool(image) {kernel_shape=[2,2], pads=[2,0,0,0]}", SPARTA_E_SHAPE, "smaller");
    refuse("MaxPool(ints) {kernel_shape=[2]}", SPARTA_E_DTYPE, "i32");
    refuse("LpPool(image) {kernel_shape=[2,2], p=0}", SPARTA_E_SHAPE, "p is 0");
    refuse("GlobalLpPool(image) {p=-1}", SPARTA_E_SHAPE, "p is -1");
    refuse("GlobalAveragePool(b8)", SPARTA_E_SHAPE, "rank 1");
    refuse("BatchNormalization(x, b6, b6, b6, b6) {training_mode=1}", SPARTA_E_UNSUPPORTED, "training");
    refuse("BatchNormalization(x, b6, b6, b6, b8)", SPARTA_E_SHAPE, "6 and 8 differ");
    refuse("GroupNormalization(x, b6, b6) {num_groups=4}", SPARTA_E_SHAPE, "does not divide 6");
    refuse("GroupNormalization(x, b6, b6)", SPARTA_E_SHAPE, "num_groups is 0");
    refuse("Pad(x, pads) {mode=\"mirror\"}", SPARTA_E_UNSUPPORTED, "mirror");
    refuse("Pad(x, few)", SPARTA_E_SHAPE, "4 pads for 4 axes");
    refuse("Pad(image, minus)", SPARTA_E_SHAPE, "would be -2");
    refuse("Pad(x, far)", SPARTA_E_RANGE, "does not fit");
    refuse("Pad(x, few, scalar, axis3)", SPARTA_E_SHAPE, "axis 3 is named twice");
    refuse("Resize(x)", SPARTA_E_FORMAT, "scales or sizes");
    refuse("Resize(x, _, two, sizes)", SPARTA_E_FORMAT, "not both");
    refuse("Resize(x, _, bad)", SPARTA_E_SHAPE, "a scale is -1");
    refuse("Resize(x, _, zero)", SPARTA_E_SHAPE, "a scale is 0");
    refuse("Resize(x, _, tenth)", SPARTA_E_UNSUPPORTED, "height cannot be scaled by 0.1");
    refuse("Resize(x, _, two) {mode=\"area\"}", SPARTA_E_UNSUPPORTED, "area");
    refuse("Resize(x, _, two) {coordinate_transformation_mode=\"tf_half_pixel_for_nn\"}",
           SPARTA_E_UNSUPPORTED, "tf_half_pixel_for_nn");
    refuse("Resize(x, _, two) {axes=[0,0,1,2]}", SPARTA_E_SHAPE, "twice");
    refuse("Resize(x, _, two) {axes=[0,9,1,2]}", SPARTA_E_RANGE, "axis 9");
    refuse("Resize(x, _, two) {coordinate_transformation_mode=\"tf_crop_and_resize\"}", SPARTA_E_SHAPE,
           "region");
    refuse("Resize(x, _, two) {antialias=1}", SPARTA_E_UNSUPPORTED, "antialias");
    refuse("Resize(x, _, b8)", SPARTA_E_UNSUPPORTED, "computed from data");
    refuse("DepthToSpace(image) {blocksize=4}", SPARTA_E_SHAPE, "16 does not divide");
    refuse("DepthToSpace(image)", SPARTA_E_SHAPE, "blocksize is 0");
    refuse("SpaceToDepth(image) {blocksize=9223372036854775807}", SPARTA_E_SHAPE, "blocksize");
    refuse("SpaceToDepth(x) {blocksize=2}", SPARTA_E_SHAPE, "does not divide");
    refuse("PRelu(image, b8)", SPARTA_E_SHAPE, "");
}

/* A product of constants is folded when it is small; a convolution that would take minutes stays a node. */
static void test_folding(void **state)
{
    (void)state;
    sp_graph *g = parse("graph \"t\"\nconst x: f32[1,1,4] = [1,2,3,4]\nconst w: f32[1,1,2] = [1,10]\n"
                        "node y: ? = Conv(x, w)\noutput y\n");
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    assert_int_equal(g->n_nodes, 0);
    assert_true(((const float *)sp_graph_find(g, "y")->constant->data)[2] == 43);
    sp_graph_free(g);
    g = parse("graph \"t\"\nconst shape: i64[4] = [1,1,1500,1500]\nnode x: ? = ConstantOfShape(shape)\n"
              "node y: ? = MaxPool(x) {kernel_shape=[1001,1001], pads=[500,500,500,500]}\noutput y\n");
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    assert_int_equal(g->n_nodes, 1);
    sp_graph_free(g);
}

/* Sizes that only the run knows: a kernel that does not fit then is an error, not an empty result. */
static void test_run(void **state)
{
    (void)state;
    sp_graph *g = parse("graph \"t\"\ninput x: f32[1,1,n]\nconst w: f32[1,1,3] = [1,1,1]\n"
                        "node y: ? = Conv(x, w)\noutput y\n");
    assert_int_equal(sp_ops_infer(g), SPARTA_OK);
    float data[5] = {1, 2, 3, 4, 5};
    for (int64_t n = 2; n <= 5; n += 3) {
        int64_t dim[] = {1, 1, n};
        sparta_named_tensor in = {"x", sparta_tensor_view(SPARTA_F32, 3, dim, data)};
        sparta_tensor out;
        sparta_status status = sp_ops_run(cx, g, &in, 1, &out, NULL, NULL);
        assert_int_equal(status, n == 2 ? SPARTA_E_SHAPE : SPARTA_OK);
        if (status != SPARTA_OK) {
            assert_non_null(strstr(sparta_message(cx), "the kernel spans 3"));
            continue;
        }
        assert_true(((float *)out.data)[2] == 12);
        sp_free(cx, out.data);
    }
    sp_graph_free(g);
}

/* Attributes drawn from numbers that break things: each node is refused with a message or runs, and results that are not large are
 * computed (under the sanitizers, without a wrong read). */
static int64_t nasty(sp_rng *r)
{
    static const int64_t numbers[] = {1, 1, 1,  2,          2,       3,         0,
                                      4, 7, -1, 2147483647, 1000000, INT64_MAX, INT64_MIN};
    uint64_t mild = sp_rng_next(r) % 4; /* mostly such that something can run */
    return numbers[sp_rng_next(r) % (mild ? 6 : SP_COUNT(numbers))];
}

static int64_t pad_of(sp_rng *r)
{
    int64_t n = nasty(r);
    return n > INT64_MIN && n < 4 ? n - 1 : n;
}

static void run_if_small(sp_graph *g)
{
    static float data[256];
    sparta_named_tensor in[2] = {{.name = "x"}, {.name = "w"}};
    int64_t dim[SPARTA_RANK] = {0}, elements = 1;
    const sp_value *y = sp_graph_find(g, "y");
    assert_true(sp_dims_const(&y->dims, dim));
    for (int i = 0; i < y->dims.rank; i++) elements = dim[i] > 10000 ? 1000000 : elements * dim[i];
    if (elements > 100000) return;
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_value *v = sp_graph_find(g, in[i].name);
        assert_true(sp_dims_const(&v->dims, dim));
        in[i].tensor = sparta_tensor_view(SPARTA_F32, v->dims.rank, dim, data);
    }
    sparta_tensor out;
    if (sp_ops_run(cx, g, in, g->n_inputs, &out, NULL, NULL) == SPARTA_OK)
        sp_free(cx, out.data);
    else
        assert_true(sparta_message(cx)[0] != 0);
}

static void test_random_attributes(void **state)
{
    (void)state;
    static const char *const ops[] = {"Conv(x, w)", "ConvTranspose(x, w)", "MaxPool(x)", "AveragePool(x)",
                                      "LpPool(x)"};
    sp_rng r = sp_rng_seed(11);
    int ran = 0;
    for (int i = 0; i < 4000; i++) {
        const int op = (int)(sp_rng_next(&r) % 5);
        char text[2048];
        int n =
            snprintf(text, sizeof text,
                     "graph \"t\"\ninput x: f32[1,2,%d,5]\n%snode y: ? = %s {strides=[%lld,%lld], "
                     "dilations=[%lld,%lld]",
                     (int)(sp_rng_next(&r) % 7), op < 2 ? "input w: f32[2,2,2,3]\n" : "", ops[op],
                     (long long)nasty(&r), (long long)nasty(&r), (long long)nasty(&r), (long long)nasty(&r));
        if (op >= 2)
            n += snprintf(text + n, sizeof text - (size_t)n, ", kernel_shape=[%lld,%lld], ceil_mode=%d",
                          (long long)nasty(&r), (long long)nasty(&r), i & 1);
        if (op == 3) n += snprintf(text + n, sizeof text - (size_t)n, ", count_include_pad=%d", i >> 1 & 1);
        if (op == 1 && i & 2)
            n += snprintf(text + n, sizeof text - (size_t)n, ", output_padding=[%lld,%lld]",
                          (long long)nasty(&r), (long long)nasty(&r));
        if (op == 1 && i & 4)
            n += snprintf(text + n, sizeof text - (size_t)n, ", output_shape=[%lld,%lld]",
                          (long long)nasty(&r), (long long)nasty(&r));
        static const char *const padding[] = {"", ", auto_pad=\"SAME_UPPER\"", ", auto_pad=\"SAME_LOWER\"",
                                              ", auto_pad=\"VALID\""};
        n += snprintf(text + n, sizeof text - (size_t)n, "%s", padding[sp_rng_next(&r) % 4]);
        snprintf(text + n, sizeof text - (size_t)n, ", pads=[%lld,%lld,%lld,%lld]}\noutput y\n",
                 (long long)pad_of(&r), (long long)pad_of(&r), (long long)pad_of(&r), 0LL);
        sp_graph *g = NULL;
        if (sp_graph_parse(cx, text, NULL, NULL, &g) != SPARTA_OK)
            fail_msg("%s\n%s", sparta_message(cx), text);
        if (sp_ops_infer(g) == SPARTA_OK) {
            run_if_small(g);
            ran++;
        } else
            assert_true(strchr(sparta_message(cx), '\'') != NULL); /* it names its node */
        sp_graph_free(g);
    }
    assert_true(ran > 400); /* the case is not empty */
}

static void test_memory(void **state)
{
    (void)state;
    bool done = false;
    for (uint64_t n = 1; !done && n < 3000; n++) {
        sp_ctx_fail_alloc(cx, n, true);
        sp_graph *g = NULL;
        sparta_status status =
            sp_graph_parse(cx,
                           HEAD "node a: ? = Conv(x, w, b8) {pads=[1,1,1,1], strides=[2,2]}\n"
                                "node b: ? = MaxPool(a) {kernel_shape=[3,3], ceil_mode=1, strides=[2,2]}\n"
                                "node c: ? = Resize(b, _, two)\nnode d: ? = Pad(c, pads)\n"
                                "node e: ? = ConvTranspose(line, l) {strides=[2]}\n"
                                "node f: ? = DepthToSpace(w) {blocksize=1}\noutput d\noutput e\noutput f\n",
                           NULL, NULL, &g);
        if (status == SPARTA_OK) status = sp_ops_infer(g);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_true(status == SPARTA_OK || status == SPARTA_E_MEMORY);
        done = status == SPARTA_OK;
        sp_graph_free(g);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_hostile_windows),
        cmocka_unit_test(test_hostile_others),
        cmocka_unit_test(test_folding),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_random_attributes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
