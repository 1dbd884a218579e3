/* import: whole models: names, order, old forms, and files that are not what they should be. */
#include "import_check.h"

/* A bit of everything: two weights, an old Squeeze, a constant node, nodes out of order. */
static bytes sample_graph(void)
{
    static const int64_t dims[] = {4, 3}, axes[] = {0};
    static const float w[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b[3] = {0.5f, 0, -1};
    bytes g = graph_of("sample");
    put_piece(&g, GRAPH_NODE, named(node_of("Add", "xw,b", "y"), "/last"));
    put_piece(&g, GRAPH_NODE, named(node_of("MatMul", "x,w", "xw"), "/first"));
    put_piece(&g, GRAPH_NODE, with_ints(node_of("Unsqueeze", "y", "z"), "axes", 1, axes));
    put_piece(&g, GRAPH_NODE, with_float(node_of("Constant", "", "c"), "value_float", 1.5f));
    put_piece(&g, GRAPH_NODE, node_of("Mul", "z,c", "out"));
    put_piece(&g, GRAPH_INITIALIZER, raw_tensor("w", 1, 2, dims, w, sizeof w));
    put_piece(&g, GRAPH_INITIALIZER, raw_tensor("b", 1, 1, &dims[1], b, sizeof b));
    put_piece(&g, GRAPH_INPUT, info("x", 1, "batch,4"));
    put_piece(&g, GRAPH_INPUT, info("w", 1, "4,3")); /* IR 3: an initialiser is an input too */
    put_piece(&g, GRAPH_OUTPUT, info("out", 1, NULL));
    return g;
}

static void sample(void **state)
{
    (void)state;
    bytes m = model_of(12, sample_graph());
    sp_model *model = NULL;
    ok(sp_model_parse(cx, m.data, m.size, NULL, &model));
    assert_int_equal(model->opset, 12);
    assert_int_equal(model->parameters, 15);
    assert_int_equal(model->graph->n_inputs, 1);
    assert_string_equal(sp_graph_find(model->graph, "w")->origin, "w");
    assert_null(sp_graph_find(model->graph, "c")->origin);
    sp_model_close(model);
    sp_model_close(NULL);
    becomes(m, "graph \"sample\"\n"
               "input  x: f32[batch,4]\n"
               "const  w: f32[4,3] = [1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0] @\"w\"\n"
               "const  b: f32[3] = [0.5,0.0,-1.0] @\"b\"\n"
               "const  c: f32[] = [1.5]\n"
               "const  %0: i64[1] = [0]\n"
               "node   xw: ? = MatMul(x, w) \"/first\"\n"
               "node   y: ? = Add(xw, b) \"/last\"\n"
               "node   z: ? = Unsqueeze(y, %0) \"z\"\n"
               "node   out: ? = Mul(z, c) \"out\"\n"
               "output out\n");
}

/* ------------------------------------------------------------------ one node at a time */

/* A model x (2,n,3) -> node -> y. */
static bytes one(int opset, bytes node)
{
    bytes g = graph_of("g");
    put_piece(&g, GRAPH_INPUT, info("x", 1, "2,n,3"));
    put_piece(&g, GRAPH_NODE, node);
    put_piece(&g, GRAPH_OUTPUT, info("y", 1, NULL));
    return model_of(opset, g);
}

#define HEAD "graph \"g\"\ninput  x: f32[2,n,3]\n"

static void old_axes(void **state)
{
    (void)state;
    static const int64_t axes[] = {1, -1};
    static const char *const ops[] = {"Squeeze",         "ReduceMean",   "ReduceSum",      "ReduceMax",
                                      "ReduceMin",       "ReduceProd",   "ReduceL1",       "ReduceL2",
                                      "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};
    for (size_t i = 0; i < SP_COUNT(ops); i++) {
        char text[300];
        snprintf(text, sizeof text,
                 HEAD "const  %%0: i64[2] = [1,-1]\nnode   y: ? = %s(x, %%0) \"y\"\noutput y\n", ops[i]);
        becomes(one(11, with_ints(node_of(ops[i], "x", "y"), "axes", 2, axes)), text);
    }
    becomes(one(12, node_of("Squeeze", "x", "y")), HEAD "node   y: ? = Squeeze(x) \"y\"\noutput y\n");
    becomes(one(12, with_int(with_ints(node_of("ReduceSum", "x", "y"), "axes", 1, axes), "keepdims", 0)),
            HEAD "const  %0: i64[1] = [1]\nnode   y: ? = ReduceSum(x, %0) {keepdims=0} \"y\"\noutput y\n");
    refused(one(12, with_ints(node_of("Squeeze", "x,x", "y"), "axes", 1, axes)), SPARTA_E_FORMAT,
            "is an input too");
    refused(one(12, with_int(node_of("Squeeze", "x", "y"), "axes", 1)), SPARTA_E_FORMAT, "no ints");
    refused(one(12, node_of("Unsqueeze", "x", "y")), SPARTA_E_FORMAT, "1 inputs");
}

static void old_split(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2};
    becomes(one(11, with_ints(node_of("Split", "x", "y,z"), "split", 2, sizes)),
            HEAD "const  %0: i64[2] = [1,2]\nnode   y: ?, z: ? = Split(x, %0) \"y\"\noutput y\n");
    becomes(one(13, node_of("Split", "x", "y,z")),
            HEAD "node   y: ?, z: ? = Split(x) {num_outputs=2} \"y\"\noutput y\n");
    becomes(one(18, with_int(with_int(node_of("Split", "x", "y,,z"), "num_outputs", 3), "axis", 2)),
            HEAD "node   y: ?, %0: ?, z: ? = Split(x) {axis=2, num_outputs=3} \"y\"\noutput y\n");
    refused(one(18, with_int(node_of("Split", "x", "y,z"), "num_outputs", 3)), SPARTA_E_FORMAT,
            "num_outputs");
}

#define FLAT(axis, op)                                                                                       \
    HEAD "node   %0: ? = Flatten(x) {axis=" axis "} \"y/Flatten\"\nnode   %1: ? = " op                       \
         "(%0) {axis=-1} \"y/" op "\"\nnode   %2: ? = Shape(x) \"y/Shape\"\nnode   y: ? = Reshape(%1, %2) "  \
         "{allowzero=1} \"y\"\noutput y\n"

static void old_softmax(void **state)
{
    (void)state;
    becomes(one(12, node_of("Softmax", "x", "y")), FLAT("1", "Softmax")); /* the default was 1 */
    becomes(one(11, with_int(node_of("LogSoftmax", "x", "y"), "axis", 0)), FLAT("0", "LogSoftmax"));
    becomes(one(11, with_int(node_of("Softmax", "x", "y"), "axis", -2)), FLAT("-2", "Softmax"));
    becomes(one(12, node_of("Hardmax", "x", "y")), FLAT("1", "Hardmax"));
    const char *plain = HEAD "node   y: ? = Softmax(x) {axis=-1} \"y\"\noutput y\n";
    becomes(one(12, with_int(node_of("Softmax", "x", "y"), "axis", -1)), plain);
    becomes(one(12, with_int(node_of("Softmax", "x", "y"), "axis", 2)), plain); /* the last of a known rank */
    becomes(one(13, node_of("Softmax", "x", "y")), plain);                      /* the default is -1 now */
    becomes(one(13, with_int(node_of("Softmax", "x", "y"), "axis", 1)),
            HEAD "node   y: ? = Softmax(x) {axis=1} \"y\"\noutput y\n");
    refused(one(12, with_float(node_of("Softmax", "x", "y"), "axis", 1)), SPARTA_E_FORMAT, "no int");
}

static void others(void **state)
{
    (void)state;
    becomes(one(11, with_float(node_of("Dropout", "x", "y,"), "ratio", 0.25f)),
            HEAD "const  %0: f32[] = [0.25]\nnode   y: ? = Dropout(x, %0) \"y\"\noutput y\n");
    becomes(one(13, node_of("Clip", "x,,", "y")), HEAD "node   y: ? = Clip(x) \"y\"\noutput y\n");
    becomes(one(13, node_of("Clip", "x,,x", "y")), HEAD "node   y: ? = Clip(x, _, x) \"y\"\noutput y\n");
    becomes(one(13, in_domain(node_of("Relu", "x", "y"), "ai.onnx")),
            HEAD "node   y: ? = Relu(x) \"y\"\noutput y\n");
    becomes(one(13, in_domain(node_of("Gelu", "x", "y"), "com.microsoft")),
            HEAD "node   y: ? = Gelu(x) {approximate=\"none\"} \"y\"\noutput y\n");
    becomes(one(13, in_domain(node_of("FastGelu", "x,x", "y"), "com.microsoft")),
            HEAD "node   %0: ? = Add(x, x) \"y/Add\"\nnode   y: ? = Gelu(%0) {approximate=\"tanh\"} "
                 "\"y\"\noutput y\n");
}

/* ------------------------------------------------------------------ constants and dims */

static bytes constant_model(bytes attribute)
{
    bytes g = graph_of("g");
    put_piece(&g, GRAPH_NODE, with(node_of("Constant", "", "y"), attribute));
    put_piece(&g, GRAPH_OUTPUT, info("y", 1, NULL));
    return model_of(17, g);
}

static void constants(void **state)
{
    (void)state;
    static const int64_t dim[] = {2};
    static const uint16_t halves[] = {0x3c00, 0xc000};
    bytes a = attribute_head("value_int", TYPE_INT);
    put_int(&a, ATTRIBUTE_I, -7);
    becomes(constant_model(a), "graph \"g\"\nconst  y: i64[] = [-7]\noutput y\n");
    a = attribute_head("value_ints", TYPE_INTS);
    put_data(&a, ATTRIBUTE_INTS, "\x01\x02\x03", 3); /* packed */
    put_int(&a, ATTRIBUTE_INTS, -4);                 /* and not */
    becomes(constant_model(a), "graph \"g\"\nconst  y: i64[4] = [1,2,3,-4]\noutput y\n");
    a = attribute_head("value_floats", TYPE_FLOATS);
    put_float(&a, ATTRIBUTE_FLOATS, 2);
    becomes(constant_model(a), "graph \"g\"\nconst  y: f32[1] = [2.0]\noutput y\n");
    a = attribute_head("value", TYPE_TENSOR);
    put_piece(&a, ATTRIBUTE_T, raw_tensor(NULL, 10, 1, dim, halves, 4));
    becomes(constant_model(a), "graph \"g\"\nconst  y: f16[2] = [1.0,-2.0]\noutput y\n");
    a = attribute_head("value_string", TYPE_STRING);
    put_string(&a, ATTRIBUTE_S, "no");
    refused(constant_model(a), SPARTA_E_UNSUPPORTED, "value_string");
    a = attribute_head("sparse_value", 11);
    refused(constant_model(a), SPARTA_E_UNSUPPORTED, "sparse_value");
    refused(one(17, with_float(node_of("Constant", "x", "y"), "value_float", 1)), SPARTA_E_FORMAT,
            "no input");
    refused(one(17, node_of("Constant", "", "y")), SPARTA_E_FORMAT, "one attribute");
    refused(one(17, with_float(node_of("Constant", "", "y,z"), "value_float", 1)), SPARTA_E_FORMAT,
            "one output");
}

static void dims(void **state)
{
    (void)state;
    bytes g = graph_of("g");
    put_piece(&g, GRAPH_INPUT, info("ids", 7, "batch size,batch_size,?,0"));
    put_piece(&g, GRAPH_INPUT, info("b", 1, "batch size,ids_2,?"));
    put_piece(&g, GRAPH_INPUT, info("s", 9, ""));
    put_piece(&g, GRAPH_OUTPUT, info("s", 9, NULL));
    bytes m = model_of(17, g);
    sp_model *model = NULL;
    ok(sp_model_parse(cx, m.data, m.size, NULL, &model));
    const sp_dims *ids = &model->graph->input[0]->dims, *b = &model->graph->input[1]->dims;
    assert_int_equal(model->graph->input[2]->dims.rank, 0);
    assert_true(sp_expr_equal(ids->dim[0], b->dim[0])); /* one name is one symbol */
    assert_false(sp_expr_equal(ids->dim[0],
                               ids->dim[1])); /* two names are two, even if they look alike when mangled */
    assert_false(sp_expr_equal(ids->dim[2], b->dim[1])); /* and a name is not what we make up */
    const char *name;
    assert_true(sp_expr_is_symbol(b->dim[2], &name));
    assert_string_equal(name, "b_2");
    assert_true(sp_expr_is(ids->dim[3], 0));
    sp_model_close(model);
    free(m.data);
}

/* Each dim that says nothing is a symbol of its own, with a name that can be typed. */
static void anonymous_dims(void **state)
{
    (void)state;
    static const char *const want[] = {"x_0", "x_1", "x_2", "x_3", "serving__ids_0_0"};
    bytes g = graph_of("g");
    put_piece(&g, GRAPH_INPUT, info("x", 7, "-1,=?,=-1,=None"));
    put_piece(&g, GRAPH_INPUT, info("serving:/ids.0", 7, "-7"));
    put_piece(&g, GRAPH_OUTPUT, info("x", 7, NULL));
    bytes m = model_of(17, g);
    sp_model *model = NULL;
    ok(sp_model_parse(cx, m.data, m.size, NULL, &model));
    for (int i = 0; i < 5; i++) {
        const char *name;
        assert_true(sp_expr_is_symbol(model->graph->input[i / 4]->dims.dim[i % 4], &name));
        assert_string_equal(name, want[i]);
    }
    sp_model_close(model);
    free(m.data);
}

/* A name that is arithmetic on other dims is that; one that only looks like it stays a name. */
static void related_dims(void **state)
{
    (void)state;
    static const struct {
        const char *said, *means; /* NULL: a symbol of its own */
    } cases[] = {
        {"past + 1", "past+1"}, {"past + new", "past+new"}, {"2*past", "2*past"}, {"past - 1", NULL},
        {"past/new", NULL},     {"past + other", NULL},     {"past+", NULL},      {"+ past", NULL},
        {"past new + 1", NULL}, {"past + 1 (mask)", NULL},  {"1 + 1", NULL},      {"past++new", NULL}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        bytes g = graph_of("g");
        char mask[64];
        snprintf(mask, sizeof mask, "new,=%s", cases[i].said);
        put_piece(&g, GRAPH_INPUT, info("mask", 7, mask));
        put_piece(&g, GRAPH_INPUT, info("key", 1, "past,=past + 3"));
        put_piece(&g, GRAPH_OUTPUT, info("key", 1, NULL));
        bytes m = model_of(17, g);
        sp_model *model = NULL;
        ok(sp_model_parse(cx, m.data, m.size, NULL, &model));
        const sp_expr *want, *got = model->graph->input[0]->dims.dim[1];
        assert_true(sp_expr_is_symbol(got, NULL) == !cases[i].means);
        if (cases[i].means) {
            ok(sp_expr_parse(model->graph->arena, cases[i].means, &want));
            assert_true(sp_expr_equal(got, want));
        }
        sp_model_close(model);
        free(m.data);
    }
}

/* ------------------------------------------------------------------ refused */

static bytes add_to_sample(int field, bytes piece)
{
    bytes g = sample_graph();
    put_piece(&g, (uint32_t)field, piece);
    return model_of(17, g);
}

static void refused_names(void **state)
{
    (void)state;
    static const int64_t dim[] = {1};
    static const float x = 1;
    refused(add_to_sample(GRAPH_INITIALIZER, raw_tensor("w", 1, 1, dim, &x, 4)), SPARTA_E_FORMAT, "'w'");
    refused(add_to_sample(GRAPH_INITIALIZER, raw_tensor("", 1, 1, dim, &x, 4)), SPARTA_E_FORMAT, "no name");
    refused(add_to_sample(GRAPH_INPUT, info("x", 1, "1")), SPARTA_E_FORMAT, "'x'");
    refused(add_to_sample(GRAPH_NODE, node_of("Relu", "x", "y")), SPARTA_E_FORMAT, "'y'");
    refused(add_to_sample(GRAPH_NODE, node_of("Relu", "x", "w")), SPARTA_E_FORMAT, "'w'");
    refused(add_to_sample(GRAPH_NODE, node_of("Relu", "x", "x")), SPARTA_E_FORMAT, "'x'");
    refused(add_to_sample(GRAPH_NODE, node_of("Split", "x", "q,q")), SPARTA_E_FORMAT, "'q'");
    refused(add_to_sample(GRAPH_NODE, node_of("Relu", "nowhere", "q")), SPARTA_E_FORMAT,
            "'nowhere' is defined nowhere");
    refused(add_to_sample(GRAPH_OUTPUT, info("missing", 1, NULL)), SPARTA_E_FORMAT, "'missing'");
    refused(add_to_sample(GRAPH_OUTPUT, info("out", 1, NULL)), SPARTA_E_FORMAT, "twice");
    refused(add_to_sample(GRAPH_NODE, node_of("Add", "q,x", "q")), SPARTA_E_FORMAT, "cycle");
    bytes g = sample_graph();
    put_piece(&g, GRAPH_NODE, named(node_of("Relu", "l2", "l1"), "loop"));
    put_piece(&g, GRAPH_NODE, named(node_of("Relu", "l1", "l2"), "loop"));
    refused(model_of(17, g), SPARTA_E_FORMAT, "'loop'");
    bytes zero = node_of("Relu", "x", "q");
    put_data(&zero, NODE_NAME, "a\0b", 3);
    refused(add_to_sample(GRAPH_NODE, zero), SPARTA_E_FORMAT, "zero byte");
}

/* A Loop whose body is two nodes. */
static bytes loop_of(const char *first, const char *second, const char *third)
{
    bytes body = graph_of("body"), attribute = attribute_head("body", TYPE_GRAPH);
    put_piece(&body, GRAPH_NODE, node_of(first, "a", "b"));
    put_piece(&body, GRAPH_NODE, node_of(second, "b", "c"));
    if (third) put_piece(&body, GRAPH_NODE, node_of(third, "c", "d"));
    put_piece(&attribute, 6, body);
    return one(17, with(node_of("Loop", "x", "y"), attribute));
}

/* All operators that are missing are named, with advice for the first that has some. */
static void all_missing(void **state)
{
    (void)state;
    bytes g = graph_of("g");
    put_piece(&g, GRAPH_INPUT, info("x", 1, "n"));
    put_piece(&g, GRAPH_NODE, named(node_of("Frobnicate", "x", "a"), "first"));
    put_piece(&g, GRAPH_NODE, node_of("Relu", "a", "b"));
    put_piece(&g, GRAPH_NODE, in_domain(node_of("QAttention", "b", "c"), "com.microsoft"));
    put_piece(&g, GRAPH_NODE, node_of("Frobnicate", "c", "d"));
    put_piece(&g, GRAPH_NODE, node_of("Scan", "d", "e"));
    put_piece(&g, GRAPH_OUTPUT, info("e", 1, NULL));
    refused(
        model_of(17, g), SPARTA_E_UNSUPPORTED,
        "these operators are not supported: Frobnicate, com.microsoft.QAttention, Scan (the first is node "
        "'first'); of com.microsoft.QAttention alone: it is quantised from an Attention");
}

static void refused_forms(void **state)
{
    (void)state;
    static const int64_t seven[] = {7};
    refused(one(17, node_of("Frobnicate", "x", "y")), SPARTA_E_UNSUPPORTED, "Frobnicate of domain 'ai.onnx'");
    bytes no_output = {0};
    put_names(&no_output, NODE_INPUT, "x");
    put_string(&no_output, NODE_OP, "QuickGelu");
    refused(one(17, with_float(in_domain(no_output, "com.microsoft"), "alpha", 1)), SPARTA_E_FORMAT,
            "0 outputs");
    refused(one(17, in_domain(named(node_of("Relu", "x", "y"), "/n"), "acme")), SPARTA_E_UNSUPPORTED,
            "node '/n': operator Relu of domain 'acme'");
    refused(one(17, in_domain(node_of("Linear", "x,x", "y"), "sparta")), SPARTA_E_UNSUPPORTED, "'sparta'");
    refused(one(17, with(node_of("If", "x", "y"), attribute_head("then_branch", TYPE_GRAPH))),
            SPARTA_E_UNSUPPORTED, "control flow");
    refused(loop_of("Gather", "ReduceSum", NULL), SPARTA_E_UNSUPPORTED,
            "nn.EmbeddingBag: nn.Embedding with the same weight");
    static const char *const other[] = {"Conv", "MatMul", "Sigmoid", "ArgMax", "ReduceProd"};
    for (size_t i = 0; i < SP_COUNT(other); i++) /* a decoder looks words up, too */
        refused(loop_of("Gather", "ReduceSum", other[i]), SPARTA_E_UNSUPPORTED,
                "operator Loop of domain 'ai.onnx' is not supported; export the model without control flow");
    refused(one(17, node_of("SequenceEmpty", "", "y")), SPARTA_E_UNSUPPORTED, "plain tensors only");
    refused(one(17, in_domain(node_of("DynamicQuantizeLSTM", "x", "y"), "com.microsoft")),
            SPARTA_E_UNSUPPORTED,
            "extract_model("); /* quantised in another way it is an LSTM, which is refused, too */
    refused(one(17, with(node_of("Relu", "x", "y"), attribute_head("body", TYPE_GRAPH))),
            SPARTA_E_UNSUPPORTED, "sub-graphs");
    refused(one(17, with(node_of("Relu", "x", "y"), attribute_head("names", 8))), SPARTA_E_UNSUPPORTED,
            "type 8");
    refused(one(17, with_int(node_of("Relu", "x", "y"), "alpha", 1)), SPARTA_E_UNSUPPORTED, "'alpha'");
    refused(one(17, with_string(node_of("Concat", "x", "y"), "axis", "1")), SPARTA_E_FORMAT,
            "must be an int");
    refused(one(17, with_int(with_int(node_of("Concat", "x", "y"), "axis", 1), "axis", 1)), SPARTA_E_FORMAT,
            "twice");
    refused(one(17, node_of("Add", "x", "y")), SPARTA_E_FORMAT, "1 inputs");
    refused(one(17, node_of("Add", "x,", "y")), SPARTA_E_FORMAT, "1 inputs");
    refused(one(17, node_of("Relu", "x", "y,z")), SPARTA_E_FORMAT, "2 outputs");
    refused(one(17, node_of("", "x", "y")), SPARTA_E_FORMAT, "no operator");
    refused(one(10, node_of("Relu", "x", "y")), SPARTA_E_UNSUPPORTED, "opset 10");
    refused(one(28, node_of("Relu", "x", "y")), SPARTA_E_UNSUPPORTED, "opset 28");
    refused(one(0, node_of("Relu", "x", "y")), SPARTA_E_UNSUPPORTED, "opset 0");
    bytes sparse = {0};
    put_data(&sparse, 1, "", 0);
    refused(add_to_sample(GRAPH_SPARSE, sparse), SPARTA_E_UNSUPPORTED, "sparse initialisers");
    refused(add_to_sample(GRAPH_INPUT, info("v", 8, "1")), SPARTA_E_UNSUPPORTED, "input 'v': element type 8");
    refused(add_to_sample(GRAPH_INPUT, info("v", 0, "1")), SPARTA_E_FORMAT, "element type 0");
    refused(add_to_sample(GRAPH_INPUT, info("v", 1, NULL)), SPARTA_E_UNSUPPORTED, "number of dims");
    refused(add_to_sample(GRAPH_INPUT, info("v", 1, "1,1,1,1,1,1,1,1,1")), SPARTA_E_UNSUPPORTED,
            "more than 8");
    refused(add_to_sample(GRAPH_INITIALIZER, raw_tensor("s", 8, 1, seven, "", 0)), SPARTA_E_UNSUPPORTED,
            "strings");
    bytes bare = {0};
    put_string(&bare, INFO_NAME, "v");
    refused(add_to_sample(GRAPH_INPUT, bare), SPARTA_E_FORMAT, "no type");
}

static void refused_models(void **state)
{
    (void)state;
    bytes m = {0};
    put(&m, "", 0);
    refused(m, SPARTA_E_FORMAT, "empty");
    m = (bytes){0};
    put_int(&m, MODEL_IR_VERSION, 8);
    put_piece(&m, MODEL_OPSET, opset_of("", 17));
    refused(m, SPARTA_E_FORMAT, "no graph");
    m = (bytes){0};
    put_piece(&m, MODEL_GRAPH, sample_graph());
    refused(m, SPARTA_E_FORMAT, "opset");
    m = model_of(17, sample_graph());
    put_piece(&m, MODEL_GRAPH, sample_graph());
    refused(m, SPARTA_E_FORMAT, "twice");
    m = model_of(17, sample_graph());
    put_piece(&m, MODEL_OPSET, opset_of("ai.onnx", 18));
    refused(m, SPARTA_E_FORMAT, "17 and 18");
    m = model_of(17, sample_graph());
    put_data(&m, MODEL_FUNCTIONS, "", 0);
    refused(m, SPARTA_E_UNSUPPORTED, "local functions");
    m = (bytes){0};
    put(&m,
        "\x7f"
        "ELF and so on",
        14);
    refused(m, SPARTA_E_FORMAT, "ModelProto");
    m = model_of(17, graph_of("nothing"));
    refused(m, SPARTA_E_FORMAT, "no outputs");
    bytes many = node_of("Relu", "x", "q");
    for (int i = 0; i < 40; i++) many = with_int(many, "a", 1);
    refused(one(17, many), SPARTA_E_LIMIT, "more than 32 attributes");
}

/* ------------------------------------------------------------------ damaged */

/* Whatever the bytes: a clean error or a graph that verifies. */
static sparta_status try(const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n ? n : 1);
    memcpy(exact, data, n);
    sp_model *m = NULL;
    sparta_status status = sp_model_parse(cx, exact, n, NULL, &m);
    if (status == SPARTA_OK) ok(sp_graph_verify(m->graph));
    assert_int_not_equal(status, SPARTA_E_INTERNAL);
    sp_model_close(m);
    free(exact);
    return status;
}

