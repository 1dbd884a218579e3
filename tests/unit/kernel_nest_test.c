/* kernel: texts of nests and back, hostile texts, phases, bounds of accesses, loops that are joined, shares of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernel/kernel.h"
#include <stdlib.h>
#include <string.h>

static sparta_ctx *cx;

static const char *const texts[] = {
    "i*; x0: f32[i]; y0: f32[i]; y0 = exp(x0)",
    "i j k*; x0: f32[i,j,k]; x1: f32[j,0]; y0: f32[i,j,k]; t0 = add(x0,x1); t1 = gelu(t0); y0 = mul(t1,0.5)",
    "i | k*; x0: f32[i,k]; x1: f32[k]; y0: f32[i,k]; t0 = mul(x0,x0); t1 = mean(t0); t2 = add(t1,1e-06); t3 "
    "= rsqrt(t2); "
    "t4 = mul(x0,t3); y0 = mul(t4,x1)",
    "t* | f; x0: lanes f32[t,f]; y0: lanes f32[t,f]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); t3 = "
    "sum(t2); y0 = div(t2,t3)",
    "f t*; x0: lanes f32[t,f]; x1: f32[f]; y0: lanes f32[t,f+64]; y0 = add(x0,x1)",
    "| k*; x0: f32[k]; y0: f32[0]; y0 = sum(x0)",
    "i j:3 k*; x0: u8[i,2*j-1*k+5]; y0: bool[j,i,k]; t0: i32 = cast(x0); t1: bool = less(t0,7); y0: bool = "
    "not(t1)",
    "i.unroll j*; x0: f16[i,j]; x1: bf16[j]; y0: f16[i,j]; y1: i64[i,j]; y0 = add(x0,x1); y1: i64 = cast(y0)",
    "i*; x0: f32[i]; y0: f32[i]; t0 = max(x0,-inf); t1 = min(t0,inf); y0 = add(t1,0.1)",
    "i | j k*; x0: f32[i,j,k]; x1: f32[j]; y0: f32[i,j,k]; y1: f32[i]; t0 = mean(x0); t1 = sub(x0,t0); y0 = "
    "mul(t1,x1); y1 = copy(t0)",
};

static void parse(const char *text, sp_nest *n)
{
    if (sp_nest_parse(cx, text, n)) fail_msg("\"%s\": %s", text, sparta_message(cx));
}

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_nest n;
        sp_text t;
        parse(texts[i], &n);
        sp_text_init(&t, cx);
        sp_nest_print(&n, &t);
        assert_string_equal(sp_text_str(&t), texts[i]);
        sp_text_free(&t);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "i",
        "i*",
        "i* j; x0: f32[i]; y0: f32[i,j]; y0 = copy(x0)",
        "i* j*; x0: f32[i]; y0: f32[i,j]; y0 = copy(x0)",
        "i i*; x0: f32[i]; y0: f32[i]; y0 = copy(x0)",
        "i | j | k*; x0: f32[i,j,k]; y0: f32[i]; y0 = sum(x0)",
        "a b c d e f g h i*; x0: f32[i]; y0: f32[i]; y0 = copy(x0)",
        "i@segment; x0: f32[i]; y0: f32[i]; y0 = copy(x0)",
        "i.grid j*; x0: f32[i]; y0: f32[i,j]; y0 = copy(x0)",
        "i*; x0: f32[i]; y0: f32[i]",
        "i*; x0: f32[i]; y0: f32[i]; y0 = copy(x0); y0 = copy(x0)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = copy(x1)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = copy(t0)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = copy(x0,x0)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = add(x0)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = adds(x0,x0)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = sum(x0)",
        "i*; x0: f32[i]; y0: f32[i]; t0 = add(t0,x0); y0 = copy(t0)",
        "i*; x0: i32[i]; y0: f32[i]; y0 = copy(x0)",
        "i*; x0: i32[i]; y0: i32[i]; y0: i32 = exp(x0)",
        "i*; x0: i32[i]; y0: i32[i]; y0: i32 = steps(x0,0.5,-7,8)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = steps(x0,0.5,-7,8)",
        "i*; x0: f32[i]; x1: i32[i]; y0: i32[i]; y0: i32 = steps(x0,0.5,x1,8)",
        "i*; x0: bool[i]; y0: bool[i]; y0: bool = add(x0,x0)",
        "i*; x0: u64[i]; y0: u64[i]; y0: u64 = add(x0,x0)",
        "i*; x0: u4[i]; y0: u4[i]; y0: u4 = copy(x0)",
        "i*; x0: f32[j]; y0: f32[i]; y0 = copy(x0)",
        "i*; x0: f32[i+i]; y0: f32[i]; y0 = copy(x0)",
        "i*; x0: f32[0*i]; y0: f32[i]; y0 = copy(x0)",
        "i*; x0: f32[i+99999999999999999999]; y0: f32[i]; y0 = copy(x0)",
        "i*; x0: f32[i; y0: f32[i]; y0 = copy(x0)",
        "i*; x1: f32[i]; y0: f32[i]; y0 = copy(x1)",
        "i*; y0: f32[i]; x0: f32[i]; y0 = copy(x0)",
        "i j*; x0: f32[i,j]; y0: f32[j]; y0 = copy(x0)",
        "i | k*; x0: f32[i,k]; y0: f32[i]; y0 = copy(x0)",
        "i* | k; x0: f32[i,k]; y0: f32[k]; y0 = sum(x0)",
        "i | t*; x0: lanes f32[t,i]; y0: f32[i]; y0 = sum(x0)",
        "i t*; x0: lanes f32[t,i]; y0: f32[t,i]; y0 = copy(x0)",
        "i t*; x0: lanes f32[t+1,i]; y0: lanes f32[t,i]; y0 = copy(x0)",
        "i t*; x0: lanes f32[t,i+t]; y0: lanes f32[t,i]; y0 = copy(x0)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = copy(x0) y",
        "i*; x0: f32[i]; y0: f32[i]; y0 = add(x0,1e)",
        "i*; x0: f32[i]; y0: f32[i]; y0 = add(x0,0x1p3q)",
    };
    sp_nest n;
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        if (sp_nest_parse(cx, bad[i], &n) != SPARTA_E_FORMAT) fail_msg("taken: %s", bad[i]);
    char *large = malloc(1 << 17);
    memset(large, ' ', 1 << 17);
    large[(1 << 17) - 1] = 0;
    assert_int_equal(sp_nest_parse(cx, large, &n), SPARTA_E_FORMAT);
    free(large);
}

/* Texts with characters changed, dropped and doubled: refused, or one that prints and reads back the same. */
static void test_damaged(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(15);
    int taken = 0;
    for (int i = 0; i < 20000; i++) {
        char text[512];
        strcpy(text, texts[sp_rng_next(&r) % SP_COUNT(texts)]);
        for (uint64_t k = 0, times = 1 + sp_rng_next(&r) % 3; k < times; k++) {
            const size_t n = strlen(text), at = sp_rng_next(&r) % n;
            if (sp_rng_next(&r) % 3)
                text[at] = "ijk xyt0123[]();:,*|=+-\n."[sp_rng_next(&r) % 24];
            else
                memmove(text + at, text + at + 1, n - at);
        }
        sp_nest n, again;
        if (sp_nest_parse(cx, text, &n)) continue;
        taken++;
        sp_text a, b;
        sp_text_init(&a, cx);
        sp_text_init(&b, cx);
        sp_nest_print(&n, &a);
        parse(sp_text_str(&a), &again);
        sp_nest_print(&again, &b);
        assert_string_equal(sp_text_str(&a), sp_text_str(&b));
        sp_text_free(&a);
        sp_text_free(&b);
    }
    assert_true(taken > 100);
}

