/* Row tiles: any product or sample that has an index, on sm_80 and newer. It is the last: what no other row takes, and what is empty, comes here. */
#include "cuda/cuda.h"

/* As in tiles.cu. */
enum {
    THREADS = 128,
    RESIDENT = 3, /* blocks of threads that a multiprocessor has at least */
    CHUNK = 64,   /* bytes of k */
    VECTOR = 16,
    SAMPLE_COLUMNS = 128,
};
/* STAGES: newer ones have shared memory for three blocks of four, older ones of three; strips of several parts gain more by a fourth block than by a fourth stage. */
enum { STAGES_SM90A = 4, STAGES_SM80 = 3 };

/* What follows from a job: one side of its index, the tile, how many there are. */
typedef struct plan {
    sp_side side;
    int tokens; /* of a tile of a product */
    int stages;
    int64_t tiles; /* of a sample: at most */
} plan;

static int64_t ceil_of(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static plan plan_of(const sp_cuda_job *job, sp_target target, int processors)
{
    const int height = (int)job->height, width = (int)job->width, down = (int)job->down,
              right = (int)job->right;
    plan p = {.side = job->verb == SPARTA_MULTIPLY_TURNED ? sp_side_turned(height, width, down, right)
                                                          : sp_side_across(height, width, down, right),
              .stages = STAGES_SM90A};
    if (target == SP_TARGET_SM80 || (p.side.parts > 1 && job->verb != SPARTA_SAMPLE)) p.stages = STAGES_SM80;
    const int64_t pieces = p.side.parts > 1 ? 1 : p.side.side / SP_STRIP, each = p.side.strips * pieces;
    if (job->verb == SPARTA_SAMPLE) {
        p.tiles = each * ceil_of(p.side.cross, p.side.per) *
                  ceil_of((int64_t)p.side.per * p.side.depth, SAMPLE_COLUMNS);
    } else {
        /* Half a tile where there are too few whole ones to fill the chip. */
        p.tokens = each * ceil_of(job->tokens, 128) < 2 * (int64_t)processors ? 64 : 128;
        p.tiles = each * ceil_of(job->tokens, p.tokens);
    }
    return p;
}

/* Bytes that a matrix is aligned to, all of its lines: a power of 2, at most 16. */
static int align_of(const void *base, int64_t step, int64_t lines, size_t size)
{
    const uintptr_t all = (uintptr_t)base | (lines > 1 ? (uintptr_t)step * size : 0) | VECTOR;
    return (int)(all & -all);
}

static void point_of(const sp_cuda_job *job, const plan *p, sp_cuda_point *out)
{
    const size_t size = sparta_dtype_size(job->dtype);
    const int x = align_of(job->x, job->x_step, job->tokens, size),
              y = align_of(job->y, job->y_step, job->tokens, size),
              residual =
                  job->residual ? align_of(job->residual, job->residual_step, job->tokens, size) : VECTOR,
              values = align_of(job->values, 0, 1, size);
    const bool sample = job->verb == SPARTA_SAMPLE;
    *out = (sp_cuda_point){0};
    sp_cuda_set_job(out, job);
    sp_cuda_set(out, "VERB", sample ? 2 : job->verb == SPARTA_MULTIPLY_TURNED ? 1 : 0);
    sp_cuda_set(out, "EXACT", job->dtype == SPARTA_F32 && !job->tf32);
    sp_cuda_set(out, "PARTS", p->side.parts);
    sp_cuda_set(out, "THIN", !sample && p->side.depth * (int)size < CHUNK);
    sp_cuda_set(out, "A_ALIGN", x);
    sp_cuda_set(out, "B_ALIGN", sample ? y : values);
    sp_cuda_set(out, "OUT_ALIGN", sample ? values : SP_MIN(y, residual));
    if (!sample) sp_cuda_set(out, "TOKENS", p->tokens);
    sp_cuda_set(out, "STAGES", p->stages);
}

/* Bytes of a tile of `size` rows or columns; turned, its lines are along them. */
static unsigned tile_bytes(bool turned, int lines, size_t size)
{
    const unsigned k = CHUNK / (unsigned)size, pad = turned && size == 4 ? 32 : 16;
    return turned ? k * ((unsigned)lines * (unsigned)size + pad) : (unsigned)lines * (CHUNK + pad);
}

static unsigned shared_bytes(const sp_cuda_job *job, const plan *p)
{
    const size_t size = sparta_dtype_size(job->dtype);
    const bool sample = job->verb == SPARTA_SAMPLE;
    const unsigned a = tile_bytes(sample, sample ? SP_STRIP : p->tokens, size),
                   b = tile_bytes(job->verb != SPARTA_MULTIPLY, sample ? SAMPLE_COLUMNS : SP_STRIP, size);
    return (unsigned)p->stages * (a + b);
}

/* ------------------------------------------------------------------ the row */
static bool takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    const bool verb =
        job->verb == SPARTA_MULTIPLY || job->verb == SPARTA_MULTIPLY_TURNED || job->verb == SPARTA_SAMPLE;
    const bool dtype = job->dtype == SPARTA_F16 || job->dtype == SPARTA_BF16 || job->dtype == SPARTA_F32;
    if (!verb || !dtype || (gpu->target != SP_TARGET_SM90A && gpu->target != SP_TARGET_SM80)) return false;
    if (!sp_index_words(job->height, job->width, job->down, job->right)) return false;
    /* Kernels count lines, blocks and tiles in 32 bits, also a little past the end. */
    const int64_t past = 1 << 10;
    if (job->down * job->height > INT32_MAX - past || job->right * job->width > INT32_MAX - past ||
        job->blocks > INT32_MAX || job->tokens > (int64_t)(INT32_MAX - past) * (CHUNK / 4))
        return false;
    return job->verb == SPARTA_SAMPLE || plan_of(job, gpu->target, gpu->processors).tiles <= INT32_MAX;
}

