/* The rows of a Linear with few tokens, which stay in rows: the weight is read once, and what is read is what takes the time. */
#include "implement/linear.h"
#include <math.h>

static bool match_dense(const sp_task *t)
{
    return sp_implement_few(t) && sp_linear_match(t);
}

/* Kernels are made for 1, 2, 4, 8 or 16 tokens and take any number up to it at once. */
static void parameters(const sp_implement *im, const sp_task *t, sp_text *out)
{
    int tokens = 1;
    while (tokens < t->tokens) tokens *= 2;
    sp_text_printf(out, "FORM=%d TOKENS=%d ", im->form, tokens);
    sp_linear_epilogue(t, out);
}

/* The longer of reading these bytes and of multiplying and adding these vectors for each token. In the time of a multiply-add of
 * the other rows memory gives a quarter of a byte, and a core does a 16th of a vector. */
static double cost(const sp_task *t, double bytes, double vectors)
{
    const double tokens = (double)t->tokens;
    return fmax(bytes * 4, vectors * 16 * tokens) / tokens + (double)t->n;
}

/* Positions are 4 bytes. */
static bool counts(double weights)
{
    return weights < 2147483647.;
}

/* ------------------------------------------------------------------ few_bitmap */

/* One bit an element and the values present: the least that an unstructured weight of middling density takes. */
static bool match_bitmap(const sp_task *t)
{
    return match_dense(t) && !t->strict && (t->asked || !sp_implement_dense_weight(t)) &&
           counts(sp_linear_present(t));
}

/* Every 16 inputs cost their expansion, worth about two vectors, whatever is there of them. */
static double cost_bitmap(const sp_task *t)
{
    return cost(t, sp_linear_present(t) * 4 + sp_linear_all(t) * .125,
                sp_linear_all(t) / 16 * (1 + 2 / (double)t->tokens));
}

const sp_implement sp_implement_few_bitmap = {.name = "few_bitmap",
                                              .sparse = true,
                                              .kernel = "few",
                                              .form = SP_FEW_BITMAP,
                                              .match = match_bitmap,
                                              .cost = cost_bitmap,
                                              .parameters = parameters,
                                              .format = "(n,k)->(n:dense, k:bitmap)"};

/* ------------------------------------------------------------------ few_strip16 */

/* In strips of 16 output rows, blocks of 16x1 that are present only: for blocks whose rows divide by 16, and for others with zeros filled
 * in, as long as that stores less than the dense weight. */
static bool match_strip16(const sp_task *t)
{
    return match_dense(t) && !t->strict && t->k < 65536 && counts((double)(t->n / 16 * t->k)) &&
           (t->asked || (!sp_implement_dense_weight(t) && t->strip16_fill * t->pattern.density < 1));
}

static double cost_strip16(const sp_task *t)
{
    const double slots = sp_linear_present(t) * t->strip16_fill;
    return cost(t, slots * (4 + 2. / 16), slots / 16 * 1.5);
}

const sp_implement sp_implement_few_strip16 = {.name = "few_strip16",
                                               .sparse = true,
                                               .kernel = "few",
                                               .form = SP_FEW_STRIPS,
                                               .match = match_strip16,
                                               .cost = cost_strip16,
                                               .parameters = parameters,
                                               .format =
                                                   "(n,k)->(n/16:dense, k:compressed, n%16:dense), crd=u16"};

/* ------------------------------------------------------------------ few_csr */

/* Row by row with 2 bytes of coordinate a weight: for weights of which so little is left that a bit for each absent one would be more. */
static bool match_csr(const sp_task *t)
{
    return match_dense(t) && !t->strict && t->k < 65536 && (t->asked || t->pattern.density <= .5) &&
           counts(sp_linear_present(t));
}

/* A weight is a step of its own: all tokens in one vector. */
static double cost_csr(const sp_task *t)
{
    return cost(t, sp_linear_present(t) * 6, sp_linear_present(t) / (double)t->tokens);
}

const sp_implement sp_implement_few_csr = {.name = "few_csr",
                                           .sparse = true,
                                           .kernel = "few",
                                           .form = SP_FEW_CSR,
                                           .match = match_csr,
                                           .cost = cost_csr,
                                           .parameters = parameters,
                                           .format = "(n,k)->(n:dense, k:compressed), crd=u16"};

/* ------------------------------------------------------------------ few_dense */

/* In strips of 16 output rows, every block present: the dense competitor of the others. */
static double cost_dense(const sp_task *t)
{
    return cost(t, sp_linear_all(t) * 4, sp_linear_all(t) / 16 * 1.5);
}

const sp_implement sp_implement_few_dense = {.name = "few_dense",
                                             .kernel = "few",
                                             .form = SP_FEW_DENSE,
                                             .match = match_dense,
                                             .cost = cost_dense,
                                             .parameters = parameters,
                                             .format = "(n,k)->(n/16:dense, k:dense, n%16:dense)"};

/* ------------------------------------------------------------------ few_skip */

/* Every input in strips of 64 output rows, of which those are read that the tokens at hand have: where a Sparsify leaves few of them. Others it takes
 * only when a schedule asks for it by name, who knows of zeros that nobody promised. Few tokens share what is read; of many each has a list of its own,
 * which pays where that is short. */
static bool match_skip(const sp_task *t)
{
    const bool thin = t->present > 0 && (sp_implement_few(t) || t->present < SP_SKIP_SHARE);
    return sp_linear_match(t) && !t->strict && t->k < INT32_MAX && (t->asked || thin);
}

double sp_implement_read(const sp_task *t)
{
    const double tokens = sp_implement_few(t) ? (double)t->tokens : 1;
    return t->present > 0 ? 1 - pow(1 - t->present, tokens) : 1;
}

/* What is read, where memory is not read in a row, and the list. A token by itself takes some five times as long for a weight as the products on panels
 * do, which load it once for 64. */
static double cost_skip(const sp_task *t)
{
    const double read = sp_linear_all(t) * sp_implement_read(t);
    if (!sp_implement_few(t)) return read * 5 + (double)t->k;
    return cost(t, read * 4 * 1.2, read / 16 * 1.5) + (double)t->k;
}

static void parameters_skip(const sp_implement *im, const sp_task *t, sp_text *out)
{
    if (sp_implement_few(t)) {
        parameters(im, t, out);
        return;
    }
    sp_text_printf(out, "FORM=%d TOKENS=1 ", im->form);
    sp_linear_epilogue(t, out);
}

const sp_implement sp_implement_few_skip = {.name = "few_skip",
                                            .sparse = true,
                                            .skips = true,
                                            .kernel = "skip",
                                            .match = match_skip,
                                            .cost = cost_skip,
                                            .parameters = parameters_skip,
                                            .format = "(n,k)->(n/64:dense, k:dense, n%64:dense)"};
