/* Builders make what a person would write: each case is the calls and the text. And what they refuse. */
#include "bed.h"
#include "store/store.h"

static sp_format parse(const char *text)
{
    sp_format f;
    if (sp_format_parse(cx, text, &f)) fail_msg("'%s': %s", text, sparta_message(cx));
    return f;
}

/* The text is this, and it parses to the same object. */
static void prints(const sp_format *f, const char *want)
{
    sp_format same = parse(want);
    sp_text t;
    sp_text_init(&t, cx);
    sp_format_print(f, &t);
    assert_string_equal(sp_text_str(&t), want);
    assert_true(sp_format_equal(f, &same));
    sp_text_free(&t);
}

#define REFUSED(call, f, message)                                                                            \
    do {                                                                                                     \
        sp_format was = f;                                                                                   \
        assert_int_equal(call, SPARTA_E_USAGE);                                                              \
        if (strncmp(sparta_message(cx), message, strlen(message)))                                           \
            fail_msg("'%s', wanted '%s'", sparta_message(cx), message);                                      \
        assert_memory_equal(&was, &f, sizeof f);                                                             \
    } while (0)
#define AXES(...) (int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static void iterate(void **state)
{
    (void)state;
    static const char *const want[] = {
        "(i)->(i:dense)",
        "(i,j)->(i:dense, j:dense)",
        "(i,j,k)->(i:dense, j:dense, k:dense)",
        "(i,j,k,l)->(i:dense, j:dense, k:dense, l:dense)",
        "(i,j,k,l,m)->(i:dense, j:dense, k:dense, l:dense, m:dense)",
        "(i,j,k,l,m,n)->(i:dense, j:dense, k:dense, l:dense, m:dense, n:dense)",
    };
    for (int rank = 1; rank <= 6; rank++) {
        sp_format f = sp_format_iter(rank);
        prints(&f, want[rank - 1]);
        int64_t dim[] = {2, 3, 4, 5, 6, 7};
        ok(sp_format_check(cx, &f, rank, dim));
    }
    for (int rank = -1; rank < 9; rank += rank ? 8 : 1) {
        sp_format f = sp_format_iter(rank);
        assert_int_equal(sp_format_check(cx, &f, rank, (int64_t[9]){0}), SPARTA_E_USAGE);
        REFUSED(sp_format_bitmap(cx, &f, 0), f, "axis: an empty format has no levels to work on");
    }
}

/* The mapping of the proposal (formats.md 6.2). */
static void the_proposal(void **state)
{
    (void)state;
    sp_format f = sp_format_iter(2), coo = parse("coo"), ell = parse("ell");
    ok(sp_format_compress(cx, &f, 1, true, 0));
    prints(&f, "(i,j)->(i:dense, j:compressed)");
    ok(sp_format_pack_level(cx, &f, 1, 0)); /* J.compress(coordinate=True).pack() */
    prints(&f, "(i,j)->(i:dense, j:packed[auto])");
    ok(sp_format_pack_level(cx, &f, 1, 8));
    prints(&f, "(i,j)->(i:dense, j:packed[8])");
    f = sp_format_iter(2);
    ok(sp_format_compress(cx, &f, 1, false, 0));
    prints(&f, "(i,j)->(i:dense, j:ragged)");
    f = sp_format_iter(2);
    ok(sp_format_compress(cx, &f, 0, true, 0));
    ok(sp_format_compress(cx, &f, 1, true, 0));
    prints(&f, "(i,j)->(i:compressed, j:compressed)");
    ok(sp_format_compress(cx, &f, 0, true, SP_PROP_NONUNIQUE | SP_PROP_NONORDERED));
    prints(&f, "(i,j)->(i:compressed(nonunique,nonordered), j:compressed)");
    f = sp_format_iter(2);
    ok(sp_format_block(cx, &f, (int64_t[]){16, 16}));
    prints(&f, "(i,j)->(i/16:dense, j/16:dense, i%16:dense, j%16:dense)");
    ok(sp_format_set(cx, &f, &ell, AXES(0, 1), false));
    ok(sp_format_set(cx, &f, &coo, AXES(2, 3), false));
    prints(&f, "(i,j)->(i/16:dense, j/16:packed[auto], i%16:compressed(nonunique), j%16:singleton(soa))");
    f = sp_format_iter(2);
    ok(sp_format_skew(cx, &f));
    prints(&f, "(i,j)->(j-i:compressed, i:range)");
    f = sp_format_iter(2);
    ok(sp_format_bitmap(cx, &f, 1));
    prints(&f, "(i,j)->(i:dense, j:bitmap)");
}

