/* --remove: the edit of the graph, what is refused, and that the smaller model gives the answer of the edited one. */
#include "propagate_bed.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* x (1, 3, 4) through an attention of two heads of two columns each, twice. */
#define ATTENTION(l)                                                                                         \
    "node q" l ": ? = Reshape(x" l ", cut)\n"                                                                \
    "node h" l ": ? = Transpose(q" l ") {perm=[0,2,1,3]}\n"                                                  \
    "node k" l ": ? = Transpose(q" l ") {perm=[0,2,3,1]}\n"                                                  \
    "node s" l ": ? = MatMul(h" l ", k" l ") \"/encoder/layer." l "/MatMul\"\n"                              \
    "node p" l ": ? = Softmax(s" l ") {axis=-1} \"/encoder/layer." l "/self/Softmax\"\n"                     \
    "node a" l ": ? = MatMul(p" l ", h" l ")\n"                                                              \
    "node b" l ": ? = Transpose(a" l ") {perm=[0,2,1,3]}\n"                                                  \
    "node c" l ": ? = Reshape(b" l ", join)\n"
#define MODEL                                                                                                \
    "graph \"heads\"\n"                                                                                      \
    "input x: f32[1,3,4]\n"                                                                                  \
    "const cut: i64[4] = [0,0,2,2]\n"                                                                        \
    "const join: i64[3] = [0,0,-1]\n"                                                                        \
    "const w: f32[4,4] = [1,2,3,4,5,6,7,8,-1,-2,-3,-4,-5,-6,-7,-8]\n"                                        \
    "const gamma: f32[4] = [1,2,3,4]\n"                                                                      \
    "node x0: ? = MatMul(x, w)\n" ATTENTION("0") "node x1: ? = MatMul(c0, w)\n" ATTENTION(                   \
        "1") "node y: ? = Mul(c1, gamma)\n"                                                                  \
             "output y\n"

static void run(const sp_graph *g, const char *name, sparta_tensor in, sparta_tensor *out)
{
    sparta_named_tensor input = {name, in};
    ok(sp_ops_run(cx, g, &input, 1, out, NULL, NULL));
}

/* The edited graph and the smaller one that propagation makes of it answer alike. */
static void same(const char *text, const char *request, const char *input, sparta_tensor in, int64_t fewer)
{
    sp_graph *edited = parse(text), *smaller = parse(text);
    sp_propagate_report report;
    sparta_tensor a, b;
    ok(sp_propagate_remove(edited, request));
    ok(sp_ops_infer(edited));
    ok(sp_propagate(smaller, &(sp_propagate_options){.n_remove = 1, .remove = &request}, &report));
    assert_int_equal(report.parameters_before - report.parameters_after, fewer);
    run(edited, input, in, &a);
    run(smaller, input, in, &b);
    assert_true(sp_tensor_same_shape(&a, &b));
    for (int64_t i = 0; i < sparta_tensor_elements(&a); i++)
        assert_true(fabs(((float *)a.data)[i] - ((float *)b.data)[i]) <= 1e-5 * fabs(((float *)a.data)[i]));
    sp_free(cx, a.data);
    sp_free(cx, b.data);
    sp_graph_free(edited);
    sp_graph_free(smaller);
}

static int masks(const sp_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += strstr(g->node[i]->name, "/heads") != NULL;
    return n;
}

static void test_heads(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int masks;
    } cases[] = {{"layer.1.heads=0", 1},
                 {"encoder.layer.heads=1", 2},
                 {"heads=0-1", 2},
                 {"/encoder/layer.0/self.heads=0,1", 1}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_graph *g = parse(MODEL);
        ok(sp_propagate_remove(g, cases[i].request));
        assert_int_equal(masks(g), cases[i].masks);
        ok(sp_ops_infer(g));
        ok(sp_graph_verify(g));
        sp_graph_free(g);
    }
}

