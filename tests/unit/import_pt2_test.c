/* import: programs of torch.export, made by hand; what PyTorch itself writes is tried in tests/torch/test_pt2.py. */
#include "bed.h"
#include "import/import.h"
#include "pt2_archive.h"

/* ------------------------------------------------------------------ programs */

#define F32(name, sizes) "'" name "':{'dtype':7,'sizes':[" sizes "],'layout':7}"
#define BATCH            "{'as_expr':{'expr_str':'Symbol(`s7`, positive=True, integer=True)','hint':{'as_int':2}}}"
#define INT(n)           "{'as_int':" #n "}"
#define TENSOR(name)     "{'as_tensor':{'name':'" name "'}}"
#define ARG(name, arg)   "{'name':'" name "','arg':" arg "}"
#define SELF(name)       ARG("self", TENSOR(name))
#define NODE(op, args, out)                                                                                  \
    "{'target':'torch.ops.aten." op "','inputs':[" args "],'outputs':[" TENSOR(                              \
        out) "],"                                                                                            \
             "'metadata':{'nn_module_stack':'L__self__,,M;L__self__fc,fc,torch.nn.Linear'},'name':'" out     \
             "'}"

static const char *range = "'min_val':1,'max_val':64"; /* of the batch */
static const char *sizes_file;                         /* extra/sparta-sizes.json; NULL: none */

/* x (batch, 3) and a weight (2, 3) called fc.weight; nodes, the types of what they give, outputs. */
static pt2_archive program_of(const char *nodes, const char *types, const char *output, const char *major,
                              const char *config, size_t weights)
{
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    static char text[16384];
    pt2_archive a = {0};
    snprintf(
        text, sizeof text,
        "{'graph_module':{'graph':{'nodes':[%s],'tensor_values':{" F32("x", BATCH "," INT(3)) "," F32(
            "p", INT(2) "," INT(3)) "%s%s}},'signature':{'input_specs':[{'parameter':{'arg':{'name':'p'},'"
                                    "parameter_name':'fc.weight'}},"
                                    "{'user_input':{'arg':" TENSOR(
                                        "x") "}}],'output_specs':[%s]},'module_call_graph':[]},"
                                             "'range_constraints':{'s7':{%s}},'schema_"
                                             "version':{'major':%s,'minor':20},'torch_version':'2.15'}",
        nodes, *types ? "," : "", types, output, range, major);
    pt2_put(&a, "m/data/weights/weight_0", w, weights);
    pt2_json(&a, "m/data/weights/model_weights_config.json", config);
    pt2_json(&a, "m/models/model.json", text);
    if (sizes_file) pt2_json(&a, "m/extra/sparta-sizes.json", sizes_file);
    pt2_put(&a, "m/archive_format", "pt2", 3);
    pt2_put(&a, "m/byteorder", "little", 6);
    pt2_end(&a);
    return a;
}

#define META(sizes, strides, offset, dtype)                                                                  \
    "{'config':{'fc.weight':{'path_name':'weight_0','use_pickle':false,'tensor_meta':{'dtype':" dtype        \
    ",'sizes':[" sizes "],'strides':[" strides "],'storage_offset':{'as_int':" offset "}}}}}"
#define CONFIG       META(INT(2) "," INT(3), INT(3) "," INT(1), "0", "7")
#define LINEAR       NODE("linear.default", ARG("input", TENSOR("x")) "," ARG("weight", TENSOR("p")), "linear")
#define Y(name)      F32(name, BATCH "," INT(2))
#define OUTPUT(name) "{'user_output':{'arg':" TENSOR(name) "}}"

static pt2_archive program(const char *nodes, const char *types, const char *output)
{
    return program_of(nodes, types, output, "8", CONFIG, 24);
}

/* Parsed from a block of its very size, for the sanitizer. */
static sparta_status parse(const pt2_archive *a, sp_model **out)
{
    uint8_t *exact = malloc(a->size);
    memcpy(exact, a->data, a->size);
    const sparta_status s = sp_model_parse(cx, exact, a->size, NULL, out);
    if (s == SPARTA_OK) {
        sp_text t;
        sp_text_init(&t, cx);
        sp_graph_print((*out)->graph, &t);
        sp_text_free(&t);
        sp_model_close(*out);
    }
    free(exact);
    return s;
}

static void refused(pt2_archive a, sparta_status status, const char *words)
{
    sp_model *m = NULL;
    fails(status, parse(&a, &m));
    says(words);
    free(a.data);
}

static void becomes(pt2_archive a, const char *expected)
{
    sp_model *m = NULL;
    sp_text t;
    ok(sp_model_parse(cx, a.data, a.size, NULL, &m));
    sp_text_init(&t, cx);
    sp_graph_print(m->graph, &t);
    assert_string_equal(sp_text_str(&t), expected);
    sp_text_free(&t);
    sp_model_close(m);
    free(a.data);
}

