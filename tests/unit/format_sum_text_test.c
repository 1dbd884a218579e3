/* Sums and opaque formats as text: what parses, how it prints, what is refused and in which words; random formats with
 * sums; the memory they take in the context. */
#include "bed.h"
#include "format/opaque.h"
#include "store/store.h"
#include "unit/format_random.h"

static sp_format parse(const char *text)
{
    sp_format f;
    if (sp_format_parse(cx, text, &f)) fail_msg("'%s': %s", text, sparta_message(cx));
    return f;
}

static void expect_print(const sp_format *f, const char *want)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_format_print(f, &t);
    assert_int_equal(t.status, SPARTA_OK);
    assert_string_equal(sp_text_str(&t), want);
    sp_text_free(&t);
}

#define CSR  "(i,j)->(i:dense, j:compressed)"
#define COO  "(i,j)->(i:compressed(nonunique), j:singleton(soa))"
#define ROWS "(i,j)->(i:compressed, j:packed"
#define CUT  "(i,j)->(i:compressed(nonunique), j:packed"

static void canonical(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sum{rownnz<=4->csr;rest->coo}", "sum{rownnz<=4 -> " CSR "; rest -> " COO "}"},
        {" sum { rownnz < = 4 -> csr\n; rest -> coo } ", "sum{rownnz<=4 -> " CSR "; rest -> " COO "}"},
        {"sum{rownnz in (0,4] -> csr}", "sum{rownnz<=4 -> " CSR "}"},
        {"sum{rownnz in (4,8] -> csr; rownnz<=4 -> coo}",
         "sum{rownnz in (4,8] -> " CSR "; rownnz<=4 -> " COO "}"},
        {"sum{rest -> csr}", "sum{rest -> " CSR "}"},
        {"sum{first(4) -> ell, crd=u16; rest -> csr, crd=u8, pos=i64}",
         "sum{first(4) -> (i,j)->(i:dense, j:packed[auto]), crd=u16; rest -> " CSR ", pos=i64, crd=u8}"},
        {"sum{colpart(3) -> csr}", "sum{colpart(3) -> " CSR "}"},
        {"sum{blockdensity>=0.50 -> bsr(4); rest -> csr}",
         "sum{blockdensity>=0.5 -> (i,j)->(i/4:dense, j/4:compressed, i%4:dense, j%4:dense); rest -> " CSR
         "}"},
        {"sum{blockdensity>=1 -> cv(2)}",
         "sum{blockdensity>=1 -> (i,j)->(i/2:dense, j:compressed, i%2:dense)}"},
        {"sum{blockdensity>=1e-3 -> cv(2)}",
         "sum{blockdensity>=0.001 -> (i,j)->(i/2:dense, j:compressed, i%2:dense)}"},
        {"sum{blockdensity>=0.00001 -> cv(2)}",
         "sum{blockdensity>=1e-05 -> (i,j)->(i/2:dense, j:compressed, i%2:dense)}"},
        {"sum{blockdensity>=0.33333333333333331 -> cv(2)}",
         "sum{blockdensity>=0.3333333333333333 -> (i,j)->(i/2:dense, j:compressed, i%2:dense)}"},
        {"sum{rownnz<=2 -> sum{first(1) -> csr; rest -> coo}; rest -> sum{colpart(2) -> coo}}",
         "sum{rownnz<=2 -> sum{first(1) -> " CSR "; rest -> " COO "}; rest -> sum{colpart(2) -> " COO "}}"},
        {"sum{first(1) -> (a)->(a:dense); rest -> (b)->(b:compressed)}",
         "sum{first(1) -> (a)->(a:dense); rest -> (b)->(b:compressed)}"},
        {"hyb(1,2)", "sum{rownnz<=1 -> " ROWS "[1]); rownnz in (1,2] -> " ROWS
                     "[2]); rownnz in (2,4] -> " ROWS "[4]); rest -> " CUT "[4])}"},
        {"hyb(2,1)", "sum{colpart(2) -> sum{rownnz<=1 -> " ROWS "[1]); rownnz in (1,2] -> " ROWS
                     "[2]); rest -> " CUT "[2])}}"},
        {"sum{first(2) -> dense; rest -> csr, crd=u8}, crd=u16, pos=u8",
         "sum{first(2) -> (i,j)->(i:dense, j:dense); rest -> " CSR ", pos=u8, crd=u16}"},
        {"sum{colpart(2) -> sum{first(1) -> ell; rest -> csr}, crd=u16}",
         "sum{colpart(2) -> sum{first(1) -> (i,j)->(i:dense, j:packed[auto]), crd=u16; rest -> " CSR
         ", crd=u16}}"},
        {"hyb(2,1), crd=u16",
         "sum{colpart(2) -> sum{rownnz<=1 -> " ROWS "[1]), crd=u16; rownnz in (1,2] -> " ROWS
         "[2]), crd=u16; rest -> " CUT "[2]), crd=u16}}"},
        {"sum{first(8) -> hyb(1,1); rest -> csr}",
         "sum{first(8) -> sum{rownnz<=1 -> " ROWS "[1]); rownnz in (1,2] -> " ROWS "[2]); rest -> " CUT
         "[2])}; rest -> " CSR "}"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_format f = parse(cases[i][0]), again = parse(cases[i][1]);
        expect_print(&f, cases[i][1]);
        assert_true(sp_format_equal(&f, &again));
        assert_ptr_equal(f.sum, again.sum); /* one copy */
        assert_int_equal(f.n, 0);
        assert_int_equal(f.rank, f.sum->part[0].format.rank);
    }
}

