/* Unstructured weights for few tokens: packing, and the point and launch of their product. */
#include "cuda/bits.h"
#include "cuda/bits.cu" /* its first part, which is C */
#include <string.h>

enum {
    MOST_LINES = 1 << 24,
    MOST_TILES = 1 << 22, /* whose records are fewer than 2^32 units */
    MOST_TOKENS = 64,
    MOST_UNEVEN = 56, /* with more there are no registers to put x together from single elements */
    PACK_WARPS = 8,   /* as bits.cu has them */
    PLACE_THREADS = 1024,
    STEP = 8 /* elements of 16 bytes */
};

static int64_t up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int64_t tiles_of(int64_t rows, int64_t cols)
{
    return up(rows, SP_BITS_SIDE) * up(cols, SP_BITS_SIDE);
}

static bool is_size(int64_t rows, int64_t cols)
{
    return rows > 0 && cols > 0 && rows <= MOST_LINES && cols <= MOST_LINES &&
           tiles_of(rows, cols) <= MOST_TILES;
}

size_t sp_bits_bytes(int64_t rows, int64_t cols, int64_t pairs)
{
    if (!is_size(rows, cols) || pairs < 0 || pairs > rows * up(cols, 2)) return 0;
    const int64_t tiles = tiles_of(rows, cols), directory = sp_bits_directory((int)tiles) * SP_BITS_UNIT;
    /* Each record ends at a whole unit. */
    const int64_t records = tiles * (SP_BITS_HEAD + SP_BITS_UNIT - 4) + 4 * pairs;
    return (size_t)(directory + up(records, SP_BITS_UNIT) * SP_BITS_UNIT + SP_BITS_TAIL);
}

static bool is_half(sparta_dtype dtype)
{
    return dtype == SPARTA_F16 || dtype == SPARTA_BF16;
}
static bool has_target(const sp_gpu *gpu)
{
    return gpu->target == SP_TARGET_SM90A || gpu->target == SP_TARGET_SM80;
}
/* Of directory and records. */
static uint32_t units_of(int64_t bytes)
{
    return (uint32_t)SP_MIN((bytes - SP_BITS_TAIL) / SP_BITS_UNIT, (int64_t)UINT32_MAX);
}

/* ------------------------------------------------------------------ pack */
/* As bits.cu has it. */
typedef struct weight_args {
    const void *from;
    void *packed;
    int64_t step;
    int32_t rows, cols, tiles;
    uint32_t units;
} weight_args;

static sparta_status pack(const sp_complaint *c, const sp_bits_weight *w, const sp_gpu *gpu)
{
    static const char *const entry[] = {"count", "place", "write"};
    const int64_t tiles = tiles_of(w->rows, w->cols);
    weight_args args = {w->from,          w->packed,      w->step,           (int32_t)w->rows,
                        (int32_t)w->cols, (int32_t)tiles, units_of(w->bytes)};
    sp_cuda_point point = {0};
    sp_cuda_set_dtype(&point, w->dtype);
    for (size_t i = 0; i < SP_COUNT(entry); i++) {
        const sp_gpu_kernel *kernel;
        const bool one = i == 1; /* block, that adds up */
        const sp_grid grid = {.x = one ? 1 : (unsigned)up(tiles, PACK_WARPS),
                              .threads = one ? PLACE_THREADS : PACK_WARPS * 32};
        SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_bits, entry[i], &point, &kernel));
        SP_TRY(sp_gpu_launch(c, kernel, &grid, w->stream, (void *[]){&args}));
    }
    return SPARTA_OK;
}

sparta_status sp_bits_pack(const sp_complaint *c, const sp_bits_weight *w)
{
    const sp_gpu *gpu = sp_gpu_at(w->gpu);
    sp_gpu_visit visit;
    if (!gpu) return sp_refuse(c, SPARTA_E_DEVICE, "there is no GPU %d: %s", w->gpu, sp_gpu_problem());
    if (!has_target(gpu) || !is_half(w->dtype) || !is_size(w->rows, w->cols))
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "a weight of %lldx%lld in %s has no kernel on %s; it takes f16 and bf16, sm_80 and "
                         "newer",
                         (long long)w->rows, (long long)w->cols, sparta_dtype_name(w->dtype), gpu->name);
    SP_TRY(sp_gpu_enter(c, gpu, &visit));
    const sparta_status status = pack(c, w, gpu);
    sp_gpu_leave(&visit);
    return status;
}

