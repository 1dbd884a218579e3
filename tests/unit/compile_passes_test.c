/* The graph passes on what PyTorch's two exporters write (tests/fixtures/make_fixtures.py), and the passes as
 * such: settled after one run, failing cleanly, cancelled. The small graphs are in compile_patterns_test.c.
 */
#include "compile_graphs.h"

/* ------------------------------------------------------------------ fixtures */

#define NO_PIECES                                                                                            \
    " MatMul=0 Gemm=0 Softmax=0 Erf=0 Gelu=0 Tanh=0 Relu=0 Sigmoid=0 ReduceMean=0 Add=0 Mul=0 Div=0 "        \
    "IsNaN=0 Transpose=0 Expand=0 GatherND=0 Range=0"

static void check_fixture(const char *name, const char *wanted, const sizes *runs, int n_runs)
{
    char path[256];
    sp_model *plain, *fused;
    snprintf(path, sizeof path, "tests/fixtures/%s.onnx", name);
    ok(sp_model_open(cx, path, NULL, &plain));
    ok(sp_model_open(cx, path, NULL, &fused));
    ok(sp_ops_infer(plain->graph));
    ok(sp_compile_passes(fused->graph));
    ok(sp_graph_verify(fused->graph));
    has(name, fused->graph, wanted);
    has(name, fused->graph, NO_PIECES + 1);
    for (int i = 0; i < n_runs; i++) same_answer(name, plain->graph, fused->graph, runs[i], false);
    sp_model_close(plain);
    sp_model_close(fused);
}

static void berts(void **state)
{
    (void)state;
    static const char *const names[] = {
        "bert-script-eager", "bert-script-sdpa", "bert-script-eager-4x1", "bert-script-sdpa-4x1",
        "bert-dynamo-eager", "bert-dynamo-sdpa", "bert-dynamo-eager-4x1", "bert-dynamo-sdpa-4x1"};
    static const sizes runs[] = {{1, 7}, {5, 7}, {1, 100}, {5, 100}, {1, 1}};
    for (size_t i = 0; i < SP_COUNT(names); i++)
        check_fixture(
            names[i],
            "Linear=9 Attention=2 LayerNormalization=5 Embed=1 Split=2 Where=1 Reshape=1 Shape=1 Gather=1",
            runs, SP_COUNT(runs));
}

static void encoders(void **state)
{
    (void)state;
    static const sizes fixed[] = {{1, 9}, {5, 9}}, any[] = {{1, 7}, {5, 100}};
    check_fixture("encoder-script", "Linear=9 Attention=2 LayerNormalization=4 Split=2 Reshape=0", fixed, 2);
    check_fixture("encoder-dynamo", "Linear=9 Attention=2 LayerNormalization=4 Split=2 Reshape=0", any, 2);
}

