/* Row dense: the blocks as a dense matrix in the workspace, multiplied by cuBLASLt where it is installed. It takes blocks that no kernel of ours takes (4x1, 1x1, 5x3), and
 * weights that are so full that the dense product is faster.
 *
 *     product   values --unpack--> matrix;  y = x matrix' + bias + residual, by cuBLASLt
 *                                           with other words: sums in f32, by cuBLASLt, --finish--> y
 *     sample    sums = x' y in f32, by cuBLASLt, --gather--> values
 *
 * cuBLASLt's own relu and gelu are not used: a NaN is 0 after its relu, and its gelu is the tanh form, by an instruction of 11 bits.
 */
#include "cuda/cuda.h"
#include "device/cublas.h"

enum {
    THREADS = 256,
    RESIDENT = 8,      /* blocks of threads of a multiprocessor */
    VECTOR_BYTES = 16, /* that a thread takes at once */
    WAVES = 4,         /* of the blocks that finish sums; below 65536 of them along y */
};

/* ------------------------------------------------------------------ sizes */
typedef struct sizes {
    int64_t taken, made;     /* features of x and of y; of a sample: its rows and columns */
    int64_t step, sums_step; /* elements from a line of the matrix to the next; of the sums */
    size_t matrix_bytes, sums_bytes;
} sizes;

static int64_t up(int64_t n, int64_t by)
{
    return (n + by - 1) / by * by;
}
static size_t align(size_t n)
{
    return (n + 255) & ~(size_t)255;
}

/* The workspace is asked for before the words are known: there is room for sums always. Sizes are below 2^31, so that nothing overflows. */
static sizes sizes_of(const sp_cuda_job *job)
{
    const size_t size = sparta_dtype_size(job->dtype);
    const bool sample = job->verb == SPARTA_SAMPLE, turned = job->verb == SPARTA_MULTIPLY_TURNED;
    sizes s = {.taken = turned || sample ? job->rows : job->cols,
               .made = turned || sample ? job->cols : job->rows};
    s.step = up(job->cols, VECTOR_BYTES / (int64_t)size);
    s.sums_step = sample ? up(job->cols, VECTOR_BYTES / (int64_t)size) : up(s.made, VECTOR_BYTES / 4);
    if (!sample) s.matrix_bytes = align((size_t)job->rows * (size_t)s.step * size);
    s.sums_bytes = align((size_t)(sample ? job->rows : job->tokens) * (size_t)s.sums_step * sizeof(float));
    return s;
}

/* ------------------------------------------------------------------ when it pays */
/* Share of the matrix from which on cuBLASLt is faster than the kernels for blocks, by the side of a block that shares x: times on an H200 with 8192 tokens, rows and
 * columns (128: 0.87 of cuBLAS when nothing is absent; 64: 1.32 of it at half; 32: 1.57 at a fifth; 16: 1.65 at 5 %, 0.92 at 10 %). */
static const struct {
    int side;
    double share;
} even[] = {{128, 0.87}, {64, 0.66}, {32, 0.31}, {16, 0.085}, {0, 0}};
/* Unpacking takes the time of a product with this many tokens: a matrix that is cleared, read and written, 6 bytes for each of its elements at 4.2 TB/s, against 2 operations for
 * each and a token at 660 TFLOP/s. */
#define UNPACKING_TOKENS 470.0

static bool is_full(const sp_cuda_job *job, const sp_gpu *gpu)
{
    enum { FEW_TOKENS = 64 };
    const int64_t side = job->verb == SPARTA_MULTIPLY_TURNED ? job->width : job->height;
    size_t i = 0;
    if (gpu->target != SP_TARGET_SM90A || job->dtype == SPARTA_F32 || job->tokens <= FEW_TOKENS) return false;
    while (even[i].side > side) i++;
    return (double)job->blocks > even[i].share * (1 + UNPACKING_TOKENS / (double)job->tokens) *
                                     (double)job->down * (double)job->right;
}

/* ------------------------------------------------------------------ the row */
/* Nothing here follows from addresses or words: the workspace is asked for without. */
static bool can(const sp_cuda_job *job, const sp_gpu *gpu)
{
    const bool verb =
        job->verb == SPARTA_MULTIPLY || job->verb == SPARTA_MULTIPLY_TURNED || job->verb == SPARTA_SAMPLE;
    const bool dtype = job->dtype == SPARTA_F16 || job->dtype == SPARTA_BF16 || job->dtype == SPARTA_F32;
    if (!verb || !dtype || (gpu->target != SP_TARGET_SM90A && gpu->target != SP_TARGET_SM80)) return false;
    if (job->rows > INT32_MAX || job->cols > INT32_MAX || job->tokens > INT32_MAX ||
        job->height > INT32_MAX / job->width)
        return false;
    const sizes s = sizes_of(job);
    return job->x_step >= s.taken && job->y_step >= s.made && s.matrix_bytes <= gpu->memory &&
           s.sums_bytes <= gpu->memory;
}

