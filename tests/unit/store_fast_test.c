/* Fast conversions against the generic one: every path, array for array, over shapes, densities, types, widths, threads;
 * and what they do with entries twice, hostile storage and memory that fails. (Slow: make test only.) */
#include "bed.h"
#include "store/convert.h"

static sp_pool *pool[4]; /* by threads; 0 and 1: none */

static int set_up_pools(void **state)
{
    if (set_up(state)) return -1;
    for (int t = 2; t <= 3; t++) pool[t] = sp_pool_create(cx, t);
    return !pool[2] || !pool[3];
}

static int tear_down_pools(void **state)
{
    for (int t = 2; t <= 3; t++) sp_pool_free(pool[t]);
    return tear_down(state);
}

static sp_format format_of(const char *text)
{
    sp_format f;
    if (sp_format_parse(cx, text, &f)) fail_msg("%s: %s", text, sparta_message(cx));
    return f;
}

/* ------------------------------------------------------------------ matrices as entries */

typedef struct {
    int64_t rows, cols;
    double density;
    int zeros; /* one of so many values is an explicit 0; 0: none */
    bool nm;   /* at most 2 of 4 */
    bool pattern;
    sparta_dtype dtype;
} spec;

/* Ascending entries, or shuffled ones. */
static sp_packed entries_of(const spec *s, bool shuffle, uint64_t seed)
{
    sp_rng r = sp_rng_seed(seed);
    size_t size = sparta_dtype_size(s->dtype), most = (size_t)(s->rows * s->cols);
    sp_packed p = {
        .format = format_of(
            shuffle ? "(i,j)->(i:compressed(nonunique,nonordered), j:singleton(nonordered,soa))" : "coo"),
        .dtype = s->pattern ? SPARTA_BOOL : s->dtype,
        .pattern = s->pattern,
        .rank = 2,
        .dim = {s->rows, s->cols}};
    int32_t *row = sp_alloc(cx, most * 4), *col = sp_alloc(cx, most * 4);
    char *value = sp_zalloc(cx, most * size);
    int64_t n = 0;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0, group = 0; j < s->cols; j++) {
            if (j % 4 == 0) group = 0;
            if (sp_rng_uniform(&r) >= s->density || (s->nm && group == 2)) continue;
            group++;
            row[n] = (int32_t)i, col[n] = (int32_t)j;
            bool zero = s->zeros && sp_rng_next(&r) % (unsigned)s->zeros == 0;
            if (!zero) sp_element_set(s->dtype, value, n, (double)(1 + sp_rng_next(&r) % 100));
            n++;
        }
    for (int64_t i = n - 1; shuffle && i > 0; i--) {
        int64_t k = (int64_t)(sp_rng_next(&r) % (uint64_t)(i + 1));
        char t[8];
        int32_t a = row[i], b = col[i];
        row[i] = row[k], col[i] = col[k], row[k] = a, col[k] = b;
        memcpy(t, value + (size_t)i * size, size);
        memcpy(value + (size_t)i * size, value + (size_t)k * size, size);
        memcpy(value + (size_t)k * size, t, size);
    }
    int32_t *pos = sp_zalloc(cx, 8);
    pos[1] = (int32_t)n;
    p.pos[0] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, pos);
    p.crd[0] = sparta_tensor_view(SPARTA_I32, 1, &n, row);
    p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &n, col);
    if (s->pattern)
        sp_free(cx, value);
    else
        p.values = sparta_tensor_view(s->dtype, 1, &n, value);
    return p;
}

/* ------------------------------------------------------------------ array for array */

static void same_array(const sparta_tensor *a, const sparta_tensor *b, const char *what, int level,
                       const char *where)
{
    int64_t n = 1;
    if (a->rank != b->rank || !a->data != !b->data)
        fail_msg("%s: %s %d: only one is there", where, what, level);
    if (!a->data) return;
    for (int d = 0; d < a->rank; d++) {
        if (a->dim[d] != b->dim[d])
            fail_msg("%s: %s %d: %lld and %lld", where, what, level, (long long)a->dim[d],
                     (long long)b->dim[d]);
        n *= a->dim[d];
    }
    if (a->dtype != b->dtype || memcmp(a->data, b->data, (size_t)n * sparta_dtype_size(a->dtype)))
        fail_msg("%s: %s %d differ", where, what, level);
}