static size_t room(const sp_cuda_job *job, const sp_gpu *gpu)
{
    (void)job, (void)gpu;
    return 0;
}

static sparta_status run(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    const plan p = plan_of(job, gpu->target, gpu->processors);
    const bool sample = job->verb == SPARTA_SAMPLE;
    const sp_gpu_kernel *kernel;
    sp_cuda_point point;
    if (p.tiles == 0) return SPARTA_OK;
    point_of(job, &p, &point);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_tiles, sample ? "sample" : "product", &point, &kernel));
    const int64_t resident = (int64_t)RESIDENT * gpu->processors;
    const sp_grid grid = {.x = (unsigned)(sample ? SP_MIN(p.tiles, resident) : p.tiles),
                          .threads = THREADS,
                          .shared = shared_bytes(job, &p)};
    int blocks = (int)job->blocks, height = (int)job->height, width = (int)job->width, down = (int)job->down,
        right = (int)job->right, rows = (int)job->rows, cols = (int)job->cols;
    long long x_step = job->x_step, y_step = job->y_step, residual_step = job->residual_step,
              tokens = job->tokens;
    float scale = (float)job->scale;
    const void *x = job->x, *bias = job->bias, *residual = job->residual, *index = job->index,
               *keep = job->keep;
    void *values = job->values, *y = job->y;
    if (sample)
        return sp_gpu_launch(c, kernel, &grid, job->stream,
                             (void *[]){&values, &x, &y, &keep, &index, &x_step, &y_step, &tokens, &scale,
                                        &blocks, &height, &width, &down, &right, &rows, &cols});
    return sp_gpu_launch(c, kernel, &grid, job->stream,
                         (void *[]){&y, &x, &values, &index, &bias, &residual, &y_step, &x_step,
                                    &residual_step, &tokens, &blocks, &height, &width, &down, &right, &rows,
                                    &cols});
}

