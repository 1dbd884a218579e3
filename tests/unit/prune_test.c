/* Magnitude pruning against sorting all blocks, and the texts of patterns. */
#include "bed.h"
#include "normal.h"
#include <math.h>
#include "prune/prune.h"

static sp_prune_spec parse(const char *text)
{
    sp_prune_spec s;
    if (sp_prune_parse(cx, text, &s)) fail_msg("%s: %s", text, sparta_message(cx));
    return s;
}

/* ------------------------------------------------------------------ texts */

static void texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sp_prune_spec want;
    } good[] = {
        {"4x1:0.9", {4, 1, 0.9, 0, 0, false}},  {"1x1:0", {1, 1, 0, 0, 0, false}},
        {"32x64:1", {32, 64, 1, 0, 0, false}},  {"2:4", {1, 1, 0, 2, 4, false}},
        {"2:4@out", {1, 1, 0, 2, 4, true}},     {"1:256", {1, 1, 0, 1, 256, false}},
        {"rows:0.5", {1, 0, 0.5, 0, 0, false}}, {"cols:0.25", {0, 1, 0.25, 0, 0, false}},
    };
    for (size_t i = 0; i < SP_COUNT(good); i++) {
        sp_prune_spec s = parse(good[i].text), w = good[i].want;
        assert_int_equal(s.block_n, w.block_n);
        assert_int_equal(s.block_m, w.block_m);
        assert_true(s.sparsity == w.sparsity);
        assert_int_equal(s.keep, w.keep);
        assert_int_equal(s.of, w.of);
        assert_int_equal(s.along_out, w.along_out);
    }
    static const char *const bad[] = {"",         "4x1",          "4x1:",
                                      "4x1:90",   "4x1:-0.1",     "4x1:nan",
                                      "4x1:0.9x", "0x1:0.5",      "4x0:0.5",
                                      "x1:0.5",   "4y1:0.5",      "4x:0.5",
                                      "2:4:0.5",  "2:4@in",       "5:4",
                                      "0:4",      "1:1",          "1:257",
                                      "2:",       ":4",           "rows",
                                      "rows:",    "rowsx:1",      "rows:2",
                                      "cols",     "diagonal:0.5", "99999999x1:0.5",
                                      "4x1:inf",  "2:4 ",         " 2:4"};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        sp_prune_spec s = {.block_n = 77};
        if (sp_prune_parse(cx, bad[i], &s) != SPARTA_E_USAGE) fail_msg("'%s' was not refused", bad[i]);
        assert_int_equal(s.block_n, 77);
        assert_non_null(strstr(sparta_message(cx), "prune: '"));
    }
    sp_prune_spec s;
    assert_int_equal(sp_prune_parse(cx, "heads:0.5", &s), SPARTA_E_UNSUPPORTED);
    assert_int_equal(sp_prune_parse(cx, "bands:0.5", &s), SPARTA_E_UNSUPPORTED);
}

/* Patterns without a sparsity, as granularities and schedules have them. */
static void patterns(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sp_prune_spec want;
    } good[] = {{"4x1", {4, 1, 0, 0, 0, false}},  {"1x1", {1, 1, 0, 0, 0, false}},
                {"2:4", {1, 1, 0, 2, 4, false}},  {"2:4@out", {1, 1, 0, 2, 4, true}},
                {"rows", {1, 0, 0, 0, 0, false}}, {"cols", {0, 1, 0, 0, 0, false}}};
    sp_prune_spec s;
    for (size_t i = 0; i < SP_COUNT(good); i++) {
        const sp_prune_spec *w = &good[i].want;
        assert_int_equal(sp_prune_parse_pattern(cx, good[i].text, &s), SPARTA_OK);
        assert_int_equal(s.block_n, w->block_n);
        assert_int_equal(s.block_m, w->block_m);
        assert_int_equal(s.keep, w->keep);
        assert_int_equal(s.of, w->of);
        assert_int_equal(s.along_out, w->along_out);
    }
    static const char *const bad[] = {"",      "4",      "4x",  "x4",      "0x1",  "4x1:0.9",    "rows:0.5",
                                      "rowss", "2:4@in", "5:4", "2:4:0.5", "4x1 ", "99999999x1", "1:1"};
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        if (sp_prune_parse_pattern(cx, bad[i], &s) != SPARTA_E_USAGE)
            fail_msg("'%s' was not refused", bad[i]);
    assert_int_equal(sp_prune_parse_pattern(cx, "heads", &s), SPARTA_E_UNSUPPORTED);
}

