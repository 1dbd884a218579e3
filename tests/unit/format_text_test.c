/* The text of formats: what parses, how it prints, what is refused and in which words; and which shapes fit.
 */
#include "bed.h"
#include "store/store.h"

static void expect_print(const sp_format *f, const char *want)
{
    sp_text t;
    sp_text_init(&t, cx);
    sp_format_print(f, &t);
    assert_int_equal(t.status, SPARTA_OK);
    assert_string_equal(sp_text_str(&t), want);
    sp_text_free(&t);
}

static void canonical(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"csr", "(i,j)->(i:dense, j:compressed)"},
        {" csr\n", "(i,j)->(i:dense, j:compressed)"},
        {"csc", "(i,j)->(j:dense, i:compressed)"},
        {"dcsr", "(i,j)->(i:compressed, j:compressed)"},
        {"dense", "(i,j)->(i:dense, j:dense)"},
        {"bsr(4,8)", "(i,j)->(i/4:dense, j/8:compressed, i%4:dense, j%8:dense)"},
        {"bsr( 32 )", "(i,j)->(i/32:dense, j/32:compressed, i%32:dense, j%32:dense)"},
        {"strip(4)", "(n,k)->(n/4:dense, k:compressed, n%4:dense), crd=u16"},
        {"strip(4), crd=u32", "(n,k)->(n/4:dense, k:compressed, n%4:dense), crd=u32"},
        {"strip(4), crd=i32", "(n,k)->(n/4:dense, k:compressed, n%4:dense)"},
        {"ranges(128)", "(n,k)->(k/128:dense, n:dense, k%128:compressed), crd=u16"},
        {"rows(8)", "(n,k)->(n/8:dense, k:dense, n%8:dense)"},
        {"panel", "(m,k)->(m/64:dense, k:dense, m%64:dense)"},
        {"csr,crd=u8,pos=i64", "(i,j)->(i:dense, j:compressed), pos=i64, crd=u8"},
        {"csr, crd[1]=u8", "(i,j)->(i:dense, j:compressed), crd=u8"},
        {"csr, crd[0..1]=u8", "(i,j)->(i:dense, j:compressed), crd=u8"},
        {"dcsr, crd[1]=u8", "(i,j)->(i:compressed, j:compressed), crd[1]=u8"},
        {"dcsr, crd[1]=u8, crd[0]=u64", "(i,j)->(i:compressed, j:compressed), crd[0]=u64, crd[1]=u8"},
        {"dcsr, crd=u8, crd[1]=i32", "(i,j)->(i:compressed, j:compressed), crd[0]=u8"},
        {"dcsr, pos[0..1]=u16, crd=u8", "(i,j)->(i:compressed, j:compressed), pos=u16, crd=u8"},
        {"( i , j )  ->\t( i : dense ,\n j : compressed )  ,  crd = u16",
         "(i,j)->(i:dense, j:compressed), crd=u16"},
        {"(i)->(i:compressed)", "(i)->(i:compressed)"},
        {"coo", "(i,j)->(i:compressed(nonunique), j:singleton(soa))"},
        {"(i,j)->(i:compressed(nonunique), j:singleton)",
         "(i,j)->(i:compressed(nonunique), j:singleton(soa))"},
        {"(i,j)->(i:loose( nonordered ,nonunique), j:singleton( aos ))",
         "(i,j)->(i:loose(nonunique,nonordered), j:singleton(aos))"},
        {"dcsc", "(i,j)->(j:compressed, i:compressed)"},
        {"csf, crd=u8", "(i,j,k)->(i:compressed, j:compressed, k:compressed), crd=u8"},
        {"bsc(2,3)", "(i,j)->(j/3:dense, i/2:compressed, i%2:dense, j%3:dense)"},
        {"dbsr(4)", "(i,j)->(i/4:compressed, j/4:compressed, i%4:dense, j%4:dense)"},
        {"ell", "(i,j)->(i:dense, j:packed[auto])"},
        {"bell(16)", "(i,j)->(i/16:dense, j/16:packed[auto], i%16:dense, j%16:dense)"},
        {"dia", "(i,j)->(j-i:compressed, i:range)"},
        {"(i,j)->(i+j:dense, j:range)", "(i,j)->(i+j:dense, j:range)"},
        {"nm24", "(i,j)->(i:dense, j/4:dense, j%4:structured[2,4]), crd=u2"},
        {"nm24, crd=u4", "(i,j)->(i:dense, j/4:dense, j%4:structured[2,4]), crd=u4"},
        {"nm24, crd=i32", "(i,j)->(i:dense, j/4:dense, j%4:structured[2,4])"},
        {"bitmap", "(i,j)->(i:dense, j:bitmap)"},
        {"cv(8)", "(i,j)->(i/8:dense, j:compressed, i%8:dense)"},
        {"sr-bcrs(8,4)", "(i,j)->(i/8:compressed(nonunique), j:packed[4], i%8:dense)"},
        {"vnni", "(n,k)->(n/16:dense, k/4:dense, n%16:dense, k%4:dense)"},
        {"(i,j)->(i:ragged, j:packed[ 7 ](zeroless, pad=zero, pad=last))",
         "(i,j)->(i:ragged, j:packed[7](pad=zero,zeroless))"},
        {"(i)->(i/32:dense, i%32/4:compressed, i%4:dense)",
         "(i)->(i/32:dense, i%32/4:compressed, i%4:dense)"},
        {"(i)->(i%2:dense, i%32/8:dense, i%8/2:bitmap, i/32:compressed)",
         "(i)->(i%2:dense, i%32/8:dense, i%8/2:bitmap, i/32:compressed)"},
        {"(row_1,Col)->(Col/7:compressed, row_1:dense, Col%7:compressed)",
         "(row_1,Col)->(Col/7:compressed, row_1:dense, Col%7:compressed)"},
        {"(i)->(i%3:dense, i/3:dense)", "(i)->(i%3:dense, i/3:dense)"},
        {"(i)->(i/1:dense, i%1:dense)", "(i)->(i/1:dense, i%1:dense)"},
        {"(i)->(i/02147483647:dense, i%2147483647:dense)", "(i)->(i/2147483647:dense, i%2147483647:dense)"},
        {"(a,b,c,d,e,f,g,h)->(h:dense, g:dense, f:dense, e:dense, d/2:dense, c/2:dense, b/2:dense, "
         "a/2:dense, a%2:dense, b%2:dense, c%2:dense, "
         "d%2:dense)",
         "(a,b,c,d,e,f,g,h)->(h:dense, g:dense, f:dense, e:dense, d/2:dense, c/2:dense, b/2:dense, "
         "a/2:dense, a%2:dense, b%2:dense, c%2:dense, "
         "d%2:dense)"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_format f, again;
        if (sp_format_parse(cx, cases[i][0], &f)) fail_msg("%s: %s", cases[i][0], sparta_message(cx));
        expect_print(&f, cases[i][1]);
        assert_int_equal(sp_format_parse(cx, cases[i][1], &again), SPARTA_OK);
        assert_true(sp_format_equal(&f, &again));
        expect_print(&again, cases[i][1]);
    }
}

