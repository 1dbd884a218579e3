/* Few tokens: which point of few.cu, and its launch. */
#include "cuda/cuda.h"
#include "cuda/few.cu" /* its first part, which is C */
#include <string.h>

enum {
    MOST_TOKENS = 64,
    TOKENS_OF_A_TILE = 8,
    MOST_TILES = MOST_TOKENS / TOKENS_OF_A_TILE,
    MOST_SIDE = 1 << 16,
    LIST_BYTES = 16 << 10 /* shared memory that the kernel has of its own, at most */
};

static int64_t up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* ------------------------------------------------------------------ points */
/* Warps that registers allow on a multiprocessor, with how much of the values each has under way: SPAN * DEPTH columns of its rows. Found by compiling (ptxas -v): no
 * row spills at its number of warps. */
typedef struct shape {
    int warps, span, depth, ahead;
} shape;
enum { ROWS_16, ROWS_32, ROWS_64, ROWS_KINDS };
static const shape shapes[ROWS_KINDS][MOST_TILES] = {
    [ROWS_16] = {{32, 64, 1, 1},
                 {24, 64, 1, 1},
                 {24, 64, 1, 1},
                 {20, 64, 1, 1},
                 {16, 64, 1, 1},
                 {16, 64, 1, 1},
                 {12, 64, 1, 1},
                 {12, 64, 1, 1}},
    [ROWS_32] = {{16, 64, 2, 1},
                 {16, 64, 2, 1},
                 {16, 64, 1, 1},
                 {16, 64, 1, 1},
                 {12, 64, 1, 1},
                 {12, 64, 1, 1},
                 {8, 64, 1, 1},
                 {8, 64, 1, 1}},
    [ROWS_64] = {{16, 64, 1, 1},
                 {12, 64, 1, 1},
                 {12, 64, 1, 1},
                 {8, 64, 1, 1},
                 {8, 32, 2, 0},
                 {8, 32, 2, 0},
                 {8, 32, 1, 1},
                 {8, 32, 1, 1}},
};

/* The order of `choices` below. */
typedef struct point {
    int rows, warps, span, depth, ahead, occupancy, ordered, overlap;
} point;
enum { FIELDS = sizeof(point) / sizeof(int) };

/* 16 rows where strips of 32 would not meet every multiprocessor, or would read x for halves that are not there; 64 where x is what
 * takes the time, if there is work for all. */
static int rows_kind(const sp_cuda_job *job, int tiles, int processors, int wanted)
{
    if (wanted == 16 || wanted == 32 || wanted == 64) return wanted / 32;
    if (job->height < 32 || up(job->rows, 32) < processors) return ROWS_16;
    return tiles > 4 && job->height >= 64 && job->rows / 64 >= 2 * processors ? ROWS_64 : ROWS_32;
}

static int tiles_of(const sp_cuda_job *job)
{
    return (int)up(job->tokens, TOKENS_OF_A_TILE);
}

/* As many warps in a block as fill the chip when every strip is there at once; but none without work. Widths that are no power of two are divided by, and
 * narrow ones give lanes addresses of their own: both take registers. */
static point choose(const sp_cuda_job *job, const sp_gpu *gpu, const point *wanted)
{
    enum { FEWEST_WARPS = 4, MOST_WARPS = 16 };
    const int tiles = tiles_of(job), kind = rows_kind(job, tiles, gpu->processors, wanted->rows),
              rows = 16 << kind;
    const shape s = shapes[kind][tiles - 1];
    const bool plain = (job->width & (job->width - 1)) == 0 && job->width >= s.span;
    const int most = plain || s.warps <= FEWEST_WARPS ? s.warps : s.warps - FEWEST_WARPS;
    const int64_t strips = up(job->rows, rows), on_each = up(strips, gpu->processors);
    const int64_t columns = job->blocks * job->height * job->width / SP_MAX(strips * rows, 1);
    int warps = FEWEST_WARPS;
    while (warps < MOST_WARPS && 2 * warps * on_each <= most && warps * (int64_t)s.span < columns) warps *= 2;
    while (warps > 1 && (warps > most || SP_FEW_SHARED(warps, rows, tiles) > gpu->shared - LIST_BYTES))
        warps /= 2;
    if (wanted->warps >= 1 && wanted->warps <= MOST_WARPS) warps = wanted->warps;
    const int occupancy = SP_MAX(most / warps, 1);
    return (point){.rows = rows,
                   .warps = warps,
                   .span = s.span,
                   .depth = s.depth,
                   .ahead = s.ahead,
                   .occupancy = occupancy,
                   .ordered = on_each > occupancy,
                   .overlap = gpu->target == SP_TARGET_SM90A};
}

