/* Conversions: thousands of random formats (sums too) and tensors of every type, the rules for zeros, duplicates, padding and
 * patterns, hostile sources, and no memory. */
#include "format_bed.h"

/* ------------------------------------------------------------------ any format to any other */

/* Packed from the tensor and converted from `from`, it is the same, array for array; levels that need no order have it as their
 * path found them, and only the tensor is the same. Refusals must agree, too. */
static bool check_conversion(const sp_packed *from, const sparta_tensor *t, const char *text, sp_packed *out)
{
    sp_format f = parse(text);
    sp_store_stats told, counted;
    sp_packed direct, got, slow;
    sparta_status status = sp_store_pack(cx, &f, t, NULL, &direct);
    if (status) {
        assert_int_equal(status, SPARTA_E_USAGE); /* a segment or a width that is too narrow, or no part */
        assert_int_equal(sp_store_convert(cx, from, &f, NULL, &got), status);
        assert_int_equal(sp_store_measure_converted(cx, from, &f, &told), status);
        return false;
    }
    if (sp_store_convert(cx, from, &f, NULL, &got)) fail_msg("%s: %s", text, sparta_message(cx));
    bool ordered = !strstr(text, "nonordered");
    if (ordered && !same_packed(&got, &direct)) fail_msg("%s: converted and packed differ", text);
    OK(sp_convert_generic(cx, from, &f, &slow));
    if (ordered && !same_packed(&slow, &direct)) fail_msg("%s: the generic path differs", text);
    expect_tensor(&slow, t, text);
    OK(sp_store_measure_converted(cx, from, &f, &told));
    OK(sp_store_measure_packed(cx, &got, &counted));
    assert_memory_equal(&told, &counted, sizeof told);
    OK(sp_store_measure(cx, &f, t, NULL, &told));
    assert_memory_equal(&told, &counted, sizeof told);
    expect_tensor(&got, t, text);
    sp_packed_free(cx, &direct), sp_packed_free(cx, &slow);
    *out = got;
    return true;
}

static void expect_coo(const sp_packed *p, const sp_coo *want, const char *text)
{
    sp_coo c;
    OK(sp_store_to_coo(cx, p, &c));
    if (!same_entries(&c, want)) fail_msg("%s: other entries", text);
    sp_coo_free(&c);
}

static void random_conversions(void **state)
{
    (void)state;
    static drawn d;
    static char text[3][FORMAT_DRAWN];
    sp_rng r = sp_rng_seed(31);
    int through[3] = {0};
    for (int n = 0; n < 5000; n++) {
        int rank = 1 + (int)roll(&r, 5);
        draw_tensor(&r, (sparta_dtype)(n % SP_DTYPES), rank, 1 + roll(&r, 6), &d);
        sp_packed dense = sp_store_of_dense(&d.t), p[3];
        sp_coo all;
        OK(sp_store_to_coo(cx, &dense, &all));
        int made = 0;
        for (int k = 0; k < 3; k++) {
            format_draw(&r, rank, true, text[made], sizeof text[made]);
            const sp_packed *from = made ? &p[made - 1] : &dense;
            if (!check_conversion(from, &d.t, text[made], &p[made])) continue;
            expect_coo(&p[made], &all, text[made]);
            through[made++]++;
        }
        for (int k = 0; k < made; k++) sp_packed_free(cx, &p[k]);
        sp_coo_free(&all);
    }
    assert_true(through[0] > 4000 && through[1] > 3000 && through[2] > 2000);
}

/* Entries as a source: a coo of any rank, and one that is dense. */
static void from_entries(void **state)
{
    (void)state;
    static drawn d;
    static char text[FORMAT_DRAWN];
    sp_rng r = sp_rng_seed(32);
    int64_t pos[2];
    for (int n = 0; n < 1500; n++) {
        int rank = 1 + (int)roll(&r, 6);
        draw_tensor(&r, (sparta_dtype)(n % SP_DTYPES), rank, 1 + roll(&r, 6), &d);
        sp_packed dense = sp_store_of_dense(&d.t), p;
        sp_coo c, whole = {.cx = cx, .dense = true, .rank = rank, .values = d.t};
        OK(sp_store_to_coo(cx, &dense, &c));
        sp_packed view = sp_store_of_coo(&c, pos), same = sp_store_of_coo(&whole, pos);
        OK(sp_packed_verify(cx, &view));
        OK(sp_packed_verify(cx, &same));
        format_draw(&r, rank, false, text, sizeof text);
        if (check_conversion(roll(&r, 4) ? &view : &same, &d.t, text, &p)) sp_packed_free(cx, &p);
        sp_coo_free(&c);
    }
}

