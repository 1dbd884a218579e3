/* Covers: always disjoint with the mask as their union, priced as they say, and never better than the best there is. */
#include "tesa_bed.h"

#define get sp_mask_get

static void check_part(const sp_cover_part *p, const sp_cover_size *size)
{
    int64_t blocks = 0, segments = 0;
    for (int64_t i = 0; i < p->mask.rows; i += p->n) {
        bool segment = false;
        for (int64_t j = 0; j < p->mask.cols; j += p->m) {
            bool any = false;
            for (int64_t a = i; a < SP_MIN(p->mask.rows, i + p->n); a++)
                for (int64_t b = j; b < SP_MIN(p->mask.cols, j + p->m); b++) any |= get(&p->mask, a, b);
            blocks += any, segment |= any;
        }
        segments += segment;
    }
    assert_int_equal(p->n, size->n);
    assert_int_equal(p->m, size->m);
    assert_int_equal(p->blocks, blocks);
    assert_int_equal(p->segments, segments);
    assert_int_equal(p->slots, blocks * p->n * p->m);
    double cost = (double)blocks * (size->block + size->slot * (double)(p->n * p->m)) +
                  (double)segments * size->segment;
    assert_true(fabs(p->cost - cost) <= 1e-9 * (1 + cost));
    check_padding(&p->mask);
}

/* Returns its cost. */
static double check_cover(const sp_mask *m, const sp_cover_size *size, int sizes)
{
    sp_cover c;
    ok(sp_mask_cover(cx, m, size, sizes, &c));
    assert_int_equal(c.parts, sizes);
    sp_mask all = mask_of_shape(m->rows, m->cols);
    int64_t count = 0;
    double cost = 0;
    for (int l = 0; l < sizes; l++) {
        check_part(&c.part[l], &size[l]);
        mask_or(&all, &c.part[l].mask);
        count += sp_mask_count(&c.part[l].mask);
        cost += c.part[l].cost;
    }
    assert_true(same_mask(&all, m));           /* their union */
    assert_int_equal(count, sp_mask_count(m)); /* and disjoint */
    assert_true(fabs(c.cost - cost) <= 1e-9 * (1 + cost));
    cost = c.cost;
    FREE(&all);
    sp_cover_free(cx, &c);
    return cost;
}

/* ------------------------------------------------------------------ the best there is, by trying everything */

typedef struct {
    const sp_mask *m;
    const sp_cover_size *size;
    int sizes;
    int64_t blocks[SP_COVER_SIZES];
    int strip[SP_COVER_SIZES][64]; /* blocks in it */
    struct {
        int l;
        int64_t n, k;
    } todo[512]; /* blocks not decided yet */
    int left;
    double best;
} search;

static bool anything(const search *s, int l, int64_t n, int64_t k)
{
    for (int64_t i = n; i < SP_MIN(s->m->rows, n + s->size[l].n); i++)
        for (int64_t j = k; j < SP_MIN(s->m->cols, k + s->size[l].m); j++)
            if (get(s->m, i, j)) return true;
    return false;
}

static double price(const search *s)
{
    double cost = 0;
    for (int l = 0; l < s->sizes; l++) {
        cost += (double)s->blocks[l] *
                (s->size[l].block + s->size[l].slot * (double)(s->size[l].n * s->size[l].m));
        for (int i = 0; i < 64; i++) cost += s->strip[l][i] ? s->size[l].segment : 0;
    }
    return cost;
}

/* Take the next block whole, or leave it to its children; both ways, to the end. */
static void try_all(search *s)
{
    if (!s->left) {
        s->best = SP_MIN(s->best, price(s));
        return;
    }
    s->left--;
    int l = s->todo[s->left].l, before = s->left;
    int64_t n = s->todo[s->left].n, k = s->todo[s->left].k;
    if (!anything(s, l, n, k)) {
        try_all(s);
    } else {
        s->blocks[l]++, s->strip[l][n / s->size[l].n]++;
        try_all(s);
        s->blocks[l]--, s->strip[l][n / s->size[l].n]--;
        if (l + 1 < s->sizes) {
            s->left = before;
            for (int64_t i = n; i < SP_MIN(s->m->rows, n + s->size[l].n); i += s->size[l + 1].n)
                for (int64_t j = k; j < SP_MIN(s->m->cols, k + s->size[l].m); j += s->size[l + 1].m) {
                    s->todo[s->left].l = l + 1, s->todo[s->left].n = i, s->todo[s->left].k = j;
                    s->left++;
                }
            try_all(s);
        }
    }
    s->todo[before].l = l, s->todo[before].n = n, s->todo[before].k = k;
    s->left = before + 1;
}

