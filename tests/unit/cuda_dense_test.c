/* Row dense: its text run on the CPU, the jobs it takes, and, with the fake driver and the fake cuBLASLt, what it launches. */
#include "fake_bed.h"
#include "cuda/cuda.h"
#include "jit/gpu.h"

/* ------------------------------------------------------------------ the text, as C: one thread of one block */
typedef uint8_t u8;
typedef uint32_t u32;
typedef int32_t i32;
typedef int64_t i64;
#define KERNEL       static void
#define DEVICE       static
#define __align__(n) __attribute__((aligned(n)))
#define ELEMENT      float
#define VECTOR       2
#define WORDS        1
static const struct {
    int x, y;
} blockIdx = {0, 0}, threadIdx = {0, 0}, blockDim = {1, 1}, gridDim = {1, 1};
static float wide(float x)
{
    return x;
}
static float narrow(float x)
{
    return x;
}
static float epilogue(float v, float bias, float residual)
{
    return 2 * (v + bias) + residual;
}
#include "cuda/dense.cu"

enum { H = 3, W = 4, ROWS = 8, COLS = 10, ALL = 9, STEP = 12 };
static const i32 pos[] = {0, 2, 2, 4},
                 crd[] = {0, 2, 1, 2}; /* the last column of blocks and the last row reach over the edge */
static u8 keep[4 * H * W];
static _Alignas(16) float values[4 * H * W], matrix[ROWS + 1][STEP], dense[ROWS][COLS];

static pattern some(bool kept)
{
    memset(dense, 0, sizeof dense);
    for (int e = 0; e < 4 * H * W; e++) {
        const int block = e / (H * W), row = (block < 2 ? 0 : 2) * H + e % (H * W) / W,
                  col = crd[block] * W + e % W;
        keep[e] = e % 5 != 0;
        values[e] = (float)e + 1;
        if (row < ROWS && col < COLS && (!kept || keep[e])) dense[row][col] = values[e];
    }
    return (pattern){pos, crd, kept ? keep : NULL, 4, 3, ROWS, COLS, STEP, H, W};
}

static void blocks_are_unpacked(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        const pattern p = some(kept);
        memset(matrix, 0, sizeof matrix);
        unpack(&matrix[0][0], values, p);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLS; j++) assert_true(matrix[i][j] == dense[i][j]);
        for (int j = 0; j < STEP; j++) assert_true(matrix[ROWS][j] == 0);
    }
}

static void sums_are_gathered(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        const pattern p = some(kept);
        float got[4 * H * W] __attribute__((aligned(16)));
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < STEP; j++) matrix[i][j] = j < COLS ? (float)(100 * i + j) : 1e9f;
        gather(got, &matrix[0][0], p, .5f);
        for (int e = 0; e < 4 * H * W; e++) {
            const int block = e / (H * W), row = (block < 2 ? 0 : 2) * H + e % (H * W) / W,
                      col = crd[block] * W + e % W;
            const bool there = row < ROWS && col < COLS && (!kept || keep[e]);
            assert_true(got[e] == (there ? .5f * (float)(100 * row + col) : 0));
        }
    }
}

static void words_end_sums(void **state)
{
    (void)state;
    const float sums[] = {1, 2, 3, 0, 4, 5, 6, 0}, bias[] = {10, 20, 30}, residual[] = {.5f, 1, 2, 3};
    float y[10];
    memset(y, 0, sizeof y);
    finish(y, sums, bias, residual, 5, 4, 1, 2, 3);
    static const float want[] = {22.5f, 45, 68, 0, 0, 29, 52, 75, 0, 0};
    for (int i = 0; i < 10; i++) assert_true(y[i] == want[i]);
    finish(y, sums, NULL, NULL, 5, 4, 0, 1, 3);
    assert_true(y[0] == 2 && y[2] == 6);
}

