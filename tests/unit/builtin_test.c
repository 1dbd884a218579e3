/* The references against computations written down another way, with awkward shapes and values. */
#include <math.h>
#include <string.h>
#include "builtin_bed.h"
#include "normal.h"

static sparta_tensor scalar(sparta_dtype dtype, void *data)
{
    return sparta_tensor_view(dtype, 0, NULL, data);
}

static void same(const float *got, const float *want, int n)
{
    for (int i = 0; i < n; i++) {
        if (isnan(want[i]))
            assert_true(isnan(got[i]));
        else
            assert_true(got[i] == want[i] || fabsf(got[i] - want[i]) <= 1e-6f * fabsf(want[i]));
    }
}

static void fill(float *x, int n, uint64_t seed)
{
    sp_rng r = sp_rng_seed(seed);
    for (int i = 0; i < n; i++) x[i] = (float)normal(&r);
}

/* ------------------------------------------------------------------ the table */
static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < SP_OPS; i++) {
        const sp_builtin *row = sp_builtin_row((sp_op_id)i);
        assert_int_equal(row->id, i);
        assert_non_null(row->fn);
        assert_ptr_equal(sp_builtin_find(row->domain, row->name), row);
    }
    assert_ptr_equal(sp_builtin_find("ai.onnx", "Add"), sp_builtin_row(SP_OP_Add));
    assert_null(sp_builtin_find("com.microsoft", "Add"));
    assert_null(sp_builtin_find("", "Linear"));
    assert_null(sp_builtin_find("", "add"));
}

static void test_attributes(void **state)
{
    (void)state;
    const sp_attrs *a = ATTRS(INT("axis", -2), FLOAT("epsilon", 0.5f), STRING("mode", "x"));
    assert_int_equal(sp_attr_int(a, "axis", 9), -2);
    assert_int_equal(sp_attr_int(a, "epsilon", 9), 9); /* another kind is none */
    assert_true(sp_attr_float(a, "epsilon", 1) == 0.5f);
    assert_string_equal(sp_attr_string(a, "mode", ""), "x");
    assert_string_equal(sp_attr_string(NULL, "mode", "default"), "default");
    assert_null(sp_attr_find(a, "Axis"));
}

/* ------------------------------------------------------------------ elementwise */
static void test_broadcast(void **state)
{
    (void)state;
    float a[] = {1, 2, 3}, b[] = {10, 20}, y[6], want[] = {11, 12, 13, 21, 22, 23};
    assert_int_equal(CALL(Add, &none, F32(y, 2, 3), F32(a, 3), F32(b, 2, 1)), SPARTA_OK);
    same(y, want, 6);
    float one = 100, sum[2];
    assert_int_equal(CALL(Add, &none, F32(sum, 2), scalar(SPARTA_F32, &one), F32(b, 2)), SPARTA_OK);
    same(sum, (float[]){110, 120}, 2);
    sparta_tensor back = F32(a, 3); /* a view from the end */
    back.data = a + 2;
    back.stride[0] = -1;
    assert_int_equal(CALL(Sub, &none, F32(y, 3), back, F32(a, 3)), SPARTA_OK);
    same(y, (float[]){2, 0, -2}, 3);
    assert_int_equal(CALL(Mul, &none, F32(y, 0, 3), F32(y, 0, 3), F32(a, 3)), SPARTA_OK); /* nothing to do */
    assert_int_equal(CALL(Add, &none, F32(y, 2, 3), F32(a, 3), F32(b, 2)), SPARTA_E_SHAPE);
}

static void test_integers(void **state)
{
    (void)state;
    int64_t a[] = {-7, 7, INT64_MIN, 5}, b[] = {2, -2, -1, 3}, y[4];
    assert_int_equal(CALL(Div, &none, I64(y, 4), I64(a, 4), I64(b, 4)), SPARTA_OK);
    assert_memory_equal(y, ((int64_t[]){-3, -3, INT64_MIN, 1}), sizeof y);
    assert_int_equal(CALL(Mod, &none, I64(y, 4), I64(a, 4), I64(b, 4)), SPARTA_OK);
    assert_memory_equal(y, ((int64_t[]){1, -1, 0, 2}), sizeof y);
    assert_int_equal(CALL(Mod, ATTRS(INT("fmod", 1)), I64(y, 4), I64(a, 4), I64(b, 4)), SPARTA_OK);
    assert_memory_equal(y, ((int64_t[]){-1, 1, 0, 2}), sizeof y);
    int64_t zero[] = {1, 0, 1, 1};
    assert_int_equal(CALL(Div, &none, I64(y, 4), I64(a, 4), I64(zero, 4)), SPARTA_E_RANGE);
    assert_non_null(strstr(sparta_message(cx), "zero"));
    assert_int_equal(CALL(Mod, &none, I64(y, 4), I64(a, 4), I64(zero, 4)), SPARTA_E_RANGE);
    int64_t base[] = {3, -1, 2, 0}, power[] = {4, -3, -1, 0};
    assert_int_equal(CALL(Pow, &none, I64(y, 4), I64(base, 4), I64(power, 4)), SPARTA_OK);
    assert_memory_equal(y, ((int64_t[]){81, -1, 0, 1}), sizeof y);
    power[3] = -1;
    assert_int_equal(CALL(Pow, &none, I64(y, 4), I64(base, 4), I64(power, 4)), SPARTA_E_RANGE);
}

