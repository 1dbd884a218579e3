/* base: text, names, numbers, maps, digests and random numbers. */
#include "bed.h"
#include "normal.h"
#include <math.h>

/* ------------------------------------------------------------------ text */

static void test_text(void **state)
{
    (void)state;
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = 1 << 20;
    sparta_ctx *poor = sparta_ctx_create(&options);
    assert_non_null(poor);
    sp_text t;
    sp_text_init(&t, poor);
    assert_string_equal(sp_text_str(&t), "");
    sp_text_put(&t, "", 0);
    assert_string_equal(sp_text_str(&t), "");
    for (int i = 0; i < 1000; i++) sp_text_printf(&t, "%d,", i);
    assert_int_equal(strlen(sp_text_str(&t)), t.size);
    assert_memory_equal(sp_text_str(&t), "0,1,2,3,", 8);
    assert_string_equal(sp_text_str(&t) + t.size - 4, "999,");
    size_t size = t.size;
    sp_text_printf(&t, "%*s|", 700, "x");
    assert_int_equal(t.size, size + 701);
    assert_int_equal(t.status, SPARTA_OK);
    while (!t.status) sp_text_printf(&t, "%1000s", "");
    assert_int_equal(t.status, SPARTA_E_MEMORY);
    size = t.size;
    sp_text_put(&t, "more", 4); /* sticky */
    assert_int_equal(t.size, size);
    sp_text_free(&t);
    assert_int_equal(sp_ctx_memory(poor), 0);
    sparta_ctx_free(poor);
}

static void test_json(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "\"\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\n\t\r\x01\x7f", "\"\\n\\t\\u000d\\u0001\\u007f\""},
        {"a\xc2\x9b"
         "b\xe2\x80\xae"
         "c",
         "\"a\\u009bb\\u202ec\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff", "\"\xef\xbf\xbd\""},
        {"\xc3", "\"\xef\xbf\xbd\""},
        {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80x", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\""},
        {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        sp_text t;
        sp_text_init(&t, cx);
        sp_text_json(&t, rows[i][0]);
        assert_string_equal(sp_text_str(&t), rows[i][1]);
        sp_text_free(&t);
    }
}

/* What a terminal acts on is gone from texts and messages, and the rest of every line is as it was. */
static void test_clean(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"plain /layer.0/MatMul", "plain /layer.0/MatMul"},
        {"a\033[31mb\x7f", "a?[31mb?"},
        {"one\nsparta: fake\ttab\r", "one?sparta: fake?tab?"},
        {"\x9b"
         "31m",
         "?31m"}, /* C1 as a byte */
        {"\xc2\x9b"
         "31m\xc2\x80",
         "?31m?"}, /* and as UTF-8 */
        {"\xe2\x80\xae"
         "evil\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8",
         "?evil???"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc2\xa0", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc2\xa0"},
        {"\xc3", "?"},
    };
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", rows[i][0]);
        sp_clean(text);
        assert_string_equal(text, rows[i][1]);
        assert_int_equal(sp_fail(cx, SPARTA_E_FORMAT, "%s", rows[i][0]), SPARTA_E_FORMAT);
        assert_string_equal(sparta_message(cx), rows[i][1]);
    }
    sp_note(cx, "node %s", "a\nsparta: note: fake");
    assert_string_equal(sparta_notes(cx), "node a?sparta: note: fake");
}

