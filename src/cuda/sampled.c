/* The gradient of values on sm_90a: point, maps, two launches (sampled.cu says what they do, sampled.h who does what). */
#include "cuda/cuda.h"
#include "cuda/sampled.h"
#include <limits.h>
#include <string.h>

/* ------------------------------------------------------------------ its point */
/* The order of `choices` below. */
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

/* Items of a pattern whose blocks lie evenly. */
static int64_t items_about(const sp_cuda_job *job, int nwg)
{
    const sp_sampling s =
        sp_sampling_of((int)job->height, (int)job->width, (int)job->down, (int)job->right, nwg);
    const int64_t in_strip = SP_MIN(job->right, (job->blocks * s.side.parts + job->down - 1) / job->down);
    return (int64_t)s.side.strips * s.tall * s.wide * ((in_strip + s.side.per - 1) / s.side.per);
}

static bool is_within(int x, int least, int most)
{
    return x >= least && x <= most;
}

static shape shape_of(const sp_cuda_job *job, const sp_gpu *gpu, const sp_choice *choice)
{
    static const shape tall = {.nwg = 2, .kt = 64, .st = 4, .ob = 2, .occ = 1};
    static const shape strip = {.nwg = 1, .kt = 32, .st = 4, .ob = 2, .occ = 2};
    /* Fewer items than multiprocessors: all are cut, and one block of threads has a multiprocessor for itself. */
    static const shape few = {.nwg = 1, .kt = 64, .st = 5, .ob = 2, .occ = 1};
    shape wanted, s = job->height % 128 == 0 ? tall : strip;
    if (items_about(job, s.nwg) < gpu->processors) s = few;
    memcpy(&wanted, choice, sizeof wanted);
    if (is_within(wanted.nwg, 1, 2) && job->height % (wanted.nwg * SP_STRIP) == 0) s.nwg = wanted.nwg;
    if (wanted.kt == 16 || wanted.kt == 32 || wanted.kt == 64) s.kt = wanted.kt;
    if (is_within(wanted.st, 2, 16)) s.st = wanted.st;
    if (is_within(wanted.ob, 1, 2)) s.ob = wanted.ob;
    if (is_within(wanted.occ, 1, 2)) s.occ = wanted.occ;
    if (s.nwg == 2) s.occ = 1; /* 2 x 128 x 2 threads have no registers for their sums */
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

static bool can(const sp_cuda_job *job, const sp_gpu *gpu, const shape *s)
{
    const sp_box x = box_of_x(job, s), y = box_of_y(job, s), values = box_of_values(job);
    return fits(s, gpu) && sp_tensor_map_can(&x) && sp_tensor_map_can(&y) && sp_tensor_map_can(&values);
}

static bool settle(const sp_cuda_job *job, const sp_gpu *gpu, sp_choice *point)
{
    const shape s = shape_of(job, gpu, point);
    memcpy(point, &s, sizeof s);
    return !is_empty(job) && can(job, gpu, &s);
}

static const sp_choices choices = {
    .name = {"NWG", "KT", "ST", "OB", "OCC"},
    .variable = "SPARTA_CUDA_SAMPLE_POINT",
    .text = SP_CUDA_TEXT_sampled,
    .settle = settle,
    .space = {"NWG=2 KT=64 ST=4 OB=2", "NWG=2 KT=64 ST=3 OB=2", "NWG=2 KT=32 ST=7 OB=2",
              "NWG=1 KT=32 ST=4 OB=2 OCC=2", "NWG=1 KT=32 ST=5 OB=1 OCC=2", "NWG=1 KT=16 ST=8 OB=2 OCC=2",
              "NWG=1 KT=64 ST=2 OB=2 OCC=2", "NWG=1 KT=64 ST=5 OB=2 OCC=1", "NWG=1 KT=64 ST=4 OB=1 OCC=1",
              "NWG=1 KT=32 ST=8 OB=2 OCC=1", "NWG=1 KT=32 ST=3 OB=2 OCC=2"},
};

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
    const sp_choice wanted = sp_choice_quietly(&choices, job);
    const shape s = shape_of(job, gpu, &wanted);
    return can(job, gpu, &s);
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

/* For any point: two warpgroups of a multiprocessor have sums, in one block or in two. */
static size_t room(const sp_cuda_job *job, const sp_gpu *gpu)
{
    enum { HELD = 2, TOKENS = 64 /* of a stage, at most: such parts are made first */ };
    const shape longest = {.kt = TOKENS};
    if (is_empty(job) || !may_cut(job, &longest)) return 0;
    return 2 * HELD * (size_t)SP_STRIP * SP_SAMPLED_COLUMNS * sizeof(float) * (size_t)gpu->processors;
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
    sp_choice wanted;
    SP_TRY(sp_choice_wanted(c, &choices, job, &wanted));
    const shape s = shape_of(job, gpu, &wanted);
    return launch(c, job, gpu, &s);
}

static bool kernel_of(const sp_cuda_job *job, const sp_gpu *gpu, int i, sp_cuda_asked *out)
{
    const sp_choice wanted = sp_choice_quietly(&choices, job);
    if (i > 1 || is_empty(job)) return false;
    const shape s = shape_of(job, gpu, &wanted);
    *out = (sp_cuda_asked){.text = SP_CUDA_TEXT_sampled, .entry = i ? "join" : "sample"};
    sp_cuda_set_job(&out->point, job);
    set_point(&out->point, &s, job->height, job->width, is_masked(job));
    return true;
}

const sp_cuda_row sp_cuda_sampled = {
    .name = "sampled", .takes = takes, .room = room, .run = run, .choices = &choices, .kernel = kernel_of};

/* ------------------------------------------------------------------ points for tests */
bool sp_cuda_points_sampled(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const struct {
        int height, width, tokens;
    } each[] = {{128, 128, 8192}, {64, 64, 8192}, {32, 32, 8192},   {16, 16, 8192},
                {64, 64, 100},    {32, 32, 100},  {256, 320, 8192}, {128, 32, 8192},
                {192, 64, 8192},  {64, 16, 8192}, {16, 64, 8192}};
    static const sp_gpu h200 = {.processors = 132, .shared = 227 << 10, .target = SP_TARGET_SM90A};
    enum {
        ENTRIES = 2,
        MASKS = 2,
        DTYPES = 2,
        KINDS = ENTRIES * MASKS * DTYPES,
        THROUGH_THE_SPACE = 3,
        WIDE = 7680
    };
    enum { PLAIN = SP_COUNT(each) * KINDS };
    sp_choice wanted;
    int at;
    if (!sp_choice_sample(&choices, i, PLAIN, THROUGH_THE_SPACE, &wanted, &at)) return false;
    const int kind = i < PLAIN ? at % KINDS : 0;
    if (i < PLAIN) at /= KINDS;
    const int64_t down = WIDE / each[at].height, right = WIDE / each[at].width;
    /* Few tokens stand for few items. */
    const sp_cuda_job job = {.verb = SPARTA_SAMPLE,
                             .dtype = kind / (ENTRIES * MASKS) ? SPARTA_BF16 : SPARTA_F16,
                             .rows = WIDE,
                             .cols = WIDE,
                             .height = each[at].height,
                             .width = each[at].width,
                             .down = down,
                             .right = right,
                             .blocks = each[at].tokens < SP_SAMPLED_COLUMNS ? 1 : down * right,
                             .tokens = each[at].tokens};
    const shape s = shape_of(&job, &h200, &wanted);
    sp_cuda_set_job(point, &job);
    set_point(point, &s, job.height, job.width, kind / ENTRIES % MASKS);
    *entry = kind % ENTRIES ? "join" : "sample";
    *target = SP_TARGET_SM90A;
    return true;
}