static void test_unsigned_order(void **state)
{
    (void)state;
    uint64_t a[] = {UINT64_MAX, 1}, b[] = {1, UINT64_MAX}, y[2];
    uint8_t t[2];
    sparta_tensor va = sparta_tensor_view(SPARTA_U64, DIMS(2), a),
                  vb = sparta_tensor_view(SPARTA_U64, DIMS(2), b);
    sparta_tensor vy = sparta_tensor_view(SPARTA_U64, DIMS(2), y);
    assert_int_equal(CALL(Max, &none, vy, va, vb), SPARTA_OK);
    assert_true(y[0] == UINT64_MAX && y[1] == UINT64_MAX);
    assert_int_equal(CALL(Less, &none, sparta_tensor_view(SPARTA_BOOL, DIMS(2), t), va, vb), SPARTA_OK);
    assert_true(t[0] == 0 && t[1] == 1);
    assert_int_equal(CALL(Div, &none, vy, va, vb), SPARTA_OK);
    assert_true(y[0] == UINT64_MAX && y[1] == 0);
    assert_int_equal(CALL(Abs, &none, vy, va), SPARTA_OK);
    assert_true(y[0] == a[0] && y[1] == a[1]);
    assert_int_equal(CALL(Sign, &none, vy, va), SPARTA_OK);
    assert_true(y[0] == 1 && y[1] == 1);
    assert_int_equal(CALL(Erf, &none, vy, va), SPARTA_OK);
    assert_true(y[0] == 1 && y[1] == 0); /* erf(1) is cut off */
    assert_int_equal(CALL(ReduceMax, ATTRS(INT("keepdims", 0)), scalar(SPARTA_U64, y), va), SPARTA_OK);
    assert_true(y[0] == UINT64_MAX);
}

static void test_nan(void **state)
{
    (void)state;
    float a[] = {NAN, 1, 2, NAN}, b[] = {1, NAN, 3, NAN}, y[4], low = 0, high = -1;
    assert_int_equal(CALL(Max, &none, F32(y, 4), F32(a, 4), F32(b, 4)), SPARTA_OK);
    same(y, (float[]){NAN, NAN, 3, NAN}, 4);
    assert_int_equal(CALL(Min, &none, F32(y, 4), F32(a, 4), F32(b, 4)), SPARTA_OK);
    same(y, (float[]){NAN, NAN, 2, NAN}, 4);
    assert_int_equal(
        CALL(Clip, &none, F32(y, 4), F32(a, 4), scalar(SPARTA_F32, &low), scalar(SPARTA_F32, &high)),
        SPARTA_OK);
    same(y, (float[]){NAN, -1, -1, NAN}, 4); /* low above high gives high */
    assert_int_equal(CALL(Clip, &none, F32(y, 4), F32(a, 4), absent, scalar(SPARTA_F32, &low)), SPARTA_OK);
    same(y, (float[]){NAN, 0, 0, NAN}, 4);
    assert_int_equal(CALL(Relu, &none, F32(y, 4), F32(a, 4)), SPARTA_OK);
    same(y, a, 4);
    assert_int_equal(CALL(ReduceMin, ATTRS(INT("keepdims", 0)), scalar(SPARTA_F32, y), F32(a, 4)), SPARTA_OK);
    assert_true(isnan(y[0]));
}

static void test_cast(void **state)
{
    (void)state;
    /* just above the middle of two floats; over double it would round to the middle first and then down to
     * even */
    int64_t big[] = {((int64_t)1 << 60) + ((int64_t)1 << 36) + 1, -3};
    float y[2];
    assert_int_equal(CALL(Cast, &none, F32(y, 2), I64(big, 2)), SPARTA_OK);
    assert_true(y[0] == (float)big[0] && y[1] == -3);
    float x[] = {0.25f, -0.0f, NAN, 300.7f};
    uint8_t t[4];
    assert_int_equal(CALL(Cast, &none, sparta_tensor_view(SPARTA_BOOL, DIMS(4), t), F32(x, 4)), SPARTA_OK);
    assert_memory_equal(t, ((uint8_t[]){1, 0, 1, 1}), 4);
    int32_t i[4];
    assert_int_equal(CALL(Cast, &none, sparta_tensor_view(SPARTA_I32, DIMS(4), i), F32(x, 4)), SPARTA_OK);
    assert_true(i[0] == 0 && i[3] == 300);
}