static void test_phases(void **state)
{
    (void)state;
    sp_nest n;
    parse(texts[3], &n); /* softmax: maximum, sum, quotient */
    assert_int_equal(sp_nest_phases(&n), 3);
    const int phase[] = {0, 1, 1, 1, 2};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(n.statement[i].phase, phase[i]);
        assert_int_equal(n.statement[i].space, i == 2 ? SP_SPACE_LINE : SP_SPACE_REGISTER);
        assert_int_equal(n.statement[i].inner, i == 1 || i == 2 || i == 4);
    }
    parse(texts[2], &n);
    assert_int_equal(sp_nest_phases(&n), 2);
    for (int i = 0; i < 6; i++) assert_int_equal(n.statement[i].space, SP_SPACE_REGISTER);
    assert_false(n.statement[3].inner);
    assert_int_equal(sp_nest_access(&n, 0), SP_ALONG_UNIT);
    parse(texts[1], &n);
    assert_int_equal(sp_nest_phases(&n), 1);
    assert_int_equal(sp_nest_access(&n, 1), SP_ALONG_NONE);
    parse(texts[6], &n);
    assert_int_equal(sp_nest_access(&n, 0), SP_ALONG_ANY);
}

static sparta_tensor tensor(sparta_dtype dtype, int rank, const int64_t *dim)
{
    sparta_tensor t = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int i = rank; i-- > 0; stride *= dim[i]) {
        t.dim[i] = dim[i];
        t.stride[i] = stride;
    }
    return t;
}
#define DIMS(...)                                                                                            \
    (int)SP_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[])                                                   \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static void test_bounds(void **state)
{
    (void)state;
    sp_nest n;
    sp_nest_bound b;
    /* A slice, a window and a reversed axis: just inside, and one too far. */
    parse("i j:3 k*; x0: f32[i+2,k]; x1: f32[2*i+j]; x2: f32[-1*i+4]; y0: f32[i,j,k]; t0 = add(x0,x1); y0 = "
          "add(t0,x2)",
          &n);
    sparta_tensor t[] = {tensor(SPARTA_F32, DIMS(7, 6)), tensor(SPARTA_F32, DIMS(11)),
                         tensor(SPARTA_F32, DIMS(5)), tensor(SPARTA_F32, DIMS(5, 3, 6))};
    assert_int_equal(sp_nest_bind(cx, &n, t, &b), SPARTA_OK);
    assert_int_equal(b.offset[0], 12);
    assert_int_equal(b.stride[1][0], 2);
    assert_int_equal(b.stride[2][0], -1);
    assert_int_equal(b.offset[2], 4);
    assert_int_equal(sp_nest_work(&n, &b), 90);
    for (int i = 0; i < 4; i++) {
        const sparta_tensor whole = t[i];
        for (int k = 0; k < whole.rank; k++) {
            t[i].dim[k]--;
            const sparta_status s = sp_nest_bind(cx, &n, t, &b);
            /* An output that is smaller has smaller loops, but for the fixed one. */
            assert_int_equal(s, i == 3 && k != 1 ? SPARTA_OK : SPARTA_E_SHAPE);
            t[i] = whole;
        }
        t[i].dtype = SPARTA_I32;
        assert_int_equal(sp_nest_bind(cx, &n, t, &b), SPARTA_E_DTYPE);
        t[i] = whole;
        t[i].rank--;
        assert_int_equal(sp_nest_bind(cx, &n, t, &b), SPARTA_E_SHAPE);
        t[i] = whole;
    }
    t[0].stride[1] = 2; /* the vector loop goes along it */
    assert_int_equal(sp_nest_bind(cx, &n, t, &b), SPARTA_E_SHAPE);
    t[0].stride[1] = 1;
    t[0].stride[0] = INT64_MAX / 2 + 1;
    assert_int_equal(sp_nest_bind(cx, &n, t, &b), SPARTA_E_SHAPE);
    /* Nothing tells the size of k. */
    parse("i k*; x0: f32[i,k+1]; y0: f32[i,2*k]; y0 = copy(x0)", &n);
    sparta_tensor u[] = {tensor(SPARTA_F32, DIMS(2, 3)), tensor(SPARTA_F32, DIMS(2, 3))};
    assert_int_equal(sp_nest_bind(cx, &n, u, &b), SPARTA_E_FORMAT);
    /* Sizes whose product does not fit. */
    parse("| i j k l*; x0: f32[i,j,k,l]; y0: f32[]; y0 = sum(x0)", &n);
    const int64_t huge = (int64_t)1 << 30;
    sparta_tensor v[] = {
        {.dtype = SPARTA_F32, .rank = 4, .dim = {huge, huge, huge, huge}, .stride = {0, 0, 0, 1}},
        tensor(SPARTA_F32, 0, NULL)};
    assert_int_equal(sp_nest_bind(cx, &n, v, &b), SPARTA_E_SHAPE);
}

