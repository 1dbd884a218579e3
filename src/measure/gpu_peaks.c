/* The peaks of a GPU: by itself for doctor, and before and after a benchmark. */
#include "measure/gpu_peaks.h"
#include "cuda/cuda.h"
#include "measure/measure.h"
#include "measure/trial.h"
#include <math.h>

enum { SIDE = 8192, SIDE_F32 = 4096 }; /* of the product */
enum { COPIED = 256 << 20 };           /* bytes */

static sparta_status hold(sp_peaks *p, size_t bytes, void **out)
{
    SP_ASSERT(p->n_held < (int)SP_COUNT(p->held));
    SP_TRY(sp_gpu_alloc(p->c, bytes, out));
    p->held[p->n_held++] = *out;
    return SPARTA_OK;
}

sparta_status sp_peaks_fill(const sp_complaint *c, void *to, size_t bytes, sparta_dtype dtype,
                            const void *chunk)
{
    const size_t each = SP_PEAK_CHUNK * sparta_dtype_size(dtype);
    for (size_t at = 0; at < bytes; at += each)
        SP_TRY(sp_gpu_put(c, (char *)to + at, chunk, SP_MIN(each, bytes - at)));
    return SPARTA_OK;
}

static sparta_status hold_random(sp_peaks *p, size_t bytes, sparta_dtype dtype, const void *chunk, void **out)
{
    SP_TRY(hold(p, bytes, out));
    return sp_peaks_fill(p->c, *out, bytes, dtype, chunk);
}

sparta_status sp_peaks_prepare(sp_peaks *p, sparta_dtype dtype, bool tf32, const void *chunk)
{
    const int64_t edge = dtype == SPARTA_F32 ? SIDE_F32 : SIDE;
    const size_t bytes = (size_t)(edge * edge) * sparta_dtype_size(dtype);
    void *x, *w;
    SP_TRY(hold_random(p, COPIED, dtype, chunk, &p->from));
    SP_TRY(hold(p, COPIED, &p->to));
    if (*sp_cublas_problem()) return SPARTA_OK;
    SP_TRY(hold_random(p, bytes, dtype, chunk, &x));
    SP_TRY(hold_random(p, bytes, dtype, chunk, &w));
    p->large = (sp_dense){.rows = edge,
                          .cols = edge,
                          .depth = edge,
                          .b_turned = true,
                          .dtype = dtype,
                          .out_dtype = dtype,
                          .tf32 = tf32,
                          .any_order = true,
                          .a = x,
                          .b = w,
                          .a_step = edge,
                          .b_step = edge,
                          .out_step = edge};
    SP_TRY(hold(p, SP_CUBLAS_ROOM, &p->large.room));
    return hold(p, bytes, &p->large.out);
}

void sp_peaks_free(sp_peaks *p)
{
    for (int i = 0; i < p->n_held; i++) sp_gpu_free(p->held[i]);
    p->n_held = 0;
}

static sparta_status copy(void *arg, void *stream)
{
    const sp_peaks *p = arg;
    return sp_gpu_copy(p->c, p->to, p->from, COPIED, stream);
}

static sparta_status multiply(void *arg, void *stream)
{
    const sp_peaks *p = arg;
    return sp_cublas_multiply(p->c, p->gpu, &p->large, stream);
}

/* A clock that cannot be read, without a compiler for its kernel say, is not known; nothing else depends on it. */
static void read_clock(sp_peaks *p)
{
    char said[200];
    const sp_complaint quiet = {.where = "clock", .text = said, .size = sizeof said};
    double mhz = 0;
    if (sp_cuda_clock(&quiet, p->gpu, NULL, &mhz) == SPARTA_OK && mhz > 0) p->clock = mhz;
}

sparta_status sp_peaks_measure(sp_peaks *p)
{
    enum { CALLS = 4, REPLAYS = 7 };
    const double edge = (double)p->large.rows;
    double t;
    SP_TRY(sp_gpu_time(p->c, copy, p, CALLS, REPLAYS, &t));
    if (t > 0) p->bandwidth = fmax(p->bandwidth, 2.0 * COPIED / t);
    if (p->large.out) {
        SP_TRY(sp_gpu_time(p->c, multiply, p, CALLS, REPLAYS, &t));
        if (t > 0) p->flops = fmax(p->flops, 2 * edge * edge * edge / t);
    }
    read_clock(p);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ by itself */
static sparta_status examine(const sp_complaint *c, const sp_gpu *gpu, const void *chunk, sp_gpu_peaks *out)
{
    enum { TIMES = 3 };
    sp_peaks p = {.c = c, .gpu = gpu};
    sparta_status status = sp_peaks_prepare(&p, SPARTA_F16, false, chunk);
    for (int i = 0; i < TIMES && !status; i++) status = sp_peaks_measure(&p);
    sp_peaks_free(&p);
    *out = (sp_gpu_peaks){p.flops * 1e-12, p.bandwidth * 1e-9, p.clock, p.large.rows};
    return status;
}

sparta_status sp_gpu_peaks_find(sparta_ctx *cx, const sp_gpu *gpu, sp_gpu_peaks *out)
{
    char said[400] = "";
    const sp_complaint c = {.where = "GPU", .text = said, .size = sizeof said};
    sp_gpu_visit here;
    void *chunk = sp_alloc(cx, SP_PEAK_CHUNK * sparta_dtype_size(SPARTA_F16));
    SP_NEED(cx, chunk);
    sp_trial_fill(SPARTA_F16, 1, chunk, SP_PEAK_CHUNK);
    sparta_status status = sp_gpu_enter(&c, gpu, &here);
    if (!status) {
        status = examine(&c, gpu, chunk, out);
        sp_gpu_leave(&here);
    }
    sp_free(cx, chunk);
    return status ? sp_fail(cx, status, "%s", said) : SPARTA_OK;
}