/* Every row of the table parses with every kind of argument it takes, prints, and parses back. */
static void every_name(void **state)
{
    (void)state;
    sparta_ctx *outside = cx; /* hyb leaves its parts in the context: one for this test */
    cx = sparta_ctx_create(NULL);
    assert_non_null(cx);
    static const struct {
        const char *name;
        int arguments;
    } rows[] = {
#define SP_FORMAT(name, arguments, text)           {name, arguments},
#define SP_FORMAT_WRITTEN(name, arguments, writer) {name, arguments},
#include "format/formats.def"
#undef SP_FORMAT
#undef SP_FORMAT_WRITTEN
    };
    static const char *const asked[] = {
        "dense", "csr",    "csc", "coo", "dcsr", "dcsc",    "bsr",   "bsc",  "dbsr",  "ell",  "bell",  "dia",
        "nm24",  "bitmap", "csf", "hyb", "cv",   "sr-bcrs", "panel", "vnni", "strip", "rows", "ranges"};
    for (size_t i = 0; i < SP_COUNT(asked); i++) assert_true(sp_format_is_name(cx, asked[i]));
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        char text[128];
        const char *most = strcmp(rows[i].name, "hyb") ? "2147483647" : "8";
        int used = snprintf(text, sizeof text, "%s", rows[i].name);
        for (int a = 0; a < rows[i].arguments; a++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%c%s", a ? ',' : '(', most);
        if (rows[i].arguments) snprintf(text + used, sizeof text - (size_t)used, ")");
        sp_format f, again;
        if (sp_format_parse(cx, text, &f)) fail_msg("%s: %s", text, sparta_message(cx));
        sp_text t;
        sp_text_init(&t, cx);
        sp_format_print(&f, &t);
        assert_int_equal(sp_format_parse(cx, sp_text_str(&t), &again), SPARTA_OK);
        assert_true(sp_format_equal(&f, &again));
        sp_text_free(&t);
    }
    sparta_ctx_free(cx);
    cx = outside;
}

