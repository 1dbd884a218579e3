/* The references of convolutional networks against formulas written down another way: every output by itself, every tap looked
 * at, with awkward windows. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "builtin_bed.h"
#include "normal.h"

#define INTS(key, ...)                                                                                       \
    {                                                                                                        \
        .name = key, .kind = SP_ATTR_INTS, .n = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),          \
        .ints = (int64_t[])                                                                                  \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

static void same(const float *got, const float *want, int n)
{
    for (int i = 0; i < n; i++) {
        if (isnan(want[i]) ? isnan(got[i])
                           : got[i] == want[i] || fabsf(got[i] - want[i]) <= 1e-5f * fabsf(want[i]))
            continue;
        fail_msg("element %d is %.9g, wanted %.9g", i, (double)got[i], (double)want[i]);
    }
}

static void fill(float *x, int n, uint64_t seed)
{
    sp_rng r = sp_rng_seed(seed);
    for (int i = 0; i < n; i++) x[i] = (float)normal(&r);
}

/* ------------------------------------------------------------------ Conv */
/* One spatial case in two dims: sizes of one dim each, the other made different. */
typedef struct shape {
    int n, c, m, group, h, w, kh, kw, sh, sw, dh, dw, top, left, bottom, right;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, {2, 3, 4, 1, 5, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 4, 6, 2, 6, 5, 3, 2, 2, 1, 1, 2, 0, 1, 2, 0}, {2, 3, 3, 3, 7, 7, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1},
    {1, 2, 2, 1, 9, 8, 2, 3, 3, 2, 4, 3, 0, 0, 0, 0}, {2, 5, 3, 1, 3, 4, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 2, 3, 1, 4, 4, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0}, {1, 1, 2, 1, 2, 2, 5, 5, 1, 1, 1, 1, 2, 2, 2, 2},
    {1, 2, 4, 2, 3, 3, 3, 3, 1, 1, 1, 1, 5, 4, 3, 6},
};

static float at(const float *x, int h, int w, int plane, int y, int z)
{
    return y < 0 || y >= h || z < 0 || z >= w ? 0 : x[(plane * h + y) * w + z];
}

static int span(int in, int k, int s, int d, int pads)
{
    return (in + pads - ((k - 1) * d + 1)) / s + 1;
}

static const sp_attrs *window_of(const shape *s, sp_attr *room, int64_t *n)
{
    const int64_t all[] = {s->kh, s->kw, s->sh, s->sw, s->dh, s->dw, s->top, s->left, s->bottom, s->right};
    memcpy(n, all, sizeof all);
    room[0] = (sp_attr){.name = "kernel_shape", .kind = SP_ATTR_INTS, .n = 2, .ints = n};
    room[1] = (sp_attr){.name = "strides", .kind = SP_ATTR_INTS, .n = 2, .ints = n + 2};
    room[2] = (sp_attr){.name = "dilations", .kind = SP_ATTR_INTS, .n = 2, .ints = n + 4};
    room[3] = (sp_attr){.name = "pads", .kind = SP_ATTR_INTS, .n = 4, .ints = n + 6};
    room[4] = (sp_attr){.name = "group", .kind = SP_ATTR_INT, .i = s->group};
    static sp_attrs attrs;
    attrs = (sp_attrs){5, room};
    return &attrs;
}

static void test_conv(void **state)
{
    (void)state;
    float x[400], w[200], bias[8], y[1200];
    fill(x, 400, 1);
    fill(w, 200, 2);
    fill(bias, 8, 3);
    for (size_t i = 0; i < SP_COUNT(shapes); i++) {
        const shape *s = &shapes[i];
        sp_attr room[5];
        int64_t numbers[10];
        const sp_attrs *attrs = window_of(s, room, numbers);
        const int each = s->c / s->group, h = span(s->h, s->kh, s->sh, s->dh, s->top + s->bottom),
                  v = span(s->w, s->kw, s->sw, s->dw, s->left + s->right);
        for (int with = 0; with < 2; with++) {
            assert_int_equal(CALL(Conv, attrs, F32(y, s->n, s->m, h, v), F32(x, s->n, s->c, s->h, s->w),
                                  F32(w, s->m, each, s->kh, s->kw), with ? F32(bias, s->m) : absent),
                             SPARTA_OK);
            for (int o = 0; o < s->n * s->m * h * v; o++) {
                const int n = o / (s->m * h * v), m = o / (h * v) % s->m, oy = o / v % h, ox = o % v;
                double sum = with ? bias[m] : 0;
                for (int k = 0; k < each * s->kh * s->kw; k++) {
                    const int c = k / (s->kh * s->kw), ky = k / s->kw % s->kh, kx = k % s->kw;
                    const int plane = n * s->c + m / (s->m / s->group) * each + c;
                    sum += (double)w[m * each * s->kh * s->kw + k] * at(x, s->h, s->w, plane,
                                                                        oy * s->sh - s->top + ky * s->dh,
                                                                        ox * s->sw - s->left + kx * s->dw);
                }
                if (fabs(y[o] - sum) > 1e-5 * (1 + fabs(sum)))
                    fail_msg("shape %zu, output %d: %g, wanted %g", i, o, (double)y[o], sum);
            }
        }
    }
}

