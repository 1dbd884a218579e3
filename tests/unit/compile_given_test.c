/* A model as it is given and the smaller one that propagation makes of it compete: structured pruning never makes a model slower. And what a
 * package keeps of the model that it was given: bench's dense baseline. Times are those of the cost model: nothing is measured. */
#include "models.h"

#define BERT "layers=2 hidden=96 heads=4 ffn=128 vocab=50 positions=130"
enum { LAYERS = 2, HEADS = 4, DIM = 24 };

/* ------------------------------------------------------------------ pruning */

/* Column n of a weight (k, n), that is output n of the product, and its bias: gone. */
static void remove_output(sp_graph *g, const char *module, int64_t n)
{
    char name[128];
    snprintf(name, sizeof name, "%s.weight", module);
    const sparta_tensor *w = sp_graph_find(g, name)->constant;
    for (int64_t k = 0; k < w->dim[0]; k++) ((float *)w->data)[k * w->dim[1] + n] = 0;
    snprintf(name, sizeof name, "%s.bias", module);
    ((float *)sp_graph_find(g, name)->constant->data)[n] = 0;
}

/* In every layer, those outputs of a module for which `gone` says so. */
static void prune_module(sp_graph *g, const char *module, int64_t outputs,
                         bool (*gone)(int64_t n, sp_rng *rng))
{
    sp_rng rng = sp_rng_seed(5);
    for (int layer = 0; layer < LAYERS; layer++) {
        char name[96];
        snprintf(name, sizeof name, "encoder.layer.%d.%s", layer, module);
        for (int64_t n = 0; n < outputs; n++)
            if (gone(n, &rng)) remove_output(g, name, n);
    }
}

static bool at_random(int64_t n, sp_rng *rng)
{
    (void)n;
    return sp_rng_uniform(rng) < .5;
}
static bool eleven_a_head(int64_t n, sp_rng *rng)
{
    (void)rng;
    return n % DIM < 11;
}
static bool odd_heads(int64_t n, sp_rng *rng)
{
    (void)rng;
    return n / DIM % 2;
}

static void queries_and_keys(sp_graph *g)
{
    prune_module(g, "attention.self.query", HEADS * DIM, at_random);
    prune_module(g, "attention.self.key", HEADS * DIM, at_random);
}
static void odd_queries(sp_graph *g)
{
    prune_module(g, "attention.self.query", HEADS * DIM, eleven_a_head);
    prune_module(g, "attention.self.key", HEADS * DIM, eleven_a_head);
}
static void values(sp_graph *g)
{
    prune_module(g, "attention.self.value", HEADS * DIM, at_random);
}
static void odd_values(sp_graph *g)
{
    prune_module(g, "attention.self.value", HEADS * DIM, eleven_a_head);
}
static void intermediate(sp_graph *g)
{
    prune_module(g, "intermediate.dense", 128, at_random);
}
static void whole_heads(sp_graph *g)
{
    prune_module(g, "attention.self.value", HEADS * DIM, odd_heads);
}
static void everywhere(sp_graph *g)
{
    queries_and_keys(g), odd_values(g), intermediate(g);
}
static void nowhere(sp_graph *g)
{
    (void)g;
}

/* ------------------------------------------------------------------ the contest */

typedef struct outcome {
    double us;
    sparta_package *package;
} outcome;

/* What is chosen by the cost model does not depend on the target; portable code needs no compiler. */
static sp_compile_request portable(void)
{
    sp_compile_request r = quick();
    r.options.target = "portable";
    return r;
}

static outcome compile_model(const char *onnx, bool no_propagate)
{
    outcome o = {0};
    sp_compile_request r = portable();
    r.options.no_propagate = no_propagate;
    r.us = &o.us;
    ok(sp_compile_file(cx, onnx, &r, &o.package));
    return o;
}

