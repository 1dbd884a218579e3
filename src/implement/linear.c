/* The rows of a Linear with any number of tokens, on panels: which nodes they take, what they cost, the parameters of their kernels. */
#include "implement/linear.h"
#include "panel/library.h"
#include <math.h>

static bool bias_fits(const sp_task *t)
{
    const sp_value *b = t->node->n_in > 2 ? t->node->in[2] : NULL;
    return !b || (b->constant && sparta_tensor_elements(b->constant) == t->n);
}

static bool residual_fits(const sp_task *t)
{
    const sp_value *r = t->node->n_in > 3 ? t->node->in[3] : NULL;
    return !r || (!r->constant && sp_dims_equal(&r->dims, &t->node->out[0]->dims));
}

bool sp_linear_match(const sp_task *t)
{
    const sp_node *n = t->node;
    return t->mask && sp_implement_tokens(n->in[0]) && !n->in[0]->constant &&
           sp_implement_tokens(n->out[0]) && bias_fits(t) && residual_fits(t);
}

void sp_linear_epilogue(const sp_task *t, sp_text *out)
{
    const sp_node *n = t->node;
    sp_words words;
    if (sp_words_of(&n->attrs, n->n_in > 2 && n->in[2], n->n_in > 3 && n->in[3], &words)) words.n = 0;
    sp_implement_epilogue(&words, t->stat, out);
}

static void epilogue(const sp_implement *im, const sp_task *t, sp_text *out)
{
    (void)im;
    sp_linear_epilogue(t, out);
}

static void parameters(const sp_implement *im, const sp_task *t, sp_text *out)
{
    sp_text_printf(out, "FORM=%d CRD=%d ", im->form, t->k < 65536 || im->form != SP_FORM_STRIPS ? 2 : 4);
    sp_linear_epilogue(t, out);
}

/* Rows whose weight comes in ranges of inputs: knob RANGE. One as long as the input is the last that makes a difference. */
static const int lengths[] = {128, 256, 512}, pairs_lengths[] = {128, 192, 256};
static int64_t range_of(const sp_task *t)
{
    return sp_point_get(t->point, "RANGE", lengths[0]);
}
static bool range_differs(const sp_task *t)
{
    return range_of(t) == lengths[0] || range_of(t) / 2 < t->k;
}
static double ranges_of(const sp_task *t)
{
    return ceil((double)t->k / (double)range_of(t));
}

/* ------------------------------------------------------------------ strip4 */

/* In strips of 4 output rows, blocks of 4x1 that are present only. It takes every mask: blocks whose rows divide by 4 exactly, any other
 * one with zeros filled in, as long as that stores less than the dense weight or a schedule asks for it. */
static bool match_strip4(const sp_task *t)
{
    return sp_linear_match(t) && !t->strict &&
           (t->asked || (!sp_implement_dense_weight(t) && t->strip_fill * t->pattern.density < 1));
}

/* Blocks cost a load of their coordinate; strips a prologue and an epilogue worth about 12 blocks. */
static double cost_strip4(const sp_task *t)
{
    return sp_linear_present(t) * t->strip_fill * 1.04 + (double)t->n * 12;
}

const sp_implement sp_implement_strip4 = {.name = "strip4",
                                          .sparse = true,
                                          .kernel = "linear",
                                          .form = SP_FORM_STRIPS,
                                          .match = match_strip4,
                                          .cost = cost_strip4,
                                          .parameters = parameters,
                                          .format = "(n,k)->(n/4:dense, k:compressed, n%4:dense), crd=$CRD"};

/* ------------------------------------------------------------------ quads */

/* No zeros are stored: in each strip of 4 output rows the inputs are sorted by the set of rows that have them, and each of the 15 sets has
 * its own loop (panel/kernel_linear.h). It takes every mask: unstructured, n:m, 2x1, and mixtures, where whole blocks are the set of all
 * 4 rows and the rest is among the others. Inputs come in ranges, tried at several lengths: short ones keep the activations in the L1
 * cache, long ones begin fewer loops.
 *
 * Where all blocks are whole, one loop of the 15 does what strip4 does, and only ranges can win: at 3072 inputs the longest of them does by 9 %, at
 * 768 it loses by 3 % (avx512, density 0.1), and shorter ones are slower. */
static bool match_quads(const sp_task *t)
{
    enum { FEW_RANGES = 1024, LONGEST = 512 };
    const bool whole = t->strip_fill <= 1;
    return sp_linear_match(t) && !t->strict &&
           (t->asked ||
            (!sp_implement_dense_weight(t) && (!whole || (t->k > FEW_RANGES && range_of(t) == LONGEST))));
}

/* A weight costs its multiply-add, an input of a strip its loads, about a third of one; the 15 loops of each (range, strip) as much as 24, an
 * epilogue as in strip4. */
