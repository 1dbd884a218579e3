/* tensor: types, 16-bit floats against a slow reference, views, broadcasting, copies. */
#include "bed.h"
#include "tensor/tensor.h"
#include <math.h>

static void test_types(void **state)
{
    (void)state;
    static const size_t sizes[SP_DTYPES] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1, 1, 1, 1};
    for (int i = 0; i < SP_DTYPES; i++) {
        sparta_dtype d = (sparta_dtype)i, again = (sparta_dtype)-1;
        assert_int_equal(sparta_dtype_size(d), sizes[i]);
        assert_true(sp_dtype_parse(sparta_dtype_name(d), &again) && again == d);
        again = (sparta_dtype)-1;
        assert_true(sp_dtype_from_onnx(sp_dtype_to_onnx(d), &again) && again == d);
    }
    sparta_dtype d = SPARTA_U64;
    assert_false(sp_dtype_parse("float", &d) || sp_dtype_parse("", &d) || sp_dtype_from_onnx(0, &d) ||
                 sp_dtype_from_onnx(8, &d) || sp_dtype_from_onnx(-1, &d));
    assert_int_equal(d, SPARTA_U64);
    assert_int_equal(sparta_dtype_size((sparta_dtype)SP_DTYPES), 0);
    assert_int_equal(sparta_dtype_size((sparta_dtype)-1), 0);
    assert_string_equal(sparta_dtype_name((sparta_dtype)99), "unknown");
    assert_true(sp_dtype_is_float(SPARTA_BF16) && !sp_dtype_is_float(SPARTA_I8));
    assert_true(sp_dtype_is_signed(SPARTA_F16) && sp_dtype_is_signed(SPARTA_I64) &&
                !sp_dtype_is_signed(SPARTA_U8) && !sp_dtype_is_signed(SPARTA_BOOL));
    assert_true(sp_dtype_is_signed(SPARTA_I4) && sp_dtype_is_signed(SPARTA_I2) &&
                !sp_dtype_is_signed(SPARTA_U4) && !sp_dtype_is_signed(SPARTA_U2));
    uint8_t byte[] = {0, 3, 2};
    sparta_tensor t = sparta_tensor_view(SPARTA_U4, 1, (int64_t[]){3}, byte);
    assert_true(sp_tensor_narrow(&t, SPARTA_I2) && t.dtype == SPARTA_I2);
    assert_false(sp_tensor_narrow(&t, SPARTA_U8));
    byte[1] = 4; /* three bits */
    t.dtype = SPARTA_U4;
    assert_false(sp_tensor_narrow(&t, SPARTA_U2));
    assert_true(t.dtype == SPARTA_U4 && sp_tensor_narrow(&t, SPARTA_I4));
    t.dtype = SPARTA_I8;
    assert_false(sp_tensor_narrow(&t, SPARTA_I4));
}

/* ------------------------------------------------------------------ 16-bit floats */

/* What the bits mean, by the definition of the format. */
static double meaning(uint16_t h, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = h >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = h & ((1 << mantissa_bits) - 1);
    double v;
    if (exponent == (1 << exponent_bits) - 1)
        v = mantissa ? NAN : INFINITY;
    else if (exponent)
        v = ldexp((double)(mantissa | 1 << mantissa_bits), exponent - bias - mantissa_bits);
    else
        v = ldexp((double)mantissa, 1 - bias - mantissa_bits);
    return h & 0x8000 ? -v : v;
}

static void check_half(int exponent_bits, float (*up)(uint16_t), uint16_t (*down)(float))
{
    const uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits));
    for (uint32_t i = 0; i <= 0xffff; i++) {
        uint16_t h = (uint16_t)i;
        double v = meaning(h, exponent_bits);
        float f = up(h);
        if (isnan(v)) {
            assert_true(isnan(f) && isnan(up(down(f))));
            assert_int_equal(down(f) & 0x8000, h & 0x8000);
            continue;
        }
        assert_true((double)f == v && !signbit(f) == !(h >> 15));
        assert_int_equal(down(f), h);
        if ((h & 0x7fff) == infinity) continue;
        /* Between h and its neighbour outwards: the middle goes to the even one, what is nearer goes where it
         * is nearer. Past the largest the neighbour is infinity, taken as the next power of two. Rounding is
         * monotone: this is complete. */
        double next = (h & 0x7fff) + 1 == infinity ? ldexp(1, 1 << (exponent_bits - 1))
                                                   : fabs(meaning((uint16_t)(h + 1), exponent_bits));
        double middle = (fabs(v) + next) / 2;
        float m = (float)(h & 0x8000 ? -middle : middle);
        if ((double)fabsf(m) == middle) { /* bf16's last middle is no float */
            assert_int_equal(down(m), h & 1 ? h + 1 : h);
            assert_int_equal(down(nextafterf(m, 0)), h);
            assert_int_equal(down(nextafterf(m, h & 0x8000 ? -INFINITY : INFINITY)), h + 1);
        }
    }
}

