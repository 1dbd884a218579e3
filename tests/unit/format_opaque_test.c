/* Opaque formats: arrays worked out by hand, random tensors against them, widths, and broken storage. */
#include "format_bed.h"
#include "format/ascend.h"
#include "format/opaque.h"
#include "store/store.h"

static void quads_by_hand(void **state)
{
    (void)state;
    /* the drawing of opaque_quads.c, and a second strip of one row */
    float w[25] = {1, 0, 3, 0,     6, /* */
                   0, 5, 0, 0,     0, /* */
                   2, 0, 4, 0,     0, /* */
                   0, 0, 0, 0,     0, /* */
                   0, 7, 0, -0.0f, 0};
    sparta_tensor t = {SPARTA_F32, 2, {5, 5}, {5, 1}, w, 0};
    expect_arrays("quads", &t,
                  "crd0 0 1 1 0 0 2 0 0 0 0 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0; "
                  "crd1 4 1 0 2 1 3; values 6 5 1 2 3 4 7 -0; ");
    /* blocks of 3 columns: strips 0 and 1 of columns 0-2, then of columns 3-4, counted from 3 on */
    expect_arrays("quads(3)", &t,
                  "crd0 0 0 1 0 0 2 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
                  "0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0; "
                  "crd1 1 0 2 1 1 0; values 5 1 2 3 4 7 6 -0; ");
}

/* The fast look at indices says what a slow one would, at every length and however many there are. */
static void ascents(void **state)
{
    (void)state;
    enum { MOST = 70000 };
    static uint16_t index[MOST];
    static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 31, 33, 120, 16383, 16384, 16385, 32769, MOST};
    for (size_t l = 0; l < SP_COUNT(lengths); l++)
        for (int kind = 0; kind < 3; kind++) {
            sp_ascent want = {0, 0};
            for (int64_t i = 0; i < lengths[l]; i++) {
                index[i] = (uint16_t)(kind == 0 ? i : kind == 1 ? MOST - i : i * 40503 % 1009);
                if (index[i] > want.most) want.most = index[i];
                want.falls += i && index[i] <= index[i - 1];
            }
            const sp_ascent got = sp_ascent_of(index, lengths[l]);
            assert_int_equal(got.most, want.most);
            assert_int_equal(got.falls, want.falls);
        }
}

static void pairs_by_hand(void **state)
{
    (void)state;
    float w[21] = {1, 2, 3, 4,  5, 0,  6, /* the drawing of opaque_pairs.c */
                   0, 0, 0, 20, 0, 0,  0, /* */
                   7, 8, 9, 10, 0, 11, 12};
    sparta_tensor t = {SPARTA_F32, 2, {3, 7}, {7, 1}, w, 0};
    expect_arrays("pairs", &t,
                  "crd0 0 2 4 2 1 1 0 1; crd1 0 1 2 3 4 5 6 6 3; "
                  "values 1 2 3 4 7 8 9 10 5 11 6 12 20; ");
    /* ranges of 4 columns: rows 0 and 2 share all of the first; in the second, rows of 2 and the empty one */
    expect_arrays("pairs(4)", &t,
                  "crd0 0 2 4 0 1 1 0 1 0 2 0 2 1 1 0 0; crd1 0 1 2 3 3 0 1 2 2; "
                  "values 1 2 3 4 7 8 9 10 20 5 11 6 12; ");
    /* more than four of each besides: fours of the one and of the other row, then single ones */
    float v[24] = {1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, /* */
                   0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2};
    sparta_tensor u = {SPARTA_F32, 2, {2, 12}, {12, 1}, v, 0};
    expect_arrays("pairs", &u, "crd0 0 1 0 5; crd1 0 1 2 3 7 8 9 10 4 11; values 1 1 1 1 2 2 2 2 1 2; ");
}

static void groups_by_hand(void **state)
{
    (void)state;
    int8_t w[30] = {1, 0, 0, 4, 0, 8, /* the drawing of opaque_groups.c */
                    2, 0, 3, 0, 0, 0, /* */
                    0, 0, 0, 5, 0, 0, /* */
                    0, 0, 0, 6, 7, 0, /* */
                    0, 9, 0, 0, 0, 0};
    sparta_tensor t = {SPARTA_I8, 2, {5, 6}, {6, 1}, w, 0};
    expect_arrays("groups", &t,
                  "crd0 0 2 3; crd1 0 2 3 4 5 5 5 5 1 1 1 1; "
                  "values 1 0 4 0 2 3 0 0 0 0 5 0 0 0 6 7 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
                  "9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0; ");
}

