/* Sums: who gets which element, arrays worked out by hand, what nobody takes, limits, and broken storage. */
#include "format_bed.h"

#define ROWS_OF(w) "(i,j)->(i:compressed, j:packed[" #w "])"

static float matrix[] = {1, 0, 2, 0, 0, /* 2 elements */
                         0, 0, 0, 0, 0, /* 0 */
                         3, 4, 5, 0, 6, /* 4 */
                         0, 0, 0, 7, 0 /* 1 */};
static sparta_tensor t = {SPARTA_F32, 2, {4, 5}, {5, 1}, matrix, 0};

static void by_the_length_of_rows(void **state)
{
    (void)state;
    expect_arrays("sum{rownnz<=2 -> " ROWS_OF(2) "; rest -> coo}", &t,
                  "pos0 0 2; crd0 0 3; crd1 0 2 3 3; values 1 2 7 0; | "
                  "pos0 0 4; crd0 2 2 2 2; crd1 0 1 2 4; values 3 4 5 6; ");
    expect_arrays("sum{rownnz in (1,2] -> " ROWS_OF(2) "; rownnz in (2,4] -> csr; rownnz<=1 -> coo}", &t,
                  "pos0 0 1; crd0 0; crd1 0 2; values 1 2; | "
                  "pos1 0 0 0 4 4; crd1 0 1 2 4; values 3 4 5 6; | "
                  "pos0 0 1; crd0 3; crd1 3; values 7; ");
    /* a part that gets nothing is stored all the same */
    expect_arrays("sum{rownnz in (7,9] -> csr; rest -> coo}", &t,
                  "pos1 0 0 0 0 0; crd1; values; | "
                  "pos0 0 7; crd0 0 0 2 2 2 2 3; crd1 0 2 0 1 2 4 3; values 1 2 3 4 5 6 7; ");
}

static void by_other_selectors(void **state)
{
    (void)state;
    expect_arrays("sum{first(1) -> (i,j)->(i:compressed, j:singleton); rest -> coo}", &t,
                  "pos0 0 3; crd0 0 2 3; crd1 0 0 3; values 1 3 7; | "
                  "pos0 0 4; crd0 0 2 2 2; crd1 2 1 2 4; values 2 4 5 6; ");
    /* columns 0-2 and 3-4: each part keeps the whole shape */
    expect_arrays("sum{colpart(2) -> dcsr}", &t,
                  "pos0 0 2; crd0 0 2; pos1 0 2 5; crd1 0 2 0 1 2; values 1 2 3 4 5; | "
                  "pos0 0 2; crd0 2 3; pos1 0 1 2; crd1 4 3; values 6 7; ");
    /* blocks of 2x2: (1,0) is half full, (1,1) and (1,2) have 1 or 2 of 4 */
    expect_arrays("sum{blockdensity>=0.5 -> dbsr(2); rest -> coo}", &t,
                  "pos0 0 1; crd0 1; pos1 0 2; crd1 0 1; values 3 4 0 0 5 0 0 7; | "
                  "pos0 0 3; crd0 0 0 2; crd1 0 2 4; values 1 2 6; ");
    /* a sum in a sum sees its own elements only: row 2 has three in the first columns */
    expect_arrays(
        "sum{colpart(2) -> sum{rownnz<=2 -> " ROWS_OF(2) "; rest -> coo}}", &t,
        "pos0 0 1; crd0 0; crd1 0 2; values 1 2; | pos0 0 3; crd0 2 2 2; crd1 0 1 2; values 3 4 5; | "
        "pos0 0 2; crd0 2 3; crd1 4 4 3 3; values 6 0 7 0; | pos0 0 0; crd0; crd1; values; ");
    float cube[8] = {1, 0, 2, 3, 0, 0, 0, 4};
    sparta_tensor three = {SPARTA_F32, 3, {2, 2, 2}, {4, 2, 1}, cube, 0}; /* rows are the first dimension */
    expect_arrays(
        "sum{rownnz<=1 -> csf; rest -> (i,j,k)->(i:dense, j:dense, k:dense)}", &three,
        "pos0 0 1; crd0 1; pos1 0 1; crd1 1; pos2 0 1; crd2 1; values 4; | values 1 0 2 3 0 0 0 0; ");
}