static void test_halves(void **state)
{
    (void)state;
    check_half(5, sp_f16_to_f32, sp_f32_to_f16);
    check_half(8, sp_bf16_to_f32, sp_f32_to_bf16);
    assert_int_equal(sp_f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(sp_f32_to_f16(-1e-30f), 0x8000);
    assert_int_equal(sp_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(sp_f32_to_bf16(3.4028235e38f), 0x7f80);
}

/* ------------------------------------------------------------------ elements */

static uint16_t bits16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

static void test_elements(void **state)
{
    (void)state;
    uint64_t memory[4];
    for (int i = 0; i < SP_DTYPES; i++) {
        sparta_dtype d = (sparta_dtype)i;
        memset(memory, 0, sizeof memory);
        sp_element_set(d, memory, 1, 1);
        assert_true(sp_element_get(d, memory, 1) == 1 && sp_element_get(d, memory, 0) == 0 &&
                    sp_element_get(d, memory, 2) == 0);
        const int bits = sp_dtype_bits(d);
        const int64_t put = d == SPARTA_BOOL ? 5 : 100, want = d == SPARTA_BOOL ? 1
                                                               : bits < 8       ? 100 % (1 << bits)
                                                                                : 100;
        sp_element_set_int(d, memory, 2, put);
        assert_int_equal(sp_element_get_int(d, memory, 2), want);
        sp_element_set(d, memory, 1, NAN); /* no trap, no undefined cast */
        if (d == SPARTA_F32 || d == SPARTA_F64) assert_true(isnan(sp_element_get(d, memory, 1)));
        if (!sp_dtype_is_float(d) && d != SPARTA_BOOL) assert_int_equal(sp_element_get_int(d, memory, 1), 0);
        sp_element_set(d, memory, 1, 1e300);
        sp_element_set(d, memory, 1, -INFINITY);
    }
    /* narrower than a byte: the low bits count, signs are extended, and writing leaves the others 0 */
    for (int v = -8; v < 16; v++) {
        sp_element_set_int(SPARTA_I4, memory, 0, v);
        assert_int_equal(sp_element_get_int(SPARTA_I4, memory, 0), v > 7 ? v - 16 : v);
        assert_int_equal(((uint8_t *)memory)[0], v & 15);
        sp_element_set_int(SPARTA_U4, memory, 0, v);
        assert_int_equal(sp_element_get_int(SPARTA_U4, memory, 0), v & 15);
        sp_element_set_int(SPARTA_I2, memory, 0, v);
        assert_int_equal(sp_element_get_int(SPARTA_I2, memory, 0), (v & 3) > 1 ? (v & 3) - 4 : v & 3);
        sp_element_set_int(SPARTA_U2, memory, 0, v);
        assert_int_equal(sp_element_get_int(SPARTA_U2, memory, 0), v & 3);
    }
    ((uint8_t *)memory)[0] = 0xf8;
    assert_int_equal(sp_element_get_int(SPARTA_I4, memory, 0), -8);
    assert_true(sp_element_get(SPARTA_U4, memory, 0) == 8);
    sp_element_set(SPARTA_I8, memory, 0, -1.9);
    assert_int_equal(sp_element_get_int(SPARTA_I8, memory, 0), -1);
    sp_element_set(SPARTA_U8, memory, 0, 257);
    assert_int_equal(sp_element_get_int(SPARTA_U8, memory, 0), 1);
    sp_element_set(SPARTA_U8, memory, 0, -1);
    assert_int_equal(sp_element_get_int(SPARTA_U8, memory, 0), 255);
    sp_element_set(SPARTA_U64, memory, 0, 0x1p63);
    assert_true(memory[0] == (uint64_t)1 << 63 && sp_element_get(SPARTA_U64, memory, 0) == 0x1p63);
    sp_element_set(SPARTA_BOOL, memory, 0, 0.25);
    assert_int_equal(bits16(memory) & 255, 1);
    memset(memory, 7, sizeof memory);
    assert_int_equal(sp_element_get_int(SPARTA_BOOL, memory, 3), 1);
    /* 1 + 2^-11 is the middle of two f16; what is above it by less than a float's step must round up */
    sp_element_set(SPARTA_F16, memory, 0, 1 + 0x1p-11 + 0x1p-40);
    assert_int_equal(bits16(memory), 0x3c01);
    sp_element_set(SPARTA_F16, memory, 0, 1 + 0x1p-11 - 0x1p-40);
    assert_int_equal(bits16(memory), 0x3c00);
    sp_element_set(SPARTA_BF16, memory, 0, -(1 + 0x1p-8 + 0x1p-40));
    assert_int_equal(bits16(memory), 0xbf81);
    sp_element_set(SPARTA_F16, memory, 0, 1e300);
    assert_int_equal(bits16(memory), 0x7c00);
    sp_element_set(SPARTA_F16, memory, 0, -1e-300);
    assert_int_equal(bits16(memory), 0x8000);
}

/* ------------------------------------------------------------------ shapes */

static void test_sizes(void **state)
{
    (void)state;
    size_t n = 77;
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F32, 2, (int64_t[]){3, 4}, &n), SPARTA_OK);
    assert_int_equal(n, 48);
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F64, 0, NULL, &n), SPARTA_OK);
    assert_int_equal(n, 8);
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_I8, 3, (int64_t[]){3, 0, 5}, &n), SPARTA_OK);
    assert_int_equal(n, 0);
    n = 77;
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F32, 1, (int64_t[]){-1}, &n), SPARTA_E_SHAPE);
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F32, 2, (int64_t[]){1LL << 32, 1LL << 32}, &n),
                     SPARTA_E_LIMIT);
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F32, 1, (int64_t[]){INT64_MAX / 2}, &n), SPARTA_E_LIMIT);
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F32, 3, (int64_t[]){0, 1LL << 40, 1LL << 40}, &n),
                     SPARTA_E_LIMIT);
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F32, 9, (int64_t[9]){1}, &n), SPARTA_E_SHAPE);
    assert_int_equal(sp_tensor_bytes(cx, SPARTA_F32, -1, NULL, &n), SPARTA_E_SHAPE);
    assert_int_equal(sp_tensor_bytes(cx, (sparta_dtype)50, 0, NULL, &n), SPARTA_E_DTYPE);
    assert_int_equal(n, 77);
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 3, 4}, NULL);
    assert_true(t.stride[0] == 12 && t.stride[1] == 4 && t.stride[2] == 1);
    assert_int_equal(sparta_tensor_elements(&t), 24);
    t.dim[0] = t.dim[1] = t.dim[2] = 1LL << 40;
    assert_int_equal(sparta_tensor_elements(&t), -1);
    t.dim[2] = 0;
    assert_int_equal(sparta_tensor_elements(&t), 0);
    t.dim[1] = -3;
    assert_int_equal(sparta_tensor_elements(&t), -1);
    t.rank = 99;
    assert_int_equal(sparta_tensor_elements(&t), -1);
    t = sparta_tensor_view(SPARTA_F32, 8, (int64_t[]){INT64_MAX, INT64_MAX, INT64_MAX, 1, 2, 3, 4, 5},
                           NULL); /* no undefined overflow */
    assert_int_equal(sparta_tensor_elements(&t), -1);
}

