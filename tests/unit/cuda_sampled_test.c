/* The gradient of values on the GPU, walked on the CPU: who makes what (cuda/sampled.h), and every coordinate that src/cuda/sampled.cu makes of it. */
#include "bed.h"
#include "cuda/sampled.h"

static sp_rng rng;

static int below(int n)
{
    return (int)(sp_rng_next(&rng) % (uint64_t)n);
}
static int pick(const int *of, size_t n)
{
    return of[below((int)n)];
}

/* ------------------------------------------------------------------ shares */
/* Every step of tokens of every item is made once; parts are found again in the order of tokens, each in a slot of its own. */
static void check_share(int items, int steps, int crews, int least)
{
    const sp_share s = sp_share_of(items, steps, crews, least);
    const int slots = 2 * crews;
    int *next = calloc((size_t)SP_MAX(items, 1), sizeof *next), *slot = calloc((size_t)slots, sizeof *slot);
    int64_t most = 0, all = 0;
    sp_piece p, again;
    assert_true(next && slot);
    assert_int_equal(s.whole + s.cut, items);
    for (int crew = 0; crew < crews; crew++) {
        int64_t mine = 0;
        for (int i = 0; sp_share_piece(&s, crew, i, &p); i++) {
            assert_in_range(p.item, 0, items - 1);
            assert_true(p.first >= 0 && p.steps > 0 && p.first + p.steps <= steps);
            assert_true((p.slot < 0) == (p.item < s.whole));
            if (p.slot < 0) assert_true(p.steps == steps && next[p.item]++ == 0);
            if (p.slot >= 0) {
                assert_in_range(p.slot, 0, slots - 1);
                assert_int_equal(slot[p.slot], 0);
                slot[p.slot] = 1 + p.item;
            }
            mine += p.steps;
        }
        assert_false(sp_share_piece(&s, crew, items + 2, &p));
        most = SP_MAX(most, mine);
        all += mine;
    }
    assert_int_equal(all, (int64_t)items * steps);
    for (int r = 0; r < s.cut; r++) {
        int at = 0, parts = 0;
        for (; sp_share_part(&s, r, parts, &again); parts++) {
            assert_int_equal(again.item, s.whole + r);
            assert_int_equal(again.first, at);
            assert_int_equal(slot[again.slot], 1 + again.item);
            slot[again.slot] = 0;
            at += again.steps;
        }
        assert_int_equal(at, steps);
        assert_false(sp_share_part(&s, r, parts + 1, &again));
    }
    for (int i = 0; i < slots; i++) assert_int_equal(slot[i], 0);
    /* No crew has more than its share of what is cut, but for rounding and for `least`. */
    if (s.cut)
        assert_true(most <= (int64_t)(s.whole / crews) * steps +
                                SP_MAX(least, ((int64_t)s.cut * steps + crews - 1) / crews));
    else
        assert_true(most <= (int64_t)((items + crews - 1) / crews) * steps);
    free(next);
    free(slot);
}

static void shares_are_exact(void **state)
{
    (void)state;
    rng = sp_rng_seed(1);
    for (int crews = 1; crews <= 12; crews++)
        for (int items = 0; items <= 30; items++)
            for (int steps = 1; steps <= 20; steps++) check_share(items, steps, crews, 1 + below(4));
    for (int round = 0; round < 300; round++)
        check_share(below(1000), 1 + below(3000), 1 + below(300), 1 + below(20));
    /* As on a chip: 132 multiprocessors. */
    for (int items = 0; items < 600; items++) {
        check_share(items, 128, 132, 4);
        check_share(items, 256, 264, 8);
    }
}

/* Numbers near the end of what 31 bits hold. */
static void shares_do_not_overflow(void **state)
{
    (void)state;
    sp_piece p;
    const int steps = INT32_MAX / 32;
    const sp_share s = sp_share_of(131 * 1000 + 100, steps, 131, 16);
    assert_int_equal(s.cut, 100);
    int64_t sum = 0;
    for (int crew = 0; crew < 131; crew++)
        for (int i = 1000; sp_share_piece(&s, crew, i, &p); i++) sum += p.steps;
    assert_int_equal(sum, (int64_t)100 * steps);
}

/* ------------------------------------------------------------------ a job */
typedef struct job {
    int rows, cols, height, width, down, right, blocks, tokens;
    int nwg, kt, crews, least;
    int *pos, *crd, *index, words;
    uint8_t *keep;
    double *a, *c, *values, *scratch;
    bool masked, hostile;
} job;

