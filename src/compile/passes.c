/* passes.c: runs the rows of passes.def. */
#include "compile/passes.h"
#include "ops/ops.h"

typedef struct row {
    const char *name;
    sparta_status (*run)(sp_graph *g);
} row;

static const row rows[] = {
#define SP_PASS(name, what) {#name, sp_pass_##name},
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

sparta_status sp_compile_passes(sp_graph *g)
{
    SP_TRY(settle(g));
    for (size_t i = 0; i < SP_COUNT(rows); i++)
        if (run_one(g, &rows[i]) != SPARTA_OK) return sp_fail_in(g->cx, "pass %s", rows[i].name);
    return SPARTA_OK;
}