static void test_alloc(void **state)
{
    (void)state;
    sparta_tensor t = {.rank = 55};
    assert_int_equal(sp_tensor_alloc(cx, SPARTA_F32, 1, (int64_t[]){1LL << 50}, &t), SPARTA_E_MEMORY);
    assert_int_equal(t.rank, 55);
    assert_int_equal(sp_tensor_alloc(cx, SPARTA_I16, 2, (int64_t[]){5, 7}, &t), SPARTA_OK);
    for (int i = 0; i < 35; i++) assert_int_equal(((int16_t *)t.data)[i], 0);
    sp_free(cx, t.data);
    sp_arena *a = sp_arena_create(cx);
    assert_int_equal(sp_tensor_alloc_in(a, SPARTA_U8, 1, (int64_t[]){0}, &t), SPARTA_OK);
    assert_non_null(t.data);
    sp_arena_free(a);
}

static void test_contiguous(void **state)
{
    (void)state;
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 1, 4}, NULL);
    assert_true(sp_tensor_contiguous(&t));
    t.stride[1] = 1000; /* of a dimension of size 1: never used */
    assert_true(sp_tensor_contiguous(&t));
    t.stride[0] = 5;
    assert_false(sp_tensor_contiguous(&t));
    t.dim[1] = 0;
    assert_true(sp_tensor_contiguous(&t)); /* nothing in it */
    t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){4, 3}, NULL);
    t.dim[1] = INT64_MAX, t.stride[0] = INT64_MAX; /* dims that are nobody's, from a caller: no overflow */
    assert_true(sp_tensor_contiguous(&t) == false);
    sparta_tensor scalar = sparta_tensor_view(SPARTA_F32, 0, NULL, NULL);
    assert_true(sp_tensor_contiguous(&scalar));
    assert_false(sp_tensor_same_shape(&t, &scalar));
    assert_true(sp_tensor_same_shape(&scalar, &scalar));
}

