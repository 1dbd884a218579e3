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

static void run(const sparta_graph *g, const char *name, sparta_tensor in, sparta_tensor *out)
{
    sparta_named_tensor input = {name, in};
    ok(sparta_ops_run(cx, g, &input, 1, out, NULL, NULL));
}

/* The edited graph and the smaller one that propagation makes of it answer alike. */
static void same(const char *text, const char *request, const char *input, sparta_tensor in, int64_t fewer)
{
    sparta_graph *edited = parse(text), *smaller = parse(text);
    sparta_propagate_report report;
    sparta_tensor a, b;
    ok(sparta_propagate_remove(edited, request));
    ok(sparta_ops_infer(edited));
    ok(sparta_propagate(smaller, &(sparta_propagate_options){.n_remove = 1, .remove = &request}, &report));
    assert_int_equal(report.parameters_before - report.parameters_after, fewer);
    run(edited, input, in, &a);
    run(smaller, input, in, &b);
    assert_true(sparta_tensor_same_shape(&a, &b));
    for (int64_t i = 0; i < sparta_tensor_elements(&a); i++)
        assert_true(fabs(((float *)a.data)[i] - ((float *)b.data)[i]) <= 1e-5 * fabs(((float *)a.data)[i]));
    sparta_free(cx, a.data);
    sparta_free(cx, b.data);
    sparta_graph_free(edited);
    sparta_graph_free(smaller);
}

static int masks(const sparta_graph *g)
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
    for (size_t i = 0; i < SPARTA_COUNT(cases); i++) {
        sparta_graph *g = parse(MODEL);
        ok(sparta_propagate_remove(g, cases[i].request));
        assert_int_equal(masks(g), cases[i].masks);
        ok(sparta_ops_infer(g));
        ok(sparta_graph_verify(g));
        sparta_graph_free(g);
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

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *request, *says;
        sparta_status status;
    } cases[] = {
        {"layer.2.heads=0", "the nearest are '/encoder/layer.0/self/Softmax'", SPARTA_E_USAGE},
        {"layer.self.1.heads=0", "no Softmax has", SPARTA_E_USAGE},
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
    for (size_t i = 0; i < SPARTA_COUNT(cases); i++) {
        sparta_graph *g = parse(MODEL);
        assert_int_equal(sparta_propagate_remove(g, cases[i].request), cases[i].status);
        if (!strstr(sparta_message(cx), cases[i].says))
            fail_msg("%s: %s", cases[i].request, sparta_message(cx));
        sparta_ctx_clear(cx);
        sparta_graph_free(g);
    }
}

static void test_no_softmax(void **state)
{
    (void)state;
    sparta_graph *g = parse("graph \"a\"\ninput x: f32[3,4]\nnode y: ? = Relu(x)\noutput y\n");
    assert_int_equal(sparta_propagate_remove(g, "a.heads=1"), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "the model has no Softmax"));
    sparta_graph_free(g);
}

static void test_memory(void **state)
{
    (void)state;
    static const char *const requests[] = {"layer.heads=1", "w=1"};
    for (size_t i = 0; i < 2; i++)
        for (uint64_t n = 1;; n++) {
            sparta_graph *g = parse(MODEL);
            sparta_ctx_fail_alloc(cx, n, false);
            sparta_status status = sparta_propagate_remove(g, requests[i]);
            sparta_ctx_fail_alloc(cx, 0, false);
            sparta_graph_free(g);
            if (status == SPARTA_OK) break;
            assert_int_equal(status, SPARTA_E_MEMORY);
            assert_in_range(n, 1, 1000);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_channels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_softmax, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