/* By the modules of the nodes, where exporters number everything: what inspect calls a layer is taken. */
static void test_modules(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int masks; /* -1: refused */
    } cases[] = {{"bert.0.heads=1", 1}, {"bert.1.heads=1", 1},  {"bert.heads=0-1", 2},
                 {"fc.weight=1", 0},    {"bert.2.heads=1", -1}, {"fc=1", -1}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_graph *g = parse(MODEL);
        int softmax = 0;
        for (int k = 0; k < g->n_nodes; k++) {
            g->node[k]->name = "";
            if (g->node[k]->op == SP_OP_Softmax)
                g->node[k]->module = softmax++ ? "bert.1.self" : "bert.0.self";
        }
        g->node[0]->module = "fc";
        if (cases[i].masks < 0)
            fails(SPARTA_E_USAGE, sp_propagate_remove(g, cases[i].request));
        else
            ok(sp_propagate_remove(g, cases[i].request));
        assert_int_equal(masks(g), SP_MAX(cases[i].masks, 0));
        sp_graph_free(g);
    }
}

static float data[12] = {.1f, .2f, -.3f, .4f, .5f, -.6f, .7f, .8f, .9f, 1, -1.1f, 1.2f};

/* The channels of a weight, whichever way it lies and whatever product it is for. */
static void test_channels(void **state)
{
    (void)state;
    const int64_t two[2] = {3, 4}, four[4] = {1, 2, 2, 3};
    same("graph \"a\"\ninput x: f32[3,4]\nconst w: f32[4,3] = [1,2,3,4,5,6,7,8,9,10,11,12]\nconst v: "
         "f32[3,2] = [1,2,3,4,5,6]\n"
         "node h: ? = MatMul(x, w)\nnode r: ? = Relu(h)\nnode y: ? = MatMul(r, v)\noutput y\n",
         "w=1", "x", sparta_tensor_view(SPARTA_F32, 2, two, data), 4 + 2);
    same("graph \"b\"\ninput x: f32[3,4]\nconst w: f32[3,4] = [1,2,3,4,5,6,7,8,9,10,11,12]\nconst v: "
         "f32[2,3] = [1,2,3,4,5,6]\n"
         "node h: ? = Gemm(x, w) {transB=1}\nnode r: ? = Relu(h)\nnode y: ? = Gemm(r, v) {transB=1}\noutput "
         "y\n",
         "w=0,2", "x", sparta_tensor_view(SPARTA_F32, 2, two, data), 8 + 4);
    same("graph \"c\"\ninput x: f32[1,2,2,3]\nconst w: f32[3,2,1,1] = [1,2,3,4,5,6]\nconst v: f32[1,3,1,1] = "
         "[1,2,3]\n"
         "node h: ? = Conv(x, w)\nnode r: ? = Relu(h)\nnode y: ? = Conv(r, v)\noutput y\n",
         "w=1", "x", sparta_tensor_view(SPARTA_F32, 4, four, data), 2 + 1);
    same("graph \"d\"\ninput x: f32[1,2,2,3]\nconst w: f32[3,2,1,1] = [1,2,3,4,5,6]\nconst u: f32[3,1,1,1] = "
         "[1,2,3]\nconst v: f32[1,3,1,1] = [1,2,3]\n"
         "node h: ? = Conv(x, w)\nnode d: ? = Conv(h, u) {group=3}\nnode y: ? = Conv(d, v)\noutput y\n",
         "u=2", "x", sparta_tensor_view(SPARTA_F32, 4, four, data), 2 + 1 + 1);
}

/* Three projections of x (2, 3, 4), an attention over them as `body` writes it, and one after it: w by w columns each. */
#define PROJECTED(body, columns)                                                                             \
    "graph \"projected\"\n"                                                                                  \
    "input x: f32[" BATCH ",3,4]\n"                                                                          \
    "const wq: f32[4,4] = [1,2,3,4,5,6,7,8,-1,-2,-3,-4,-5,-6,-7,-8]\n"                                       \
    "const \"h.0.bias\": f32[4] = [1,0,-1,2]\n"                                                              \
    "const wk: f32[4,4] = [1,0,3,4,5,1,7,8,-1,-2,1,-4,-5,-6,-7,-8]\n"                                        \
    "const wv: f32[4,4] = [2,2,3,4,5,6,7,1,-1,2,-3,-4,-5,-6,-7,3]\n"                                         \
    "const wo: f32[4,4] = [1,2,1,4,5,6,7,2,-1,3,-3,-4,-5,1,-7,2]\n"                                          \
    "node q0: ? = MatMul(x, wq)\nnode q: ? = Add(q0, \"h.0.bias\")\n"                                        \
    "node k: ? = MatMul(x, wk)\nnode v: ? = MatMul(x, wv)\n" body "node y: ? = MatMul(" columns              \
    ", wo)\noutput y\n"
