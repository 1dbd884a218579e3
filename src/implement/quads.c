/* quads: a Linear whose weight has no zeros stored: in each strip of 4 output rows the inputs are sorted by the set of rows that have them,
 * and each of the 15 sets has its own loop (panel/kernel_linear.h). It takes every mask: unstructured, n:m, 2x1, and mixtures, where
 * whole blocks are the set of all 4 rows and the rest is among the others. Inputs come in ranges, tried at several lengths: short
 * ones keep the activations in the L1 cache, long ones begin fewer loops. */
#include "implement/linear.h"
#include <math.h>

static const int lengths[] = {128, 256, 512}; /* of a range */
static const sp_knob knobs[] = {{"RANGE", SP_COUNT(lengths), lengths, NULL}};
static const sp_space space = {SP_COUNT(knobs), knobs, sp_linear_range_differs};

static bool match(const sp_task *t)
{
    return sp_linear_match(t) && !t->strict && (t->asked || !t->pattern.dense);
}

/* A weight costs its multiply-add, an input of a strip its loads, about a third of one; the 15 loops of each (range, strip) as much as 24, an
 * epilogue as in strip4. */
static double cost(const sp_task *t)
{
    const double weights = (double)(t->n * t->k) * t->pattern.density, inputs = weights * t->strip_fill / 4;
    const double ranges = ceil((double)t->k / (double)sp_linear_range(t));
    return weights * 1.02 + inputs * .35 + (double)t->n * (ranges * 6 + 12);
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_linear_parameters(t, SP_FORM_QUADS, out);
}
static void format(const sp_task *t, sp_text *out)
{
    sp_text_printf(out, "quads(%lld)", (long long)sp_linear_range(t));
}

const sp_implement sp_implement_quads = {.name = "quads",
                                         .sparse = true,
                                         .kernel = "linear",
                                         .match = match,
                                         .cost = cost,
                                         .parameters = parameters,
                                         .format = format,
                                         .space = &space};