static double best_there_is(const sp_mask *m, const sp_cover_size *size, int sizes)
{
    static search s;
    s = (search){.m = m, .size = size, .sizes = sizes, .best = INFINITY};
    for (int64_t i = 0; i < m->rows; i += size[0].n)
        for (int64_t j = 0; j < m->cols; j += size[0].m) {
            s.todo[s.left].l = 0, s.todo[s.left].n = i, s.todo[s.left].k = j;
            s.left++;
        }
    try_all(&s);
    return s.best;
}

/* A mask with blocks and single elements. */
static sp_mask mixture(sp_rng *r, int64_t rows, int64_t cols, int64_t n, int64_t k)
{
    sp_mask few = random_mask(r, (rows + n - 1) / n, (cols + k - 1) / k, 0.4), m;
    sp_mask more = random_mask(r, rows, cols, sp_rng_uniform(r) * 0.4);
    ok(sp_mask_refine(cx, &few, n, k, (int64_t[]){rows, cols}, &m));
    mask_or(&m, &more);
    FREE(&few, &more);
    return m;
}

static void random_costs(sp_rng *r, sp_cover_size *size, int sizes, bool segments)
{
    for (int l = 0; l < sizes; l++) { /* small whole numbers: sums are exact, draws happen */
        size[l].block = (double)below(r, 5);
        size[l].slot = (double)below(r, 3) + (l == sizes - 1);
        size[l].segment = segments ? (double)below(r, 12) : 0;
    }
}

static void small_ones(void **state)
{
    (void)state;
    static const sp_cover_size sets[][3] = {{{4, 4, 0, 0, 0}, {2, 2, 0, 0, 0}, {1, 1, 0, 0, 0}},
                                            {{2, 2, 0, 0, 0}, {1, 1, 0, 0, 0}},
                                            {{2, 4, 0, 0, 0}, {2, 1, 0, 0, 0}, {1, 1, 0, 0, 0}},
                                            {{4, 2, 0, 0, 0}, {1, 2, 0, 0, 0}},
                                            {{3, 3, 0, 0, 0}, {1, 1, 0, 0, 0}},
                                            {{2, 3, 0, 0, 0}}};
    static const int count[] = {3, 2, 3, 2, 2, 1};
    sp_rng r = sp_rng_seed(1);
    int worse = 0, rounds = 3000;
    for (int round = 0; round < rounds; round++) {
        int set = round % (int)SP_COUNT(sets), sizes = count[set];
        sp_cover_size size[3];
        memcpy(size, sets[set], sizeof size);
        random_costs(&r, size, sizes, round % 3 != 0);
        sp_mask m = mixture(&r, 1 + below(&r, 5), 1 + below(&r, 5), 2, 2);
        double best = best_there_is(&m, size, sizes);
        double found = check_cover(&m, size, sizes);
        assert_true(found >= best);
        assert_true(round % 3 || found == best); /* no segments: it is the best */
        assert_true(found <= 1.75 * best);
        worse += found > best;
        for (int l = 0; l < sizes; l++) /* and no single size is better */
            assert_true(found <= check_cover(&m, &size[l], 1));
        FREE(&m);
    }
    assert_true(worse < rounds / 10);
}

static void many_random_ones(void **state)
{
    (void)state;
    static const sp_cover_size sets[][4] = {
        {{32, 32, 0, 0, 0}, {4, 4, 0, 0, 0}, {1, 1, 0, 0, 0}},
        {{64, 16, 0, 0, 0}, {16, 16, 0, 0, 0}, {4, 1, 0, 0, 0}, {1, 1, 0, 0, 0}},
        {{8, 1, 0, 0, 0}, {4, 1, 0, 0, 0}, {2, 1, 0, 0, 0}, {1, 1, 0, 0, 0}},
        {{6, 10, 0, 0, 0}, {3, 5, 0, 0, 0}, {1, 1, 0, 0, 0}},
        {{12, 130, 0, 0, 0}, {4, 65, 0, 0, 0}, {2, 5, 0, 0, 0}},
        {{1024, 1024, 0, 0, 0}, {1, 1024, 0, 0, 0}, {1, 1, 0, 0, 0}}};
    static const int count[] = {3, 4, 4, 3, 3, 3};
    sp_rng r = sp_rng_seed(2);
    for (int round = 0; round < 1500; round++) {
        int set = round % (int)SP_COUNT(sets);
        sp_cover_size size[4];
        memcpy(size, sets[set], sizeof size);
        random_costs(&r, size, count[set], round % 2);
        sp_mask m = mixture(&r, below(&r, 70), below(&r, 140), size[1].n, size[1].m);
        check_cover(&m, size, count[set]);
        FREE(&m);
    }
}