static void test_print(void **state)
{
    (void)state;
    sp_text text;
    sp_text_init(&text, cx);
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 1, 4}, NULL),
                  s = sparta_tensor_view(SPARTA_F32, 0, NULL, NULL);
    sp_tensor_print_shape(&t, &text);
    sp_text_put(&text, " ", 1);
    sp_tensor_print_shape(&s, &text);
    assert_string_equal(sp_text_str(&text), "2x1x4 scalar");
    sp_text_free(&text);
}

static void test_broadcast(void **state)
{
    (void)state;
    float data[3] = {1, 2, 3};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 1}, data), b = {.rank = 55};
    assert_int_equal(sp_tensor_broadcast(cx, &t, 3, (int64_t[]){2, 3, 4}, &b), SPARTA_OK);
    assert_true(b.stride[0] == 0 && b.stride[1] == 1 && b.stride[2] == 0);
    const sparta_tensor *list[] = {&b};
    int n = 0;
    for (sp_cursor w = sp_cursor_begin(3, b.dim, 1, list); w.more; sp_cursor_next(&w), n++)
        assert_true(sp_element_get(SPARTA_F32, b.data, w.at[0]) == (double)(n / 4 % 3 + 1));
    assert_int_equal(n, 24);
    b.rank = 55;
    assert_int_equal(sp_tensor_broadcast(cx, &t, 2, (int64_t[]){2, 4}, &b), SPARTA_E_SHAPE);
    assert_int_equal(sp_tensor_broadcast(cx, &t, 1, (int64_t[]){3}, &b), SPARTA_E_SHAPE);
    assert_int_equal(sp_tensor_broadcast(cx, &t, 9, (int64_t[9]){0}, &b), SPARTA_E_SHAPE);
    assert_int_equal(b.rank, 55);
    assert_int_equal(sp_tensor_broadcast(cx, &t, 2, (int64_t[]){3, 0}, &b),
                     SPARTA_OK); /* 1 repeats no times */
    assert_int_equal(sparta_tensor_elements(&b), 0);
}

static void test_walk(void **state)
{
    (void)state;
    int n = 0;
    for (sp_cursor w = sp_cursor_begin(0, NULL, 0, NULL); w.more; sp_cursor_next(&w)) n++;
    assert_int_equal(n, 1);
    for (sp_cursor w = sp_cursor_begin(2, (int64_t[]){3, 0}, 0, NULL); w.more; sp_cursor_next(&w)) n++;
    assert_int_equal(n, 1);
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 3, (int64_t[]){2, 3, 4}, NULL), u = t;
    u.stride[0] = 1, u.stride[1] = 2, u.stride[2] = 6;
    const sparta_tensor *list[] = {&t, &u};
    n = 0;
    for (sp_cursor w = sp_cursor_begin(3, t.dim, 2, list); w.more; sp_cursor_next(&w), n++) {
        assert_int_equal(w.at[0], n);
        assert_int_equal(w.at[1], w.index[0] + 2 * w.index[1] + 6 * w.index[2]);
        assert_int_equal(n, w.index[0] * 12 + w.index[1] * 4 + w.index[2]);
    }
    assert_int_equal(n, 24);
}