static bool is_possible(const point *p, const sp_cuda_job *job, const sp_gpu *gpu)
{
    enum { MOST_WARPS = 64 /* of a multiprocessor */ };
    const int strip = sp_few_strip((int)job->height);
    return (p->rows == 16 || p->rows == 32 || p->rows == 64) && strip % p->rows == 0 && p->warps >= 1 &&
           p->warps <= 16 && (p->span == 32 || p->span == 64) && p->depth >= 1 && p->depth <= 8 &&
           p->ahead <= 1 && p->ordered <= 1 && p->overlap <= (gpu->target == SP_TARGET_SM90A) &&
           p->occupancy >= 1 && p->occupancy * p->warps <= MOST_WARPS &&
           SP_FEW_SHARED(p->warps, p->rows, tiles_of(job)) <= gpu->shared - LIST_BYTES;
}

static bool settle(const sp_cuda_job *job, const sp_gpu *gpu, sp_choice *choice)
{
    point p, wanted;
    memcpy(&wanted, choice, sizeof wanted);
    p = choose(job, gpu, &wanted);
    memcpy(choice, &p, sizeof p);
    for (int i = 0; i < FIELDS; i++)
        if (((int *)&wanted)[i] >= 0) choice->value[i] = ((int *)&wanted)[i];
    memcpy(&p, choice, sizeof p);
    return is_possible(&p, job, gpu);
}

static const sp_choices choices = {
    .name = {"ROWS", "WARPS", "SPAN", "DEPTH", "AHEAD", "OCC", "ORDERED", "PDL"},
    .variable = "SPARTA_CUDA_FEW_POINT",
    .text = SP_CUDA_TEXT_few,
    .settle = settle,
    .space = {"ROWS=16 WARPS=4", "ROWS=16 WARPS=8", "ROWS=16 WARPS=16", "ROWS=32 WARPS=4", "ROWS=32 WARPS=8",
              "ROWS=32 WARPS=16 DEPTH=1", "ROWS=64 WARPS=4", "ROWS=64 WARPS=8",
              "ROWS=16 WARPS=8 DEPTH=2 OCC=2", "ROWS=32 WARPS=8 DEPTH=1", "ROWS=16 WARPS=12", "SPAN=32",
              "PDL=0"},
};

static sparta_status point_of(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, point *out)
{
    sp_choice choice;
    SP_TRY(sp_choice_wanted(c, &choices, job, &choice));
    const bool possible = settle(job, gpu, &choice);
    memcpy(out, &choice, sizeof *out);
    return possible ? SPARTA_OK
                    : sp_refuse(c, SPARTA_E_USAGE, "kernel few cannot run so; change SPARTA_CUDA_FEW_POINT");
}

static void set_point(sp_cuda_point *out, const point *p, const sp_cuda_job *job)
{
    sp_cuda_set_job(out, job);
    sp_cuda_set(out, "HEIGHT", (int)job->height);
    sp_cuda_set(out, "WIDTH", (int)job->width);
    sp_cuda_set(out, "TILES", tiles_of(job));
    for (int i = 0; i < FIELDS; i++) sp_cuda_set(out, choices.name[i], ((const int *)p)[i]);
}

/* ------------------------------------------------------------------ the row */
static bool is_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* Loads are of 16 bytes: x and its tokens begin there, and no load is cut by the last column. */
static bool takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    return job->verb == SPARTA_MULTIPLY &&
           (gpu->target == SP_TARGET_SM90A || gpu->target == SP_TARGET_SM80) &&
           (job->dtype == SPARTA_F16 || job->dtype == SPARTA_BF16) && job->tokens >= 1 &&
           job->tokens <= MOST_TOKENS && job->height <= MOST_SIDE && job->width <= MOST_SIDE &&
           sp_index_takes((int)job->height) && sp_index_takes((int)job->width) &&
           job->rows <= INT32_MAX - MOST_SIDE && job->cols <= INT32_MAX - MOST_SIDE &&
           job->height * job->width <= INT32_MAX && job->blocks <= INT32_MAX &&
           sp_index_words(job->height, job->width, job->down, job->right) > 0 &&
           job->cols % SP_FEW_CHUNK == 0 && job->x_step % SP_FEW_CHUNK == 0 && is_aligned(job->x) &&
           is_aligned(job->values);
}

static size_t room(const sp_cuda_job *job, const sp_gpu *gpu)
{
    (void)job, (void)gpu;
    return 0;
}

/* As few.cu has it. */
typedef struct problem {
    const void *values, *x, *bias, *residual;
    void *y;
    const int32_t *index;
    int64_t x_step, y_step, residual_step;
    int32_t rows, cols, down, right, blocks, tokens;
} problem;