static void threshold(void **state)
{
    (void)state;
    float data[8] = {1, -1, .5f, NAN, -.25f, INFINITY, 0, -0.f}; /* (2, 4) seen as (4, 2) */
    const sparta_tensor w = {.dtype = SPARTA_F32, .rank = 2, .dim = {4, 2}, .stride = {1, 4}, .data = data};
    sp_prune_threshold(&w, .5);
    assert_true(data[0] == 1 && data[1] == -1 && data[2] == .5f && isnan(data[3]));
    assert_true(data[4] == 0 && data[5] == INFINITY && data[6] == 0 && data[7] == 0);
}

/* ------------------------------------------------------------------ the naive way: sort the blocks */

typedef struct {
    double score;
    int64_t index;
} ranked;

static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static double at(const sparta_tensor *w, int64_t n, int64_t k)
{
    double x = fabs(sp_element_get(w->dtype, w->data, n * w->stride[0] + k * w->stride[1]));
    return isnan(x) ? INFINITY : x;
}

/* keep[n*K + k]: what stays. */
static void naive(const sp_prune_spec *s, const sparta_tensor *w, bool *keep)
{
    int64_t rows = w->dim[0], cols = w->dim[1], a = s->block_n ? s->block_n : rows,
            b = s->block_m ? s->block_m : cols, count = 0, gone = 0;
    for (int64_t i = 0; i < rows * cols; i++) keep[i] = true;
    ranked *r = malloc(((size_t)(rows * cols) + 1) * sizeof *r);
    if (s->of) {
        a = s->along_out ? s->of : 1, b = s->along_out ? 1 : s->of;
        for (int64_t n = 0; n < rows; n += a)
            for (int64_t k = 0; k < cols; k += b) {
                count = 0;
                for (int64_t i = n; i < SP_MIN(rows, n + a); i++)
                    for (int64_t j = k; j < SP_MIN(cols, k + b); j++)
                        r[count++] = (ranked){at(w, i, j), i * cols + j};
                qsort(r, (size_t)count, sizeof *r, by_score);
                for (int64_t i = 0; i + s->keep < count; i++) keep[r[i].index] = false;
            }
        free(r);
        return;
    }
    for (int64_t n = 0; n < rows; n += a)
        for (int64_t k = 0; k < cols; k += b) {
            double sum = 0;
            int64_t in = 0;
            for (int64_t i = n; i < SP_MIN(rows, n + a); i++)
                for (int64_t j = k; j < SP_MIN(cols, k + b); j++) sum += at(w, i, j), in++;
            r[count++] = (ranked){sum / (double)in, n * cols + k};
        }
    qsort(r, (size_t)count, sizeof *r, by_score);
    for (int64_t q = 0; q < count && (double)gone < s->sparsity * (double)(rows * cols) - 1e-6; q++)
        for (int64_t i = r[q].index / cols; i < SP_MIN(rows, r[q].index / cols + a); i++)
            for (int64_t j = r[q].index % cols; j < SP_MIN(cols, r[q].index % cols + b); j++)
                keep[i * cols + j] = false, gone++;
    free(r);
}