static void test_glob(void **state)
{
    (void)state;
    assert_true(sp_glob("*", "") && sp_glob("", "") && sp_glob("a*c", "abc") && sp_glob("a*c", "ac"));
    assert_true(sp_glob("encoder.*.w?ight", "encoder.3.weight") && sp_glob("*a*b*", "xxaxxbxx") &&
                sp_glob("**", "x"));
    assert_true(sp_glob("*ab", "aab") && sp_glob("[a]", "[a]"));
    assert_false(sp_glob("", "a") || sp_glob("?", "") || sp_glob("a*c", "abd") || sp_glob("[a]", "a"));
    assert_false(sp_glob("a", "ab") || sp_glob("ab", "a") || sp_glob("*ab", "aba"));
    char s[2001], g[101];
    memset(s, 'a', 2000), s[2000] = 0;
    for (int i = 0; i < 100; i++) g[i] = i % 2 ? 'a' : '*';
    g[99] = 'b', g[100] = 0;
    assert_false(sp_glob(g, s)); /* ends, and soon */
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"compile", "run", "bench", "inspect"};
    assert_string_equal(sp_nearest("complie", names, 4), "compile");
    assert_string_equal(sp_nearest("rum", names, 4), "run");
    assert_string_equal(sp_nearest("inspct", names, 4), "inspect");
    assert_null(sp_nearest("xyz", names, 4));
    const char *verb = "kernel";
    assert_null(sp_nearest("serve", &verb, 1));
    assert_string_equal(sp_nearest("kernal", &verb, 1), "kernel");
    assert_null(sp_nearest("frobnicate", names, 4));
    assert_null(sp_nearest("", names, 4));
    char lots[1000];
    memset(lots, 'x', 999), lots[999] = 0;
    assert_null(sp_nearest(lots, names, 4));
}

static void test_did_you_mean(void **state)
{
    (void)state;
    static const char *const names[] = {"csr", "dense"};
    char hint[SP_HINT], longest[300] = {0};
    assert_string_equal(sp_did_you_mean("csx", names, 2, "", hint), "; did you mean 'csr'?");
    assert_string_equal(sp_did_you_mean("elephant", names, 2, "; see --help", hint), "; see --help");
    assert_string_equal(sp_did_you_mean("csr", names, 0, "", hint), "");
    memset(longest, 'x', sizeof longest - 1);
    assert_true(strlen(sp_did_you_mean("elephant", names, 2, longest, hint)) < SP_HINT);
}

static void test_keep(void **state)
{
    (void)state;
    sp_arena *arena = sp_arena_create(cx);
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "%d rows", 3);
    assert_string_equal(sp_text_keep(&t, arena), "3 rows");
    sp_text_init(&t, cx);
    assert_string_equal(sp_text_keep(&t, arena), "");
    sp_text_init(&t, cx);
    sp_ctx_fail_alloc(cx, 1, false);
    sp_text_printf(&t, "lost");
    assert_null(sp_text_keep(&t, arena));
    sp_arena_free(arena);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

static void test_numbers(void **state)
{
    (void)state;
    int64_t v = 5;
    double d = 5;
    assert_true(sp_parse_int("0", &v) && v == 0);
    assert_true(sp_parse_int("-9223372036854775808", &v) && v == INT64_MIN);
    assert_true(sp_parse_int("9223372036854775807", &v) && v == INT64_MAX);
    static const char *const bad[] = {"",    "-",   "+1", " 1", "1 ", "1x", "0x10", "9223372036854775808",
                                      "1.0", "--1", "1e3"};
    for (size_t i = 0; i < SP_COUNT(bad); i++) assert_false(sp_parse_int(bad[i], &v));
    assert_int_equal(v, INT64_MAX);
    assert_true(sp_parse_double("1.5", &d) && d == 1.5);
    assert_true(sp_parse_double("-.5e-2", &d) && d == -.5e-2);
    assert_true(sp_parse_double("3.", &d) && d == 3);
    assert_true(sp_parse_double("1e3", &d) && d == 1000);
    static const char *const no[] = {"",    ".",     "-",     "e3", "1e", "1e+", "inf",
                                     "nan", "0x1p3", "1e999", " 1", "1 ", "1,5", "+1"};
    for (size_t i = 0; i < SP_COUNT(no); i++) assert_false(sp_parse_double(no[i], &d));
}

/* ------------------------------------------------------------------ map */