/* ------------------------------------------------------------------ patterns */

static void random_patterns(void **state)
{
    (void)state;
    static drawn d;
    static char text[2][FORMAT_DRAWN];
    sp_rng r = sp_rng_seed(33);
    int64_t pos[2];
    int without = 0, with = 0;
    for (int n = 0; n < 3000; n++) {
        int rank = 1 + (int)roll(&r, 4);
        draw_tensor(&r, SPARTA_BOOL, rank, 1 + roll(&r, 6), &d);
        sp_packed dense = sp_store_of_dense(&d.t), p[2];
        sp_coo c;
        OK(sp_store_to_coo(cx, &dense, &c));
        sp_free(cx, c.values.data);
        c.values = (sparta_tensor){0};
        sp_packed view = sp_store_of_coo(&c, pos), *from = &view;
        int made = 0;
        for (int k = 0; k < 2; k++) {
            format_draw(&r, rank, true, text[made], sizeof text[made]);
            sp_format f = parse(text[made]);
            sp_store_stats told, counted;
            if (sp_store_convert(cx, from, &f, NULL, &p[made])) continue;
            OK(sp_packed_verify(cx, &p[made]));
            assert_true(p[made].pattern && p[made].dtype == SPARTA_BOOL);
            OK(sp_store_measure_converted(cx, from, &f, &told));
            OK(sp_store_measure_packed(cx, &p[made], &counted));
            assert_memory_equal(&told, &counted, sizeof told);
            expect_tensor(&p[made], &d.t, text[made]);
            expect_coo(&p[made], &c, text[made]);
            *(told.value_bytes ? &with : &without) += 1;
            from = &p[made++];
        }
        for (int k = 0; k < made; k++) sp_packed_free(cx, &p[k]);
        sp_coo_free(&c);
    }
    assert_true(without > 500 && with > 500);
}

/* No values where the format says which elements exist; bools where it does not. */
static void who_needs_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool values;
    } cases[] = {{"csr", false},
                 {"coo", false},
                 {"bitmap", false},
                 {"dcsr", false},
                 {"(i,j)->(i:compressed, j:packed[3])", false}, /* never an empty segment */
                 {"ell", true},
                 {"(i,j)->(i:dense, j:singleton)", true},
                 {"(i,j)->(i:packed[3], j:compressed)", true},
                 {"nm24", true},
                 {"dense", true},
                 {"bsr(2)", true},
                 {"dia", true},
                 {"(i,j)->(i:compressed, j:ragged)", true}};
    int64_t row[] = {1, 2}, col[] = {0, 3}, pos[2];
    sp_coo c = {.cx = cx, .rank = 2, .dim = {3, 4}, .n = 2, .index = {row, col}};
    sp_packed view = sp_store_of_coo(&c, pos);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_packed p = convert(&view, cases[i].text);
        if ((p.values.data != NULL) != cases[i].values) fail_msg("%s", cases[i].text);
        expect_coo(&p, &c, cases[i].text);
        if (!cases[i].values) { /* values that a pattern must not have, and missing ones */
            float one[2] = {1, 1};
            p.values = (sparta_tensor){SPARTA_BOOL, 1, {2}, {1}, one, 0};
            expect_message(sp_packed_verify(cx, &p), SPARTA_E_FORMAT, "packed: a pattern in this format");
            p.values = (sparta_tensor){0};
        } else {
            sp_packed q = p;
            q.values = (sparta_tensor){0};
            expect_message(sp_packed_verify(cx, &q), SPARTA_E_FORMAT, "packed: values are no contiguous");
        }
        p.dtype = SPARTA_U8;
        expect_message(sp_packed_verify(cx, &p), SPARTA_E_FORMAT, "packed: a pattern has no values");
        sp_packed_free(cx, &p);
    }
}

/* ------------------------------------------------------------------ rules */