/* ------------------------------------------------------------------ what is read */

#define HEAD                                                                                                 \
    "graph \"program\"\ninput  x: f32[x_0,3]\nbound  x_0[64]\n"                                              \
    "const  fc.weight: f32[2,3] = [1.0,2.0,3.0,4.0,5.0,6.0] @\"fc.weight\"\n"

static void sample(void **state)
{
    (void)state;
    becomes(program(LINEAR, Y("linear"), OUTPUT("linear")),
            HEAD "node   %0: ? = Transpose(fc.weight) {perm=[1,0]} \"fc/Transpose\"\n"
                 "node   output: ? = MatMul(x, %0) \"fc\"\n"
                 "output output\n");
    /* The weight, turned and from its second element on: copied. */
    becomes(program_of(LINEAR, Y("linear"), OUTPUT("linear"), "8",
                       META(INT(2) "," INT(2), INT(1) "," INT(2), "1", "7"), 24),
            "graph \"program\"\ninput  x: f32[x_0,3]\nbound  x_0[64]\n"
            "const  fc.weight: f32[2,2] = [2.0,4.0,3.0,5.0] @\"fc.weight\"\n"
            "node   %0: ? = Transpose(fc.weight) {perm=[1,0]} \"fc/Transpose\"\n"
            "node   output: ? = MatMul(x, %0) \"fc\"\n"
            "output output\n");
}

/* An output that is an input, and one value twice. */
/* Names for sizes, which somebody else wrote. */
static void size_names(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{'x_0':''}",
        "{'x_0':'a b'}",
        "{'x_0':'a]\\nnode y'}",
        "{'x_0':'7'}",
        "{'x_0':7}",
        "{'x_0':{'a':'b'}}",
        "{'x_0':null}",
        "{'x_0':'a+b'}",
        "{'x_0':'\\u00e9'}",
        "{'x_0':'a012345678901234567890123456789012345678'}b",
        "{'x_0':'a0123456789012345678901234567890123456789'}",
    };
    static const char *const good[] = {"{}", "{'y_0':'a b'}", "{'x_1':7}"};
    static const char *const other[] = {"[]", "7", "'batch'", "null"};
    const char *y = OUTPUT("linear");
    sizes_file = "{'x_0':'batch'}";
    becomes(program(LINEAR, Y("linear"), y),
            "graph \"program\"\ninput  x: f32[batch,3]\nbound  batch[64]\n"
            "const  fc.weight: f32[2,3] = [1.0,2.0,3.0,4.0,5.0,6.0] @\"fc.weight\"\n"
            "node   %0: ? = Transpose(fc.weight) {perm=[1,0]} \"fc/Transpose\"\n"
            "node   output: ? = MatMul(x, %0) \"fc\"\noutput output\n");
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        sizes_file = bad[i];
        refused(program(LINEAR, Y("linear"), y), SPARTA_E_FORMAT, "sparta-sizes.json");
    }
    for (size_t i = 0; i < SP_COUNT(other); i++) {
        sizes_file = other[i];
        refused(program(LINEAR, Y("linear"), y), SPARTA_E_FORMAT, "a name for each size");
    }
    for (size_t i = 0; i < SP_COUNT(good); i++) {
        sizes_file = good[i];
        becomes(program(LINEAR, Y("linear"), y),
                HEAD "node   %0: ? = Transpose(fc.weight) {perm=[1,0]} \"fc/Transpose\"\n"
                     "node   output: ? = MatMul(x, %0) \"fc\"\noutput output\n");
    }
    sizes_file = NULL;
}

static void same_outputs(void **state)
{
    (void)state;
    becomes(program(LINEAR, Y("linear"), OUTPUT("x") "," OUTPUT("linear") "," OUTPUT("linear")),
            HEAD "node   %0: ? = Transpose(fc.weight) {perm=[1,0]} \"fc/Transpose\"\n"
                 "node   linear: ? = MatMul(x, %0) \"fc\"\n"
                 "node   %2: ? = Identity(x)\nnode   %3: ? = Identity(linear)\n"
                 "output %2\noutput linear\noutput %3\n");
}

/* ------------------------------------------------------------------ changes in place */

#define RELU_(name, out) NODE("relu_.default", SELF(name), out)
#define ADD(a, b, out)   NODE("add.Tensor", SELF(a) "," ARG("other", TENSOR(b)), out)
#define VIEW(a, out)     NODE("alias.default", SELF(a), out)