/* ------------------------------------------------------------------ moving */
static void test_gather(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4, 5, 6}, y[12];
    int64_t indices[] = {2, -3, 2, 0};
    const sp_attrs *axis1 = ATTRS(INT("axis", -1));
    assert_int_equal(CALL(Gather, axis1, F32(y, 2, 2, 2), F32(x, 2, 3), I64(indices, 2, 2)), SPARTA_OK);
    same(y, (float[]){3, 1, 3, 1, 6, 4, 6, 4}, 8);
    sparta_tensor transposed = {SPARTA_F32, 2, {3, 2}, {1, 3}, x, 0}; /* a strided table */
    assert_int_equal(CALL(Gather, &none, F32(y, 4, 2), transposed, I64(indices, 4)), SPARTA_OK);
    same(y, (float[]){3, 6, 1, 4, 3, 6, 1, 4}, 8);
    for (int bad = 0; bad < 2; bad++) {
        indices[1] = bad ? 3 : -4;
        assert_int_equal(CALL(Gather, axis1, F32(y, 2, 4), F32(x, 2, 3), I64(indices, 4)), SPARTA_E_RANGE);
        assert_non_null(strstr(sparta_message(cx), bad ? "index 3" : "index -4"));
    }
    assert_int_equal(CALL(Gather, axis1, F32(y, 2, 0), F32(x, 2, 0), I64(indices, 0)), SPARTA_OK);
    int64_t first = 0;
    assert_int_equal(CALL(Gather, axis1, F32(y, 2), F32(x, 2, 0), scalar(SPARTA_I64, &first)),
                     SPARTA_E_RANGE); /* of an empty dim */
}

static void test_slice(void **state)
{
    (void)state;
    float x[20], y[20];
    for (int i = 0; i < 20; i++) x[i] = (float)i;
    int64_t starts[] = {-1, 1}, ends[] = {INT64_MIN, INT64_MAX}, axes[] = {-2, 1}, steps[] = {-2, 3};
    sparta_tensor s = I64(starts, 2), e = I64(ends, 2), a = I64(axes, 2), p = I64(steps, 2);
    assert_int_equal(CALL(Slice, &none, F32(y, 2, 2), F32(x, 4, 5), s, e, a, p), SPARTA_OK);
    same(y, (float[]){16, 19, 6, 9}, 4);
    assert_int_equal(CALL(Slice, &none, F32(y, 2, 3), F32(x, 4, 5), s, e, a, p),
                     SPARTA_E_RANGE); /* the dims were a guess */
    int64_t far[] = {3, 3}, step1[] = {INT64_MIN, INT64_MAX};
    assert_int_equal(CALL(Slice, &none, F32(y, 1, 1), F32(x, 4, 5), I64(far, 2), e, a, I64(step1, 2)),
                     SPARTA_OK);
    same(y, (float[]){18}, 1);
    steps[0] = 0;
    assert_int_equal(CALL(Slice, &none, F32(y, 2, 2), F32(x, 4, 5), s, e, a, p), SPARTA_E_RANGE);
}

static void test_scatter(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4}, updates[] = {10, 20, 30}, y[4];
    int64_t indices[] = {1, -1, 1};
    sparta_tensor i = I64(indices, 3, 1), u = F32(updates, 3);
    assert_int_equal(CALL(ScatterND, &none, F32(y, 4), F32(x, 4), i, u), SPARTA_OK);
    same(y, (float[]){1, 30, 3, 20}, 4); /* the last of two wins */
    assert_int_equal(CALL(ScatterND, ATTRS(STRING("reduction", "add")), F32(y, 4), F32(x, 4), i, u),
                     SPARTA_OK);
    same(y, (float[]){1, 42, 3, 24}, 4);
    indices[2] = 4;
    assert_int_equal(CALL(ScatterND, &none, F32(y, 4), F32(x, 4), i, u), SPARTA_E_RANGE);
}

static void test_cumsum(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    int64_t axis = -1, wrong = 2;
    const sp_attrs *both = ATTRS(INT("exclusive", 1), INT("reverse", 1));
    assert_int_equal(CALL(CumSum, both, F32(y, 2, 3), F32(x, 2, 3), scalar(SPARTA_I64, &axis)), SPARTA_OK);
    same(y, (float[]){5, 3, 0, 11, 6, 0}, 6);
    assert_int_equal(CALL(CumSum, &none, F32(y, 2, 3), F32(x, 2, 3), scalar(SPARTA_I64, &wrong)),
                     SPARTA_E_RANGE);
    assert_int_equal(CALL(CumSum, &none, F32(y, 2, 0), F32(x, 2, 0), scalar(SPARTA_I64, &axis)), SPARTA_OK);
}

/* ------------------------------------------------------------------ reductions */
static void test_reduce(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    int64_t axes[] = {-3, 2};
    assert_int_equal(CALL(ReduceSum, &none, F32(y, 1, 3, 1), F32(x, 2, 3, 1), I64(axes, 2)), SPARTA_OK);
    same(y, (float[]){5, 7, 9}, 3);
    assert_int_equal(CALL(ReduceMean, ATTRS(INT("noop_with_empty_axes", 1)), F32(y, 6), F32(x, 6)),
                     SPARTA_OK);
    same(y, x, 6);
    sparta_tensor empty = F32(x, 0, 2);
    int64_t zero = 0;
    assert_int_equal(CALL(ReduceMax, &none, F32(y, 1, 2), empty, I64(&zero, 1)), SPARTA_OK);
    same(y, (float[]){-INFINITY, -INFINITY}, 2);
    assert_int_equal(CALL(ReduceProd, &none, F32(y, 1, 2), empty, I64(&zero, 1)), SPARTA_OK);
    same(y, (float[]){1, 1}, 2);
    assert_int_equal(CALL(ReduceMean, &none, F32(y, 1, 2), empty, I64(&zero, 1)), SPARTA_OK);
    assert_true(isnan(y[0]));
    int8_t small[] = {-128, 127}, lowest;
    assert_int_equal(CALL(ReduceMin, ATTRS(INT("keepdims", 0)), scalar(SPARTA_I8, &lowest),
                          sparta_tensor_view(SPARTA_I8, DIMS(2), small)),
                     SPARTA_OK);
    assert_int_equal(lowest, -128);
    int64_t none_of_them, mean;
    assert_int_equal(
        CALL(ReduceMean, ATTRS(INT("keepdims", 0)), scalar(SPARTA_I64, &mean), I64(&none_of_them, 0)),
        SPARTA_E_RANGE);
}

