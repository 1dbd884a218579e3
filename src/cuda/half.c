/* 2:4 on the GPU: tiles, and the point and launch of their product. */
#include "cuda/half.h"
#include "cuda/half.cu" /* its first part, which is C */
#include <pthread.h>
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
    sp_cuda_set_dtype(&point, w->dtype);
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
typedef struct point { /* the order of `choices` below */
    int tile, stages, share, band, pdl;
} point;
enum { WIDE = 256, NARROW = 128, MOST_BAND = 1 << 10 };

static int groups_of(const sp_cuda_job *job)
{
    return sp_half_strips((int)job->rows) / SP_HALF_GROUP;
}
static point rule(const sp_cuda_job *job, const sp_gpu *gpu)
{
    enum { ELEMENT = 2 };
    const bool wide = groups_of(job) * ((job->tokens + WIDE - 1) / WIDE) >= gpu->processors;
    point p = {.tile = wide ? WIDE : NARROW, .share = wide ? 2 : 1, .band = 8};
    p.pdl = job->tokens * job->cols * ELEMENT <= (int64_t)(gpu->l2 / 4 * 3);
    return p;
}
static point point_of(const sp_cuda_job *job, const sp_gpu *gpu, const sp_choice *choice)
{
    enum { BARRIERS = 256, MOST_STAGES = 8 };
    point p = rule(job, gpu), wanted;
    memcpy(&wanted, choice, sizeof wanted);
    if (wanted.tile == WIDE || wanted.tile == NARROW) p.tile = wanted.tile;
    if (wanted.share == 1 || wanted.share == 2) p.share = wanted.share;
    if (wanted.band >= 1 && wanted.band <= MOST_BAND) p.band = wanted.band;
    if (wanted.pdl == 0 || wanted.pdl == 1) p.pdl = wanted.pdl;
    p.stages = 1;
    while (p.stages < MOST_STAGES && SP_HALF_SHARED(p.tile, p.stages + 1) + BARRIERS <= gpu->shared)
        p.stages++;
    if (wanted.stages >= 2) p.stages = SP_MIN(p.stages, wanted.stages);
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

static bool is_ours(const sp_cuda_job *job, const sp_gpu *gpu)
{
    return gpu->target == SP_TARGET_SM90A && is_half(job->dtype) && job->verb == SPARTA_MULTIPLY &&
           is_size(job->rows, job->cols) && job->tokens >= 1 && job->tokens <= INT32_MAX / 2 &&
           (uintptr_t)job->values % 16 == 0;
}

static bool settle(const sp_cuda_job *job, const sp_gpu *gpu, sp_choice *choice)
{
    if (!is_ours(job, gpu)) return false;
    const point p = point_of(job, gpu, choice);
    memcpy(choice, &p, sizeof p);
    if (groups_of(job) * ((job->tokens + p.tile - 1) / p.tile) > INT32_MAX / 2) return false;
    const sp_box x = x_box(job, &p), y = y_box(job);
    return sp_tensor_map_can(&x) && sp_tensor_map_can(&y);
}

static const sp_choices choices = {
    .name = {"TILE", "STAGES", "SHARE", "BAND", "PDL"},
    .variable = "SPARTA_CUDA_HALF_POINT",
    .text = SP_CUDA_TEXT_half,
    .settle = settle,
    .space = {"TILE=256 SHARE=2", "TILE=256 SHARE=1", "TILE=128 SHARE=1", "TILE=128 SHARE=2",
              "TILE=256 SHARE=2 BAND=4", "TILE=256 SHARE=2 BAND=16", "TILE=128 SHARE=1 BAND=4",
              "TILE=128 SHARE=1 BAND=16", "TILE=128 STAGES=4 SHARE=1", "PDL=0", "PDL=1"},
};

bool sp_half_takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    sp_choice choice = sp_choice_quietly(&choices, job);
    return settle(job, gpu, &choice);
}

