/* few_csr: a Linear with few tokens whose weight is kept row by row with 2 bytes of coordinate a weight: for weights of which so little is left
 * that a bit for each absent one would be more. */
#include "implement/linear.h"

static bool match(const sp_task *t)
{
    return sp_few_match(t) && !t->strict && t->k < 65536 && t->pattern.density <= .5 &&
           (double)(t->n * t->k) * t->pattern.density < 2147483647.;
}

/* A weight is a step of its own: all tokens in one vector. */
static double cost(const sp_task *t)
{
    const double weights = (double)(t->n * t->k) * t->pattern.density;
    return sp_few_cost(t, weights * 6, weights / (double)t->tokens);
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_few_parameters(t, SP_FEW_CSR, out);
}
static void format(const sp_task *t, sp_text *out)
{
    (void)t;
    sp_text_printf(out, "(n,k)->(n:dense, k:compressed), crd=u16");
}

const sp_implement sp_implement_few_csr = {.name = "few_csr",
                                           .sparse = true,
                                           .kernel = "few",
                                           .match = match,
                                           .cost = cost,
                                           .parameters = parameters,
                                           .format = format};