static void explicit_zeros(void **state)
{
    (void)state;
    float w[12] = {0, 0, 1, 0, /* (0,1) is an explicit zero */
                   0, 0, 0, 0, /* so is (1,0), alone in its row */
                   2, 0, 0, 3};
    sparta_tensor t = {SPARTA_F32, 2, {3, 4}, {4, 1}, w, 0};
    sp_mask m;
    OK(sp_mask_create(cx, 3, 4, &m));
    sp_mask_set(&m, 0, 1), sp_mask_set(&m, 0, 2), sp_mask_set(&m, 1, 0);
    sp_mask_set(&m, 2, 0), sp_mask_set(&m, 2, 3);
    static const struct {
        const char *text;
        int64_t kept; /* after a round through this format */
    } cases[] = {{"csr", 5},
                 {"csc", 5},
                 {"coo", 5},
                 {"bitmap", 5},
                 {"(i,j)->(i:dense, j:loose)", 5},
                 {"(i,j)->(i:compressed, j:packed[2])", 5},
                 {"ell", 4}, /* a row with nothing but a zero in column 0 is an empty row */
                 {"(i,j)->(i:dense, j:compressed(zeroless))", 3},
                 {"bsr(2)", 3}, /* slots that nobody asked for */
                 {"dense", 3},
                 {"dia", 3},
                 {"(i,j)->(i:dense, j:ragged)", 3},
                 {"sum{rownnz<=1 -> coo; rest -> csr}", 5},
                 {"sum{rownnz<=1 -> bsr(2); rest -> csr}", 4},
                 {"quads", 5},
                 {"groups", 3}};
    sp_packed source = pack("csr", &t, &m);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_packed there = convert(&source, cases[i].text), back = convert(&there, "coo");
        if (back.values.dim[0] != cases[i].kept)
            fail_msg("%s: %lld entries, wanted %lld", cases[i].text, (long long)back.values.dim[0],
                     (long long)cases[i].kept);
        expect_tensor(&back, &t, cases[i].text);
        sp_packed_free(cx, &there), sp_packed_free(cx, &back);
    }
    sp_packed_free(cx, &source);
    sp_mask_free(cx, &m);
}

/* Empty rows of an ell are not elements at column 0. */
static void empty_segments(void **state)
{
    (void)state;
    float w[8] = {0, 0, 1, 0, 0, 0, 0, 2};
    sparta_tensor t = {SPARTA_F32, 2, {4, 2}, {2, 1}, w, 0};
    static const char *const texts[] = {"ell", "(i,j)->(i:dense, j:packed[2](pad=zero))",
                                        "(i,j)->(i/2:dense, i%2:dense, j:packed[1])",
                                        "(i,j)->(i:dense, j:singleton)", "(i,j)->(i:packed[3], j:packed[2])"};
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_packed p = pack(texts[i], &t, NULL), c = convert(&p, "coo");
        expect_packed(&c, "pos0 0 2; crd0 1 3; crd1 0 1; values 1 2; ");
        sp_packed_free(cx, &p), sp_packed_free(cx, &c);
    }
}

static void odd_values(void **state)
{
    (void)state;
    double w[6] = {-0.0, NAN, INFINITY, 0, -INFINITY, 5e-324};
    sparta_tensor t = {SPARTA_F64, 2, {2, 3}, {3, 1}, w, 0};
    static const char *const texts[] = {
        "csr",   "(i,j)->(i:dense, j:compressed(zeroless))", "bsr(2)", "ell", "dia", "dense", "quads",
        "groups"};
    for (size_t i = 0; i < SP_COUNT(texts); i++)
        for (size_t k = 0; k < SP_COUNT(texts); k++) {
            sp_packed p = pack(texts[i], &t, NULL), q = convert(&p, texts[k]), c = convert(&q, "coo");
            sp_store_stats stats;
            OK(sp_store_measure(cx, &p.format, &t, NULL, &stats));
            assert_int_equal(stats.elements, 5); /* -0.0 is a value */
            assert_int_equal(c.values.dim[0], 5);
            expect_tensor(&c, &t, texts[i]);
            sp_packed_free(cx, &p), sp_packed_free(cx, &q), sp_packed_free(cx, &c);
        }
}

