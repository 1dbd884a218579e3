/* import: graphs written as ONNX and read back. */
#include "import_check.h"
#include <dirent.h>
#include <unistd.h>

static char folder[64], path[96];

static int make(void **state)
{
    strcpy(folder, "/tmp/sparta_write_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    return set_up(state);
}

/* How many files are in the folder; they are removed. */
static int sweep_folder(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) {
        char name[400];
        if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.')) continue;
        snprintf(name, sizeof name, "%s/%s", folder, e->d_name);
        unlink(name);
        n++;
    }
    closedir(d);
    return n;
}

static int unmake(void **state)
{
    sweep_folder();
    rmdir(folder);
    return tear_down(state);
}

static float weights[2048];

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg;
    (void)name;
    for (int i = 0; i < 2048; i++) weights[i] = (float)i * 0.25f;
    out->data = weights;
    return SPARTA_OK;
}

static sp_graph *parse(const char *text)
{
    sp_graph *g = NULL;
    ok(sp_graph_parse(cx, text, fetch, NULL, &g));
    return g;
}

/* Written and read back, the graph has this text; files in the folder are counted. */
static void written(const char *text, uint64_t limit, const char *expected, int files)
{
    sp_graph *g = parse(text);
    ok(sp_onnx_write_within(cx, g, path, limit));
    sp_graph_free(g);
    sp_model *m = NULL;
    ok(sp_model_open(cx, path, NULL, &m));
    assert_int_equal(m->opset, 21);
    sp_text t;
    sp_text_init(&t, cx);
    sp_graph_print(m->graph, &t);
    assert_string_equal(sp_text_str(&t), expected);
    for (int i = 0; i < m->graph->n_values; i++) {
        const sp_value *v = m->graph->value[i];
        if (v->constant && v->dtype == SPARTA_F32 && sparta_tensor_elements(v->constant) == 2048)
            assert_memory_equal(v->constant->data, weights, sizeof weights);
    }
    sp_text_free(&t);
    sp_model_close(m);
    assert_int_equal(sweep_folder(), files);
}

#define BODY                                                                                                 \
    "const  w: f32[32,64] @\"w\"\n"                                                                          \
    "const  axes: i64[2] = [-1,5] @\"axes\"\n"                                                               \
    "const  half: f16[1] = [0.5] @\"half\"\n"                                                                \
    "const  none: f32[0] = [] @\"none\"\n"                                                                   \
    "node   a: ? = MatMul(x, w) \"/a\"\n"                                                                    \
    "node   b: ? = Clip(a, _, none) \"b\"\n"                                                                 \
    "node   c: ? = Transpose(b) {perm=[1,0]} \"c\"\n"                                                        \
    "node   d: ? = Gemm(c, b) {alpha=0.5, transB=1} \"d\"\n"                                                 \
    "node   e: ? = Gelu(d) {approximate=\"tanh\"} \"e\"\n"                                                   \
    "node   f: ? = ConstantOfShape(axes) {value=bf16[1]=[2.0]} \"f\"\n"                                      \
    "node   g: ? = Cast(f) {to=1} \"g\"\n"                                                                   \
    "node   h: ?, i: ? = Split(g) {axis=0, num_outputs=2} \"h\"\n"

/* Inference is another room's: the outputs' types stand in the text. */
static void round_trip(void **state)
{
    (void)state;
    const char *head = "graph \"g\"\ninput  x: f32[batch,32]\ninput  ids: i64[batch,3,sequence]\n" BODY;
    char text[4000], back[4000];
    snprintf(text, sizeof text,
             "%snode   y: f32[64,2*batch+1] = Add(e, h) \"y\"\nnode   z: f16[] = Identity(half)\noutput "
             "y\noutput z\noutput ids\noutput w\n",
             head);
    snprintf(back, sizeof back,
             "%snode   y: ? = Add(e, h) \"y\"\nnode   z: ? = Identity(half) \"z\"\noutput y\noutput "
             "z\noutput ids\noutput w\n",
             head);
    written(text, (uint64_t)2 << 30, back, 1);
    written(text, 0, back, 2); /* weights beside it: the same model */
}