static void nobody_takes_it(void **state)
{
    (void)state;
    sp_packed p = {.rank = 77};
    sp_store_stats stats = {.slots = 77};
    sp_format f = parse("sum{rownnz<=2 -> coo}");
    const char *message =
        "pack: row 2 has 4 elements, and no part of the sum takes 4 of them; end it with '; rest -> coo'";
    expect_message(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_USAGE, message);
    expect_message(sp_store_measure(cx, &f, &t, NULL, &stats), SPARTA_E_USAGE, message);
    f = parse("sum{first(3) -> coo}");
    expect_message(
        sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_USAGE,
        "pack: row 2 has 4 elements, and no part of the sum takes 1 of them; end it with '; rest -> coo'");
    f = parse("sum{rownnz<=2 -> coo; rest -> (i,j)->(i:compressed, j:packed[3])}");
    expect_message(sp_store_pack(cx, &f, &t, NULL, &p), SPARTA_E_USAGE, "pack: row 2 has 4 entries");
    assert_true(p.rank == 77 && stats.slots == 77);
}

static void statistics_and_the_limit(void **state)
{
    (void)state;
    sp_format f = parse("sum{rownnz<=1 -> bsr(4); rest -> csr}");
    sp_packed p = pack("sum{rownnz<=1 -> bsr(4); rest -> csr}", &t, NULL);
    sp_store_stats before, after;
    OK(sp_store_measure(cx, &f, &t, NULL, &before));
    OK(sp_store_measure_packed(cx, &p, &after));
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(before.parts, 2);
    assert_int_equal(before.elements, 7);
    assert_int_equal(before.slots, 16 + 6);
    assert_int_equal(before.value_bytes, 22 * 4);
    assert_int_equal(before.pos_bytes, (2 + 5) * 4);
    assert_int_equal(before.crd_bytes, (1 + 6) * 4);
    assert_int_equal(before.longest[1], 1); /* of the part with most slots: one block in its row */
    expect_message(
        sp_store_within(cx, &f, &before, 3), SPARTA_E_LIMIT,
        "pack: the format would store 3.1x the nonzeros (limit 3.0x); let fewer elements go to its "
        "padded parts");
    OK(sp_store_within(cx, &f, &before, 0));
    f = parse("sum{rownnz<=1 -> dense; rest -> dense}");
    OK(sp_store_measure(cx, &f, &t, NULL, &before));
    OK(sp_store_within(cx, &f, &before, 1)); /* dense levels only */
    sp_packed_free(cx, &p);
}

static void what_is_in_two_parts_adds(void **state)
{
    (void)state;
    sp_packed p = pack("sum{rownnz<=2 -> csr; rest -> coo}", &t, NULL);
    ((int32_t *)p.part[1].crd[0].data)[0] = 0; /* (2,0) 3 becomes (0,0), where part 0 has 1 */
    float want[20], back[20];
    memcpy(want, matrix, sizeof want);
    want[0] = 4, want[10] = 0;
    sparta_tensor out = t;
    out.data = back;
    OK(sp_store_unpack(cx, &p, &out));
    assert_memory_equal(back, want, sizeof want);
    sp_packed one = convert(&p, "csr");
    expect_packed(&one, "pos1 0 2 2 5 6; crd1 0 2 1 2 4 3; values 4 2 4 5 6 7; ");
    sp_packed_free(cx, &p), sp_packed_free(cx, &one);
}