static void hybrids(void **state)
{
    (void)state;
    sp_format f = parse("hyb(1,30)");
    assert_int_equal(f.sum->n, 32);
    assert_int_equal(f.sum->part[31].format.level[1].w, 1 << 30);
    f = parse("hyb(16,5)"); /* what SparseTIR takes for ogbn-products */
    assert_int_equal(f.sum->part[0].select.b, 16);
    assert_int_equal(f.sum->part[0].format.sum->n, 7);
    f = parse("hyb(2)");
    sp_format both = parse("hyb(2,2)");
    assert_true(sp_format_equal(&f, &both));
}

#define SELECTORS "(rownnz<=n, rownnz in (a,b], colpart(c), blockdensity>=x, first(k), rest)"

static void refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sum{rownnz<=2 -> csr; first(4) -> csr; rest -> csr}",
         "format:1:23: sum: parts overlap: an entry of a row with 2 nonzeros matches 'rownnz<=2' and "
         "'first(4)'; put "
         "'rest' last"},
        {"sum{first(4) -> csr;\n rownnz in (8,9] -> csr}",
         "format:2:2: sum: parts overlap: an entry of a row with 9 nonzeros matches 'first(4)' and 'rownnz "
         "in (8,9]'"},
        {"sum{rownnz<=4 -> csr; rownnz in (3,8] -> csr}",
         "format:1:23: sum: parts overlap: an entry of a row with 4 nonzeros matches 'rownnz<=4' and 'rownnz "
         "in (3,8]'"},
        {"sum{rownnz<=4 -> csr; rownnz in (4,8] -> csr; rownnz in (7,9] -> csr}",
         "format:1:47: sum: parts overlap: an entry of a row with 8 nonzeros"},
        {"sum{rownnz<=1 -> csr; rownnz<=1 -> csr}", "format:1:23: sum: parts overlap: an entry of a row with "
                                                    "1 nonzero matches 'rownnz<=1' and 'rownnz<=1'"},
        {"sum{rownnz<=1 -> csr; blockdensity>=0.5 -> bsr(2)}",
         "format:1:23: sum: parts overlap: an entry of a row"},
        {"sum{rest -> csr; rownnz<=4 -> csr}",
         "format:1:5: sum: parts overlap: 'rest' takes what the others leave; put 'rest' last, once"},
        {"sum{rest -> csr; rest -> csr}", "format:1:5: sum: parts overlap: 'rest' takes"},
        {"sum{colpart(2) -> csr; rest -> csr}", "format:1:24: sum: colpart takes every entry; remove 'rest'"},
        {"sum{colpart(2) -> csr; colpart(2) -> csr}",
         "format:1:24: sum: parts overlap: colpart takes every entry"},
        {"sum{rownnz<=2 -> csr; colpart(2) -> csr}",
         "format:1:23: sum: parts overlap: colpart takes every entry"},
        {"sum{first(2) -> csr; first(3) -> csr}", "format:1:22: sum: parts overlap: an entry may match "
                                                  "'first(2)' and 'first(3)'; put the second into a sum"},
        {"sum{blockdensity>=0.5 -> bsr(2); blockdensity>=0.25 -> bsr(4); rest -> csr}",
         "format:1:34: sum: parts overlap: an entry may match 'blockdensity>=0.5' and 'blockdensity>=0.25'"},
        {"sum{blockdensity>=0.5 -> csr; rest -> csr}",
         "format:1:5: sum: 'blockdensity>=0.5' needs a format with blocks (a level i/c), e.g. bsr(4)"},
        {"sum{blockdensity>=0.5 -> sum{rest -> bsr(2)}}",
         "format:1:5: sum: 'blockdensity>=0.5' needs a format"},
        {"sum{blockdensity>=0 -> bsr(2)}", "format:1:19: density must be above 0 and at most 1"},
        {"sum{blockdensity>=1.5 -> bsr(2)}", "format:1:19: density must be above 0 and at most 1"},
        {"sum{blockdensity>=1e999 -> bsr(2)}", "format:1:19: density '1' is no number"},
        {"sum{blockdensity>=0.5.5 -> bsr(2)}", "format:1:22: expected '->' after the selector, got '.'"},
        {"sum{blockdensity>=-1 -> bsr(2)}", "format:1:19: expected density, got '-'"},
        {"sum{blockdensity<=0.5 -> bsr(2)}", "format:1:17: expected '>', got '<'"},
        {"sum{rownnz<=2 -> csr; rest -> csf}",
         "format:1:23: sum: part 'rest' has 3 dimensions, the first part 2; all parts store one tensor"},
        {"sum{rownz<=2 -> csr}", "format:1:5: unknown selector 'rownz'; did you mean 'rownnz'? " SELECTORS},
        {"sum{csr}", "format:1:5: unknown selector 'csr' " SELECTORS},
        {"sum{}", "format:1:5: expected a selector " SELECTORS ", got '}'"},
        {"sum", "format:1:4: expected '{' after 'sum', got the end"},
        {"sum(csr)", "format:1:4: expected '{' after 'sum', got '('"},
        {"sum{rest -> csr", "format:1:16: expected ';' and the next part, or '}', got the end"},
        {"sum{rest -> csr;}", "format:1:17: expected a selector"},
        {"sum{rest csr}", "format:1:10: expected '->' after the selector, got 'csr'"},
        {"sum{rest -> }", "format:1:13: expected '(' or the name of a format, got '}'"},
        {"sum{rest -> csr}}", "format:1:17: expected ',' and a key, or the end, got '}'"},
        {"sum{rest -> csr} csr", "format:1:18: expected ',' and a key, or the end, got 'csr'"},
        {"sum{rest -> csr}, crd[1]=u16", "format:1:22: a sum has no levels of its own; leave out the [ ]"},
        {"hyb(1,1), crd[0..1]=u16", "format:1:14: a sum has no levels of its own"},
        {"hyb(1,1), crd=u2", "format:1:15: widths u2 and u4 are for crd of structured levels, level 0 is"},
        {"sum{rest -> dense}, crd=u16", "format:1:21: crd: no such level stores coordinates; remove it"},
        {"sum{first(1) -> csr; rest -> dia}, crd=u16", "format: j-i: offsets have a sign"},
        {"hyb(1,1), val=u16", "format:1:11: expected a key, pos or crd, got 'val'"},
        {"sum{rest -> csr, crd=u16, }", "format:1:27: expected a key, pos or crd, got '}'"},
        {"sum{rest -> dia, crd=u8}", "format: j-i: offsets have a sign"},
        {"sum{rownnz<4 -> csr}", "format:1:12: expected '=', got '4'"},
        {"sum{rownnz=4 -> csr}", "format:1:11: expected '<=' or 'in' after 'rownnz', got '='"},
        {"sum{rownnz<=0 -> csr}", "format:1:13: count '0' must be between 1 and 2147483647"},
        {"sum{rownnz<=99999999999999999999 -> csr}", "format:1:13: count '99999999999999999999' must be"},
        {"sum{rownnz in (4,4] -> csr}", "format:1:18: count '4' must be between 5 and"},
        {"sum{rownnz in (4,8) -> csr}", "format:1:19: expected ']', got ')'"},
        {"sum{rownnz in [4,8] -> csr}", "format:1:15: expected '(', got '['"},
        {"sum{colpart(0) -> csr}", "format:1:13: parts '0' must be between 1 and"},
        {"sum{colpart(129) -> csr}", "format:1:13: parts '129' must be between 1 and 128"},
        {"sum{colpart(64) -> sum{first(1) -> csr; rest -> sum{first(1) -> csr; rest -> csr}}}",
         "format:1:5: sum: more than 128 parts, those of colpart(c) counted c times"},
        {"sum{first() -> csr}", "format:1:11: expected count, got ')'"},
        {"hyb(16,9)", "format:1:1: hyb(16,9): 16 column parts of 11 buckets; at most 128 in all"},
        {"sum{rest -> hyb(1,31)}", "format:1:13: hyb(1,31): 1 column part of 33 buckets"},
        {"hyb(2147483647,2147483647)", "format:1:1: hyb(2147483647,2147483647)"},
        {"hyb", "format:1:4: 'hyb' needs 2 arguments"},
        {"(i,j)->(i:dense, j:compressed); csr", "format:1:31: expected ',' and a key, or the end, got ';'"},
        {"sums{rest -> csr}", "format:1:1: unknown format 'sums'; did you mean 'sum'?"},
    };
    size_t before = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < SP_COUNT(cases); i++) {
            sp_format f = {.rank = 77};
            sparta_status status = sp_format_parse(cx, cases[i][0], &f);
            if (status != SPARTA_E_USAGE || strncmp(sparta_message(cx), cases[i][1], strlen(cases[i][1])))
                fail_msg("'%s': status %d, message '%s', wanted '%s'", cases[i][0], status,
                         sparta_message(cx), cases[i][1]);
            assert_int_equal(f.rank, 77); /* untouched */
        }
        if (pass) assert_int_equal(sp_ctx_memory(cx), before);
        before = sp_ctx_memory(cx);
    }
}