static void truncated(void **state)
{
    (void)state;
    bytes m = model_of(12, sample_graph());
    for (size_t n = 0; n < m.size; n++) assert_int_equal(try(m.data, n), SPARTA_E_FORMAT);
    ok(try(m.data, m.size));
    free(m.data);
}

static void mutated(void **state)
{
    (void)state;
    bytes m = model_of(12, sample_graph());
    uint8_t *copy = malloc(m.size);
    int lived = 0, died = 0;
    for (size_t at = 0; at < m.size; at++) { /* every byte, a few values */
        static const uint8_t flips[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
        for (size_t k = 0; k < SP_COUNT(flips); k++) {
            memcpy(copy, m.data, m.size);
            copy[at] ^= flips[k];
            if (try(copy, m.size))
                died++;
            else
                lived++;
        }
    }
    sp_rng rng = sp_rng_seed(3);
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, m.data, m.size);
        for (int k = 0; k < 3; k++) copy[sp_rng_next(&rng) % m.size] = (uint8_t)sp_rng_next(&rng);
        if (try(copy, m.size))
            died++;
        else
            lived++;
    }
    assert_true(lived > 100 && died > 1000);
    free(copy);
    free(m.data);
}

static void out_of_memory(void **state)
{
    (void)state;
    bytes m = model_of(12, sample_graph());
    sp_model *model = NULL;
    for (uint64_t nth = 1;; nth++) {
        sp_ctx_fail_alloc(cx, nth, nth % 2);
        sparta_status status = sp_model_parse(cx, m.data, m.size, NULL, &model);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status == SPARTA_OK) {
            assert_true(nth > 30);
            break;
        }
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_int_equal(sp_ctx_memory(cx), 0);
    }
    sp_model_close(model);
    free(m.data);
}

static void cancelled(void **state)
{
    (void)state;
    sparta_ctx_cancel(cx);
    refused(model_of(12, sample_graph()), SPARTA_E_CANCELLED, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sample),        TEST(old_axes),    TEST(old_split),      TEST(old_softmax),  TEST(others),
        TEST(constants),     TEST(dims),        TEST(anonymous_dims), TEST(related_dims), TEST(refused_names),
        TEST(refused_forms), TEST(all_missing), TEST(refused_models), TEST(truncated),    TEST(mutated),
        TEST(out_of_memory), TEST(cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
