/* kernel bench on a GPU: the trial it makes and what it expects, against a dense product; and, with the fake driver, that nothing is left behind. */
#include "fake_bed.h"
#include "device/cublas.h"
#include "jit/gpu.h"
#include "measure/trial.h"
#include <math.h>

static sparta_ctx *cx;

static sp_gpu_bench_request small(sparta_verb verb)
{
    return (sp_gpu_bench_request){
        .verb = verb,
        .m = 5,
        .n = 72, /* the last row of blocks reaches over the edge, so does the last column */
        .k = 80,
        .pattern = "16x32",
        .sparsity = 0.4,
        .dtype = SPARTA_F32,
        .seconds = 1e-3};
}

static void begin(void)
{
    cx = sparta_ctx_create(NULL);
    assert_non_null(cx);
}

static void end(void)
{
    sparta_ctx_free(cx);
}

/* ------------------------------------------------------------------ the trial */
enum { N = 72, K = 80, M = 5 };
static double dense[N][K];

static void spread(const sp_trial *p)
{
    memset(dense, 0, sizeof dense);
    for (int64_t i = 0; i < p->down; i++)
        for (int64_t b = p->pos[i]; b < p->pos[i + 1]; b++)
            for (int64_t e = 0; e < p->height * p->width; e++) {
                const int64_t r = i * p->height + e / p->width, c = p->crd[b] * p->width + e % p->width;
                if (r < N && c < K)
                    dense[r][c] = sp_element_get(p->r->dtype, p->values, b * p->height * p->width + e);
            }
}

static double plain(const sp_trial *p, int64_t t, int64_t line)
{
    const bool across = p->r->verb == SPARTA_MULTIPLY;
    double sum = 0;
    for (int64_t e = 0; e < p->in; e++)
        sum += (across ? dense[line][e] : dense[e][line]) * sp_element_get(p->r->dtype, p->x, t * p->in + e);
    return sum;
}

static void products_are_those_of_a_dense_matrix(void **state)
{
    (void)state;
    static const sparta_dtype dtypes[] = {SPARTA_F32, SPARTA_F16, SPARTA_BF16};
    begin();
    for (int i = 0; i < 6; i++) {
        sp_gpu_bench_request r = small(i % 2 ? SPARTA_MULTIPLY : SPARTA_MULTIPLY_TURNED);
        r.dtype = dtypes[i / 2];
        sp_trial p;
        sp_arena *arena = sp_arena_create(cx);
        assert_int_equal(sp_trial_plan(cx, &r, &p), SPARTA_OK);
        assert_int_equal(sp_trial_make(cx, arena, &p), SPARTA_OK);
        assert_true(p.down == 5 && p.right == 3 && p.blocks == 9 && p.pos[5] == 9);
        spread(&p);
        int64_t there = 0;
        for (int64_t e = 0; e < N * K; e++) there += dense[e / K][e % K] != 0;
        assert_true(there <= p.nnz && there > p.nnz - 8); /* some random values are 0 */
        assert_int_equal(sp_trial_elements(&p), M * p.out);
        for (int64_t e = 0; e < M * p.out; e++) {
            const sp_expected is = sp_trial_expect(&p, e);
            const double should = plain(&p, e / p.out, e % p.out);
            assert_true(fabs(is.value - should) < 1e-9 && is.allowed >= 0 && is.allowed < 0.1);
        }
        sp_arena_free(arena);
    }
    end();
}

static void samples_are_those_of_a_dense_product(void **state)
{
    (void)state;
    const sp_gpu_bench_request r = small(SPARTA_SAMPLE);
    sp_trial p;
    begin();
    sp_arena *arena = sp_arena_create(cx);
    assert_int_equal(sp_trial_plan(cx, &r, &p), SPARTA_OK);
    assert_int_equal(sp_trial_make(cx, arena, &p), SPARTA_OK);
    assert_int_equal(sp_trial_elements(&p), 9 * 16 * 32);
    for (int64_t i = 0; i < p.down; i++)
        for (int64_t b = p.pos[i]; b < p.pos[i + 1]; b++)
            for (int64_t e = 0; e < 16 * 32; e++) {
                const int64_t row = i * 16 + e / 32, column = p.crd[b] * 32 + e % 32;
                double should = 0;
                for (int64_t t = 0; row < N && column < K && t < M; t++)
                    should += (double)((float *)p.x)[t * N + row] * ((float *)p.other)[t * K + column];
                assert_true(fabs(sp_trial_expect(&p, b * 16 * 32 + e).value - should) < 1e-9);
            }
    sp_arena_free(arena);
    end();
}

/* ------------------------------------------------------------------ what is refused */
static void refused(sp_gpu_bench_request r, sparta_status status, const char *words)
{
    sp_gpu_bench_result out;
    const sparta_status is = sp_gpu_bench(cx, &r, &out);
    if (is != status || !strstr(sparta_message(cx), words))
        fail_msg("%s: '%s', expected %s: '%s'", sparta_status_name(is), sparta_message(cx),
                 sparta_status_name(status), words);
}

