/* What detection promises about a format, the format keeps: every finding's text parses, packs the mask it was found in,
 * and takes the bytes it said. */
#include "tesa_bed.h"
#include "store/store.h"

#define ROWS 96
#define COLS 128

static bool present(int pattern, int64_t i, int64_t j)
{
    switch (pattern) {
    case 0: return (i / 4 * 7 + j / 4 * 13) % 5 == 0;          /* 4x4 blocks */
    case 1: return j % 4 == i % 4 || j % 4 == (i + 1) % 4;     /* 2:4 both ways */
    case 2: return i % 3 == 0;                                 /* rows */
    case 3: return j % 3 == 0;                                 /* columns */
    case 4: return i / 12 % 3 == 0;                            /* heads of 12 rows */
    case 5: return j / 16 % 3 == 1;                            /* heads of 16 columns */
    case 6: return j - i >= -2 && j - i <= 3;                  /* a band */
    case 7: return j % 8 == (i * 3) % 8;                       /* 1:8 */
    default: return (i * 31 + j * 17) % 11 == 0 || i * j == 0; /* nothing in particular */
    }
}

static void keep_promises(void **state)
{
    (void)state;
    static sp_mask_facts facts;
    static float w[ROWS * COLS];
    int checked = 0;
    for (int pattern = 0; pattern < 9; pattern++) {
        for (int64_t i = 0; i < ROWS * COLS; i++) w[i] = present(pattern, i / COLS, i % COLS);
        sparta_tensor t = {SPARTA_F32, 2, {ROWS, COLS}, {COLS, 1}, w, 0};
        sp_mask m;
        ok(sp_mask_of(cx, &t, &m));
        ok(sp_mask_report(cx, &m, &(sp_report_options){.slack = 1, .head_rows = 12, .head_cols = 16},
                          &facts));
        for (int64_t i = 0; i < facts.finding_count; i++, checked++) {
            const sp_finding *x = &facts.finding[i];
            sp_format f;
            sp_store_stats stats;
            ok(sp_format_parse(cx, x->format, &f));
            ok(sp_store_measure(cx, &f, &t, NULL, &stats));
            assert_int_equal(stats.elements, facts.present);
            assert_int_equal(stats.bytes, x->bytes);
            if (x->kind < SP_FIND_DIAGONALS) /* a stored diagonal has all rows */
                assert_int_equal(stats.slots, x->slots);
        }
        FREE(&m);
    }
    assert_true(checked > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keep_promises)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