/* <Conv(x), y> = <x, ConvTranspose(y)>: the one is the other's transpose, whatever the window. */
static void test_transpose(void **state)
{
    (void)state;
    float x[400], w[200], y[1200], other[1200], back[400];
    fill(x, 400, 4);
    fill(w, 200, 5);
    fill(other, 1200, 6);
    for (size_t i = 0; i < SP_COUNT(shapes); i++) {
        const shape *s = &shapes[i];
        sp_attr room[6];
        int64_t numbers[10];
        const int each = s->c / s->group, h = span(s->h, s->kh, s->sh, s->dh, s->top + s->bottom),
                  v = span(s->w, s->kw, s->sw, s->dw, s->left + s->right);
        const sp_attrs *attrs = window_of(s, room, numbers);
        assert_int_equal(CALL(Conv, attrs, F32(y, s->n, s->m, h, v), F32(x, s->n, s->c, s->h, s->w),
                              F32(w, s->m, each, s->kh, s->kw)),
                         SPARTA_OK);
        assert_int_equal(CALL(ConvTranspose, attrs, F32(back, s->n, s->c, s->h, s->w),
                              F32(other, s->n, s->m, h, v), F32(w, s->m, each, s->kh, s->kw)),
                         SPARTA_OK);
        double left = 0, right = 0, size = 0;
        for (int o = 0; o < s->n * s->m * h * v; o++) left += (double)y[o] * other[o];
        for (int o = 0; o < s->n * s->m * h * v; o++) size += fabs((double)y[o] * other[o]);
        for (int o = 0; o < s->n * s->c * s->h * s->w; o++) right += (double)x[o] * back[o];
        if (fabs(left - right) > 1e-5 * size + 1e-6) fail_msg("shape %zu: %g and %g", i, left, right);
    }
}