static void test_softmax(void **state)
{
    (void)state;
    float x[] = {1000, 1001, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, y[6], zeros[4] = {0};
    float e = expf(-1), want[] = {e / (1 + e), 1 / (1 + e), 0, NAN, NAN, NAN};
    assert_int_equal(CALL(Softmax, &none, F32(y, 2, 3), F32(x, 2, 3)), SPARTA_OK);
    same(y, want, 6);
    assert_int_equal(CALL(Softmax, ATTRS(INT("axis", 0)), F32(y, 2, 2), F32(zeros, 2, 2)), SPARTA_OK);
    same(y, (float[]){.5f, .5f, .5f, .5f}, 4);
    float one = 7;
    assert_int_equal(CALL(Softmax, &none, scalar(SPARTA_F32, y), scalar(SPARTA_F32, &one)), SPARTA_OK);
    assert_true(y[0] == 1);
    assert_int_equal(CALL(LogSoftmax, &none, F32(y, 2, 0), F32(x, 2, 0)), SPARTA_OK);
}

/* ------------------------------------------------------------------ products */
static void test_matmul(void **state)
{
    (void)state;
    static const int sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {2, 0, 3}, {0, 4, 2}, {5, 9, 4}, {1, 17, 1}};
    float a[200], b[200], y[200], transposed[200];
    fill(a, 200, 1);
    fill(b, 200, 2);
    for (size_t s = 0; s < SP_COUNT(sizes); s++) {
        int m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
        for (int i = 0; i < k; i++)
            for (int j = 0; j < n; j++) transposed[j * k + i] = b[i * n + j];
        sparta_tensor view = {SPARTA_F32, 2, {k, n}, {1, k}, transposed, 0};
        for (int t = 0; t < 2; t++) {
            memset(y, 0x55, sizeof y);
            assert_int_equal(CALL(MatMul, &none, F32(y, m, n), F32(a, m, k), t ? view : F32(b, k, n)),
                             SPARTA_OK);
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++) {
                    double sum = 0;
                    for (int c = 0; c < k; c++) sum += (double)a[i * k + c] * b[c * n + j];
                    assert_true(fabs(y[i * n + j] - sum) <= 1e-6 * (1 + fabs(sum)));
                }
        }
    }
}

static void test_matmul_shapes(void **state)
{
    (void)state;
    float a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1, 2, 0, 0, 2}, y[8];
    /* (2, 1, 2) times (2, 2, 2): rows by batch, then broadcast of one matrix over the batch */
    assert_int_equal(CALL(MatMul, &none, F32(y, 2, 1, 2), F32(a, 2, 1, 2), F32(b, 2, 2, 2)), SPARTA_OK);
    same(y, (float[]){1, 2, 6, 8}, 4);
    assert_int_equal(CALL(MatMul, &none, F32(y, 2, 2, 2), F32(a, 2, 2), F32(b, 2, 2, 2)), SPARTA_OK);
    same(y, (float[]){1, 2, 3, 4, 2, 4, 6, 8}, 8);
    assert_int_equal(CALL(MatMul, &none, F32(y, 2, 2), F32(a, 2), F32(b, 2, 2, 2)),
                     SPARTA_OK); /* vector times matrices */
    same(y, (float[]){1, 2, 2, 4}, 4);
    assert_int_equal(CALL(MatMul, &none, F32(y, 2, 2), F32(b, 2, 2, 2), F32(a, 2)), SPARTA_OK);
    same(y, (float[]){1, 2, 2, 4}, 4);
    assert_int_equal(CALL(MatMul, &none, scalar(SPARTA_F32, y), F32(a, 4), F32(a, 4)), SPARTA_OK);
    assert_true(y[0] == 30);
    float infinite[] = {INFINITY, 0}, zero[] = {0, 1};
    assert_int_equal(CALL(MatMul, &none, scalar(SPARTA_F32, y), F32(infinite, 2), F32(zero, 2)), SPARTA_OK);
    assert_true(isnan(y[0])); /* no zero is skipped */
}

static void test_gemm(void **state)
{
    (void)state;
    float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 2, 0, 1, 3}, c[] = {100, 200}, y[4];
    /* a (3, 2) transposed, b (2, 3) transposed: (2, 2), and a column C */
    const sp_attrs *attrs = ATTRS(INT("transA", 1), INT("transB", 1), FLOAT("alpha", 0.5f), FLOAT("beta", 2));
    assert_int_equal(CALL(Gemm, attrs, F32(y, 2, 2), F32(a, 3, 2), F32(b, 2, 3), F32(c, 2, 1)), SPARTA_OK);
    same(y, (float[]){205.5f, 209, 407, 411}, 4);
    assert_int_equal(CALL(Gemm, &none, F32(y, 2, 2), F32(a, 2, 3), F32(b, 3, 2), absent), SPARTA_OK);
    same(y, (float[]){8, 9, 20, 18}, 4);
}

