/* What tests of propagation stand on: a context that must end empty, and inferred graphs from their text. */
#ifndef SP_TESTS_PROPAGATE_BED_H
#define SP_TESTS_PROPAGATE_BED_H

#include "bed.h"
#include "propagate/propagate.h"

static sp_graph *parse(const char *text)
{
    sp_graph *g;
    ok(sp_graph_parse(cx, text, NULL, NULL, &g));
    ok(sp_ops_infer(g));
    return g;
}

#endif