static void what_nobody_takes_is_refused(void **state)
{
    (void)state;
    sp_gpu_bench_request r = small(SPARTA_MULTIPLY);
    begin();
    static const char *const patterns[] = {"",      "64",     "64x", "x64",    "0x64",
                                           "-1x64", "64x64x", "2:4", "64 x64 "};
    for (size_t i = 0; i < SP_COUNT(patterns); i++) {
        r.pattern = patterns[i];
        refused(r, SPARTA_E_USAGE, "the sides of a block");
    }
    setenv("SPARTA_CUBLAS", "/nowhere/libcublasLt.so.13", 1);
    r.pattern = "4x1";
    refused(
        r, SPARTA_E_UNSUPPORTED,
        "no GPU kernel takes blocks of 4x1; give sides of 16, 32 or a multiple of 64; others need cuBLASLt: "
        "SPARTA_CUBLAS /nowhere/libcublasLt.so.13: it cannot be opened");
    r.pattern = "96x64";
    refused(r, SPARTA_E_UNSUPPORTED, "blocks of 96x64");
    r = small(SPARTA_MULTIPLY), r.n = r.k = 1 << 20, r.pattern = "16x16";
    refused(r, SPARTA_E_LIMIT, "too many blocks of 16x16");
    r = small(SPARTA_MULTIPLY), r.m = 0;
    refused(r, SPARTA_E_USAGE, "at least 1");
    r = small(SPARTA_MULTIPLY), r.sparsity = 1.5;
    refused(r, SPARTA_E_USAGE, "between 0 and 1");
    r = small(SPARTA_MULTIPLY), r.gpu = 7;
    refused(r, SPARTA_E_DEVICE, "there is no GPU 7: `sparta doctor`");
    end();
}

static void without_a_driver(void **state)
{
    (void)state;
    begin();
    refused(small(SPARTA_MULTIPLY), SPARTA_E_DEVICE, "there is no GPU 0: SPARTA_CUDA_DRIVER /nowhere.so.1");
    end();
}

static void an_old_gpu(void **state)
{
    (void)state;
    begin();
    refused(small(SPARTA_MULTIPLY), SPARTA_E_UNSUPPORTED, "sm_80 is the oldest");
    end();
}

/* ------------------------------------------------------------------ on the fake GPU */
static void nothing_is_left(void)
{
    const fake_state *f = fake();
    assert_true(!f->allocations && !f->streams && !f->graphs && !f->runnables && !f->events);
}

static void a_driver_that_fails(void **state)
{
    (void)state;
    begin();
    assert_int_equal(sp_gpu_count(), 1);
    fake_fail("cuMemAlloc_v2", SP_CUDA_OUT_OF_MEMORY);
    refused(small(SPARTA_MULTIPLY), SPARTA_E_MEMORY, "kernel bench: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY");
    nothing_is_left();
    fake_fail("cuMemcpyHtoD_v2", 700);
    refused(small(SPARTA_MULTIPLY), SPARTA_E_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    nothing_is_left();
    end();
}

static void without_nvrtc(void **state)
{
    (void)state;
    begin();
    setenv("SPARTA_NVRTC", "/nowhere/libnvrtc.so.13", 1);
    refused(small(SPARTA_MULTIPLY), SPARTA_E_COMPILER, "/nowhere/libnvrtc.so.13");
    nothing_is_left();
    end();
}

static void need_nvrtc(void)
{
    if (sp_nvrtc_version()) return;
    print_message("%s\n", sp_nvrtc_problem());
    skip();
}

/* This GPU does nothing: the result keeps the NaNs it was filled with. */
static void a_wrong_answer_is_not_timed(void **state)
{
    (void)state;
    need_nvrtc();
    begin();
    refused(small(SPARTA_MULTIPLY), SPARTA_E_DIFFER, "nan on the GPU");
    nothing_is_left();
    refused(small(SPARTA_SAMPLE), SPARTA_E_DIFFER, "report it as a bug");
    nothing_is_left();
    end();
}

/* Blocks that the fake cuBLASLt multiplies, and nobody unpacks. */
static void blocks_without_a_kernel(void **state)
{
    (void)state;
    sp_gpu_bench_request r = small(SPARTA_MULTIPLY);
    r.pattern = "5x3";
    need_nvrtc();
    begin();
    fake_cublas_state *f = fake_library();
    refused(r, SPARTA_E_DIFFER, "report it as a bug");
    assert_true(f->products == 1 && f->alive == 0);
    nothing_is_left();
    end();
}

/* A sample without blocks has no answer to check, so it is timed here too: 20 ms a replay, says the fake driver. */
static void what_is_timed(void **state)
{
    (void)state;
    sp_gpu_bench_request r = small(SPARTA_SAMPLE);
    sp_gpu_bench_result out;
    r.sparsity = 1;
    need_nvrtc();
    begin();
    setenv("SPARTA_CUBLAS", "/nowhere/libcublas.so.13", 1);
    if (sp_gpu_bench(cx, &r, &out)) fail_msg("%s", sparta_message(cx));
    assert_true(out.best_us > 0 && out.median_us >= out.best_us && out.blocks == 0 && out.tflops_real == 0);
    assert_true(out.peak_gbytes_per_s > 0 && out.in_turn == 1);
    assert_true(!*out.dense_name &&
                strstr(out.dense_problem, "/nowhere/libcublas.so.13: it cannot be opened"));
    assert_string_equal(out.isa, "sm_90a");
    assert_string_equal(out.device, "Fake GPU 0");
    nothing_is_left();
    end();
}

#define ON(test, settings)                                                                                   \
    {                                                                                                        \
#test, "cuda.so", settings, test                                                                     \
    }
int main(void)
{
    static const fake_test tests[] = {
        ON(products_are_those_of_a_dense_matrix, ""),
        ON(samples_are_those_of_a_dense_product, ""),
        ON(what_nobody_takes_is_refused, ""),
        {"without_a_driver", "/nowhere.so.1", "", without_a_driver},
        ON(an_old_gpu, "major=7 minor=5"),
        ON(a_driver_that_fails, ""),
        ON(without_nvrtc, ""),
        ON(a_wrong_answer_is_not_timed, ""),
        ON(blocks_without_a_kernel, ""),
        ON(what_is_timed, ""),
    };
    setenv("SPARTA_CACHE", "off", 1);
    return fake_run(tests, SP_COUNT(tests));
}