static void test_joins(void **state)
{
    (void)state;
    sp_nest n;
    sp_nest_bound b;
    parse("i j k*; x0: f32[i,j,k]; x1: f32[i,0,0]; y0: f32[i,j,k]; y0 = add(x0,x1)", &n);
    sparta_tensor t[] = {tensor(SPARTA_F32, DIMS(5, 3, 7)), tensor(SPARTA_F32, DIMS(5, 1, 1)),
                         tensor(SPARTA_F32, DIMS(5, 3, 7))};
    assert_int_equal(sp_nest_bind(cx, &n, t, &b), SPARTA_OK);
    assert_true(b.size[0] == 5 && b.size[1] == 1 && b.size[2] == 21);
    t[0].stride[1] = 8; /* a view of something wider */
    t[0].stride[0] = 24;
    assert_int_equal(sp_nest_bind(cx, &n, t, &b), SPARTA_OK);
    assert_true(b.size[0] == 5 && b.size[1] == 3 && b.size[2] == 7);
    /* Over the axis of size 1 between them; and a size of 1 along the vector loop. */
    sparta_tensor u[] = {tensor(SPARTA_F32, DIMS(5, 1, 7)), tensor(SPARTA_F32, DIMS(5, 1, 1)),
                         tensor(SPARTA_F32, DIMS(5, 1, 7))};
    parse("i j k*; x0: f32[i,j,k]; x1: f32[i,0,0]; y0: f32[i,j,k]; y0 = copy(x0)", &n);
    assert_int_equal(sp_nest_bind(cx, &n, u, &b), SPARTA_OK);
    assert_true(b.size[0] == 5 && b.size[2] == 7); /* x1 keeps them apart */
    parse("i j k*; x0: f32[i,j,k]; y0: f32[i,j,k]; y0 = copy(x0)", &n);
    sparta_tensor w[] = {tensor(SPARTA_F32, DIMS(5, 1, 7)), tensor(SPARTA_F32, DIMS(5, 1, 7))};
    assert_int_equal(sp_nest_bind(cx, &n, w, &b), SPARTA_OK);
    assert_true(b.size[0] == 1 && b.size[1] == 1 && b.size[2] == 35);
    sparta_tensor one[] = {tensor(SPARTA_F32, DIMS(5, 3, 1)), tensor(SPARTA_F32, DIMS(5, 3, 1))};
    one[0].stride[0] = 12,
    one[0].stride[1] = one[0].stride[2] = 4; /* every fourth element: not one loop of neighbours */
    assert_int_equal(sp_nest_bind(cx, &n, one, &b), SPARTA_OK);
    assert_true(b.size[2] == 1);
    /* The bar keeps them apart. */
    parse("i | k*; x0: f32[i,k]; y0: f32[i,k]; t0 = sum(x0); y0 = sub(x0,t0)", &n);
    sparta_tensor r[] = {tensor(SPARTA_F32, DIMS(4, 6)), tensor(SPARTA_F32, DIMS(4, 6))};
    assert_int_equal(sp_nest_bind(cx, &n, r, &b), SPARTA_OK);
    assert_true(b.size[0] == 4 && b.size[1] == 6);
}