/* As torch's older nn.MultiheadAttention was exported: the heads go into the batch. `t` is the order they are in. */
#define FOLD(n, cut, order)                                                                                  \
    "node " n "1: ? = Transpose(" n ") {perm=[1,0,2]}\nnode " n "2: ? = Reshape(" n "1, " cut ")\n"          \
    "node " n "3: ? = Transpose(" n "2) {perm=" order "}\n"
#define FOLDED                                                                                               \
    "const cut: i64[3] = [3,-1,2]\nconst join: i64[3] = [3,-1,4]\n" FOLD("q", "cut", "[1,0,2]")              \
        FOLD("k", "cut", "[1,2,0]") FOLD(                                                                    \
            "v", "cut",                                                                                      \
            "[1,0,2]") "node s: ? = MatMul(q3, k3)\nnode p: ? = Softmax(s) {axis=-1} \"fold/Softmax\"\n"     \
                       "node a: ? = MatMul(p, v3)\nnode b: ? = Transpose(a) {perm=[1,0,2]}\n"                \
                       "node c: ? = Reshape(b, join)\nnode d: ? = Transpose(c) {perm=[1,0,2]}\n"
/* The same with the heads in front of the batch, which a Reshape must take apart first. */
#define MAJOR(n, order)                                                                                      \
    "node " n "1: ? = Reshape(" n ", cut)\nnode " n "2: ? = Transpose(" n "1) {perm=[2,0,1,3]}\n"            \
    "node " n "3: ? = Reshape(" n "2, fold)\nnode " n "4: ? = Transpose(" n "3) {perm=" order "}\n"
#define HEADS_FIRST                                                                                          \
    "const cut: i64[4] = [0,0,2,2]\nconst fold: i64[3] = [-1,3,2]\n"                                         \
    "const apart: i64[4] = [2,-1,3,2]\nconst join: i64[3] = [0,0,4]\n" MAJOR("q", "[0,1,2]")                 \
        MAJOR("k", "[0,2,1]") MAJOR(                                                                         \
            "v", "[0,1,2]") "node s: ? = MatMul(q4, k4)\nnode p: ? = Softmax(s) {axis=2} \"fold/Softmax\"\n" \
                            "node drop: ? = Identity(p)\nnode a: ? = MatMul(drop, v4)\nnode b: ? = "         \
                            "Reshape(a, apart)\n"                                                            \
                            "node c: ? = Transpose(b) {perm=[1,2,0,3]}\nnode d: ? = Reshape(c, join)\n"
#define RANK_3 "node d: ? = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2} \"fold/Attention\"\n"
#define RANK_4                                                                                               \
    "const cut: i64[4] = [0,0,2,2]\nconst join: i64[3] = [0,0,4]\n"                                          \
    "node q1: ? = Reshape(q, cut)\nnode q2: ? = Transpose(q1) {perm=[0,2,1,3]}\n"                            \
    "node k1: ? = Reshape(k, cut)\nnode k2: ? = Transpose(k1) {perm=[0,2,1,3]}\n"                            \
    "node v1: ? = Reshape(v, cut)\nnode v2: ? = Transpose(v1) {perm=[0,2,1,3]}\n"                            \
    "node a: ? = Attention(q2, k2, v2) \"fold/Attention\"\n"                                                 \
    "node b: ? = Transpose(a) {perm=[0,2,1,3]}\nnode d: ? = Reshape(b, join)\n"
#define FUSED "node d: ? = sparta::Attention(q, k, v) {heads=2} \"fold/Attention\"\n"