static void linear(void **state)
{
    (void)state;
    const char *head = "graph \"g\"\ninput  x: f32[n,32]\ninput  r: f32[n,64]\nconst  w: f32[64,32] "
                       "@\"w\"\nconst  b: f32[1] = [1.0] @\"b\"\n";
    char text[2000], back[2000];
    snprintf(text, sizeof text,
             "%snode   y/MatMul: f32[n,64] = Relu(r)\n"
             "node   y: f32[n,64] = sparta::Linear(x, w, b, y/MatMul) {transposed=1, "
             "epilogue=\"bias gelu_tanh add\"} \"L\"\noutput y\n",
             head);
    snprintf(back, sizeof back,
             "%snode   y/MatMul: ? = Relu(r) \"y/MatMul\"\n"
             "node   y/Transpose: ? = Transpose(w) {perm=[1,0]} \"y/Transpose\"\n"
             "node   y/MatMul.2: ? = MatMul(x, y/Transpose) \"L/MatMul\"\n"
             "node   y/Bias: ? = Add(y/MatMul.2, b) \"L/Bias\"\n"
             "node   y/Gelu: ? = Gelu(y/Bias) {approximate=\"tanh\"} \"L/Gelu\"\n"
             "node   y: ? = Add(y/Gelu, y/MatMul) \"L/Residual\"\noutput y\n",
             head);
    written(text, (uint64_t)2 << 30, back, 1);
    snprintf(text, sizeof text,
             "%snode   y: f32[n,64] = sparta::Linear(x, w, b, r) {transposed=1, epilogue=\"bias gelu mul\"} "
             "\"L\"\noutput y\n",
             head);
    snprintf(back, sizeof back,
             "%snode   y/Transpose: ? = Transpose(w) {perm=[1,0]} \"y/Transpose\"\n"
             "node   y/MatMul: ? = MatMul(x, y/Transpose) \"L/MatMul\"\n"
             "node   y/Bias: ? = Add(y/MatMul, b) \"L/Bias\"\n"
             "node   y/Gelu: ? = Gelu(y/Bias) {approximate=\"none\"} \"L/Gelu\"\n"
             "node   y: ? = Mul(y/Gelu, r) \"L/Residual\"\noutput y\n",
             head);
    written(text, (uint64_t)2 << 30, back, 1);
    written("graph \"g\"\ninput  x: f32[n,32]\nconst  w: f32[32,64] @\"w\"\nnode   y: f32[n,64] = "
            "sparta::Linear(x, w)\noutput y\n",
            (uint64_t)2 << 30,
            "graph \"g\"\ninput  x: f32[n,32]\nconst  w: f32[32,64] @\"w\"\nnode   y: ? = MatMul(x, w) "
            "\"/MatMul\"\noutput y\n",
            1);
}