static void blocks(void **state)
{
    (void)state;
    sp_format f = sp_format_iter(2);
    ok(sp_format_block(cx, &f, (int64_t[]){32, 32}));
    ok(sp_format_block(cx, &f, (int64_t[]){4, 4}));
    prints(&f, "(i,j)->(i/32:dense, j/32:dense, i%32/4:dense, j%32/4:dense, i%4:dense, j%4:dense)");
    ok(sp_format_compress(cx, &f, 1, true, 0));
    ok(sp_format_block(cx, &f, (int64_t[]){1, 2})); /* one dimension only; kinds stay */
    prints(&f, "(i,j)->(i/32:dense, j/32:compressed, i%32/4:dense, j%32/4:dense, i%4:dense, j%4/2:dense, "
               "j%2:dense)");
    REFUSED(sp_format_block(cx, &f, (int64_t[]){1, 2}), f,
            "block: j is cut into blocks of 2; 2 must be smaller and divide it");
    REFUSED(sp_format_block(cx, &f, (int64_t[]){3, 1}), f,
            "block: i is cut into blocks of 4; 3 must be smaller and divide it");
    REFUSED(sp_format_block(cx, &f, (int64_t[]){0, 1}), f, "block: size 0 of i must be between 1 and");
    REFUSED(sp_format_block(cx, &f, (int64_t[]){-4, 1}), f, "block: size -4 of i must be between 1 and");
    REFUSED(sp_format_block(cx, &f, (int64_t[]){INT64_MAX, 1}), f, "block: size 9223372036854775807 of i");
    f = sp_format_iter(1); /* csr with blocks: the outer level keeps its kind */
    ok(sp_format_compress(cx, &f, 0, true, 0));
    ok(sp_format_block(cx, &f, (int64_t[]){8}));
    prints(&f, "(i)->(i/8:compressed, i%8:dense)");
    f = sp_format_iter(6);
    ok(sp_format_block(cx, &f, (int64_t[]){8, 8, 8, 8, 8, 8}));
    assert_int_equal(f.n, 12);
    REFUSED(sp_format_block(cx, &f, (int64_t[]){2, 1, 1, 1, 1, 1}), f, "block: more than 12 levels");
    f = parse("dia");
    REFUSED(sp_format_block(cx, &f, (int64_t[]){4, 1}), f, "block: dimension i is stored by a diagonal");
    f = parse("nm24");
    REFUSED(sp_format_block(cx, &f, (int64_t[]){1, 2}), f, "block: j is structured; call block() first");
}

static void orders(void **state)
{
    (void)state;
    sp_format f = sp_format_iter(2), coo = parse("coo");
    ok(sp_format_order(cx, &f, (int[]){1, 0}));
    ok(sp_format_compress(cx, &f, 1, true, 0));
    prints(&f, "(i,j)->(j:dense, i:compressed)");
    ok(sp_format_order(cx, &f, (int[]){0, 1}));
    prints(&f, "(i,j)->(j:dense, i:compressed)");
    f = sp_format_iter(2);
    ok(sp_format_block(cx, &f, (int64_t[]){4, 8}));
    ok(sp_format_order(cx, &f, (int[]){1, 0, 3, 2}));
    prints(&f, "(i,j)->(j/8:dense, i/4:dense, j%8:dense, i%4:dense)");
    REFUSED(sp_format_order(cx, &f, (int[]){0, 1, 2, 2}), f, "axis: axis 2 twice");
    REFUSED(sp_format_order(cx, &f, (int[]){0, 1, 2, 4}), f,
            "axis: there is no axis 4; this format has 0 to 3");
    REFUSED(sp_format_order(cx, &f, (int[]){0, 1, -2, 3}), f, "axis: there is no axis -2");
    REFUSED(sp_format_order(cx, &coo, (int[]){1, 0}), coo, "format: level 0 is 'singleton'");
    REFUSED(sp_format_skew(cx, &f), f, "skew: it needs two dense levels");
    REFUSED(sp_format_skew(cx, &coo), coo, "skew: it needs two dense levels");
    f = sp_format_iter(3);
    REFUSED(sp_format_skew(cx, &f), f, "skew: it needs two dense levels");
    f = sp_format_iter(2);
    ok(sp_format_order(cx, &f, (int[]){1, 0}));
    ok(sp_format_skew(cx, &f));
    prints(&f, "(i,j)->(i-j:compressed, j:range)");
}

