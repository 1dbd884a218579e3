/* dense4: a Linear whose weight is kept in strips of 4 output rows, every block present: the dense competitor of strip4. */
#include "implement/linear.h"

static bool match(const sp_task *t)
{
    return sp_linear_match(t);
}
static double cost(const sp_task *t)
{
    return (double)(t->n * t->k) * 1.02 + (double)t->n * 12;
}
static void parameters(const sp_task *t, sp_text *out)
{
    sp_linear_parameters(t, SP_FORM_DENSE, out);
}
static void format(const sp_task *t, sp_text *out)
{
    (void)t;
    sp_text_printf(out, "(n,k)->(n/4:dense, k:dense, n%%4:dense)");
}

const sp_implement sp_implement_dense4 = {.name = "dense4",
                                          .kernel = "linear",
                                          .match = match,
                                          .cost = cost,
                                          .parameters = parameters,
                                          .format = format};