/* Explicit zeros: quads have slots for elements only, groups for others too. */
static void zeros(void **state)
{
    (void)state;
    float w[8] = {1, 0, 0, 2, 0, 0, 0, 0};
    sparta_tensor t = {SPARTA_F32, 2, {2, 4}, {4, 1}, w, 0};
    sp_mask m;
    OK(sp_mask_create(cx, 2, 4, &m));
    sp_mask_set(&m, 0, 0), sp_mask_set(&m, 0, 2), sp_mask_set(&m, 1, 3);
    sp_packed p = pack("quads", &t, &m), g = pack("groups", &t, &m);
    sp_packed a = convert(&p, "coo"), b = convert(&g, "coo");
    expect_packed(&a, "pos0 0 3; crd0 0 0 1; crd1 0 2 3; values 1 0 0; ");
    expect_packed(&b, "pos0 0 1; crd0 0; crd1 0; values 1; ");
    sp_packed_free(cx, &p), sp_packed_free(cx, &g);
    sp_packed_free(cx, &a), sp_packed_free(cx, &b);
    sp_mask_free(cx, &m);
}

static void patterns(void **state)
{
    (void)state;
    int64_t row[] = {0, 0, 5}, col[] = {1, 3, 0}, pos[2];
    sp_coo c = {.cx = cx, .rank = 2, .dim = {6, 4}, .n = 3, .index = {row, col}};
    sp_packed view = sp_store_of_coo(&c, pos);
    sp_packed q = convert(&view, "quads(2)"), g = convert(&view, "groups");
    assert_true(q.pattern && g.pattern && q.dtype == SPARTA_BOOL && !q.values.data);
    assert_int_equal(g.values.dim[0], 2 * 16); /* only bools tell its slots from its elements */
    uint8_t back[24], want[24] = {[1] = 1, [3] = 1, [20] = 1};
    sparta_tensor out = {SPARTA_BOOL, 2, {6, 4}, {4, 1}, back, 0};
    OK(sp_store_unpack(cx, &q, &out));
    assert_memory_equal(back, want, sizeof back);
    OK(sp_store_unpack(cx, &g, &out));
    assert_memory_equal(back, want, sizeof back);
    sp_packed_free(cx, &q), sp_packed_free(cx, &g);
}

static void shapes_and_widths(void **state)
{
    (void)state;
    sp_format q = parse("quads"), k = parse("quads(256)"), g = parse("groups");
    OK(sp_format_check(cx, &q, 2, (int64_t[]){7, 65536}));
    OK(sp_format_check(cx, &k, 2, (int64_t[]){7, 1 << 20}));
    OK(sp_format_check(cx, &g, 2, (int64_t[]){7, 65536}));
    expect_message(
        sp_format_check(cx, &q, 2, (int64_t[]){7, 65537}), SPARTA_E_USAGE,
        "format: quads: indices are u16, a block of 65537 columns is too wide; use quads(K) with K from");
    expect_message(sp_format_check(cx, &g, 2, (int64_t[]){7, 65537}), SPARTA_E_USAGE,
                   "format: groups: 65537 columns are too many");
    assert_int_equal(sp_format_check(cx, &g, 3, (int64_t[]){7, 7, 7}), SPARTA_E_USAGE);
    assert_int_equal(sp_format_check(cx, &q, 1, (int64_t[]){7}), SPARTA_E_USAGE);
    assert_int_equal(sp_format_check(cx, &q, 2, (int64_t[]){INT64_MAX, 1000}), SPARTA_E_LIMIT);
    sp_format pairs = parse("pairs");
    OK(sp_format_check(cx, &pairs, 2, (int64_t[]){7, 65536}));
    expect_message(sp_format_check(cx, &pairs, 2, (int64_t[]){7, 65537}), SPARTA_E_USAGE,
                   "format: pairs: indices are u16, a range of 65537 columns is too wide; use pairs(K)");
    assert_int_equal(sp_format_check(cx, &pairs, 1, (int64_t[]){7}), SPARTA_E_USAGE);
    assert_int_equal(sp_format_check(cx, &pairs, 2, (int64_t[]){INT64_MAX, 1000}), SPARTA_E_LIMIT);
    assert_int_equal(sp_format_check(cx, &g, 2, (int64_t[]){INT64_MAX, 1000}), SPARTA_E_LIMIT);
    uint8_t *w = calloc(1, 65536);
    sparta_tensor t = {SPARTA_U8, 2, {1, 65536}, {65536, 1}, w, 0};
    memset(w, 1, 65535);
    sp_packed p = pack("quads", &t, NULL); /* 65535 of one pattern fit */
    assert_int_equal(((uint16_t *)p.crd[0].data)[1], 65535);
    sp_packed_free(cx, &p);
    w[65535] = 1;
    expect_message(
        sp_store_pack(cx, &q, &t, NULL, &p), SPARTA_E_USAGE,
        "pack: quads: 65536 columns of a block have one pattern, counts hold 65535; use quads(32768)");
    p = pack("quads(32768)", &t, NULL);
    sp_packed_free(cx, &p);
    free(w);
}