/* Nodes of an operator, and those of them that a kernel runs. */
static int count_op(const sparta_package *p, sp_op_id op, int *kernels)
{
    int n = 0;
    *kernels = 0;
    for (int i = 0; i < p->plan->n_nodes; i++) {
        if (p->plan->node[i]->op != op) continue;
        n++;
        *kernels += sp_attr_find(&p->plan->node[i]->attrs, "kernel") != NULL;
    }
    return n;
}

static void attention_is_whole(const sparta_package *p)
{
    int kernels;
    assert_int_equal(count_op(p, SP_OP_Attention, &kernels), LAYERS);
    assert_int_equal(kernels, LAYERS);
    assert_int_equal(count_op(p, SP_OP_Softmax, &kernels), 0);
}

static void a_pruned_bert_is_not_slower(void **state)
{
    (void)state;
    static const struct {
        const char *name, *prune;
        void (*edit)(sp_graph *g);
        bool smaller; /* propagation must have taken something, and it must have been worth it */
    } cases[] = {{"queries and keys", NULL, queries_and_keys, false},
                 {"odd queries", NULL, odd_queries, true},
                 {"values", NULL, values, false},
                 {"odd values", NULL, odd_values, true},
                 {"intermediate", NULL, intermediate, true},
                 {"heads", NULL, whole_heads, true},
                 {"everywhere", NULL, everywhere, true},
                 {"rows", "rows:0.5", nowhere, true}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        const char *onnx = in_root("pruned.onnx");
        sp_graph *g = zoo("bert-mini", cases[i].prune, BERT);
        cases[i].edit(g);
        ok(sp_onnx_write(cx, g, onnx));
        sp_graph_free(g);
        outcome best = compile_model(onnx, false), given = compile_model(onnx, true);
        const bool smaller = best.package->parameters_left < best.package->parameters_given;
        print_message("%-16s %8.1f us, as given %8.1f us, %ld of %ld parameters\n", cases[i].name, best.us,
                      given.us, (long)best.package->parameters_left, (long)best.package->parameters_given);
        assert_true(best.us > 0 && best.us <= given.us);
        assert_true(smaller || !cases[i].smaller);
        assert_int_equal(smaller, best.package->given != NULL);
        assert_null(given.package->given);
        attention_is_whole(best.package);
        attention_is_whole(given.package);
        sparta_package_close(best.package), sparta_package_close(given.package);
    }
}

static void no_model_of_the_zoo_is_slower(void **state)
{
    (void)state;
    static const char *const models[][2] = {
        {"mlp", SMALL_MLP},
        {"bert-mini", TINY_BERT},
        {"gpt2-small", TINY_BERT},
        {"llama-mini", "layers=1 hidden=32 heads=4 groups=2 ffn=64 vocab=20 positions=20"},
        {"llama-decode", "layers=1 hidden=32 heads=4 groups=2 ffn=64 vocab=20 positions=20"},
        {"dlrm", "rows=50 tables=3 columns=16"},
        {"resnet50", "image=32 width=4 classes=10"},
        {"mobilenet-v2", "image=32 classes=10"},
        {"unet", "image=32 width=4 classes=2"},
        {"densenet-small", "image=8 layers=2 growth=4 classes=3"}};
    for (size_t i = 0; i < SP_COUNT(models); i++) {
        const char *onnx = in_root("zoo.onnx");
        sp_graph *g = zoo(models[i][0], "rows:0.5", models[i][1]);
        ok(sp_onnx_write(cx, g, onnx));
        sp_graph_free(g);
        sp_compile_request r = portable();
        r.no_verify = true; /* other tests run them */
        double us[2];
        for (int k = 0; k < 2; k++) {
            sparta_package *p = NULL;
            r.options.no_propagate = k;
            r.us = &us[k];
            ok(sp_compile_file(cx, onnx, &r, &p));
            sparta_package_close(p);
        }
        print_message("%-16s %8.1f us, as given %8.1f us\n", models[i][0], us[0], us[1]);
        assert_true(us[0] > 0 && us[0] <= us[1] * 1.02);
    }
}

