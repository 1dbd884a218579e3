/* What tests of operators stand on: a context that must end empty, and graphs from their text. */
#ifndef SP_TESTS_OPS_BED_H
#define SP_TESTS_OPS_BED_H

#include "bed.h"
#include "ops/ops.h"

static sp_graph *parse(const char *text)
{
    sp_graph *g = NULL;
    if (sp_graph_parse(cx, text, NULL, NULL, &g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    return g;
}

#endif