static sparta_status run(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    const sp_gpu_kernel *kernel;
    sp_cuda_point all = {0};
    point p;
    problem args = {.values = job->values,
                    .x = job->x,
                    .bias = job->bias,
                    .residual = job->residual,
                    .y = job->y,
                    .index = job->index,
                    .x_step = job->x_step,
                    .y_step = job->y_step,
                    .residual_step = job->residual_step,
                    .rows = (int32_t)job->rows,
                    .cols = (int32_t)job->cols,
                    .down = (int32_t)job->down,
                    .right = (int32_t)job->right,
                    .blocks = (int32_t)job->blocks,
                    .tokens = (int32_t)job->tokens};
    SP_TRY(point_of(c, job, gpu, &p));
    set_point(&all, &p, job);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_few, "few", &all, &kernel));
    const sp_side side = sp_side_across((int)job->height, (int)job->width, (int)job->down, (int)job->right);
    const sp_grid grid = {.x = (unsigned)(side.strips * (sp_few_strip((int)job->height) / p.rows)),
                          .threads = (unsigned)p.warps * 32,
                          .shared = (unsigned)SP_FEW_SHARED(p.warps, p.rows, tiles_of(job)),
                          .overlap = p.overlap};
    return sp_gpu_launch(c, kernel, &grid, job->stream, (void *[]){&args});
}

static bool kernel_of(const sp_cuda_job *job, const sp_gpu *gpu, int i, sp_cuda_asked *out)
{
    sp_choice choice = sp_choice_quietly(&choices, job);
    point p;
    if (i || !settle(job, gpu, &choice)) return false;
    memcpy(&p, &choice, sizeof p);
    *out = (sp_cuda_asked){.text = SP_CUDA_TEXT_few, .entry = "few"};
    set_point(&out->point, &p, job);
    return true;
}

const sp_cuda_row sp_cuda_few = {
    .name = "few", .takes = takes, .room = room, .run = run, .choices = &choices, .kernel = kernel_of};

/* ------------------------------------------------------------------ points of the compile test */
bool sp_cuda_points_few(int i, sp_cuda_point *out, const char **entry, sp_target *target)
{
    static const struct {
        sparta_dtype dtype;
        int height, width, rows, tokens;
        sp_words words;
    } cases[] = {
        {SPARTA_F16, 64, 64, 28672, 1, {0}},
        {SPARTA_F16, 64, 64, 28672, 16, {0}},
        {SPARTA_BF16, 64, 64, 28672, 16, {.n = 3, .word = {SP_WORD_BIAS, SP_WORD_GELU, SP_WORD_ADD}}},
        {SPARTA_F16, 64, 64, 28672, 24, {.n = 1, .word = {SP_WORD_RELU}}},
        {SPARTA_F16, 64, 64, 28672, 32, {.n = 2, .word = {SP_WORD_SILU, SP_WORD_MUL}}},
        {SPARTA_BF16, 64, 64, 28672, 40, {0}},
        {SPARTA_F16, 64, 64, 28672, 64, {0}},
        {SPARTA_F16, 64, 64, 1024, 8, {0}},
        {SPARTA_F16, 64, 64, 4096, 64, {0}},
        {SPARTA_F16, 16, 16, 8192, 16, {0}},
        {SPARTA_BF16, 16, 64, 8192, 64, {0}},
        {SPARTA_F16, 32, 32, 8192, 16, {0}},
        {SPARTA_F16, 32, 16, 8192, 40, {0}},
        {SPARTA_F16, 64, 16, 8192, 24, {0}},
        {SPARTA_F16, 128, 128, 28672, 16, {0}},
        {SPARTA_F16, 128, 192, 28672, 16, {0}},
        {SPARTA_F16, 192, 320, 28672, 56, {0}},
    };
    static const sp_target targets[] = {SP_TARGET_SM90A, SP_TARGET_SM80};
    enum { THROUGH_THE_SPACE = 2 };
    sp_choice choice;
    int which;
    if (i < 0 || !sp_choice_sample(&choices, i / (int)SP_COUNT(targets), SP_COUNT(cases), THROUGH_THE_SPACE,
                                   &choice, &which))
        return false;
    *target = targets[(size_t)i % SP_COUNT(targets)];
    *entry = "few";
    const sp_gpu gpu = {.processors = 132, .shared = 227 << 10, .target = *target};
    const sp_cuda_job job = {.verb = SPARTA_MULTIPLY,
                             .dtype = cases[which].dtype,
                             .rows = cases[which].rows,
                             .cols = 8192,
                             .height = cases[which].height,
                             .width = cases[which].width,
                             .blocks = (int64_t)cases[which].rows * 8192 / 10 /
                                       (cases[which].height * cases[which].width),
                             .tokens = cases[which].tokens,
                             .words = cases[which].words};
    point p;
    settle(&job, &gpu, &choice);
    memcpy(&p, &choice, sizeof p);
    memset(out, 0, sizeof *out);
    set_point(out, &p, &job);
    return true;
}