static void same(const sp_packed *a, const sp_packed *b, const char *where)
{
    if (!sp_format_equal(&a->format, &b->format) || a->dtype != b->dtype || a->pattern != b->pattern ||
        a->rank != b->rank || a->dim[0] != b->dim[0] || a->dim[1] != b->dim[1] || a->parts != b->parts)
        fail_msg("%s: heads differ", where);
    for (int l = 0; l < SP_LEVELS; l++) {
        same_array(&a->pos[l], &b->pos[l], "pos", l, where);
        same_array(&a->crd[l], &b->crd[l], "crd", l, where);
    }
    same_array(&a->values, &b->values, "values", 0, where);
    for (int i = 0; i < a->parts; i++) same(&a->part[i], &b->part[i], where);
}

/* The same for what it would store. Returns whether it was counted by rows. */
static bool compare_stats(const sp_packed *from, const sp_format *to, const char *where)
{
    sp_store_stats fast = {.slots = -1}, oracle = {0};
    bool done = false;
    size_t held = sp_ctx_memory(cx);
    sparta_status refused = sp_measure_generic(cx, from, to, &oracle);
    sparta_status status = sp_measure_fast(cx, from, to, &done, &fast);
    if (refused && !status && done)
        fail_msg("%s: measured what the generic path refuses: %s", where, sparta_message(cx));
    if (!refused && status) fail_msg("%s: %s", where, sparta_message(cx));
    if (!done || status) {
        assert_int_equal(fast.slots, -1);
        done = false;
    } else if (memcmp(&fast, &oracle, sizeof fast)) {
        fail_msg("%s: statistics differ: %lld elements, %lld slots, %zu bytes; %lld, %lld, %zu", where,
                 (long long)fast.elements, (long long)fast.slots, fast.bytes, (long long)oracle.elements,
                 (long long)oracle.slots, oracle.bytes);
    }
    assert_int_equal(sp_ctx_memory(cx), held);
    return done;
}

/* Does the fast path give what the generic gives, or refuse what it refuses? Returns whether it was taken. */
static bool compare(const sp_packed *from, const sp_format *to, int threads, const char *where)
{
    sp_packed fast = {0}, oracle = {0};
    bool done = false;
    size_t held = sp_ctx_memory(cx);
    sparta_status refused = sp_convert_generic(cx, from, to, &oracle);
    sparta_status status = sp_convert_fast(cx, from, to, pool[threads], &done, &fast);
    if (refused && (done || (status && status != refused)))
        fail_msg("%s: the generic path refuses: %s", where, sparta_message(cx));
    if (!refused && status) fail_msg("%s: %s", where, sparta_message(cx));
    if (done) same(&fast, &oracle, where);
    if (done) assert_int_equal(sp_packed_verify(cx, &fast), SPARTA_OK);
    sp_packed_free(cx, &fast);
    sp_packed_free(cx, &oracle);
    assert_int_equal(sp_ctx_memory(cx), held);
    compare_stats(from, to, where);
    return done;
}

static const char *const texts[] = {
    "dense",
    "(i,j)->(j:dense, i:dense)",
    "csr",
    "csc",
    "csr, crd=u16, pos=i64",
    "(i,j)->(i:dense, j:compressed(nonunique,nonordered)), crd=i64",
    "coo",
    "coo, crd=u8",
    "(i,j)->(j:compressed(nonunique), i:singleton(soa))",
    "dcsr",
    "dcsc, crd=u32",
    "bsr(4,4)",
    "bsr(3,5), crd=u8",
    "bsr(32,2)",
    "bsc(2,4)",
    "strip(4)",
    "cv(8)",
    "(i,j)->(i/2:dense, j/4:compressed, j%4:dense, i%2:dense)",
    "ell",
    "ell, crd=u8",
    "(i,j)->(j:dense, i:packed[auto](pad=zero))",
    "(i,j)->(i:dense, j:packed[70])",
    "bitmap",
    "(i,j)->(j:dense, i:bitmap), pos=u32",
    "nm24",
    "(i,j)->(i:dense, j/4:dense, j%4:structured[2,4](pad=zero)), crd=u8",
    "(i,j)->(j:dense, i/8:dense, i%8:structured[5,8]), crd=u4",
    "dia",
    "dia, crd=i64",
    "hyb(1,2)",
    "hyb(3,1)",
    "sum{rownnz<=3 -> (i,j)->(i:compressed, j:packed[4](pad=zero)), crd=u8; rest -> "
    "(i,j)->(i:compressed(nonunique), j:packed[5])}",
};
enum { TEXTS = SP_COUNT(texts) };

