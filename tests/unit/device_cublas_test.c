/* cuBLASLt by dlopen, on the fake one (tests/fake/cublas.c): matrices as it has them, plans that are kept, failures that leave nothing behind. */
#include "fake_bed.h"

static char said[400];
static const sp_complaint c = {.where = "test", .text = said, .size = sizeof said};

enum { ROWS = 5, COLS = 7, DEPTH = 3, STEP = 9 };
static float a[STEP * STEP], b[STEP * STEP], out[STEP * STEP], bias[COLS], add[STEP * STEP];
static _Alignas(256) char room[256];

static sp_dense product(bool a_turned, bool b_turned)
{
    return (sp_dense){.rows = ROWS,
                      .cols = COLS,
                      .depth = DEPTH,
                      .a_turned = a_turned,
                      .b_turned = b_turned,
                      .dtype = SPARTA_F32,
                      .out_dtype = SPARTA_F32,
                      .a = a,
                      .b = b,
                      .out = out,
                      .a_step = STEP,
                      .b_step = STEP,
                      .out_step = STEP - 1,
                      .room = room};
}

static sparta_status multiply(const sp_dense *d)
{
    sp_gpu_visit visit;
    const sp_gpu *gpu = sp_gpu_at(0);
    assert_non_null(gpu);
    assert_int_equal(sp_gpu_enter(&c, gpu, &visit), SPARTA_OK);
    const sparta_status status = sp_cublas_multiply(&c, gpu, d, (void *)64);
    sp_gpu_leave(&visit);
    return status;
}

static void fill(void)
{
    for (int i = 0; i < STEP * STEP; i++)
        a[i] = (float)(i % 11 - 5), b[i] = (float)(i % 7 - 3), add[i] = (float)i;
    for (int i = 0; i < COLS; i++) bias[i] = (float)(100 * i);
}

static void check_all(const sp_dense *d)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            float sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += (d->a_turned ? a[k * STEP + i] : a[i * STEP + k]) *
                       (d->b_turned ? b[j * STEP + k] : b[k * STEP + j]);
            sum += (d->bias ? bias[j] : 0) + (d->add ? add[i * STEP + j] : 0);
            assert_true(out[i * (STEP - 1) + j] == sum);
        }
}

static void products_are_right(void **state)
{
    (void)state;
    fake_cublas_state *f = fake_library();
    fill();
    for (int i = 0; i < 16; i++) {
        sp_dense d = product(i & 1, i & 2);
        if (i & 4) d.bias = bias;
        if (i & 8) d.add = add, d.add_step = STEP;
        memset(out, 0xff, sizeof out);
        if (multiply(&d)) fail_msg("%s", said);
        check_all(&d);
        assert_true(f->alive == 0 && f->products == i + 1 && f->stream == (void *)64 && f->handles == 1);
    }
    assert_int_equal(f->reductions, 2); /* COMPUTE_TYPE: the same bits in every run */
}

static void plans_are_kept(void **state)
{
    (void)state;
    fake_cublas_state *f = fake_library();
    sp_dense d = product(false, true);
    fill();
    for (int i = 0; i < 3; i++) assert_int_equal(multiply(&d), SPARTA_OK);
    assert_int_equal(f->asked, 1);
    d.a = a + 1; /* aligned to less */
    assert_int_equal(multiply(&d), SPARTA_OK);
    d.any_order = true;
    assert_int_equal(multiply(&d), SPARTA_OK);
    assert_true(f->asked == 3 && f->reductions == 7 && f->products == 5);
}

static void failures_leave_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *symbol;
        int result;
        sparta_status status;
    } cases[] = {
        {"cublasLtCreate", 3, SPARTA_E_MEMORY},
        {"cublasLtMatmulDescCreate", 3, SPARTA_E_MEMORY},
        {"cublasLtMatmulDescSetAttribute", 7, SPARTA_E_DEVICE},
        {"cublasLtMatrixLayoutCreate", 3, SPARTA_E_MEMORY},
        {"cublasLtMatmulPreferenceCreate", 3, SPARTA_E_MEMORY},
        {"cublasLtMatmulPreferenceSetAttribute", 7, SPARTA_E_DEVICE},
        {"cublasLtMatmulAlgoGetHeuristic", 15, SPARTA_E_UNSUPPORTED},
        {"cublasLtMatmul", 13, SPARTA_E_DEVICE},
    };
    fake_cublas_state *f = fake_library();
    sp_dense d = product(true, true);
    d.bias = bias;
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        snprintf(f->symbol, sizeof f->symbol, "%s", cases[i].symbol);
        f->result = cases[i].result;
        assert_int_equal(multiply(&d), cases[i].status);
        assert_non_null(strstr(said, cases[i].symbol));
        assert_int_equal(f->alive, 0);
    }
    f->symbol[0] = 0;
    assert_int_equal(multiply(&d), SPARTA_OK); /* and it works again */
    d.rows--;
    f->none = true;
    assert_int_equal(multiply(&d), SPARTA_E_UNSUPPORTED);
    assert_non_null(strstr(said, "no algorithm for 4x7x3 in f32"));
    assert_int_equal(f->alive, 0);
}

static void it_is_not_there(void **state)
{
    (void)state;
    setenv("SPARTA_CUBLAS", "/nowhere/libcublasLt.so.13", 1);
    const sp_dense d = product(false, false);
    assert_int_equal(multiply(&d), SPARTA_E_UNSUPPORTED);
    assert_non_null(strstr(said, "SPARTA_CUBLAS /nowhere/libcublasLt.so.13: it cannot be opened; unset it"));
}

/* The fake driver is a library without a function of cuBLASLt's. */
static void it_is_another_library(void **state)
{
    (void)state;
    setenv("SPARTA_CUBLAS", fake_path, 1);
    assert_non_null(
        strstr(sp_cublas_problem(), "cuBLASLt lacks cublasLtCreate of CUDA 12; install a newer one"));
}

int main(void)
{
    static const fake_test tests[] = {
        {"products_are_right", "cuda.so", "", products_are_right},
        {"plans_are_kept", "cuda.so", "", plans_are_kept},
        {"failures_leave_nothing", "cuda.so", "", failures_leave_nothing},
        {"it_is_not_there", "cuda.so", "", it_is_not_there},
        {"it_is_another_library", "cuda.so", "", it_is_another_library},
    };
    return fake_run(tests, SP_COUNT(tests));
}