static void broken(void **state)
{
    (void)state;
    float back[20] = {9};
    sparta_tensor out = t;
    out.data = back;
#define BREAK(message, change)                                                                               \
    do {                                                                                                     \
        sp_packed good = pack("sum{rownnz<=2 -> " ROWS_OF(2) "; rest -> coo}", &t, NULL), p = good;          \
        sp_packed part[2] = {good.part[0], good.part[1]};                                                    \
        sp_format csr = parse("csr");                                                                        \
        (void)csr;                                                                                           \
        p.part = part;                                                                                       \
        change;                                                                                              \
        sp_packed none = {.rank = 77};                                                                       \
        expect_message(sp_store_unpack(cx, &p, &out), SPARTA_E_FORMAT, "");                                  \
        expect_message(sp_store_convert(cx, &p, &csr, NULL, &none), SPARTA_E_FORMAT, "");                    \
        expect_message(sp_packed_verify(cx, &p), SPARTA_E_FORMAT, message);                                  \
        assert_true(back[0] == 9 && none.rank == 77);                                                        \
        sp_packed_free(cx, &good);                                                                           \
    } while (0)
    BREAK("packed: 1 parts, the sum has 2", p.parts = 1);
    BREAK("packed: 2 parts, the sum has 2", p.part = NULL);
    BREAK("packed: part 1 has another format, type or shape", part[1].format = csr);
    BREAK("packed: part 0 has another format, type or shape", part[0].dim[1] = 6);
    BREAK("packed: part 1 has another format, type or shape", part[1].dtype = SPARTA_I32);
    BREAK("packed: part 1 has another format, type or shape", part[1].pattern = true);
    BREAK("packed: part 0 has another format, type or shape", part[0].format = p.format);
    BREAK("part 0: packed: a part of a sum has parts of its own", part[0].parts = 1);
    BREAK("part 1: packed: level 0: pos[1] is 5 after 0", ((int32_t *)part[1].pos[0].data)[1] = 5);
    BREAK("part 0: packed: level 1: crd[0] is 9, coordinates are below 5",
          ((int32_t *)part[0].crd[1].data)[0] = 9);
#undef BREAK
}

static void values_in_the_padding_of_a_part(void **state)
{
    (void)state;
    float back[20] = {9};
    sparta_tensor out = t;
    out.data = back;
    sp_packed p = pack("sum{rownnz<=2 -> " ROWS_OF(2) "; rest -> coo}", &t, NULL);
    ((float *)p.part[0].values.data)[3] = 5;
    expect_message(sp_store_unpack(cx, &p, &out), SPARTA_E_FORMAT,
                   "packed: value 3 lies outside the tensor, in the padding, and is not 0");
    assert_true(back[0] == 9);
    sp_packed_free(cx, &p);
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {"sum{rownnz<=2 -> " ROWS_OF(2) "; rest -> coo}",
                                        "sum{colpart(2) -> sum{first(1) -> csr; rest -> quads(2)}}",
                                        "sum{blockdensity>=0.5 -> dbsr(2); rest -> groups}"};
    float back[20];
    sparta_tensor out = t;
    out.data = back;
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        sp_format f = parse(texts[i]);
        size_t before = sp_ctx_memory(cx);
        for (uint64_t nth = 1;; nth++) {
            sp_packed p = {0};
            assert_true(nth < 500);
            sp_ctx_fail_alloc(cx, nth, false);
            sparta_status status = sp_store_pack(cx, &f, &t, NULL, &p);
            if (!status) status = sp_store_unpack(cx, &p, &out);
            sp_ctx_fail_alloc(cx, 0, false);
            sp_packed_free(cx, &p);
            assert_int_equal(sp_ctx_memory(cx), before);
            if (!status) {
                assert_true(nth > 10);
                break;
            }
            assert_int_equal(status, SPARTA_E_MEMORY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_the_length_of_rows),
                                       cmocka_unit_test(by_other_selectors),
                                       cmocka_unit_test(nobody_takes_it),
                                       cmocka_unit_test(statistics_and_the_limit),
                                       cmocka_unit_test(what_is_in_two_parts_adds),
                                       cmocka_unit_test(broken),
                                       cmocka_unit_test(values_in_the_padding_of_a_part),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up_strict, tear_down);
}
