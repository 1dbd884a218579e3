/* few_bitmap: a Linear with few tokens whose weight is kept as one bit an element and the values present: the least that an unstructured weight
 * of middling density takes, and what is read is what takes the time. */
#include "implement/linear.h"

/* Positions of weights are 4 bytes. */
static bool match(const sparta_task *t)
{
    return sparta_few_match(t) && !t->strict && !t->pattern.dense &&
           (double)(t->n * t->k) * t->pattern.density < 2147483647.;
}

/* Every 16 inputs cost their expansion, worth about two vectors, whatever is there of them. */
static double cost(const sparta_task *t)
{
    const double all = (double)(t->n * t->k);
    return sparta_few_cost(t, all * (t->pattern.density * 4 + .125), all / 16 * (1 + 2 / (double)t->tokens));
}

static void parameters(const sparta_task *t, sparta_text *out)
{
    sparta_few_parameters(t, SPARTA_FEW_BITMAP, out);
}
static void format(const sparta_task *t, sparta_text *out)
{
    (void)t;
    sparta_text_printf(out, "(n,k)->(n:dense, k:bitmap)");
}

const sparta_implement sparta_implement_few_bitmap = {.name = "few_bitmap",
                                                      .sparse = true,
                                                      .rows = true,
                                                      .kernel = "few",
                                                      .match = match,
                                                      .cost = cost,
                                                      .parameters = parameters,
                                                      .format = format};