/* ------------------------------------------------------------------ shares */
/* Every element that the loops of one part reach in the output, by its number in the array. */
static void touch(const sp_nest *n, const struct sp_nest_args *a, int loop, const char *at,
                  const uint8_t *base, uint8_t *count)
{
    const int y = n->operands - 1;
    if (loop == n->loops) {
        count[(at - (const char *)base) / (ptrdiff_t)sparta_dtype_size(n->operand[y].dtype)]++;
        return;
    }
    const bool once = n->loop[loop].inner && !sp_nest_uses(&n->operand[y], loop);
    for (long i = 0; i < (once ? 1 : a->size[loop]); i++)
        touch(n, a, loop + 1, at + i * a->stride[y][loop] * (long)sparta_dtype_size(n->operand[y].dtype),
              base, count);
}

static void check_cut(const char *text, const sparta_tensor *t, int64_t elements)
{
    sp_nest n;
    sp_nest_bound b;
    parse(text, &n);
    if (sp_nest_bind(cx, &n, t, &b)) fail_msg("%s: %s", text, sparta_message(cx));
    uint8_t *base = calloc((size_t)elements + 1, 8), *count = malloc((size_t)elements + 1);
    void *data[SP_NEST_OPERANDS];
    for (int i = 0; i < n.operands; i++) data[i] = base;
    for (int parts = 1; parts <= 9; parts++) {
        memset(count, 0, (size_t)elements + 1);
        for (int part = 0; part < parts; part++) {
            struct sp_nest_args a;
            if (!sp_nest_cut(&n, &b, data, part, parts, NULL, &a)) continue;
            touch(&n, &a, 0, a.array[n.operands - 1], base, count);
        }
        for (int64_t i = 0; i < elements; i++)
            if (count[i] != 1) fail_msg("%s: element %d in %d of %d parts", text, (int)i, count[i], parts);
    }
    free(base);
    free(count);
}