/* A random pattern, its index as index.h draws it. */
static void make_pattern(job *j)
{
    const int density = below(4), in_hundred = density == 0 ? 5 : density == 1 ? 30 : density == 2 ? 80 : 100;
    j->pos = calloc((size_t)j->down + 1, sizeof *j->pos);
    j->crd = calloc((size_t)j->down * (size_t)j->right, sizeof *j->crd);
    assert_true(j->pos && j->crd);
    for (int d = 0; d < j->down; d++) {
        if (below(5)) /* else a row with none */
            for (int r = 0; r < j->right; r++)
                if (below(100) < in_hundred) j->crd[j->blocks++] = r;
        j->pos[d + 1] = j->blocks;
    }
}
static int block_at(const job *j, int d, int r)
{
    if (d < j->down)
        for (int b = j->pos[d]; b < j->pos[d + 1]; b++)
            if (j->crd[b] == r) return b;
    return -1;
}
static void make_index(job *j)
{
    const sp_side s = sp_side_across(j->height, j->width, j->down, j->right);
    j->words = s.end;
    j->index = calloc((size_t)s.end, sizeof *j->index);
    assert_non_null(j->index);
    for (int strip = 0; strip < s.strips; strip++) {
        int n = 0;
        for (int r = 0; r < s.cross; r++) {
            int *step = j->index + s.step + (strip * s.cross + n) * 2 * s.parts, there = 0;
            for (int part = 0; part < s.parts; part++) {
                step[1 + part] = block_at(j, strip * s.parts + part, r);
                there += step[1 + part] >= 0;
            }
            step[0] = r;
            n += there > 0;
        }
        j->index[s.count + strip] = n;
        j->index[s.item + strip + 1] = j->index[s.item + strip] + (n + s.per - 1) / s.per;
    }
}

static void make_job(job *j)
{
    static const int heights[] = {16, 32, 64, 128, 192, 256},
                     widths[] = {16, 32, 64, 128, 192, 256, 320, 576};
    memset(j, 0, sizeof *j);
    j->height = pick(heights, SP_COUNT(heights));
    j->width = pick(widths, SP_COUNT(widths));
    j->down = 1 + below(j->height < 64 ? 9 : 3);
    j->right = 1 + below(j->width < 64 ? 40 : j->width < 256 ? 7 : 2);
    j->rows = j->down * j->height - (below(2) ? below(j->height) : 0);
    j->cols = j->right * j->width - (below(2) ? below(j->width) : 0);
    j->tokens = 1 + below(40);
    j->nwg = j->height % 128 == 0 ? 1 + below(2) : 1;
    j->kt = 1 + below(6);
    j->crews = 1 + below(below(2) ? 5 : 60);
    j->least = 1 + below(3);
    make_pattern(j);
    make_index(j);
    const size_t block = (size_t)j->height * (size_t)j->width, n = (size_t)j->blocks * block + 1;
    j->values = malloc(n * sizeof *j->values);
    j->a = malloc((size_t)j->tokens * (size_t)j->rows * sizeof *j->a);
    j->c = malloc((size_t)j->tokens * (size_t)j->cols * sizeof *j->c);
    j->scratch =
        malloc(2 * (size_t)j->crews * (size_t)j->nwg * SP_STRIP * SP_SAMPLED_COLUMNS * sizeof(double));
    assert_true(j->values && j->a && j->c && j->scratch);
    for (size_t i = 0; i < n; i++) j->values[i] = -1e9; /* must be written */
    for (int i = 0; i < j->tokens * j->rows; i++) j->a[i] = below(7) - 3;
    for (int i = 0; i < j->tokens * j->cols; i++) j->c[i] = below(7) - 3;
    if (below(2)) {
        j->keep = malloc(n);
        assert_non_null(j->keep);
        for (size_t i = 0; i < n; i++) j->keep[i] = (uint8_t)(below(2) * below(256));
    }
    j->masked = j->keep || j->rows % j->height || j->cols % j->width;
}
static void free_job(job *j)
{
    free(j->pos);
    free(j->crd);
    free(j->index);
    free(j->keep);
    free(j->a);
    free(j->c);
    free(j->values);
    free(j->scratch);
}

