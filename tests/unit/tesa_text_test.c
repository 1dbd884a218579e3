/* The text of masks: what is printed parses to the same, and what is damaged is refused. */
#include "tesa_bed.h"

static void round_trip(const sp_mask *m)
{
    sp_text first, second;
    sp_mask back;
    sp_text_init(&first, cx);
    sp_text_init(&second, cx);
    sp_mask_print(m, &first);
    ok(first.status);
    ok(sp_mask_parse(cx, sp_text_str(&first), &back));
    assert_true(same_mask(m, &back));
    assert_true(sp_mask_digest(m) == sp_mask_digest(&back));
    sp_mask_print(&back, &second);
    assert_string_equal(sp_text_str(&first), sp_text_str(&second));
    int64_t rows = m->rows < 1000 ? m->rows : 0;
    assert_true((int64_t)first.size <= rows * ((m->cols + 3) / 4 + 1) + 64); /* never longer than hex */
    sp_text_free(&first);
    sp_text_free(&second);
    FREE(&back);
}

static void round_trips(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(1);
    static const double density[] = {0, 0.01, 0.3, 0.99, 2};
    for (size_t s = 0; s < SP_COUNT(shapes); s++)
        for (size_t d = 0; d < SP_COUNT(density); d++) {
            sp_mask m = random_mask(&r, shapes[s][0], shapes[s][1], density[d]);
            round_trip(&m);
            FREE(&m);
        }
    sp_mask many = mask_of_shape(INT64_C(1) << 60, 0);
    round_trip(&many);
    FREE(&many);
}

static void expect_text(const char *text, const char *canonical)
{
    sp_mask m;
    sp_text out;
    sp_text_init(&out, cx);
    ok(sp_mask_parse(cx, text, &m));
    sp_mask_print(&m, &out);
    assert_string_equal(sp_text_str(&out), canonical);
    sp_text_free(&out);
    FREE(&m);
}

static void texts(void **state)
{
    (void)state;
    expect_text("mask 2x8 hex 0f 08", "mask 2x8 hex 0f 08");
    expect_text("mask 2x8 rle 4 4 7 1", "mask 2x8 hex 0f 08"); /* 6 characters against 8 */
    expect_text("  mask\t 2x8\nrle 4 4 7 1 \n", "mask 2x8 hex 0f 08");
    expect_text("mask 1x64 hex 000000000000000f", "mask 1x64 rle 60 4");
    expect_text("mask 1x3 hex 5", "mask 1x3 hex 5");
    expect_text("mask 3x3 rle 0 9", "mask 3x3 rle 0 9");
    expect_text("mask 3x3 rle 9", "mask 3x3 rle 9");
    expect_text("mask 0x0 hex", "mask 0x0 rle");
    expect_text("mask 7x0 rle", "mask 7x0 rle");
    sp_mask m;
    ok(sp_mask_parse(cx, "mask 2x8 hex 0f 08", &m));
    for (int64_t n = 0; n < 2; n++)
        for (int64_t k = 0; k < 8; k++) assert_int_equal(sp_mask_get(&m, n, k), n ? k == 7 : k >= 4);
    FREE(&m);
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "mask",
                                      "mask ",
                                      "mask2x8 rle 16",
                                      "mask 2",
                                      "mask 2x",
                                      "mask -2x8 rle",
                                      "mask 2x8",
                                      "mask 2x8 raw",
                                      "mask 2x8 rle",
                                      "mask 2x8 rle 16 1",
                                      "mask 2x8 rle 17",
                                      "mask 2x8 rle 15",
                                      "mask 2x8 rle 4 0 12",
                                      "mask 2x8 rle 0 0 16",
                                      "mask 2x8 rle 8,8",
                                      "mask 2x8 rle16",
                                      "mask 2x8 rle -1 17",
                                      "mask 2x8 rle 99999999999999999999",
                                      "mask 99999999999999999999x1 rle",
                                      "mask 2x8 hex 0f",
                                      "mask 2x8 hex 0f 0",
                                      "mask 2x8 hex 0f0f",
                                      "mask 2x8 hex 0f 0g",
                                      "mask 2x8 hex 0F 00",
                                      "mask 2x8 hex 0f 00 00",
                                      "mask 1x3 hex 8",
                                      "mask 1x3 hex 5 x",
                                      "mask 0x0 rle 0"};
    sp_mask m = {.rows = 42};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        assert_int_equal(sp_mask_parse(cx, bad[i], &m), SPARTA_E_FORMAT);
        assert_non_null(strstr(sparta_message(cx), "character "));
    }
    assert_int_equal(sp_mask_parse(cx, "mask 4000000000000000000x4000000000000000000 rle", &m),
                     SPARTA_E_SHAPE);
    assert_int_equal(sp_mask_parse(cx, "mask 1000000000x1000000000 rle 1", &m), SPARTA_E_MEMORY);
    assert_int_equal(m.rows, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trips), cmocka_unit_test(texts),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
