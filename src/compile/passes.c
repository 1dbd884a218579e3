/* passes.c: runs the rows of passes.def. */
#include "compile/passes.h"
#include "ops/ops.h"

typedef struct row {
    const char *name;
    sparta_status (*run)(sparta_graph *g);
} row;

static const row rows[] = {
#define SPARTA_PASS(name, what) {#name, sparta_pass_##name},
#include "compile/passes.def"
#undef SPARTA_PASS
};

static sparta_status settle(sparta_graph *g)
{
    SPARTA_TRY(sparta_ops_infer(g));
    return sparta_graph_verify(g);
}

/* What one simplification uncovers another may use: a folded constant, a shorter chain. Each round leaves
 * fewer nodes. */
static sparta_status tidy(sparta_graph *g)
{
    for (int before = -1, rounds = 0; g->n_nodes != before && rounds < 8; rounds++) {
        before = g->n_nodes;
        SPARTA_TRY(sparta_pass_simplify(g));
        SPARTA_TRY(settle(g));
    }
    return SPARTA_OK;
}

static sparta_status run_one(sparta_graph *g, const row *r)
{
    SPARTA_TRY(sparta_check_cancel(g->cx));
    SPARTA_TRY(r->run(g));
    SPARTA_TRY(settle(g));
    return tidy(g);
}

sparta_status sparta_compile_passes(sparta_graph *g)
{
    SPARTA_TRY(settle(g));
    for (size_t i = 0; i < SPARTA_COUNT(rows); i++)
        if (run_one(g, &rows[i]) != SPARTA_OK) return sparta_fail_in(g->cx, "pass %s", rows[i].name);
    return SPARTA_OK;
}