static void duplicates(void **state)
{
    (void)state;
    /* (1,0) three times, (0,1) twice, in any order */
    int32_t pos[] = {0, 6}, row[] = {1, 0, 1, 0, 1, 0}, col[] = {0, 1, 0, 1, 0, 0};
    float values[] = {1, 2, 3, -2, 5, 7};
    sp_packed p = {.format = parse("(i,j)->(i:compressed(nonunique,nonordered), j:singleton(soa))"),
                   .dtype = SPARTA_F32,
                   .rank = 2,
                   .dim = {2, 2}};
    p.pos[0] = (sparta_tensor){SPARTA_I32, 1, {2}, {1}, pos, 0};
    p.crd[0] = (sparta_tensor){SPARTA_I32, 1, {6}, {1}, row, 0};
    p.crd[1] = (sparta_tensor){SPARTA_I32, 1, {6}, {1}, col, 0};
    p.values = (sparta_tensor){SPARTA_F32, 1, {6}, {1}, values, 0};
    sp_packed csr = convert(&p, "csr");
    expect_packed(&csr, "pos1 0 2 3; crd1 0 1 0; values 7 0 9; "); /* a sum of 0 is an element */
    sp_packed_free(cx, &csr);
    expect_tensor(&p, &(sparta_tensor){SPARTA_F32, 2, {2, 2}, {2, 1}, (float[]){7, 0, 9, 0}, 0},
                  "duplicates");
    int8_t bytes[] = {100, 1, 100, 2, 100, 4}; /* wraps, as integers do: 300 - 256 */
    p.dtype = p.values.dtype = SPARTA_I8, p.values.data = bytes;
    csr = convert(&p, "csr");
    expect_packed(&csr, "pos1 0 2 3; crd1 0 1 0; values 4 3 44; ");
    sp_packed_free(cx, &csr);
    uint8_t flags[] = {1, 1, 1, 1, 1, 1};
    p.dtype = p.values.dtype = SPARTA_BOOL, p.values.data = flags;
    csr = convert(&p, "csr");
    expect_packed(&csr, "pos1 0 2 3; crd1 0 1 0; values 1 1 1; ");
    sp_packed_free(cx, &csr);
    p.pattern = true, p.values = (sparta_tensor){0};
    csr = convert(&p, "csr");
    expect_packed(&csr, "pos1 0 2 3; crd1 0 1 0; ");
    sp_packed_free(cx, &csr);
    sp_store_stats stats;
    OK(sp_store_measure_packed(cx, &p, &stats)); /* of what is there */
    assert_int_equal(stats.elements, 6);
}

/* ------------------------------------------------------------------ walk */

typedef struct {
    int64_t n, stop;
    const sparta_tensor *t;
} visitor;