static void test_cuts(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 6; i++)
        for (int64_t k = 0; k < 70; k = 2 * k + 1) {
            sparta_tensor two[] = {tensor(SPARTA_F32, DIMS(i, k)), tensor(SPARTA_F32, DIMS(i, k))};
            check_cut("i k*; x0: f32[i,k]; y0: f32[i,k]; y0 = copy(x0)", two, i * k);
            check_cut("i | k*; x0: f32[i,k]; y0: f32[i,k]; t0 = sum(x0); y0 = sub(x0,t0)", two, i * k);
            check_cut("k* | i; x0: f32[i,k]; y0: f32[i,k]; t0 = sum(x0); y0 = sub(x0,t0)", two, i * k);
            sparta_tensor turned[] = {tensor(SPARTA_F32, DIMS(k, i)), tensor(SPARTA_F32, DIMS(i, k))};
            check_cut("i k*; x0: f32[k,i]; y0: f32[i,k]; y0 = copy(x0)", turned, i * k);
            sparta_tensor less[] = {tensor(SPARTA_F32, DIMS(i, k)), tensor(SPARTA_F32, DIMS(i, 1))};
            check_cut("i | k*; x0: f32[i,k]; y0: f32[i,0]; y0 = sum(x0)", less, i);
            sparta_tensor all[] = {tensor(SPARTA_F32, DIMS(i, k)), tensor(SPARTA_F32, 0, NULL)};
            check_cut("| i k*; x0: f32[i,k]; y0: f32[]; y0 = sum(x0)", all, 1);
        }
}

/* Texts on panels count in 64 tokens, so that their lines do as well, whatever their width; other lines stay within 256 KiB where 16 lanes do. */
static void test_lines(void **state)
{
    (void)state;
    static const int64_t widths[] = {1, 16, 255, 1023, 1024, 1025, 1100, 2048, 4097, 18710, 100000};
    sp_nest down, lanes;
    parse("t* | f; x0: f32[t,f]; y0: f32[t,f]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); t3 = "
          "sum(t2); y0 = div(t2,t3)",
          &down);
    parse("t* | f; x0: lanes f32[t,f]; y0: lanes f32[t,f]; t0 = largest(x0); t1 = sub(x0,t0); t2 = exp(t1); "
          "t3 = sum(t2); y0 = div(t2,t3)",
          &lanes);
    for (size_t i = 0; i < SP_COUNT(widths); i++)
        for (int64_t tokens = 16; tokens <= 64; tokens += 16) {
            sp_nest_bound b;
            sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){tokens, widths[i]}, NULL), p[2];
            t.stride[0] = 1, t.stride[1] = 64;
            p[0] = p[1] = t;
            assert_int_equal(sp_nest_bind(cx, &lanes, p, &b), SPARTA_OK);
            assert_int_equal(b.block, 64);
            assert_int_equal(b.line, 64 * widths[i]);
            assert_true(sp_nest_scratch(&lanes, &b) >= (size_t)(64 * widths[i]) * sizeof(float));
            assert_int_equal(sp_nest_bind(cx, &down, p, &b), SPARTA_OK);
            assert_true(b.block % 16 == 0 && b.block >= 16 && b.block <= 256);
            assert_true((b.block - 16) * widths[i] <= 1 << 16);
        }
}

static int set_up(void **state)
{
    (void)state;
    return (cx = sparta_ctx_create(NULL)) ? 0 : -1;
}
static int tear_down(void **state)
{
    (void)state;
    sparta_ctx_free(cx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_phases),     cmocka_unit_test(test_bounds),  cmocka_unit_test(test_joins),
        cmocka_unit_test(test_cuts),       cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
