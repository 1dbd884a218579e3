/* The dumps that MLIR's sparse_tensor integration tests expect (sparse_print.mlir and sparse_ds.mlir of llvm-project), array
 * for array: the same matrices in the same layouts. MLIR's AoS coo is ours with aos.
 *
 * Its older NV_58 (5 of 8) is left out: that dump has 4 values for each segment of 5 slots, so that position = parent * 5 +
 * slot does not hold; here segments are padded.
 */
#include "format_bed.h"

static void printed(void **state)
{
    (void)state;
    int32_t x[32] = {1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                     0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 5};
    sparta_tensor t = {SPARTA_I32, 2, {4, 8}, {8, 1}, x, 0};
    expect_arrays("(i,j)->(i:dense, j:dense)", &t,
                  "values 1 0 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 4 0 5 0 0; ");
    expect_arrays("(i,j)->(j:dense, i:dense)", &t,
                  "values 1 0 0 0 0 0 0 0 2 0 0 3 0 0 0 4 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0 0; ");
    expect_arrays("csr", &t, "pos1 0 2 2 2 5; crd1 0 2 2 3 5; values 1 2 3 4 5; ");
    expect_arrays("dcsr", &t, "pos0 0 2; crd0 0 3; pos1 0 2 5; crd1 0 2 2 3 5; values 1 2 3 4 5; ");
    expect_arrays("csc", &t, "pos1 0 1 1 3 4 4 5 5 5; crd1 0 0 3 3 3; values 1 2 3 4 5; ");
    expect_arrays("dcsc", &t, "pos0 0 4; crd0 0 2 3 5; pos1 0 1 3 4 5; crd1 0 0 3 3 3; values 1 2 3 4 5; ");
    /* BSR, BSRC, BSC, BSCC, BSR0, BSC0 */
    expect_arrays("dbsr(2,4)", &t,
                  "pos0 0 2; crd0 0 1; pos1 0 1 3; crd1 0 0 1; "
                  "values 1 0 2 0 0 0 0 0 0 0 0 0 0 0 3 4 0 0 0 0 0 5 0 0; ");
    expect_arrays("(i,j)->(i/2:compressed, j/4:compressed, j%4:dense, i%2:dense)", &t,
                  "pos0 0 2; crd0 0 1; pos1 0 1 3; crd1 0 0 1; "
                  "values 1 0 0 0 2 0 0 0 0 0 0 0 0 3 0 4 0 0 0 5 0 0 0 0; ");
    expect_arrays("(i,j)->(j/4:compressed, i/2:compressed, i%2:dense, j%4:dense)", &t,
                  "pos0 0 2; crd0 0 1; pos1 0 2 3; crd1 0 1 1; "
                  "values 1 0 2 0 0 0 0 0 0 0 0 0 0 0 3 4 0 0 0 0 0 5 0 0; ");
    expect_arrays("(i,j)->(j/4:compressed, i/2:compressed, j%4:dense, i%2:dense)", &t,
                  "pos0 0 2; crd0 0 1; pos1 0 2 3; crd1 0 1 1; "
                  "values 1 0 0 0 2 0 0 0 0 0 0 0 0 3 0 4 0 0 0 5 0 0 0 0; ");
    expect_arrays("bsr(2,4)", &t,
                  "pos1 0 1 3; crd1 0 0 1; values 1 0 2 0 0 0 0 0 0 0 0 0 0 0 3 4 0 0 0 0 0 5 0 0; ");
    expect_arrays("bsc(2,4)", &t,
                  "pos1 0 2 3; crd1 0 1 1; values 1 0 2 0 0 0 0 0 0 0 0 0 0 0 3 4 0 0 0 0 0 5 0 0; ");
    expect_arrays("(i,j)->(i:compressed(nonunique), j:singleton(aos))", &t,
                  "pos0 0 5; crd0 0 0 0 2 3 2 3 3 3 5; values 1 2 3 4 5; ");
    expect_arrays("coo", &t, "pos0 0 5; crd0 0 0 3 3 3; crd1 0 2 2 3 5; values 1 2 3 4 5; ");
}

static void structured(void **state)
{
    (void)state;
    double x[24] = {0, 0, 1, 2, 0, 3, 0, 4, 0, 5, 6, 0, 7, 0, 0, 8, 9, 0, 10, 0, 11, 12, 0, 0};
    sparta_tensor t = {SPARTA_F64, 2, {3, 8}, {8, 1}, x, 0};
    expect_arrays("csr", &t,
                  "pos1 0 4 8 12; crd1 2 3 5 7 1 2 4 7 0 2 4 5; values 1 2 3 4 5 6 7 8 9 10 11 12; ");
    expect_arrays("(i,j)->(i:dense, j:loose)", &t,
                  "pos1 0 4 4 8 8 12; crd1 2 3 5 7 1 2 4 7 0 2 4 5; values 1 2 3 4 5 6 7 8 9 10 11 12; ");
    expect_arrays("nm24, crd=u8", &t, "crd2 2 3 1 3 1 2 0 3 0 2 0 1; values 1 2 3 4 5 6 7 8 9 10 11 12; ");
}

/* The same dumps when the source is not dense. */
static void converted(void **state)
{
    (void)state;
    static const char *const texts[] = {"dense",     "(i,j)->(j:dense, i:dense)",
                                        "csr",       "dcsr",
                                        "csc",       "dcsc",
                                        "dbsr(2,4)", "bsr(2,4)",
                                        "coo",       "(i,j)->(i:compressed(nonunique), j:singleton(aos))"};
    int32_t x[32] = {1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                     0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 0, 5};
    sparta_tensor t = {SPARTA_I32, 2, {4, 8}, {8, 1}, x, 0};
    for (size_t i = 0; i < SP_COUNT(texts); i++)
        for (size_t k = 0; k < SP_COUNT(texts); k++) {
            sp_packed from = pack(texts[i], &t, NULL), want = pack(texts[k], &t, NULL);
            sp_packed got = convert(&from, texts[k]);
            if (!same_packed(&got, &want)) fail_msg("%s to %s differs", texts[i], texts[k]);
            sp_packed_free(cx, &from), sp_packed_free(cx, &want), sp_packed_free(cx, &got);
        }
    assert_int_equal(sp_ctx_memory(cx), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(printed), cmocka_unit_test(structured),
                                       cmocka_unit_test(converted)};
    return cmocka_run_group_tests(tests, set_up_strict, tear_down);
}
