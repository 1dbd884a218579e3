/* The full report against plain loops, the patterns it must find, and the orders of rows. */
#include "tesa_bed.h"
#include "tesa/words.h"

#define get sp_mask_get

static sp_mask_facts facts; /* large */

static int64_t naive_blocks(const sp_mask *m, int64_t n, int64_t k)
{
    int64_t blocks = 0;
    for (int64_t i = 0; i < m->rows; i += n)
        for (int64_t j = 0; j < m->cols; j += k) {
            bool any = false;
            for (int64_t e = 0; e < n * k; e++)
                any |= i + e / k < m->rows && j + e % k < m->cols && get(m, i + e / k, j + e % k);
            blocks += any;
        }
    return blocks;
}

/* Groups of g neighbours along an axis with more than c. */
static void check_groups(const sp_mask *m, int axis, int size)
{
    int64_t more[16] = {0}, g = 2 << size;
    int64_t lines = axis ? m->rows : m->cols, length = axis ? m->cols : m->rows;
    for (int64_t l = 0; l < lines; l++)
        for (int64_t at = 0; at < length; at += g) {
            int64_t in = 0;
            for (int64_t e = at; e < SP_MIN(length, at + g); e++) in += axis ? get(m, l, e) : get(m, e, l);
            for (int64_t c = 0; c < in; c++) more[c]++;
        }
    for (int c = 0; c < g; c++) assert_int_equal(facts.more[axis][size][c], more[c]);
}

static void check_lines(const sp_mask *m, int64_t heads)
{
    int64_t used_rows = 0, full_rows = 0, used_cols = 0, full_cols = 0, head_rows = 0, last = -1;
    for (int64_t i = 0; i < m->rows; i++) {
        int64_t in = 0;
        for (int64_t j = 0; j < m->cols; j++) in += get(m, i, j);
        used_rows += in > 0, full_rows += in && in == m->cols;
        if (in && i / heads != last) head_rows++, last = i / heads;
    }
    int64_t head_cols = 0;
    last = -1;
    for (int64_t j = 0; j < m->cols; j++) {
        int64_t in = 0;
        for (int64_t i = 0; i < m->rows; i++) in += get(m, i, j);
        used_cols += in > 0, full_cols += in && in == m->rows;
        if (in && j / heads != last) head_cols++, last = j / heads;
    }
    assert_int_equal(facts.used_rows, used_rows);
    assert_int_equal(facts.full_rows, full_rows);
    assert_int_equal(facts.used_cols, used_cols);
    assert_int_equal(facts.full_cols, full_cols);
    assert_int_equal(facts.head_rows, head_rows);
    assert_int_equal(facts.head_cols, head_cols);
}

static void check_diagonals(const sp_mask *m)
{
    int64_t used = 0, slots = 0, first = 0, last = 0;
    for (int64_t d = 1 - m->rows; d < m->cols; d++) {
        int64_t in = 0, length = 0;
        for (int64_t i = 0; i < m->rows; i++)
            if (i + d >= 0 && i + d < m->cols) length++, in += get(m, i, i + d);
        if (!in) continue;
        if (!used++) first = d;
        last = d, slots += length;
    }
    assert_int_equal(facts.diagonals, used);
    assert_int_equal(facts.diagonal_slots, slots);
    assert_int_equal(facts.first, first);
    assert_int_equal(facts.last, last);
}

static void check_report(const sp_mask *m, double slack, int64_t heads)
{
    ok(sp_mask_report(cx, m, &(sp_report_options){.slack = slack, .head_rows = heads, .head_cols = heads},
                      &facts));
    assert_int_equal(facts.present, sp_mask_count(m));
    for (int h = 0; h < SP_BLOCK_SIZES; h++)
        for (int w = 0; w < SP_BLOCK_SIZES; w++)
            assert_int_equal(facts.blocks[h][w], naive_blocks(m, 1 << h, 1 << w));
    for (int axis = 0; axis < 2; axis++)
        for (int s = 0; s < SP_NM_SIZES; s++) check_groups(m, axis, s);
    check_lines(m, heads);
    check_diagonals(m);
    for (int64_t i = 0; i < facts.finding_count; i++) {
        const sp_finding *x = &facts.finding[i];
        bool csr = !strcmp(x->format, "csr");
        assert_true(csr || x->fill <= slack);
        assert_true(csr || (double)x->missed <= (slack - 1) * (double)facts.present);
        assert_true(x->missed ? x->kind == SP_FIND_NM_COLS || x->kind == SP_FIND_NM_ROWS
                              : x->slots >= facts.present);
        assert_true(fabs(x->fill - (double)x->slots / (double)facts.present) < 1e-12);
        assert_int_equal(x->exact, x->slots == facts.present && !x->missed);
        assert_true(!i || x[-1].bytes <= x->bytes);
        assert_true(*x->name && *x->format && strlen(x->format) < sizeof x->format - 1);
    }
    assert_int_equal(facts.finding_count > 0, facts.present > 0);
}