/* Torch says 2 of every size that may vary, and lets 0 and 1 run: no bound. What is more than 2 is one. */
static void ranges(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"'min_val':0,'max_val':null", ""},
        {"'min_val':2,'max_val':null", ""},
        {"'min_val':2,'max_val':9", "bound  x_0[9]\n"},
        {"'min_val':3,'max_val':9", "bound  x_0[3,9]\n"},
        {"'min_val':3,'max_val':3", "bound  x_0[3,3]\n"},
        {"'min_val':-5,'max_val':9", "bound  x_0[9]\n"},
        {"'min_val':16,'max_val':null", "bound  x_0[16,9223372036854775807]\n"}};
    const char *usual = range;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph \"program\"\ninput  x: f32[x_0,3]\n%s"
                 "const  fc.weight: f32[2,3] = [1.0,2.0,3.0,4.0,5.0,6.0] @\"fc.weight\"\n"
                 "node   %%0: ? = Transpose(fc.weight) {perm=[1,0]} \"fc/Transpose\"\n"
                 "node   output: ? = MatMul(x, %%0) \"fc\"\noutput output\n",
                 cases[i][1]);
        range = cases[i][0];
        becomes(program(LINEAR, Y("linear"), OUTPUT("linear")), text);
    }
    range = usual;
}

static void in_place(void **state)
{
    (void)state;
    /* What is read after it is the new value, under the old name too. */
    becomes(program(LINEAR "," RELU_("linear", "r") "," ADD("linear", "r", "y"),
                    Y("linear") "," Y("r") "," Y("y"), OUTPUT("y")),
            HEAD "node   %0: ? = Transpose(fc.weight) {perm=[1,0]} \"fc/Transpose\"\n"
                 "node   linear: ? = MatMul(x, %0) \"fc\"\n"
                 "node   r: ? = Relu(linear) \"fc/Relu\"\n"
                 "node   output: ? = Add(r, r) \"fc/Add\"\n"
                 "output output\n");
    refused(program(LINEAR "," VIEW("linear", "v") "," RELU_("linear", "r") "," ADD("v", "r", "y"),
                    Y("linear") "," Y("v") "," Y("r") "," Y("y"), OUTPUT("y")),
            SPARTA_E_UNSUPPORTED, "'v' is a view of memory that was changed in place");
    refused(program(RELU_("x", "r"), F32("r", BATCH "," INT(3)), OUTPUT("r")), SPARTA_E_UNSUPPORTED,
            "it changes 'x'");
}

/* ------------------------------------------------------------------ what is not */

static void refusals(void **state)
{
    (void)state;
    refused(program_of(LINEAR, Y("linear"), OUTPUT("linear"), "9", CONFIG, 24), SPARTA_E_UNSUPPORTED,
            "version 9");
    refused(program_of(LINEAR, Y("linear"), OUTPUT("linear"), "'8'", CONFIG, 24), SPARTA_E_FORMAT,
            "version of its schema");
    refused(program(LINEAR "," NODE("frobnicate.default", SELF("linear"), "a") "," NODE(
                        "fft_fft.default", SELF("a"), "b") "," NODE("frobnicate.default", SELF("b"), "c"),
                    Y("linear"), OUTPUT("c")),
            SPARTA_E_UNSUPPORTED,
            "these operators are not supported: aten.frobnicate.default, aten.fft_fft.default;");
    refused(program(ADD("y", "y", "y"), Y("y"), OUTPUT("y")), SPARTA_E_FORMAT,
            "'y' is read and nothing before it makes it");
    refused(program(LINEAR, "'linear':{'dtype':10,'sizes':[]}", OUTPUT("linear")), SPARTA_E_UNSUPPORTED,
            "element type 10");
    refused(program(LINEAR, "", OUTPUT("linear")), SPARTA_E_FORMAT, "has no type");
    refused(program(LINEAR, Y("linear"), "{'buffer_mutation':{}}"), SPARTA_E_UNSUPPORTED, "buffer_mutation");
    refused(program(LINEAR, Y("linear"), ""), SPARTA_E_FORMAT, "it gives no tensors back");
    refused(program("{'target':7}", "", OUTPUT("x")), SPARTA_E_FORMAT, "no operator");
    refused(program(NODE("dropout.default",
                         ARG("input", TENSOR("x")) "," ARG("p", "{'as_float':0.5}") "," ARG(
                             "train", "{'as_bool':true}"),
                         "d"),
                    F32("d", BATCH "," INT(3)), OUTPUT("d")),
            SPARTA_E_UNSUPPORTED, "export module.eval()");
}