static void test_copy(void **state)
{
    (void)state;
    static uint8_t from[8 * 60 + 1], to[8 * 60], back[8 * 60];
    for (int i = 0; i < SP_DTYPES; i++) {
        sparta_dtype d = (sparta_dtype)i;
        size_t bytes = 60 * sparta_dtype_size(d);
        for (size_t k = 0; k < bytes; k++) from[k + 1] = (uint8_t)(k * 7 + 1);
        sparta_tensor a = sparta_tensor_view(d, 3, (int64_t[]){3, 4, 5}, from + 1); /* not aligned */
        sparta_tensor b = a, c = a;
        b.data = to, c.data = back;
        b.stride[0] = 1, b.stride[1] = 3, b.stride[2] = 12; /* Fortran's order */
        assert_int_equal(sp_tensor_copy(cx, &a, &b), SPARTA_OK);
        assert_int_equal(sp_tensor_copy(cx, &b, &c), SPARTA_OK);
        assert_memory_equal(back, from + 1, bytes);
        size_t s = sparta_dtype_size(d); /* (1,2,3) */
        assert_memory_equal(to + (1 + 2 * 3 + 3 * 12) * s, from + 1 + (1 * 20 + 2 * 5 + 3) * s, s);
    }
    sparta_tensor a = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){3, 4}, from),
                  b = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){4, 3}, to);
    assert_int_equal(sp_tensor_copy(cx, &a, &b), SPARTA_E_SHAPE);
    b = a, b.dtype = SPARTA_I32;
    assert_int_equal(sp_tensor_copy(cx, &a, &b), SPARTA_E_DTYPE);
    a.dim[0] = b.dim[0] = 0, b.dtype = SPARTA_F32, a.data = b.data = NULL;
    assert_int_equal(sp_tensor_copy(cx, &a, &b), SPARTA_OK);
}

/* -0.0 is a zero of a dense source, of every float type and with any strides, and stays in a strict context. */
static void test_plain_zeros(void **state)
{
    (void)state;
    sparta_ctx *strict =
        sparta_ctx_create(&(sparta_ctx_options){.size = sizeof(sparta_ctx_options), .strict = 1});
    static const sparta_dtype types[] = {SPARTA_F64, SPARTA_F32, SPARTA_F16, SPARTA_BF16, SPARTA_I32};
    const double x[6] = {1, -0.0, 0, -2, -0.0, -1e-7};
    for (size_t d = 0; d < SP_COUNT(types); d++)
        for (int turned = 0; turned < 2; turned++) {
            double room[6];
            sparta_tensor t = sparta_tensor_view(types[d], 2, (int64_t[]){2, 3}, room), own;
            const sparta_tensor *out;
            if (turned) t.dim[0] = 3, t.dim[1] = 2, t.stride[0] = 1, t.stride[1] = 3;
            for (int i = 0; i < 6; i++) sp_element_set(types[d], room, i, x[i]);
            assert_int_equal(sp_tensor_plain_zeros(strict, &t, &own, &out), SPARTA_OK);
            assert_true(out == &t && !own.data);
            assert_int_equal(sp_tensor_plain_zeros(cx, &t, &own, &out), SPARTA_OK);
            assert_true((out == &own) == (types[d] != SPARTA_I32));
            for (int i = 0; i < 6; i++) {
                const double a = sp_element_get(types[d], out->data,
                                                i / t.dim[1] * out->stride[0] +
                                                    i % t.dim[1] * out->stride[1]),
                             b = sp_element_get(types[d], t.data,
                                                i / t.dim[1] * t.stride[0] + i % t.dim[1] * t.stride[1]);
                assert_true(a == b && (b != 0 || !signbit(a)));
            }
            sp_free(cx, own.data);
        }
    sparta_ctx_free(strict);
}

