/* Rows or panels: the sum over a graph decides, conversions included. Times are made up, so that nothing here depends on the machine. */
#include "models.h"
#include "compile/lower.h"

static const char chain[] =
    "graph \"g\"\ninput x: f32[4,64]\nconst w: f32[64,64] @\"w\"\n"
    "node a: ? = Tanh(x) \"a\"\nnode b: ? = sparta::Linear(a, w) \"b\"\nnode y: ? = Tanh(b) \"y\"\n"
    "output y\n";

typedef struct made_up {
    const char *node;
    const sp_implement *rows, *panels;
    double rows_us, panels_us;
} made_up;

/* Nodes get these ways, a conversion of 256 elements takes `convert`; fills the names of what was settled for, "map dense4 map". */
static double settle(const char *text, const made_up *times, int n, double convert, char *out, size_t size)
{
    sp_graph *g = typed(graph(text));
    lowering l = {.cx = cx, .g = g, .arena = sp_arena_create(cx)};
    l.n_nodes = g->n_nodes;
    l.node = sp_arena_array(l.arena, (size_t)g->n_nodes, sizeof *l.node);
    l.convert_us[SP_LAYOUT_ROWS] = l.convert_us[SP_LAYOUT_PANEL] = convert / 256 / LOWER_CONVERT;
    for (int i = 0; i < g->n_nodes; i++) {
        lower_node *ln = &l.node[i];
        ln->node = g->node[i];
        ok(sp_lower_task(cx, g, g->node[i], SP_TARGET_PORTABLE, ln));
        for (int k = 0; k < n; k++) {
            if (strcmp(times[k].node, g->node[i]->name)) continue;
            ln->way[SP_LAYOUT_ROWS] = (lower_way){.im = times[k].rows, .us = times[k].rows_us};
            ln->way[SP_LAYOUT_PANEL] = (lower_way){.im = times[k].panels, .us = times[k].panels_us};
            const bool panels = times[k].panels && (!times[k].rows || times[k].panels_us < times[k].rows_us);
            const lower_way *way = &ln->way[panels ? SP_LAYOUT_PANEL : SP_LAYOUT_ROWS];
            ln->im = way->im; /* the fastest by itself */
            ln->us = way->us;
        }
        if (!ln->im) ln->im = &sp_implement_builtin;
    }
    ok(sp_lower_settle(&l));
    *out = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const size_t used = strlen(out);
        assert_int_equal(l.node[i].layout,
                         sp_lower_is_view(g->node[i]) ? SP_LAYOUT_PANEL : sp_implement_layout(l.node[i].im));
        snprintf(out + used, size - used, "%s%s", used ? " " : "", l.node[i].im->name);
        sp_lower_forget(cx, &l.node[i]);
    }
    sp_arena_free(l.arena);
    sp_graph_free(g);
    return l.us;
}

#define SETTLE(text, times, convert, out) settle(text, times, SP_COUNT(times), convert, out, sizeof out)

/* Between two nodes in panels a kernel of few tokens, which lies in rows, has to win by more than its conversions. */
static void few_tokens_pay_for_conversions(void **state)
{
    (void)state;
    static const made_up times[] = {{"a", &sp_implement_builtin, &sp_implement_map, 100, 1},
                                    {"b", &sp_implement_few_dense, &sp_implement_dense4, 10, 12},
                                    {"y", &sp_implement_builtin, &sp_implement_map, 100, 1}};
    char said[128];
    double us = SETTLE(chain, times, 5, said);
    assert_string_equal(said, "map dense4 map");
    assert_true(fabs(us - (5 + 1 + 12 + 1 + 5)) < 1e-6);
    us = SETTLE(chain, times, .5, said);
    assert_string_equal(said, "map few_dense map");
    assert_true(fabs(us - (.5 + 1 + .5 + 10 + .5 + 1 + .5)) < 1e-6);
}

/* A kernel alone is worth its conversions, or it is not. */
static void alone(void **state)
{
    (void)state;
    static const char one[] = "graph \"g\"\ninput x: f32[4,64]\nnode y: ? = Tanh(x) \"y\"\noutput y\n";
    static const made_up times[] = {{"y", &sp_implement_builtin, &sp_implement_map, 20, 1}};
    char said[128];
    SETTLE(one, times, 3, said);
    assert_string_equal(said, "map");
    SETTLE(one, times, 12, said);
    assert_string_equal(said, "builtin");
}

/* A value is converted once for all its readers: two of them together are worth what one is not. */
static void readers_share_a_conversion(void **state)
{
    (void)state;
    static const char two[] =
        "graph \"g\"\ninput x: f32[4,64]\nconst w: f32[64,64] @\"w\"\nconst v: f32[64,64] @\"v\"\n"
        "node a: ? = sparta::Linear(x, w) \"a\"\nnode b: ? = sparta::Linear(x, v) \"b\"\n"
        "node c: ? = Tanh(a) \"c\"\nnode d: ? = Tanh(b) \"d\"\noutput c\noutput d\n";
    static const made_up times[] = {{"a", NULL, &sp_implement_dense4, 0, 10},
                                    {"b", &sp_implement_few_dense, &sp_implement_dense4, 8, 10},
                                    {"c", &sp_implement_builtin, &sp_implement_map, 100, 1},
                                    {"d", &sp_implement_builtin, &sp_implement_map, 100, 1}};
    char said[128];
    const double us = SETTLE(two, times, 5, said);
    assert_non_null(strstr(said, "dense4"));
    assert_null(strstr(said, "few_dense"));
    assert_true(fabs(us - (5 + 10 + 10 + 1 + 1 + 5 + 5)) < 1e-6);
}

/* Each node of a chain is faster in panels by itself, none leaves them alone, and all of them together are not worth the conversions. */
static void a_chain_moves_as_one(void **state)
{
    (void)state;
    static const char four[] =
        "graph \"g\"\ninput x: f32[4,64]\ninput z: f32[4,64]\nnode a: ? = Add(x, z) \"a\"\n"
        "node b: ? = Mul(a, z) \"b\"\nnode c: ? = Sub(b, x) \"c\"\nnode y: ? = Relu(c) \"y\"\n"
        "output y\n";
    static const made_up times[] = {{"a", &sp_implement_builtin, &sp_implement_map, 3, 2},
                                    {"b", &sp_implement_builtin, &sp_implement_map, 3, 2},
                                    {"c", &sp_implement_builtin, &sp_implement_map, 3, 2},
                                    {"y", &sp_implement_builtin, &sp_implement_map, 3, 2}};
    char said[128];
    double us = SETTLE(four, times, 5, said);
    assert_string_equal(said, "builtin builtin builtin builtin");
    assert_true(fabs(us - 4 * 3) < 1e-6);
    us = SETTLE(four, times, 1, said);
    assert_string_equal(said, "map map map map");
    assert_true(fabs(us - (1 + 1 + 4 * 2 + 1)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_tokens_pay_for_conversions),
        cmocka_unit_test(alone),
        cmocka_unit_test(readers_share_a_conversion),
        cmocka_unit_test(a_chain_moves_as_one),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