/* One and three dims, views with strides, other types: the same numbers as in two dims or as f32. */
static void test_conv_dims_and_views(void **state)
{
    (void)state;
    float x[120], w[36], y[120], z[120], turned[120];
    fill(x, 120, 7);
    fill(w, 36, 8);
    assert_int_equal(CALL(Conv, ATTRS(INTS("pads", 1, 1), INTS("strides", 2)), F32(y, 2, 2, 5),
                          F32(x, 2, 3, 10), F32(w, 2, 3, 3)),
                     SPARTA_OK);
    assert_int_equal(CALL(Conv, ATTRS(INTS("pads", 0, 1, 0, 1), INTS("strides", 1, 2)), F32(z, 2, 2, 1, 5),
                          F32(x, 2, 3, 1, 10), F32(w, 2, 3, 1, 3)),
                     SPARTA_OK);
    same(y, z, 20);
    assert_int_equal(CALL(Conv, ATTRS(INTS("pads", 0, 0, 1, 0, 0, 1), INTS("strides", 1, 1, 2)),
                          F32(z, 2, 2, 1, 1, 5), F32(x, 2, 3, 1, 1, 10), F32(w, 2, 3, 1, 1, 3)),
                     SPARTA_OK);
    same(y, z, 20);
    /* three dims: a kernel of 2x1x1 is a sum of two planes */
    assert_int_equal(CALL(Conv, &none, F32(z, 1, 1, 1, 2, 5), F32(x, 1, 1, 2, 2, 5), F32(w, 1, 1, 2, 1, 1)),
                     SPARTA_OK);
    for (int i = 0; i < 10; i++) assert_true(fabsf(z[i] - (w[0] * x[i] + w[1] * x[10 + i])) < 1e-5f);
    for (int i = 0; i < 30; i++) turned[i % 10 * 3 + i / 10] = x[i]; /* (10, 3), seen as (1, 3, 10) */
    sparta_tensor view = {SPARTA_F32, 3, {1, 3, 10}, {30, 1, 3}, turned, 0};
    assert_int_equal(CALL(Conv, &none, F32(y, 1, 2, 8), view, F32(w, 2, 3, 3)), SPARTA_OK);
    assert_int_equal(CALL(Conv, &none, F32(z, 1, 2, 8), F32(x, 1, 3, 10), F32(w, 2, 3, 3)), SPARTA_OK);
    same(y, z, 16);
    sparta_tensor out = {SPARTA_F32, 3, {1, 2, 8}, {0, 1, 2}, turned, 0}; /* a result with strides */
    assert_int_equal(CALL(Conv, &none, out, F32(x, 1, 3, 10), F32(w, 2, 3, 3)), SPARTA_OK);
    for (int i = 0; i < 16; i++) assert_true(turned[i % 8 * 2 + i / 8] == z[i]);
    double wide[30], kernel[18], result[16];
    for (int i = 0; i < 30; i++) wide[i] = x[i];
    for (int i = 0; i < 18; i++) kernel[i] = w[i];
    assert_int_equal(CALL(Conv, &none, sparta_tensor_view(SPARTA_F64, DIMS(1, 2, 8), result),
                          sparta_tensor_view(SPARTA_F64, DIMS(1, 3, 10), wide),
                          sparta_tensor_view(SPARTA_F64, DIMS(2, 3, 3), kernel)),
                     SPARTA_OK);
    for (int i = 0; i < 16; i++) assert_true((float)result[i] == z[i]);
}

static void test_conv_padding(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4, 5}, w[] = {1, 10}, y[8];
    assert_int_equal(CALL(Conv, ATTRS(STRING("auto_pad", "SAME_UPPER")), F32(y, 1, 1, 5), F32(x, 1, 1, 5),
                          F32(w, 1, 1, 2)),
                     SPARTA_OK);
    same(y, (float[]){21, 32, 43, 54, 5}, 5);
    assert_int_equal(CALL(Conv, ATTRS(STRING("auto_pad", "SAME_LOWER")), F32(y, 1, 1, 5), F32(x, 1, 1, 5),
                          F32(w, 1, 1, 2)),
                     SPARTA_OK);
    same(y, (float[]){10, 21, 32, 43, 54}, 5);
    assert_int_equal(CALL(Conv, ATTRS(STRING("auto_pad", "VALID"), INTS("strides", 2)), F32(y, 1, 1, 2),
                          F32(x, 1, 1, 5), F32(w, 1, 1, 2)),
                     SPARTA_OK);
    same(y, (float[]){21, 43}, 2);
    /* padding is not read: NaN and infinity beside it stay where they are */
    x[0] = NAN;
    x[4] = INFINITY;
    assert_int_equal(CALL(Conv, ATTRS(INTS("pads", 2, 2)), F32(y, 1, 1, 8), F32(x, 1, 1, 5), F32(w, 1, 1, 2)),
                     SPARTA_OK);
    same(y, (float[]){0, NAN, NAN, 32, 43, INFINITY, INFINITY, 0}, 8);
}

