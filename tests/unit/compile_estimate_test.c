/* Estimates by counting: what a reference costs, and which share of a model has no kernel, why. */
#include "bed.h"
#include "compile/compile.h"
#include "run/run.h"

static double pool[1 << 10]; /* contents of every constant */

static int fill_and_set_up(void **state)
{
    for (size_t i = 0; i < SP_COUNT(pool); i++) pool[i] = 1;
    return set_up(state);
}

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg, (void)name;
    out->data = pool;
    return SPARTA_OK;
}

static sp_graph *parse(const char *text)
{
    sp_graph *g;
    ok(sp_graph_parse(cx, text, fetch, NULL, &g));
    ok(sp_compile_passes(g));
    return g;
}

static double us_of(const char *text, int64_t batch)
{
    sp_graph *g = parse(text);
    const char *name = "batch";
    double us = 0;
    for (int i = 0; i < g->n_nodes; i++)
        us += sp_compile_estimate_node(cx, g->node[i], &(sp_bindings){1, &name, &batch});
    sp_graph_free(g);
    return us;
}

#define CONV                                                                                                 \
    "graph \"c\"\ninput x: f32[batch,3,height,width]\nconst w: f32[8,3,3,3] @\"w\"\n"                        \
    "node y: ? = Conv(x, w) \"/conv\"\noutput y\n"
#define LINEAR(type)                                                                                         \
    "graph \"l\"\ninput x: " type "[batch,32]\nconst w: " type "[32,16] @\"w\"\n"                            \
    "node y: ? = MatMul(x, w) \"/fc\"\noutput y\n"

static void counts(void **state)
{
    (void)state;
    const double one = us_of(LINEAR("f32"), 64), two = us_of(LINEAR("f32"), 128);
    assert_true(one > 64 * 32 * 16 * .3e-3 && one < 64 * 32 * 16 * 3e-3); /* a nanosecond or so each */
    assert_float_equal(two / one, 2, 1e-6);
    assert_true(us_of(LINEAR("f64"), 64) >= one);
    assert_true(us_of("graph \"r\"\ninput x: f32[batch,32]\nconst s: i64[2] = [-1,16]\n"
                      "node y: ? = Reshape(x, s) \"r\"\noutput y\n",
                      64) < one / 4);
}

static sp_coverage coverage_of(const char *text)
{
    sp_graph *g = parse(text);
    sp_coverage c;
    ok(sp_compile_coverage(cx, g, &c));
    sp_graph_free(g);
    return c;
}

static void coverage(void **state)
{
    (void)state;
    sp_coverage c = coverage_of(LINEAR("f32"));
    assert_true(c.without_kernel == 0 && c.worst < 0);
    sp_compile_note_coverage(cx, &c);
    assert_string_equal(sparta_notes(cx), "");
    c = coverage_of(LINEAR("f64"));
    assert_true(c.without_kernel > .99);
    assert_non_null(strstr(c.why, "f32"));
    c = coverage_of(CONV);
    assert_true(c.without_kernel > .99 && c.worst == SP_OP_Conv && c.worst_share > .99);
    sp_compile_note_coverage(cx, &c);
    assert_non_null(strstr(sparta_notes(cx), "100 % of the time runs without a kernel"));
    assert_non_null(strstr(sparta_notes(cx), "convolutions"));
    sp_ctx_forget_notes(cx);
}

/* Sizes that nobody gave: an item of many tokens, or many items, within bounds, large enough to run. */
static void usual_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *input, *bound;
        int64_t batch, other;
    } cases[] = {{"f32[batch,32]", "", 128, 0},
                 {"f32[batch,sequence,32]", "", 1, 128},
                 {"f32[batch,sequence,32]", "bound sequence[9]\n", 1, 9},
                 {"f32[4,32]", "", 0, 0}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[200];
        sp_bindings b;
        sp_arena *arena = sp_arena_create(cx);
        snprintf(text, sizeof text, "graph \"s\"\ninput x: %s\nnode y: ? = Relu(x) \"r\"\n%soutput y\n",
                 cases[i].input, cases[i].bound);
        sp_graph *g = parse(text);
        ok(sp_compile_usual_sizes(cx, arena, g, &b));
        assert_int_equal(b.n, (cases[i].batch > 0) + (cases[i].other > 0));
        if (b.n) assert_int_equal(b.value[0], cases[i].batch);
        if (b.n > 1) assert_int_equal(b.value[1], cases[i].other);
        sp_graph_free(g);
        sp_arena_free(arena);
    }
}

/* Positions that a model counts itself and looks up: no more than the table has rows. */
static void position_tables(void **state)
{
    (void)state;
    static const struct {
        const char *start, *step, *added;
        int64_t bound;
    } cases[] = {{"0", "1", "0", 24},         {"0", "1", "2", 22},
                 {"3", "1", "2", 19},         {"0", "1", "30", 0},
                 {"0", "2", "0", INT64_MAX},  {"-1", "1", "0", INT64_MAX},
                 {"0", "1", "-2", INT64_MAX}, {"1", "1", "9223372036854775807", INT64_MAX}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[800];
        snprintf(
            text, sizeof text,
            "graph \"p\"\ninput x: f32[batch,sequence]\nconst start: i64[] = [%s]\nconst step: i64[] = [%s]\n"
            "const added: i64[1] = [%s]\nconst one: i64[] = [1]\nconst zero: i64[1] = [0]\n"
            "const table: f32[24,8] @\"table\"\nnode s: ? = Shape(x) \"s\"\nnode n: ? = Gather(s, one) "
            "\"n\"\n"
            "node e: ? = Mul(n, step) \"m\"\nnode end: ? = Add(e, start) \"end\"\n"
            "node r: ? = Range(start, end, step) \"r\"\nnode u: ? = Unsqueeze(r, zero) \"u\"\n"
            "node ids: ? = Add(added, u) \"ids\"\nnode y: ? = Gather(table, ids) \"y\"\noutput y\n",
            cases[i].start, cases[i].step, cases[i].added);
        sp_graph *g = parse(text);
        assert_true(sp_symbol_bound(g, "sequence").most == cases[i].bound);
        assert_true(sp_symbol_bound(g, "batch").most == INT64_MAX);
        sp_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts, fill_and_set_up, tear_down),
        cmocka_unit_test_setup_teardown(coverage, fill_and_set_up, tear_down),
        cmocka_unit_test_setup_teardown(usual_sizes, fill_and_set_up, tear_down),
        cmocka_unit_test_setup_teardown(position_tables, fill_and_set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
