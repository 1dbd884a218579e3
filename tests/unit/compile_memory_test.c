/* Memory that fails: every allocation of compiling, writing, opening and looking at a small model fails once, or from then on. Nothing
 * crashes, nothing is lost, the status says what it was. (Sessions: run_inputs_test.c.) (Slow: make test only.) */
#include "models.h"

#define SMALL                                                                                                \
    "graph \"g\"\ninput x: f32[batch,8]\nconst w: f32[8,12] @\"w|4x1:0.5\"\nconst b: f32[12] @\"b\"\nconst " \
    "g: f32[12] @\"g\"\nconst v: f32[12,5] @\"v\"\n"                                                         \
    "node m: ? = MatMul(x, w) \"m\"\nnode a: ? = Add(m, b) \"a\"\nnode r: ? = Relu(a) \"r\"\nnode n: ? = "   \
    "LayerNormalization(r, g) \"n\"\n"                                                                       \
    "node u: ? = MatMul(n, v) \"u\"\nnode s: ? = Softmax(u) \"s\"\noutput s\n"

typedef sparta_status (*job)(sparta_ctx *c);

/* Until it works: every n. Contexts are cheap; each round has its own. */
static void sweep(job work, const char *what)
{
    for (int forever = 0; forever < 2; forever++)
        for (uint64_t n = 1;; n++) {
            sparta_ctx *c = context(cache, NULL);
            sp_ctx_fail_alloc(c, n, forever);
            const sparta_status s = work(c);
            const bool reached = sp_ctx_alloc_count(c) >= n;
            if (s != SPARTA_OK && s != SPARTA_E_MEMORY)
                fail_msg("%s, allocation %lu: %s: %s", what, (unsigned long)n, sparta_status_name(s),
                         sparta_message(c));
            if (sp_ctx_memory(c))
                fail_msg("%s, allocation %lu: %zu bytes are lost", what, (unsigned long)n, sp_ctx_memory(c));
            if (reached && forever && s == SPARTA_OK)
                fail_msg("%s, allocation %lu: nobody noticed", what, (unsigned long)n);
            sparta_ctx_free(c);
            if (!reached) {
                assert_int_equal(s, SPARTA_OK);
                assert_true(n > 10);
                break;
            }
        }
}

static sparta_status compile_small_with(sparta_ctx *c, int no_measure)
{
    sp_compile_request request = {
        .options = {.size = sizeof request.options, .no_measure = no_measure, .db = database}};
    sp_graph *g = NULL;
    sparta_package *p = NULL;
    maker m = {sp_arena_create(c)};
    if (!m.arena) return sp_ctx_status(c);
    sparta_status s = sp_graph_parse(c, SMALL, make_weight, &m, &g);
    if (s == SPARTA_OK) s = sp_compile_graph(c, g, &request, &p);
    if (s != SPARTA_OK) sp_graph_free(g);
    sparta_package_close(p);
    sp_arena_free(m.arena);
    return s;
}

static sparta_status compile_small(sparta_ctx *c)
{
    return compile_small_with(c, 1);
}
static sparta_status compile_remembered(sparta_ctx *c)
{
    return compile_small_with(c, 0);
}

static void compiling(void **state)
{
    (void)state;
    sweep(compile_small, "compile");
}

/* Candidates of the database: all times are known. */
static void choosing(void **state)
{
    (void)state;
    ok(compile_remembered(cx));
    sweep(compile_remembered, "choose");
}

/* Candidates that are built, checked and timed: slow, so only now and then. */
static sparta_status compile_measured(sparta_ctx *c)
{
    sp_compile_request request = {.options = {.size = sizeof request.options, .db = ":memory:"}};
    sp_graph *g = NULL;
    sparta_package *p = NULL;
    maker m = {sp_arena_create(c)};
    if (!m.arena) return sp_ctx_status(c);
    sparta_status s = sp_graph_parse(c, SMALL, make_weight, &m, &g);
    if (s == SPARTA_OK) s = sp_compile_graph(c, g, &request, &p);
    if (s != SPARTA_OK) sp_graph_free(g);
    sparta_package_close(p);
    sp_arena_free(m.arena);
    return s;
}