/* Every source x every target. Returns how many were taken. */
static int all_pairs(const spec *s, uint64_t seed, int threads)
{
    sp_packed entries = entries_of(s, false, seed);
    int taken = 0;
    for (int a = 0; a < TEXTS; a++) {
        sp_format f = format_of(texts[a]);
        sp_packed from = {0};
        if (sp_convert_generic(cx, &entries, &f, &from)) continue; /* too many for nm or u8 */
        for (int b = 0; b < TEXTS; b++) {
            char where[300];
            sp_format to = format_of(texts[b]);
            snprintf(where, sizeof where, "%s -> %s (%lldx%lld, %s%s, density %.2f, zeros %d, %d threads)",
                     texts[a], texts[b], (long long)s->rows, (long long)s->cols, sparta_dtype_name(s->dtype),
                     s->pattern ? ", pattern" : "", s->density, s->zeros, threads);
            assert_true(sp_storage_of(&f, &(sp_storage){0}) && sp_storage_of(&to, &(sp_storage){0}));
            taken += compare(&from, &to, threads, where);
        }
        sp_packed_free(cx, &from);
    }
    sp_packed_free(cx, &entries);
    return taken;
}

/* The thread sanitizer takes twenty times as long, and looks for other things than wrong answers. */
#ifdef __SANITIZE_THREAD__
enum { EACH = 4 };
#else
enum { EACH = 1 };
#endif

static void test_shapes(void **state)
{
    (void)state;
    static const int64_t shape[][2] = {{1, 1}, {1, 40}, {40, 1}, {7, 13}, {64, 64}, {33, 70}, {5, 129}};
    static const double density[] = {0, 0.05, 0.4, 1};
    for (size_t i = 0; i < SP_COUNT(shape); i++)
        for (size_t d = 0; d < SP_COUNT(density); d += EACH) {
            spec s = {shape[i][0], shape[i][1], density[d], 0, d != 3, false, SPARTA_F32};
            int taken = all_pairs(&s, 17 * i + d, (int)(i % 3) + 1);
            assert_in_range(taken, TEXTS, TEXTS * TEXTS);
        }
}

/* Where nothing refuses, every pair is taken: the table of paths says nothing else. */
static void test_all_taken(void **state)
{
    (void)state;
    if (EACH > 1) skip(); /* one thread */
    spec s = {24, 40, 0.2, 0, true, false, SPARTA_F32};
    sp_packed entries = entries_of(&s, false, 3);
    for (int a = 0; a < TEXTS; a++)
        for (int b = 0; b < TEXTS; b++) {
            sp_format f = format_of(texts[a]), to = format_of(texts[b]);
            sp_packed from = {0}, out = {0};
            bool done = false;
            if (sp_convert_generic(cx, &entries, &f, &from)) continue;
            bool refused = sp_convert_generic(cx, &from, &to, &out);
            sp_packed_free(cx, &out);
            assert_int_equal(sp_convert_fast(cx, &from, &to, NULL, &done, &out), SPARTA_OK);
            if (done == refused) fail_msg("%s -> %s: %staken", texts[a], texts[b], done ? "" : "not ");
            sp_packed_free(cx, &out);
            sp_packed_free(cx, &from);
        }
    sp_packed_free(cx, &entries);
}

static void test_empty(void **state)
{
    (void)state;
    static const int64_t shape[][2] = {{0, 0}, {0, 5}, {5, 0}};
    for (size_t i = 0; i < SP_COUNT(shape); i++) {
        spec s = {shape[i][0], shape[i][1], 1, 0, false, false, SPARTA_F32};
        all_pairs(&s, i, 2);
    }
    int32_t none[1] = {0}; /* wide enough for columns in bands, which no row has entries for */
    sp_packed p = {.format = format_of("csr"), .dtype = SPARTA_F32, .rank = 2, .dim = {0, 2000}};
    p.pos[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){1}, none);
    p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){0}, none);
    p.values = sparta_tensor_view(SPARTA_F32, 1, &(int64_t){0}, none);
    sp_format csc = format_of("csc");
    assert_true(compare(&p, &csc, 2, "0x2000 csr -> csc"));
}

static void test_types(void **state)
{
    (void)state;
    static const sparta_dtype dtype[] = {SPARTA_I8,  SPARTA_F16, SPARTA_BF16,
                                         SPARTA_I32, SPARTA_F64, SPARTA_BOOL};
    for (size_t i = 0; i < SP_COUNT(dtype); i++) {
        spec s = {37, 50, 0.3, 5, i % 2, false, dtype[i]};
        all_pairs(&s, i, 1 + (int)(i % 3));
    }
}

