/* Medians and how sure we are of them. */
#include "measure/measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A machine is noisy when half of the times of one thing lie further apart than this share of their median, or when the interval of a
 * ratio is wider than this share of it. */
static const double scattered = 0.2, wide = 0.1;

double sparta_quantile(const double *sorted, int64_t n, double q)
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
    ranked *r = sparta_alloc_array(cx, (size_t)n, sizeof *r);
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

static void resample(const ranked *a, const ranked *b, int *times, int64_t n, sparta_rng *rng, double *ratio)
{
    for (int64_t i = 0; i < n; i++) times[i] = 0;
    for (int64_t i = 0; i < n; i++) times[sparta_rng_next(rng) % (uint64_t)n]++;
    double median = drawn_median(a, times, n);
    *ratio = median > 0 ? drawn_median(b, times, n) / median : 0;
}

sparta_status sparta_ratio_interval(sparta_ctx *cx, const double *a, const double *b, int64_t n,
                                    uint64_t seed, double *lo, double *hi)
{
    enum { RESAMPLES = 1000 };
    if (n < 1) return sparta_fail(cx, SPARTA_E_RANGE, "interval: no pairs; measure longer");
    ranked *ra = rank(cx, a, n), *rb = rank(cx, b, n);
    int *times = sparta_alloc_array(cx, (size_t)n, sizeof *times);
    double *ratio = sparta_alloc_array(cx, RESAMPLES, sizeof *ratio);
    sparta_status status = ra && rb && times && ratio ? SPARTA_OK : sparta_ctx_status(cx);
    sparta_rng rng = sparta_rng_seed(seed);
    int done = 0;
    for (; done < RESAMPLES && !status; done++) {
        resample(ra, rb, times, n, &rng, &ratio[done]);
        if (done % 64 == 63) status = sparta_check_cancel(cx);
    }
    if (!status) {
        qsort(ratio, RESAMPLES, sizeof *ratio, ascending_double);
        *lo = sparta_quantile(ratio, RESAMPLES, 0.025);
        *hi = sparta_quantile(ratio, RESAMPLES, 0.975);
    }
    sparta_free(cx, ra);
    sparta_free(cx, rb);
    sparta_free(cx, times);
    sparta_free(cx, ratio);
    return status;
}

sparta_status sparta_summarise(sparta_ctx *cx, const double *x, int64_t n, sparta_summary *out)
{
    if (n < 1) return sparta_fail(cx, SPARTA_E_RANGE, "summary: no times; measure longer");
    double *sorted = sparta_alloc_array(cx, (size_t)n, sizeof *sorted);
    SPARTA_NEED(cx, sorted);
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending_double);
    *out = (sparta_summary){.best = sorted[0],
                            .median = sparta_quantile(sorted, n, 0.5),
                            .p90 = sparta_quantile(sorted, n, 0.9),
                            .p99 = sparta_quantile(sorted, n, 0.99)};
    const double spread = sparta_quantile(sorted, n, 0.75) - sparta_quantile(sorted, n, 0.25);
    out->noisy = spread > scattered * out->median;
    sparta_free(cx, sorted);
    return SPARTA_OK;
}

sparta_status sparta_compare(sparta_ctx *cx, const double *a, const double *b, int64_t n, uint64_t seed,
                             sparta_comparison *out)
{
    sparta_comparison c;
    SPARTA_TRY(sparta_summarise(cx, a, n, &c.a));
    SPARTA_TRY(sparta_summarise(cx, b, n, &c.b));
    SPARTA_TRY(sparta_ratio_interval(cx, a, b, n, seed, &c.lo, &c.hi));
    c.ratio = c.a.median > 0 ? c.b.median / c.a.median : 0;
    c.noisy = c.a.noisy || c.b.noisy || c.hi - c.lo > wide * c.ratio;
    *out = c;
    return SPARTA_OK;
}
