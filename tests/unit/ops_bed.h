/* What tests of operators stand on: a context that must end empty, and graphs from their text. */
#ifndef SP_TESTS_OPS_BED_H
#define SP_TESTS_OPS_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "ops/ops.h"

static sparta_ctx *cx;

static int set_up(void **state)
{
    (void)state;
    cx = sparta_ctx_create(NULL);
    return cx ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    int left = (int)sp_ctx_memory(cx);
    sparta_ctx_free(cx);
    return left; /* a leak fails the group */
}

static sp_graph *parse(const char *text)
{
    sp_graph *g = NULL;
    if (sp_graph_parse(cx, text, NULL, NULL, &g) != SPARTA_OK) fail_msg("%s\n%s", sparta_message(cx), text);
    return g;
}

#endif
