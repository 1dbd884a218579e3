/* What tests of propagation stand on: a context that must end empty, and inferred graphs from their text. */
#ifndef SP_TESTS_PROPAGATE_BED_H
#define SP_TESTS_PROPAGATE_BED_H

#include "propagate/propagate.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
    return 0;
}

static void ok(sparta_status status)
{
    if (status != SPARTA_OK) fail_msg("%s", sparta_message(cx));
}

static sp_graph *parse(const char *text)
{
    sp_graph *g;
    ok(sp_graph_parse(cx, text, NULL, NULL, &g));
    ok(sp_ops_infer(g));
    return g;
}

#endif