/* One channel less, and no block of 4 rows behind it lines up any more: strips would store nearly twice as much. */
static void a_smaller_one_that_is_slower_loses(void **state)
{
    (void)state;
    static const char text[] =
        "graph \"g\"\ninput x: f32[batch,256]\nconst w: f32[256,512] @\"w|4x1:0.9\"\nconst v: f32[512,256] "
        "@\"v|4x1:0.9\"\n"
        "node a: ? = MatMul(x, w) \"a\"\nnode b: ? = Relu(a) \"b\"\nnode y: ? = MatMul(b, v) \"y\"\noutput "
        "y\n";
    const char *onnx = in_root("channel.onnx");
    sp_graph *g = typed(graph(text));
    const sparta_tensor *w = sp_graph_find(g, "w")->constant;
    for (int64_t k = 0; k < 256; k++) ((float *)w->data)[k * 512 + 2] = 0;
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    outcome best = compile_model(onnx, false), given = compile_model(onnx, true);
    print_message("a channel less: %.1f us, as given %.1f us\n", best.us, given.us);
    assert_true(best.package->parameters_given == best.package->parameters_left);
    assert_true(best.us == given.us);
    assert_null(best.package->given);
    sparta_package_close(best.package), sparta_package_close(given.package);
}

/* Three products of one input, of whose biases those before `zeros` are zero. */
static sp_graph *with_biases(int zeros)
{
    static const char text[] =
        "graph \"g\"\ninput x: f32[batch,64]\nconst u: f32[64,64] @\"u|4x1:0.5\"\nconst v: f32[64,64] "
        "@\"v|4x1:0.5\"\n"
        "const w: f32[64,64] @\"w|4x1:0.5\"\nconst a: f32[64] @\"a\"\nconst b: f32[64] @\"b\"\nconst c: "
        "f32[64] @\"c\"\n"
        "node p: ? = MatMul(x, u) \"p\"\nnode q: ? = Add(p, a) \"q\"\nnode r: ? = MatMul(x, v) \"r\"\n"
        "node s: ? = Add(r, b) \"s\"\nnode t: ? = MatMul(x, w) \"t\"\nnode y: ? = Add(t, c) \"y\"\n"
        "output q\noutput s\noutput y\n";
    sp_graph *g = typed(graph(text));
    for (int i = 0; i < zeros; i++)
        memset(sp_graph_find(g, (const char *[]){"a", "b", "c"}[i])->constant->data, 0, 64 * sizeof(float));
    return g;
}

/* Biases of zeros go, and nobody is timed for it; but not where products are then merged no more. */
static void biases_go_without_a_contest(void **state)
{
    (void)state;
    for (int zeros = 1; zeros <= 3; zeros++) {
        sp_graph *smaller = with_biases(zeros), *given = with_biases(zeros);
        const sparta_compile_options plain = {.size = sizeof plain};
        const sp_obeyed none = {0};
        sp_propagate_report went;
        ok(sp_compile_propagate(smaller, &plain, &none, &went));
        assert_int_equal(went.parameters_before - went.parameters_after, 64 * zeros);
        ok(sp_compile_passes(smaller));
        ok(sp_compile_passes(given));
        assert_true(sp_compile_keeps_products(&went));
        assert_int_equal(sp_compile_no_slower(&went, smaller, given), zeros == 3);
        sp_graph_free(smaller), sp_graph_free(given);
    }
    const char *onnx = in_root("biases.onnx");
    sp_graph *g = with_biases(3);
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    outcome best = compile_model(onnx, false);
    assert_int_equal(best.package->parameters_given - best.package->parameters_left, 3 * 64);
    sparta_package_close(best.package);
    sp_kept kept[] = {{.rank = 2, .before = {8, 128}, .after = {8, 1}},
                      {.rank = 2, .before = {8, 8}, .after = {8, 7}}};
    sp_propagate_report went = {.n = 1, .tensor = kept};
    g = with_biases(0);
    assert_true(sp_compile_no_slower(&went, g, g));
    went.n = 2; /* what no longer lines up has to compete */
    assert_false(sp_compile_keeps_products(&went));
    assert_false(sp_compile_no_slower(&went, g, g));
    sp_graph_free(g);
}