/* ------------------------------------------------------------------ the point */
/* The order of `choices` below. */
typedef struct point {
    int warps, slots, slot, strips, parts, occupancy, overlap;
} point;
enum { FIELDS = sizeof(point) / sizeof(int) };

static int token_tiles(const sp_cuda_job *job)
{
    return (int)up(job->tokens, 8);
}

static int shared_of(const point *p, int tiles)
{
    return SP_MAX(SP_BITS_RING(p->warps, p->slots, p->slot), SP_BITS_SUMS(p->warps, p->strips, tiles));
}

/* A slot for records a quarter above the average; a multiple of SLOT_STEP, so that few kernels serve many densities. With many tokens one for all: there are no registers for
 * the code that reads a longer one where it lies. */
static int slot_of(const sp_cuda_job *job)
{
    enum { SLOT_STEP = 512, MANY = 6 };
    const int64_t tiles = tiles_of(job->rows, job->cols), each = job->bytes / tiles,
                  most = up(SP_BITS_MOST, SLOT_STEP);
    return (int)(token_tiles(job) > MANY ? most : SP_MIN(up(each + each / 4, SLOT_STEP), most)) * SLOT_STEP;
}

/* Strips of a block, as many as share x, and blocks of a cluster that share the columns, so that all multiprocessors have work and end together: rounds of the chip, each
 * of which takes some tiles' time to begin. Of larger clusters a tenth of the chip holds none. */
static void cut(const sp_cuda_job *job, const sp_gpu *gpu, point *p)
{
    enum { MOST_PARTS = 8, BEGIN = 16, LARGE = 4, FEW_TILES = 3 };
    const bool hopper = gpu->target == SP_TARGET_SM90A;
    const int64_t strips = up(job->rows, SP_BITS_SIDE), steps = up(job->cols, SP_BITS_SIDE);
    int64_t best = INT64_MAX;
    for (int n = token_tiles(job) <= FEW_TILES ? 2 : 1; n >= 1; n--)
        for (int parts = 1; parts <= (hopper ? MOST_PARTS : 1); parts *= 2) {
            const int64_t held =
                SP_MAX((parts < LARGE ? gpu->processors : gpu->processors * 9 / 10) / parts, 1);
            const int64_t cost = up(up(strips, n), held) * (n * up(steps, parts) + BEGIN);
            if (cost < best) best = cost, p->strips = n, p->parts = parts;
        }
}

/* As many warps as registers allow for their sums; as many slots as shared memory holds. */
static point choose(const sp_cuda_job *job, const sp_gpu *gpu)
{
    enum { STATIC = 4 << 10, MOST_SLOTS = 8, LEAST_SLOTS = 2, FEWER = 4 };
    static const int warps[MOST_TOKENS / 8] = {16, 16, 12, 12, 8, 8, 8, 8};
    const int tiles = token_tiles(job), room = gpu->shared - STATIC;
    point p = {.warps = warps[tiles - 1],
               .slots = MOST_SLOTS,
               .slot = slot_of(job),
               .occupancy = 1,
               .overlap = gpu->target == SP_TARGET_SM90A};
    cut(job, gpu, &p);
    while (p.slots > LEAST_SLOTS && SP_BITS_RING(p.warps, p.slots, p.slot) > room) p.slots--;
    while (p.warps > FEWER && shared_of(&p, tiles) > room) p.warps -= FEWER;
    return p;
}

