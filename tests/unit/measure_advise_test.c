/* measure: advice. What it lists is what packing stores, by bytes; patterns are found, named and told with what runs them. */
#include "bed.h"
#include "implement/implement.h"
#include "measure/measure.h"
#include <math.h>

enum { N = 64, K = 96 };

static sp_arena *arena;
static float w[N * K];

static int set_up_arena(void **state)
{
    arena = set_up(state) ? NULL : sp_arena_create(cx);
    return arena ? 0 : 1;
}

static int tear_down_arena(void **state)
{
    sp_arena_free(arena);
    return tear_down(state);
}

/* Blocks of n x m, one in four there. */
static void blocks(int n, int m, uint64_t seed)
{
    sp_rng r = sp_rng_seed(seed);
    memset(w, 0, sizeof w);
    for (int i = 0; i < N; i += n)
        for (int k = 0; k < K; k += m) {
            if (sp_rng_uniform(&r) > 0.25) continue;
            for (int a = 0; a < n; a++)
                for (int b = 0; b < m; b++) w[(i + a) * K + k + b] = (float)(1 + sp_rng_uniform(&r));
        }
}

static sparta_tensor weight(void)
{
    return sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){N, K}, w);
}

static sp_advice advise(const sparta_tensor *t, sp_advise_request r)
{
    const sp_packed p = sp_store_of_dense(t);
    sp_advice a = {0};
    assert_int_equal(sp_advise(cx, arena, &p, &r, &a), SPARTA_OK);
    return a;
}

static const sp_advice_row *find(const sp_advice *a, const char *format)
{
    for (int i = 0; i < a->n; i++)
        if (!strcmp(a->row[i].format, format)) return &a->row[i];
    return NULL;
}

/* Rows by bytes, and their numbers those of pack itself. */
static void check_rows(const sp_advice *a, const sparta_tensor *t)
{
    assert_true(a->n > 0);
    for (int i = 0; i < a->n; i++) {
        const sp_advice_row *row = &a->row[i];
        sp_store_stats s;
        assert_true(i == 0 || row->stats.bytes >= row[-1].stats.bytes);
        assert_int_equal(sp_store_measure(cx, &row->parsed, t, NULL, &s), SPARTA_OK);
        assert_int_equal(s.bytes, row->stats.bytes);
        assert_int_equal(s.slots, row->stats.slots);
        assert_int_equal(row->stats.elements, a->elements);
        if (a->dense_bytes > 0) assert_true(fabs(row->share - (double)s.bytes / a->dense_bytes) < 1e-9);
        for (int k = 0; k < i; k++) assert_false(sp_format_equal(&row->parsed, &a->row[k].parsed));
    }
}

static void strips(void **state)
{
    (void)state;
    blocks(4, 1, 1);
    const sparta_tensor t = weight();
    const sp_advice a = advise(&t, (sp_advise_request){0});
    check_rows(&a, &t);
    assert_true(a.looked);
    assert_string_equal(a.row[0].pattern, "4x1");
    assert_true(a.row[0].exact);
    assert_string_equal(a.row[0].implement->name, "strip4");
    assert_string_equal(find(&a, "rows(4)")->implement->name, "dense4");
    assert_string_equal(find(&a, "csr")->implement->name, "walk");
    static const char *const always[] = {"csr", "coo", "dcsr", "bitmap", "ell", "dia", "dense", "groups"};
    for (size_t i = 0; i < SP_COUNT(always); i++) assert_non_null(find(&a, always[i]));
    for (int i = 0; i < a.n; i++) assert_string_not_equal(a.row[i].pattern, "2x1"); /* 4x1 says it */
}

/* 32x32 blocks with single elements between them: a sum is best. */
static void mixture(void **state)
{
    (void)state;
    blocks(32, 32, 3);
    for (int i = 0; i < N; i += 3) w[i * K + (i * 37) % K] = 2;
    const sparta_tensor t = weight();
    const sp_advice a = advise(&t, (sp_advise_request){0});
    check_rows(&a, &t);
    assert_memory_equal(a.row[0].format, "sum{blockdensity>=", 18);
    assert_int_equal(a.row[0].stats.slots, a.elements);
}

static void pairs(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(5);
    memset(w, 0, sizeof w);
    for (int g = 0; g < N * K; g += 4) {
        const int first = (int)(sp_rng_next(&r) % 4), second = (first + 1 + (int)(sp_rng_next(&r) % 3)) % 4;
        w[g + first] = w[g + second] = 1;
    }
    const sparta_tensor t = weight();
    const sp_advice a = advise(&t, (sp_advise_request){0});
    check_rows(&a, &t);
    const sp_advice_row *row = find(&a, "nm24");
    assert_non_null(row);
    assert_string_equal(row->pattern, "2:4 along k");
    assert_true(row->exact);
}

