/* 2:4 on the GPU: tiles, and the point and launch of their product. */
#include "cuda/half.h"
#include "cuda/half.cu" /* its first part, which is C */
#include <stdatomic.h>
#include <string.h>

enum { MOST_LINES = 1 << 24 };

static bool is_size(int64_t rows, int64_t cols)
{
    return rows > 0 && cols > 0 && rows <= MOST_LINES && cols <= MOST_LINES;
}

size_t sp_half_bytes(int64_t rows, int64_t cols)
{
    if (!is_size(rows, cols)) return 0;
    return (size_t)sp_half_strips((int)rows) * (size_t)sp_half_steps((int)cols) * SP_HALF_TILE + SP_HALF_TAIL;
}

static bool is_half(sparta_dtype dtype)
{
    return dtype == SPARTA_F16 || dtype == SPARTA_BF16;
}

/* ------------------------------------------------------------------ compress */
/* As half.cu has it. */
typedef struct weight_args {
    const void *from;
    const uint8_t *keep;
    void *tiles;
    int32_t *over;
    int64_t step;
    int32_t rows, cols;
} weight_args;

static sparta_status compress(const sp_complaint *c, const sp_half_weight *w, const sp_gpu *gpu)
{
    const sp_gpu_kernel *kernel;
    sp_cuda_point point = {0};
    char *past = (char *)w->tiles + sp_half_bytes(w->rows, w->cols);
    weight_args args = {w->from, w->keep,          w->tiles,        (int32_t *)(void *)past - 1,
                        w->step, (int32_t)w->rows, (int32_t)w->cols};
    const int64_t tiles = (int64_t)sp_half_strips(args.rows) * sp_half_steps(args.cols);
    const sp_grid grid = {.x = (unsigned)tiles, .threads = 128};
    if (tiles > INT32_MAX)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED, "2:4: a weight of %lldx%lld is too large; split it",
                         (long long)w->rows, (long long)w->cols);
    sp_cuda_set(&point, "DTYPE", w->dtype == SPARTA_F16 ? 0 : 1);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_half, "compress", &point, &kernel));
    SP_TRY(sp_gpu_fill(c, past - SP_HALF_TAIL, 0, SP_HALF_TAIL, w->stream));
    return sp_gpu_launch(c, kernel, &grid, w->stream, (void *[]){&args});
}

sparta_status sp_half_compress(const sp_complaint *c, const sp_half_weight *w)
{
    const sp_gpu *gpu = sp_gpu_at(w->gpu);
    sp_gpu_visit visit;
    if (!gpu) return sp_refuse(c, SPARTA_E_DEVICE, "there is no GPU %d: %s", w->gpu, sp_gpu_problem());
    if (gpu->target != SP_TARGET_SM90A || !is_half(w->dtype) || !is_size(w->rows, w->cols))
        return sp_refuse(
            c, SPARTA_E_UNSUPPORTED,
            "2:4: a weight of %lldx%lld in %s has no kernel on %s; it takes f16 and bf16 on sm_90a",
            (long long)w->rows, (long long)w->cols, sparta_dtype_name(w->dtype), gpu->name);
    SP_TRY(sp_gpu_enter(c, gpu, &visit));
    const sparta_status status = compress(c, w, gpu);
    sp_gpu_leave(&visit);
    return status;
}

/* ------------------------------------------------------------------ the point */
/* 256 tokens at a time and x shared by two blocks where there is work for the whole chip; else smaller pieces, one block each. */
typedef struct point {
    int tile, stages, share, band, pdl;
} point;
enum { WIDE, NARROW, POINTS };

static int kind_of(const sp_cuda_job *job, const sp_gpu *gpu)
{
    const int64_t groups = sp_half_strips((int)job->rows) / SP_HALF_GROUP;
    return groups * ((job->tokens + 255) / 256) >= gpu->processors ? WIDE : NARROW;
}
static point point_of(int kind, const sp_cuda_job *job, const sp_gpu *gpu)
{
    enum { BARRIERS = 256, MOST_STAGES = 8, ELEMENT = 2 };
    point p = kind == WIDE ? (point){256, 1, 2, 8, 0} : (point){128, 1, 1, 8, 0};
    p.pdl = job->tokens * job->cols * ELEMENT <= (int64_t)(gpu->l2 / 4 * 3);
    while (p.stages < MOST_STAGES && SP_HALF_SHARED(p.tile, p.stages + 1) + BARRIERS <= gpu->shared)
        p.stages++;
    return p;
}
static void set_point(sp_cuda_point *out, const point *p, const sp_cuda_job *job)
{
    sp_cuda_set_job(out, job);
    sp_cuda_set(out, "TILE", p->tile);
    sp_cuda_set(out, "STAGES", p->stages);
    sp_cuda_set(out, "SHARE", p->share);
    sp_cuda_set(out, "BAND", p->band);
    sp_cuda_set(out, "PDL", p->pdl);
}

/* ------------------------------------------------------------------ the product */
static sp_box x_box(const sp_cuda_job *job, const point *p)
{
    return (sp_box){job->dtype, job->x, job->cols, job->tokens, job->x_step, SP_STRIP, p->tile / p->share};
}
static sp_box y_box(const sp_cuda_job *job)
{
    return (sp_box){job->dtype, job->y, job->rows, job->tokens, job->y_step, SP_STRIP, SP_STRIP};
}