static void equality(void **state)
{
    (void)state;
    static const char *const differ[] = {"sum{rest -> csr}",
                                         "sum{rest -> csc}",
                                         "sum{rest -> csr, crd=u16}",
                                         "sum{first(1) -> csr}",
                                         "sum{first(2) -> csr}",
                                         "sum{first(1) -> csr; rest -> csr}",
                                         "sum{rownnz<=1 -> csr}",
                                         "sum{rownnz<=2 -> csr}",
                                         "sum{rownnz in (1,2] -> csr}",
                                         "sum{colpart(1) -> csr}",
                                         "sum{colpart(2) -> csr}",
                                         "sum{blockdensity>=0.5 -> cv(2)}",
                                         "sum{blockdensity>=0.25 -> cv(2)}",
                                         "sum{rest -> sum{rest -> csr}}",
                                         "sum{rest -> csf}",
                                         "csr",
                                         "hyb(1,1)",
                                         "hyb(1,2)",
                                         "hyb(2,1)"};
    for (size_t i = 0; i < SP_COUNT(differ); i++)
        for (size_t j = 0; j < SP_COUNT(differ); j++) {
            sp_format a = parse(differ[i]), b = parse(differ[j]);
            assert_int_equal(sp_format_equal(&a, &b), i == j);
        }
    /* Names of dimensions do not matter for storage, but they do for the text. */
    sp_format a = parse("sum{rest -> csr}"), b = parse("sum{rest -> (n,k)->(n:dense, k:compressed)}");
    assert_true(sp_format_equal(&a, &b));
    assert_ptr_not_equal(a.sum, b.sum);
    expect_print(&b, "sum{rest -> (n,k)->(n:dense, k:compressed)}");
}