static void test_map(void **state)
{
    (void)state;
    sp_map *map = sp_map_create(cx);
    enum { N = 5000 };
    static char names[N][16];
    int64_t v = -1;
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "k%d", i);
        assert_false(sp_map_get(map, names[i], &v));
        assert_int_equal(sp_map_put(map, names[i], i), SPARTA_OK);
    }
    assert_int_equal(v, -1);
    for (int i = 0; i < N; i += 2) assert_int_equal(sp_map_put(map, names[i], -i), SPARTA_OK);
    assert_int_equal(sp_map_size(map), N);
    for (int i = 0; i < N; i++) assert_true(sp_map_get(map, names[i], &v) && v == (i % 2 ? i : -i));
    assert_false(sp_map_get(map, "", NULL));
    assert_int_equal(sp_map_put(map, "", 3), SPARTA_OK);
    assert_true(sp_map_get(map, "", NULL));
    sp_map_free(map);
    sp_map_free(NULL);
    assert_int_equal(sp_ctx_memory(cx), 0);
}

/* ------------------------------------------------------------------ digests */

static void check_sha(const char *text, size_t n, const char *hex)
{
    uint8_t d[32];
    char s[65];
    sp_sha256_of(text, n, d);
    sp_hex(d, 32, s);
    assert_string_equal(s, hex);
}

static void test_sha256(void **state)
{
    (void)state;
    check_sha("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    check_sha(million, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    for (size_t n = 0; n < 300; n++) /* in pieces as at once */
        for (size_t cut = 0; cut <= n; cut += 1 + n / 7) {
            uint8_t one[32], two[32];
            sp_sha256 s;
            sp_sha256_of(million, n, one);
            sp_sha256_init(&s);
            sp_sha256_add(&s, million, cut);
            sp_sha256_add(&s, million + cut, n - cut);
            sp_sha256_end(&s, two);
            assert_memory_equal(one, two, 32);
        }
    free(million);
}

static void test_hmac(void **state)
{
    (void)state;
    uint8_t d[32];
    char s[65], key[131];
    sp_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, d); /* RFC 4231, case 2 */
    sp_hex(d, 32, s);
    assert_string_equal(s, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key); /* case 6: a key longer than a block */
    sp_hmac_sha256(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54, d);
    sp_hex(d, 32, s);
    assert_string_equal(s, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void test_hash(void **state)
{
    (void)state;
    enum { N = 20000 };
    static uint64_t h[N];
    uint8_t bytes[100] = {0};
    for (int i = 0; i < 100; i++) h[i] = sp_hash(bytes, (size_t)i, 0); /* zeros of every length */
    for (int i = 100; i < N; i++) {
        memcpy(bytes + i % 60, &i, 4);
        h[i] = sp_hash(bytes, (size_t)(64 + i % 30), 1);
    }
    assert_true(sp_hash("abc", 3, 1) != sp_hash("abc", 3, 2));
    assert_true(sp_hash("abc", 3, 1) == sp_hash("abc", 3, 1));
    qsort(h, N, sizeof *h, by_value);
    for (int i = 1; i < N; i++) assert_true(h[i] != h[i - 1]);
}

static void test_rng(void **state)
{
    (void)state;
    enum { N = 200000 };
    sp_rng r = sp_rng_seed(0), again = sp_rng_seed(0);
    double sum = 0, squares = 0, tails = 0, uniform = 0;
    for (int i = 0; i < N; i++) {
        double x = normal(&r), u = sp_rng_uniform(&r);
        assert_true(x == normal(&again) && u == sp_rng_uniform(&again));
        assert_true(x != 0 && u >= 0 && u < 1);
        sum += x, squares += x * x, tails += fabs(x) > 2, uniform += u;
    }
    assert_true(fabs(sum / N) < 0.01 && fabs(squares / N - 1) < 0.02 && fabs(uniform / N - 0.5) < 0.005);
    assert_true(tails / N > 0.040 && tails / N < 0.052); /* 4.55 % of a normal */
    assert_true(sp_rng_seed(1).state != sp_rng_seed(2).state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_json),    cmocka_unit_test(test_clean),
        cmocka_unit_test(test_glob),   cmocka_unit_test(test_nearest), cmocka_unit_test(test_did_you_mean),
        cmocka_unit_test(test_keep),   cmocka_unit_test(test_numbers), cmocka_unit_test(test_map),
        cmocka_unit_test(test_sha256), cmocka_unit_test(test_hmac),    cmocka_unit_test(test_hash),
        cmocka_unit_test(test_rng),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