static void check(const char *text, const sparta_tensor *w, size_t room)
{
    sp_prune_spec s = parse(text);
    int64_t rows = w->dim[0], cols = w->dim[1], size = (int64_t)sparta_dtype_size(w->dtype);
    bool *keep = calloc((size_t)(rows * cols) + 1, sizeof *keep);
    naive(&s, w, keep);
    char *before = malloc(room + 1);
    memcpy(before, w->data, room);
    sp_mask m;
    if (sp_prune(cx, &s, w, &m)) fail_msg("%s: %s", text, sparta_message(cx));
    assert_int_equal(m.rows, rows);
    assert_int_equal(m.cols, cols);
    static const char zero[8];
    int64_t kept = 0;
    for (int64_t n = 0; n < rows; n++)
        for (int64_t k = 0; k < cols; k++) {
            int64_t byte = (n * w->stride[0] + k * w->stride[1]) * size;
            if (sp_mask_get(&m, n, k) != keep[n * cols + k])
                fail_msg("%s: (%d,%d) of %dx%d", text, (int)n, (int)k, (int)rows, (int)cols);
            assert_memory_equal((char *)w->data + byte, keep[n * cols + k] ? before + byte : zero,
                                (size_t)size);
            kept += keep[n * cols + k];
        }
    assert_int_equal(sp_mask_count(&m), kept); /* padding bits are 0 */
    memcpy(w->data, before, room);             /* the same without a mask */
    char *after = malloc(room + 1);
    assert_int_equal(sp_prune(cx, &s, w, NULL), SPARTA_OK);
    memcpy(after, w->data, room);
    memcpy(w->data, before, room);
    sp_mask again;
    assert_int_equal(sp_prune(cx, &s, w, &again), SPARTA_OK);
    assert_memory_equal(after, w->data, room);
    memcpy(w->data, before, room);
    sp_mask_free(cx, &m);
    sp_mask_free(cx, &again);
    free(keep), free(before), free(after);
}

static void against_sorting(void **state)
{
    (void)state;
    static const char *const specs[] = {"1x1:0.5",  "1x1:0.9",   "4x1:0.9", "4x1:0.8", "16x4:0.7",
                                        "3x5:0.33", "64x64:0.5", "1x1:0",   "4x1:1",   "rows:0.5",
                                        "cols:0.5", "rows:0.01", "cols:1",  "2:4",     "2:4@out",
                                        "1:2",      "4:4",       "1:3",     "3:8@out", "1:256"};
    static const int64_t shapes[][2] = {{1, 1},   {1, 17},  {17, 1}, {4, 4}, {13, 9},
                                        {64, 64}, {66, 70}, {0, 5},  {5, 0}, {128, 33}};
    static const sparta_dtype types[] = {SPARTA_F32, SPARTA_F64, SPARTA_F16, SPARTA_BF16};
    sp_rng r = sp_rng_seed(17);
    int turn = 0;
    for (size_t i = 0; i < SP_COUNT(specs); i++)
        for (size_t s = 0; s < SP_COUNT(shapes); s++)
            for (int values = 0; values < 4; values++, turn++) {
                int64_t n = shapes[s][0], k = shapes[s][1], room = 2 * n * k;
                sparta_dtype dtype = types[turn % 4];
                void *data = sp_alloc_array(cx, (size_t)room + 1, 8);
                assert_non_null(data);
                for (int64_t e = 0; e < room; e++) {
                    double v = normal(&r);
                    if (values == 1) v = (double)(sp_rng_next(&r) % 3) - 1; /* many ties */
                    if (values == 2) v = 0.5;                               /* nothing but ties */
                    if (values == 3 && sp_rng_next(&r) % 10 == 0) v = sp_rng_next(&r) % 2 ? NAN : -INFINITY;
                    sp_element_set(dtype, data, e, v);
                }
                const int64_t strides[][2] = {{k, 1}, {1, n}, {2 * k, 2}};
                sparta_tensor w = {dtype, 2, {n, k}, {strides[turn % 3][0], strides[turn % 3][1]}, data, 0};
                check(specs[i], &w, (size_t)room * sparta_dtype_size(dtype));
                sp_free(cx, data);
            }
}

