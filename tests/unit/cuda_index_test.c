/* The index of a pattern in plain C (what the device's is compared with) against one that is read off a dense matrix; garbage in pos and crd; its size. */
#include "bed.h"
#include "cuda/cuda.h"

static uint32_t seed = 1;
static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

typedef struct pattern {
    int height, width, down, right, blocks;
    int32_t *dense; /* (down, right): the block, or -1 */
    int32_t *pos, *crd;
} pattern;

static pattern random_pattern(void)
{
    static const int sides[] = {16, 32, 64, 128, 192, 256, 512};
    pattern p = {sides[below(SP_COUNT(sides))],
                 sides[below(SP_COUNT(sides))],
                 (int)below(40),
                 (int)below(40),
                 0,
                 NULL,
                 NULL,
                 NULL};
    const uint32_t density = below(5), empty = below(4);
    p.dense = malloc((size_t)(p.down * p.right + 1) * 4);
    p.pos = malloc((size_t)(p.down + 1) * 4);
    p.crd = malloc((size_t)(p.down * p.right + 1) * 4);
    p.pos[0] = 0;
    for (int r = 0; r < p.down; r++) {
        const bool none = below(4) < empty;
        for (int k = 0; k < p.right; k++) {
            const bool is = !none && below(4) < density;
            p.dense[r * p.right + k] = is ? p.blocks : -1;
            if (is) p.crd[p.blocks++] = k;
        }
        p.pos[r + 1] = p.blocks;
    }
    /* The array ends with its last element, so that a sanitizer sees reads behind it. */
    p.crd = realloc(p.crd, (size_t)SP_MAX(p.blocks, 1) * 4);
    return p;
}

static void free_pattern(pattern *p)
{
    free(p->dense), free(p->pos), free(p->crd);
}

static int64_t words_of(const pattern *p)
{
    return sp_index_words(p->height, p->width, p->down, p->right);
}

static int32_t *index_of(const pattern *p)
{
    const int64_t words = words_of(p);
    assert_true(words > 0);
    int32_t *index = malloc((size_t)words * 4);
    memset(index, 0x5a, (size_t)words * 4);
    sp_index_plain(p->height, p->width, p->down, p->right, p->blocks, p->pos, p->crd, index);
    return index;
}

/* ------------------------------------------------------------------ against a dense matrix */
static int block_at(const pattern *p, bool turned, int line, int cross)
{
    const int row = turned ? cross : line, column = turned ? line : cross;
    return row < p->down && column < p->right ? p->dense[row * p->right + column] : -1;
}

static int count_of(const pattern *p, bool turned, int strip)
{
    const int parts = SP_MAX(1, 64 / (turned ? p->width : p->height));
    int count = 0;
    for (int cross = 0; cross < (turned ? p->down : p->right); cross++)
        for (int part = 0; part < parts; part++)
            if (block_at(p, turned, strip * parts + part, cross) >= 0) {
                count++;
                break;
            }
    return count;
}

/* Every line that has a block is a step, in order; every step says all of its blocks. */
static void check_steps(const pattern *p, bool turned, int strip, const int32_t *step, int count)
{
    const int parts = SP_MAX(1, 64 / (turned ? p->width : p->height));
    assert_int_equal(count, count_of(p, turned, strip));
    int last = -1;
    for (int k = 0; k < count; k++, step += 2 * parts) {
        assert_true(step[0] > last && step[0] < (turned ? p->down : p->right));
        last = step[0];
        for (int part = 0; part < parts; part++)
            assert_int_equal(step[1 + part], block_at(p, turned, strip * parts + part, last));
        for (int word = 1 + parts; word < 2 * parts; word++) assert_int_equal(step[word], 0);
    }
}

static void check_side(const pattern *p, bool turned, const int32_t *index)
{
    const sp_side s = turned ? sp_side_turned(p->height, p->width, p->down, p->right)
                             : sp_side_across(p->height, p->width, p->down, p->right);
    const int per = SP_MAX(1, 256 / (turned ? p->height : p->width));
    int items = 0;
    for (int strip = 0; strip < s.strips; strip++) {
        const int count = index[s.count + strip];
        check_steps(p, turned, strip, index + s.step + (int64_t)strip * s.cross * 2 * s.parts, count);
        assert_int_equal(index[s.item + strip], items);
        items += (count + per - 1) / per;
    }
    assert_int_equal(index[s.item + s.strips], items);
    for (int i = 1; i < s.strips; i++) {
        const int a = index[s.order + i - 1], b = index[s.order + i];
        assert_true(a >= 0 && a < s.strips && b >= 0 && b < s.strips);
        const int more = index[s.count + a], fewer = index[s.count + b];
        assert_true(more > fewer || (more == fewer && a < b));
    }
}

static void what_it_says(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        pattern p = random_pattern();
        int32_t *index = index_of(&p);
        assert_int_equal(index[0], SP_INDEX_MARK);
        assert_int_equal(index[1], 0);
        const int row_parts = SP_MAX(1, 64 / p.height), column_parts = SP_MAX(1, 64 / p.width);
        assert_int_equal(index[2], (p.down + row_parts - 1) / row_parts);
        assert_int_equal(index[3], (p.right + column_parts - 1) / column_parts);
        for (int word = 4; word < SP_INDEX_HEAD; word++) assert_int_equal(index[word], 0);
        check_side(&p, false, index);
        check_side(&p, true, index);
        free(index);
        free_pattern(&p);
    }
}

