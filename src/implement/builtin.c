/* builtin: the reference. Always matches; the last row. */
#include "implement/implement.h"

static bool match(const sparta_task *t)
{
    (void)t;
    return true;
}

/* Plain loops in double precision: some twenty times slower than a kernel. */
static double cost(const sparta_task *t)
{
    return (double)(t->n * t->k) * 20 + 1;
}

const sparta_implement sparta_implement_builtin = {"builtin", false, NULL, match, cost, NULL, NULL};