static void check_shape(const char *text, int rank, const int64_t *dim, sparta_status want,
                        const char *message)
{
    sp_format f = parse(text);
    sparta_status status = sp_format_check(cx, &f, rank, dim);
    if (status != want || (want && strncmp(sparta_message(cx), message, strlen(message))))
        fail_msg("'%s': status %d, message '%s', wanted '%s'", text, status, sparta_message(cx), message);
}

static void shapes(void **state)
{
    (void)state;
    int64_t small[] = {5, 7, 3, 3}, wide[] = {8, 300}, negative[] = {3, -1};
    check_shape("sum{rownnz<=4 -> csr; rest -> coo}", 2, small, SPARTA_OK, "");
    check_shape("sum{rownnz<=4 -> csr; rest -> coo, crd=u8}", 2, wide, SPARTA_E_USAGE,
                "part 'rest': format: crd=u8 holds coordinates below 256, dimension j has 300; use crd=u16");
    check_shape("sum{colpart(2) -> sum{first(1) -> csr; rest -> csr, crd=u8}}", 2, wide, SPARTA_E_USAGE,
                "part 'colpart(2)': part 'rest': format: crd=u8 holds");
    check_shape("hyb(2,3)", 4, small, SPARTA_E_USAGE,
                "format: 2 dimensions but the tensor has 4; add a view, e.g. .reshape(O, C*H*W)");
    check_shape("hyb(2,3)", 2, negative, SPARTA_E_SHAPE, "format: dimension j is -1");
    check_shape("sum{rest -> csf}", 3, small, SPARTA_OK, "");
}

