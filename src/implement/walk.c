/* walk: a Linear whose weight is kept in whatever format a schedule asks for, run by the generic walker. It matches only where a format
 * is asked for that no other row stores, so it never competes: it is how every format works, not how it is fast. */
#include "implement/linear.h"

static bool match(const sp_task *t)
{
    return t->format && !t->strict && sp_linear_match(t);
}

/* A weight costs its note, a broadcast and a row of tokens that serves no other weight, twice what it does in a block of 4; zeros that
 * fill blocks are not walked. */
static double cost(const sp_task *t)
{
    return (double)(t->n * t->k) * t->pattern.density * 2 + (double)t->n * 12;
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_linear_epilogue(t, out);
}
static void format(const sp_task *t, sp_text *out)
{
    sp_text_printf(out, "%s", t->format);
}

const sp_implement sp_implement_walk = {.name = "walk",
                                        .sparse = true,
                                        .kernel = "walk",
                                        .match = match,
                                        .cost = cost,
                                        .parameters = parameters,
                                        .format = format};
