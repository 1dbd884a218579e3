/* Medians and how sure we are of them. */
#include "measure/measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A machine is noisy when half of the times of one thing lie further apart than this share of their median, or when the interval of a
 * ratio is wider than this share of it. */
static const double scattered = 0.2, wide = 0.1;

double sp_quantile(const double *sorted, int64_t n, double q)
{
    if (n <= 0) return 0;
    double at = q * (double)(n - 1);
    int64_t i = (int64_t)floor(at);
    if (i + 1 >= n) return sorted[n - 1];
    return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

typedef struct ranked {
    double value;
    int64_t pair;
} ranked;

static int ascending(const void *x, const void *y)
{
    double a = ((const ranked *)x)->value, b = ((const ranked *)y)->value;
    return (a > b) - (a < b);
}

static int ascending_double(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static ranked *rank(sparta_ctx *cx, const double *x, int64_t n)
{
    ranked *r = sp_alloc_array(cx, (size_t)n, sizeof *r);
    if (!r) return NULL;
    for (int64_t i = 0; i < n; i++) r[i] = (ranked){x[i], i};
    qsort(r, (size_t)n, sizeof *r, ascending);
    return r;
}

/* The median of a resample, told by how often each pair was drawn: n draws in all. */
static double drawn_median(const ranked *r, const int *times, int64_t n)
{
    int64_t seen = 0, i = 0;
    while (seen + times[r[i].pair] <= (n - 1) / 2) seen += times[r[i++].pair];
    double low = r[i].value;
    if (n % 2) return low;
    while (seen + times[r[i].pair] <= n / 2) seen += times[r[i++].pair];
    return (low + r[i].value) / 2;
}

static void resample(const ranked *a, const ranked *b, int *times, int64_t n, sp_rng *rng, double *ratio)
{
    for (int64_t i = 0; i < n; i++) times[i] = 0;
    for (int64_t i = 0; i < n; i++) times[sp_rng_next(rng) % (uint64_t)n]++;
    double median = drawn_median(a, times, n);
    *ratio = median > 0 ? drawn_median(b, times, n) / median : 0;
}

sparta_status sp_ratio_interval(sparta_ctx *cx, const double *a, const double *b, int64_t n, uint64_t seed,
                                double *lo, double *hi)
{
    enum { RESAMPLES = 1000 };
    const bool asked = sp_ctx_cancelled(cx); /* who was interrupted before wants to know what there is */
    if (n < 1) return sp_fail(cx, SPARTA_E_RANGE, "interval: no pairs; measure longer");
    ranked *ra = rank(cx, a, n), *rb = rank(cx, b, n);
    int *times = sp_alloc_array(cx, (size_t)n, sizeof *times);
    double *ratio = sp_alloc_array(cx, RESAMPLES, sizeof *ratio);
    sparta_status status = ra && rb && times && ratio ? SPARTA_OK : sp_ctx_status(cx);
    sp_rng rng = sp_rng_seed(seed);
    int done = 0;
    for (; done < RESAMPLES && !status; done++) {
        resample(ra, rb, times, n, &rng, &ratio[done]);
        if (done % 64 == 63 && !asked) status = sp_check_cancel(cx);
    }
    if (!status) {
        qsort(ratio, RESAMPLES, sizeof *ratio, ascending_double);
        *lo = sp_quantile(ratio, RESAMPLES, 0.025);
        *hi = sp_quantile(ratio, RESAMPLES, 0.975);
    }
    sp_free(cx, ra);
    sp_free(cx, rb);
    sp_free(cx, times);
    sp_free(cx, ratio);
    return status;
}

sparta_status sp_summarise(sparta_ctx *cx, const double *x, int64_t n, sp_summary *out)
{
    if (n < 1) return sp_fail(cx, SPARTA_E_RANGE, "summary: no times; measure longer");
    double *sorted = sp_alloc_array(cx, (size_t)n, sizeof *sorted);
    SP_NEED(cx, sorted);
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending_double);
    *out = (sp_summary){.best = sorted[0],
                        .median = sp_quantile(sorted, n, 0.5),
                        .p90 = sp_quantile(sorted, n, 0.9),
                        .p99 = sp_quantile(sorted, n, 0.99)};
    const double spread = sp_quantile(sorted, n, 0.75) - sp_quantile(sorted, n, 0.25);
    out->noisy = spread > scattered * out->median;
    sp_free(cx, sorted);
    return SPARTA_OK;
}

sparta_status sp_compare(sparta_ctx *cx, const double *a, const double *b, int64_t n, uint64_t seed,
                         sp_comparison *out)
{
    sp_comparison c;
    SP_TRY(sp_summarise(cx, a, n, &c.a));
    SP_TRY(sp_summarise(cx, b, n, &c.b));
    SP_TRY(sp_ratio_interval(cx, a, b, n, seed, &c.lo, &c.hi));
    c.ratio = c.a.median > 0 ? c.b.median / c.a.median : 0;
    c.noisy = c.a.noisy || c.b.noisy || c.hi - c.lo > wide * c.ratio;
    *out = c;
    return SPARTA_OK;
}