#define KINDS "(dense ragged compressed loose packed structured singleton bitmap range)"

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        sparta_status status;
        const char *message; /* its beginning */
    } cases[] = {
        {"(i,j)->(i:dense, j:compresed)", SPARTA_E_USAGE,
         "format:1:20: unknown level kind 'compresed'; did you mean 'compressed'? " KINDS},
        {"(i,j) ->\n (i : dense,\n  j : compresed)", SPARTA_E_USAGE,
         "format:3:7: unknown level kind 'compresed'"},
        {"(i,j)->(i:dense, j:zzzzzzzzzzzz)", SPARTA_E_USAGE,
         "format:1:20: unknown level kind 'zzzzzzzzzzzz' " KINDS},
        {"(i,j)->(i/16:dense, j:compressed)", SPARTA_E_USAGE,
         "format:1:9: map is not invertible: i appears as i/16 but i%16 is missing; add 'i%16 : dense' or "
         "remove the block"},
        {"(i,j)->(j:dense, i%4:dense)", SPARTA_E_USAGE,
         "format:1:18: map is not invertible: i appears as i%4 but i/4 is missing; add 'i/4 : dense'"},
        {"(i,j)->(i/16:dense, j:dense, i%8:dense)", SPARTA_E_USAGE,
         "format:1:30: i/16 and i%8 disagree: block sizes of dimension i must match (16 != 8)"},
        {"(i,j)->(i%8:dense, j:dense, i/16:dense)", SPARTA_E_USAGE, "format:1:29: i/16 and i%8 disagree"},
        {"(i,j)->(i:dense)", SPARTA_E_USAGE,
         "format:1:4: map is not invertible: no level stores dimension j; add 'j : dense'"},
        {"(i,j)->(i:dense, j:dense, i:dense)", SPARTA_E_USAGE,
         "format:1:27: dimension i appears as i and again as i"},
        {"(i)->(i/4:dense, i/4:dense)", SPARTA_E_USAGE,
         "format:1:18: dimension i appears as i/4 and again as i/4"},
        {"(i)->(i/4:dense, i%4:dense, i:dense)", SPARTA_E_USAGE,
         "format:1:29: dimension i appears as i/4 and again as i"},
        {"(i,j)->(k:dense)", SPARTA_E_USAGE, "format:1:9: unknown dimension 'k'; there are i, j"},
        {"(i,i)->(i:dense)", SPARTA_E_USAGE, "format:1:4: dimension 'i' twice"},
        {"(i)->(i/0:dense, i%0:dense)", SPARTA_E_USAGE,
         "format:1:9: block size '0' must be between 1 and 2147483647"},
        {"(i)->(i/2147483648:dense)", SPARTA_E_USAGE, "format:1:9: block size '2147483648' must be"},
        {"(i)->(i/99999999999999999999999999:dense)", SPARTA_E_USAGE,
         "format:1:9: block size '999999999999999999999999...' must be"},
        {"(i)->(i/j:dense)", SPARTA_E_USAGE, "format:1:9: expected block size, got 'j'"},
        {"(i)->(i:dense[4])", SPARTA_E_USAGE, "format:1:14: 'dense' takes no [ ]"},
        {"(i)->(i:dense(unique))", SPARTA_E_USAGE,
         "format:1:15: unknown property 'unique'; did you mean 'nonunique'?"},
        {"(i)->(i:dense", SPARTA_E_USAGE, "format:1:14: expected ')', got the end"},
        {"quads(65537)", SPARTA_E_USAGE, "format:1:7: argument '65537' must be between 1 and 65536"},
        {"(i)->(i dense)", SPARTA_E_USAGE, "format:1:9: expected ':', got 'dense'"},
        {"(i)->(i:)", SPARTA_E_USAGE, "format:1:9: expected a level kind"},
        {"(i)->()", SPARTA_E_USAGE, "format:1:7: expected a dimension, got ')'"},
        {"()->(i:dense)", SPARTA_E_USAGE, "format:1:2: expected the name of a dimension, got ')'"},
        {"(i)=>(i:dense)", SPARTA_E_USAGE, "format:1:4: expected '->', got '='"},
        {"(i)-(i:dense)", SPARTA_E_USAGE, "format:1:4: expected '->', got '-'"},
        {"(i)->(i:dense) trailing", SPARTA_E_USAGE,
         "format:1:16: expected ',' and a key, or the end, got 'trailing'"},
        {"(i)->(i:dense),", SPARTA_E_USAGE, "format:1:16: expected a key, pos or crd, got the end"},
        {"(abcdefghijklmnop)->(abcdefghijklmnop:dense)", SPARTA_E_USAGE,
         "format:1:2: the name 'abcdefghijklmnop' is longer than 15"},
        {"(a,b,c,d,e,f,g,h,i)->(a:dense)", SPARTA_E_USAGE, "format:1:18: more than 8 dimensions"},
        {"(a)->(a:dense,a:dense,a:dense,a:dense,a:dense,a:dense,a:dense,a:dense,a:dense,a:dense,a:dense,a:"
         "dense,a:dense)",
         SPARTA_E_USAGE, "format:1:103: more than 12 levels"},
        {"(i)->(\xff:dense)", SPARTA_E_USAGE, "format:1:7: expected a dimension, got byte 0xff"},
        {"csr, crd=u12", SPARTA_E_USAGE,
         "format:1:10: unknown width 'u12' (u8 u16 u32 u64 i32 i64; u2 u4 for structured)"},
        {"csr, crd=i8", SPARTA_E_USAGE, "format:1:10: unknown width 'i8'"},
        {"csr, crd=f32", SPARTA_E_USAGE, "format:1:10: unknown width 'f32'"},
        {"csr, crd[2]=u8", SPARTA_E_USAGE, "format:1:10: level '2' must be between 0 and 1"},
        {"csr, crd[1..0]=u8", SPARTA_E_USAGE, "format:1:13: last level '0' must be between 1 and 1"},
        {"csr, crd[0]=u8", SPARTA_E_USAGE, "format:1:6: crd: no such level stores coordinates"},
        {"dense, pos=u8", SPARTA_E_USAGE, "format:1:8: pos: no such level stores positions"},
        {"csr, val=u8", SPARTA_E_USAGE, "format:1:6: expected a key, pos or crd, got 'val'"},
        {"crs", SPARTA_E_USAGE, "format:1:1: unknown format 'crs'; did you mean 'c"},
        {"", SPARTA_E_USAGE, "format:1:1: expected '(' or the name of a format, got the end"},
        {"4", SPARTA_E_USAGE, "format:1:1: expected '('"},
        {"bsr", SPARTA_E_USAGE, "format:1:4: 'bsr' needs 2 arguments"},
        {"bsr()", SPARTA_E_USAGE, "format:1:5: expected argument, got ')'"},
        {"bsr(4,4,4)", SPARTA_E_USAGE, "format:1:9: 'bsr' takes 2 arguments"},
        {"bsr(0,4)", SPARTA_E_USAGE, "format:1:5: argument '0' must be between"},
        {"csr(4)", SPARTA_E_USAGE, "format:1:5: 'csr' takes 0 arguments"},
        {"strip(4", SPARTA_E_USAGE, "format:1:8: expected ')', got the end"},
        {"(i,j)->(i:dense, j:packed)", SPARTA_E_USAGE,
         "format:1:26: expected [w] or [auto] after 'packed', got ')'"},
        {"(i,j)->(i:dense, j:packed[0])", SPARTA_E_USAGE, "format:1:27: width '0' must be between 1 and"},
        {"(i,j)->(i:dense, j:packed[4,4])", SPARTA_E_USAGE, "format:1:28: expected ']', got ','"},
        {"(i,j)->(i:dense, j:packed[aut])", SPARTA_E_USAGE, "format:1:27: expected width, got 'aut'"},
        {"(i,j)->(i:dense, j:structured[2])", SPARTA_E_USAGE, "format:1:32: expected ',', got ']'"},
        {"(i,j)->(i:singleton, j:dense)", SPARTA_E_USAGE,
         "format:1:9: level 0 is 'singleton': it has no parent to take its position from; use "
         "'compressed(nonunique)' first"},
        {"(i,j)->(i:dense, j/4:dense, j%4:structured[5,4])", SPARTA_E_USAGE,
         "format:1:29: structured[5,4]: n must be <= m"},
        {"(i,j)->(i:dense, j/8:dense, j%8:structured[2,4])", SPARTA_E_USAGE,
         "format:1:29: structured[2,4] needs level expression j%4, got j%8"},
        {"(i,j)->(i:dense, j:structured[2,4])", SPARTA_E_USAGE,
         "format:1:18: structured[2,4] needs level expression j%4, got j"},
        {"(i,j)->(j-i:compressed, i:dense)", SPARTA_E_USAGE,
         "format:1:9: 'j-i : compressed' must be followed by 'i : range' or 'j : range' as the last level"},
        {"(i,j)->(j-i:compressed)", SPARTA_E_USAGE, "format:1:9: 'j-i : compressed' must be followed by"},
        {"(i,j,k)->(j-i:compressed, i:range, k:dense)", SPARTA_E_USAGE,
         "format:1:11: 'j-i : compressed' must be followed by"},
        {"(i,j,k)->(j-i:compressed, k:range)", SPARTA_E_USAGE, "format:1:11: 'j-i : compressed' must be"},
        {"(i,j)->(i-i:compressed, j:range)", SPARTA_E_USAGE, "format:1:9: i-i: a diagonal needs two"},
        {"(i,j)->(j-i:bitmap, i:range)", SPARTA_E_USAGE,
         "format:1:9: j-i must be 'compressed' (or 'dense'), not 'bitmap'"},
        {"(i,j)->(i:dense, j-i:compressed, i:range)", SPARTA_E_USAGE,
         "format:1:18: dimension i appears as i and again as j-i"},
        {"(i,j)->(i:dense, j:range)", SPARTA_E_USAGE,
         "format:1:18: 'j : range' must be the last level and follow a diagonal"},
        {"(i)->(i/32:dense, i%32/5:dense, i%5:dense)", SPARTA_E_USAGE,
         "format:1:19: i%32/5: the inner block must be smaller than the outer one and divide it"},
        {"(i)->(i/4:dense, i%4/4:dense, i%4:dense)", SPARTA_E_USAGE, "format:1:18: i%4/4: the inner block"},
        {"(i)->(i/32:dense, i%32/4:dense)", SPARTA_E_USAGE,
         "format:1:19: map is not invertible: i appears as i%32/4 but i%4 is missing; add 'i%4 : dense'"},
        {"(i)->(i/32:dense, i%4:dense, i%16/4:dense)", SPARTA_E_USAGE,
         "format:1:7: map is not invertible: i appears as i/32 but i%32 is missing"},
        {"(i)->(i/32:dense, i%32:dense, i%16/4:dense)", SPARTA_E_USAGE,
         "format:1:31: dimension i appears as"},
        {"(i)->(i/32:dense, i%32/4:dense, i%32/4:dense, i%4:dense)", SPARTA_E_USAGE,
         "format:1:33: dimension i appears as i%32/4 and again as i%32/4"},
        {"(i)->(i%32/4:dense, i%4:dense)", SPARTA_E_USAGE, "format:1:7: map is not invertible"},
        {"(i)->(i/32/4:dense)", SPARTA_E_USAGE, "format:1:11: expected ':', got '/'"},
        {"(i)->(i:dense(nonunique))", SPARTA_E_USAGE, "format:1:15: 'dense' does not take 'nonunique'"},
        {"(i)->(i:compressed(pad=last))", SPARTA_E_USAGE, "format:1:20: 'compressed' does not take 'pad'"},
        {"(i)->(i:packed[2](pad=first))", SPARTA_E_USAGE, "format:1:23: expected last or zero, got 'first'"},
        {"(i)->(i:compressed(nonunique)", SPARTA_E_USAGE, "format:1:30: expected ')', got the end"},
        {"(i,j)->(i:dense, j:singleton(aos))", SPARTA_E_USAGE,
         "format:1:18: level 1 is aos: the level above"},
        {"(i,j)->(i:compressed(nonunique), j:singleton(soa,aos))", SPARTA_E_USAGE,
         "format:1:34: level 1 is soa and aos; choose one"},
        {"(i,j)->(i:compressed(nonunique), j:singleton(aos)), crd[1]=u8", SPARTA_E_USAGE,
         "format: level 1 is aos: its crd=u8 and the crd=i32 above share one array"},
        {"dia, crd=u8", SPARTA_E_USAGE,
         "format: j-i: offsets have a sign, crd=u8 has none; use crd=i32 or crd=i64"},
        {"csr, crd=u2", SPARTA_E_USAGE,
         "format:1:10: widths u2 and u4 are for crd of structured levels, level 1 is 'compressed'"},
        {"csr, pos=u4", SPARTA_E_USAGE, "format:1:10: widths u2 and u4 are for crd"},
        {"bitmap, crd=u8", SPARTA_E_USAGE, "format:1:9: crd: no such level stores coordinates"},
        {"sr-bcr(4,4)", SPARTA_E_USAGE, "format:1:1: unknown format 'sr-bcr'; did you mean 'sr-bcrs'?"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_format f = {.rank = 77};
        sparta_status status = sp_format_parse(cx, cases[i].text, &f);
        if (status != cases[i].status ||
            strncmp(sparta_message(cx), cases[i].message, strlen(cases[i].message)))
            fail_msg("'%s': status %d, message '%s', wanted '%s'", cases[i].text, status, sparta_message(cx),
                     cases[i].message);
        assert_int_equal(f.rank, 77); /* untouched */
    }
}