/* A module that is called twice gives its path to several nodes; in the file each has a name of its own, and the first keeps the path. */
static void names(void **state)
{
    (void)state;
    const char *head = "graph \"g\"\ninput  x: f32[n,64]\nconst  w: f32[64,32] @\"w\"\n";
    char text[2000], back[2000];
    snprintf(text, sizeof text,
             "%snode   a: f32[n,64] = Relu(x) \"act\"\nnode   b: f32[n,64] = Relu(a) \"act\"\n"
             "node   c: f32[n,64] = Relu(b) \"act\"\nnode   d: f32[n,64] = Relu(c) \"act.3\"\n"
             "node   e: f32[n,64] = Relu(d) \"act\"\nnode   f: f32[n,64] = Relu(e) \"L/MatMul\"\n"
             "node   g: f32[n,32] = sparta::Linear(f, w) {epilogue=\"relu\"} \"L\"\n"
             "node   h: f32[n,32] = sparta::Linear(b, w) {epilogue=\"relu\"} \"L\"\noutput g\noutput h\n",
             head);
    snprintf(back, sizeof back,
             "%snode   a: ? = Relu(x) \"act\"\nnode   b: ? = Relu(a) \"act.2\"\n"
             "node   c: ? = Relu(b) \"act.4\"\nnode   d: ? = Relu(c) \"act.3\"\n"
             "node   e: ? = Relu(d) \"act.5\"\nnode   f: ? = Relu(e) \"L/MatMul\"\n"
             "node   g/MatMul: ? = MatMul(f, w) \"L/MatMul.2\"\nnode   g: ? = Relu(g/MatMul) \"L/Relu\"\n"
             "node   h/MatMul: ? = MatMul(b, w) \"L/MatMul.3\"\nnode   h: ? = Relu(h/MatMul) \"L/Relu.2\"\n"
             "output g\noutput h\n",
             head);
    written(text, (uint64_t)2 << 30, back, 1);
}

/* Products whose names an exporter counted are called as the modules of their weights; names that people gave stay. */
static void given_names_stay(void **state)
{
    (void)state;
    static const char *const name[][2] = {{"fc1", "fc1"},
                                          {"MatMul_12", "enc.a"},
                                          {"node_linear", "enc.a"},
                                          {"node_MatMul_83", "enc.a"},
                                          {"node_MatMul_83/MatMulAddFusion", "enc.a"},
                                          {"node_a.b", "enc.a"},
                                          {"a/MatMul", "a/MatMul"},
                                          {"MatMul_b1", "MatMul_b1"},
                                          {"MatMul", "MatMul"},
                                          {"Gemm_1", "Gemm_1"}};
    for (size_t i = 0; i < SP_COUNT(name); i++) {
        char text[2][400];
        for (int back = 0; back < 2; back++)
            snprintf(text[back], sizeof text[back],
                     "graph \"g\"\ninput  x: f32[n,32]\nconst  enc.a.weight: f32[32,64] @\"enc.a.weight\"\n"
                     "node   y: %s = MatMul(x, enc.a.weight) \"%s\"\noutput y\n",
                     back ? "?" : "f32[n,64]", name[i][back]);
        written(text[0], (uint64_t)2 << 30, text[1], 1);
    }
}

/* Paths as the older exporter writes them, also with what onnxruntime's optimiser appends. */
static void modules_of_names(void **state)
{
    (void)state;
    static const char *const name[][2] = {{"/enc/layer.0/query/MatMul", "enc.layer.0.query"},
                                          {"/layers/layers.0/MatMul", "layers.0"},
                                          {"/enc/query/MatMul/MatMulAddFusion", "enc.query"},
                                          {"/MatMul/MatMulAddFusion", NULL},
                                          {"/MatMulAddFusion", NULL},
                                          {"/MatMul", NULL},
                                          {"enc/MatMul", NULL}};
    for (size_t i = 0; i < SP_COUNT(name); i++) {
        char text[300];
        sp_model *m = NULL;
        snprintf(text, sizeof text,
                 "graph \"g\"\ninput  x: f32[n,32]\nconst  w: f32[32,64] @\"w\"\n"
                 "node   y: f32[n,64] = MatMul(x, w) \"%s\"\noutput y\n",
                 name[i][0]);
        sp_graph *g = parse(text);
        ok(sp_onnx_write(cx, g, path));
        sp_graph_free(g);
        ok(sp_model_open(cx, path, NULL, &m));
        const char *module = m->graph->node[0]->module;
        if (name[i][1])
            assert_string_equal(module, name[i][1]);
        else
            assert_null(module);
        sp_model_close(m);
    }
}