/* Whatever of the processor is used, the counts are the same. */
static void every_way(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(9);
    for (size_t s = 3; s < SP_COUNT(shapes); s++) {
        sp_mask m = random_mask(&r, shapes[s][0], shapes[s][1], 0.3);
        ok(sp_mask_report(cx, &m, &(sp_report_options){.slack = 1}, &facts));
        for (int way = SP_TILE_ANYWHERE; way <= SP_TILE_VPOPCNT; way++) {
            static sp_mask_facts other;
            uint64_t in_col[4] = {0};
            memset(&other, 0xa5, sizeof other);
            ok(sp_count_tiles(cx, &m, (sp_tile_way)way, &other, in_col));
            assert_memory_equal(facts.blocks, other.blocks, sizeof other.blocks);
            assert_memory_equal(facts.more, other.more, sizeof other.more);
        }
        FREE(&m);
    }
}

static void against_loops(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(1);
    static const double density[] = {0, 0.02, 0.5, 0.98, 2};
    for (size_t s = 0; s < SP_COUNT(shapes); s++)
        for (size_t d = 0; d < SP_COUNT(density); d++) {
            sp_mask m = random_mask(&r, shapes[s][0], shapes[s][1], density[d]);
            check_report(&m, d % 2 ? 1 : 1.3, 1 + below(&r, 40));
            FREE(&m);
        }
}

static const sp_finding *find(const char *name)
{
    for (int64_t i = 0; i < facts.finding_count; i++)
        if (!strcmp(facts.finding[i].name, name)) return &facts.finding[i];
    return NULL;
}

static void expect_pattern(sp_mask *m, double slack, const char *name, const char *format, bool exact)
{
    ok(sp_mask_report(cx, m, &(sp_report_options){.slack = slack, .head_rows = 12, .head_cols = 16}, &facts));
    const sp_finding *x = find(name);
    assert_non_null(x);
    assert_string_equal(x->format, format);
    assert_int_equal(x->exact, exact);
}

/* n of every m neighbours, at random places. */
static sp_mask nm_mask(sp_rng *r, int64_t rows, int64_t cols, int n, int m)
{
    sp_mask out = mask_of_shape(rows, cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j += m)
            for (int left = n; left;) {
                int64_t k = j + below(r, m);
                if (get(&out, i, k)) continue;
                sp_mask_set(&out, i, k);
                left--;
            }
    return out;
}

static void n_of_m(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(2);
    sp_mask m = nm_mask(&r, 48, 96, 2, 4), t;
    expect_pattern(&m, 1, "2:4 along k", "nm24", true);
    assert_int_equal(facts.finding[0].kind, SP_FIND_NM_COLS); /* the fewest bytes */
    assert_null(find("2:4 along n"));
    ok(sp_mask_transpose(cx, &m, &t));
    expect_pattern(&t, 1, "2:4 along n", "(i,j)->(j:dense, i/4:dense, i%4:structured[2,4]), crd=u2", true);
    FREE(&m, &t);
    m = nm_mask(&r, 48, 96, 1, 4);
    expect_pattern(&m, 1, "1:4 along k", "(i,j)->(i:dense, j/4:dense, j%4:structured[1,4]), crd=u2", true);
    clear(&m, 0, sp_bits_next(m.bits, 0, 96));
    expect_pattern(&m, 1.05, "1:4 along k", "(i,j)->(i:dense, j/4:dense, j%4:structured[1,4]), crd=u2",
                   false);
    FREE(&m);
    m = nm_mask(&r, 48, 96, 4, 8);
    expect_pattern(&m, 1, "4:8 along k", "(i,j)->(i:dense, j/8:dense, j%8:structured[4,8]), crd=u4", true);
    mask_not(&m);
    int64_t k = sp_bits_next(m.bits, 0, 96); /* one more in a group: nearly */
    mask_not(&m);
    sp_mask_set(&m, 0, k);
    expect_pattern(&m, 1.05, "4:8 along k", "(i,j)->(i:dense, j/8:dense, j%8:structured[4,8]), crd=u4",
                   false);
    assert_int_equal(find("4:8 along k")->missed, 1);
    FREE(&m);
    m = nm_mask(&r, 32, 64, 5, 16);
    expect_pattern(&m, 1, "5:16 along k", "(i,j)->(i:dense, j/16:dense, j%16:structured[5,16]), crd=u4",
                   true);
    FREE(&m);
}

