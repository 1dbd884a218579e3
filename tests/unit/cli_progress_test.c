/* cli: how long the rest takes. The clock is the test's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../cli/cli.h"
#include <math.h>

static void of_a_phase(void **state)
{
    (void)state;
    cli_progress p = {.last = 0};
    assert_true(isnan(cli_progress_left(&p, 100, 0, 10)));
    assert_true(isnan(cli_progress_left(&p, 100.5, 1, 10))); /* too early to tell */
    assert_true(fabs(cli_progress_left(&p, 104, 2, 10) - 16) < 1e-9);
    assert_true(fabs(cli_progress_left(&p, 104, 2, 10) - 16) < 1e-9); /* asked twice */
    assert_true(fabs(cli_progress_left(&p, 118, 9, 10) - 2) < 1e-9);
    assert_true(isnan(cli_progress_left(&p, 120, 10, 10))); /* nothing is left */
}

/* A count that begins at 1 tells what is begun. */
static void of_what_is_begun(void **state)
{
    (void)state;
    cli_progress p = {.last = 0};
    assert_true(isnan(cli_progress_left(&p, 0, 1, 4)));
    assert_true(fabs(cli_progress_left(&p, 10, 2, 4) - 30) < 1e-9);
    assert_true(fabs(cli_progress_left(&p, 30, 4, 4) - 10) < 1e-9);
}

/* What another phase took says nothing about this one. */
static void of_phases(void **state)
{
    (void)state;
    cli_progress p = {.last = 0};
    (void)cli_progress_left(&p, 0, 0, 100);
    assert_true(fabs(cli_progress_left(&p, 50, 50, 100) - 50) < 1e-9);
    assert_true(isnan(cli_progress_left(&p, 60, 3, 100))); /* it fell */
    assert_true(fabs(cli_progress_left(&p, 62, 5, 100) - 48) < 1e-9);
    assert_true(isnan(cli_progress_left(&p, 70, 7, 8))); /* of something else */
    assert_true(isnan(cli_progress_left(&p, 80, 0, 0)));
    assert_true(isnan(cli_progress_left(&p, 90, 5, 0))); /* a caller that counts wrong */
}

/* A second graph of a compile: what was done of the first is no work of this phase. */
static void of_what_goes_on(void **state)
{
    (void)state;
    cli_progress p = {.last = 0};
    (void)cli_progress_left(&p, 0, 0, 40);
    assert_true(isnan(cli_progress_left(&p, 40, 40, 40)));
    assert_true(isnan(cli_progress_left(&p, 40, 40, 80)));
    assert_true(fabs(cli_progress_left(&p, 60, 50, 80) - 60) < 1e-9);
    assert_true(isnan(cli_progress_left(&p, 120, 81, 120))); /* its first step is told when it is done */
    assert_true(fabs(cli_progress_left(&p, 130, 86, 120) - 68) < 1e-9);
}

static void in_words(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{NAN, ""},       {0.2, "1 s"},    {39.5, "40 s"},     {61, "2 min"},
                 {600, "10 min"}, {5400, "1.5 h"}, {1e9, "277777.8 h"}};
    char text[24];
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        cli_progress_time(cases[i].seconds, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_phase), cmocka_unit_test(of_what_is_begun),
                                       cmocka_unit_test(of_phases), cmocka_unit_test(of_what_goes_on),
                                       cmocka_unit_test(in_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