/* ------------------------------------------------------------------ garbage */
static void one_wrong_word(void **state)
{
    (void)state;
    int32_t pos[] = {0, 2, 4}, crd[] = {1, 4, 1, 2};
    pattern p = {32, 32, 2, 5, 4, NULL, pos, crd};
    static const struct {
        bool in_pos;
        int at, value, says;
    } cases[] = {{true, 0, 1, SP_INDEX_BAD_POS},   {true, 0, -1, SP_INDEX_BAD_POS},
                 {true, 2, 3, SP_INDEX_BAD_POS},   {true, 2, 5, SP_INDEX_BAD_POS},
                 {true, 1, 9, SP_INDEX_BAD_POS},   {false, 1, 5, SP_INDEX_BAD_CRD},
                 {false, 0, -1, SP_INDEX_BAD_CRD}, {false, 3, 1, SP_INDEX_BAD_ORDER},
                 {false, 3, 0, SP_INDEX_BAD_ORDER}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        int32_t *word = (cases[i].in_pos ? pos : crd) + cases[i].at;
        const int32_t was = *word;
        *word = cases[i].value;
        int32_t *index = index_of(&p);
        assert_true(index[1] & cases[i].says);
        free(index);
        *word = was;
    }
    int32_t *index = index_of(&p);
    assert_int_equal(index[1], 0);
    free(index);
}

static int32_t garbage(const pattern *p)
{
    static const int32_t ends[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, INT32_MAX - 1, INT32_MAX};
    return below(3) ? (int32_t)below((uint32_t)(p->blocks + p->right + 3)) - 1 : ends[below(SP_COUNT(ends))];
}

/* What comes of garbage is bounded: counts, lines, blocks, strips, each strip once. */
static void check_bounds(const pattern *p, const sp_side *s, const int32_t *index)
{
    uint8_t *met = calloc((size_t)s->strips + 1, 1);
    for (int strip = 0; strip < s->strips; strip++) {
        const int count = index[s->count + strip], of = index[s->order + strip];
        assert_true(count >= 0 && count <= s->cross);
        assert_true(of >= 0 && of < s->strips && !met[of]);
        met[of] = 1;
        for (int k = 0; k < count; k++) {
            const int32_t *step = index + s->step + ((int64_t)strip * s->cross + k) * 2 * s->parts;
            assert_true(step[0] >= 0 && step[0] < s->cross);
            for (int part = 0; part < s->parts; part++)
                assert_true(step[1 + part] >= -1 && step[1 + part] < p->blocks);
        }
    }
    free(met);
}

static void garbage_stays_inside(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        pattern p = random_pattern();
        const uint32_t often = 1 + below(4);
        for (int r = 0; r <= p.down; r++)
            if (below(4) < often) p.pos[r] = garbage(&p);
        for (int b = 0; b < p.blocks; b++)
            if (below(4) < often) p.crd[b] = garbage(&p);
        int32_t *index = index_of(&p);
        const sp_side across = sp_side_across(p.height, p.width, p.down, p.right),
                      turned = sp_side_turned(p.height, p.width, p.down, p.right);
        check_bounds(&p, &across, index);
        check_bounds(&p, &turned, index);
        free(index);
        free_pattern(&p);
    }
}

/* ------------------------------------------------------------------ its size */
static void how_large_it_is(void **state)
{
    (void)state;
    static const int sides[] = {16, 32, 64, 192};
    for (int i = 0; i < 1000; i++) {
        const int height = sides[below(4)], width = sides[below(4)], down = (int)below(2000),
                  right = (int)below(2000);
        assert_int_equal(sp_index_words(height, width, down, right),
                         sp_side_turned(height, width, down, right).end);
    }
    static const int64_t none[][4] = {{8, 64, 4, 4},
                                      {64, 48, 4, 4},
                                      {0, 64, 4, 4},
                                      {-64, 64, 4, 4},
                                      {64, 65, 4, 4},
                                      {64, 64, -1, 4},
                                      {64, 64, 4, INT64_MAX},
                                      {INT64_MAX - 63, 64, 4, 4},
                                      {16, 16, 40000, 40000},
                                      {64, 64, INT32_MAX, INT32_MAX},
                                      {64, 64, 1 << 15, 1 << 15},
                                      {64, 64, INT32_MAX, 0}};
    for (size_t i = 0; i < SP_COUNT(none); i++)
        assert_int_equal(sp_index_words(none[i][0], none[i][1], none[i][2], none[i][3]), 0);
    /* The largest that fits is counted right in 32 bits too. */
    assert_int_equal(sp_index_words(64, 64, 1 << 15, (1 << 14) - 16),
                     sp_side_turned(64, 64, 1 << 15, (1 << 14) - 16).end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says),
        cmocka_unit_test(one_wrong_word),
        cmocka_unit_test(garbage_stays_inside),
        cmocka_unit_test(how_large_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
