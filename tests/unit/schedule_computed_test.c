/* Which values that a model computes a schedule's rules name: by value, by node, by module; nothing matched; conflicts; no memory. */
#include "bed.h"
#include "schedule/schedule.h"

static sp_graph *g;
static float numbers[64];

static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    (void)arg, (void)name;
    out->data = numbers;
    return SPARTA_OK;
}

#define GRAPH                                                                                                \
    "graph \"g\"\ninput x: f32[batch,8]\nconst w: f32[8,4] @\"up.weight\"\nconst v: f32[4,8] "               \
    "@\"down.weight\"\n"                                                                                     \
    "const b: f32[4] = [1,2,3,4]\nnode u: ? = MatMul(x, w) \"/up/MatMul\"\nnode a: ? = Add(u, b) "           \
    "\"/up/Add\"\n"                                                                                          \
    "node r: ? = Relu(a) \"/act/Relu\"\nnode d: ? = MatMul(r, v) \"/down/MatMul\"\n"                         \
    "node e: ? = Add(d, x) \"/Add\"\nnode odd.weight: ? = Neg(r) \"/neg\"\noutput e\noutput odd.weight\n"

static int enter(void **state)
{
    if (set_up(state)) return -1;
    if (sp_graph_parse(cx, GRAPH, fetch, NULL, &g) != SPARTA_OK) {
        print_error("%s\n", sparta_message(cx));
        return -1;
    }
    static const char *const modules[] = {"up", "up", "act", "down", NULL, NULL};
    for (int i = 0; i < g->n_nodes; i++) g->node[i]->module = modules[i];
    return 0;
}

static int leave(void **state)
{
    sp_graph_free(g);
    return tear_down(state);
}

static void names(const char *text, const char *expected)
{
    sp_arena *arena = sp_arena_create(cx);
    sp_schedule_edge *e;
    sparta_schedule *s = NULL;
    sp_text t;
    int n;
    ok(sparta_schedule_parse(cx, text, "s", NULL, &s));
    ok(sp_schedule_edges(s, g, arena, &e, &n));
    sp_text_init(&t, cx);
    for (int i = 0; i < n; i++) {
        sp_text_printf(&t, "%s%s%s:", e[i].value->name, e[i].reader ? " in " : "",
                       e[i].reader ? e[i].reader->name : "");
        for (int k = 0; k < SP_CLAUSES; k++)
            if (e[i].rule[k]) sp_text_printf(&t, " %s", e[i].rule[k]->clause[k].text);
        sp_text_printf(&t, "\n");
    }
    assert_string_equal(sp_text_str(&t), expected);
    sp_text_free(&t);
    sparta_schedule_free(s);
    sp_arena_free(arena);
}

static void refused(const char *text, const char *message)
{
    sp_arena *arena = sp_arena_create(cx);
    sp_schedule_edge *e;
    sparta_schedule *s = NULL;
    int n;
    ok(sparta_schedule_parse(cx, text, "s", NULL, &s));
    const sparta_status got = sp_schedule_edges(s, g, arena, &e, &n);
    if (got != SPARTA_E_USAGE || strcmp(sparta_message(cx), message) != 0)
        fail_msg("says (%d) %s\nnot %s", got, sparta_message(cx), message);
    sparta_schedule_free(s);
    sp_arena_free(arena);
}

#define TOP " { sparsify topk(2) }\n"

