/* dense4: a Linear whose weight is kept in strips of 4 output rows, every block present: the dense competitor of strip4. */
#include "implement/linear.h"

static bool match(const sparta_task *t)
{
    return sparta_linear_match(t);
}
static double cost(const sparta_task *t)
{
    return (double)(t->n * t->k) * 1.02 + (double)t->n * 12;
}
static void parameters(const sparta_task *t, sparta_text *out)
{
    sparta_linear_parameters(t, SPARTA_FORM_DENSE, out);
}
static void format(const sparta_task *t, sparta_text *out)
{
    (void)t;
    sparta_text_printf(out, "(n,k)->(n/4:dense, k:dense, n%%4:dense)");
}

const sparta_implement sparta_implement_dense4 = {.name = "dense4",
                                                  .kernel = "linear",
                                                  .match = match,
                                                  .cost = cost,
                                                  .parameters = parameters,
                                                  .format = format};