static float batches[24] = {.1f,  .2f, -.3f, .4f, .5f, -.6f, .7f, .8f,  .9f, 1,    -1.1f, 1.2f,
                            -.1f, .3f, .5f,  .6f, .2f, -.4f, .1f, -.8f, .7f, -.2f, 1.1f,  .2f};

/* However an attention is written, one of two heads takes half of the four weights, and of the bias, with it. */
static void test_ways_to_write_heads(void **state)
{
    (void)state;
#define BATCH "2"
    static const char *const two[] = {PROJECTED(FOLDED, "d"), PROJECTED(HEADS_FIRST, "d"),
                                      PROJECTED(RANK_3, "d"), PROJECTED(RANK_4, "d"), PROJECTED(FUSED, "d")};
#undef BATCH
#define BATCH "1"
    static const char *const one[] = {PROJECTED(FOLDED, "d"), PROJECTED(HEADS_FIRST, "d"),
                                      PROJECTED(RANK_3, "d"), PROJECTED(RANK_4, "d"), PROJECTED(FUSED, "d")};
#undef BATCH
    for (size_t i = 0; i < SP_COUNT(two); i++)
        for (int head = 0; head < 2; head++) {
            const char *request = head ? "fold.heads=1" : "h.0.heads=0"; /* by the layer before it, too */
            same(two[i], request, "x", sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 3, 4}, batches),
                 4 * 8 + 2);
            same(one[i], request, "x", sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){1, 3, 4}, batches),
                 4 * 8 + 2);
        }
}

/* A batch that is a symbol is no hindrance to the edit: the mask stands where heads are columns. */
static void test_symbolic_batch(void **state)
{
    (void)state;
#define BATCH "batch"
    static const char *const texts[] = {PROJECTED(FOLDED, "d"), PROJECTED(HEADS_FIRST, "d"),
                                        PROJECTED(RANK_3, "d"), PROJECTED(RANK_4, "d")};
#undef BATCH
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_graph *plain = parse(texts[i]), *edited = parse(texts[i]);
        sparta_tensor a, b;
        ok(sp_propagate_remove(edited, "heads=0"));
        ok(sp_propagate_remove(edited, "fold.heads=1"));
        assert_int_equal(masks(edited), 2);
        ok(sp_ops_infer(edited));
        const sparta_tensor in = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 3, 4}, batches);
        run(plain, "x", in, &a);
        run(edited, "x", in, &b);
        double kept = 0;
        for (int64_t k = 0; k < sparta_tensor_elements(&b); k++) { /* no head is left */
            kept += fabs(((float *)a.data)[k]);
            assert_true(((float *)b.data)[k] == 0);
        }
        assert_true(kept > 1);
        sp_free(cx, a.data);
        sp_free(cx, b.data);
        sp_graph_free(plain);
        sp_graph_free(edited);
    }
}

/* One of two heads that share their keys cannot go alone: the request is obeyed by a multiplication, and the report says who holds it. */
static void test_held(void **state)
{
    (void)state;
    static const char text[] =
        "graph \"shared\"\ninput x: f32[1,3,4]\nconst wq: f32[4,4] = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]\n"
        "const wk: f32[4,2] = [1,2,3,4,5,6,7,8]\nconst wo: f32[4,1] = [1,2,3,4]\n"
        "node q: ? = MatMul(x, wq)\nnode k: ? = MatMul(x, wk)\n"
        "node d: ? = Attention(q, k, k) {q_num_heads=4, kv_num_heads=2} \"/a/Attention\"\n"
        "node y: ? = MatMul(d, wo)\noutput y\n";
    const char *const requests[] = {"a.heads=1", "a.heads=1"};
    sp_graph *g = parse(text);
    sp_propagate_report r;
    ok(sp_propagate(g, &(sp_propagate_options){.n_remove = 2, .remove = requests}, &r));
    assert_int_equal(r.parameters_before, 28);
    assert_int_equal(r.parameters_after, 28);
    assert_int_equal(r.n, 5);
    assert_string_equal(r.tensor[3].name, "/a/Attention/heads");
    assert_non_null(strstr(r.tensor[4].name, "/a/Attention/heads_"));
    assert_string_equal(
        r.tensor[3].blocked_by,
        "keeps 1 zero column of 4, because of Attention '/a/Attention': it takes them as 2 x 2; prune whole "
        "blocks of that (heads, groups), or the same places in every block");
    sp_graph_free(g);
}