static void by_name(void **state)
{
    (void)state;
    names("tensor \"r\"" TOP, "r: topk(k=2)\n");
    names("tensor \"x\"" TOP, "x: topk(k=2)\n");
    names("tensor \"/act/Relu:output\"" TOP, "r: topk(k=2)\n");
    names("tensor \"/down/MatMul:input\"" TOP, "r in /down/MatMul: topk(k=2)\n");
    names("tensor \"/*/MatMul:input\"" TOP, "x in /up/MatMul: topk(k=2)\nr in /down/MatMul: topk(k=2)\n");
    /* what leaves a module, and what enters it */
    names("tensor \"up:output\"" TOP, "a: topk(k=2)\n");
    names("tensor \"up:input\"" TOP, "x in /up/MatMul: topk(k=2)\n");
    names("tensor \"down:input\"" TOP, "r in /down/MatMul: topk(k=2)\n");
    /* a name that is a weight's is the weight's alone */
    names("tensor \"*.weight\" { format csr }", "");
    names("tensor \"*MatMul\" { format csr }", "");
    names("tensor \"odd.weight\"" TOP, "odd.weight: topk(k=2)\n");
    /* the same twice, and in other words */
    names("tensor \"r\"" TOP "tensor \"act:output\" { sparsify topk(k=2) }", "r: topk(k=2)\n");
    names("", "");
}

static void mistakes(void **state)
{
    (void)state;
    refused("tensor \"/act/Rleu:output\"" TOP,
            "s:1:1: tensor \"/act/Rleu:output\": there is no node or module "
            "'/act/Rleu'; did you mean '/act/Relu'?");
    refused("tensor \"nobody:input\"" TOP,
            "s:1:1: tensor \"nobody:input\": there is no node or module 'nobody'");
    refused("tensor \"r\"" TOP "tensor \"act:output\" { sparsify topk(3) }",
            "s:2:23: sparsify topk(k=3) conflicts with sparsify topk(k=2) at s:1:14: both are said of 'r'; "
            "narrow one "
            "of the globs");
    refused("tensor \"r\"" TOP "tensor \"down:input\"" TOP,
            "s:2:1: tensor \"down:input\" names 'r', which another rule names too, one of them for a single "
            "reader; "
            "narrow one of the globs");
}

/* The matching of weights leaves such rules alone, and still says when there is nothing. */
static void weights_go_on(void **state)
{
    (void)state;
    sp_arena *arena = sp_arena_create(cx);
    sp_schedule_match *m;
    sparta_schedule *s = NULL;
    int n;
    ok(sparta_schedule_parse(
        cx, "tensor \"act:output\"" TOP "tensor \"r\"" TOP "tensor \"up.*\" { format csr }", "s", NULL, &s));
    ok(sp_schedule_matches(s, g, arena, &m, &n));
    assert_int_equal(n, 1);
    assert_string_equal(m[0].value->name, "w");
    sparta_schedule_free(s);
    ok(sparta_schedule_parse(cx, "tensor \"nothing\"" TOP, "s", NULL, &s));
    assert_int_equal(sp_schedule_matches(s, g, arena, &m, &n), SPARTA_E_USAGE);
    sparta_schedule_free(s);
    sp_arena_free(arena);
}

static void parts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t of, is;
    } cases[] = {{"1", 8, 1},      {"9", 8, 8}, {"25%", 8, 2},  {"26%", 8, 3},        {"100%", 8, 8},
                 {"0.001%", 8, 1}, {"5", 1, 1}, {"7%", 100, 7}, {"16.1%", 1000, 161}, {"16.1%", 1001, 162}};
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        assert_int_equal(sp_schedule_part(&(sp_schedule_arg){.text = cases[i].text}, cases[i].of),
                         cases[i].is);
}

static void memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        sp_ctx_fail_alloc(cx, n, true);
        sp_arena *arena = sp_arena_create(cx);
        sp_schedule_edge *e;
        sparta_schedule *s = NULL;
        int count;
        sparta_status got =
            arena ? sparta_schedule_parse(cx, "tensor \"*:output\"" TOP, "s", NULL, &s) : sp_ctx_status(cx);
        if (got == SPARTA_OK) got = sp_schedule_edges(s, g, arena, &e, &count);
        sparta_schedule_free(s);
        sp_arena_free(arena);
        sp_ctx_fail_alloc(cx, 0, false);
        if (got == SPARTA_OK) break;
        assert_int_equal(got, SPARTA_E_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_name), cmocka_unit_test(mistakes),
                                       cmocka_unit_test(weights_go_on), cmocka_unit_test(parts),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, enter, leave);
}