/* Whatever they hold, nothing outside of the matrix is touched: a sanitizer watches. */
static void hostile_patterns_lead_nowhere(void **state)
{
    (void)state;
    static const i32 wild[] = {INT32_MIN, -1, 0, 1, 2, 3, 1000, INT32_MAX};
    float *exact = malloc(sizeof(float) * ROWS * STEP);
    assert_non_null(exact);
    memset(exact, 0, sizeof(float) * ROWS * STEP);
    for (int n = 0; n < 4096; n++) {
        i32 bad_pos[4], bad_crd[4];
        for (int i = 0; i < 4; i++) bad_pos[i] = wild[(n >> i) % 8], bad_crd[i] = wild[(n * 7 >> 2 * i) % 8];
        const pattern p = {bad_pos, bad_crd, NULL, 4, 3, ROWS, COLS, STEP, H, W};
        unpack(exact, values, p);
        gather(values, exact, p, 1);
    }
    free(exact);
}

/* ------------------------------------------------------------------ which jobs */
static sp_cuda_job job_of(int64_t side, int64_t width, double share, int64_t tokens)
{
    enum { N = 4096 };
    sp_cuda_job job = {.verb = SPARTA_MULTIPLY,
                       .dtype = SPARTA_F16,
                       .rows = N,
                       .cols = N,
                       .height = side,
                       .width = width,
                       .down = (N + side - 1) / side,
                       .right = (N + width - 1) / width,
                       .tokens = tokens,
                       .x_step = N,
                       .y_step = N};
    job.blocks = (int64_t)(share * (double)(job.down * job.right));
    return job;
}

static const char *row_for(const sp_cuda_job *job)
{
    const sp_cuda_row *row = sp_cuda_find(job);
    return row ? row->name : "none";
}

static void what_it_takes(void **state)
{
    (void)state;
    (void)fake_library();
    static const struct {
        int64_t side, width;
        double share;
        int64_t tokens;
        const char *row;
    } cases[] = {
        {4, 1, .1, 128, "dense"},     {1, 1, .1, 1, "dense"},         {5, 3, .1, 0, "dense"},
        {128, 128, 1, 8192, "dense"}, {128, 128, .8, 8192, "strips"}, {64, 64, .75, 8192, "dense"},
        {64, 64, .5, 8192, "strips"}, {32, 32, .5, 8192, "dense"},    {32, 32, .3, 8192, "strips"},
        {16, 16, .2, 8192, "dense"},  {16, 16, .05, 8192, "tiles"},   {64, 64, 1, 64, "few"},
        {64, 64, .75, 512, "strips"}, /* unpacking would take too long */
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_cuda_job job = job_of(cases[i].side, cases[i].width, cases[i].share, cases[i].tokens);
        if (strcmp(row_for(&job), cases[i].row))
            fail_msg("%dx%d %.2f %d: %s, not %s", (int)job.height, (int)job.width, cases[i].share,
                     (int)job.tokens, row_for(&job), cases[i].row);
        job.own = true;
        assert_string_not_equal(row_for(&job), "dense");
    }
    sp_cuda_job job = job_of(4, 1, .1, 128);
    job.dtype = SPARTA_F64;
    assert_string_equal(row_for(&job), "none");
    job = job_of(4, 1, .1, 128);
    job.x_step = 0; /* one token that is many: no matrix of cuBLASLt's */
    assert_string_equal(row_for(&job), "none");
    job = job_of(4, 1, .001, 16);
    job.rows = job.cols = job.x_step = job.y_step = 1 << 16; /* 8 GB on a GPU that has 1 */
    assert_string_equal(row_for(&job), "none");
}

static char said[600];
static const sp_complaint c = {.where = "test", .text = said, .size = sizeof said};

static void without_the_library(void **state)
{
    (void)state;
    setenv("SPARTA_CUBLAS", "/nowhere/libcublasLt.so.13", 1);
    sp_cuda_job job = job_of(4, 1, .1, 128);
    assert_string_equal(row_for(&job), "none");
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_E_UNSUPPORTED);
    assert_non_null(strstr(said, "no GPU kernel takes blocks of 4x1 in f16; blocks have sides of 16, 32 or a "
                                 "multiple of 64; others need cuBLASLt: SPARTA_CUBLAS /nowhere"));
    job.own = true;
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_E_UNSUPPORTED);
    assert_null(strstr(said, "cuBLASLt"));
    job = job_of(128, 128, 1, 8192);
    assert_string_equal(row_for(&job), "strips");
}

