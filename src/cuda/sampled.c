/* The gradient of values on sm_90a: point, maps, two launches (sampled.cu says what they do, sampled.h who does what). */
#include "cuda/cuda.h"
#include "cuda/sampled.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ its point */
typedef struct shape {
    int nwg;    /* warpgroups: 64 rows of an item each */
    int kt, st; /* tokens of a stage, stages */
    int ob;     /* buffers for what is stored */
    int occ;    /* blocks of threads on a multiprocessor */
} shape;

enum {
    WARPGROUP = 128,
    WARP = 32,
    ALIGNED = 1024, /* where tiles begin, and what a block of threads costs besides */
    OUT_BYTES = SP_STRIP * 64 * 2,
    STATIC = 512, /* bytes of shared memory that the kernel has of its own, at most */
    JOIN_THREADS = 256,
    JOIN_BLOCKS = 4 /* on a multiprocessor: as many as its registers hold */
};

static int shared_bytes(const shape *s)
{
    return ALIGNED + s->st * s->kt * 2 * (s->nwg * SP_STRIP + SP_SAMPLED_COLUMNS) +
           s->nwg * s->ob * OUT_BYTES;
}
static bool fits(const shape *s, const sp_gpu *gpu)
{
    const int each = shared_bytes(s) + STATIC;
    return each <= gpu->shared && s->occ * (each + ALIGNED) <= gpu->shared + ALIGNED;
}

/* SPARTA_CUDA_SAMPLE_POINT="NWG=1 KT=32 ST=4 OCC=2", for experiments: what it names is taken where the kernel can be made so. */
static shape wanted;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_wanted(void)
{
    const char *text = getenv("SPARTA_CUDA_SAMPLE_POINT");
    const struct {
        const char *name;
        int *to, least, most;
    } field[] = {{"NWG", &wanted.nwg, 1, 2},
                 {"KT", &wanted.kt, 16, 64},
                 {"ST", &wanted.st, 2, 16},
                 {"OB", &wanted.ob, 1, 2},
                 {"OCC", &wanted.occ, 1, 2}};
    char name[8];
    int value, n;
    for (; text && sscanf(text, " %7[A-Z]=%d%n", name, &value, &n) == 2; text += n)
        for (size_t i = 0; i < SP_COUNT(field); i++)
            if (!strcmp(name, field[i].name) && value >= field[i].least && value <= field[i].most)
                *field[i].to = value;
    if (wanted.kt & (wanted.kt - 1)) wanted.kt = 0;
}

/* Items of a pattern whose blocks lie evenly. */
static int64_t items_about(const sp_cuda_job *job, int nwg)
{
    const sp_sampling s =
        sp_sampling_of((int)job->height, (int)job->width, (int)job->down, (int)job->right, nwg);
    const int64_t in_strip = SP_MIN(job->right, (job->blocks * s.side.parts + job->down - 1) / job->down);
    return (int64_t)s.side.strips * s.tall * s.wide * ((in_strip + s.side.per - 1) / s.side.per);
}

static shape shape_of(const sp_cuda_job *job, const sp_gpu *gpu)
{
    static const shape tall = {.nwg = 2, .kt = 64, .st = 4, .ob = 2, .occ = 1};
    static const shape strip = {.nwg = 1, .kt = 32, .st = 4, .ob = 2, .occ = 2};
    static const shape low = {.nwg = 1, .kt = 32, .st = 5, .ob = 1, .occ = 2};
    /* Fewer items than multiprocessors: all are cut, and one block of threads has a multiprocessor for itself. */
    static const shape few = {.nwg = 1, .kt = 64, .st = 5, .ob = 2, .occ = 1};
    shape s = job->height % 128 == 0 ? tall : job->height % SP_STRIP == 0 ? strip : low;
    if (items_about(job, s.nwg) < gpu->processors) s = few;
    pthread_once(&once, read_wanted);
    if (wanted.nwg && job->height % (wanted.nwg * SP_STRIP) == 0) s.nwg = wanted.nwg;
    if (wanted.kt) s.kt = wanted.kt;
    if (wanted.st) s.st = wanted.st;
    if (wanted.ob) s.ob = wanted.ob;
    if (wanted.occ)
        s.occ = s.nwg == 2 ? 1 : wanted.occ; /* 2 x 128 x 2 threads have no registers for their sums */
    while (s.st > 2 && !fits(&s, gpu)) s.st--;
    return s;
}