static void test_patterns(void **state)
{
    (void)state;
    spec s = {29, 44, 0.2, 0, true, true, SPARTA_BOOL};
    all_pairs(&s, 5, 1);
    s.density = 0.6, s.nm = false;
    all_pairs(&s, 6, 2);
}

/* Explicit zeros stay where a format can tell them; -0.0 and NaN are values. */
static void test_zeros(void **state)
{
    (void)state;
    spec s = {20, 31, 0.3, 2, true, false, SPARTA_F32};
    all_pairs(&s, 8, 3);
    s.zeros = 1; /* nothing but zeros */
    all_pairs(&s, 9, 1);
    float row[2][5] = {{0, -0.0f, __builtin_nanf(""), 0, 1}, {-0.0f, 0, 0, 0, 0}};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){2, 5}, row);
    sp_packed dense = sp_store_of_dense(&t);
    for (int b = 0; b < TEXTS; b++) {
        sp_format to = format_of(texts[b]);
        compare(&dense, &to, 1, texts[b]);
    }
}

/* Larger, so that rows are taken by every way of sorting, counting and sweeping, and vectors are whole. */
static void test_large(void **state)
{
    (void)state;
    static const char *const some[] = {"dense",      "csr",      "csc", "coo",   "bsr(4,4)",
                                       "bsr(32,32)", "bsr(5,3)", "ell", "bitmap"};
    static const struct {
        int64_t rows, cols;
        double density;
    } shape[] = {{100, 517, 0.5}, {80, 1000, 0.02}, {20, 9000, 0.004}, {2000, 130, 0.01},
                 {40, 1500, 0.5}, {30, 2000, 0.15}, {15, 20000, 0.002}};
    for (size_t i = 0; i < SP_COUNT(shape); i++)
        for (size_t a = 0; a < SP_COUNT(some); a++) {
            spec s = {shape[i].rows,
                      shape[i].cols,
                      shape[i].density,
                      0,
                      false,
                      false,
                      i % 2 ? SPARTA_F64 : SPARTA_F32};
            sp_packed entries = entries_of(&s, false, i), from;
            sp_format f = format_of(some[a]);
            assert_int_equal(sp_convert_generic(cx, &entries, &f, &from), SPARTA_OK);
            for (size_t b = 0; b < SP_COUNT(some); b += EACH)
                for (int plain = 0; plain < 2; plain++) {
                    sp_format to = format_of(some[b]);
                    sp_plain_only = plain;
                    assert_true(compare(&from, &to, 1 + (int)((a + b) % 3), some[b]));
                    sp_plain_only = false;
                }
            sp_packed_free(cx, &from);
            sp_packed_free(cx, &entries);
        }
}

/* Many columns, whose ends are fetched ahead: rows without entries and with thousands, in ranges that begin and end with either. */
static void test_far(void **state)
{
    (void)state;
    static const int length[] = {0, 1, 0, 0, 7, 5000, 0, 3, 4096, 0, 0, 4095, 2, 900, 900, 900, 900, 900, 0};
    static const char *const to[] = {"csc", "csc, crd=i64", "(i,j)->(j:dense, i:bitmap)"};
    enum { LENGTHS = SP_COUNT(length), ROWS = 3 * LENGTHS, COLS = 100000 };
    int32_t pos[ROWS + 1] = {0};
    for (int r = 0; r < ROWS; r++) pos[r + 1] = pos[r] + length[r % LENGTHS];
    const int64_t n = pos[ROWS];
    int32_t *col = sp_alloc(cx, (size_t)n * sizeof *col);
    float *value = sp_alloc(cx, (size_t)n * sizeof *value);
    for (int r = 0; r < ROWS; r++)
        for (int32_t i = pos[r]; i < pos[r + 1]; i++) col[i] = r * 37 % 19 + 19 * (i - pos[r]);
    for (int64_t i = 0; i < n; i++) value[i] = (float)(i + 1);
    sp_packed p = {.format = format_of("csr"), .dtype = SPARTA_F32, .rank = 2, .dim = {ROWS, COLS}};
    p.pos[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){ROWS + 1}, pos);
    p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &n, col);
    p.values = sparta_tensor_view(SPARTA_F32, 1, &n, value);
    for (int threads = 1; threads <= 3; threads++)
        for (size_t b = 0; b < SP_COUNT(to); b++) {
            sp_format f = format_of(to[b]);
            assert_true(compare(&p, &f, threads, to[b]));
        }
    sp_free(cx, col), sp_free(cx, value);
}

