/* What the nodes of a model say about its symbols. Ids and mask of an export may have symbols of their own, s1 and s2; the first Add of
 * what they become says that these are one, or no run is right. So s2 is replaced by s1 in the inputs, and the sizes that a run gets are
 * compared like those of any symbol that occurs twice. A symbol may also turn out to be a number, or arithmetic (total = past + length).
 * What does not say what a symbol is (n against 2*(n/2)) stays in the graph for runs to compare. */
#include "ops/ops.h"
#include <string.h>

typedef struct wanted {
    const char *name;
    bool found;
} wanted;

static void look_for(void *arg, const char *name)
{
    wanted *w = arg;
    w->found |= !strcmp(w->name, name);
}

bool sp_ops_mentions(const sp_expr *x, const char *symbol)
{
    wanted w = {symbol, false};
    sp_expr_symbols(x, look_for, &w);
    return w.found;
}

/* Which of all dims of the inputs is this symbol first; -1: none, it has been replaced. */
static int place_of(const sp_graph *g, const char *symbol)
{
    int place = 0;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++, place++) {
            const char *name;
            if (sp_expr_is_symbol(g->input[i]->dims.dim[d], &name) && !strcmp(name, symbol)) return place;
        }
    return -1;
}

typedef struct standing {
    const sp_graph *g;
    bool all;
} standing;

static void still_stands(void *arg, const char *name)
{
    standing *s = arg;
    s->all &= place_of(s->g, name) >= 0;
}

/* The symbol that goes and what takes its place: of two symbols the later one goes. */
static bool pick(const sp_graph *g, const sp_must *m, const char **symbol, const sp_expr **by)
{
    const char *a = NULL, *b = NULL;
    standing s = {g, true};
    sp_expr_symbols(m->a, still_stands, &s);
    sp_expr_symbols(m->b, still_stands, &s);
    if (!s.all) return false;
    const bool is_a = sp_expr_is_symbol(m->a, &a), is_b = sp_expr_is_symbol(m->b, &b);
    const bool a_goes = is_a && (!is_b || place_of(g, a) > place_of(g, b));
    *symbol = a_goes ? a : b;
    *by = a_goes ? m->b : m->a;
    return (is_a || is_b) && sp_expr_is_polynomial(*by) && !sp_ops_mentions(*by, *symbol);
}

static sparta_status replace(sp_graph *g, const char *symbol, const sp_expr *by)
{
    const char *other;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++) {
            const sp_expr **dim = &g->input[i]->dims.dim[d];
            if (!sp_ops_mentions(*dim, symbol)) continue;
            *dim = sp_expr_substitute(g->arena, *dim, symbol, by);
            SP_NEED(g->cx, *dim);
        }
    if (!sp_expr_is_symbol(by, &other)) return SPARTA_OK;
    const sp_bound b = sp_graph_bound(g, symbol);
    return b.least || b.most < INT64_MAX ? sp_graph_add_bound(g, other, b.least, b.most) : SPARTA_OK;
}

static void say(const sp_graph *g, const char *symbol, const sp_must *m, const sp_expr *by)
{
    sp_text t;
    sp_text_init(&t, g->cx);
    sp_expr_print(by, &t);
    sp_note(g->cx, "%s is taken to be %.200s: node '%.200s' needs them to be equal", symbol, sp_text_str(&t),
            m->node);
    sp_text_free(&t);
}

sparta_status sp_ops_solve(sp_graph *g, bool *solved)
{
    *solved = false;
    for (int i = 0; i < g->n_musts; i++) {
        const char *symbol;
        const sp_expr *by;
        if (!pick(g, &g->must[i], &symbol, &by)) continue;
        SP_TRY(replace(g, symbol, by));
        say(g, symbol, &g->must[i], by);
        *solved = true;
    }
    return SPARTA_OK;
}