/* Somebody may have filled the struct wrongly. */
static void broken_values(void **state)
{
    (void)state;
    struct {
        sp_sum sum;
        struct sp_sum_part part[2];
    } own;
    sp_format good = parse("sum{rownnz<=4 -> csr; rest -> coo}"), f;
    int64_t dim[] = {5, 7};
#define BREAK(change)                                                                                        \
    do {                                                                                                     \
        memcpy(&own, good.sum, sizeof *good.sum + 2 * sizeof *good.sum->part);                               \
        f = good;                                                                                            \
        f.sum = &own.sum;                                                                                    \
        change;                                                                                              \
        assert_int_equal(sp_format_check(cx, &f, 2, dim), SPARTA_E_USAGE);                                   \
    } while (0)
    BREAK(own.sum.n = 0);
    BREAK(own.sum.n = -1);
    BREAK(own.sum.n = SP_PARTS + 1);
    BREAK(f.n = 1);
    BREAK(f.rank = 3);
    BREAK(f.opaque = (const sp_opaque *)&own);
    BREAK(f.sum = NULL; f.opaque = (const sp_opaque *)&own);
    BREAK(f.sum = NULL);
    BREAK(own.sum.part[0].select.b = 0);
    BREAK(own.sum.part[0].select.a = -1);
    BREAK(own.sum.part[0].select.kind = (sp_select_kind)9);
    BREAK(own.sum.part[0].select.kind = SP_SELECT_REST);
    BREAK(own.sum.part[0].format.n = 0);
    BREAK(own.sum.part[1].format.level[0].kind = 99);
    BREAK(own.sum.part[1].format = f); /* a cycle */
    BREAK(own.sum.part[0].format = f; own.sum.part[1].format = f);
#undef BREAK
    assert_int_equal(sp_format_check(cx, &good, 2, dim), SPARTA_OK);
}

static void opaque_names(void **state)
{
    (void)state;
    assert_true(sp_opaque_count() > 0);
    for (int i = 0; i < sp_opaque_count(); i++) {
        const sp_opaque *o = sp_opaque_row(i);
        char text[200];
        int used = snprintf(text, sizeof text, "%s", o->name);
        assert_true(o->arguments <= SP_FORMAT_ARGUMENTS);
        for (int a = 0; a < o->arguments; a++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%c%d", a ? ',' : '(', 128 + a);
        if (o->arguments) used += snprintf(text + used, sizeof text - (size_t)used, ")");
        sp_format f = parse(text), part;
        assert_ptr_equal(f.opaque, o);
        assert_int_equal(f.rank, 2);
        assert_int_equal(f.n, 0);
        if (o->arguments) assert_int_equal(f.argument[0], 128);
        expect_print(&f, text);
        part = parse(o->name); /* arguments may be left out: the check says whether that can be */
        expect_print(&part, o->name);
        assert_int_equal(sp_format_equal(&f, &part), !o->arguments);
        if (o->arguments) {
            part.argument[0] = -1;
            assert_int_equal(sp_format_check(cx, &part, 2, (int64_t[]){8, 8}), SPARTA_E_USAGE);
        }
        assert_true(sp_format_is_name(cx, o->name));
        char sum[500];
        snprintf(sum, sizeof sum, "sum{rownnz<=4 -> %s; rest -> %s}", text, text);
        part = parse(sum);
        expect_print(&part, sum);
        assert_true(sp_format_equal(&part.sum->part[0].format, &f));
        snprintf(text + used, sizeof text - (size_t)used, ", crd=u16");
        assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_E_USAGE);
        assert_non_null(strstr(sparta_message(cx), "takes no widths; remove them"));
        snprintf(text, sizeof text, "%s(1,2,3,4,5)", o->name);
        assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_E_USAGE);
    }
}