static bool kernel_of(const sp_cuda_job *job, const sp_gpu *gpu, int i, sp_cuda_asked *out)
{
    const plan p = plan_of(job, gpu->target, gpu->processors);
    if (i || p.tiles == 0) return false;
    *out = (sp_cuda_asked){.text = SP_CUDA_TEXT_tiles,
                           .entry = job->verb == SPARTA_SAMPLE ? "sample" : "product"};
    point_of(job, &p, &out->point);
    return true;
}

const sp_cuda_row sp_cuda_tiles = {
    .name = "tiles", .takes = takes, .room = room, .run = run, .kernel = kernel_of};

/* ------------------------------------------------------------------ points for the compile test: of jobs that differ in all that matters */
bool sp_cuda_points_tiles(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const struct {
        sparta_verb verb;
        sparta_dtype dtype;
        bool tf32;
        int side, align; /* of x and y, in bytes */
        int tokens;
        sp_target target;
        sp_words words;
    } jobs[] = {
        {SPARTA_MULTIPLY, SPARTA_F16, false, 64, 16, 4096, SP_TARGET_SM80, {0}},
        {SPARTA_MULTIPLY, SPARTA_BF16, false, 16, 4, 4096, SP_TARGET_SM80, {2, {SP_WORD_BIAS, SP_WORD_GELU}}},
        {SPARTA_MULTIPLY, SPARTA_F16, false, 32, 2, 64, SP_TARGET_SM90A, {2, {SP_WORD_SILU, SP_WORD_MUL}}},
        {SPARTA_MULTIPLY, SPARTA_F32, false, 64, 16, 4096, SP_TARGET_SM80, {1, {SP_WORD_BIAS}}},
        {SPARTA_MULTIPLY, SPARTA_F32, true, 16, 4, 4096, SP_TARGET_SM80, {1, {SP_WORD_ADD}}},
        {SPARTA_MULTIPLY_TURNED, SPARTA_F16, false, 16, 16, 4096, SP_TARGET_SM80, {0}},
        {SPARTA_MULTIPLY_TURNED, SPARTA_BF16, false, 128, 8, 64, SP_TARGET_SM80, {0}},
        {SPARTA_MULTIPLY_TURNED, SPARTA_F32, false, 32, 8, 64, SP_TARGET_SM80, {0}},
        {SPARTA_MULTIPLY_TURNED, SPARTA_F32, true, 64, 16, 4096, SP_TARGET_SM90A, {0}},
        {SPARTA_SAMPLE, SPARTA_F16, false, 16, 2, 4096, SP_TARGET_SM80, {0}},
        {SPARTA_SAMPLE, SPARTA_BF16, false, 64, 16, 4096, SP_TARGET_SM80, {0}},
        {SPARTA_SAMPLE, SPARTA_F32, false, 32, 16, 4096, SP_TARGET_SM80, {0}},
        {SPARTA_SAMPLE, SPARTA_F32, true, 64, 4, 4096, SP_TARGET_SM80, {0}},
    };
    enum { LINES = 8192, PROCESSORS = 132 };
    if (i < 0 || i >= (int)SP_COUNT(jobs)) return false;
    const int64_t blocks = LINES / jobs[i].side, step = LINES + jobs[i].align;
    const sp_cuda_job job = {.verb = jobs[i].verb,
                             .dtype = jobs[i].dtype,
                             .tf32 = jobs[i].tf32,
                             .rows = LINES,
                             .cols = LINES,
                             .height = jobs[i].side,
                             .width = jobs[i].side,
                             .down = blocks,
                             .right = blocks,
                             .tokens = jobs[i].tokens,
                             .x_step = step / (int64_t)sparta_dtype_size(jobs[i].dtype),
                             .y_step = step / (int64_t)sparta_dtype_size(jobs[i].dtype),
                             .words = jobs[i].words};
    const plan p = plan_of(&job, jobs[i].target, PROCESSORS);
    point_of(&job, &p, point);
    *entry = job.verb == SPARTA_SAMPLE ? "sample" : "product";
    *target = jobs[i].target;
    return true;
}