/* Of a request that is obeyed nothing is left to count; the mask of one that is not is no parameter, once. */
static void test_obeyed_and_held(void **state)
{
    (void)state;
    static const char text[] =
        "graph \"both\"\ninput x: f32[1,3,4]\nconst wq: f32[4,4] = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]\n"
        "const wk: f32[4,2] = [1,2,3,4,5,6,7,8]\nconst wo: f32[4,1] = [1,2,3,4]\n"
        "node q: ? = MatMul(x, wq)\nnode k: ? = MatMul(x, wk)\n"
        "node d: ? = Attention(q, k, k) {q_num_heads=4, kv_num_heads=2} \"/a/Attention\"\n"
        "node y: ? = MatMul(d, wo)\noutput y\n"
        "const v: f32[4,4] = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]\nconst vo: f32[4,1] = [1,2,3,4]\n"
        "node e: ? = MatMul(x, v)\nnode f: ? = Attention(e, e, e) {q_num_heads=2, kv_num_heads=2} "
        "\"/b/Attention\"\nnode z: ? = MatMul(f, vo)\noutput z\n";
    const char *const requests[] = {"b.heads=0", "a.heads=1"};
    sp_graph *g = parse(text);
    sp_propagate_report r;
    ok(sp_propagate(g, &(sp_propagate_options){.n_remove = 2, .remove = requests}, &r));
    assert_int_equal(r.parameters_before, 48);
    assert_int_equal(r.parameters_after, 38);
    assert_int_equal(r.n, 6);
    assert_string_equal(r.tensor[5].name, "/a/Attention/heads");
    sp_graph_free(g);
}

/* A way to the heads that is longer than anybody writes ends in a message, not in the stack. */
static void test_long_way(void **state)
{
    (void)state;
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "graph \"a\"\ninput p: f32[b,3,3]\nnode v0: ? = Softmax(p) \"a/Softmax\"\n");
    for (int i = 0; i < 20000; i++) sp_text_printf(&t, "node v%d: ? = Relu(v%d)\n", i + 1, i);
    sp_text_printf(&t, "const w: f32[3,1] = [1,2,3]\nnode y: ? = MatMul(v20000, w)\noutput y\n");
    sp_graph *g = parse(sp_text_str(&t));
    sp_text_free(&t);
    assert_int_equal(sp_propagate_remove(g, "a.heads=0"), SPARTA_E_UNSUPPORTED);
    sp_ctx_clear(cx);
    sp_graph_free(g);
}