static bool is_possible(const point *p, int tiles, const sp_gpu *gpu)
{
    const bool hopper = gpu->target == SP_TARGET_SM90A;
    return p->warps >= 1 && p->warps <= 32 && p->slots >= 1 && p->slots <= 32 && p->slot >= 512 &&
           p->slot <= 1 << 14 && p->slot % 128 == 0 && p->parts >= 1 && p->parts <= (hopper ? 8 : 1) &&
           p->strips >= 1 && p->strips <= (tiles <= 6 ? 2 : 1) && p->occupancy >= 1 && p->occupancy <= 8 &&
           p->overlap <= hopper;
}
static bool settle(const sp_cuda_job *job, const sp_gpu *gpu, sp_choice *choice)
{
    point p = choose(job, gpu);
    for (int i = 0; i < FIELDS; i++)
        if (choice->value[i] != SP_BY_RULE) ((int *)&p)[i] = choice->value[i];
    memcpy(choice, &p, sizeof p);
    return is_possible(&p, token_tiles(job), gpu);
}

static const sp_choices choices = {
    .name = {"WARPS", "SLOTS", "SLOT", "STRIPS", "PARTS", "OCC", "PDL"},
    .variable = "SPARTA_CUDA_BITS_POINT",
    .text = SP_CUDA_TEXT_bits,
    .settle = settle,
};

static sparta_status point_of(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, point *out)
{
    sp_choice choice;
    SP_TRY(sp_choice_wanted(c, &choices, job, &choice));
    const bool possible = settle(job, gpu, &choice);
    memcpy(out, &choice, sizeof *out);
    return possible
               ? SPARTA_OK
               : sp_refuse(c, SPARTA_E_USAGE, "kernel bits cannot run so; change SPARTA_CUDA_BITS_POINT");
}

static bool is_even(const sp_cuda_job *job)
{
    return job->cols % STEP == 0 && job->x_step % STEP == 0 && (uintptr_t)job->x % 16 == 0;
}
static void set_point(sp_cuda_point *out, const point *p, const sp_cuda_job *job, bool even, sp_target target)
{
    sp_cuda_set_job(out, job);
    sp_cuda_set(out, "TILES", token_tiles(job));
    for (int i = 0; i < FIELDS; i++) sp_cuda_set(out, choices.name[i], ((const int *)p)[i]);
    sp_cuda_set(out, "EVEN", even);
    sp_cuda_set(out, "BULK", target == SP_TARGET_SM90A);
}

/* ------------------------------------------------------------------ the product */
/* As bits.cu has it. */
typedef struct problem {
    const void *packed, *x, *bias, *residual;
    void *y;
    int64_t x_step, y_step, residual_step;
    uint32_t units;
    int32_t rows, cols, tokens, strips, steps;
} problem;

static bool takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    return has_target(gpu) && is_half(job->dtype) && job->verb == SPARTA_MULTIPLY &&
           is_size(job->rows, job->cols) && job->tokens >= 1 &&
           job->tokens <= (is_even(job) ? MOST_TOKENS : MOST_UNEVEN) &&
           job->bytes >= (int64_t)sp_bits_bytes(job->rows, job->cols, 0) && (uintptr_t)job->values % 16 == 0;
}

static sparta_status multiply(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    const sp_gpu_kernel *kernel;
    sp_cuda_point all = {0};
    point p;
    problem args = {.packed = job->values,
                    .x = job->x,
                    .bias = job->bias,
                    .residual = job->residual,
                    .y = job->y,
                    .x_step = job->x_step,
                    .y_step = job->y_step,
                    .residual_step = job->residual_step,
                    .units = units_of(job->bytes),
                    .rows = (int32_t)job->rows,
                    .cols = (int32_t)job->cols,
                    .tokens = (int32_t)job->tokens,
                    .strips = (int32_t)up(job->rows, SP_BITS_SIDE),
                    .steps = (int32_t)up(job->cols, SP_BITS_SIDE)};
    SP_TRY(point_of(c, job, gpu, &p));
    set_point(&all, &p, job, is_even(job), gpu->target);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_bits, "bits", &all, &kernel));
    const sp_grid grid = {.x = (unsigned)(up(args.strips, p.strips) * p.parts),
                          .threads = (unsigned)p.warps * 32,
                          .shared = (unsigned)shared_of(&p, token_tiles(job)),
                          .cluster = (unsigned)p.parts,
                          .overlap = p.overlap};
    return sp_gpu_launch(c, kernel, &grid, job->stream, (void *[]){&args});
}