/* A bias that two nodes read says nothing of either: equal ones are stored once. */
static void shared_parameters(void **state)
{
    (void)state;
    static const char *const other[][2] = {{"Relu(b.bias) \"r\"", "node_MatMul_1"},
                                           {"Add(a, b.bias) \"r\"", "node_MatMul_1"},
                                           {"Relu(x) \"r\"", "b"}};
    for (size_t i = 0; i < SP_COUNT(other); i++) {
        char text[2][600];
        for (int back = 0; back < 2; back++)
            snprintf(text[back], sizeof text[back],
                     "graph \"g\"\ninput  x: f32[n,32]\nconst  w: f32[32,64] @\"w\"\n"
                     "const  b.bias: f32[64] @\"b.bias\"\nnode   a: %s = MatMul(x, w) \"%s\"\n"
                     "node   y: %s = Add(a, b.bias) \"add\"\nnode   z: %s = %s\noutput y\noutput z\n",
                     back ? "?" : "f32[n,64]", back ? other[i][1] : "node_MatMul_1", back ? "?" : "f32[n,64]",
                     back     ? "?"
                     : i == 0 ? "f32[64]"
                     : i == 1 ? "f32[n,64]"
                              : "f32[n,32]",
                     other[i][0]);
        written(text[0], (uint64_t)2 << 30, text[1], 1);
    }
}

static bool lies_in(const sp_mapped *file, const void *data)
{
    const uint8_t *at = data;
    return at >= file->data && at < file->data + file->size;
}

/* Weights of any type are where a reader can use them as they are, whatever the names before them are. */
static void in_place(void **state)
{
    (void)state;
    for (int letters = 1; letters < 20; letters++) {
        char text[1000];
        snprintf(
            text, sizeof text,
            "graph \"g\"\ninput  x: f32[n,32]\nconst  %.*s: i8[3] = [1,2,3]\nconst  b: f64[3] = "
            "[1,2,3]\nconst  w: "
            "f32[32,64] @\"w\"\nconst  h: f16[1] = [1]\nconst  l: i64[4] = [1,2,3,4]\nnode   y: f32[n,64] = "
            "MatMul(x, w)\noutput y\noutput b\noutput h\noutput l\noutput %.*s\n",
            letters, "aaaaaaaaaaaaaaaaaaaa", letters, "aaaaaaaaaaaaaaaaaaaa");
        sp_graph *g = parse(text);
        sp_model *m = NULL;
        ok(sp_onnx_write(cx, g, path));
        sp_graph_free(g);
        ok(sp_model_open(cx, path, NULL, &m));
        int constants = 0;
        for (int i = 0; i < m->graph->n_values; i++)
            if (m->graph->value[i]->constant) {
                assert_true(lies_in(&m->file, m->graph->value[i]->constant->data));
                constants++;
            }
        assert_int_equal(constants, 5);
        sp_model_close(m);
    }
}

/* The opset is the lowest that has all that is there, and elements narrower than a byte come back as they were. */
static void needs(const char *text, int opset, const char *constant)
{
    sp_graph *g = parse(text);
    ok(sp_onnx_write(cx, g, path));
    sp_graph_free(g);
    sp_model *m = NULL;
    ok(sp_model_open(cx, path, NULL, &m));
    assert_int_equal(m->opset, opset);
    sp_text t;
    sp_text_init(&t, cx);
    sp_graph_print(m->graph, &t);
    if (!strstr(sp_text_str(&t), constant)) fail_msg("'%s' is not in\n%s", constant, sp_text_str(&t));
    sp_text_free(&t);
    sp_model_close(m);
    assert_int_equal(sweep_folder(), 1);
}