static bool takes(const sp_cuda_job *job, const sp_gpu *gpu)
{
    if (job->own || !can(job, gpu)) return false;
    const bool nobody_else = !sp_index_words(job->height, job->width, job->down, job->right);
    return (nobody_else || is_full(job, gpu)) && !*sp_cublas_problem();
}

static size_t room(const sp_cuda_job *job, const sp_gpu *gpu)
{
    const sizes s = sizes_of(job);
    (void)gpu;
    return s.matrix_bytes + s.sums_bytes + SP_CUBLAS_ROOM;
}

/* ------------------------------------------------------------------ blocks and matrix */
/* As dense.cu has it. */
typedef struct pattern {
    const void *pos, *crd, *keep;
    int64_t blocks, down, rows, cols, step;
    int32_t height, width;
} pattern;

/* Elements of a row of a block that one load takes: a power of 2 that divides it, where the values are aligned so. */
static int vector_of(const sp_cuda_job *job)
{
    const int64_t size = (int64_t)sparta_dtype_size(job->dtype),
                  all = (int64_t)(uintptr_t)job->values | job->width * size | VECTOR_BYTES;
    return (int)((all & -all) / size);
}

static sp_grid grid_of(int64_t items, const sp_gpu *gpu)
{
    return (sp_grid){
        .x = (unsigned)SP_MIN((items + THREADS - 1) / THREADS, (int64_t)RESIDENT * gpu->processors),
        .threads = THREADS};
}

/* entry unpack: blocks to `matrix`; gather: back. */
static sparta_status move(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, const char *entry,
                          void *matrix, int64_t step)
{
    const sp_gpu_kernel *kernel;
    const int vector = vector_of(job);
    const bool to_matrix = job->verb != SPARTA_SAMPLE;
    sp_cuda_point point = {0};
    pattern p = {job->pos,  job->crd,  job->keep, job->blocks,          job->down,
                 job->rows, job->cols, step,      (int32_t)job->height, (int32_t)job->width};
    void *values = job->values;
    float scale = (float)job->scale;
    void *argument[] = {to_matrix ? &matrix : &values, to_matrix ? &values : &matrix, &p, &scale};
    const sp_grid grid = grid_of(job->blocks * job->height * job->width / vector, gpu);
    sp_cuda_set_dtype(&point, job->dtype);
    sp_cuda_set(&point, "VECTOR", vector);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_dense, entry, &point, &kernel));
    return sp_gpu_launch(c, kernel, &grid, job->stream, argument);
}

static sparta_status finish(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, const sizes *s,
                            const void *sums)
{
    const sp_gpu_kernel *kernel;
    sp_cuda_point point = {0};
    void *y = job->y;
    const void *bias = job->bias, *residual = job->residual;
    int64_t y_step = job->y_step, step = s->sums_step, residual_step = job->residual_step,
            tokens = job->tokens, made = s->made;
    sp_grid grid = grid_of(made, gpu);
    grid.y = (unsigned)SP_MIN(tokens, WAVES * RESIDENT * (int64_t)gpu->processors / grid.x + 1);
    sp_cuda_set_job(&point, job);
    SP_TRY(sp_cuda_kernel(c, gpu, SP_CUDA_TEXT_dense, "finish", &point, &kernel));
    return sp_gpu_launch(
        c, kernel, &grid, job->stream,
        (void *[]){&y, &sums, &bias, &residual, &y_step, &step, &residual_step, &tokens, &made});
}

/* ------------------------------------------------------------------ products */
/* Words that cuBLASLt has: at most a bias, then a residual. */
static bool is_plain(const sp_cuda_job *job, const sizes *s)
{
    const sp_words *w = &job->words;
    int i = 0;
    if (i < w->n && w->word[i] == SP_WORD_BIAS) i++;
    if (i < w->n && w->word[i] == SP_WORD_ADD && job->residual_step >= s->made) i++;
    return i == w->n;
}

static sparta_status fill_matrix(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu,
                                 const sizes *s)
{
    if (job->blocks < job->down * job->right)
        SP_TRY(sp_gpu_fill(c, job->room, 0, s->matrix_bytes, job->stream));
    return move(c, job, gpu, "unpack", job->room, s->step);
}