static void too_long(void **state)
{
    (void)state;
    static char text[10000];
    memset(text, ' ', sizeof text - 1);
    memcpy(text, "csr", 3);
    sp_format f;
    assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_E_USAGE);
    text[4096] = 0;
    assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_OK);
}

static void equality(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"csr", "(n,k)->(n:dense, k:compressed)"}, {"bsr(4)", "bsr(4,4)"}, {"csr, pos=i32", "csr"}};
    static const char *const differ[] = {"csr",
                                         "csc",
                                         "dcsr",
                                         "dense",
                                         "csr, crd=u16",
                                         "csr, pos=u16",
                                         "bsr(4,4)",
                                         "bsr(4,8)",
                                         "strip(4)",
                                         "strip(8)",
                                         "strip(4), crd=u32",
                                         "(i)->(i:dense)",
                                         "rows(64)",
                                         "(i)->(i:compressed)",
                                         "bsr(1,1)",
                                         "coo",
                                         "(i,j)->(i:compressed(nonunique), j:singleton(aos))",
                                         "(i,j)->(i:compressed, j:singleton)",
                                         "ell",
                                         "(i,j)->(i:dense, j:packed[3])",
                                         "(i,j)->(i:dense, j:packed[3](pad=zero))",
                                         "(i,j)->(i:dense, j:packed[3](zeroless))",
                                         "nm24",
                                         "nm24, crd=u4",
                                         "nm24, crd=u8",
                                         "(i,j)->(i:dense, j/4:dense, j%4:structured[1,4]), crd=u2",
                                         "dia",
                                         "(i,j)->(i-j:compressed, i:range)",
                                         "(i,j)->(j+i:compressed, i:range)",
                                         "(i,j)->(j-i:compressed, j:range)",
                                         "(i)->(i/32:dense, i%32/4:dense, i%4:dense)",
                                         "(i)->(i/32:dense, i%32/8:dense, i%8:dense)",
                                         "(i,j,k)->(i:dense, j:compressed, k:dense)"};
    sp_format a, b;
    for (size_t i = 0; i < SP_COUNT(same); i++) {
        assert_int_equal(sp_format_parse(cx, same[i][0], &a), SPARTA_OK);
        assert_int_equal(sp_format_parse(cx, same[i][1], &b), SPARTA_OK);
        assert_true(sp_format_equal(&a, &b));
    }
    for (size_t i = 0; i < SP_COUNT(differ); i++)
        for (size_t j = 0; j < SP_COUNT(differ); j++) {
            assert_int_equal(sp_format_parse(cx, differ[i], &a), SPARTA_OK);
            assert_int_equal(sp_format_parse(cx, differ[j], &b), SPARTA_OK);
            assert_int_equal(sp_format_equal(&a, &b), i == j);
        }
}