/* Thousands of formats of the grammar: print of parse is stable, and parses to the same. */
static void random_formats(void **state)
{
    (void)state;
    sp_rng r = sp_rng_seed(2024);
    int sums = 0, nested = 0;
    for (int n = 0; n < 6000; n++) {
        char text[FORMAT_DRAWN];
        int64_t dim[SPARTA_RANK];
        int rank = 1 + (int)roll(&r, 6);
        format_draw(&r, rank, true, text, sizeof text);
        sp_format f = parse(text), again;
        assert_int_equal(f.rank, rank);
        sp_text t;
        sp_text_init(&t, cx);
        sp_format_print(&f, &t);
        again = parse(sp_text_str(&t));
        assert_true(sp_format_equal(&f, &again));
        assert_ptr_equal(f.sum, again.sum);
        expect_print(&again, sp_text_str(&t));
        for (int d = 0; d < rank; d++) dim[d] = (int64_t)roll(&r, 20);
        if (sp_format_check(cx, &f, rank, dim)) fail_msg("'%s': %s", text, sparta_message(cx));
        sums += f.sum != NULL;
        for (int i = 0; f.sum && i < f.sum->n; i++) nested += f.sum->part[i].format.sum != NULL;
        sp_text_free(&t);
    }
    assert_true(sums > 1500 && nested > 200);
}

/* Any words in any order: no crash, and what parses prints to something that parses to the same. */
static void random_texts(void **state)
{
    (void)state;
    static const char *const words[] = {"sum{",
                                        "sum{rest -> ",
                                        "}",
                                        ";",
                                        "->",
                                        "rownnz",
                                        "<=",
                                        "in",
                                        "(1,2]",
                                        "rownnz<=4 -> ",
                                        "rest -> ",
                                        "csr",
                                        "coo",
                                        "first(2) -> ",
                                        "4",
                                        ", crd=u16",
                                        "colpart(2)->",
                                        "blockdensity>=0.5->",
                                        "cv(2)",
                                        "hyb(",
                                        "1,2)",
                                        "rownnz in (4,8]",
                                        ".5",
                                        "e-3",
                                        "(i)->(i:dense)",
                                        "hyb(1,1)",
                                        "; rest->csr",
                                        "first",
                                        " ",
                                        "rest -> csr}",
                                        "sum",
                                        "-"};
    sp_rng r = sp_rng_seed(5);
    int parsed = 0;
    for (int n = 0; n < 40000; n++) {
        char text[512] = "";
        if (n % 2) strcat(text, "sum{");
        for (int w = (int)roll(&r, 9); w >= 0; w--) strcat(text, words[roll(&r, SP_COUNT(words))]);
        if (n % 3) strcat(text, "}");
        sp_format f, again;
        if (sp_format_parse(cx, text, &f)) continue;
        parsed++;
        sp_text t;
        sp_text_init(&t, cx);
        sp_format_print(&f, &t);
        again = parse(sp_text_str(&t));
        assert_true(sp_format_equal(&f, &again));
        sp_text_free(&t);
    }
    assert_true(parsed > 100);
}

