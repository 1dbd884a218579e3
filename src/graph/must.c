/* Sizes that a node takes for equal although nothing proves it: they are noted when shapes are inferred and compared when a run has
 * sizes, so that no model is refused for a proof that is missing. */
#include "graph/graph.h"
#include <string.h>

static bool is_there(const sp_graph *g, const sp_expr *a, const sp_expr *b)
{
    for (int i = 0; i < g->n_musts; i++) {
        const sp_must *m = &g->must[i];
        if ((sp_expr_equal(m->a, a) && sp_expr_equal(m->b, b)) ||
            (sp_expr_equal(m->a, b) && sp_expr_equal(m->b, a)))
            return true;
    }
    return false;
}

sparta_status sp_graph_add_must(sp_graph *g, const sp_expr *a, const sp_expr *b, const char *node)
{
    if (is_there(g, a, b)) return SPARTA_OK;
    if (!g->must) g->must = sp_arena_array(g->arena, SP_GRAPH_MUSTS, sizeof *g->must);
    SP_NEED(g->cx, g->must);
    if (g->n_musts == SP_GRAPH_MUSTS)
        return sp_fail(g->cx, SPARTA_E_LIMIT,
                       "graph: more than %d pairs of sizes that are not known to be equal; fix the symbols "
                       "with options.dims",
                       SP_GRAPH_MUSTS);
    sp_must m = {.a = sp_expr_copy(g->arena, a)};
    SP_NEED(g->cx, m.a);
    m.b = sp_expr_copy(g->arena, b);
    SP_NEED(g->cx, m.b);
    m.node = sp_arena_string(g->arena, node);
    SP_NEED(g->cx, m.node);
    g->must[g->n_musts++] = m;
    return SPARTA_OK;
}

static sparta_status broken(sparta_ctx *cx, const sp_must *m, int64_t a, int64_t b, const sp_bindings *sizes)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_expr_print(m->a, &t);
    sp_text_printf(&t, " is %lld and ", (long long)a);
    sp_expr_print(m->b, &t);
    sp_text_printf(&t, " is %lld", (long long)b);
    for (int i = 0; i < sizes->n; i++)
        sp_text_printf(&t, "%s%s=%lld", i ? " " : ", at ", sizes->name[i], (long long)sizes->value[i]);
    sparta_status status =
        sp_fail(cx, SPARTA_E_SHAPE,
                "node '%.200s': two sizes that must be equal differ: %.600s; give inputs of "
                "other sizes",
                m->node, sp_text_str(&t));
    sp_text_free(&t);
    return status;
}

sparta_status sp_graph_check_musts(sparta_ctx *cx, const sp_graph *g, const sp_bindings *sizes)
{
    for (int i = 0; i < g->n_musts; i++) {
        int64_t a, b;
        SP_TRY(sp_expr_eval(cx, g->must[i].a, sizes, &a));
        SP_TRY(sp_expr_eval(cx, g->must[i].b, sizes, &b));
        if (a != b) return broken(cx, &g->must[i], a, b, sizes);
    }
    return SPARTA_OK;
}