/* ------------------------------------------------------------------ the kernel, on the CPU */
static int word(const job *j, int at)
{
    assert_in_range(at, 0, j->words - 1);
    return j->index[at];
}

/* Lanes of strip_of look one after another. */
static int strip_of(const job *j, int begin, int strips, int run)
{
    int low = 0, high = strips;
    while (high - low > 1) {
        const int apart = (high - low + 31) / 32;
        int there = 0;
        for (int lane = 1; lane < 32; lane++)
            if (low + lane * apart < high && word(j, begin + low + lane * apart) <= run) there = lane;
        low += there * apart;
        high = SP_MIN(low + apart, high);
    }
    return low;
}
static sp_tile tile_of(const job *j, const sp_sampling *s, int item)
{
    const int strip = strip_of(j, s->side.item, s->side.strips, sp_sampled_run(s, item));
    const sp_tile t =
        sp_tile_of(s, item, strip, word(j, s->side.item + strip), word(j, s->side.count + strip));
    assert_in_range(t.boxes, 0, SP_SAMPLED_COLUMNS / s->box);
    assert_in_range(t.steps, 0, s->side.per);
    return t;
}
static int line_of(const job *j, const sp_sampling *s, const sp_tile *t, int b)
{
    return b < t->boxes ? word(j, sp_tile_step(s, t, b)) : 0;
}
static int block_of(const job *j, const sp_sampling *s, const sp_tile *t, int b, int part)
{
    const int block = b < t->boxes ? word(j, sp_tile_step(s, t, b) + 1 + part) : -1;
    return (unsigned)block < (unsigned)j->blocks ? block : -1;
}

/* What the copy engine brings: zeros outside. */
static double brought(const double *m, int tokens, int features, int64_t feature, int token)
{
    return token < tokens && feature >= 0 && feature < features ? m[(int64_t)token * features + feature] : 0;
}

static void multiply(const job *j, const sp_sampling *s, const sp_tile *t, const sp_piece *p, double *sum)
{
    memset(sum, 0, (size_t)s->rows * SP_SAMPLED_COLUMNS * sizeof *sum);
    for (int b = 0; b < t->boxes; b++) {
        const int64_t column = (int64_t)line_of(j, s, t, b) * j->width + sp_tile_along(s, t, b);
        for (int token = p->first * j->kt; token < (p->first + p->steps) * j->kt; token++)
            for (int r = 0; r < s->rows; r++) {
                const double a = brought(j->a, j->tokens, j->rows, t->row + r, token);
                for (int k = 0; a != 0 && k < s->box; k++)
                    sum[r * SP_SAMPLED_COLUMNS + b * s->box + k] +=
                        a * brought(j->c, j->tokens, j->cols, column + k, token);
            }
    }
}

static void put(const job *j, int64_t at, double v)
{
    assert_in_range(at, 0, (int64_t)j->blocks * j->height * j->width - 1);
    if (!j->hostile) assert_true(j->values[at] == -1e9); /* once */
    j->values[at] = v;
}

/* store_existing and join: row by row, through place_of. */
static void store_existing(const job *j, const sp_sampling *s, const sp_tile *t, const double *sum)
{
    for (int r = 0; r < s->rows; r++)
        for (int b = 0; b < t->boxes; b++) {
            const int parts = s->side.parts, along = sp_tile_along(s, t, b);
            const int block = block_of(j, s, t, b, r / s->part % parts),
                      i = parts > 1 ? r % s->part : t->down + r;
            if (block < 0) continue;
            const int64_t first = ((int64_t)block * j->height + i) * j->width + along;
            const int64_t inside =
                t->row + r < j->rows ? j->cols - (int64_t)line_of(j, s, t, b) * j->width - along : 0;
            for (int k = 0; k < s->box; k++)
                put(j, first + k,
                    k < inside && (!j->keep || j->keep[first + k])
                        ? sum[r * SP_SAMPLED_COLUMNS + b * s->box + k]
                        : 0);
        }
}