static void check_shape(const char *text, int rank, const int64_t *dim, sparta_status want,
                        const char *message)
{
    sp_format f;
    assert_int_equal(sp_format_parse(cx, text, &f), SPARTA_OK);
    sparta_status status = sp_format_check(cx, &f, rank, dim);
    if (status != want || (want && strncmp(sparta_message(cx), message, strlen(message))))
        fail_msg("'%s': status %d, message '%s', wanted '%s'", text, status, sparta_message(cx), message);
}

static void shapes(void **state)
{
    (void)state;
    int64_t small[] = {5, 7}, four[] = {2, 3, 4, 5}, wide[] = {8, 65537}, edge[] = {8, 65536},
            none[] = {0, 0}, negative[] = {3, -1};
    int64_t huge[] = {INT64_MAX, INT64_MAX}, blocked[] = {8, 65536 * 4 + 1};
    check_shape("strip(4)", 2, small, SPARTA_OK, "");
    check_shape("strip(4)", 2, none, SPARTA_OK, "");
    check_shape("strip(4)", 2, edge, SPARTA_OK, "");
    check_shape("strip(4)", 2, wide, SPARTA_E_USAGE,
                "format: crd=u16 holds coordinates below 65536, dimension k has 65537; use crd=u32");
    check_shape("strip(4), crd=u32", 2, wide, SPARTA_OK, "");
    check_shape("csr, crd=u8", 2, wide, SPARTA_E_USAGE,
                "format: crd=u8 holds coordinates below 256, dimension j has 65537; use crd=u32");
    check_shape("csr, crd=u8", 2, (int64_t[]){8, 257}, SPARTA_E_USAGE,
                "format: crd=u8 holds coordinates below 256, dimension j has 257; use crd=u16");
    check_shape("csr", 2, (int64_t[]){2, INT64_C(1) << 31}, SPARTA_OK, "");
    check_shape("csr", 2, (int64_t[]){2, (INT64_C(1) << 31) + 1}, SPARTA_E_USAGE,
                "format: crd=i32 holds coordinates below 2147483648");
    check_shape("bsr(4,4), crd=u16", 2, wide, SPARTA_OK, "");
    check_shape("bsr(4,4), crd=u16", 2, blocked, SPARTA_E_USAGE,
                "format: crd=u16 holds coordinates below 65536, level j/4 has 65537");
    check_shape("csr", 4, four, SPARTA_E_USAGE,
                "format: 2 dimensions but the tensor has 4; add a view, e.g. .reshape(O, C*H*W)");
    check_shape("(i,j,k)->(i:dense, j:dense, k:dense)", 2, small, SPARTA_E_USAGE,
                "format: 3 dimensions but the tensor has 2");
    check_shape("csr", 2, negative, SPARTA_E_SHAPE, "format: dimension j is -1");
    check_shape("dense", 2, huge, SPARTA_E_LIMIT, "format: the padded tensor has more elements");
    check_shape("bsr(2147483647)", 2, (int64_t[]){1, 1}, SPARTA_OK, "");
    check_shape("bsr(2147483647)", 2, (int64_t[]){INT64_C(1) << 33, 1}, SPARTA_E_LIMIT, "format: the padded");
}

