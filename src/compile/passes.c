/* passes.c: runs the rows of passes.def. */
#include "compile/passes.h"
#include "ops/ops.h"
#include <string.h>

typedef struct row {
    const char *name, *what;
    sparta_status (*run)(sp_graph *g);
} row;

static const row rows[] = {
#define SP_PASS(name, what) {#name, what, sp_pass_##name},
#include "compile/passes.def"
#undef SP_PASS
};

static sparta_status settle(sp_graph *g)
{
    SP_TRY(sp_ops_infer(g));
    return sp_graph_verify(g);
}

/* What one simplification uncovers another may use: a folded constant, a shorter chain. Each round leaves
 * fewer nodes. */
static sparta_status tidy(sp_graph *g)
{
    for (int before = -1, rounds = 0; g->n_nodes != before && rounds < 8; rounds++) {
        before = g->n_nodes;
        SP_TRY(sp_pass_simplify(g));
        SP_TRY(settle(g));
    }
    return SPARTA_OK;
}

static sparta_status run_one(sp_graph *g, const row *r)
{
    SP_TRY(sp_check_cancel(g->cx));
    SP_TRY(r->run(g));
    SP_TRY(settle(g));
    return tidy(g);
}

static sparta_status run_first(sp_graph *g, size_t n)
{
    SP_TRY(settle(g));
    for (size_t i = 0; i < n; i++)
        if (run_one(g, &rows[i]) != SPARTA_OK) return sp_fail_in(g->cx, "pass %s", rows[i].name);
    return SPARTA_OK;
}

sparta_status sp_compile_passes(sp_graph *g)
{
    return run_first(g, SP_COUNT(rows));
}

/* ------------------------------------------------------------------ by name */

static sparta_status unknown(sparta_ctx *cx, const char *name)
{
    const char *names[SP_COUNT(rows)];
    sp_text all;
    sp_text_init(&all, cx);
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        names[i] = rows[i].name;
        sp_text_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = sp_nearest(name, names, (int)SP_COUNT(rows));
    sp_fail(cx, SPARTA_E_USAGE, "there is no pass '%.60s'%s%s%s; there are %s", name,
            near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", sp_text_str(&all));
    sp_text_free(&all);
    return SPARTA_E_USAGE;
}

static size_t row_of(const char *name)
{
    size_t i = 0;
    while (i < SP_COUNT(rows) && strcmp(rows[i].name, name)) i++;
    return i;
}

sparta_status sp_compile_has_pass(sparta_ctx *cx, const char *name)
{
    return row_of(name) < SP_COUNT(rows) ? SPARTA_OK : unknown(cx, name);
}

sparta_status sp_compile_passes_to(sp_graph *g, const char *last)
{
    SP_TRY(sp_compile_has_pass(g->cx, last));
    return run_first(g, row_of(last) + 1);
}

void sp_compile_list_passes(sp_text *out)
{
    for (size_t i = 0; i < SP_COUNT(rows); i++) sp_text_printf(out, "%-12s%s\n", rows[i].name, rows[i].what);
}