static void test_cancel(void **state)
{
    (void)state;
    sparta_ctx *keep = cx;
    cx = sparta_ctx_create(NULL);
    assert_non_null(cx);
    float a[4] = {0}, y[4];
    sparta_ctx_cancel(cx);
    assert_int_equal(CALL(MatMul, &none, F32(y, 2, 2), F32(a, 2, 2), F32(a, 2, 2)), SPARTA_E_CANCELLED);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
    cx = keep;
}

static void test_layer_normalization(void **state)
{
    (void)state;
    float x[24], scale[6], bias[6], y[24], mean[4], inverse[4];
    fill(x, 24, 3);
    fill(scale, 6, 4);
    fill(bias, 6, 5);
    sparta_tensor in[] = {F32(x, 4, 2, 3), F32(scale, 2, 3), F32(bias, 2, 3)};
    sparta_tensor out[] = {F32(y, 4, 2, 3), F32(mean, 4, 1, 1), F32(inverse, 4, 1, 1)};
    sp_op_args args = {ATTRS(INT("axis", 1), FLOAT("epsilon", 0.1f)), 3, 3, in, out};
    assert_int_equal(sp_builtin_LayerNormalization(cx, &args), SPARTA_OK);
    for (int r = 0; r < 4; r++) {
        double m = 0, v = 0;
        for (int i = 0; i < 6; i++) m += x[r * 6 + i] / 6.0;
        for (int i = 0; i < 6; i++) v += (x[r * 6 + i] - m) * (x[r * 6 + i] - m) / 6.0;
        assert_true(fabs(mean[r] - m) < 1e-6 && fabs(inverse[r] - 1 / sqrt(v + 0.1)) < 1e-5);
        for (int i = 0; i < 6; i++)
            assert_true(fabs(y[r * 6 + i] - ((x[r * 6 + i] - m) / sqrt(v + 0.1) * scale[i] + bias[i])) <
                        1e-5);
    }
}

/* ------------------------------------------------------------------ fused */
static void test_linear(void **state)
{
    (void)state;
    float x[12], w[20], wt[20], bias[5], residual[15], y[15];
    fill(x, 12, 6);
    fill(w, 20, 7);
    fill(bias, 5, 8);
    fill(residual, 15, 9);
    for (int k = 0; k < 4; k++)
        for (int n = 0; n < 5; n++) wt[n * 4 + k] = w[k * 5 + n];
    for (int t = 0; t < 2; t++) {
        const sp_attrs *attrs = ATTRS(INT("transposed", t), STRING("epilogue", "bias gelu add"));
        assert_int_equal(CALL(Linear, attrs, F32(y, 3, 1, 5), F32(x, 3, 1, 4),
                              t ? F32(wt, 5, 4) : F32(w, 4, 5), F32(bias, 5), F32(residual, 3, 1, 5)),
                         SPARTA_OK);
        for (int i = 0; i < 15; i++) {
            double sum = bias[i % 5];
            for (int k = 0; k < 4; k++) sum += (double)x[i / 5 * 4 + k] * w[k * 5 + i % 5];
            double want = 0.5 * sum * (1 + erf(sum / sqrt(2))) + residual[i];
            assert_true(fabs(y[i] - want) <= 1e-6 * (1 + fabs(want)));
        }
    }
    assert_int_equal(CALL(Linear, &none, F32(y, 3, 5), F32(x, 3, 4), F32(w, 4, 5)), SPARTA_OK);
    static const struct {
        const char *epilogue, *says;
    } wrong[] = {{"swish", "not known: \"swish\""},
                 {"bias", "disagree about a bias"},
                 {"relu add", "disagree about a residual"},
                 {"relu bias", "behind other words"},
                 {"tanh tanh tanh tanh tanh tanh tanh tanh tanh", "more than 8"}};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        assert_int_equal(CALL(Linear, ATTRS(STRING("epilogue", wrong[i].epilogue)), F32(y, 3, 5),
                              F32(x, 3, 4), F32(w, 4, 5)),
                         SPARTA_E_UNSUPPORTED);
        assert_non_null(strstr(sparta_message(cx), wrong[i].says));
    }
}

/* The words count in their order: a relu before the residual, after it, both. */
static void test_linear_epilogue(void **state)
{
    (void)state;
    float x[1] = {2}, w[2] = {1, -1}, residual[2] = {-3, 5}, bias[2] = {.5f, .5f}, y[2];
    static const struct {
        const char *epilogue;
        float want[2];
    } cases[] = {{"bias relu add", {-.5f, 5}},
                 {"bias add relu", {0, 3.5f}},
                 {"  bias  add ", {-.5f, 3.5f}},
                 {"bias relu add relu", {0, 5}},
                 {"bias add relu sigmoid", {.5f, 0.970687769f}}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        assert_int_equal(CALL(Linear, ATTRS(STRING("epilogue", cases[i].epilogue)), F32(y, 1, 2),
                              F32(x, 1, 1), F32(w, 1, 2), F32(bias, 2), F32(residual, 1, 2)),
                         SPARTA_OK);
        assert_float_equal(y[0], cases[i].want[0], 1e-7);
        assert_float_equal(y[1], cases[i].want[1], 1e-6);
    }
}