static void structured(void **state)
{
    (void)state;
    sp_format f = sp_format_iter(2);
    ok(sp_format_structure_level(cx, &f, 1, 2, 4));
    prints(&f, "(i,j)->(i:dense, j/4:dense, j%4:structured[2,4])");
    REFUSED(sp_format_structure_level(cx, &f, 1, 1, 2), f, "axis: axis 1 is no innermost level");
    ok(sp_format_structure_level(cx, &f, 2, 1, 4));
    prints(&f, "(i,j)->(i:dense, j/4:dense, j%4:structured[1,4])");
    f = sp_format_iter(2);
    ok(sp_format_structure_level(cx, &f, 0, 1, 2)); /* beside its own dimension, not at the end */
    prints(&f, "(i,j)->(i/2:dense, i%2:structured[1,2], j:dense)");
    f = sp_format_iter(2);
    ok(sp_format_block(cx, &f, (int64_t[]){1, 16}));
    ok(sp_format_structure_level(cx, &f, 2, 2, 4));
    prints(&f, "(i,j)->(i:dense, j/16:dense, j%16/4:dense, j%4:structured[2,4])");
    f = sp_format_iter(2);
    REFUSED(sp_format_structure_level(cx, &f, 1, 5, 4), f, "format: structured[5,4]: n must be <= m");
    REFUSED(sp_format_structure_level(cx, &f, 1, 0, 4), f, "format: structured[0,4]");
    REFUSED(sp_format_structure_level(cx, &f, 1, 2, 0), f, "block: size 0 of j");
    REFUSED(sp_format_pack_level(cx, &f, 1, -1), f, "format: level 1: [-1,0] must be");
    REFUSED(sp_format_compress(cx, &f, 1, false, SP_PROP_NONUNIQUE), f,
            "axis: axis 1: 'ragged' does not take these properties");
    REFUSED(sp_format_compress(cx, &f, 1, true, 1u << 31), f, "axis: axis 1: 'compressed' does not take");
}

static void setting(void **state)
{
    (void)state;
    sp_format f = sp_format_iter(2), coo = parse("coo"), ell = parse("ell, crd=u16"), csc = parse("csc"),
              bsr = parse("bsr(4,8)"), nm = parse("nm24"), one = parse("(q)->(q:compressed), crd=u8"),
              sum = parse("hyb(1,1)"), dia = parse("dia");
    REFUSED(sp_format_set(cx, &f, &coo, AXES(2, 3), false), f,
            "axis: axes 2,3 exist only after block(); call block() first");
    REFUSED(sp_format_set(cx, &f, &coo, AXES(0, 2), false), f,
            "axis: axis 2 exists only after block(); call block() first");
    ok(sp_format_set(cx, &f, &ell, AXES(0, 1), false));
    prints(&f, "(i,j)->(i:dense, j:packed[auto]), crd=u16");
    REFUSED(sp_format_set(cx, &f, &coo, AXES(0, 1), false), f,
            "axis: axis 1 already has a format (packed); pass replace=True to change it");
    ok(sp_format_set(cx, &f, &coo, AXES(0, 1), true));
    prints(&f, "(i,j)->(i:compressed(nonunique), j:singleton(soa))");
    REFUSED(sp_format_set(cx, &f, &coo, AXES(1, 0), true), f, "format: level 0 is 'singleton'");
    REFUSED(sp_format_set(cx, &f, &coo, AXES(1, 1), true), f, "axis: axis 1 twice");
    REFUSED(sp_format_set(cx, &f, &coo, AXES(1), true), f, "axis: 1 axis for a format of 2 levels");
    REFUSED(sp_format_set(cx, &f, &sum, AXES(1), true), f, "axis: a sum has no levels to work on");
    REFUSED(sp_format_set(cx, &sum, &one, AXES(1), true), sum, "axis: a sum has no levels to work on");
    f = sp_format_iter(3);
    ok(sp_format_set(cx, &f, &one, AXES(1), false));
    prints(&f, "(i,j,k)->(i:dense, j:compressed, k:dense), crd=u8");
    f = sp_format_iter(2);
    REFUSED(sp_format_set(cx, &f, &csc, AXES(0, 1), false), f,
            "axis: (i,j)->(j:dense, i:compressed) has an order or blocks that these axes do not have");
    REFUSED(sp_format_set(cx, &f, &dia, AXES(0, 1), false), f, "axis: (i,j)->(j-i:compressed, i:range) has");
    ok(sp_format_order(cx, &f, (int[]){1, 0}));
    ok(sp_format_set(cx, &f, &csc, AXES(0, 1), false));
    prints(&f, "(i,j)->(j:dense, i:compressed)");
    f = sp_format_iter(2);
    ok(sp_format_block(cx, &f, (int64_t[]){4, 8}));
    ok(sp_format_set(cx, &f, &bsr, AXES(0, 1, 2, 3), false));
    prints(&f, "(i,j)->(i/4:dense, j/8:compressed, i%4:dense, j%8:dense)");
    f = sp_format_iter(2);
    ok(sp_format_block(cx, &f, (int64_t[]){4, 4}));
    REFUSED(sp_format_set(cx, &f, &bsr, AXES(0, 1, 2, 3), false), f,
            "axis: (i,j)->(i/4:dense, j/8:compressed");
    REFUSED(sp_format_set(cx, &f, &coo, AXES(7, 9), false), f,
            "axis: there is no axis 7,9; this format has 0 to 3");
    f = sp_format_iter(2);
    ok(sp_format_block(cx, &f, (int64_t[]){1, 4}));
    ok(sp_format_set(cx, &f, &nm, AXES(0, 1, 2), false));
    prints(&f, "(i,j)->(i:dense, j/4:dense, j%4:structured[2,4]), crd=u2");
}