/* Scattered elements: what quads and pairs keep is offered as their implements keep it, and every row is timed. */
static void scattered(void **state)
{
    (void)state;
    enum { COLUMNS = 200 };
    static float x[32 * COLUMNS];
    sp_rng r = sp_rng_seed(21);
    for (int i = 0; i < 32 * COLUMNS; i++) x[i] = sp_rng_uniform(&r) < 0.2 ? 1 : 0;
    const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){32, COLUMNS}, x);
    const sp_packed p = sp_store_of_dense(&t);
    sp_advice a = advise(&t, (sp_advise_request){0});
    check_rows(&a, &t);
    static const char *const theirs[][2] = {
        {"quads(128)", "quads"}, {"quads(256)", "quads"}, {"pairs(128)", "pairs"}, {"pairs(256)", "pairs"}};
    for (size_t i = 0; i < SP_COUNT(theirs); i++) {
        assert_non_null(find(&a, theirs[i][0]));
        assert_string_equal(find(&a, theirs[i][0])->implement->name, theirs[i][1]);
    }
    assert_null(find(&a, "quads(512)")); /* the same as 256 */
    for (int i = 0; i < a.n; i++)
        if (!strncmp(a.row[i].format, "quads", 5)) assert_string_equal(a.row[i].implement->name, "quads");
    assert_null(a.fastest);
    assert_int_equal(
        sp_advise_time(cx, &p, &(sp_advise_timing){.tokens = 8, .seconds = 1e-4, .limit = 6}, &a), SPARTA_OK);
    assert_non_null(a.fastest);
    for (int i = 0; i < a.n; i++) {
        const bool dense = !strcmp(a.row[i].format, "dense") || !strcmp(a.row[i].format, "rows(4)");
        assert_int_equal(a.row[i].us > 0, dense || a.row[i].stats.fill <= 6);
        if (a.row[i].us > 0) assert_true(a.row[i].us >= a.fastest->us);
    }
}

/* Without a bitset the same formats are measured, and no pattern is named. */
static void too_large(void **state)
{
    (void)state;
    blocks(4, 4, 7);
    const sparta_tensor t = weight();
    const sp_advice a = advise(&t, (sp_advise_request){.bitset = 8, .group = true});
    check_rows(&a, &t);
    assert_false(a.looked);
    assert_null(a.order);
    assert_non_null(find(&a, "bsr(4,4)"));
    assert_string_equal(find(&a, "bsr(4,4)")->pattern, "");
    assert_non_null(find(&a, "hyb(1,2)"));
}

static void small_shapes(void **state)
{
    (void)state;
    static const int64_t shape[][2] = {{0, 0}, {0, 5}, {5, 0}, {1, 1}, {1, 70}, {70, 1}, {5, 7}};
    memset(w, 0, sizeof w);
    for (size_t i = 0; i < SP_COUNT(shape); i++)
        for (int full = 0; full < 2; full++) {
            for (int k = 0; k < 100; k++) w[k] = (float)full;
            const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, shape[i], w);
            const sp_advice a = advise(&t, (sp_advise_request){.group = true});
            check_rows(&a, &t);
            assert_int_equal(a.elements, full ? shape[i][0] * shape[i][1] : 0);
        }
}

static void other_ranks(void **state)
{
    (void)state;
    blocks(4, 4, 9);
    for (int rank = 1; rank <= SPARTA_RANK; rank++) {
        int64_t dim[SPARTA_RANK] = {N * K};
        for (int d = 1; d < rank; d++) dim[d] = d % 2 ? 2 : 3, dim[0] /= dim[d];
        if (rank == 2) continue;
        const sparta_tensor t = sparta_tensor_view(SPARTA_F32, rank, dim, w);
        const sp_advice a = advise(&t, (sp_advise_request){0});
        check_rows(&a, &t);
        assert_false(a.looked);
        assert_int_equal(a.n, rank == 1 ? 2 : 3); /* of one dimension a tree is coordinates */
    }
}

/* Kernels multiply f32: a matrix of another type, or of no numbers at all, is another matter. */
static void other_types(void **state)
{
    (void)state;
    blocks(4, 4, 9);
    sparta_tensor t = weight(), wide;
    const sp_advice f32 = advise(&t, (sp_advise_request){0});
    assert_int_equal(sp_tensor_alloc_in(arena, SPARTA_F64, 2, t.dim, &wide), SPARTA_OK);
    for (int64_t i = 0; i < N * K; i++) ((double *)wide.data)[i] = (double)w[i];
    const sp_advice f64 = advise(&wide, (sp_advise_request){0});
    for (int i = 0; i < f32.n; i++) assert_non_null(f32.row[i].implement);
    for (int i = 0; i < f64.n; i++) assert_null(f64.row[i].implement);
}