/* B=2, S=3, T=4, heads=2, D=2, computed from the formula; one query of batch 1 has a mask of nothing but
 * -inf. */
static void test_attention(void **state)
{
    (void)state;
    float q[24], k[32], v[32], mask[24], y[24];
    fill(q, 24, 10);
    fill(k, 32, 11);
    fill(v, 32, 12);
    for (int i = 0; i < 24; i++) mask[i] = i % 3 ? 0 : -INFINITY;
    for (int t = 0; t < 4; t++) mask[12 + 4 + t] = -INFINITY;
    const sp_attrs *attrs = ATTRS(INT("heads", 2), FLOAT("scale", 0.25f));
    assert_int_equal(CALL(Attention, attrs, F32(y, 2, 3, 4), F32(q, 2, 3, 4), F32(k, 2, 4, 4),
                          F32(v, 2, 4, 4), F32(mask, 2, 1, 3, 4)),
                     SPARTA_OK);
    for (int i = 0; i < 24; i++) {
        int b = i / 12, s = i / 4 % 3, c = i % 4, h = c / 2;
        double sum = 0, value = 0;
        for (int t = 0; t < 4; t++) {
            double score = 0;
            for (int d = 0; d < 2; d++)
                score += (double)q[b * 12 + s * 4 + h * 2 + d] * k[b * 16 + t * 4 + h * 2 + d];
            double p = exp(score * 0.25 + mask[b * 12 + s * 4 + t]);
            sum += p;
            value += p * v[b * 16 + t * 4 + c];
        }
        if (b == 1 && s == 1)
            assert_true(isnan(y[i]));
        else
            assert_true(fabs(y[i] - value / sum) < 1e-6);
    }
    assert_int_equal(CALL(Attention, ATTRS(INT("heads", 3)), F32(y, 2, 3, 4), F32(q, 2, 3, 4),
                          F32(k, 2, 4, 4), F32(v, 2, 4, 4)),
                     SPARTA_E_SHAPE);
}

/* What a decoder asks for, against the formula: B=1, S=3, T=5, two groups of two heads, causal with a window, soft-capped, and a mask of
 * one item for a batch of two. */
static void test_attention_of_decoders(void **state)
{
    (void)state;
    enum { B = 2, S = 3, T = 5, H = 4, G = 2, D = 2 };
    float q[B * S * H * D], k[B * T * G * D], v[B * T * G * D], mask[H * S * T], y[B * S * H * D];
    fill(q, B * S * H * D, 20);
    fill(k, B * T * G * D, 21);
    fill(v, B * T * G * D, 22);
    fill(mask, H * S * T, 23);
    assert_int_equal(CALL(Attention,
                          ATTRS(INT("heads", H), INT("kv_heads", G), FLOAT("scale", 3), FLOAT("softcap", 2),
                                INT("left", 2), INT("right", 0)),
                          F32(y, B, S, H * D), F32(q, B, S, H * D), F32(k, B, T, G * D), F32(v, B, T, G * D),
                          F32(mask, 1, H, S, T)),
                     SPARTA_OK);
    for (int i = 0; i < B * S * H * D; i++) {
        int b = i / (S * H * D), s = i / (H * D) % S, h = i / D % H, c = i % D;
        double sum = 0, value = 0;
        for (int t = s; t <= s + 2; t++) {
            double score = 0;
            for (int d = 0; d < D; d++)
                score += 3 * (double)q[((b * S + s) * H + h) * D + d] * k[((b * T + t) * G + h / 2) * D + d];
            double p = exp(2 * tanh(score / 2) + mask[(h * S + s) * T + t]);
            sum += p;
            value += p * v[((b * T + t) * G + h / 2) * D + c];
        }
        assert_true(fabs(y[i] - value / sum) < 1e-6);
    }
    assert_int_equal(CALL(Attention, ATTRS(INT("heads", H), INT("kv_heads", 3)), F32(y, B, S, H * D),
                          F32(q, B, S, H * D), F32(k, B, T, G * D), F32(v, B, T, G * D)),
                     SPARTA_E_SHAPE);
}

static void test_embed(void **state)
{
    (void)state;
    float words[] = {1, 2, 3, 4, 5, 6}, places[] = {10, 20, 30, 40}, y[8];
    int64_t ids[] = {0, -1, 2, 1}, where[] = {0, 1};
    sparta_tensor w = F32(words, 3, 2), p = F32(places, 2, 2);
    assert_int_equal(CALL(Embed, &none, F32(y, 2, 2, 2), w, I64(ids, 2, 2), p, I64(where, 1, 2)), SPARTA_OK);
    same(y, (float[]){11, 22, 35, 46, 15, 26, 33, 44}, 8);
    ids[2] = 3;
    assert_int_equal(CALL(Embed, &none, F32(y, 2, 2, 2), w, I64(ids, 2, 2), p, I64(where, 1, 2)),
                     SPARTA_E_RANGE);
}

