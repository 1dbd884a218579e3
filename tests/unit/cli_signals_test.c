/* Signals: the first cancels the context; one that comes when the context is gone touches nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../cli/cli.h"
#include <signal.h>
#include <string.h>

static const int stops[] = {SIGINT, SIGTERM};

static void the_first_cancels(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(stops); i++) {
        sparta_ctx *cx = sparta_ctx_create(NULL);
        cli_watch_signals(cx);
        assert_int_equal(sp_check_cancel(cx), SPARTA_OK);
        raise(stops[i]);
        assert_int_equal(sp_check_cancel(cx), SPARTA_E_CANCELLED);
        cli_leave_signals();
        sparta_ctx_free(cx);
    }
}

/* The context's memory is given to somebody else, who would see the write. */
static void a_late_one_touches_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(stops); i++) {
        sparta_ctx *cx = sparta_ctx_create(NULL), *next;
        cli_watch_signals(cx);
        cli_leave_signals();
        sparta_ctx_free(cx);
        next = sparta_ctx_create(NULL);
        raise(stops[i]);
        assert_int_equal(sp_check_cancel(next), SPARTA_OK);
        sparta_ctx_free(next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_cancels),
        cmocka_unit_test(a_late_one_touches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