static bool is_masked(const sp_cuda_job *job)
{
    return job->keep || job->rows % job->height || job->cols % job->width;
}

static void set_point(sp_cuda_point *point, const shape *s, int64_t height, int64_t width, bool masked)
{
    sp_cuda_set(point, "HEIGHT", (int)height);
    sp_cuda_set(point, "WIDTH", (int)width);
    sp_cuda_set(point, "NWG", s->nwg);
    sp_cuda_set(point, "KT", s->kt);
    sp_cuda_set(point, "ST", s->st);
    sp_cuda_set(point, "OB", s->ob);
    sp_cuda_set(point, "OCC", s->occ);
    sp_cuda_set(point, "MASKED", masked);
}

/* ------------------------------------------------------------------ maps */
static sp_box box_of_x(const sp_cuda_job *job, const shape *s)
{
    return (sp_box){job->dtype, job->x, job->rows, job->tokens, job->x_step, SP_STRIP, s->kt};
}
static sp_box box_of_y(const sp_cuda_job *job, const shape *s)
{
    return (sp_box){job->dtype,  job->y,      job->cols,
                    job->tokens, job->y_step, (int)SP_MIN(job->width, SP_SAMPLED_BOX),
                    s->kt};
}
static sp_box box_of_values(const sp_cuda_job *job)
{
    return (sp_box){job->dtype,
                    job->values,
                    job->width,
                    job->blocks * job->height,
                    job->width,
                    (int)SP_MIN(job->width, SP_SAMPLED_BOX),
                    (int)SP_MIN(job->height, SP_STRIP)};
}

/* ------------------------------------------------------------------ the row */
static bool is_empty(const sp_cuda_job *job)
{
    return job->blocks == 0 || job->tokens == 0 || job->rows == 0 || job->cols == 0;
}

/* Numbers of the kernel are of 31 bits: coordinates (a tile may reach past the end by its size), items. */
static bool is_small(const sp_cuda_job *job)
{
    const int64_t most = INT_MAX / 2;
    if (job->rows > most || job->cols > most || job->tokens > most || job->height > most ||
        job->width > most || job->blocks > most / job->height ||
        sp_index_words(job->height, job->width, job->down, job->right) == 0)
        return false;
    const sp_sampling s =
        sp_sampling_of((int)job->height, (int)job->width, (int)job->down, (int)job->right, 1);
    return sp_sampled_most(&s) <= most / ((int64_t)s.tall * s.wide);
}

static bool takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    if (job->verb != SPARTA_SAMPLE || gpu->target != SP_TARGET_SM90A ||
        (job->dtype != SPARTA_F16 && job->dtype != SPARTA_BF16))
        return false;
    if (job->height > INT_MAX || job->width > INT_MAX || !sp_index_takes((int)job->height) ||
        !sp_index_takes((int)job->width))
        return false;
    if (is_empty(job)) return sp_index_words(job->height, job->width, job->down, job->right) > 0;
    if (!is_small(job) || (uintptr_t)job->keep % 8) return false;
    const shape s = shape_of(job, gpu);
    const sp_box x = box_of_x(job, &s), y = box_of_y(job, &s), values = box_of_values(job);
    return fits(&s, gpu) && sp_tensor_map_can(&x) && sp_tensor_map_can(&y) && sp_tensor_map_can(&values);
}

static int steps_of(const sp_cuda_job *job, const shape *s)
{
    return (int)((job->tokens + s->kt - 1) / s->kt);
}
/* Is there a number of items that would be cut? Otherwise there is nothing to join, whatever the pattern is. */
static bool may_cut(const sp_cuda_job *job, const shape *s)
{
    return steps_of(job, s) >= 2 * (SP_SAMPLED_LEAST / s->kt);
}