static void test_embed_column(void **state)
{
    (void)state;
    float words[] = {1, 2, 3, 4, 5, 6}, y[4];
    int64_t ids[] = {9, 0, 9, 9, -1, 9}; /* the others are another table's */
    sparta_tensor w = F32(words, 3, 2);
    assert_int_equal(CALL(Embed, ATTRS(INT("column", 1)), F32(y, 2, 2), w, I64(ids, 2, 3)), SPARTA_OK);
    same(y, (float[]){1, 2, 5, 6}, 4);
    assert_int_equal(CALL(Embed, ATTRS(INT("column", 0)), F32(y, 2, 2), w, I64(ids, 2, 3)), SPARTA_E_RANGE);
    assert_int_equal(CALL(Embed, ATTRS(INT("column", 3)), F32(y, 2, 2), w, I64(ids, 2, 3)), SPARTA_E_RANGE);
}

static void test_interact(void **state)
{
    (void)state;
    float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, y[10];
    int64_t pairs[] = {1, 0, 0, 0, -1, 1};
    sparta_tensor u = F32(a, 2, 2), v = F32(b, 2, 2);
    assert_int_equal(CALL(Interact, &none, F32(y, 2, 3), u, v, I64(pairs, 3, 2)), SPARTA_OK);
    same(y, (float[]){17, 5, 61, 53, 25, 113}, 6);
    assert_int_equal(CALL(Interact, ATTRS(INT("keep", 1)), F32(y, 2, 5), u, v, I64(pairs, 3, 2)), SPARTA_OK);
    same(y, (float[]){5, 6, 17, 5, 61, 7, 8, 53, 25, 113}, 10);
    assert_int_equal(CALL(Interact, ATTRS(INT("keep", 2)), F32(y, 2, 5), u, v, I64(pairs, 3, 2)),
                     SPARTA_E_RANGE);
    pairs[0] = 2;
    assert_int_equal(CALL(Interact, &none, F32(y, 2, 3), u, v, I64(pairs, 3, 2)), SPARTA_E_RANGE);
}

/* Bits of the result: what is not there is 0, never -0, and what stays is as it was. */
static void same_bits(const float *got, const float *want, size_t n)
{
    assert_memory_equal(got, want, n * sizeof *want);
}

static void test_sparsify(void **state)
{
    (void)state;
    float x[] = {1, -3, 2, -0.f, 3, -2}, y[6], nan[] = {NAN, 1, -INFINITY, NAN, 0, 9};
    sparta_tensor t = F32(x, 2, 3), u = F32(nan, 1, 6);
    assert_int_equal(CALL(Sparsify, &none, F32(y, 2, 3), t), SPARTA_OK);
    same_bits(y, (float[]){1, -3, 2, 0, 3, -2}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("keep", 1)), F32(y, 2, 3), t), SPARTA_OK);
    same_bits(y, (float[]){0, -3, 0, 0, 3, 0}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(FLOAT("above", 2)), F32(y, 2, 3), t), SPARTA_OK);
    same_bits(y, (float[]){0, -3, 2, 0, 3, -2}, 6); /* what equals it stays */
    assert_int_equal(CALL(Sparsify, ATTRS(FLOAT("above", 2), INT("keep", 1)), F32(y, 2, 3), t), SPARTA_OK);
    same_bits(y, (float[]){0, -3, 0, 0, 3, 0}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(FLOAT("above", 5)), F32(y, 2, 3), t), SPARTA_OK);
    same_bits(y, (float[6]){0}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("keep", 9), FLOAT("expect", .5)), F32(y, 2, 3), t), SPARTA_OK);
    same_bits(y, (float[]){1, -3, 2, 0, 3, -2}, 6);
    /* NaN first, then by magnitude, of equals the first */
    assert_int_equal(CALL(Sparsify, ATTRS(INT("keep", 1)), F32(y, 1, 6), u), SPARTA_OK);
    same_bits(y, (float[]){NAN, 0, 0, 0, 0, 0}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("keep", 3)), F32(y, 1, 6), u), SPARTA_OK);
    same_bits(y, (float[]){NAN, 0, -INFINITY, NAN, 0, 0}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(FLOAT("above", 100)), F32(y, 1, 6), u), SPARTA_OK);
    same_bits(y, (float[]){NAN, 0, -INFINITY, NAN, 0, 0}, 6);
    float equal[] = {1, -1, 1, -1, 1, 1};
    assert_int_equal(CALL(Sparsify, ATTRS(INT("keep", 2)), F32(y, 2, 3), F32(equal, 2, 3)), SPARTA_OK);
    same_bits(y, (float[]){1, -1, 0, -1, 1, 0}, 6);
    /* bands: line s of 2 stands at element s + 1 */
    assert_int_equal(CALL(Sparsify, ATTRS(INT("left", 0), INT("right", 0)), F32(y, 2, 3), t), SPARTA_OK);
    same_bits(y, (float[]){0, -3, 0, 0, 0, -2}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("left", 1)), F32(y, 2, 3), F32(equal, 2, 3)), SPARTA_OK);
    same_bits(y, (float[]){1, -1, 1, 0, 1, 1}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("right", 0), INT("keep", 1)), F32(y, 2, 3), F32(equal, 2, 3)),
                     SPARTA_OK);
    same_bits(y, (float[]){1, 0, 0, -1, 0, 0}, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("left", INT64_MAX), INT("right", INT64_MAX)), F32(y, 3, 2),
                          F32(equal, 3, 2)),
                     SPARTA_OK);
    same_bits(y, equal, 6);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("left", 0), INT("right", 0)), F32(y, 3, 2), F32(equal, 3, 2)),
                     SPARTA_OK);
    same_bits(y, (float[]){0, 0, 1, 0, 0, 1}, 6); /* the first line stands before all */
    assert_int_equal(CALL(Sparsify, &none, F32(y, 0, 3), F32(x, 0, 3)), SPARTA_OK);
    assert_int_equal(CALL(Sparsify, ATTRS(INT("keep", 1)), F32(y, 2, 0), F32(x, 2, 0)), SPARTA_OK);
}