/* ------------------------------------------------------------------ entries in any order */

static void test_shuffled(void **state)
{
    (void)state;
    static const sparta_dtype dtype[] = {SPARTA_I8, SPARTA_F16, SPARTA_F32, SPARTA_F64};
    static const struct {
        int64_t rows, cols;
        double density;
    } shape[] = {{9, 7, 0.5}, {3, 400, 0.5}, {5, 30000, 0.01}, {500, 3, 0.3}, {40, 40, 0}, {6, 5000, 0.005}};
    for (size_t i = 0; i < SP_COUNT(shape); i++)
        for (size_t d = 0; d < SP_COUNT(dtype); d++)
            for (int threads = 1; threads <= 3; threads++) {
                spec s = {shape[i].rows, shape[i].cols,          shape[i].density, 4,
                          false,         d == 0 && threads == 1, dtype[d]};
                sp_packed from = entries_of(&s, true, 10 * i + d);
                static const char *const to[] = {"csr",      "csc",          "coo",    "dense",
                                                 "bsr(4,4)", "csr, crd=i64", "bitmap", "dcsr"};
                for (size_t b = 0; b < SP_COUNT(to); b++) {
                    sp_format f = format_of(to[b]);
                    assert_true(compare(&from, &f, threads, to[b]));
                }
                sp_packed_free(cx, &from);
            }
}

/* Rows ascend, columns do not: that is still coo. */
static void test_columns_fall(void **state)
{
    (void)state;
    int32_t pos[2] = {0, 5}, row[5] = {0, 0, 2, 2, 2}, col[5] = {3, 1, 9, 0, 4};
    float value[5] = {1, 2, 3, 4, 5};
    sp_packed p = {.format = format_of("coo"),
                   .dtype = SPARTA_F32,
                   .rank = 2,
                   .dim = {3, 10},
                   .pos = {sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, pos)},
                   .crd = {sparta_tensor_view(SPARTA_I32, 1, &(int64_t){5}, row),
                           sparta_tensor_view(SPARTA_I32, 1, &(int64_t){5}, col)},
                   .values = sparta_tensor_view(SPARTA_F32, 1, &(int64_t){5}, value)};
    sp_format f = format_of("csr");
    assert_true(compare(&p, &f, 1, "columns fall"));
    col[1] = 3; /* twice: the generic path adds */
    assert_false(compare(&p, &f, 1, "twice"));
    sp_packed out;
    assert_int_equal(sp_store_convert(cx, &p, &f, NULL, &out), SPARTA_OK);
    assert_int_equal(out.values.dim[0], 4);
    assert_true(((float *)out.values.data)[0] == 3);
    sp_packed_free(cx, &out);
}

/* ------------------------------------------------------------------ hostile storage */

/* Any one index changed: the fast path gives what the generic gives, or leaves it to it. */
static void test_damaged(void **state)
{
    (void)state;
    if (EACH > 1) skip(); /* one thread */
    static const int64_t wrong[] = {-1, 0, 1, 3, 7, 100, INT32_MAX, INT32_MIN};
    spec s = {6, 11, 0.3, 0, true, false, SPARTA_F32};
    sp_packed entries = entries_of(&s, false, 2);
    sp_rng r = sp_rng_seed(4);
    for (int a = 0; a < TEXTS; a++) {
        sp_format f = format_of(texts[a]);
        sp_packed from;
        if (sp_convert_generic(cx, &entries, &f, &from)) continue;
        for (int times = 0; times < 60; times++) {
            int l = (int)(sp_rng_next(&r) % 3);
            sp_packed *p = from.parts ? &from.part[sp_rng_next(&r) % (uint64_t)from.parts] : &from;
            sparta_tensor *t = times % 3 ? &p->crd[l] : times % 2 ? &p->pos[l] : &p->values;
            if (!t->data || !t->dim[0]) continue;
            int64_t i = (int64_t)(sp_rng_next(&r) % (uint64_t)t->dim[0]);
            int64_t was = sp_index_get(t->dtype == SPARTA_F32 ? SPARTA_I32 : t->dtype, t->data, i);
            sp_index_set(t->dtype == SPARTA_F32 ? SPARTA_I32 : t->dtype, t->data, i,
                         wrong[sp_rng_next(&r) % SP_COUNT(wrong)]);
            for (int b = 0; b < TEXTS; b++) {
                sp_format to = format_of(texts[b]);
                compare(&from, &to, 1, texts[a]);
            }
            sp_index_set(t->dtype == SPARTA_F32 ? SPARTA_I32 : t->dtype, t->data, i, was);
        }
        for (int times = 0; times < 12; times++) { /* lengths that lie, as far as memory allows: shorter */
            int l = times % 3;
            sp_packed *p = from.parts ? &from.part[times % from.parts] : &from;
            sparta_tensor *t = times < 3 ? &p->crd[l] : times < 6 ? &p->pos[l] : &p->values;
            if (!t->data || !t->dim[0]) continue;
            int64_t was = t->dim[0];
            t->dim[0] = times % 2 ? 0 : was - 1;
            for (int b = 0; b < TEXTS; b++) {
                sp_format to = format_of(texts[b]);
                assert_false(compare(&from, &to, 2, texts[a]) && sp_packed_verify(cx, &from));
            }
            t->dim[0] = was;
        }
        sp_packed_free(cx, &from);
    }
    sp_packed_free(cx, &entries);
}