static size_t room(const sp_cuda_job *job, const sp_gpu *gpu)
{
    if (is_empty(job)) return 0;
    const shape s = shape_of(job, gpu);
    const size_t slot = (size_t)s.nwg * SP_STRIP * SP_SAMPLED_COLUMNS * sizeof(float);
    return may_cut(job, &s) ? 2 * slot * (size_t)(gpu->processors * s.occ) : 0;
}

static sparta_status launch(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, const shape *s)
{
    const sp_gpu_kernel *sample, *join;
    sp_cuda_point point = {0};
    sp_cuda_set_job(&point, job);
    set_point(&point, s, job->height, job->width, is_masked(job));
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_sampled, "sample", &point, &sample));
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_sampled, "join", &point, &join));

    const sp_box box_x = box_of_x(job, s), box_y = box_of_y(job, s), box_values = box_of_values(job);
    sp_tensor_map x, y, values;
    SP_TRY(sp_tensor_map_make(c, &box_x, &x));
    SP_TRY(sp_tensor_map_make(c, &box_y, &y));
    SP_TRY(sp_tensor_map_make(c, &box_values, &values));
    sp_sampled numbers = {.index = job->index,
                          .keep = job->keep,
                          .values = job->values,
                          .scratch = (float *)(void *)job->room,
                          .down = (int)job->down,
                          .right = (int)job->right,
                          .blocks = (int)job->blocks,
                          .rows = (int)job->rows,
                          .cols = (int)job->cols,
                          .steps = steps_of(job, s),
                          .crews = gpu->processors * s->occ,
                          .scale = (float)job->scale};
    void *first[] = {&x, &y, &values, &numbers}, *second[] = {&numbers};
    const sp_grid sampling = {.x = (unsigned)numbers.crews,
                              .threads = (unsigned)(WARPGROUP * s->nwg + (s->occ == 1 ? WARPGROUP : WARP)),
                              .shared = (unsigned)shared_bytes(s),
                              .overlap = true};
    const sp_grid joining = {
        .x = (unsigned)(JOIN_BLOCKS * gpu->processors), .threads = JOIN_THREADS, .overlap = true};
    SP_TRY(sp_gpu_launch(c, sample, &sampling, job->stream, first));
    return may_cut(job, s) ? sp_gpu_launch(c, join, &joining, job->stream, second) : SPARTA_OK;
}

static sparta_status run(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    if (job->blocks == 0) return SPARTA_OK;
    if (is_empty(job))
        return sp_gpu_fill(c, job->values, 0,
                           (size_t)(job->blocks * job->height * job->width) * sparta_dtype_size(job->dtype),
                           job->stream);
    const shape s = shape_of(job, gpu);
    return launch(c, job, gpu, &s);
}

const sp_cuda_row sp_cuda_sampled = {"sampled", takes, room, run, false};

/* ------------------------------------------------------------------ points for tests */
bool sp_cuda_points_sampled(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const struct {
        int height, width;
        shape s;
    } each[] = {
        {128, 128, {2, 64, 4, 2, 1}}, {64, 64, {1, 32, 4, 2, 2}},  {32, 32, {1, 32, 5, 1, 2}},
        {16, 16, {1, 32, 5, 1, 2}},   {64, 64, {1, 64, 5, 2, 1}},  {32, 32, {1, 64, 5, 2, 1}},
        {256, 320, {2, 64, 4, 2, 1}}, {128, 32, {2, 64, 4, 2, 1}}, {192, 64, {1, 32, 4, 2, 2}},
        {64, 16, {1, 32, 4, 2, 2}},   {16, 64, {1, 32, 5, 1, 2}},  {32, 192, {1, 16, 5, 1, 2}},
    };
    enum { ENTRIES = 2, MASKS = 2, DTYPES = 2, KINDS = ENTRIES * MASKS * DTYPES };
    if (i < 0 || i >= (int)SP_COUNT(each) * KINDS) return false;
    const int kind = i % KINDS, shape_at = i / KINDS;
    sp_cuda_set(point, "DTYPE", kind / (ENTRIES * MASKS));
    set_point(point, &each[shape_at].s, each[shape_at].height, each[shape_at].width, kind / ENTRIES % MASKS);
    *entry = kind % ENTRIES ? "join" : "sample";
    *target = SP_TARGET_SM90A;
    return true;
}
