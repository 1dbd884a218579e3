/* Which part of a long test is today's: TEST_SEED chooses it (by default the date), TEST_ALL=1 asks for everything (make test-all). */
#ifndef SP_TESTS_TODAY_H
#define SP_TESTS_TODAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* The date as a number, 20261118, where nobody gave another. */
static inline __attribute__((unused)) uint64_t test_seed(void)
{
    const char *given = getenv("TEST_SEED");
    const time_t now = time(NULL);
    struct tm day;
    if (given && *given) return strtoull(given, NULL, 10);
    gmtime_r(&now, &day);
    return (uint64_t)((day.tm_year + 1900) * 10000 + (day.tm_mon + 1) * 100 + day.tm_mday);
}

static inline __attribute__((unused)) bool test_all(void)
{
    const char *given = getenv("TEST_ALL");
    return given && *given && *given != '0';
}

/* Whether it is the turn of case `number`, of which one in `every` runs a day. */
static inline __attribute__((unused)) bool todays(uint64_t number, int every)
{
    return test_all() || (test_seed() + number) % (uint64_t)every == 0;
}

#endif
