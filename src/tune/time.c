/* Time a function. Windows of at least 20 us keep the clock's own cost below a percent; the best window is
 * the function without interruptions, the median is what a user sees. A window in which the thread waited for
 * another program is as long as it ran (device/quiet.h). */
#include "device/quiet.h"
#include "tune/tune.h"
#include <stdlib.h>

enum { MOST_WINDOWS = 2048 };
static const double shortest = 20e-6;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double window(void (*fn)(void *arg), void *arg, uint64_t calls, sp_quiet *quiet)
{
    const sp_watch watch = sp_watch_start();
    for (uint64_t i = 0; i < calls; i++) fn(arg);
    return sp_watch_read(&watch, quiet);
}

/* How many calls fill a window: one, unless the function is short. */
static sparta_status calibrate(sparta_ctx *cx, void (*fn)(void *arg), void *arg, double length,
                               uint64_t *calls)
{
    uint64_t n = 1;
    for (;;) {
        SP_TRY(sp_check_cancel(cx));
        double took = window(fn, arg, n, NULL);
        if (took >= length || n >= (uint64_t)1 << 30) break;
        double times = took > 0 ? length / took : 16;
        n = (uint64_t)((double)n * SP_MIN(times, 16)) + 1; /* a first call may be slow: creep up */
    }
    *calls = n;
    return SPARTA_OK;
}

static sparta_status measure(sparta_ctx *cx, void (*fn)(void *arg), void *arg, double seconds, double *took,
                             sp_quiet *quiet, sp_timing *out)
{
    double length = SP_MAX(shortest, seconds / MOST_WINDOWS);
    uint64_t calls;
    int n = 0;
    SP_TRY(sp_check_cancel(cx));
    fn(arg);
    double end = sp_now() + seconds;
    SP_TRY(calibrate(cx, fn, arg, length, &calls));
    do {
        SP_TRY(sp_check_cancel(cx));
        double t = window(fn, arg, calls, quiet);
        if (t < shortest && calls < (uint64_t)1 << 30) { /* the calibration met a slow moment */
            calls *= 2;
            continue;
        }
        took[n++] = t / (double)calls;
    } while (n < MOST_WINDOWS && (n == 0 || sp_now() < end));
    qsort(took, (size_t)n, sizeof *took, by_size);
    *out = (sp_timing){
        .best = took[0], .median = n % 2 ? took[n / 2] : (took[n / 2 - 1] + took[n / 2]) / 2, .windows = n};
    return SPARTA_OK;
}

sparta_status sp_time(sparta_ctx *cx, void (*fn)(void *arg), void *arg, double seconds, sp_quiet *quiet,
                      sp_timing *out)
{
    if (!(seconds > 0)) seconds = 0;
    if (seconds > 3600) seconds = 3600;
    double *took = sp_alloc_array(cx, MOST_WINDOWS, sizeof *took);
    SP_NEED(cx, took);
    sparta_status status = measure(cx, fn, arg, seconds, took, quiet, out);
    sp_free(cx, took);
    return status;
}
