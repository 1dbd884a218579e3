/* Users' names: by a call and from a file; what may be called how; every mistake with file, line and column. */
#include "bed.h"
#include "format/opaque.h"
#include "format/text.h"
#include "store/store.h"

static const char *path; /* of a file of definitions */

static int set_up_file(void **state)
{
    const int status = set_up_folder(state);
    path = in_root("names.txt");
    return status;
}

static void write_file(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void expect_means(const char *name, const char *want)
{
    sp_format a, b;
    if (sp_format_parse(cx, name, &a)) fail_msg("%s: %s", name, sparta_message(cx));
    assert_int_equal(sp_format_parse(cx, want, &b), SPARTA_OK);
    assert_true(sp_format_equal(&a, &b));
}

static void expect_failure(sparta_status status, const char *message)
{
    if (status != SPARTA_E_USAGE || strncmp(sparta_message(cx), message, strlen(message)))
        fail_msg("status %d, message '%s', wanted '%s'", status, sparta_message(cx), message);
}

/* What a line of a file does. */
static sparta_status define(sparta_ctx *c, const char *name, const char *text)
{
    sp_format f;
    SP_TRY(sp_format_name_check(c, name));
    SP_TRY(sp_format_parse(c, text, &f));
    return sp_format_define_as(c, name, &f, NULL, 0);
}

static void by_a_call(void **state)
{
    (void)state;
    assert_false(sp_format_is_name(cx, "fours"));
    assert_int_equal(define(cx, "fours", "(i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16"), SPARTA_OK);
    assert_true(sp_format_is_name(cx, "fours"));
    expect_means("fours", "(a,b)->(a/4:dense, b:bitmap, a%4:dense), pos=u16");
    expect_means("fours, pos=u32", "(a,b)->(a/4:dense, b:bitmap, a%4:dense), pos=u32");
    expect_means("fours, pos=i32", "(a,b)->(a/4:dense, b:bitmap, a%4:dense)");
    expect_means("fours",
                 "(a,b)->(a/4:dense, b:bitmap, a%4:dense), pos=u16"); /* untouched by the widths above */
    assert_int_equal(define(cx, "my-sum_2", "sum{rownnz<=4 -> fours; rest -> csr}"), SPARTA_OK);
    expect_means("sum{first(3) -> fours; rest -> my-sum_2}",
                 "sum{first(3) -> (i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16; rest -> sum{rownnz<=4 -> "
                 "fours; rest "
                 "-> csr}}");
    sp_format f;
    expect_failure(sp_format_parse(cx, "fours(4)", &f), "format:1:7: 'fours' takes 0 arguments");
    expect_failure(sp_format_parse(cx, "fuors", &f),
                   "format:1:1: unknown format 'fuors'; did you mean 'fours'?");
    /* Again: fine when it means the same. */
    assert_int_equal(define(cx, "fours", "(x,y)->(x/4:dense, y:bitmap, x%4:dense), pos=u16"), SPARTA_OK);
    expect_failure(define(cx, "fours", "csr"),
                   "format: 'fours' is defined already, by a call, as something else; rename one");
    expect_failure(define(cx, "bad", "(i,j)->(i:dense, j:zzz)"), "format:1:20: unknown level kind 'zzz'");
    assert_false(sp_format_is_name(cx, "bad"));
    expect_failure(define(cx, "itself", "itself"), "format:1:1: unknown format 'itself'");
}

static void names_that_are_taken(void **state)
{
    (void)state;
    static const char *const own[] = {"csr", "strip", "bsr", "hyb", "sr-bcrs", "dense", "bitmap"};
    static const char *const words[] = {
        "sum", "rest",   "first",      "rownnz", "colpart",    "blockdensity", "in",    "auto",   "pos",
        "crd", "format", "compressed", "range",  "structured", "singleton",    "loose", "ragged", "packed"};
    static const char *const none[] = {"",   "4x",   "a b", "a-",   "a-4", "-a",
                                       "a(", "\xff", "a\n", "csr,", "i/4", "a--b"};
    for (size_t i = 0; i < SP_COUNT(own); i++) {
        expect_failure(define(cx, own[i], "csr"), "format: '");
        assert_non_null(strstr(sparta_message(cx), "is one of sparta's own; choose another name"));
        assert_int_equal(sp_format_name_check(cx, own[i]), SPARTA_E_USAGE);
    }
    for (int i = 0; i < sp_opaque_count(); i++)
        expect_failure(define(cx, sp_opaque_row(i)->name, "csr"), "format: '");
    for (size_t i = 0; i < SP_COUNT(words); i++) {
        expect_failure(define(cx, words[i], "csr"), "format: '");
        assert_non_null(strstr(sparta_message(cx), "is a word of the language; choose another name"));
    }
    for (size_t i = 0; i < SP_COUNT(none); i++)
        expect_failure(define(cx, none[i], "csr"), "format: a name is letters");
    char longest[80];
    memset(longest, 'a', sizeof longest);
    longest[64] = 0;
    expect_failure(define(cx, longest, "csr"), "format: the name 'aaaaaaaaaaaaaaaaaaaaaaaa...' is longer");
    longest[63] = 0;
    assert_int_equal(sp_format_name_check(cx, longest), SPARTA_OK);
    assert_int_equal(define(cx, longest, "csr"), SPARTA_OK);
    expect_means(longest, "csr");
}

static void from_a_file(void **state)
{
    (void)state;
    static const char text[] = "# names of ours\r\n"
                               "\n"
                               "format sixteens = (i,j)->(i/16:dense, # blocks\n"
                               "                          j:bitmap,\n"
                               "# a comment in the middle\n"
                               "\n"
                               "\ti%16:dense), pos=u16   \n"
                               "format\tparts\t=sum{ rownnz<=8 -> sixteens; # a name from above\n"
                               "  rest -> csr }\n"
                               "   # the end\n"
                               "format last = coo";
    write_file(text, strlen(text));
    for (int twice = 0; twice < 2; twice++) /* again is fine */
        if (sp_store_define_file(cx, path)) fail_msg("%s", sparta_message(cx));
    expect_means("sixteens", "(i,j)->(i/16:dense, j:bitmap, i%16:dense), pos=u16");
    expect_means("parts", "sum{rownnz<=8 -> sixteens; rest -> csr}");
    expect_means("last", "coo");
    char want[200];
    snprintf(want, sizeof want, "format: 'parts' is defined already at %s:8 as something else; rename one",
             path);
    expect_failure(define(cx, "parts", "csr"), want);
    write_file("", 0);
    assert_int_equal(sp_store_define_file(cx, path), SPARTA_OK);
    write_file("# nothing", 9);
    assert_int_equal(sp_store_define_file(cx, path), SPARTA_OK);
    assert_int_equal(sp_store_define_file(cx, "/nonexistent/names"), SPARTA_E_IO);
}

static void wrong_files(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"format x = csr\nformat y = (i,j)->(i:dense,\n   j:compresed)\n",
         ":3:6: unknown level kind 'compresed'; did you mean 'compressed'?"},
        {"format y = crs", ":1:12: unknown format 'crs'"},
        {"\n\n  format y = csr",
         ":3:3: a line that begins with a blank goes on with the format above; there is none"},
        {"formats y = csr", ":1:1: expected 'format NAME = TEXT', got 'formats'"},
        {"csr", ":1:1: expected 'format NAME = TEXT', got 'csr'"},
        {"\xef\xbb\xbf", ":1:1: expected 'format NAME = TEXT', got byte 0xef"},
        {"format", ":1:7: expected the name of the format, got the end"},
        {"format 4 = csr", ":1:8: expected the name of the format, got '4'"},
        {"format y csr", ":1:10: expected '=' and the text of the format, got 'csr'"},
        {"format y = \n\nformat z = csr", ":1:11: expected '(' or the name of a format, got the end"},
        {"format y = csr csr", ":1:16: expected ',' and a key, or the end, got 'csr'"},
        {"format csr = coo", ":1:8: 'csr' is one of sparta's own; choose another name"},
        {"\nformat  rest = coo", ":2:9: 'rest' is a word of the language"},
        {"format y = csr\nformat y = coo", ":2:8: 'y' is defined already at "},
        {"format y = z\nformat z = csr", ":1:12: unknown format 'z'"},
        {"format y = dia, crd=u8", ":1:8: j-i: offsets have a sign"},
        {"format y = sum{rest -> csr; rest -> csr}", ":1:16: sum: parts overlap"},
        {"format abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz = csr",
         ":1:8: the name 'abcdefghijklmnopqrstuvwx...' is longer"},
    };
    char want[300];
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        write_file(cases[i][0], strlen(cases[i][0]));
        snprintf(want, sizeof want, "%s%s", path, cases[i][1]);
        expect_failure(sp_store_define_file(cx, path), want);
        assert_false(sp_format_is_name(cx, "x")); /* all or none */
        assert_false(sp_format_is_name(cx, "y"));
    }
    write_file("format a = csr\n\0 = coo", 23);
    snprintf(want, sizeof want, "%s: byte 15 is 0", path);
    expect_failure(sp_store_define_file(cx, path), want);
    static char large[(1 << 20) + 100];
    memset(large, ' ', sizeof large);
    write_file(large, sizeof large);
    assert_true(sp_store_define_file(cx, path) != SPARTA_OK);
    strcpy(large, "format a = ");
    memset(large + strlen(large), ' ', 5000);
    strcpy(large + 5000, "csr");
    write_file(large, strlen(large));
    snprintf(want, sizeof want, "%s:1:8: the text is longer than 4096 bytes", path);
    expect_failure(sp_store_define_file(cx, path), want);
}

