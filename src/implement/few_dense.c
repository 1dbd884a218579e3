/* few_dense: a Linear with few tokens whose weight is kept in strips of 16 output rows, every block present: the dense competitor of the rows
 * few_*. */
#include "implement/linear.h"

static bool match(const sp_task *t)
{
    return sp_few_match(t);
}

static double cost(const sp_task *t)
{
    const double all = (double)(t->n * t->k);
    return sp_few_cost(t, all * 4, all / 16 * 1.5);
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_few_parameters(t, SP_FEW_DENSE, out);
}
static void format(const sp_task *t, sp_text *out)
{
    (void)t;
    sp_text_printf(out, "(n,k)->(n/16:dense, k:dense, n%%16:dense)");
}

const sp_implement sp_implement_few_dense = {.name = "few_dense",
                                             .kernel = "few",
                                             .match = match,
                                             .cost = cost,
                                             .parameters = parameters,
                                             .format = format};
