/* What the tables of small graphs share: a text, and what is left of it after the passes, compared with the references both ways. */
#ifndef TESTS_COMPILE_SMALL_H
#define TESTS_COMPILE_SMALL_H

#include "compile_graphs.h"

typedef struct small {
    const char *name, *text, *wanted;
} small;

static void check_small(const small *c)
{
    sp_graph *plain = NULL, *fused = NULL;
    ok(sp_graph_parse(cx, c->text, fetch, NULL, &plain));
    ok(sp_graph_parse(cx, c->text, fetch, NULL, &fused));
    sparta_status status = sp_ops_infer(plain);
    if (status) print_error("%s: %s\n", c->name, sparta_message(cx));
    assert_int_equal(status, SPARTA_OK);
    ok(sp_compile_passes(fused));
    has(c->name, fused, c->wanted);
    same_answer(c->name, plain, fused, (sizes){2, 3}, true);
    same_answer(c->name, plain, fused, (sizes){1, 1}, true);
    sp_graph_free(plain);
    sp_graph_free(fused);
}

static void run_table(const small *table, size_t n)
{
    for (size_t i = 0; i < n; i++) check_small(&table[i]);
}

/* The whole of a test program: `cases` are found, `misses` look alike and are not. */
#define SMALL_TESTS(what)                                                                                    \
    static void what(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        run_table(cases, SP_COUNT(cases));                                                                   \
    }                                                                                                        \
    static void look_alikes(void **state)                                                                    \
    {                                                                                                        \
        (void)state;                                                                                         \
        run_table(misses, SP_COUNT(misses));                                                                 \
    }                                                                                                        \
    int main(void)                                                                                           \
    {                                                                                                        \
        const struct CMUnitTest tests[] = {TEST(what), TEST(look_alikes)};                                   \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                    \
    }

#define GRAPH               "graph \"t\"\n"
#define X                   "input x: f32[batch,sequence,8]\n"
#define NODE(out, call)     "node " out ": ? = " call "\n"
#define SCALAR(name, value) "const " name ": f32[] = [" value "]\n"
#define OUT(name)           "output " name "\n"
#define WB                  "const w: f32[8,12] @\"weight\"\nconst b: f32[12] @\"bias\"\n"

#endif