/* ------------------------------------------------------------------ what it launches */
static void need_nvrtc(void)
{
    if (sp_nvrtc_version()) return;
    print_message("%s\n", sp_nvrtc_problem());
    skip();
}

/* The workspace is asked for without words and addresses; it has to do for all of them. */
static void launches(void **state)
{
    (void)state;
    need_nvrtc();
    fake_cublas_state *f = fake_library();
    sp_cuda_job job = job_of(4, 1, .1, 128);
    const size_t bytes = sp_cuda_room(&job);
    assert_true(bytes >= 4096 * 4096 * 2 + 128 * 4096 * 4 + SP_CUBLAS_ROOM);
    job.words = (sp_words){2, {SP_WORD_BIAS, SP_WORD_GELU}};
    assert_int_equal(sp_cuda_room(&job), bytes);
    job.room = malloc(bytes + 256);
    assert_non_null(job.room);
    void *all = job.room;
    job.room = (char *)(((uintptr_t)all + 255) & ~(uintptr_t)255);
    if (sp_cuda_run(&c, &job)) fail_msg("%s", said);
    assert_true(fake()->launches == 2 && f->products == 1); /* unpack, finish */
    job.words = (sp_words){2, {SP_WORD_BIAS, SP_WORD_ADD}};
    job.residual = job.bias = job.room;
    job.residual_step = 4096;
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_OK);
    assert_true(fake()->launches == 3 && f->products == 2); /* unpack alone */
    job.residual_step = 0;
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_OK);
    assert_true(fake()->launches == 5 && f->products == 3);
    job.words = (sp_words){1, {SP_WORD_BIAS}};
    job.y_step++;
    f->no_bias = true; /* then sums, and the bias is ours */
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_OK);
    assert_true(fake()->launches == 7 && f->products == 4);
    f->none = true;
    job.y_step++; /* which plain products would see; sums have a plan */
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_OK);
    job.tokens--;
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_E_UNSUPPORTED);
    assert_non_null(strstr(said, "cuBLASLt has no algorithm for 127x4096x4096 in f16"));
    f->none = f->no_bias = false;
    job.tokens++;
    fake()->launches = 5;
    f->products = 3;
    job.blocks = 0;
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_OK);
    assert_true(fake()->launches == 6 && f->products == 3); /* finish alone */
    free(all);
    job = job_of(4, 1, .1, 128);
    job.verb = SPARTA_SAMPLE;
    all = malloc(sp_cuda_room(&job) + 256);
    assert_non_null(all);
    job.room = (char *)(((uintptr_t)all + 255) & ~(uintptr_t)255);
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_OK);
    assert_true(fake()->launches == 7 && f->products == 4 && fake()->allocations == 0); /* gather */
    snprintf(f->symbol, sizeof f->symbol, "cublasLtMatmul");
    f->result = 13;
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_E_DEVICE);
    assert_non_null(strstr(said, "cublasLtMatmul: status 13"));
    fake_fail("cuMemsetD8Async", SP_CUDA_OUT_OF_MEMORY);
    job.verb = SPARTA_MULTIPLY;
    assert_int_equal(sp_cuda_run(&c, &job), SPARTA_E_MEMORY);
    free(all);
}

#define ON(test)                                                                                             \
    {                                                                                                        \
#test, "cuda.so", "", test                                                                           \
    }
int main(void)
{
    static const fake_test tests[] = {
        ON(blocks_are_unpacked),
        ON(sums_are_gathered),
        ON(words_end_sums),
        ON(hostile_patterns_lead_nowhere),
        ON(what_it_takes),
        ON(without_the_library),
        ON(launches),
    };
    setenv("SPARTA_CACHE", "off", 1);
    return fake_run(tests, SP_COUNT(tests));
}
