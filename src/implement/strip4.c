/* strip4: a Linear whose weight is kept in strips of 4 output rows, blocks of 4x1 that are present only. It takes every mask: blocks whose
 * rows divide by 4 exactly, any other one with zeros filled in, as long as that stores less than the dense weight or a schedule asks for it. */
#include "implement/linear.h"

static bool match(const sp_task *t)
{
    return sp_linear_match(t) && !t->strict &&
           (t->asked || (!t->pattern.dense && t->strip_fill * t->pattern.density < 1));
}

/* Blocks cost a load of their coordinate; strips a prologue and an epilogue worth about 12 blocks. */
static double cost(const sp_task *t)
{
    return (double)(t->n * t->k) * t->pattern.density * t->strip_fill * 1.04 + (double)t->n * 12;
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_linear_parameters(t, SP_FORM_STRIPS, out);
}
static void format(const sp_task *t, sp_text *out)
{
    sp_text_printf(out, "(n,k)->(n/4:dense, k:compressed, n%%4:dense), crd=%s", t->k < 65536 ? "u16" : "u32");
}

const sp_implement sp_implement_strip4 = {.name = "strip4",
                                          .sparse = true,
                                          .kernel = "linear",
                                          .match = match,
                                          .cost = cost,
                                          .parameters = parameters,
                                          .format = format};