static void hostile(void **state)
{
    (void)state;
    static char text[20000];
    static const char *const seeds[] = {"(",         "sum{",        "sum{rest -> ", "sum{rest->csr;",
                                        "}",         ";",           "rest->",       "sum{first(1)->",
                                        "hyb(1,1),", "csr,crd=u8,", "\n",           "9"};
    sp_format f;
    for (size_t i = 0; i < SP_COUNT(seeds); i++) {
        for (size_t size = 1; size <= 4096; size = size * 3 + 1) {
            size_t n = strlen(seeds[i]);
            for (size_t k = 0; k < size; k++) text[k] = seeds[i][k % n];
            text[size] = 0;
            assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_E_USAGE);
        }
    }
    text[0] = 0;
    for (int depth = 1; depth <= 20; depth++) { /* whole, but deep */
        text[0] = 0;
        for (int d = 0; d < depth; d++) strcat(text, "sum{rest->");
        strcat(text, "csr");
        for (int d = 0; d < depth; d++) strcat(text, "}");
        assert_int_equal(sp_format_parse(cx, text, &f), depth <= 8 ? SPARTA_OK : SPARTA_E_USAGE);
        if (depth > 8) assert_non_null(strstr(sparta_message(cx), "sums lie more than 8 deep"));
    }
    text[0] = 0;
    for (int d = 0; d < 8; d++) strcat(text, "sum{rest->");
    strcat(text, "hyb(1,1)");
    for (int d = 0; d < 8; d++) strcat(text, "}");
    assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_E_USAGE);
    strcpy(text, "sum{"); /* many short names of long texts */
    for (int k = 0; k < 100; k++)
        sprintf(text + strlen(text), "rownnz in (%d,%d]->bsr(2147483647,2147483647);", k, k + 1);
    strcat(text, "rest->csr}");
    assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_E_USAGE); /* above 4096 bytes as it is */
    strcpy(text, "sum{");
    for (int k = 0; k < 60; k++)
        sprintf(text + strlen(text), "rownnz in (%d,%d]->dbsr(2147483647);", k, k + 1);
    strcat(text, "rest->csr}");
    assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "sum: written out it is longer than 4096 bytes"));
}

/* Parsing again and again takes no more memory; a new context starts without any. */
static void memory(void **state)
{
    (void)state;
    sparta_ctx *own = sparta_ctx_create(NULL);
    sp_format f;
    assert_non_null(own);
    assert_int_equal(sp_format_parse(own, "csr", &f), SPARTA_OK);
    assert_int_equal(sp_ctx_memory(own), 0);
    assert_int_equal(sp_format_parse(own, "hyb(2,4)", &f), SPARTA_OK);
    size_t once = sp_ctx_memory(own);
    assert_true(once > 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(sp_format_parse(own, i % 2 ? "hyb(2,4)" : " hyb( 2 ,4)", &f), SPARTA_OK);
        assert_int_equal(sp_format_parse(own, "sum{rest -> hyb(2,4); rest -> csr}", &f), SPARTA_E_USAGE);
    }
    assert_int_equal(sp_ctx_memory(own), once);
    sparta_ctx_free(own);
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {"sum{rownnz<=4 -> csr; rest -> sum{first(2) -> ell; rest -> coo}}",
                                        "hyb(2,4)", "hyb(2,2), crd=u16, pos=u8"};
    for (size_t i = 0; i < SP_COUNT(texts); i++)
        for (int forever = 0; forever < 2; forever++) {
            sparta_status status = SPARTA_E_MEMORY;
            for (uint64_t nth = 1; status; nth++) {
                sparta_ctx *own = sparta_ctx_create(NULL);
                sp_format f = {.rank = 77};
                assert_non_null(own);
                sp_ctx_fail_alloc(own, nth, forever);
                status = sp_format_parse(own, texts[i], &f);
                sp_ctx_fail_alloc(own, 0, false);
                assert_true(status == SPARTA_OK || status == SPARTA_E_MEMORY);
                assert_int_equal(f.rank, status ? 77 : 2);
                assert_true(nth < 100);
                assert_int_equal(sp_format_parse(own, texts[i], &f), SPARTA_OK);
                sparta_ctx_free(own);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical),    cmocka_unit_test(hybrids),        cmocka_unit_test(refused),
        cmocka_unit_test(equality),     cmocka_unit_test(shapes),         cmocka_unit_test(broken_values),
        cmocka_unit_test(opaque_names), cmocka_unit_test(random_formats), cmocka_unit_test(random_texts),
        cmocka_unit_test(hostile),      cmocka_unit_test(memory),         cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