static void measuring(void **state)
{
    (void)state;
    sparta_ctx *c = context(cache, NULL);
    assert_int_equal(compile_measured(c), SPARTA_OK);
    const uint64_t all = sp_ctx_alloc_count(c);
    sparta_ctx_free(c);
    for (uint64_t n = 1; n <= all; n += 7) {
        c = context(cache, NULL);
        sp_ctx_fail_alloc(c, n, true);
        const sparta_status s = compile_measured(c);
        /* How much is measured depends on the times: a compile may end before its nth allocation. */
        const bool reached = sp_ctx_alloc_count(c) >= n;
        if (s != (reached ? SPARTA_E_MEMORY : SPARTA_OK))
            fail_msg("allocation %lu: %s: %s", (unsigned long)n, sparta_status_name(s), sparta_message(c));
        assert_int_equal(sp_ctx_memory(c), 0);
        sparta_ctx_free(c);
    }
}

static sparta_status from_file(sparta_ctx *c)
{
    sparta_compile_options o = {.size = sizeof o, .no_measure = 1, .tokens = "128"};
    return sparta_compile(c, in_root("s.onnx"), in_root("s.sparta"), &o);
}

/* Import, compile, verify, write. */
static void files(void **state)
{
    (void)state;
    sp_graph *g = typed(graph(SMALL));
    ok(sp_onnx_write(cx, g, in_root("s.onnx")));
    sp_graph_free(g);
    sweep(from_file, "compile a file");
}

/* A model of which something goes: two candidates, the text of the given one, its graph again. */
static sparta_status both_candidates(sparta_ctx *c)
{
    sp_compile_request r = quick();
    sparta_package *p = NULL;
    sp_graph *g = NULL;
    r.options.tokens =
        "128"; /* one plan: others are compiled as it is, and cost a sweep several times as much */
    r.options.target = "portable";
    SP_TRY(sp_compile_file(c, in_root("g.onnx"), &r, &p));
    sparta_status s = sp_compile_given(c, p, 1, &g);
    sp_graph_free(g);
    sparta_package_close(p);
    return s;
}

static void given(void **state)
{
    (void)state;
    sp_graph *g = zoo("mlp", "rows:0.5", "inputs=9 hidden1=16 hidden2=8 classes=4");
    ok(sp_onnx_write(cx, g, in_root("g.onnx")));
    sp_graph_free(g);
    sweep(both_candidates, "compile a model and a smaller one");
}

static sparta_status open_it(sparta_ctx *c)
{
    sparta_package *p = NULL;
    sp_graph *g = NULL;
    sp_layer *layer;
    int n;
    SP_TRY(sparta_package_open(c, in_root("o.sparta"), &p));
    sp_arena *arena = sp_arena_create(c);
    sparta_status s =
        arena ? sp_compile_layers(c, arena, p->plan, database, NULL, &layer, &n) : sp_ctx_status(c);
    if (s == SPARTA_OK) s = sparta_package_check(c, p);
    if (s == SPARTA_OK) s = sp_compile_unplan(c, p, &g);
    sp_arena_free(arena);
    sp_graph_free(g);
    sparta_package_close(p);
    return s;
}

static void opening(void **state)
{
    (void)state;
    sparta_package *p = compile(zoo("bert-mini", "4x1:0.5", TINY_BERT));
    ok(sparta_package_save(cx, p, in_root("o.sparta")));
    sparta_package_close(p);
    sweep(open_it, "open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiling), cmocka_unit_test(choosing), cmocka_unit_test(measuring),
        cmocka_unit_test(files),     cmocka_unit_test(given),    cmocka_unit_test(opening),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