static void later_opsets(void **state)
{
    (void)state;
#define LATER "graph \"g\"\ninput x: f32[2,3]\nconst s: f32[3] = [1,2,3]\nconst one: f32[] = [1]\n"
    needs(LATER "const q: i4[3] = [-8,7,1]\nnode y: f32[3] = DequantizeLinear(q, one)\noutput y\n", 21,
          "i4[3] = [-8,7,1]");
    needs(LATER "const q: u4[1] = [15]\nnode y: f32[3] = DequantizeLinear(q, one)\noutput y\n", 21,
          "u4[1] = [15]");
    needs(LATER "const q: i2[5] = [-2,-1,0,1,-2]\nnode y: f32[5] = DequantizeLinear(q, one)\noutput y\n", 25,
          "i2[5] = [-2,-1,0,1,-2]");
    needs(LATER "const n: i64[1] = [4]\nnode c: u2[4] = ConstantOfShape(n) {value=u2[1]=[3]}\nnode y: f32[4] "
                "= DequantizeLinear(c, one)\noutput y\n",
          25, "value=u2[1]=[3]");
    needs(LATER
          "const q: i8[3] = [1,2,3]\nnode y: f16[3] = DequantizeLinear(q, one) {output_dtype=10}\noutput y\n",
          23, "f32[]");
    needs(LATER "node y: u8[2,3] = QuantizeLinear(x, one) {precision=1}\noutput y\n", 23, "precision=1");
    needs(LATER "node y: u8[2,3] = QuantizeLinear(x, one)\noutput y\n", 21, "QuantizeLinear");
    needs(LATER "const w: f32[3,1] = [1,2,3]\nnode y: f32[2,1] = sparta::Linear(x, w) "
                "{epilogue=\"silu\"}\noutput y\n",
          24, "Swish(y/MatMul) {alpha=1.0}");
    needs(LATER "node y: f32[2,3] = RMSNormalization(x, s) {epsilon=0.5}\noutput y\n", 23, "epsilon=0.5");
    needs("graph \"g\"\ninput q: f32[1,2,3,4]\ninput n: i64[1]\nnode y: f32[1,2,3,4] = Attention(q, q, "
          "q)\noutput y\n",
          23, "Attention(q, q, q)");
    needs("graph \"g\"\ninput q: f32[1,2,3,4]\ninput n: i64[1]\nnode y: f32[1,2,3,4] = Attention(q, q, q, _, "
          "_, _, n)\noutput y\n",
          24, "Attention(q, q, q, _, _, _, n)");
    /* more than one piece of packed bytes, in the model and beside it */
    static uint8_t many[3 * 8192 + 1];
    for (size_t i = 0; i < sizeof many; i++) many[i] = (uint8_t)(i * 7 & 15);
    for (int beside = 0; beside < 2; beside++) {
        sparta_tensor t = sparta_tensor_view(SPARTA_U4, 1, (int64_t[]){sizeof many}, many);
        sp_graph *g = NULL;
        sp_value *v = NULL;
        sp_model *m = NULL;
        ok(sp_graph_create(cx, "g", &g));
        ok(sp_graph_add_constant(g, "w", &t, false, &v));
        ok(sp_graph_add_output(g, v));
        ok(sp_onnx_write_within(cx, g, path, beside ? 0 : (uint64_t)2 << 30));
        sp_graph_free(g);
        ok(sp_model_open(cx, path, NULL, &m));
        assert_memory_equal(sp_graph_find(m->graph, "w")->constant->data, many, sizeof many);
        sp_model_close(m);
        assert_int_equal(sweep_folder(), 1 + beside);
    }
}

static void refused_graphs(void **state)
{
    (void)state;
    sp_graph *g = parse("graph \"g\"\ninput  x: f32[1,2,8]\nnode   y: f32[1,2,8] = sparta::Attention(x, "
                        "x, x) {heads=2} \"at\"\noutput y\n");
    assert_int_equal(sp_onnx_write(cx, g, path), SPARTA_E_UNSUPPORTED);
    said("Attention 'at'");
    sp_graph_free(g);
    g = parse("graph \"g\"\ninput  x: f32[1]\nnode   y: ? = Relu(x)\noutput y\n");
    assert_int_equal(sp_onnx_write(cx, g, path), SPARTA_E_USAGE);
    said("'y'");
    sp_graph_free(g);
    g = parse("graph \"g\"\ninput  x: f32[1]\noutput x\n");
    assert_int_equal(sp_onnx_write(cx, g, "/nowhere/at/all.onnx"), SPARTA_E_IO);
    sp_graph_free(g);
    assert_int_equal(sweep_folder(), 0);
}