static void test_conv_transpose_sizes(void **state)
{
    (void)state;
    float x[] = {1, 2, 3}, w[] = {1, 10, 100}, bias[] = {1000}, y[9];
    assert_int_equal(
        CALL(ConvTranspose, ATTRS(INTS("strides", 2)), F32(y, 1, 1, 7), F32(x, 1, 1, 3), F32(w, 1, 1, 3)),
        SPARTA_OK);
    same(y, (float[]){1, 10, 102, 20, 203, 30, 300}, 7);
    assert_int_equal(CALL(ConvTranspose, ATTRS(INTS("strides", 2), INTS("pads", 1, 0)), F32(y, 1, 1, 6),
                          F32(x, 1, 1, 3), F32(w, 1, 1, 3), F32(bias, 1)),
                     SPARTA_OK);
    same(y, (float[]){1010, 1102, 1020, 1203, 1030, 1300}, 6);
    /* one of the 7 goes: behind for SAME_UPPER, in front otherwise; output_padding makes one more behind */
    assert_int_equal(CALL(ConvTranspose, ATTRS(INTS("strides", 2), STRING("auto_pad", "SAME_UPPER")),
                          F32(y, 1, 1, 6), F32(x, 1, 1, 3), F32(w, 1, 1, 3)),
                     SPARTA_OK);
    same(y, (float[]){1, 10, 102, 20, 203, 30}, 6);
    assert_int_equal(CALL(ConvTranspose, ATTRS(INTS("strides", 2), INTS("output_shape", 6)), F32(y, 1, 1, 6),
                          F32(x, 1, 1, 3), F32(w, 1, 1, 3)),
                     SPARTA_OK);
    same(y, (float[]){10, 102, 20, 203, 30, 300}, 6);
    assert_int_equal(CALL(ConvTranspose, ATTRS(INTS("strides", 2), INTS("output_padding", 1)),
                          F32(y, 1, 1, 8), F32(x, 1, 1, 3), F32(w, 1, 1, 3)),
                     SPARTA_OK);
    same(y, (float[]){1, 10, 102, 20, 203, 30, 300, 0}, 8);
}

/* ------------------------------------------------------------------ pools */
static void test_pools(void **state)
{
    (void)state;
    float x[] = {1, -2, 3, 4, -5, 6, 7}, y[8];
    const sp_attrs *two = ATTRS(INTS("kernel_shape", 2), INTS("strides", 2), INTS("pads", 1, 0));
    assert_int_equal(CALL(MaxPool, two, F32(y, 1, 1, 4), F32(x, 1, 1, 7)), SPARTA_OK);
    same(y, (float[]){1, 3, 4, 7}, 4);
    assert_int_equal(CALL(AveragePool, two, F32(y, 1, 1, 4), F32(x, 1, 1, 7)), SPARTA_OK);
    same(y, (float[]){1, 0.5f, -0.5f, 6.5f}, 4);
    assert_int_equal(CALL(AveragePool,
                          ATTRS(INTS("kernel_shape", 2), INTS("strides", 2), INTS("pads", 1, 0),
                                INT("count_include_pad", 1)),
                          F32(y, 1, 1, 4), F32(x, 1, 1, 7)),
                     SPARTA_OK);
    same(y, (float[]){0.5f, 0.5f, -0.5f, 6.5f}, 4);
    /* ceil_mode: the last window has one element, and what lies beyond the padding is not counted */
    assert_int_equal(CALL(AveragePool,
                          ATTRS(INTS("kernel_shape", 3), INTS("strides", 3), INT("ceil_mode", 1),
                                INT("count_include_pad", 1)),
                          F32(y, 1, 1, 3), F32(x, 1, 1, 7)),
                     SPARTA_OK);
    same(y, (float[]){2.f / 3, 5.f / 3, 7}, 3);
    /* a first window that the input does not fill: as many places as there are */
    const sp_attrs *long_one = ATTRS(INTS("kernel_shape", 3), INTS("strides", 2), INT("ceil_mode", 1));
    assert_int_equal(CALL(AveragePool, long_one, F32(y, 1, 1, 1), F32(x, 1, 1, 2)), SPARTA_OK);
    same(y, (float[]){-0.5f}, 1);
    assert_int_equal(CALL(MaxPool, long_one, F32(y, 1, 1, 1), F32(x, 1, 1, 2)), SPARTA_OK);
    same(y, (float[]){1}, 1);
    assert_int_equal(CALL(MaxPool, long_one, F32(y, 1, 1, 1), F32(x, 1, 1, 1)), SPARTA_E_SHAPE);
    assert_int_equal(
        CALL(LpPool, ATTRS(INTS("kernel_shape", 2), INT("p", 1)), F32(y, 1, 1, 6), F32(x, 1, 1, 7)),
        SPARTA_OK);
    same(y, (float[]){3, 5, 7, 9, 11, 13}, 6);
    assert_int_equal(
        CALL(MaxPool, ATTRS(INTS("kernel_shape", 2), INTS("dilations", 3)), F32(y, 1, 1, 4), F32(x, 1, 1, 7)),
        SPARTA_OK);
    same(y, (float[]){4, -2, 6, 7}, 4);
    x[1] = NAN;
    assert_int_equal(CALL(MaxPool, two, F32(y, 1, 1, 4), F32(x, 1, 1, 7)), SPARTA_OK);
    same(y, (float[]){1, NAN, 4, 7}, 4);
}