/* ------------------------------------------------------------------ copies of every kind against a plain loop */
enum { ROOM = 1 << 22 };

/* Strides of dims in a random order, with gaps, some backwards; *span: elements from the first to the last, *first: where element 0 is. */
static void random_strides(sp_rng *rng, sparta_tensor *t, bool gaps, bool repeat, int64_t *span,
                           int64_t *first)
{
    int order[SPARTA_RANK];
    int64_t step = 1;
    *first = 0;
    for (int i = 0; i < t->rank; i++) order[i] = i;
    const bool shuffled = sp_rng_uniform(rng) < 0.7;
    for (int i = t->rank - 1; i > 0 && shuffled; i--) {
        const int k = (int)(sp_rng_uniform(rng) * (i + 1)), held = order[i];
        order[i] = order[k];
        order[k] = held;
    }
    for (int i = t->rank - 1; i >= 0; i--) {
        const int d = order[i];
        t->stride[d] = step;
        if (repeat && sp_rng_uniform(rng) < 0.25) {
            t->stride[d] = 0;
            continue;
        }
        step *= t->dim[d];
        if (gaps && sp_rng_uniform(rng) < 0.3) step += 3;
        if (gaps && sp_rng_uniform(rng) < 0.2) {
            *first += t->stride[d] * (t->dim[d] - 1);
            t->stride[d] = -t->stride[d];
        }
    }
    *span = step;
}

static void naive_copy(const sparta_tensor *from, const sparta_tensor *to)
{
    const size_t size = sparta_dtype_size(from->dtype);
    const sparta_tensor *both[] = {from, to};
    for (sp_cursor w = sp_cursor_begin(from->rank, from->dim, 2, both); w.more; sp_cursor_next(&w))
        memcpy((char *)to->data + w.at[1] * (int64_t)size, (const char *)from->data + w.at[0] * (int64_t)size,
               size);
}

static void one_random_copy(sp_rng *rng, char *a, char *b, char *wanted)
{
    static const sparta_dtype types[] = {SPARTA_U8, SPARTA_F16, SPARTA_F32, SPARTA_F64};
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 64, 65, 130};
    sparta_tensor from = {.dtype = types[(int)(sp_rng_uniform(rng) * 4)],
                          .rank = (int)(sp_rng_uniform(rng) * 6)};
    const int64_t size = (int64_t)sparta_dtype_size(from.dtype);
    int64_t n = 1, span[2], first[2];
    for (int i = 0; i < from.rank; i++) {
        from.dim[i] = sizes[(int)(sp_rng_uniform(rng) * SP_COUNT(sizes))];
        if (n * from.dim[i] > 60000) from.dim[i] = 1 + (n < 20000);
        n *= from.dim[i];
    }
    sparta_tensor to = from, other;
    random_strides(rng, &from, sp_rng_uniform(rng) < 0.5, sp_rng_uniform(rng) < 0.4, &span[0], &first[0]);
    random_strides(rng, &to, sp_rng_uniform(rng) < 0.5, false, &span[1], &first[1]);
    assert_true(span[0] * size + 8 < ROOM && span[1] * size + 8 < ROOM);
    const int64_t odd = (int64_t)(sp_rng_uniform(rng) * 3); /* addresses need not be multiples of anything */
    other = to;
    from.data = a + odd + first[0] * size;
    to.data = b + odd + first[1] * size;
    other.data = wanted + odd + first[1] * size;
    memset(b, 0xA5, (size_t)(span[1] * size + 8));
    memset(wanted, 0xA5, (size_t)(span[1] * size + 8));
    ok(sp_tensor_copy(cx, &from, &to));
    naive_copy(&from, &other);
    assert_memory_equal(b, wanted, (size_t)(span[1] * size + 8));
}

static void test_random_copies(void **state)
{
    (void)state;
    char *a = malloc(ROOM), *b = malloc(ROOM), *wanted = malloc(ROOM);
    sp_rng rng = sp_rng_seed(7);
    for (int i = 0; i < ROOM; i++) a[i] = (char)(sp_rng_uniform(&rng) * 256);
    sp_pool *pool = sp_pool_create(cx, 3);
    for (int i = 0; i < 3000; i++) {
        sp_ctx_lend(cx, i % 2 ? pool : NULL);
        one_random_copy(&rng, a, b, wanted);
    }
    sp_ctx_lend(cx, NULL);
    sp_pool_free(pool);
    free(a), free(b), free(wanted);
}