bool sp_half_takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    if (gpu->target != SP_TARGET_SM90A || !is_half(job->dtype) || job->verb != SPARTA_MULTIPLY) return false;
    if (!is_size(job->rows, job->cols) || job->tokens < 1 || job->tokens > INT32_MAX / 2) return false;
    const point p = point_of(kind_of(job, gpu), job, gpu);
    const int64_t groups = sp_half_strips((int)job->rows) / SP_HALF_GROUP;
    if (groups * ((job->tokens + p.tile - 1) / p.tile) > INT32_MAX / 2) return false;
    const sp_box x = x_box(job, &p), y = y_box(job);
    return sp_tensor_map_can(&x) && sp_tensor_map_can(&y) && (uintptr_t)job->values % 16 == 0;
}

/* Blocks that the chip holds, by GPU and point: shared memory decides, whatever the words are. */
static int blocks_held(const sp_gpu *gpu, const sp_gpu_kernel *kernel, const sp_grid *grid, int kind)
{
    static _Atomic int held[SP_GPUS][POINTS];
    int n = atomic_load(&held[gpu->number][kind]);
    if (n == 0) atomic_store(&held[gpu->number][kind], n = sp_gpu_holds(gpu, kernel, grid));
    return n;
}

/* As half.cu has it. */
typedef struct problem {
    const void *tiles, *bias, *residual;
    int64_t residual_step;
    int32_t rows, tokens, groups, steps;
} problem;

static sparta_status multiply(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    const int kind = kind_of(job, gpu), groups = sp_half_strips((int)job->rows) / SP_HALF_GROUP;
    const point p = point_of(kind, job, gpu);
    const sp_box x_of = x_box(job, &p), y_of = y_box(job);
    const sp_gpu_kernel *kernel;
    sp_cuda_point all = {0};
    sp_tensor_map x, y;
    problem args = {.tiles = job->values,
                    .bias = job->bias,
                    .residual = job->residual,
                    .residual_step = job->residual_step,
                    .rows = (int32_t)job->rows,
                    .tokens = (int32_t)job->tokens,
                    .groups = groups,
                    .steps = sp_half_steps((int)job->cols)};
    set_point(&all, &p, job);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_half, "half", &all, &kernel));
    SP_TRY(sp_tensor_map_make(c, &x_of, &x));
    SP_TRY(sp_tensor_map_make(c, &y_of, &y));
    sp_grid grid = {.x = (unsigned)p.share,
                    .threads = (SP_HALF_GROUP + 1) * 128,
                    .shared = (unsigned)SP_HALF_SHARED(p.tile, p.stages),
                    .cluster = (unsigned)p.share,
                    .overlap = p.pdl};
    const int64_t held = blocks_held(gpu, kernel, &grid, kind);
    const int64_t needed = groups * ((job->tokens + p.tile - 1) / p.tile);
    if (held < p.share)
        return sp_refuse(c, SPARTA_E_DEVICE, "2:4: %s cannot hold its kernel of %u bytes of shared memory",
                         gpu->name, grid.shared);
    grid.x = (unsigned)(SP_MIN(held, needed) / p.share * p.share);
    return sp_gpu_launch(c, kernel, &grid, job->stream, (void *[]){&x, &y, &args});
}

sparta_status sp_half_multiply(const sp_complaint *c, const sp_cuda_job *job)
{
    const sp_gpu *gpu = sp_gpu_at(job->gpu);
    sp_gpu_visit visit;
    if (!gpu) return sp_refuse(c, SPARTA_E_DEVICE, "there is no GPU %d: %s", job->gpu, sp_gpu_problem());
    if (!sp_half_takes(job, gpu))
        return sp_refuse(
            c, SPARTA_E_UNSUPPORTED,
            "2:4: no kernel multiplies %s with these strides on %s; it takes f16 and bf16 on sm_90a, "
            "rows of x and y that begin on 16 bytes",
            sparta_dtype_name(job->dtype), gpu->name);
    SP_TRY(sp_gpu_enter(c, gpu, &visit));
    const sparta_status status = multiply(c, job, gpu);
    sp_gpu_leave(&visit);
    return status;
}

/* ------------------------------------------------------------------ points of the compile test */
bool sp_cuda_points_half(int i, sp_cuda_point *out, const char **entry, sp_target *target)
{
    static const struct {
        const char *entry;
        sparta_dtype dtype;
        int kind;
        sp_words words;
    } cases[] = {
        {"compress", SPARTA_F16, WIDE, {0}},
        {"compress", SPARTA_BF16, WIDE, {0}},
        {"half", SPARTA_F16, WIDE, {0}},
        {"half", SPARTA_BF16, WIDE, {.n = 3, .word = {SP_WORD_BIAS, SP_WORD_GELU, SP_WORD_ADD}}},
        {"half", SPARTA_F16, NARROW, {.n = 2, .word = {SP_WORD_BIAS, SP_WORD_SILU}}},
    };
    if (i < 0 || i >= (int)SP_COUNT(cases)) return false;
    const sp_gpu gpu = {.processors = 132, .l2 = 50 << 20, .shared = 227 << 10, .target = SP_TARGET_SM90A};
    const sp_cuda_job job = {.verb = SPARTA_MULTIPLY,
                             .dtype = cases[i].dtype,
                             .cols = 8192,
                             .tokens = cases[i].kind == WIDE ? 8192 : 512,
                             .words = cases[i].words};
    const point p = point_of(cases[i].kind, &job, &gpu);
    memset(out, 0, sizeof *out);
    *entry = cases[i].entry;
    *target = SP_TARGET_SM90A;
    if (!strcmp(*entry, "half"))
        set_point(out, &p, &job);
    else
        sp_cuda_set(out, "DTYPE", job.dtype == SPARTA_F16 ? 0 : 1);
    return true;
}