/* Present where the coarse bit of (n, k) is. */
static sp_mask blocks(sp_rng *r, int64_t rows, int64_t cols, int64_t n, int64_t k)
{
    sp_mask few = random_mask(r, (rows + n - 1) / n, (cols + k - 1) / k, 0.3), m;
    sp_mask_set(&few, 0, few.cols - 1);
    clear(&few, few.rows - 1, 0);
    ok(sp_mask_refine(cx, &few, n, k, (int64_t[]){rows, cols}, &m));
    FREE(&few);
    return m;
}

static void other_patterns(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(3);
    sp_mask m = blocks(&r, 96, 128, 4, 4);
    expect_pattern(&m, 1, "4x4", "bsr(4,4)", true);
    expect_pattern(&m, 1, "4x1", "(n,k)->(n/4:dense, k:compressed, n%4:dense), crd=u16", true);
    expect_pattern(&m, 1, "1x1", "csr", true);
    assert_null(find("8x4"));
    FREE(&m);
    m = blocks(&r, 96, 128, 1, 128);
    expect_pattern(&m, 1, "rows", "(i,j)->(i:compressed, j:dense)", true);
    assert_string_equal(facts.finding[0].name, "rows");
    FREE(&m);
    m = blocks(&r, 96, 128, 96, 1);
    expect_pattern(&m, 1, "cols", "(i,j)->(j:compressed, i:dense)", true);
    FREE(&m);
    m = blocks(&r, 96, 128, 12, 128);
    expect_pattern(&m, 1, "heads of 12 rows", "(i,j)->(i/12:compressed, i%12:dense, j:dense)", true);
    FREE(&m);
    m = blocks(&r, 96, 128, 96, 16);
    expect_pattern(&m, 1, "heads of 16 cols", "(i,j)->(j/16:compressed, j%16:dense, i:dense)", true);
    FREE(&m);
    m = mask_of_shape(50, 90);
    for (int64_t i = 0; i < 50; i++)
        for (int64_t j = SP_MAX(0, i - 2); j <= i + 3; j++) sp_mask_set(&m, i, j);
    expect_pattern(&m, 1, "band -2..3", "(i,j)->(j-i:compressed, i:range)", true);
    expect_pattern(&m, 1, "6 diagonals", "(i,j)->(j-i:compressed, i:range)", true);
    for (int64_t i = 0; i < 50; i++) clear(&m, i, i + 1);
    expect_pattern(&m, 1, "5 diagonals", "(i,j)->(j-i:compressed, i:range)", true);
    assert_null(find("band -2..3"));
    expect_pattern(&m, 1.3, "band -2..3", "(i,j)->(j-i:compressed, i:range)", false);
    clear(&m, 7, 7);
    expect_pattern(&m, 1.05, "5 diagonals", "(i,j)->(j-i:compressed, i:range)", false);
    FREE(&m);
}

static void refused(void **state)
{
    (void)state;
    sp_mask m = mask_of_shape(3, 3);
    facts.rows = 42;
    static const sp_report_options bad[] = {
        {.slack = 0.9}, {.slack = NAN}, {.slack = 1, .head_rows = -1}, {.slack = 1, .head_cols = -1}};
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        assert_int_equal(sp_mask_report(cx, &m, &bad[i], &facts), SPARTA_E_USAGE);
    assert_int_equal(facts.rows, 42);
    FREE(&m);
    m = mask_of_shape(INT64_C(1) << 60, 0);
    ok(sp_mask_report(cx, &m, &(sp_report_options){.slack = 1}, &facts));
    assert_int_equal(facts.finding_count, 0);
    FREE(&m);
}

/* ------------------------------------------------------------------ orders of rows */

static void check_order(const sp_mask *m, int n, int k, const sp_row_order *g)
{
    sp_mask moved;
    double before, after;
    ok(sp_mask_permute(cx, m, g->order, &moved)); /* a permutation */
    ok(sp_mask_fill(cx, m, n, k, &before));
    ok(sp_mask_fill(cx, &moved, n, k, &after));
    assert_true(before == g->fill_before && after == g->fill_after && after <= before);
    FREE(&moved);
}