/* ------------------------------------------------------------------ references are not free */

/* The same products, fused and not: what runs on references costs more than what a kernel runs. */
static void references_cost(void **state)
{
    (void)state;
    double us[2];
    for (int wanted = 0; wanted < 2;
         wanted++) { /* probabilities that are an output keep attention in pieces */
        char text[1024];
        snprintf(
            text, sizeof text,
            "graph \"g\"\ninput x: f32[batch,sequence,64]\nconst w: f32[64,64] @\"w\"\nconst to: i64[4] = "
            "[0,0,4,16]\nconst from: i64[3] = [0,0,64]\nnode a: ? = MatMul(x, w) \"a\"\n"
            "node h: ? = Reshape(a, to) \"h\"\nnode q: ? = Transpose(h) {perm=[0,2,1,3]} \"q\"\n"
            "node k: ? = Transpose(h) {perm=[0,2,3,1]} \"k\"\nnode s: ? = MatMul(q, k) \"s\"\n"
            "node p: ? = Softmax(s) {axis=-1} \"p\"\nnode o: ? = MatMul(p, q) \"o\"\n"
            "node t: ? = Transpose(o) {perm=[0,2,1,3]} \"t\"\nnode y: ? = Reshape(t, from) \"y\"\noutput "
            "y\n%s",
            wanted ? "output p\n" : "");
        sp_graph *g = typed(graph(text));
        ok(sp_compile_passes(g));
        ok(sp_compile_sum(cx, g, database, NULL, &us[wanted]));
        sp_graph_free(g);
    }
    print_message("fused: %.1f us, on references: %.1f us\n", us[0], us[1]);
    assert_true(us[0] > 0 && us[1] > 4 * us[0]);
}

/* ------------------------------------------------------------------ what was given */

static int64_t parameters(const sp_graph *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->constant && !g->value[i]->producer && g->value[i]->constant->rank == 2 &&
            g->value[i]->dtype == SPARTA_F32)
            n += sparta_tensor_elements(g->value[i]->constant);
    return n;
}

/* Compiled, written, opened: the given graph has the shapes it had, its integers, numbers where weights went; and it runs. */
static void a_package_keeps_what_was_given(void **state)
{
    (void)state;
    const char *onnx = in_root("kept.onnx"), *file = in_root("kept.sparta");
    sp_graph *g = zoo("bert-mini", NULL, BERT), *back, *again;
    intermediate(g), odd_queries(g);
    const int64_t all = parameters(g);
    ok(sp_onnx_write(cx, g, onnx));
    outcome best = compile_model(onnx, false);
    sparta_package *opened;
    ok(sparta_package_save(cx, best.package, file));
    ok(sparta_package_open(cx, file, &opened));
    assert_string_equal(opened->given, best.package->given);
    ok(sp_compile_given(cx, opened, 1, &back));
    ok(sp_compile_given(cx, opened, 1, &again));
    assert_int_equal(parameters(back), all);
    assert_true(parameters(best.package->plan) < all);
    const sparta_tensor *ids = sp_graph_find(back, "embeddings.position_ids")->constant;
    for (int64_t i = 0; i < 130; i++) assert_int_equal(((int64_t *)ids->data)[i], i);
    const char *name = "encoder.layer.1.intermediate.dense.weight";
    const sparta_tensor *w = sp_graph_find(back, name)->constant, *w2 = sp_graph_find(again, name)->constant;
    assert_int_equal(w->dim[1], 128);
    for (int64_t i = 0; i < 96 * 128; i++) {
        assert_true(isfinite(((float *)w->data)[i]));
        assert_true(((float *)w->data)[i] == ((float *)w2->data)[i]); /* the seed decides */
    }
    sp_compile_request dense = portable();
    dense.options.dense_only = 1;
    dense.no_verify = true;
    sparta_package *baseline = compile_in(cx, back, dense);
    attention_is_whole(baseline);
    sparta_session *s = session(baseline, 2);
    inputs in = make_inputs(baseline->plan, 2, 70, 1);
    results r = run(s, baseline, &in);
    free_results(&r), free_inputs(&in);
    sparta_session_free(s);
    sparta_package_close(baseline), sparta_package_close(opened), sparta_package_close(best.package);
    sp_graph_free(again), sp_graph_free(g);
}