/* A few entries of a matrix with very many rows are not for us: no array of all rows is made. */
static void test_tall(void **state)
{
    (void)state;
    int32_t pos[2] = {0, 1}, row[1] = {1 << 30}, col[1] = {5};
    float value[1] = {1};
    sp_packed p = {.format = format_of("coo"),
                   .dtype = SPARTA_F32,
                   .rank = 2,
                   .dim = {INT32_MAX - 100, 1 << 30},
                   .pos = {sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, pos)},
                   .crd = {sparta_tensor_view(SPARTA_I32, 1, &(int64_t){1}, row),
                           sparta_tensor_view(SPARTA_I32, 1, &(int64_t){1}, col)},
                   .values = sparta_tensor_view(SPARTA_F32, 1, &(int64_t){1}, value)};
    sp_format f = format_of("dcsr");
    size_t before = sp_ctx_memory_peak(cx);
    assert_false(compare(&p, &f, 1, "tall"));
    assert_in_range(sp_ctx_memory_peak(cx), 0, before + (1 << 20));
}

/* ------------------------------------------------------------------ tensors */

static void test_unpack(void **state)
{
    (void)state;
    spec s = {19, 23, 0.3, 0, true, false, SPARTA_F32};
    sp_packed entries = entries_of(&s, false, 12);
    float want[19 * 23], got[19 * 23 * 3];
    sparta_tensor whole = sparta_tensor_view(SPARTA_F32, 2, entries.dim, want);
    memset(want, 0, sizeof want);
    for (int64_t i = 0; i < entries.crd[0].dim[0]; i++)
        want[((int32_t *)entries.crd[0].data)[i] * 23 + ((int32_t *)entries.crd[1].data)[i]] =
            ((float *)entries.values.data)[i];
    for (int a = 0; a < TEXTS; a++) {
        sp_format f = format_of(texts[a]);
        sp_packed p;
        if (sp_convert_generic(cx, &entries, &f, &p)) continue;
        static const int64_t stride[][2] = {{23, 1}, {1, 19}, {69, 3}};
        for (int k = 0; k < 3; k++) {
            sparta_tensor t = {SPARTA_F32, 2, {19, 23}, {stride[k][0], stride[k][1]}, got, 0};
            bool done = false;
            memset(got, 0x55, sizeof got);
            assert_int_equal(sp_unpack_fast(cx, &p, &t, pool[k + 1], &done), SPARTA_OK);
            assert_true(done);
            for (int64_t i = 0; i < 19 * 23; i++)
                if (got[i / 23 * stride[k][0] + i % 23 * stride[k][1]] != want[i])
                    fail_msg("%s, strides %d: element %d", texts[a], k, (int)i);
        }
        sp_packed_free(cx, &p);
        bool done = false;
        sp_packed oracle;
        assert_int_equal(sp_pack_fast(cx, &(sp_pack_job){&f, &whole, NULL, true}, NULL, &done, &p),
                         SPARTA_OK);
        assert_true(done);
        assert_int_equal(sp_convert_generic(cx, &entries, &f, &oracle), SPARTA_OK);
        same(&p, &oracle, texts[a]);
        sp_packed_free(cx, &p);
        sp_packed_free(cx, &oracle);
    }
    sp_packed_free(cx, &entries);
}