/* So many that looking them up would take long: an end, and those before it are there. */
static void too_many(void **state)
{
    (void)state;
    sparta_ctx *own = sparta_ctx_create(NULL);
    char name[16];
    int n = 0;
    sparta_status status = SPARTA_OK;
    assert_non_null(own);
    for (; n < 10000 && !status; n++) {
        snprintf(name, sizeof name, "n%d", n);
        status = define(own, name, "csr");
    }
    assert_int_equal(status, SPARTA_E_LIMIT);
    assert_int_equal(n, 4097);
    assert_true(sp_format_is_name(own, "n4095"));
    assert_false(sp_format_is_name(own, "n4096"));
    sparta_ctx_free(own);
}

static void random_bytes(void **state)
{
    (void)state;
    static const char *const words[] = {"format ",
                                        "a",
                                        "b",
                                        " = ",
                                        "csr",
                                        "\n",
                                        "\n ",
                                        "#",
                                        "sum{",
                                        "rest -> ",
                                        "}",
                                        "\t",
                                        "-",
                                        ";",
                                        "\r",
                                        "(i)->(i:dense)",
                                        "\xff",
                                        "=",
                                        "\n\nformat c = "};
    sp_rng r = sp_rng_seed(11);
    int read = 0;
    for (int n = 0; n < 2000; n++) {
        sparta_ctx *own = sparta_ctx_create(NULL);
        char text[400] = "";
        assert_non_null(own);
        if (n % 2) strcpy(text, "format a = ");
        for (int w = (int)(sp_rng_next(&r) % 8); w >= 0; w--)
            strcat(text, words[(sp_rng_next(&r) >> 33) % SP_COUNT(words)]);
        write_file(text, strlen(text));
        sparta_status status = sp_store_define_file(own, path);
        assert_true(status == SPARTA_OK || status == SPARTA_E_USAGE);
        if (status) assert_false(sp_format_is_name(own, "a"));
        read += !status;
        sparta_ctx_free(own);
    }
    assert_true(read > 50);
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char text[] =
        "format one = sum{rownnz<=4 -> csr; rest -> coo}\nformat two = sum{rest -> one}\n";
    write_file(text, strlen(text));
    for (int file = 0; file < 2; file++) {
        sparta_status status = SPARTA_E_MEMORY;
        for (uint64_t nth = 1; status; nth++) {
            sparta_ctx *own = sparta_ctx_create(NULL);
            assert_non_null(own);
            sp_ctx_fail_alloc(own, nth, false);
            status = file ? sp_store_define_file(own, path)
                          : define(own, "two", "sum{rownnz<=4 -> csr; rest -> coo}");
            sp_ctx_fail_alloc(own, 0, false);
            assert_true(status == SPARTA_OK || status == SPARTA_E_MEMORY);
            assert_int_equal(sp_format_is_name(own, "two"), status == SPARTA_OK);
            if (status) assert_false(sp_format_is_name(own, "one"));
            assert_true(nth < 100);
            sparta_ctx_free(own);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_a_call),    cmocka_unit_test(names_that_are_taken),
                                       cmocka_unit_test(from_a_file),  cmocka_unit_test(wrong_files),
                                       cmocka_unit_test(too_many),     cmocka_unit_test(random_bytes),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, set_up_file, tear_down_folder);
}