/* By cuBLASLt: straight to y, or sums that `finish` ends. */
static sparta_status multiply(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu,
                              const sizes *s, bool plain)
{
    void *sums = job->room + s->matrix_bytes;
    const sp_words *w = &job->words;
    const sp_dense d = {.rows = job->tokens,
                        .cols = s->made,
                        .depth = s->taken,
                        .b_turned = job->verb == SPARTA_MULTIPLY,
                        .dtype = job->dtype,
                        .out_dtype = plain ? job->dtype : SPARTA_F32,
                        .tf32 = job->tf32 && job->dtype == SPARTA_F32,
                        .a = job->x,
                        .b = job->room,
                        .out = plain ? job->y : sums,
                        .a_step = job->x_step,
                        .b_step = s->step,
                        .out_step = plain ? job->y_step : s->sums_step,
                        .bias = plain && w->n && w->word[0] == SP_WORD_BIAS ? job->bias : NULL,
                        .add = plain && w->n && w->word[w->n - 1] == SP_WORD_ADD ? job->residual : NULL,
                        .add_step = job->residual_step,
                        .room = job->room + s->matrix_bytes + s->sums_bytes};
    SP_TRY(sp_cublas_multiply(c, gpu, &d, job->stream));
    return plain ? SPARTA_OK : finish(c, job, gpu, s, sums);
}

/* Where cuBLASLt has no algorithm with a bias or a residual, words are ours, too. */
static sparta_status product(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, const sizes *s)
{
    void *sums = job->room + s->matrix_bytes;
    sparta_status status = SPARTA_E_UNSUPPORTED;
    if (!job->blocks || !s->taken) {
        SP_TRY(sp_gpu_fill(c, sums, 0, s->sums_bytes, job->stream));
        return finish(c, job, gpu, s, sums);
    }
    SP_TRY(fill_matrix(c, job, gpu, s));
    if (is_plain(job, s)) status = multiply(c, job, gpu, s, true);
    return status == SPARTA_E_UNSUPPORTED ? multiply(c, job, gpu, s, false) : status;
}

/* ------------------------------------------------------------------ samples */
static sparta_status sample(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu, const sizes *s)
{
    const sp_dense d = {.rows = job->rows,
                        .cols = job->cols,
                        .depth = job->tokens,
                        .a_turned = true,
                        .dtype = job->dtype,
                        .out_dtype = SPARTA_F32,
                        .tf32 = job->tf32 && job->dtype == SPARTA_F32,
                        .a = job->x,
                        .b = job->y,
                        .out = job->room,
                        .a_step = job->x_step,
                        .b_step = job->y_step,
                        .out_step = s->sums_step,
                        .room = job->room + s->sums_bytes};
    if (!job->tokens || !job->rows || !job->cols)
        return sp_gpu_fill(c, job->values, 0,
                           (size_t)(job->blocks * job->height * job->width) * sparta_dtype_size(job->dtype),
                           job->stream);
    SP_TRY(sp_cublas_multiply(c, gpu, &d, job->stream));
    return move(c, job, gpu, "gather", job->room, s->sums_step);
}

static sparta_status run(const sp_complaint *c, const sp_cuda_job *job, const sp_gpu *gpu)
{
    const sizes s = sizes_of(job);
    if (job->verb == SPARTA_SAMPLE) return job->blocks ? sample(c, job, gpu, &s) : SPARTA_OK;
    return job->tokens && s.made ? product(c, job, gpu, &s) : SPARTA_OK;
}

const sp_cuda_row sp_cuda_dense = {.name = "dense", .takes = takes, .room = room, .run = run, .plain = true};

/* ------------------------------------------------------------------ points of the compile test */
bool sp_cuda_points_dense(int i, sp_cuda_point *point, const char **entry, sp_target *target)
{
    static const struct {
        const char *entry;
        sparta_dtype dtype;
        int vector;
        sp_words words;
    } cases[] = {
        {"unpack", SPARTA_F16, 8, {0}},
        {"unpack", SPARTA_BF16, 1, {0}},
        {"unpack", SPARTA_F32, 4, {0}},
        {"gather", SPARTA_F16, 8, {0}},
        {"gather", SPARTA_BF16, 2, {0}},
        {"gather", SPARTA_F32, 1, {0}},
        {"finish", SPARTA_F16, 0, {2, {SP_WORD_BIAS, SP_WORD_RELU}}},
        {"finish", SPARTA_BF16, 0, {3, {SP_WORD_BIAS, SP_WORD_GELU, SP_WORD_ADD}}},
        {"finish", SPARTA_F32, 0, {2, {SP_WORD_SILU, SP_WORD_MUL}}},
        {"finish", SPARTA_F16, 0, {0}},
    };
    static const sp_target targets[] = {SP_TARGET_SM90A, SP_TARGET_SM80};
    if (i < 0 || i >= (int)(SP_COUNT(cases) * SP_COUNT(targets))) return false;
    const size_t which = (size_t)i / SP_COUNT(targets);
    const sp_cuda_job job = {
        .verb = SPARTA_MULTIPLY, .dtype = cases[which].dtype, .words = cases[which].words};
    *point = (sp_cuda_point){0};
    if (cases[which].vector) {
        sp_cuda_set_dtype(point, job.dtype);
        sp_cuda_set(point, "VECTOR", cases[which].vector);
    } else
        sp_cuda_set_job(point, &job);
    *entry = cases[which].entry;
    *target = targets[(size_t)i % SP_COUNT(targets)];
    return true;
}