static void test_max_pool_indices(void **state)
{
    (void)state;
    float x[] = {1, 5, 2, 5, 0, 9, /* second plane */ 7, 7, 7, 7, 7, 8}, y[4];
    int64_t where[4];
    for (int columns = 0; columns < 2; columns++) {
        sparta_tensor in = F32(x, 1, 2, 2, 3), out[] = {F32(y, 1, 2, 1, 2), I64(where, 1, 2, 1, 2)};
        sp_op_args args = {ATTRS(INTS("kernel_shape", 2, 2), INT("storage_order", columns)), 1, 2, &in, out};
        assert_int_equal(sp_builtin_MaxPool(cx, &args), SPARTA_OK);
        same(y, (float[]){5, 9, 7, 8}, 4);
        const int64_t want[2][4] = {{1, 5, 6, 11}, {2, 5, 6, 11}};
        assert_memory_equal(where, want[columns], sizeof where); /* the first of equals */
    }
    uint8_t small[] = {3, 250, 7, 1}, most[2];
    assert_int_equal(CALL(MaxPool, ATTRS(INTS("kernel_shape", 1, 2)),
                          sparta_tensor_view(SPARTA_U8, DIMS(1, 1, 2, 1), most),
                          sparta_tensor_view(SPARTA_U8, DIMS(1, 1, 2, 2), small)),
                     SPARTA_OK);
    assert_true(most[0] == 250 && most[1] == 7);
}

static void test_global_pools(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4, -1, -2, -3, -5}, y[2];
    assert_int_equal(CALL(GlobalAveragePool, &none, F32(y, 1, 2, 1, 1), F32(x, 1, 2, 2, 2)), SPARTA_OK);
    same(y, (float[]){2.5f, -2.75f}, 2);
    assert_int_equal(CALL(GlobalMaxPool, &none, F32(y, 2, 1, 1), F32(x, 2, 1, 4)), SPARTA_OK);
    same(y, (float[]){4, -1}, 2);
    assert_int_equal(CALL(GlobalLpPool, ATTRS(INT("p", 1)), F32(y, 1, 2, 1), F32(x, 1, 2, 4)), SPARTA_OK);
    same(y, (float[]){10, 11}, 2);
}

/* ------------------------------------------------------------------ normalisations */
static void test_normalisations(void **state)
{
    (void)state;
    float x[24], scale[4], bias[4], mean[4], variance[] = {1, 4, 0.25f, 9}, y[24];
    fill(x, 24, 9);
    fill(scale, 4, 10);
    fill(bias, 4, 11);
    fill(mean, 4, 12);
    assert_int_equal(CALL(BatchNormalization, ATTRS(FLOAT("epsilon", 0.5f)), F32(y, 2, 4, 3), F32(x, 2, 4, 3),
                          F32(scale, 4), F32(bias, 4), F32(mean, 4), F32(variance, 4)),
                     SPARTA_OK);
    for (int i = 0; i < 24; i++) {
        int c = i / 3 % 4;
        assert_true(fabs(y[i] - ((x[i] - mean[c]) / sqrt(variance[c] + 0.5) * scale[c] + bias[c])) < 1e-5);
    }
    static const int groups[] = {1, 2, 4};
    for (int g = 0; g < 4; g++) { /* the last: InstanceNormalization is as many groups as channels */
        const int each = g < 3 ? 12 / groups[g] : 3;
        sp_op_id op = g < 3 ? SP_OP_GroupNormalization : SP_OP_InstanceNormalization;
        const sp_attrs *attrs = g < 3 ? ATTRS(INT("num_groups", groups[g])) : &none;
        sparta_tensor in[] = {F32(x, 2, 4, 3), F32(scale, 4), F32(bias, 4)};
        assert_int_equal(call(op, attrs, 3, in, F32(y, 2, 4, 3)), SPARTA_OK);
        for (int i = 0; i < 24; i++) {
            const float *from = x + i / each * each;
            double m = 0, v = 0;
            for (int k = 0; k < each; k++) m += (double)from[k] / each;
            for (int k = 0; k < each; k++) v += (from[k] - m) * (from[k] - m) / each;
            assert_true(fabs(y[i] - ((x[i] - m) / sqrt(v + 1e-5) * scale[i / 3 % 4] + bias[i / 3 % 4])) <
                        1e-4);
        }
    }
    assert_int_equal(CALL(GroupNormalization, ATTRS(INT("num_groups", 3)), F32(y, 2, 4, 3), F32(x, 2, 4, 3),
                          F32(scale, 4), F32(bias, 4)),
                     SPARTA_E_SHAPE);
}