/* How the file stores the weight must not matter. */
static void layout_does_not_matter(void **state)
{
    (void)state;
    enum { N = 48, K = 80 };
    float a[N * K], b[N * K];
    sp_rng r = sp_rng_seed(5);
    for (int i = 0; i < N * K; i++)
        a[i] = (float)(normal(&r) * pow(10, (double)(i % 30) - 15)); /* sums that round */
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++) b[k * N + n] = a[n * K + k];
    sparta_tensor x = {SPARTA_F32, 2, {N, K}, {K, 1}, a, 0}, y = {SPARTA_F32, 2, {N, K}, {1, N}, b, 0};
    sp_prune_spec s = parse("16x4:0.6");
    sp_mask m, o;
    assert_int_equal(sp_prune(cx, &s, &x, &m), SPARTA_OK);
    assert_int_equal(sp_prune(cx, &s, &y, &o), SPARTA_OK);
    assert_true(sp_mask_digest(&m) == sp_mask_digest(&o));
    sp_pattern p;
    assert_int_equal(sp_mask_detect(cx, &m, 1, &p), SPARTA_OK);
    assert_true(p.block_n % 16 == 0 && p.block_m % 4 == 0);
    assert_true(fabs(p.density - 0.4) < 0.02 && p.density <= 0.4);
    sp_mask_free(cx, &m);
    sp_mask_free(cx, &o);
}

static void refused(void **state)
{
    (void)state;
    float w[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    sp_prune_spec s = parse("1x1:0.5"), broken = {.block_n = -1, .block_m = 1, .sparsity = 0.5};
    sp_mask m = {.rows = 77};
    sparta_tensor three = {SPARTA_F32, 3, {2, 2, 2}, {4, 2, 1}, w, 0},
                  whole = {SPARTA_I32, 2, {2, 4}, {4, 1}, w, 0}, good = {SPARTA_F32, 2, {2, 4}, {4, 1}, w, 0};
    assert_int_equal(sp_prune(cx, &s, &three, &m), SPARTA_E_SHAPE);
    assert_int_equal(sp_prune(cx, &s, &whole, &m), SPARTA_E_DTYPE);
    assert_int_equal(sp_prune(cx, &broken, &good, &m), SPARTA_E_USAGE);
    assert_int_equal(sp_prune(cx, &(sp_prune_spec){.keep = 2, .of = 300}, &good, &m), SPARTA_E_USAGE);
    assert_int_equal(sp_prune(cx, &(sp_prune_spec){1, 1, NAN, 0, 0, false}, &good, &m), SPARTA_E_USAGE);
    assert_int_equal(m.rows, 77);
    assert_true(w[0] == 1);
}

static void out_of_memory(void **state)
{
    (void)state;
    float w[60];
    static const char *const specs[] = {"4x1:0.5", "2:4"};
    for (size_t i = 0; i < SP_COUNT(specs); i++) {
        sp_prune_spec s = parse(specs[i]);
        for (uint64_t nth = 1;; nth++) {
            for (int e = 0; e < 60; e++) w[e] = 1;
            sparta_tensor t = {SPARTA_F32, 2, {6, 10}, {10, 1}, w, 0};
            sp_mask m = {0};
            sp_ctx_fail_alloc(cx, nth, false);
            sparta_status status = sp_prune(cx, &s, &t, &m);
            sp_ctx_fail_alloc(cx, 0, false);
            if (status == SPARTA_OK) {
                sp_mask_free(cx, &m);
                assert_true(nth > 1);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
            for (int e = 0; e < 60; e++) assert_true(w[e] == 1); /* untouched */
            assert_int_equal(sp_ctx_memory(cx), 0);
            assert_true(nth < 20);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts),
                                       cmocka_unit_test(patterns),
                                       cmocka_unit_test(threshold),
                                       cmocka_unit_test(against_sorting),
                                       cmocka_unit_test(layout_does_not_matter),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