static const char *const texts[] = {"quads",    "quads(1)", "quads(3)",  "quads(16)", "pairs",
                                    "pairs(1)", "pairs(3)", "pairs(16)", "groups"};

static void random_tensors(void **state)
{
    (void)state;
    static drawn d;
    sp_rng r = sp_rng_seed(21);
    size_t before = sp_ctx_memory(cx);
    for (int n = 0; n < 3000; n++) {
        const char *text = texts[roll(&r, SP_COUNT(texts))];
        draw_tensor(&r, (sparta_dtype)(n % SP_DTYPES), 2, 1 + roll(&r, 6), &d);
        sp_packed p = pack(text, &d.t, NULL);
        sp_store_stats told, measured;
        OK(sp_store_measure(cx, &p.format, &d.t, NULL, &told));
        OK(sp_store_measure_packed(cx, &p, &measured));
        assert_memory_equal(&told, &measured, sizeof told);
        assert_int_equal(told.bytes, bytes_of(&p.crd[0]) + bytes_of(&p.crd[1]) + bytes_of(&p.values));
        assert_int_equal(told.slots, p.values.dim[0]);
        expect_tensor(&p, &d.t, text);
        sp_packed_free(cx, &p);
    }
    assert_int_equal(sp_ctx_memory(cx), before);
}

/* Flip bits of storage whose arrays are exactly as long as they say: refused, or read safely. */
static void damage(void **state)
{
    (void)state;
    static drawn d;
    static uint8_t back[ROOM * 8];
    sp_rng r = sp_rng_seed(22);
    int refused = 0, accepted = 0;
    for (int n = 0; n < 4000; n++) {
        draw_tensor(&r, SPARTA_I16, 2, 1 + roll(&r, 4), &d);
        sp_packed good = pack(texts[roll(&r, SP_COUNT(texts))], &d.t, NULL), p = good;
        sparta_tensor *all[] = {&p.crd[0], &p.crd[1], &p.values}, out = d.t;
        out.data = back;
        for (int i = 0; i < 3; i++) {
            void *copy = malloc(bytes_of(all[i]) + 1); /* one more: never a null pointer */
            memcpy(copy, all[i]->data, bytes_of(all[i]));
            all[i]->data = copy;
        }
        sparta_tensor *a = all[roll(&r, 3)];
        if (bytes_of(a)) ((uint8_t *)a->data)[roll(&r, (unsigned)bytes_of(a))] ^= (uint8_t)(1 << roll(&r, 8));
        if (roll(&r, 6) == 0 && a->dim[0]) a->dim[0]--;
        if (roll(&r, 8) == 0) p.dim[roll(&r, 2)] += roll(&r, 3);
        sparta_status verified = sp_packed_verify(cx, &p), unpacked = sp_store_unpack(cx, &p, &out);
        assert_true(!verified || verified == SPARTA_E_FORMAT);
        if (verified) assert_int_equal(unpacked, verified);
        *(verified ? &refused : &accepted) += 1;
        for (int i = 0; i < 3; i++) free(all[i]->data);
        sp_packed_free(cx, &good);
    }
    assert_true(refused > 500 && accepted > 500);
}