/* Large enough for every thread, and for a look at cancellation. */
static void test_large_copy(void **state)
{
    (void)state;
    enum { N = 2500 };
    float *a = malloc(sizeof(float) * N * N), *b = malloc(sizeof(float) * N * N);
    for (int i = 0; i < N * N; i++) a[i] = (float)i;
    sp_pool *pool = sp_pool_create(cx, 4);
    const sparta_tensor from = {SPARTA_F32, 2, {N, N}, {1, N}, a, 0},
                        to = sparta_tensor_view(SPARTA_F32, 2, from.dim, b);
    for (int threads = 0; threads < 2; threads++) {
        memset(b, 0, sizeof(float) * N * N);
        sp_ctx_lend(cx, threads ? pool : NULL);
        ok(sp_tensor_copy(cx, &from, &to));
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++) assert_true(b[i * N + k] == a[k * N + i]);
        sparta_ctx_cancel(cx);
        fails(SPARTA_E_CANCELLED, sp_tensor_copy(cx, &from, &to));
        sparta_ctx_reset(cx);
    }
    sp_ctx_lend(cx, NULL);
    sp_pool_free(pool);
    free(a), free(b);
}

/* Neighbours in one memory may overlap when both are runs. */
static void test_copy_in_place(void **state)
{
    (void)state;
    int64_t *x = malloc(sizeof *x * 40000);
    for (int i = 0; i < 40000; i++) x[i] = i;
    const sparta_tensor from = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){39999}, x),
                        to = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){39999}, x + 1);
    ok(sp_tensor_copy(cx, &from, &to));
    for (int i = 1; i < 40000; i++) assert_int_equal(x[i], i - 1);
    free(x);
}

static void test_row_major(void **state)
{
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 3}, x), own;
    const sparta_tensor *rows;
    ok(sp_tensor_row_major(cx, &t, &own, &rows));
    assert_true(rows == &t && !own.data);
    t = (sparta_tensor){SPARTA_F32, 2, {3, 2}, {1, 3}, x, 0}; /* transposed */
    ok(sp_tensor_row_major(cx, &t, &own, &rows));
    assert_memory_equal(rows->data, ((float[]){1, 4, 2, 5, 3, 6}), sizeof x);
    sp_free(cx, own.data);
    sp_ctx_fail_alloc(cx, 1, false);
    fails(SPARTA_E_MEMORY, sp_tensor_row_major(cx, &t, &own, &rows));
    sp_ctx_fail_alloc(cx, 0, false);
    assert_null(own.data);
}

static void test_same_bytes(void **state)
{
    (void)state;
    float x[4] = {1, 0, 3, 4}, y[4] = {1, 0, 3, 4};
    const sparta_tensor a = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 2}, x);
    sparta_tensor b = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 2}, y);
    assert_true(sp_tensor_same_bytes(&a, &a) && sp_tensor_same_bytes(&a, &b));
    y[1] = -0.f; /* equal, and not the same */
    assert_false(sp_tensor_same_bytes(&a, &b));
    y[1] = 0, b.dtype = SPARTA_I32;
    assert_false(sp_tensor_same_bytes(&a, &b));
    b = sparta_tensor_view(SPARTA_F32, 1, (int64_t[]){4}, y);
    assert_false(sp_tensor_same_bytes(&a, &b));
    b = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 2}, NULL);
    assert_false(sp_tensor_same_bytes(&a, &b));
    assert_true(sp_tensor_same_bytes(&b, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),         cmocka_unit_test(test_halves),
        cmocka_unit_test(test_elements),      cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_alloc),         cmocka_unit_test(test_print),
        cmocka_unit_test(test_broadcast),     cmocka_unit_test(test_walk),
        cmocka_unit_test(test_contiguous),    cmocka_unit_test(test_copy),
        cmocka_unit_test(test_random_copies), cmocka_unit_test(test_large_copy),
        cmocka_unit_test(test_copy_in_place), cmocka_unit_test(test_row_major),
        cmocka_unit_test(test_plain_zeros),   cmocka_unit_test(test_same_bytes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