/* Where heads cannot be told from the batch it says so, and what to write; a Softmax over classes is passed over. */
static void test_unclear_heads(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
        sparta_status status;
    } cases[] = {
        {"graph \"a\"\ninput p: f32[8,3,3]\ninput v: f32[8,3,4]\nnode s: ? = Softmax(p) \"a/Softmax\"\n"
         "node y: ? = MatMul(s, v)\noutput y\n",
         "name output channels of the weight", SPARTA_E_UNSUPPORTED},
        {"graph \"a\"\ninput p: f32[8,3,3]\ninput v: f32[8,3,4]\nconst j: i64[3] = [2,12,4]\nnode s: ? = "
         "Softmax(p) \"a/Softmax\"\nnode m: ? = MatMul(s, v)\nnode y: ? = Reshape(m, j)\noutput y\n",
         "which of its axes are heads", SPARTA_E_UNSUPPORTED},
        {"graph \"a\"\ninput p: f32[2,2,2,3,3]\nnode s: ? = Softmax(p) \"a/Softmax\"\nnode y: ? = "
         "Relu(s)\noutput y\n",
         "of rank 5 does not say", SPARTA_E_UNSUPPORTED},
        {"graph \"a\"\ninput p: f32[2,h,3,3]\nnode s: ? = Softmax(p) \"a/Softmax\"\nnode y: ? = "
         "Relu(s)\noutput y\n",
         "does not say which", SPARTA_E_UNSUPPORTED},
        {"graph \"a\"\ninput p: f32[2,5,3,3]\nnode y: ? = Softmax(p) {axis=1} \"a/Softmax\"\noutput y\n",
         "the model has none", SPARTA_E_USAGE},
        {"graph \"a\"\ninput p: f32[2,3,5]\nnode y: ? = Softmax(p) \"a/Softmax\"\noutput y\n",
         "no Softmax or Attention", SPARTA_E_USAGE},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_graph *g = parse(cases[i].text);
        assert_int_equal(sp_propagate_remove(g, "a.heads=0"), cases[i].status);
        if (!strstr(sparta_message(cx), cases[i].says)) fail_msg("%zu: %s", i, sparta_message(cx));
        sp_ctx_clear(cx);
        sp_graph_free(g);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *request, *says;
        sparta_status status;
    } cases[] = {
        {"layer.2.heads=0", "the nearest are '/encoder/layer.0/self/Softmax'", SPARTA_E_USAGE},
        {"layer.self.1.heads=0", "no Softmax or Attention has", SPARTA_E_USAGE},
        {"layer.1.heads=2", "from 0 to 1", SPARTA_E_USAGE},
        {"layer.1.heads=0-2", "past the end", SPARTA_E_USAGE},
        {"layer.1.heads=0,0-1", "twice", SPARTA_E_USAGE},
        {"layer.1.heads=1-0", "ends before it begins", SPARTA_E_USAGE},
        {"layer.1.heads=0-", "has no end", SPARTA_E_USAGE},
        {"layer.1.heads=-1", "is not one", SPARTA_E_USAGE},
        {"layer.1.heads=0;1", "is not one", SPARTA_E_USAGE},
        {"layer.1.heads=999999999999999999999999", "is not one", SPARTA_E_USAGE},
        {"layer.1.heads=0-999999999999999999", "past the end", SPARTA_E_USAGE},
        {"layer.1.heads=", "expected", SPARTA_E_USAGE},
        {"=1", "expected", SPARTA_E_USAGE},
        {"", "expected", SPARTA_E_USAGE},
        {"W=1", "the model has no weight 'W'", SPARTA_E_USAGE},
        {"gamma=1", "no weight of a product", SPARTA_E_USAGE},
        {"w=4", "from 0 to 3 of 'w'", SPARTA_E_USAGE},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_graph *g = parse(MODEL);
        assert_int_equal(sp_propagate_remove(g, cases[i].request), cases[i].status);
        if (!strstr(sparta_message(cx), cases[i].says))
            fail_msg("%s: %s", cases[i].request, sparta_message(cx));
        sp_ctx_clear(cx);
        sp_graph_free(g);
    }
}

static void test_no_softmax(void **state)
{
    (void)state;
    sp_graph *g = parse("graph \"a\"\ninput x: f32[3,4]\nnode y: ? = Relu(x)\noutput y\n");
    assert_int_equal(sp_propagate_remove(g, "a.heads=1"), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "the model has none"));
    sp_graph_free(g);
}

static void test_memory(void **state)
{
    (void)state;
#define BATCH "2"
    static const char *const cases[][2] = {
        {MODEL, "layer.heads=1"}, {MODEL, "w=1"}, {PROJECTED(FOLDED, "d"), "fold.heads=1"}};
#undef BATCH
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        for (uint64_t n = 1;; n++) {
            sp_graph *g = parse(cases[i][0]);
            sp_ctx_fail_alloc(cx, n, false);
            sparta_status status = sp_propagate_remove(g, cases[i][1]);
            sp_ctx_fail_alloc(cx, 0, false);
            sp_graph_free(g);
            if (status == SPARTA_OK) break;
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_in_range(n, 1, 1000);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_channels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ways_to_write_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_symbolic_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_obeyed_and_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unclear_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_softmax, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