static void broken(void **state)
{
    (void)state;
    float w[20] = {1, 0, 2, 0, 0, 0, 3, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 6}, back[20] = {9};
    sparta_tensor t = {SPARTA_F32, 2, {5, 4}, {4, 1}, w, 0}, out = {SPARTA_F32, 2, {5, 4}, {4, 1}, back, 0};
#define BREAK(text, message, change)                                                                         \
    do {                                                                                                     \
        sp_packed good = pack(text, &t, NULL), p = good;                                                     \
        uint16_t *counts = p.crd[0].data, *index = p.crd[1].data;                                            \
        int32_t *pos = p.crd[0].data;                                                                        \
        (void)counts, (void)index, (void)pos;                                                                \
        change;                                                                                              \
        expect_message(sp_store_unpack(cx, &p, &out), SPARTA_E_FORMAT, message);                             \
        assert_true(back[0] == 9);                                                                           \
        sp_packed_free(cx, &good);                                                                           \
    } while (0)
    BREAK("quads", "packed: quads: counts has 31 entries, 1 blocks of 2 strips need 32",
          p.crd[0].dim[0] = 31);
    BREAK("quads", "packed: quads: counts[0] is 1, but the strip has 4 rows", counts[0] = 1);
    BREAK("quads", "packed: quads: counts[18] is 1, but the strip has 1 rows", counts[17] = 0;
          counts[18] = 1);
    BREAK("quads", "packed: quads: counts[17] is 2, index has", counts[17] = 2);
    BREAK("quads", "packed: quads: counts say 3 columns, index has 4", counts[17] = 0);
    BREAK("quads", "packed: quads: index[3] is 4 after -1; the columns of a bucket ascend and are below 4",
          index[3] = 4);
    BREAK("quads", "packed: index are i16, the format says u16", p.crd[1].dtype = SPARTA_I16);
    BREAK("quads", "packed: counts are no contiguous array", p.crd[0].rank = 2);
    BREAK("quads", "packed: 5 values, the levels have 6 positions", p.values.dim[0]--);
    /* rows 0 and 2 share none, 1, 3 and 4 are left: (0 2) (1 4) 3 */
#define JOB(i, word) ((uint32_t *)p.crd[0].data)[(i)*4 + (word)]
    BREAK("pairs", "packed: pairs: jobs has 11 entries, each job has 4", p.crd[0].dim[0]--);
    BREAK("pairs", "packed: pairs: 2 jobs, 1 ranges of 5 rows need more", p.crd[0].dim[0] -= 4);
    BREAK("pairs", "packed: pairs: job 0 has row 5, which is none of 5", JOB(0, 0) = 5);
    BREAK("pairs", "packed: pairs: job 1 has row 0, which is none of 5 or had its turn", JOB(1, 1) = 0);
    BREAK("pairs", "packed: pairs: job 0 shares 2 columns; fours are shared", JOB(0, 2) = 2);
    BREAK("pairs", "packed: pairs: job 2 shares 4 columns; fours are shared, by two rows", JOB(2, 2) = 4);
    BREAK("pairs", "packed: pairs: job 2 has 4294967295 columns, index has", JOB(2, 3) = UINT32_MAX);
    BREAK("pairs", "packed: pairs: jobs say 4 columns in 1 ranges, index has 6, the shape 1", JOB(1, 3) = 0);
    BREAK("pairs", "packed: pairs: index[0] is 4 after -1; the columns of a row ascend and are below 4",
          index[0] = 4);
    BREAK("pairs", "packed: pairs: index[2] is 0 after 0", index[2] = 0);
    BREAK("pairs", "packed: index are i16, the format says u16", p.crd[1].dtype = SPARTA_I16);
    BREAK("pairs", "packed: 5 values, the levels have 6 positions", p.values.dim[0]--);
#undef JOB
    BREAK("groups", "packed: groups: pos has 2 entries for 2 strips", p.crd[0].dim[0] = 2);
    BREAK("groups", "packed: groups: pos has 3 entries for 2 strips and index 8; they need one more",
          pos[0] = 1);
    BREAK("groups", "packed: groups: pos[1] is 3 after 0", pos[1] = 3);
    BREAK("groups", "packed: groups: pos[1] is -1 after 0", pos[1] = -1);
    BREAK("groups", "packed: groups: pos ends at 1, index has 2 groups", pos[2] = 1);
    BREAK("groups", "packed: groups: index[1] is 0 after 1", index[0] = 1; index[1] = 0);
    BREAK("groups", "packed: groups: index[6] is 4 after 3", index[6] = 4);
    BREAK("groups", "packed: groups: index[6] is 3 after 2", index[4] = 2; index[5] = 2; index[6] = 3);
    BREAK("groups", "packed: value 17 lies outside the tensor, in the padding",
          ((float *)p.values.data)[17] = 1);
    BREAK("groups", "packed: value 20 lies outside the tensor, in the padding",
          ((float *)p.values.data)[20] = 1);
    BREAK("groups", "packed: values are f32, the format says f64", p.dtype = SPARTA_F64);
#undef BREAK
    sparta_tensor row = {SPARTA_F32, 2, {1, 3}, {3, 1}, (float[]){1, 2, 0}, 0};
    sp_packed p = pack("quads", &row, NULL); /* two columns in one bucket */
    ((uint16_t *)p.crd[1].data)[0] = 1;
    expect_message(sp_packed_verify(cx, &p), SPARTA_E_FORMAT,
                   "packed: quads: index[1] is 1 after 1; the columns of a bucket ascend");
    sp_packed_free(cx, &p);
}