/* Every other element of a line, by a function; -1 fails. */
static int every_other(void *user, const float *line, int64_t n, uint8_t *keep)
{
    for (int64_t i = 0; i < n; i++) keep[i] = i % 2 == 0 && line[i] != 7;
    return *(const int *)user;
}

static void test_sparsify_by_function(void **state)
{
    (void)state;
    sparta_ctx *before = cx; /* functions stay as long as their context */
    cx = sparta_ctx_create(NULL);
    int answer = 0;
    float x[] = {1, -3, 2, 7, 3, -2}, y[6];
    sparta_line_function f = SPARTA_OPTIONS(sparta_line_function);
    const sp_attrs *attrs = ATTRS(SP_STRING("function", "other"));
    assert_int_equal(CALL(Sparsify, attrs, F32(y, 2, 3), F32(x, 2, 3)), SPARTA_E_USAGE);
    says("no function 'other'");
    fails(SPARTA_E_USAGE, sparta_line_function_register(cx, &f));
    f.name = "other", f.keep = every_other, f.user = &answer;
    ok(sparta_line_function_register(cx, &f));
    fails_saying(SPARTA_E_USAGE, "already", sparta_line_function_register(cx, &f));
    assert_int_equal(CALL(Sparsify, attrs, F32(y, 2, 3), F32(x, 2, 3)), SPARTA_OK);
    same_bits(y, (float[]){1, 0, 2, 0, 0, -2}, 6);
    attrs = ATTRS(SP_STRING("function", "other"), INT("keep", 1), INT("left", 1));
    assert_int_equal(CALL(Sparsify, attrs, F32(y, 2, 3), F32(x, 2, 3)), SPARTA_OK);
    same_bits(y, (float[]){0, 0, 2, 0, 0, -2}, 6);
    answer = -1;
    assert_int_equal(CALL(Sparsify, attrs, F32(y, 2, 3), F32(x, 2, 3)), SPARTA_E_USAGE);
    says("'other' failed (-1)");
    sparta_ctx_free(cx);
    cx = before;
}

/* One item of two heads: two queries, three keys. */
static void test_relative(void **state)
{
    (void)state;
    float c[] = {1, 2, 3, 4, 5, 6, 7, 8}, p[] = {10, 20, 30, 40, 50, 60}, y[12]; /* (1,2,2*2), (1,3,2*1) */
    int64_t at[] = {0, 1, -1, 1, 0, 0}, back[] = {0, 0, 0, -1, 0, 0};            /* (2,3), (3,2) */
    const sparta_tensor x = F32(c, 1, 2, 4), z = F32(p, 1, 3, 2), i = I64(at, 2, 3), k = I64(back, 3, 2);
    assert_int_equal(CALL(Relative, ATTRS(INT("heads", 2)), F32(y, 1, 2, 2, 3), x, i), SPARTA_OK);
    same(y, (float[]){1, 2, 2, 6, 5, 5, 3, 4, 4, 8, 7, 7}, 12);
    assert_int_equal(CALL(Relative, ATTRS(INT("heads", 2)), F32(y, 1, 2, 2, 3), x, i, z, k), SPARTA_OK);
    same(y, (float[]){11, 32, 52, 16, 35, 55, 23, 44, 64, 28, 47, 67}, 12);
    assert_int_equal(CALL(Relative, ATTRS(INT("heads", 3)), F32(y, 1, 2, 2, 3), x, i), SPARTA_E_SHAPE);
    assert_int_equal(CALL(Relative, ATTRS(INT("heads", 2)), F32(y, 1, 2, 2, 3), x, i, z, i), SPARTA_E_SHAPE);
    at[4] = 2;
    assert_int_equal(CALL(Relative, ATTRS(INT("heads", 2)), F32(y, 1, 2, 2, 3), x, i), SPARTA_E_RANGE);
    at[4] = 0;
    back[5] = -2;
    assert_int_equal(CALL(Relative, ATTRS(INT("heads", 2)), F32(y, 1, 2, 2, 3), x, i, z, k), SPARTA_E_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relative),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_unsigned_order),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_slice),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_cumsum),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_matmul_shapes),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_layer_normalization),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_epilogue),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_of_decoders),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_embed_column),
        cmocka_unit_test(test_interact),
        cmocka_unit_test(test_sparsify),
        cmocka_unit_test(test_sparsify_by_function),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