static void drawn_one(void **state)
{
    (void)state;
    static const char *const rows[] = {"11..1", "11...", "...1.", "....."};
    static const sp_cover_size size[] = {{2, 2, 1, 1, 0}, {1, 1, 1, 1, 0}};
    sp_mask m = drawn(4, rows);
    sp_cover c;
    ok(sp_mask_cover(cx, &m, size, 2, &c));
    assert_int_equal(c.part[0].blocks, 1);
    assert_int_equal(c.part[0].slots, 4);
    assert_int_equal(c.part[1].blocks, 2);
    assert_int_equal(c.part[1].segments, 2);
    assert_true(c.cost == 5 + 4);
    assert_true(get(&c.part[1].mask, 0, 4) && get(&c.part[1].mask, 2, 3));
    sp_cover_free(cx, &c);
    sp_cover_free(cx, &c);
    sp_cover_free(cx, NULL);
    FREE(&m);
}

static void refused(void **state)
{
    (void)state;
    sp_mask m = mask_of_shape(40, 40);
    sp_cover c = {.parts = 42};
    static const sp_cover_size bad[][2] = {{{4, 4, 1, 1, 0}, {3, 1, 1, 1, 0}},
                                           {{1, 1, 1, 1, 0}, {4, 4, 1, 1, 0}},
                                           {{4, 4, 1, 1, 0}, {4, 4, 1, 1, 0}},
                                           {{4, 0, 1, 1, 0}, {1, 1, 1, 1, 0}},
                                           {{4, 4, -1, 1, 0}, {1, 1, 1, 1, 0}},
                                           {{4, 4, 1, NAN, 0}, {1, 1, 1, 1, 0}},
                                           {{4, 4, 1, 1, INFINITY}, {1, 1, 1, 1, 0}},
                                           {{4, 4, 1e308, 1, 0}, {1, 1, 1, 1, 0}},
                                           {{4, 4, NAN, 1, 0}, {1, 1, 1, 1, 0}},
                                           {{4, 4, 1, 1, -1}, {1, 1, 1, 1, 0}},
                                           {{INT64_C(1) << 40, 4, 1, 1, 0}, {1, 1, 1, 1, 0}}};
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        assert_int_equal(sp_mask_cover(cx, &m, bad[i], 2, &c), SPARTA_E_USAGE);
    assert_int_equal(sp_mask_cover(cx, &m, bad[0], 0, &c), SPARTA_E_USAGE);
    static const sp_cover_size tall[] = {{32, 32, 1, 1, 1}, {1, 1, 1, 1, 1}};
    assert_int_equal(c.parts, 42);
    FREE(&m);
    m = mask_of_shape(INT64_C(1) << 58, 0);
    ok(sp_mask_cover(cx, &m, tall, 2, &c));
    assert_true(c.cost == 0 && c.part[1].mask.rows == m.rows);
    sp_cover_free(cx, &c);
    FREE(&m);
}

/* Everything in this room that allocates, and what it hands out freed. */
static sparta_status everything(const sp_mask *m)
{
    static const sp_cover_size size[] = {{4, 4, 1, 1, 1}, {2, 2, 1, 1, 1}};
    static sp_mask_facts facts;
    sp_mask out[3] = {0};
    sp_cover c = {0};
    sp_row_order g = {0};
    sp_text text;
    sp_text_init(&text, cx);
    sparta_status s = sp_mask_coarsen(cx, m, 2, 2, &out[0]);
    if (!s) s = sp_mask_refine(cx, &out[0], 2, 2, (int64_t[]){10, 10}, &out[1]);
    if (!s) s = sp_mask_report(cx, m, &(sp_report_options){.slack = 1, .head_rows = 2}, &facts);
    if (!s) s = sp_mask_order_rows(cx, m, 2, 2, &g);
    if (!s) s = sp_mask_cover(cx, m, size, 2, &c);
    if (!s) sp_mask_print(m, &text), s = text.status;
    if (!s) s = sp_mask_parse(cx, sp_text_str(&text), &out[2]);
    sp_text_free(&text);
    sp_cover_free(cx, &c);
    sp_free(cx, g.order);
    for (int i = 0; i < 3; i++) sp_mask_free(cx, &out[i]);
    return s;
}

static void out_of_memory(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(3);
    sp_mask m = random_mask(&r, 10, 10, 0.5);
    size_t before = sp_ctx_memory(cx);
    uint64_t nth = 1;
    for (;; nth++) {
        sp_ctx_fail_alloc(cx, nth, false);
        sparta_status status = everything(&m);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_int_equal(sp_ctx_memory(cx), before);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        assert_true(nth < 200);
    }
    assert_true(nth > 20);
    FREE(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_ones), cmocka_unit_test(many_random_ones),
                                       cmocka_unit_test(drawn_one), cmocka_unit_test(refused),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