/* The fast path of a dense source against the entries: shapes around words and strips, any strides and types, with a mask and without. */
static void fast_quads(void **state)
{
    (void)state;
    static const char *const text[] = {"quads", "quads(64)", "quads(128)"};
    static const sparta_dtype dtype[] = {SPARTA_F32, SPARTA_I8, SPARTA_BF16, SPARTA_F64};
    sp_rng r = sp_rng_seed(11);
    for (int i = 0; i < 400; i++) {
        const int64_t n = 1 + (int64_t)(sp_rng_next(&r) % 21), k = 1 + (int64_t)(sp_rng_next(&r) % 300);
        const bool turned = sp_rng_next(&r) & 1, masked = sp_rng_next(&r) & 1;
        const double density = sp_rng_uniform(&r);
        sparta_tensor t;
        sp_mask m = {0};
        OK(sp_tensor_alloc(cx, dtype[i % 4], 2, (int64_t[]){turned ? k : n, turned ? n : k}, &t));
        for (int64_t e = 0; e < n * k; e++)
            if (sp_rng_uniform(&r) < density)
                sp_element_set(t.dtype, t.data, e, (double)(sp_rng_next(&r) % 100));
        if (turned) t.dim[0] = n, t.dim[1] = k, t.stride[0] = 1, t.stride[1] = n;
        if (masked) {
            OK(sp_mask_create(cx, n, k, &m));
            for (int64_t e = 0; e < n * k; e++)
                if (sp_rng_uniform(&r) < density) sp_mask_set(&m, e / k, e % k);
        }
        const sp_format f = parse(text[i % 3]);
        const sp_pack_job job = {&f, &t, masked ? &m : NULL, true};
        sp_packed fast = pack(text[i % 3], &t, job.mask), slow = {.format = f, .dtype = t.dtype, .rank = 2};
        sp_store_stats said = {0}, stats = {0};
        slow.dim[0] = n, slow.dim[1] = k;
        assert_true(sp_pack_quads_can(&f, &t));
        OK(sp_pack_generic(cx, &job, &slow, &stats));
        OK(sp_store_measure(cx, &f, &t, job.mask, &said));
        assert_true(same_packed(&fast, &slow));
        assert_memory_equal(&said, &stats, sizeof said);
        sp_packed_free(cx, &fast), sp_packed_free(cx, &slow);
        sp_mask_free(cx, &m);
        sp_free(cx, t.data);
    }
}

static void out_of_memory(void **state)
{
    (void)state;
    float w[20] = {1, 0, 2, 0, 0, 0, 3, 0, 0, 4, 5}, back[20];
    sparta_tensor t = {SPARTA_F32, 2, {5, 4}, {4, 1}, w, 0}, out = {SPARTA_F32, 2, {5, 4}, {4, 1}, back, 0};
    size_t before = sp_ctx_memory(cx);
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_format f = parse(texts[i]);
        for (uint64_t nth = 1;; nth++) {
            sp_packed p = {0};
            assert_true(nth < 200);
            sp_ctx_fail_alloc(cx, nth, false);
            sparta_status status = sp_store_pack(cx, &f, &t, NULL, &p);
            if (!status) status = sp_store_unpack(cx, &p, &out);
            sp_ctx_fail_alloc(cx, 0, false);
            sp_packed_free(cx, &p);
            assert_int_equal(sp_ctx_memory(cx), before);
            if (!status) {
                assert_true(nth > 3);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quads_by_hand),  cmocka_unit_test(pairs_by_hand),
                                       cmocka_unit_test(groups_by_hand), cmocka_unit_test(zeros),
                                       cmocka_unit_test(patterns),       cmocka_unit_test(shapes_and_widths),
                                       cmocka_unit_test(random_tensors), cmocka_unit_test(ascents),
                                       cmocka_unit_test(damage),         cmocka_unit_test(broken),
                                       cmocka_unit_test(fast_quads),     cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up_strict, tear_down);
}