/* Images: patches are products, attention is found in windows too, and padding by nothing is gone. */
static void images(void **state)
{
    (void)state;
    static const struct {
        const char *name, *wanted;
    } cases[] = {{"vit-script", "Linear=10 Attention=2 Conv=0 Softmax=0 MatMul=0"},
                 {"vit-dynamo", "Linear=10 Attention=2 Conv=0 Softmax=0 MatMul=0"},
                 {"swin-script", "Linear=14 Attention=3 Conv=0 Softmax=0 MatMul=0 Pad=0"},
                 {"swin-dynamo", "Linear=14 Attention=3 Conv=0 Softmax=0 MatMul=0 Pad=0"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char path[256];
        sp_model *plain, *fused;
        snprintf(path, sizeof path, "tests/fixtures/%s.onnx", cases[i].name);
        ok(sp_model_open(cx, path, NULL, &plain));
        ok(sp_model_open(cx, path, NULL, &fused));
        ok(sp_ops_infer(plain->graph));
        ok(sp_compile_passes(fused->graph));
        has(cases[i].name, fused->graph, cases[i].wanted);
        same_answer(cases[i].name, plain->graph, fused->graph, (sizes){1, 1}, false);
        same_answer(cases[i].name, plain->graph, fused->graph, (sizes){3, 1}, false);
        sp_model_close(plain);
        sp_model_close(fused);
    }
}

static void mlps(void **state)
{
    (void)state;
    static const char *const names[] = {"mlp-script", "mlp-script-4x1", "mlp-dynamo", "mlp-dynamo-4x1"};
    static const sizes runs[] = {{1, 1}, {5, 1}, {64, 1}};
    for (size_t i = 0; i < SP_COUNT(names); i++) check_fixture(names[i], "Linear=5", runs, SP_COUNT(runs));
}

static void dlrms(void **state)
{
    (void)state;
    static const char *const names[] = {"dlrm-script", "dlrm-dynamo", "dlrm-script-lists",
                                        "dlrm-dynamo-lists"};
    static const sizes runs[] = {{1, 1}, {5, 1}, {64, 1}};
    for (size_t i = 0; i < SP_COUNT(names); i++)
        check_fixture(names[i], "Linear=4 Embed=4 Interact=1 Gather=0 Concat=0 Reshape=0 Flatten=0", runs,
                      SP_COUNT(runs));
    static const char *const bags[] = {"dlrm-script-bags",
                                       "dlrm-dynamo-bags"}; /* sums between lookups and dots */
    for (size_t i = 0; i < SP_COUNT(bags); i++)
        check_fixture(bags[i], "Linear=4 Embed=4 ReduceSum=4 Interact=1 MatMul=0 Concat=0", runs,
                      SP_COUNT(runs));
}

/* What the passes keep for the report: masks small, names readable, weights not copied unless merged. */
static void details(void **state)
{
    (void)state;
    sp_model *m;
    ok(sp_model_open(cx, "tests/fixtures/bert-script-sdpa.onnx", NULL, &m));
    ok(sp_compile_passes(m->graph));
    int attentions = 0, merged = 0, dense = 0;
    for (int i = 0; i < m->graph->n_nodes; i++) {
        const sp_node *n = m->graph->node[i];
        if (n->op == SP_OP_Attention) {
            attentions++;
            assert_int_equal(n->n_in, 4);
            assert_true(sp_expr_is(n->in[3]->dims.dim[1], 1)); /* (B,1,1,T): rows are equal */
            assert_true(sp_expr_is(n->in[3]->dims.dim[2], 1));
            assert_int_equal(sp_attr_int(&n->attrs, "heads", 0), 2);
            assert_true(sp_attr_float(&n->attrs, "scale", 0) == 0.25f);
            assert_int_equal(sp_attr_int(&n->attrs, "nan_to_zero", 0), 1);
        }
        if (n->op != SP_OP_Linear) continue;
        if (strstr(n->name, "layer.0/attention/self")) {
            merged++;
            assert_string_equal(n->name, "/bert/encoder/layer.0/attention/self/{query,key,value}/MatMul");
            assert_string_equal(n->in[2]->origin,
                                "bert.encoder.layer.0.attention.self.{query,key,value}.bias");
        }
        if (strstr(n->name, "layer.1/intermediate/dense/MatMul")) {
            dense++;
            assert_string_equal(sp_attr_string(&n->attrs, "epilogue", ""), "bias gelu");
            const char *w = n->in[1]->constant->data, *file = (const char *)m->file.data;
            assert_true(w >= file && w < file + m->file.size);
        }
    }
    assert_int_equal(attentions, 2);
    assert_int_equal(merged, 1);
    assert_int_equal(dense, 1);
    sp_model_close(m);
}

/* ------------------------------------------------------------------ the passes as such */

/* Once more over what they made: nothing changes. */
static void settled(void **state)
{
    (void)state;
    sp_model *m;
    sp_text before, after;
    sp_text_init(&before, cx);
    sp_text_init(&after, cx);
    ok(sp_model_open(cx, "tests/fixtures/bert-dynamo-sdpa.onnx", NULL, &m));
    ok(sp_compile_passes(m->graph));
    sp_graph_print(m->graph, &before);
    ok(sp_compile_passes(m->graph));
    sp_graph_print(m->graph, &after);
    assert_string_equal(sp_text_str(&before), sp_text_str(&after));
    sp_text_free(&before);
    sp_text_free(&after);
    sp_model_close(m);
}

/* Every allocation fails once: an error, no crash, no leak. */
static void out_of_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        sp_model *m;
        ok(sp_model_open(cx, "tests/fixtures/bert-dynamo-sdpa.onnx", NULL, &m));
        sp_ctx_fail_alloc(cx, nth, false);
        sparta_status status = sp_compile_passes(m->graph);
        sp_ctx_fail_alloc(cx, 0, false);
        sp_model_close(m);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_true(nth < 100000);
    }
}

static void cancelled(void **state)
{
    (void)state;
    sp_model *m;
    ok(sp_model_open(cx, "tests/fixtures/bert-script-eager.onnx", NULL, &m));
    sparta_ctx_cancel(cx);
    assert_int_equal(sp_compile_passes(m->graph), SPARTA_E_CANCELLED);
    sp_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(images),  TEST(mlps),    TEST(dlrms),         TEST(berts),     TEST(encoders),
        TEST(details), TEST(settled), TEST(out_of_memory), TEST(cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