/* A damaged row is found before the first element is written. */
static void test_unpack_untouched(void **state)
{
    (void)state;
    int32_t pos[3] = {0, 1, 2}, col[2] = {0, 7};
    float value[2] = {1, 2}, got[4] = {9, 9, 9, 9};
    sp_packed p = {.format = format_of("csr"), .dtype = SPARTA_F32, .rank = 2, .dim = {2, 2}};
    p.pos[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){3}, pos);
    p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, col);
    p.values = sparta_tensor_view(SPARTA_F32, 1, &(int64_t){2}, value);
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, p.dim, got);
    assert_int_equal(sp_store_unpack(cx, &p, &t), SPARTA_E_FORMAT);
    for (int i = 0; i < 4; i++) assert_true(got[i] == 9);
}

/* Rows that fall are for nonordered coo alone; columns may fall in either. */
static void test_unpack_rows_fall(void **state)
{
    (void)state;
    static const char *const text[] = {"coo", "(i,j)->(i:compressed(nonunique,nonordered), j:singleton)"};
    for (int k = 0; k < 2; k++) {
        int32_t pos[2] = {0, 2}, row[2] = {1, 0}, col[2] = {0, 1};
        float value[2] = {1, 2}, got[4] = {9, 9, 9, 9};
        sp_packed p = {.format = format_of(text[k]), .dtype = SPARTA_F32, .rank = 2, .dim = {2, 2}};
        p.pos[0] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, pos);
        p.crd[0] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, row);
        p.crd[1] = sparta_tensor_view(SPARTA_I32, 1, &(int64_t){2}, col);
        p.values = sparta_tensor_view(SPARTA_F32, 1, &(int64_t){2}, value);
        sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, p.dim, got);
        assert_int_equal(sp_store_unpack(cx, &p, &t), k ? SPARTA_OK : SPARTA_E_FORMAT);
        assert_true(got[2] == (k ? 1 : 9) && got[1] == (k ? 2 : 9));
    }
}

/* ------------------------------------------------------------------ memory */

static size_t bytes_of(const sp_packed *p)
{
    sp_store_stats stats;
    assert_int_equal(sp_store_measure_packed(cx, p, &stats), SPARTA_OK);
    return stats.bytes;
}

/* Sorted sources: at most the result, and something for each row, column and thread. */
static void test_peak(void **state)
{
    (void)state;
    if (EACH > 1) skip(); /* one thread */
    static const char *const some[] = {"dense",      "csr", "csc",    "coo", "bsr(4,4)",
                                       "bsr(32,32)", "ell", "bitmap", "dcsr"};
    enum { SIDE = 600 };
    spec s = {SIDE, SIDE, 0.3, 0, false, false, SPARTA_F32};
    sp_packed entries = entries_of(&s, false, 1);
    for (size_t a = 0; a < SP_COUNT(some); a++)
        for (size_t b = 0; b < SP_COUNT(some); b++) {
            sparta_ctx *main_cx = cx;
            sp_packed from, out;
            sp_format f = format_of(some[a]);
            if (a == 2 && b != 2 && b > 1) continue; /* csc is not sorted by rows */
            assert_int_equal(sp_convert_generic(cx, &entries, &f, &from), SPARTA_OK);
            cx = sparta_ctx_create(NULL); /* a peak of its own */
            sp_format to = format_of(some[b]);
            size_t before = sp_ctx_memory(cx);
            assert_int_equal(sp_store_convert(cx, &from, &to, NULL, &out), SPARTA_OK);
            size_t extra = sp_ctx_memory_peak(cx) - before - bytes_of(&out);
            if (extra > 64 * SIDE + 4096)
                fail_msg("%s -> %s: %zu bytes beyond the result", some[a], some[b], extra);
            sp_packed_free(cx, &out);
            sparta_ctx_free(cx);
            cx = main_cx;
            sp_packed_free(cx, &from);
        }
    sp_packed_free(cx, &entries);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    if (EACH > 1) skip(); /* one thread */
    spec s = {20, 24, 0.3, 0, true, false, SPARTA_F32};
    sp_packed sorted = entries_of(&s, false, 1), shuffled = entries_of(&s, true, 1);
    for (int a = 0; a <= TEXTS; a++) {
        sp_packed from = {0};
        sp_format f = format_of(a < TEXTS ? texts[a] : "csr");
        if (a < TEXTS && sp_convert_generic(cx, &sorted, &f, &from)) continue;
        const sp_packed *p = a < TEXTS ? &from : &shuffled;
        for (int b = 0; b < TEXTS; b++) {
            sp_format to = format_of(texts[b]);
            sparta_status status = SPARTA_E_MEMORY;
            for (uint64_t n = 1; status == SPARTA_E_MEMORY; n++) {
                sp_packed out = {0};
                bool done = false;
                size_t held = sp_ctx_memory(cx);
                sp_ctx_fail_alloc(cx, n, n % 2);
                status = sp_convert_fast(cx, p, &to, NULL, &done, &out);
                sp_ctx_fail_alloc(cx, 0, false);
                if (status) assert_int_equal(sp_ctx_memory(cx), held);
                if (done && status) fail_msg("done, and %s", sparta_message(cx));
                sp_packed_free(cx, &out);
                assert_int_equal(sp_ctx_memory(cx), held);
                assert_in_range(n, 1, 60);
            }
        }
        sp_packed_free(cx, &from);
    }
    sp_packed_free(cx, &sorted);
    sp_packed_free(cx, &shuffled);
}