static sparta_status visit(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
{
    visitor *v = arg;
    int64_t at = 0;
    for (int d = 0; d < v->t->rank; d++) at += index[d] * v->t->stride[d];
    size_t size = sparta_dtype_size(v->t->dtype);
    assert_memory_equal((const char *)part->values.data + (size_t)position * size,
                        (const char *)v->t->data + (size_t)at * size, size);
    return ++v->n == v->stop ? sp_fail(cx, SPARTA_E_RANGE, "enough") : SPARTA_OK;
}

static void every_element_once(void **state)
{
    (void)state;
    static drawn d;
    static char text[FORMAT_DRAWN];
    sp_rng r = sp_rng_seed(34);
    for (int n = 0; n < 800; n++) {
        int rank = 1 + (int)roll(&r, 4);
        draw_tensor(&r, SPARTA_F32, rank, 1 + roll(&r, 6), &d);
        format_draw(&r, rank, true, text, sizeof text);
        sp_format f = parse(text);
        sp_packed p;
        sp_store_stats stats;
        if (sp_store_pack(cx, &f, &d.t, NULL, &p)) continue;
        visitor v = {.t = &d.t};
        OK(sp_packed_walk(cx, &p, visit, &v));
        OK(sp_store_measure(cx, &f, &d.t, NULL, &stats));
        assert_int_equal(v.n, stats.elements);
        if (v.n) { /* an error of the visitor ends the walk */
            v.n = 0, v.stop = 1;
            expect_message(sp_packed_walk(cx, &p, visit, &v), SPARTA_E_RANGE, "enough");
            assert_int_equal(v.n, 1);
        }
        sp_packed_free(cx, &p);
    }
}

/* ------------------------------------------------------------------ hostile sources */

static void hostile(void **state)
{
    (void)state;
    static drawn d;
    static char text[2][FORMAT_DRAWN];
    sp_rng r = sp_rng_seed(35);
    int refused = 0, converted = 0;
    for (int n = 0; n < 4000; n++) {
        int rank = 1 + (int)roll(&r, 4);
        draw_tensor(&r, SPARTA_I16, rank, 1 + roll(&r, 4), &d);
        for (int k = 0; k < 2; k++) format_draw(&r, rank, true, text[k], sizeof text[k]);
        sp_format f = parse(text[0]), to = parse(text[1]);
        sp_packed p, out = {.rank = 77};
        if (sp_store_pack(cx, &f, &d.t, NULL, &p)) continue;
        sp_packed *leaf = p.parts ? &p.part[roll(&r, (unsigned)p.parts)] : &p;
        int l = leaf->format.n ? (int)roll(&r, (unsigned)leaf->format.n) : 0;
        sparta_tensor *all[] = {&leaf->pos[l], &leaf->crd[l], &leaf->values}, *a = all[roll(&r, 3)];
        if (bytes_of(a)) ((uint8_t *)a->data)[roll(&r, (unsigned)bytes_of(a))] ^= (uint8_t)(1 << roll(&r, 8));
        if (roll(&r, 8) == 0 && a->rank == 1 && a->dim[0]) a->dim[0]--;
        sparta_status verified = sp_packed_verify(cx, &p);
        sparta_status status = sp_store_convert(cx, &p, &to, NULL, &out);
        if (verified) assert_int_equal(status, verified);
        assert_true(!status || out.rank == 77);
        assert_true(!status || status == SPARTA_E_FORMAT || status == SPARTA_E_USAGE);
        *(status ? &refused : &converted) += 1;
        if (!status) sp_packed_free(cx, &out);
        sp_packed_free(cx, &p);
    }
    assert_true(refused > 300 && converted > 300);
}

static void what_is_refused(void **state)
{
    (void)state;
    float w[12] = {1, 2, 3, 0, 0, 0, 4};
    sparta_tensor t = {SPARTA_F32, 2, {3, 4}, {4, 1}, w, 0};
    sp_packed p = pack("ell", &t, NULL), out = {.rank = 77};
    sp_format f = parse("csf"), csr = parse("csr");
    assert_int_equal(sp_store_convert(cx, &p, &f, NULL, &out), SPARTA_E_USAGE);
    f = parse("(i,j)->(i:dense, j:packed[2])");
    expect_message(sp_store_convert(cx, &p, &f, NULL, &out), SPARTA_E_USAGE,
                   "pack: row 0 has 3 entries, packed[2] holds 2; use packed[3] or packed[auto], or a sum");
    f = parse("sum{rownnz<=2 -> csr}");
    expect_message(sp_store_convert(cx, &p, &f, NULL, &out), SPARTA_E_USAGE, "pack: row 0 has 3 elements");
    ((float *)p.values.data)[4] = 1; /* padding of row 1: it has one element */
    expect_message(sp_store_convert(cx, &p, &csr, NULL, &out), SPARTA_E_FORMAT,
                   "packed: value 4 lies outside the tensor, in the padding");
    p.format.n = 99;
    assert_int_equal(sp_store_convert(cx, &p, &csr, NULL, &out), SPARTA_E_FORMAT);
    p.format.n = 2;
    assert_int_equal(out.rank, 77);
    sp_packed_free(cx, &p);
}

/* A pattern has no value that could be 0: what lies outside the tensor is wrong. */
static void pattern_outside(void **state)
{
    (void)state;
    int64_t index[] = {1, 4}, pos[2];
    sp_coo c = {.cx = cx, .rank = 1, .dim = {6}, .n = 2, .index = {index}};
    sp_packed view = sp_store_of_coo(&c, pos);
    sp_packed p = convert(&view, "(i)->(i/4:compressed, i%4:compressed)"), out;
    sp_format to = parse("(i)->(i:compressed)");
    expect_packed(&p, "pos0 0 2; crd0 0 1; pos1 0 1 2; crd1 1 0; ");
    ((int32_t *)p.crd[1].data)[1] = 2; /* element 6 of 6 */
    OK(sp_packed_verify(cx, &p));
    expect_message(sp_store_convert(cx, &p, &to, NULL, &out), SPARTA_E_FORMAT,
                   "packed: value 1 lies outside the tensor");
    uint8_t back[6] = {9};
    expect_message(sp_store_unpack(cx, &p, &(sparta_tensor){SPARTA_BOOL, 1, {6}, {1}, back, 0}),
                   SPARTA_E_FORMAT, "packed: value 1 lies outside the tensor");
    assert_int_equal(back[0], 9);
    sp_packed_free(cx, &p);
}

/* ------------------------------------------------------------------ memory */

/* A tensor of 10^12 elements, three of them there, in a context with little memory. */
static void never_dense(void **state)
{
    (void)state;
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = 64 << 10;
    sparta_ctx *small = sparta_ctx_create(&options);
    int64_t row[] = {5, 999999, 999999}, col[] = {0, 7, 999999}, pos[2];
    double values[] = {1, 2, 3};
    sp_coo c = {.cx = small,
                .rank = 2,
                .dim = {1000000, 1000000},
                .n = 3,
                .index = {row, col},
                .values = {SPARTA_F64, 1, {3}, {1}, values, 0}};
    sp_packed view = sp_store_of_coo(&c, pos), p, back;
    static const char *const texts[] = {"dcsr", "dcsc", "coo", "dbsr(4)",
                                        "sum{rownnz<=1 -> dcsr; rest -> coo}"};
    sp_format coo;
    assert_int_equal(sp_format_parse(small, "coo, pos=i64, crd=i64", &coo), SPARTA_OK);
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_format f;
        assert_int_equal(sp_format_parse(small, texts[i], &f), SPARTA_OK);
        assert_int_equal(sp_store_convert(small, &view, &f, NULL, &p), SPARTA_OK);
        assert_int_equal(sp_store_convert(small, &p, &coo, NULL, &back), SPARTA_OK);
        assert_true(same_array(&back.crd[0], &view.crd[0]) && same_array(&back.crd[1], &view.crd[1]) &&
                    same_array(&back.values, &view.values));
        sp_packed_free(small, &p), sp_packed_free(small, &back);
    }
    sp_format csr; /* a million positions do not fit, and say so */
    assert_int_equal(sp_format_parse(small, "csr", &csr), SPARTA_OK);
    assert_int_equal(sp_store_convert(small, &view, &csr, NULL, &p), SPARTA_E_MEMORY);
    sparta_ctx_free(small);
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "csr",    "csc", "ell",
        "bsr(2)", "dia", "quads(3)",
        "groups", "coo", "sum{rownnz<=2 -> csr; rest -> (i,j)->(i:compressed, j:packed[4])}"};
    float w[20] = {1, 0, 2, 0, 0, 0, 3, 0, 0, 4, 5, 6, 7, 8, 0};
    sparta_tensor t = {SPARTA_F32, 2, {5, 4}, {4, 1}, w, 0};
    for (size_t i = 0; i < SP_COUNT(texts); i++)
        for (size_t k = 0; k < SP_COUNT(texts); k++) {
            sp_packed p = pack(texts[i], &t, NULL), q;
            sp_format f = parse(texts[k]);
            size_t before = sp_ctx_memory(cx);
            for (uint64_t nth = 1;; nth++) {
                assert_true(nth < 500);
                sp_ctx_fail_alloc(cx, nth, false);
                sparta_status status = sp_store_convert(cx, &p, &f, NULL, &q);
                sp_ctx_fail_alloc(cx, 0, false);
                if (!status) sp_packed_free(cx, &q);
                assert_int_equal(sp_ctx_memory(cx), before);
                if (!status) break;
                assert_int_equal(status, SPARTA_E_MEMORY);
            }
            sp_packed_free(cx, &p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_conversions), cmocka_unit_test(from_entries),
        cmocka_unit_test(random_patterns),    cmocka_unit_test(who_needs_values),
        cmocka_unit_test(explicit_zeros),     cmocka_unit_test(empty_segments),
        cmocka_unit_test(odd_values),         cmocka_unit_test(duplicates),
        cmocka_unit_test(every_element_once), cmocka_unit_test(hostile),
        cmocka_unit_test(what_is_refused),    cmocka_unit_test(pattern_outside),
        cmocka_unit_test(never_dense),        cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up_strict, tear_down);
}