sparta_status sp_bits_multiply(const sp_complaint *c, const sp_cuda_job *job)
{
    const sp_gpu *gpu = sp_gpu_at(job->gpu);
    sp_gpu_visit visit;
    if (!gpu) return sp_refuse(c, SPARTA_E_DEVICE, "there is no GPU %d: %s", job->gpu, sp_gpu_problem());
    if (!takes(job, gpu))
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "no kernel multiplies %lld tokens of %s on %s; it takes 1 to %d of f16 or bf16, "
                         "and 1 to %d that do not begin on 16 bytes; sm_80 and newer",
                         (long long)job->tokens, sparta_dtype_name(job->dtype), gpu->name, (int)MOST_TOKENS,
                         (int)MOST_UNEVEN);
    SP_TRY(sp_gpu_enter(c, gpu, &visit));
    const sparta_status status = multiply(c, job, gpu);
    sp_gpu_leave(&visit);
    return status;
}

const sp_cuda_row sp_cuda_bits = {.name = "bits", .takes = takes, .choices = &choices};

/* ------------------------------------------------------------------ points of the compile test */
bool sp_cuda_points_bits(int i, sp_cuda_point *out, const char **entry, sp_target *target)
{
    static const struct {
        const char *entry;
        sparta_dtype dtype;
        int rows, tokens;
        double density;
        bool even;
        sp_words words;
    } cases[] = {
        {"count", SPARTA_F16, 64, 1, 0, true, {0}},
        {"place", SPARTA_BF16, 64, 1, 0, true, {0}},
        {"write", SPARTA_F16, 64, 1, 0, true, {0}},
        {"bits", SPARTA_F16, 8192, 1, .5, true, {0}},
        {"bits", SPARTA_F16, 8192, 16, .5, true, {0}},
        {"bits",
         SPARTA_BF16,
         4096,
         16,
         .1,
         true,
         {.n = 3, .word = {SP_WORD_BIAS, SP_WORD_GELU, SP_WORD_ADD}}},
        {"bits", SPARTA_F16, 1000, 16, 1, false, {.n = 1, .word = {SP_WORD_RELU}}},
        {"bits", SPARTA_F16, 28672, 24, .3, true, {.n = 2, .word = {SP_WORD_SILU, SP_WORD_MUL}}},
        {"bits", SPARTA_F16, 8192, 32, .5, true, {0}},
        {"bits", SPARTA_BF16, 8192, 40, .3, true, {0}},
        {"bits", SPARTA_F16, 8192, 48, .3, true, {0}},
        {"bits", SPARTA_F16, 8192, 56, .3, true, {0}},
        {"bits", SPARTA_F16, 8192, 64, .3, true, {0}},
        {"bits",
         SPARTA_BF16,
         4096,
         56,
         1,
         false,
         {.n = 3, .word = {SP_WORD_BIAS, SP_WORD_GELU, SP_WORD_ADD}}},
    };
    static const sp_target targets[] = {SP_TARGET_SM90A, SP_TARGET_SM80};
    if (i < 0 || i >= (int)(SP_COUNT(cases) * SP_COUNT(targets))) return false;
    const size_t which = (size_t)i / SP_COUNT(targets);
    *target = targets[(size_t)i % SP_COUNT(targets)];
    *entry = cases[which].entry;
    const sp_gpu gpu = {.processors = 132, .shared = 227 << 10, .target = *target};
    const double pairs = cases[which].rows * 4096. * cases[which].density;
    const sp_cuda_job job = {.verb = SPARTA_MULTIPLY,
                             .dtype = cases[which].dtype,
                             .rows = cases[which].rows,
                             .cols = 8192,
                             .bytes = (int64_t)sp_bits_bytes(cases[which].rows, 8192, (int64_t)pairs),
                             .tokens = cases[which].tokens,
                             .words = cases[which].words};
    const point p = choose(&job, &gpu);
    memset(out, 0, sizeof *out);
    if (!strcmp(*entry, "bits"))
        set_point(out, &p, &job, cases[which].even, *target);
    else
        sp_cuda_set_dtype(out, job.dtype);
    return true;
}