static void out_of_memory(void **state)
{
    (void)state;
    sp_graph *g = parse(
        "graph \"g\"\ninput  x: f32[n,32]\nconst  w: f32[64,32] @\"w\"\n"
        "node   y: f32[n,64] = sparta::Linear(x, w) {transposed=1, epilogue=\"relu\"} \"L\"\noutput y\n");
    size_t before = sp_ctx_memory(cx);
    for (int external = 0; external < 2; external++)
        for (uint64_t nth = 1;; nth++) {
            sp_ctx_fail_alloc(cx, nth, nth % 2);
            sparta_status status = sp_onnx_write_within(cx, g, path, external ? 0 : (uint64_t)2 << 30);
            sp_ctx_fail_alloc(cx, 0, false);
            assert_int_equal(sp_ctx_memory(cx), before);
            bool there = access(path, F_OK) == 0;
            int files = sweep_folder();
            if (status == SPARTA_OK) {
                assert_int_equal(files, 1 + external);
                assert_true(nth > 10);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_false(
                there); /* nothing half-written; complete weights without their model may be left behind */
            assert_true(files <= external);
        }
    sp_graph_free(g);
}

/* Quantised weights and biases are parameters as floats are; zero points, indices and shapes are none. */
static void counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t parameters;
    } cases[] = {
        {"graph \"g\"\ninput x: f32[batch,4]\nconst w: i8[4,3] = [1,2,3,4,5,6,7,8,9,10,11,12]\n"
         "const s: f32[3] = [1,1,1]\nconst z: i8[3] = [0,0,0]\nconst b: i32[3] = [1,2,3]\nconst t: i32[3] = "
         "[0,0,0]\n"
         "node d: f32[4,3] = DequantizeLinear(w, s, z) {axis=1}\n"
         "node e: f32[3] = DequantizeLinear(b, s, t) {axis=0}\n"
         "node h: f32[batch,3] = MatMul(x, d)\nnode y: f32[batch,3] = Add(h, e)\noutput y\n",
         12 + 3 + 3},
        {"graph \"g\"\ninput i: i64[batch]\nconst w: u8[2,3] = [1,2,3,4,5,6]\nconst s: f32[] = [0.5]\n"
         "const z: u8[] = [128]\nnode r: u8[batch,3] = Gather(w, i)\n"
         "node y: f32[batch,3] = DequantizeLinear(r, s, z)\noutput y\n",
         6},
        {"graph \"g\"\ninput x: f32[6]\nconst k: i64[2] = [2,3]\nconst c: bool[2,3] = [1,0,1,0,1,0]\n"
         "const o: f32[2,3] = [1,2,3,4,5,6]\nnode r: f32[2,3] = Reshape(x, k)\n"
         "node y: f32[2,3] = Where(c, r, o)\noutput y\n",
         6},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sparta_report *r = NULL;
        sp_graph *g = parse(cases[i].text);
        ok(sp_onnx_write(cx, g, path));
        sp_graph_free(g);
        ok(sparta_model_report(cx, path, NULL, &r));
        assert_int_equal(sparta_report_facts(r)->parameters, cases[i].parameters);
        sparta_report_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make, unmake)
        IN_FOLDER(round_trip),       IN_FOLDER(linear),           IN_FOLDER(names),
        IN_FOLDER(later_opsets),     IN_FOLDER(given_names_stay), IN_FOLDER(shared_parameters),
        IN_FOLDER(modules_of_names), IN_FOLDER(refused_graphs),   IN_FOLDER(out_of_memory),
        IN_FOLDER(in_place),         IN_FOLDER(counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