static void sums(void **state)
{
    (void)state;
    struct sp_sum_part part[] = {
        {.select = {.kind = SP_SELECT_ROWNNZ, .b = 4}, .format = parse("csr")},
        {.select = {.kind = SP_SELECT_REST, .a = 77, .x = 3}, .format = parse("coo, crd=u16")},
    };
    sp_format f, text;
    ok(sp_format_sum(cx, part, 2, &f));
    text = parse("sum{rownnz<=4 -> csr; rest -> coo, crd=u16}");
    prints(&f, "sum{rownnz<=4 -> (i,j)->(i:dense, j:compressed); rest -> (i,j)->(i:compressed(nonunique), "
               "j:singleton(soa)), crd=u16}");
    assert_ptr_equal(f.sum, text.sum);
    struct sp_sum_part outer = {.select = {.kind = SP_SELECT_COLPART, .b = 2}, .format = f};
    ok(sp_format_sum(cx, &outer, 1, &f));
    text = parse("sum{colpart(2) -> sum{rownnz<=4 -> csr; rest -> coo, crd=u16}}");
    assert_ptr_equal(f.sum, text.sum);
    part[1].select = (sp_select){.kind = SP_SELECT_FIRST, .b = 4};
    REFUSED(sp_format_sum(cx, part, 2, &f), f,
            "sum: parts overlap: an entry of a row with 4 nonzeros matches 'rownnz<=4' and 'first(4)'; put "
            "'rest' last");
    part[1].select.b = 0;
    REFUSED(sp_format_sum(cx, part, 2, &f), f, "sum: part 1 has no selector that can be");
    part[1].select = (sp_select){.kind = SP_SELECT_REST};
    part[1].format = parse("csf");
    REFUSED(sp_format_sum(cx, part, 2, &f), f, "sum: part 'rest' has 3 dimensions, the first part 2");
    REFUSED(sp_format_sum(cx, part, 0, &f), f, "sum: 0 parts; there may be 1 to");
    REFUSED(sp_format_sum(cx, part, SP_PARTS + 1, &f), f, "sum: 129 parts");
    part[0].format.n = 0;
    REFUSED(sp_format_sum(cx, part, 1, &f), f, "format: 2 dimensions and 0 levels");
}

static void out_of_memory(void **state)
{
    (void)state;
    struct sp_sum_part part = {.select = {.kind = SP_SELECT_FIRST, .b = 3}, .format = parse("csr")};
    sparta_status status = SPARTA_E_MEMORY;
    for (uint64_t nth = 1; status; nth++) {
        sparta_ctx *own = sparta_ctx_create(NULL);
        sp_format f = {.rank = 77};
        assert_non_null(own);
        sp_ctx_fail_alloc(own, nth, false);
        status = sp_format_sum(own, &part, 1, &f);
        assert_true(status == SPARTA_OK || status == SPARTA_E_MEMORY);
        assert_int_equal(f.rank, status ? 77 : 2);
        assert_true(nth < 20);
        sparta_ctx_free(own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(iterate),    cmocka_unit_test(the_proposal),
                                       cmocka_unit_test(blocks),     cmocka_unit_test(orders),
                                       cmocka_unit_test(structured), cmocka_unit_test(setting),
                                       cmocka_unit_test(sums),       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
