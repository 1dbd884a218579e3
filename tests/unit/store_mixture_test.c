/* What detection says about mixtures, the sum formats keep: the texts parse, take the bytes that were said,
 * and give the tensor back. */
#include "tesa_bed.h"
#include "store/store.h"

#define ROWS 150
#define COLS 200
static float w[ROWS * COLS], back[ROWS * COLS];

static void fill(sp_rng *r, int64_t side, double chance)
{
    memset(w, 0, sizeof w);
    for (int64_t i = 0; i < ROWS * COLS; i++)
        if (sp_rng_uniform(r) < 0.01) w[i] = (float)(1 + i);
    for (int64_t i = 0; i < ROWS; i += side)
        for (int64_t j = 0; j < COLS; j += side)
            for (int64_t e = 0, in = sp_rng_uniform(r) < 0.3; in && e < side * side; e++)
                if (i + e / side < ROWS && j + e % side < COLS && sp_rng_uniform(r) < chance)
                    w[(i + e / side) * COLS + j + e % side] = (float)(1 + e);
}

static void check(const char *text, size_t bytes, int64_t slots)
{
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){ROWS, COLS}, w), to = t;
    sp_format f;
    sp_store_stats stats;
    sp_packed p;
    to.data = back;
    ok(sp_format_parse(cx, text, &f));
    ok(sp_store_measure(cx, &f, &t, NULL, &stats));
    assert_int_equal(stats.bytes, bytes);
    assert_int_equal(stats.slots, slots);
    ok(sp_store_pack(cx, &f, &t, NULL, &p));
    ok(sp_store_unpack(cx, &p, &to));
    assert_memory_equal(w, back, sizeof w);
    sp_packed_free(cx, &p);
}

static void mixtures(void **state)
{
    (void)state;
    static sp_mask_facts facts;
    sp_rng r = sp_rng_seed(5);
    int found = 0;
    for (int round = 0; round < 24; round++) {
        sp_mask m;
        sparta_tensor t = sparta_tensor_view(SPARTA_F32, 2, (int64_t[]){ROWS, COLS}, w);
        fill(&r, 8 << round % 4, round % 3 ? 0.8 : 1);
        ok(sp_mask_of(cx, &t, &m));
        ok(sp_mask_report(cx, &m, &(sp_report_options){.slack = round % 2 ? 1.5 : 1}, &facts));
        for (int64_t i = 0; i < facts.finding_count; i++)
            if (facts.finding[i].kind == SP_FIND_MIXTURE) {
                check(facts.finding[i].format, facts.finding[i].bytes, facts.finding[i].slots);
                found++;
            }
        FREE(&m);
    }
    assert_true(found >= 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mixtures)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
