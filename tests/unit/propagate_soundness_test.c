/* Propagation is sound on random models: seeds are drawn, propagated and run, before and after (propagate_sound.h says what is
 * checked). Every operator takes part.
 *
 *     propagate_soundness_test                                     1,000 models, 20 inputs each
 *     SPARTA_SOUNDNESS=20000 propagate_soundness_test              the long run, and a row for the table
 *     SPARTA_SOUNDNESS_SEED=123 propagate_soundness_test           that model alone: it is printed, before and after
 */
#include "propagate_sound.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { STRICT_SHARE = 5 }; /* every so many-th seed is strict and wild */

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

static sparta_ctx *context(bool strict)
{
    sparta_ctx_options options = {.size = sizeof options, .strict = strict};
    return sparta_ctx_create(&options);
}

static void show(const char *title, const sp_graph *g)
{
    sp_text t;
    sp_text_init(&t, g->cx);
    sp_graph_print(g, &t);
    printf("---- %s\n%s", title, sp_text_str(&t));
    sp_text_free(&t);
}

/* The constants that the text leaves out. */
static void show_constants(const sp_graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        const sparta_tensor *t = g->value[i]->constant;
        if (!t || sparta_tensor_elements(t) <= SP_GRAPH_WRITTEN) continue;
        printf("%s =", g->value[i]->name);
        for (int64_t k = 0; k < sparta_tensor_elements(t); k++)
            printf(" %g", sp_element_get(t->dtype, t->data, k));
        printf("\n");
    }
}

static void show_seed(sparta_ctx *cx, uint64_t seed)
{
    static draw d;
    sp_propagate_report report;
    if (draw_graph(cx, seed, sp_ctx_strict(cx), &d) != SPARTA_OK) return;
    show("the model", d.g);
    show_constants(d.g);
    if (sp_propagate(d.g, NULL, &report) == SPARTA_OK) show("propagated", d.g);
    sp_graph_free(d.g);
}

/* Every operator has a row in propagate_random_ops.h and was made. */
static void check_cover(const soundness *s)
{
    for (int i = 0; i < SP_OPS; i++) {
        const sp_builtin *row = sp_builtin_row((sp_op_id)i);
        if (getenv("SPARTA_SOUNDNESS_OPS"))
            printf("%-24s %8lld made %8lld refused\n", row->name, (long long)s->made[i],
                   (long long)s->refused[i]);
        if (s->graphs >= 1000 && !s->made[i])
            fail_msg("no random model has %s: give it a row in propagate_random_ops.h", row->name);
    }
}

static void test_random_models(void **state)
{
    (void)state;
    uint64_t count = number("SPARTA_SOUNDNESS", 1000), first = number("SPARTA_SOUNDNESS_SEED", 1), bad = 0;
    if (getenv("SPARTA_SOUNDNESS_SEED")) count = number("SPARTA_SOUNDNESS", 1);
    static soundness s;
    s.inputs = 20;
    sparta_ctx *plain = context(false), *strict = context(true);
    double from = sp_now();
    for (uint64_t seed = first; seed < first + count && bad < 10; seed++) {
        sparta_ctx *cx = seed % STRICT_SHARE ? plain : strict;
        if (count == 1) show_seed(cx, seed);
        if (check_seed(cx, seed, &s)) continue;
        printf("seed %llu%s: %s\n", (unsigned long long)seed, cx == strict ? " (strict)" : "", s.why);
        if (!bad++ && count > 1) show_seed(cx, seed);
    }
    double seconds = sp_now() - from;
    printf("| seeds | models | inputs | nodes | after | parameters | after | elements | known | not needed "
           "| bit for bit | set aside | seconds |\n");
    printf("| %llu to %llu | %lld | %d | %lld | %lld | %lld | %lld | %lld | %lld | %lld | %.2f %% "
           "| %lld of %lld | %.0f |\n",
           (unsigned long long)first, (unsigned long long)(first + count - 1), (long long)s.graphs, s.inputs,
           (long long)s.nodes, (long long)s.nodes_after, (long long)s.parameters,
           (long long)s.parameters_after, (long long)s.elements, (long long)s.known, (long long)s.spoiled,
           100.0 * (double)s.exact / (double)SP_MAX(s.answers, 1), (long long)s.aside, (long long)s.answers,
           seconds);
    printf("note: propagation of %lld random graphs: %lld elements claimed about, %d inputs each, %d graphs "
           "wrong\n",
           (long long)s.graphs, (long long)s.elements, s.inputs, (int)bad);
    assert_int_equal(sp_ctx_memory(plain), 0);
    assert_int_equal(sp_ctx_memory(strict), 0);
    sparta_ctx_free(plain);
    sparta_ctx_free(strict);
    assert_int_equal(bad, 0);
    if (count < 100) return;
    check_cover(&s);
    assert_true(s.exact * 100 >= s.answers * 99);
    assert_true(s.aside * 1000 <= s.answers);  /* differences that say nothing are rare */
    assert_true(s.beyond * 20 <= s.runs);      /* and so are numbers out of reach */
    assert_true(s.known * 50 >= s.elements);   /* there is something to know */
    assert_true(s.spoiled * 50 >= s.elements); /* and not to need */
    assert_true(s.smaller * 2 >= s.graphs);    /* and to remove */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