/* Where nothing went, the plan has everything: its own weights are the baseline's. */
static void a_whole_model_keeps_nothing_twice(void **state)
{
    (void)state;
    const char *onnx = in_root("whole.onnx");
    sp_graph *g = zoo("bert-mini", NULL, TINY_BERT), *back, *plan;
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    outcome best = compile_model(onnx, false);
    assert_null(best.package->given);
    ok(sp_compile_given(cx, best.package, 1, &back));
    ok(sp_compile_unplan(cx, best.package, &plan));
    sp_text text[2];
    sp_text_init(&text[0], cx), sp_text_init(&text[1], cx);
    sp_graph_print(back, &text[0]), sp_graph_print(plan, &text[1]);
    assert_string_equal(sp_text_str(&text[0]), sp_text_str(&text[1]));
    sp_text_free(&text[0]), sp_text_free(&text[1]);
    sp_graph_free(back), sp_graph_free(plan);
    sparta_package_close(best.package);
}

/* The text is read like a plan: damage is a message, and a weight that no memory holds is not made. */
static void hostile_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sparta_status status;
    } texts[] = {{"graph", SPARTA_E_FORMAT},
                 {"graph \"g\"\nnode y: ? = Relu(x)\noutput y\n", SPARTA_E_FORMAT},
                 {"graph \"g\"\nconst w: f32[4000000,4000000] @\"w\"\noutput w\n", SPARTA_E_MEMORY},
                 {"graph \"g\"\nconst w: f32[9000000000000000000,9] @\"w\"\noutput w\n", SPARTA_E_FORMAT}};
    sparta_package *p = compile(zoo("mlp", NULL, SMALL_MLP)), *q;
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_graph *g = NULL;
        p->given = texts[i].text;
        ok(sparta_package_save(cx, p, in_root("hostile.sparta")));
        ok(sparta_package_open(cx, in_root("hostile.sparta"), &q));
        const sparta_status s = sp_compile_given(cx, q, 0, &g);
        expect(cx, texts[i].status, s, texts[i].text, __FILE__, __LINE__);
        sparta_package_close(q);
    }
    sparta_package_close(p);
}

static void removal_needs_propagation(void **state)
{
    (void)state;
    const char *onnx = in_root("remove.onnx");
    sp_graph *g = zoo("bert-mini", NULL, BERT);
    ok(sp_onnx_write(cx, g, onnx));
    sp_graph_free(g);
    sp_compile_request r = portable();
    sparta_package *p = NULL;
    r.options.remove = (const char *const[]){"layer.0.heads=1", NULL};
    ok(sp_compile_file(cx, onnx, &r, &p));
    attention_is_whole(p);
    assert_non_null(p->given);
    sparta_package_close(p);
    r.options.no_propagate = 1;
    fails(SPARTA_E_USAGE, sp_compile_file(cx, onnx, &r, &p));
    says("options.no_propagate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pruned_bert_is_not_slower),
        cmocka_unit_test(no_model_of_the_zoo_is_slower),
        cmocka_unit_test(a_smaller_one_that_is_slower_loses),
        cmocka_unit_test(biases_go_without_a_contest),
        cmocka_unit_test(references_cost),
        cmocka_unit_test(a_package_keeps_what_was_given),
        cmocka_unit_test(a_whole_model_keeps_nothing_twice),
        cmocka_unit_test(hostile_texts),
        cmocka_unit_test(removal_needs_propagation),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