/* ------------------------------------------------------------------ moving */
static void test_pad(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4}, y[16], value = 9;
    int64_t pads[] = {3, 2}, rows[] = {0, -1, 1, 2};
    sparta_tensor k = sparta_tensor_view(SPARTA_F32, 0, NULL, &value);
    static const struct {
        const char *mode;
        float want[9];
    } modes[] = {{"constant", {9, 9, 9, 1, 2, 3, 4, 9, 9}},
                 {"reflect", {4, 3, 2, 1, 2, 3, 4, 3, 2}},
                 {"edge", {1, 1, 1, 1, 2, 3, 4, 4, 4}},
                 {"wrap", {2, 3, 4, 1, 2, 3, 4, 1, 2}}};
    for (size_t i = 0; i < SP_COUNT(modes); i++) {
        assert_int_equal(
            CALL(Pad, ATTRS(STRING("mode", modes[i].mode)), F32(y, 9), F32(x, 4), I64(pads, 2), k),
            SPARTA_OK);
        same(y, modes[i].want, 9);
    }
    assert_int_equal(CALL(Pad, &none, F32(y, 3, 3), F32(x, 2, 2), I64(rows, 4)), SPARTA_OK);
    same(y, (float[]){2, 0, 0, 4, 0, 0, 0, 0, 0}, 9);
    int64_t axis[] = {-1}, two[] = {-1, 0};
    assert_int_equal(CALL(Pad, &none, F32(y, 2, 1), F32(x, 2, 2), I64(two, 2), absent, I64(axis, 1)),
                     SPARTA_OK);
    same(y, (float[]){2, 4}, 2);
    /* far beyond the data: the pattern goes on */
    int64_t far[] = {7, 0};
    assert_int_equal(CALL(Pad, ATTRS(STRING("mode", "reflect")), F32(y, 9), F32(x, 2), I64(far, 2)),
                     SPARTA_OK);
    same(y, (float[]){2, 1, 2, 1, 2, 1, 2, 1, 2}, 9);
    assert_int_equal(CALL(Pad, ATTRS(STRING("mode", "reflect")), F32(y, 8), F32(x, 1), I64(far, 2)),
                     SPARTA_OK);
    same(y, (float[]){1, 1, 1, 1, 1, 1, 1, 1}, 8);
    int64_t torn[] = {-1, 2}, odd[] = {INT64_MIN, INT64_MAX};
    assert_int_equal(CALL(Pad, ATTRS(STRING("mode", "wrap")), F32(y, 5), F32(x, 4), I64(torn, 2)),
                     SPARTA_E_UNSUPPORTED);
    assert_int_equal(CALL(Pad, &none, F32(y, 3), F32(x, 4), I64(odd, 2)), SPARTA_E_SHAPE);
    assert_int_equal(CALL(Pad, ATTRS(STRING("mode", "edge")), F32(y, 5), F32(x, 0), I64(pads, 2)),
                     SPARTA_E_SHAPE);
}

