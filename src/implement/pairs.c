/* pairs: a Linear whose weight is sparse and unstructured: no zero is stored, and in each range of inputs rows of one length go two by two,
 * those first that have inputs in common (panel/kernel_pairs.h). Where few are present it beats quads, whose 15 loops are then short
 * and end at a surprise each; where many are, quads share more loads. */
#include "implement/linear.h"
#include <math.h>

static const int lengths[] = {128, 256}; /* of a range of inputs */
static const sp_knob knobs[] = {{"RANGE", SP_COUNT(lengths), lengths, NULL}};
static const sp_space space = {SP_COUNT(knobs), knobs, sp_linear_range_differs};

/* Blocks of 4 rows are strip4's; above two fifths quads are faster. */
static bool match(const sp_task *t)
{
    return sp_linear_match(t) && !t->strict &&
           (t->asked || (t->pattern.density <= 0.4 && t->strip_fill > 1.5));
}

/* A weight costs its multiply-add and hardly more, because loads go on meanwhile; a row in a range what its sums are fetched and put back
 * for; an epilogue as in strip4. */
static double cost(const sp_task *t)
{
    const double ranges = ceil((double)t->k / (double)sp_linear_range(t));
    return (double)(t->n * t->k) * t->pattern.density * (sp_linear_range(t) > lengths[0] ? 1.1 : 1.05) +
           (double)t->n * (ranges * 2.6 + 12);
}

static void parameters(const sp_task *t, sp_text *out)
{
    sp_linear_epilogue(t, out);
}
static void format(const sp_task *t, sp_text *out)
{
    sp_text_printf(out, "pairs(%lld)", (long long)sp_linear_range(t));
}

const sp_implement sp_implement_pairs = {.name = "pairs",
                                         .sparse = true,
                                         .kernel = "pairs",
                                         .match = match,
                                         .cost = cost,
                                         .parameters = parameters,
                                         .format = format,
                                         .space = &space};