/* Which targets are counted: all that lie as the source does, but nm; and whatever is dense. */
static void test_counted(void **state)
{
    (void)state;
    if (EACH > 1) skip(); /* one thread */
    static const struct {
        const char *to;
        bool counted;
    } row[] = {{"csr, pos=i64", true},
               {"bsr(3,2)", true},
               {"coo", true},
               {"dcsr", true},
               {"ell", true},
               {"bitmap", true},
               {"dia", true},
               {"hyb(2,2)", true},
               {"dense", true},
               {"rows(4)", true},
               {"vnni", true},
               {"(i,j)->(j:dense, i:dense)", true},
               {"csc", false},
               {"nm24", false},
               {"groups", false},
               {"csr, pos=u8", false},
               {"(i,j)->(i:dense, j:packed[3])", false}};
    static const char *const from[] = {"csr", "dense",  "coo, crd=i64", "bsr(4,4)",
                                       "ell", "bitmap", "hyb(1,2)"};
    spec s = {50, 61, 0.3, 5, true, false, SPARTA_BF16};
    sp_packed entries = entries_of(&s, false, 9);
    for (size_t a = 0; a < SP_COUNT(from); a++) {
        sp_format f = format_of(from[a]);
        sp_packed p = {0};
        assert_int_equal(sp_convert_generic(cx, &entries, &f, &p), SPARTA_OK);
        for (size_t b = 0; b < SP_COUNT(row); b++) {
            sp_format to = format_of(row[b].to);
            if (compare_stats(&p, &to, row[b].to) != row[b].counted)
                fail_msg("%s -> %s: %scounted by rows", from[a], row[b].to, row[b].counted ? "not " : "");
            for (uint64_t n = 1; n < 8; n++) { /* out of memory */
                sp_store_stats stats = {.slots = -1};
                size_t held = sp_ctx_memory(cx);
                sp_ctx_fail_alloc(cx, n, true);
                sparta_status status = sp_store_measure_converted(cx, &p, &to, &stats);
                sp_ctx_fail_alloc(cx, 0, false);
                if (status) assert_int_equal(stats.slots, -1);
                assert_int_equal(sp_ctx_memory(cx), held);
            }
        }
        sp_packed_free(cx, &p);
    }
    sp_packed_free(cx, &entries);
}

/* What is no path is said to be none. */
static void test_generic(void **state)
{
    (void)state;
    static const char *const none[] = {"csr",
                                       "(i,j)->(i:dense, j:compressed(zeroless))",
                                       "(i,j)->(i:dense, j:ragged)",
                                       "(i,j)->(i:compressed(nonunique), j:singleton(aos))",
                                       "bell(4)",
                                       "vnni",
                                       "csf"};
    for (size_t i = 0; i < SP_COUNT(none); i++) {
        sp_format f = format_of(none[i]);
        assert_int_equal(sp_storage_of(&f, &(sp_storage){0}), i == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_all_taken),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_shuffled),
        cmocka_unit_test(test_columns_fall),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_tall),
        cmocka_unit_test(test_unpack),
        cmocka_unit_test(test_unpack_untouched),
        cmocka_unit_test(test_unpack_rows_fall),
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_generic),
    };
    return cmocka_run_group_tests(tests, set_up_pools, tear_down_pools);
}