static void test_resize(void **state)
{
    (void)state;
    float x[] = {1, 2, 4, 8}, y[16], twice[] = {2}, half[] = {0.5f};
    int64_t seven[] = {7};
    const sp_attrs *linear = ATTRS(STRING("mode", "linear"));
    assert_int_equal(CALL(Resize, &none, F32(y, 8), F32(x, 4), absent, F32(twice, 1)), SPARTA_OK);
    same(y, (float[]){1, 1, 2, 2, 4, 4, 8, 8}, 8);
    assert_int_equal(CALL(Resize, linear, F32(y, 8), F32(x, 4), absent, F32(twice, 1)), SPARTA_OK);
    same(y, (float[]){1, 1.25f, 1.75f, 2.5f, 3.5f, 5, 7, 8}, 8);
    assert_int_equal(
        CALL(Resize,
             ATTRS(STRING("mode", "linear"), STRING("coordinate_transformation_mode", "align_corners")),
             F32(y, 7), F32(x, 4), absent, absent, I64(seven, 1)),
        SPARTA_OK);
    same(y, (float[]){1, 1.5f, 2, 3, 4, 6, 8}, 7);
    /* antialias: each output is the mean under a triangle, and all weights add up to 1 */
    assert_int_equal(CALL(Resize, ATTRS(STRING("mode", "linear"), INT("antialias", 1)), F32(y, 2), F32(x, 4),
                          absent, F32(half, 1)),
                     SPARTA_OK);
    same(y,
         (float[]){(0.125f * 1 + 0.375f * 1 + 0.375f * 2 + 0.125f * 4), 0.125f * 2 + 0.375f * 4 + 0.5f * 8},
         2);
    float same_all[] = {3, 3, 3, 3};
    assert_int_equal(CALL(Resize, ATTRS(STRING("mode", "cubic"), INT("exclude_outside", 1)), F32(y, 7),
                          F32(same_all, 4), absent, absent, I64(seven, 1)),
                     SPARTA_OK);
    same(y, (float[]){3, 3, 3, 3, 3, 3, 3}, 7);
    int64_t numbers[] = {INT64_MAX - 1, 5}, four[] = {4}, all[4]; /* nearest moves bytes: no rounding */
    assert_int_equal(CALL(Resize, &none, I64(all, 4), I64(numbers, 2), absent, absent, I64(four, 1)),
                     SPARTA_OK);
    assert_true(all[0] == INT64_MAX - 1 && all[1] == INT64_MAX - 1 && all[2] == 5 && all[3] == 5);
    assert_int_equal(
        CALL(Resize, ATTRS(STRING("mode", "lanczos")), F32(y, 8), F32(x, 4), absent, F32(twice, 1)),
        SPARTA_E_UNSUPPORTED);
}

static void test_blocks(void **state)
{
    (void)state;
    float x[36], deep[36], back[36];
    fill(x, 36, 13);
    assert_int_equal(
        CALL(SpaceToDepth, ATTRS(INT("blocksize", 3)), F32(deep, 1, 18, 1, 2), F32(x, 1, 2, 3, 6)),
        SPARTA_OK);
    for (int i = 0; i < 36; i++) { /* channel = (by, bx, c) */
        int c = i / 2 % 2, bx = i / 4 % 3, by = i / 12, w = i % 2;
        assert_true(deep[i] == x[(c * 3 + by) * 6 + w * 3 + bx]);
    }
    assert_int_equal(
        CALL(DepthToSpace, ATTRS(INT("blocksize", 3)), F32(back, 1, 2, 3, 6), F32(deep, 1, 18, 1, 2)),
        SPARTA_OK);
    same(back, x, 36);
    assert_int_equal(CALL(DepthToSpace, ATTRS(INT("blocksize", 2), STRING("mode", "CRD")),
                          F32(back, 1, 2, 2, 2), F32(x, 1, 8, 1, 1)),
                     SPARTA_OK);
    same(back, x, 8); /* the channels are (c, by, bx): already in order */
    assert_int_equal(
        CALL(DepthToSpace, ATTRS(INT("blocksize", 0)), F32(back, 1, 2, 2, 2), F32(x, 1, 8, 1, 1)),
        SPARTA_E_SHAPE);
}