/* Rows of strips in a random order: the order that brings them back has no slot to spare. */
static void grouping(void **state)
{
    (void)state;
    float row[K];
    sp_rng r = sp_rng_seed(11);
    blocks(4, 1, 11);
    for (int i = N - 1; i > 0; i--) {
        const int k = (int)(sp_rng_next(&r) % (uint64_t)(i + 1));
        memcpy(row, w + i * K, sizeof row);
        memmove(w + i * K, w + k * K, sizeof row);
        memcpy(w + k * K, row, sizeof row);
    }
    const sparta_tensor t = weight();
    const sp_advice a = advise(&t, (sp_advise_request){.group = true});
    bool seen[N] = {0};
    assert_non_null(a.order);
    for (int i = 0; i < N; i++) seen[a.order[i]] = true;
    for (int i = 0; i < N; i++) assert_true(seen[i]);
    assert_true(a.group_n == 4 && a.group_m == 1);
    assert_true(a.fill_after == 1 && a.fill_before > 1.5);
    assert_true(a.group_bytes < (double)find(&a, "csr")->stats.bytes);
}

/* The caller's own format is listed, or the reason why it does not fit is the answer. */
static void also(void **state)
{
    (void)state;
    blocks(4, 1, 13);
    const sparta_tensor t = weight();
    const char *mine = "(i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16";
    const sp_advice a = advise(&t, (sp_advise_request){.also = mine});
    check_rows(&a, &t);
    assert_ptr_equal(find(&a, mine), &a.row[0]);
    for (int k = 0; k < K; k++) w[k] = 1;
    const sp_packed p = sp_store_of_dense(&t);
    sp_advice no = {.n = -1};
    assert_int_equal(sp_advise(cx, arena, &p, &(sp_advise_request){.also = "nm24"}, &no), SPARTA_E_USAGE);
    assert_int_equal(sp_advise(cx, arena, &p, &(sp_advise_request){.also = "csf"}, &no), SPARTA_E_USAGE);
    assert_int_equal(no.n, -1);
}

/* Entries of a shape that nobody could make dense. */
static void huge(void **state)
{
    (void)state;
    const sparta_dtype f32 = SPARTA_F32;
    int64_t pos[2];
    sp_coo c;
    sp_advice a;
    assert_int_equal(sp_coo_alloc(cx, 2, (int64_t[]){1000000, 1000000}, 3, &f32, &c), SPARTA_OK);
    for (int i = 0; i < 3; i++) c.index[0][i] = c.index[1][i] = i * 333333, ((float *)c.values.data)[i] = 1;
    const sp_packed p = sp_store_of_coo(&c, pos);
    assert_int_equal(sp_advise(cx, arena, &p, &(sp_advise_request){0}, &a), SPARTA_OK);
    assert_false(a.looked);
    assert_int_equal(a.elements, 3);
    assert_string_equal(a.row[0].format, "coo");
    assert_string_equal(find(&a, "cv(4)")->implement->name, "strip4"); /* with wider coordinates */
    sp_coo_free(&c);
}

static void out_of_memory(void **state)
{
    (void)state;
    blocks(4, 4, 15);
    const sparta_tensor t = weight();
    const sp_packed p = sp_store_of_dense(&t);
    const sp_advise_request r = {.group = true};
    sp_advice a;
    (void)advise(&t, r); /* the sums it makes belong to the context from now on */
    const size_t before = sp_ctx_memory(cx);
    const uint64_t from = sp_ctx_alloc_count(cx);
    sp_arena *own = sp_arena_create(cx);
    assert_int_equal(sp_advise(cx, own, &p, &r, &a), SPARTA_OK);
    sp_arena_free(own);
    const uint64_t asked = sp_ctx_alloc_count(cx) - from;
    int failed = 0;
    for (uint64_t nth = 1; nth <= asked; nth += nth < 200 ? 1 : 7) {
        own = sp_arena_create(cx);
        sp_ctx_fail_alloc(cx, nth, false);
        const sparta_status s = sp_advise(cx, own, &p, &r, &a);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_true(s == SPARTA_OK || s == SPARTA_E_MEMORY);
        failed += s != SPARTA_OK;
        sp_arena_free(own);
        assert_int_equal(sp_ctx_memory(cx), before);
    }
    assert_true(failed > 20);
}

static void cancelled(void **state)
{
    (void)state;
    blocks(4, 4, 17);
    sparta_ctx *other = sparta_ctx_create(NULL);
    sp_arena *own = sp_arena_create(other);
    const sparta_tensor t = weight();
    const sp_packed p = sp_store_of_dense(&t);
    sp_advice a;
    sparta_ctx_cancel(other);
    assert_int_equal(sp_advise(other, own, &p, &(sp_advise_request){0}, &a), SPARTA_E_CANCELLED);
    sp_arena_free(own);
    sparta_ctx_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips),      cmocka_unit_test(mixture),     cmocka_unit_test(pairs),
        cmocka_unit_test(scattered),   cmocka_unit_test(too_large),   cmocka_unit_test(small_shapes),
        cmocka_unit_test(other_ranks), cmocka_unit_test(other_types), cmocka_unit_test(grouping),
        cmocka_unit_test(also),        cmocka_unit_test(huge),        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(cancelled),
    };
    return cmocka_run_group_tests(tests, set_up_arena, tear_down_arena);
}