/* store_boxes: boxes of the matrix (blocks * height, width). */
static void store_boxes(const job *j, const sp_sampling *s, const sp_tile *t, const double *sum)
{
    const int parts = s->side.parts;
    for (int wg = 0; wg < j->nwg; wg++)
        for (int b = 0; b < t->boxes; b++)
            for (int part = 0; part < parts; part++) {
                const int block = block_of(j, s, t, b, part);
                if (block < 0) continue;
                const int inner = sp_tile_along(s, t, b), outer = block * j->height + t->down + SP_STRIP * wg;
                for (int r = 0; r < s->part; r++)
                    for (int k = 0; k < s->box; k++)
                        put(j, (int64_t)(outer + r) * j->width + inner + k,
                            sum[(SP_STRIP * wg + part * s->part + r) * SP_SAMPLED_COLUMNS + b * s->box + k]);
            }
}

static void run(const job *j)
{
    const sp_sampling s = sp_sampling_of(j->height, j->width, j->down, j->right, j->nwg);
    const int items = sp_sampled_items(&s, word(j, s.side.item + s.side.strips));
    const sp_share share = sp_share_of(items, (j->tokens + j->kt - 1) / j->kt, j->crews, j->least);
    const int each = s.rows * SP_SAMPLED_COLUMNS;
    double *sum = malloc((size_t)each * sizeof *sum);
    sp_piece p;
    assert_non_null(sum);
    for (int crew = 0; crew < j->crews; crew++)
        for (int i = 0; sp_share_piece(&share, crew, i, &p); i++) {
            const sp_tile t = tile_of(j, &s, p.item);
            multiply(j, &s, &t, &p, p.slot < 0 ? sum : j->scratch + (int64_t)p.slot * each);
            if (p.slot < 0) (j->masked ? store_existing : store_boxes)(j, &s, &t, sum);
        }
    for (int r = 0; r < share.cut; r++) {
        const sp_tile t = tile_of(j, &s, share.whole + r);
        memset(sum, 0, (size_t)each * sizeof *sum);
        for (int part = 0; sp_share_part(&share, r, part, &p); part++)
            for (int i = 0; i < each; i++) sum[i] += j->scratch[(int64_t)p.slot * each + i];
        store_existing(j, &s, &t, sum);
    }
    free(sum);
}

/* ------------------------------------------------------------------ the answer */
static double expected(const job *j, int block, int d, int i, int k)
{
    const int row = d * j->height + i, col = j->crd[block] * j->width + k;
    double v = 0;
    if (row >= j->rows || col >= j->cols ||
        (j->keep && !j->keep[((int64_t)block * j->height + i) * j->width + k]))
        return 0;
    for (int t = 0; t < j->tokens; t++)
        v += j->a[(int64_t)t * j->rows + row] * j->c[(int64_t)t * j->cols + col];
    return v;
}

static void every_element_is_the_direct_sum(void **state)
{
    (void)state;
    rng = sp_rng_seed(2);
    for (int round = 0; round < 300; round++) {
        job j;
        make_job(&j);
        run(&j);
        for (int d = 0; d < j.down; d++)
            for (int b = j.pos[d]; b < j.pos[d + 1]; b++)
                for (int i = 0; i < j.height; i++)
                    for (int k = 0; k < j.width; k++)
                        if (j.values[((int64_t)b * j.height + i) * j.width + k] != expected(&j, b, d, i, k))
                            fail_msg("blocks of %dx%d, %dx%d, %d tokens, %d crews: block %d (%d, %d) is %g, "
                                     "not %g",
                                     j.height, j.width, j.rows, j.cols, j.tokens, j.crews, b, i, k,
                                     j.values[((int64_t)b * j.height + i) * j.width + k],
                                     expected(&j, b, d, i, k));
        free_job(&j);
    }
}

/* Whatever an index says, nothing outside of the arrays is read or written. */
static void a_hostile_index_is_harmless(void **state)
{
    (void)state;
    rng = sp_rng_seed(3);
    for (int round = 0; round < 200; round++) {
        static const int evil[] = {-1, 0, 1, 2, 7, 1000, INT32_MAX, INT32_MIN, INT32_MAX - 3, 1 << 20};
        job j;
        make_job(&j);
        for (int i = below(20); i >= 0; i--)
            for (int at = below(j.words), n = 1 + below(8); n > 0 && at < j.words; n--)
                j.index[at++] = below(2) ? pick(evil, SP_COUNT(evil)) : below(50);
        j.hostile = j.masked = true;
        j.tokens = SP_MIN(j.tokens, 4);
        run(&j);
        free_job(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_exact),
        cmocka_unit_test(shares_do_not_overflow),
        cmocka_unit_test(every_element_is_the_direct_sum),
        cmocka_unit_test(a_hostile_index_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