static void grouping(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(4);
    sp_row_order g;
    for (int round = 0; round < 50; round++) { /* blocks, shuffled: found again without a hole */
        int n = 2 << below(&r, 4), k = 1 << below(&r, 5);
        sp_mask m = blocks(&r, 32 * n, 256, n, k), mixed;
        int64_t order[512];
        for (int64_t i = 0; i < m.rows; i++) order[i] = i;
        for (int64_t i = m.rows - 1; i > 0; i--) {
            int64_t j = below(&r, i + 1), swap = order[i];
            order[i] = order[j], order[j] = swap;
        }
        ok(sp_mask_permute(cx, &m, order, &mixed));
        ok(sp_mask_order_rows(cx, &mixed, n, k, &g));
        check_order(&mixed, n, k, &g);
        assert_true(g.fill_after == 1 && g.fill_before > 1.2);
        assert_non_null(strstr(g.format, k > 1 ? "bsr(" : n > 1 ? "k:compressed" : "csr"));
        sp_free(cx, g.order);
        for (int holes = 0; holes < 5; holes++) clear(&mixed, below(&r, m.rows), below(&r, 256));
        ok(sp_mask_order_rows(cx, &mixed, n, k, &g));
        check_order(&mixed, n, k, &g);
        assert_true(g.fill_after < 1.3);
        sp_free(cx, g.order);
        FREE(&m, &mixed);
    }
    for (size_t s = 0; s < SP_COUNT(shapes); s++) {
        sp_mask m = random_mask(&r, shapes[s][0], shapes[s][1], 0.1);
        ok(sp_mask_order_rows(cx, &m, 3, 5, &g));
        check_order(&m, 3, 5, &g);
        sp_free(cx, g.order);
        assert_int_equal(sp_mask_order_rows(cx, &m, 0, 5, &g), SPARTA_E_USAGE);
        assert_int_equal(sp_mask_order_rows(cx, &m, 3, 0, &g), SPARTA_E_USAGE);
        FREE(&m);
    }
}

/* Blocks that are full enough and a rest: the counts are those of a plain loop and of the cheapest cover. */
static void mixtures(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(21);
    for (int round = 0; round < 30; round++) {
        sp_mask m = random_mask(&r, 1 + below(&r, 150), 1 + below(&r, 150), 0.05);
        for (int i = 0; i < 12; i++) {
            int64_t side = 8 << below(&r, 4), row = below(&r, m.rows) / side * side,
                    col = below(&r, m.cols) / side * side;
            for (int64_t e = 0; e < side * side; e++)
                if (row + e / side < m.rows && col + e % side < m.cols && sp_rng_uniform(&r) < 0.4 + 0.1 * i)
                    sp_mask_set(&m, row + e / side, col + e % side);
        }
        double slack = round % 2 ? 4 : 1.25;
        ok(sp_mask_report(cx, &m, &(sp_report_options){.slack = slack}, &facts));
        for (int s = 0; s < SP_MIXTURE_SIZES; s++) {
            int64_t n = 8 << s, blocks = 0, inside = 0;
            for (int64_t i = 0; i < m.rows; i += n)
                for (int64_t j = 0; j < m.cols; j += n) {
                    int64_t in = 0;
                    for (int64_t e = 0; e < n * n; e++)
                        in += i + e / n < m.rows && j + e % n < m.cols && get(&m, i + e / n, j + e % n);
                    bool take = (double)in * slack >= (double)(n * n) && 8 * in >= 4 * n * n + 4;
                    blocks += take, inside += take ? in : 0;
                }
            assert_int_equal(facts.dense_blocks[s], blocks);
            assert_int_equal(facts.in_dense[s], inside);
            if (slack < 2) continue; /* then only the price decides */
            sp_cover c;
            ok(sp_mask_cover(cx, &m, (sp_cover_size[]){{n, n, 4, 4, 0}, {1, 1, 4, 4, 0}}, 2, &c));
            assert_int_equal(c.part[0].blocks, blocks);
            assert_int_equal(sp_mask_count(&c.part[0].mask), inside);
            sp_cover_free(cx, &c);
        }
        FREE(&m);
    }
    sp_mask m = random_mask(&r, 128, 192, 0.01);
    for (int64_t e = 0; e < 4096; e++)
        sp_mask_set(&m, 32 + e / 64, 64 + e % 64 / 32 * 64 + e % 32); /* four of 32x32 */
    expect_pattern(&m, 1, "32x32 and rest", "sum{blockdensity>=1 -> bsr(32,32); rest -> csr}", true);
    assert_int_equal(facts.finding[0].kind, SP_FIND_MIXTURE); /* the fewest bytes */
    clear(&m, 33, 65);
    expect_pattern(&m, 1.05, "32x32 and rest", "sum{blockdensity>=0.953125 -> bsr(32,32); rest -> csr}",
                   false);
    assert_int_equal(find("32x32 and rest")->slots, facts.present + 1);
    FREE(&m);
    m = random_mask(&r, 128, 192, 0.3); /* nothing to gain */
    ok(sp_mask_report(cx, &m, &(sp_report_options){.slack = 1.05}, &facts));
    for (int64_t i = 0; i < facts.finding_count; i++) assert_true(facts.finding[i].kind != SP_FIND_MIXTURE);
    FREE(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mixtures),       cmocka_unit_test(against_loops),
                                       cmocka_unit_test(every_way),      cmocka_unit_test(n_of_m),
                                       cmocka_unit_test(other_patterns), cmocka_unit_test(refused),
                                       cmocka_unit_test(grouping)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