/* A format is a plain value: somebody may have filled it wrongly. */
static void broken_values(void **state)
{
    (void)state;
    sp_format good, f;
    int64_t dim[] = {5, 7};
    assert_int_equal(sp_format_parse(cx, "bsr(2,3)", &good), SPARTA_OK);
#define BREAK(change)                                                                                        \
    do {                                                                                                     \
        f = good;                                                                                            \
        change;                                                                                              \
        assert_int_equal(sp_format_check(cx, &f, 2, dim), SPARTA_E_USAGE);                                   \
    } while (0)
    BREAK(f.rank = 0);
    BREAK(f.rank = 9);
    BREAK(f.n = 0);
    BREAK(f.n = 13);
    BREAK(f.n = 3);
    BREAK(f.level[1].kind = 99);
    BREAK(f.level[1].dim = 2);
    BREAK(f.level[1].dim = -1);
    BREAK(f.level[0].c = 0);
    BREAK(f.level[0].c = INT64_MAX);
    BREAK(f.level[0].map = 7);
    BREAK(f.level[0].map = SP_MAP_ALL);
    BREAK(f.level[1].crd = SPARTA_F32);
    BREAK(f.level[1].pos = (sparta_dtype)99);
    BREAK(f.level[1].properties = SP_PROP_AOS);
    BREAK(f.level[1].properties = 1u << 31);
    BREAK(f.level[1].crd_bits = 2);
    BREAK(f.level[1].kind = SP_LEVEL_STRUCTURED);
    BREAK(f.level[1].kind = SP_LEVEL_RANGE);
    BREAK(f.level[0].kind = SP_LEVEL_SINGLETON);
    BREAK(f.level[1].w = -1);
    BREAK(f.level[1].map = SP_MAP_SUB; f.level[1].other = 2);
    BREAK(f.level[1].map = SP_MAP_SUB; f.level[1].other = -1);
    BREAK(f.level[1].map = SP_MAP_NEST);
    BREAK(f.level[1].map = SP_MAP_NEST; f.level[1].inner = INT64_MAX);
#undef BREAK
    assert_int_equal(sp_format_check(cx, &good, 2, dim), SPARTA_OK);
}

