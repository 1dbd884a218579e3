/* Sizes that a node takes for equal although nothing proves it: they are noted when shapes are inferred and compared when a run has
 * sizes, so that no model is refused for a proof that is missing. */
#include "graph/graph.h"
#include <string.h>

static bool is_there(const sparta_graph *g, const sparta_expr *a, const sparta_expr *b)
{
    for (int i = 0; i < g->n_musts; i++) {
        const sparta_must *m = &g->must[i];
        if ((sparta_expr_equal(m->a, a) && sparta_expr_equal(m->b, b)) ||
            (sparta_expr_equal(m->a, b) && sparta_expr_equal(m->b, a)))
            return true;
    }
    return false;
}

sparta_status sparta_graph_add_must(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                    const char *node)
{
    if (is_there(g, a, b)) return SPARTA_OK;
    if (!g->must) g->must = sparta_arena_array(g->arena, SPARTA_GRAPH_MUSTS, sizeof *g->must);
    SPARTA_NEED(g->cx, g->must);
    if (g->n_musts == SPARTA_GRAPH_MUSTS)
        return sparta_fail(
            g->cx, SPARTA_E_LIMIT,
            "graph: more than %d pairs of sizes that are not known to be equal; fix the symbols "
            "with --dim",
            SPARTA_GRAPH_MUSTS);
    sparta_must m = {.a = sparta_expr_copy(g->arena, a)};
    SPARTA_NEED(g->cx, m.a);
    m.b = sparta_expr_copy(g->arena, b);
    SPARTA_NEED(g->cx, m.b);
    m.node = sparta_arena_string(g->arena, node);
    SPARTA_NEED(g->cx, m.node);
    g->must[g->n_musts++] = m;
    return SPARTA_OK;
}

static sparta_status broken(sparta_ctx *cx, const sparta_must *m, int64_t a, int64_t b,
                            const sparta_bindings *sizes)
{
    sparta_text t;
    sparta_text_init(&t, cx);
    sparta_expr_print(m->a, &t);
    sparta_text_printf(&t, " is %lld and ", (long long)a);
    sparta_expr_print(m->b, &t);
    sparta_text_printf(&t, " is %lld", (long long)b);
    for (int i = 0; i < sizes->n; i++)
        sparta_text_printf(&t, "%s%s=%lld", i ? " " : ", at ", sizes->name[i], (long long)sizes->value[i]);
    sparta_status status =
        sparta_fail(cx, SPARTA_E_SHAPE,
                    "node '%.200s': two sizes that must be equal differ: %.600s; give inputs of "
                    "other sizes",
                    m->node, sparta_text_str(&t));
    sparta_text_free(&t);
    return status;
}

sparta_status sparta_graph_check_musts(sparta_ctx *cx, const sparta_graph *g, const sparta_bindings *sizes)
{
    for (int i = 0; i < g->n_musts; i++) {
        int64_t a, b;
        SPARTA_TRY(sparta_expr_eval(cx, g->must[i].a, sizes, &a));
        SPARTA_TRY(sparta_expr_eval(cx, g->must[i].b, sizes, &b));
        if (a != b) return broken(cx, &g->must[i], a, b, sizes);
    }
    return SPARTA_OK;
}