static double cost_quads(const sp_task *t)
{
    const double weights = sp_linear_present(t), inputs = weights * t->strip_fill / 4;
    return weights * 1.02 + inputs * .35 + (double)t->n * (ranges_of(t) * 6 + 12);
}

static const sp_knob quads_knobs[] = {{"RANGE", SP_COUNT(lengths), lengths, NULL}};
static const sp_space quads_space = {SP_COUNT(quads_knobs), quads_knobs, range_differs};

const sp_implement sp_implement_quads = {.name = "quads",
                                         .sparse = true,
                                         .kernel = "linear",
                                         .form = SP_FORM_QUADS,
                                         .match = match_quads,
                                         .cost = cost_quads,
                                         .parameters = parameters,
                                         .format = "quads($RANGE)",
                                         .space = &quads_space};

/* ------------------------------------------------------------------ pairs */

/* For unstructured weights: no zero is stored, and in each range of inputs rows of one length go two by two, those first that have inputs in
 * common (panel/kernel_pairs.h). Where few are present it beats quads, whose 15 loops are then short and end in a mispredicted branch
 * each; where many are, quads share more loads, which is the faster one where there are 32 registers. Blocks of 4 rows are strip4's. */
static bool match_pairs(const sp_task *t)
{
    return sp_linear_match(t) && !t->strict &&
           (t->asked || (!sp_implement_dense_weight(t) && t->strip_fill > 1.2));
}

/* A weight costs its multiply-add and hardly more, because loads go on meanwhile; a row in a range what its sums are fetched and put back
 * for; an epilogue as in strip4. */
static double cost_pairs(const sp_task *t)
{
    return sp_linear_present(t) * (range_of(t) > lengths[0] ? 1.1 : 1.05) +
           (double)t->n * (ranges_of(t) * 2.6 + 12);
}

static const sp_knob pairs_knobs[] = {{"RANGE", SP_COUNT(pairs_lengths), pairs_lengths, NULL}};
static const sp_space pairs_space = {SP_COUNT(pairs_knobs), pairs_knobs, range_differs};

const sp_implement sp_implement_pairs = {.name = "pairs",
                                         .sparse = true,
                                         .kernel = "pairs",
                                         .match = match_pairs,
                                         .cost = cost_pairs,
                                         .parameters = epilogue,
                                         .format = "pairs($RANGE)",
                                         .space = &pairs_space};

/* ------------------------------------------------------------------ dense4, onednn */

/* The strips of strip4, every block present: its dense competitor. */
static double cost_dense4(const sp_task *t)
{
    return sp_linear_all(t) * 1.02 + (double)t->n * 12;
}

const sp_implement sp_implement_dense4 = {.name = "dense4",
                                          .kernel = "linear",
                                          .form = SP_FORM_DENSE,
                                          .match = sp_linear_match,
                                          .cost = cost_dense4,
                                          .parameters = parameters,
                                          .format = "(n,k)->(n/4:dense, k:dense, n%4:dense)"};

/* oneDNN's sgemm, where that library is found at run time (panel/library.h): the second dense competitor. A package with it runs elsewhere
 * too, with a product of ours in its place, so it is chosen only where it wins clearly (compile/contest.c). */
bool sp_implement_library(sp_target target)
{
    const sp_target widest = sp_cpu_has("avx512f") ? SP_TARGET_AVX512
                             : sp_cpu_has("avx2")  ? SP_TARGET_AVX2
                                                   : SP_TARGET_PORTABLE;
    return target == widest && sp_library_sgemm() != NULL;
}

static bool match_onednn(const sp_task *t)
{
    return t->library && sp_linear_match(t);
}

/* The epilogue passes over the rows once more, and the weight is packed anew for every panel. */
static double cost_onednn(const sp_task *t)
{
    return sp_linear_all(t) * 1.1 + (double)t->n * 24;
}

const sp_implement sp_implement_onednn = {.name = "onednn",
                                          .kernel = "library",
                                          .match = match_onednn,
                                          .cost = cost_onednn,
                                          .parameters = epilogue,
                                          .format = "(n,k)->(n:dense, k:dense)",
                                          .version = sp_library_version};

/* ------------------------------------------------------------------ walk */

/* In whatever format a schedule asks for, run by the generic walker. It matches only where a format is asked for that no other row stores,
 * so it never competes: it is how every format works, not how it is fast. */
static bool match_walk(const sp_task *t)
{
    return t->format && !t->strict && sp_linear_match(t);
}

/* A weight costs its note, a broadcast and a row of tokens that serves no other weight, twice what it does in a block of 4; zeros that
 * fill blocks are not walked. */
static double cost_walk(const sp_task *t)
{
    return sp_linear_present(t) * 2 + (double)t->n * 12;
}

const sp_implement sp_implement_walk = {.name = "walk",
                                        .sparse = true,
                                        .kernel = "walk",
                                        .match = match_walk,
                                        .cost = cost_walk,
                                        .parameters = epilogue,
                                        .format = "$ASKED"};