/* Any text at all: no crash, and what parses prints to something that parses to the same. */
static void random_texts(void **state)
{
    (void)state;
    static const char *const words[] = {"(",
                                        ")",
                                        ",",
                                        "->",
                                        "i",
                                        "j",
                                        "k",
                                        ":",
                                        "dense",
                                        "compressed",
                                        "/",
                                        "%",
                                        "4",
                                        "2",
                                        "[",
                                        "]",
                                        "=",
                                        "crd",
                                        "pos",
                                        "u8",
                                        "u16",
                                        "i32",
                                        "i64",
                                        "..",
                                        "csr",
                                        "bsr",
                                        "strip",
                                        " ",
                                        "-",
                                        "packed",
                                        "(i,j)->(i:dense, j:packed",
                                        "[auto]",
                                        "structured[2,4]",
                                        "(nonunique)",
                                        "bitmap",
                                        "dia",
                                        "(i,j)->(i:dense, j:compressed)",
                                        "(i,j)->(i/4:dense, j:compressed, i%4:dense)"};
    sp_rng r = sp_rng_seed(99);
    int parsed = 0;
    for (int n = 0; n < 30000; n++) {
        char text[512] = "";
        for (int w = (int)(sp_rng_next(&r) % 14); w >= 0; w--)
            strcat(text, words[sp_rng_next(&r) % SP_COUNT(words)]);
        sp_format f, again;
        if (sp_format_parse(cx, text, &f)) continue;
        parsed++;
        sp_text t;
        sp_text_init(&t, cx);
        sp_format_print(&f, &t);
        assert_int_equal(sp_format_parse(cx, sp_text_str(&t), &again), SPARTA_OK);
        assert_true(sp_format_equal(&f, &again));
        expect_print(&again, sp_text_str(&t));
        sp_text_free(&t);
    }
    assert_true(parsed > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(canonical),     cmocka_unit_test(every_name),
                                       cmocka_unit_test(refused),       cmocka_unit_test(too_long),
                                       cmocka_unit_test(equality),      cmocka_unit_test(shapes),
                                       cmocka_unit_test(broken_values), cmocka_unit_test(random_texts)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
