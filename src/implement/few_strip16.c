/* few_strip16: a Linear with few tokens whose weight is kept in strips of 16 output rows, blocks of 16x1 that are present only: for blocks whose
 * rows divide by 16, and for others with zeros filled in, as long as that stores less than the dense weight. */
#include "implement/linear.h"

static bool match(const sp_task *t)
{
    return sp_few_match(t) && !t->strict && !t->pattern.dense && t->k < 65536 &&
           (double)(t->n / 16 * t->k) < 2147483647. && t->strip16_fill * t->pattern.density < 1;
}

static double cost(const sp_task *t)
{
    const double slots = (double)(t->n * t->k) * t->pattern.density * t->strip16_fill;
    return sp_few_cost(t, slots * (4 + 2. / 16), slots / 16 * 1.5);
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_few_parameters(t, SP_FEW_STRIPS, out);
}
static void format(const sp_task *t, sp_text *out)
{
    (void)t;
    sp_text_printf(out, "(n,k)->(n/16:dense, k:compressed, n%%16:dense), crd=u16");
}

const sp_implement sp_implement_few_strip16 = {.name = "few_strip16",
                                               .sparse = true,
                                               .kernel = "few",
                                               .match = match,
                                               .cost = cost,
                                               .parameters = parameters,
                                               .format = format};