/* Blocks that the chip holds of a kernel, asked once. */
static int blocks_held(const sp_gpu *gpu, const sp_gpu_kernel *kernel, const sp_grid *grid)
{
    enum { KEPT = 32 };
    static struct {
        const sp_gpu_kernel *kernel;
        int blocks;
    } held[KEPT];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const size_t at = ((uintptr_t)kernel >> 4) % KEPT;
    pthread_mutex_lock(&lock);
    if (held[at].kernel != kernel) {
        held[at].blocks = sp_gpu_holds(gpu, kernel, grid);
        held[at].kernel = kernel;
    }
    const int blocks = held[at].blocks;
    pthread_mutex_unlock(&lock);
    return blocks;
}

/* As half.cu has it. */
typedef struct problem {
    const void *tiles, *bias, *residual;
    int64_t residual_step;
    int32_t rows, tokens, groups, steps;
} problem;

static sparta_status multiply(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    sp_choice wanted;
    SP_TRY(sp_choice_wanted(c, &choices, job, &wanted));
    const int groups = groups_of(job);
    const point p = point_of(job, gpu, &wanted);
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
    const int64_t held = blocks_held(gpu, kernel, &grid);
    const int64_t needed = groups * ((job->tokens + p.tile - 1) / p.tile);
    if (held < p.share)
        return sp_refuse(c, SPARTA_E_DEVICE, "2:4: %s cannot hold its kernel of %u bytes of shared memory",
                         gpu->name, grid.shared);
    grid.x = (unsigned)(SP_MIN(held, needed) / p.share * p.share);
    return sp_gpu_launch(c, kernel, &grid, job->stream, (void *[]){&x, &y, &args});
}

static size_t room(const sp_cuda_job *job, const sp_gpu *gpu)
{
    (void)job, (void)gpu;
    return 0;
}

/* With what packs the weight. */
static bool kernel_of(const sp_cuda_job *job, const sp_gpu *gpu, int i, sp_cuda_asked *out)
{
    const sp_choice wanted = sp_choice_quietly(&choices, job);
    if (i > 1) return false;
    const point p = point_of(job, gpu, &wanted);
    *out = (sp_cuda_asked){.text = SP_CUDA_TEXT_half, .entry = i ? "compress" : "half"};
    if (i)
        sp_cuda_set_dtype(&out->point, job->dtype);
    else
        set_point(&out->point, &p, job);
    return true;
}

const sp_cuda_row sp_cuda_half = {.name = "half",
                                  .takes = sp_half_takes,
                                  .room = room,
                                  .run = multiply,
                                  .choices = &choices,
                                  .kernel = kernel_of};

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
    const sparta_status status = sp_cuda_run_row(c, &sp_cuda_half, job, gpu);
    sp_gpu_leave(&visit);
    return status;
}

/* ------------------------------------------------------------------ points of the compile test */
bool sp_cuda_points_half(int i, sp_cuda_point *out, const char **entry, sp_target *target)
{
    static const struct {
        const char *entry;
        sparta_dtype dtype;
        int tokens;
        sp_words words;
    } cases[] = {
        {"half", SPARTA_F16, 8192, {0}},
        {"compress", SPARTA_F16, 8192, {0}},
        {"compress", SPARTA_BF16, 8192, {0}},
        {"half", SPARTA_BF16, 8192, {.n = 3, .word = {SP_WORD_BIAS, SP_WORD_GELU, SP_WORD_ADD}}},
        {"half", SPARTA_F16, 512, {.n = 2, .word = {SP_WORD_BIAS, SP_WORD_SILU}}},
    };
    sp_choice wanted;
    if (!sp_choice_sample(&choices, i, SP_COUNT(cases), 1, &wanted, &i)) return false;
    const sp_gpu gpu = {.processors = 132, .l2 = 50 << 20, .shared = 227 << 10, .target = SP_TARGET_SM90A};
    const sp_cuda_job job = {.verb = SPARTA_MULTIPLY,
                             .dtype = cases[i].dtype,
                             .rows = 4096,
                             .cols = 8192,
                             .tokens = cases[i].tokens,
                             .words = cases[i].words};
    const point p = point_of(&job, &gpu, &wanted);
    memset(out, 0, sizeof *out);
    *entry = cases[i].entry;
    *target = SP_TARGET_SM90A;
    if (!strcmp(*entry, "half"))
        set_point(out, &p, &job);
    else
        sp_cuda_set_dtype(out, job.dtype);
    return true;
}