static void weights(void **state)
{
    (void)state;
#define WITH(config, size) program_of(LINEAR, Y("linear"), OUTPUT("linear"), "8", config, size)
    refused(WITH(CONFIG, 23), SPARTA_E_FORMAT, "outside of its 23 bytes");
    refused(WITH(META(INT(2) "," INT(3), INT(3) "," INT(1), "1", "7"), 24), SPARTA_E_FORMAT, "outside");
    refused(WITH(META(INT(2) "," INT(3), INT(-3) "," INT(1), "3", "7"), 24), SPARTA_E_FORMAT, "outside");
    refused(WITH(META(INT(2) "," INT(3), INT(9223372036854775807) "," INT(1), "0", "7"), 24), SPARTA_E_FORMAT,
            "outside");
    refused(WITH(META(INT(1000000000) "," INT(1000000000), INT(0) "," INT(0), "0", "7"), 24), SPARTA_E_MEMORY,
            "");
    refused(WITH(META(INT(-1) "," INT(3), INT(3) "," INT(1), "0", "7"), 24), SPARTA_E_SHAPE, "");
    refused(WITH(META(INT(2) "," INT(3), INT(3), "0", "7"), 24), SPARTA_E_FORMAT, "strides");
    refused(WITH(META(INT(2) "," INT(3), INT(3) "," INT(1), "0", "9"), 24), SPARTA_E_UNSUPPORTED,
            "element type 9");
    refused(WITH("{'config':{}}", 24), SPARTA_E_FORMAT, "not among the archive's weights");
    refused(WITH("{'config':{'fc.weight':{'path_name':'weight_0','use_pickle':true}}}", 24),
            SPARTA_E_UNSUPPORTED, "pickled");
    refused(WITH("{'config':{'fc.weight':{'path_name':'../../"
                 "x','tensor_meta':{'dtype':7,'sizes':[],'strides':[],'storage_offset':{'as_int':0}}}}}",
                 24),
            SPARTA_E_FORMAT, "there is no 'data/weights/../../x'");
    refused(WITH("{'config':", 24), SPARTA_E_FORMAT, "malformed JSON");
#undef WITH
}

/* ------------------------------------------------------------------ archives */

static void archives(void **state)
{
    (void)state;
    const char *const parts[][2] = {{"m/archive_format", "pt3"}, {"m/archive_format", "pt2"}};
    for (size_t i = 0; i < SP_COUNT(parts); i++) {
        pt2_archive a = {0};
        pt2_put(&a, parts[i][0], parts[i][1], 3);
        pt2_end(&a);
        refused(a, SPARTA_E_FORMAT, i ? "there is no program" : "does not say pt2");
    }
    pt2_archive two = {0}, big = {0}, compiled = {0};
    pt2_put(&two, "m/archive_format", "pt2", 3);
    pt2_json(&two, "m/models/a.json", "{}");
    pt2_json(&two, "m/models/b.json", "{}");
    pt2_end(&two);
    refused(two, SPARTA_E_UNSUPPORTED, "several programs, 'a' and 'b'");
    pt2_put(&big, "m/archive_format", "pt2", 3);
    pt2_put(&big, "m/byteorder", "big", 3);
    pt2_json(&big, "m/models/a.json", "{}");
    pt2_end(&big);
    refused(big, SPARTA_E_UNSUPPORTED, "little-endian");
    pt2_put(&compiled, "m/archive_format", "pt2", 3);
    pt2_put(&compiled, "m/data/aotinductor/model/x.so", "", 0);
    pt2_end(&compiled);
    refused(compiled, SPARTA_E_UNSUPPORTED, "AOTInductor");
}

/* Cut anywhere, or one byte another: an error, or a graph that prints. */
static void damaged(void **state)
{
    (void)state;
    const pt2_archive a = program(LINEAR, Y("linear"), OUTPUT("linear"));
    sp_model *m = NULL;
    for (size_t n = 0; n < a.size; n++) {
        const pt2_archive cut = {.data = a.data, .size = n};
        assert_int_not_equal(parse(&cut, &m), SPARTA_OK);
        assert_true(*sparta_message(cx));
    }
    for (size_t i = 0; i < a.size; i++) {
        a.data[i] ^= 0x15;
        if (parse(&a, &m) != SPARTA_OK) assert_true(*sparta_message(cx));
        a.data[i] ^= 0x15;
    }
    free(a.data);
}

/* Memory that fails, wherever it does. */
static void memory(void **state)
{
    (void)state;
    const pt2_archive a = program(LINEAR "," RELU_("linear", "r"), Y("linear") "," Y("r"), OUTPUT("r"));
    sparta_status s = SPARTA_E_MEMORY;
    for (uint64_t n = 1; s != SPARTA_OK; n++) {
        sp_model *m = NULL;
        sp_ctx_fail_alloc(cx, n, true);
        s = parse(&a, &m);
        sp_ctx_fail_alloc(cx, 0, false);
        if (s != SPARTA_OK) assert_int_equal(s, SPARTA_E_MEMORY);
    }
    free(a.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample),       cmocka_unit_test(ranges),   cmocka_unit_test(size_names),
        cmocka_unit_test(same_outputs), cmocka_unit_test(in_place), cmocka_unit_test(refusals),
        cmocka_unit_test(weights),      cmocka_unit_test(archives), cmocka_unit_test(damaged),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
