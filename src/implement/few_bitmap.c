/* few_bitmap: a Linear with few tokens whose weight is kept as one bit an element and the values present: the least that an unstructured weight
 * of middling density takes, and what is read is what takes the time. */
#include "implement/linear.h"

/* Positions of weights are 4 bytes. */
static bool match(const sp_task *t)
{
    return sp_few_match(t) && !t->strict && !t->pattern.dense &&
           (double)(t->n * t->k) * t->pattern.density < 2147483647.;
}

/* Every 16 inputs cost their expansion, worth about two vectors, whatever is there of them. */
static double cost(const sp_task *t)
{
    const double all = (double)(t->n * t->k);
    return sp_few_cost(t, all * (t->pattern.density * 4 + .125), all / 16 * (1 + 2 / (double)t->tokens));
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_few_parameters(t, SP_FEW_BITMAP, out);
}
static void format(const sp_task *t, sp_text *out)
{
    (void)t;
    sp_text_printf(out, "(n,k)->(n:dense, k:bitmap)");
}

const sp_implement sp_implement_few_bitmap = {.name = "few_bitmap",
                                              .sparse = true,
                                              .kernel = "few",
                                              .match = match,
                                              .cost = cost,
                                              .parameters = parameters,
                                              .format = format};