/* ------------------------------------------------------------------ activations */
static void test_activations(void **state)
{
    (void)state;
    float x[] = {-1000, -2, -0.5f, 0, 0.5f, 2, 1000, NAN, INFINITY}, y[9];
    const double e = exp(-2), p = log1p(e);
    static const struct {
        sp_op_id op;
        const char *name;
    } with[] = {{SP_OP_LeakyRelu, "alpha"}, {SP_OP_Elu, "alpha"}};
    for (size_t i = 0; i < SP_COUNT(with); i++) {
        sparta_tensor in = F32(x, 9);
        assert_int_equal(call(with[i].op, ATTRS(FLOAT("alpha", 0.5f)), 1, &in, F32(y, 9)), SPARTA_OK);
        assert_true(fabs(y[1] - (i ? 0.5 * (e - 1) : -1)) < 1e-6 && y[5] == 2 && isnan(y[7]) && y[3] == 0);
    }
    assert_int_equal(CALL(Selu, ATTRS(FLOAT("alpha", 2), FLOAT("gamma", 3)), F32(y, 9), F32(x, 9)),
                     SPARTA_OK);
    assert_true(fabs(y[1] - 6 * (e - 1)) < 1e-6 && y[5] == 6 && y[0] == -6);
    assert_int_equal(CALL(Softplus, &none, F32(y, 9), F32(x, 9)), SPARTA_OK);
    assert_true(y[0] == 0 && y[6] == 1000 && fabs(y[1] - p) < 1e-7 && fabs(y[5] - (2 + p)) < 1e-6 &&
                isnan(y[7]));
    assert_int_equal(CALL(Mish, &none, F32(y, 9), F32(x, 9)), SPARTA_OK);
    assert_true(fabs(y[1] + 2 * tanh(p)) < 1e-6 && y[6] == 1000 && isnan(y[7]));
    assert_int_equal(CALL(HardSigmoid, &none, F32(y, 9), F32(x, 9)), SPARTA_OK);
    same(y, (float[]){0, 0.1f, 0.4f, 0.5f, 0.6f, 0.9f, 1, NAN, 1}, 9);
    assert_int_equal(CALL(HardSwish, &none, F32(y, 9), F32(x, 9)), SPARTA_OK);
    same(y, (float[]){0, -2.f / 6, -0.5f * 2.5f / 6, 0, 0.5f * 3.5f / 6, 10.f / 6, 1000, NAN, INFINITY}, 9);
    assert_int_equal(CALL(Softsign, &none, F32(y, 9), F32(x, 9)), SPARTA_OK);
    assert_true(fabs(y[1] + 2.0 / 3) < 1e-6 && fabs(y[4] - 1.0 / 3) < 1e-6);
    float slope[] = {2, 3}, wide[] = {-1, -1, 5, -4};
    assert_int_equal(CALL(PRelu, &none, F32(y, 2, 2), F32(wide, 2, 2), F32(slope, 2, 1)), SPARTA_OK);
    same(y, (float[]){-2, -2, 5, -12}, 4);
}

/* ------------------------------------------------------------------ memory and the end */
static void test_memory_and_cancel(void **state)
{
    (void)state;
    float x[64], w[18], y[64];
    fill(x, 64, 14);
    fill(w, 18, 15);
    for (int which = 0; which < 4; which++) {
        bool done = false;
        for (uint64_t n = 1; !done && n < 20; n++) {
            sp_ctx_fail_alloc(cx, n, true);
            float two[] = {1, 1, 2, 2};
            sparta_status status =
                which == 0 ? CALL(Conv, &none, F32(y, 1, 1, 2, 2), F32(x, 1, 2, 4, 4), F32(w, 1, 2, 3, 3))
                : which == 1
                    ? CALL(ConvTranspose, &none, F32(y, 1, 1, 4, 4), F32(x, 1, 2, 2, 2), F32(w, 2, 1, 3, 3))
                : which == 2
                    ? CALL(MaxPool, ATTRS(INTS("kernel_shape", 2, 2)), F32(y, 1, 1, 3, 3), F32(x, 1, 1, 4, 4))
                    : CALL(Resize, ATTRS(STRING("mode", "cubic")), F32(y, 1, 1, 4, 4), F32(x, 1, 1, 2, 2),
                           absent, F32(two, 4));
            sp_ctx_fail_alloc(cx, 0, false);
            assert_true(status == SPARTA_OK || status == SPARTA_E_MEMORY);
            done = status == SPARTA_OK;
        }
        assert_true(done);
    }
    sparta_ctx *keep = cx;
    cx = sparta_ctx_create(NULL);
    assert_non_null(cx);
    sparta_ctx_cancel(cx);
    assert_int_equal(CALL(Conv, &none, F32(y, 1, 1, 2, 2), F32(x, 1, 2, 4, 4), F32(w, 1, 2, 3, 3)),
                     SPARTA_E_CANCELLED);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
    cx = keep;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_conv_dims_and_views),
        cmocka_unit_test(test_conv_padding),
        cmocka_unit_test(test_conv_transpose_sizes),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_max_pool_indices),
        cmocka_unit_test(test_global_pools),
        cmocka_unit_test(test_normalisations),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_memory_and_cancel),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
