/* base: context, memory, arena, text, map, digests. Processes and the pool have files of their own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/base.h"
#include "normal.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sparta_ctx *new_ctx(size_t max_memory)
{
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.max_memory = max_memory;
    sparta_ctx *cx = sparta_ctx_create(&o);
    assert_non_null(cx);
    return cx;
}

/* ------------------------------------------------------------------ context */

static void test_options(void **state)
{
    (void)state;
    char dir[] = "/some/cache";
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = dir;
    o.compiler = "";
    o.strict = 1;
    sparta_ctx *cx = sparta_ctx_create(&o);
    dir[1] = 'X'; /* the context has its own copy */
    assert_string_equal(sp_ctx_options_of(cx)->cache_dir, "/some/cache");
    assert_string_equal(sp_ctx_options_of(cx)->compiler, "");
    assert_true(sp_ctx_strict(cx));
    assert_true(sp_ctx_budget(cx) > 0 && sp_ctx_budget(cx) <= (size_t)8 << 30);
    sparta_ctx_free(cx);

    o.size = offsetof(sparta_ctx_options, strict); /* an older caller: what it does not know is not read */
    o.max_memory = 12345;
    cx = sparta_ctx_create(&o);
    assert_false(sp_ctx_strict(cx));
    assert_null(sp_ctx_options_of(cx)->cache_dir);
    assert_int_equal(sp_ctx_budget(cx), 12345);
    sparta_ctx_free(cx);
    sparta_ctx_free(NULL);
}

/* Options without a size would be ignored as a whole: they are refused, in words. */
static void test_no_size(void **state)
{
    (void)state;
    sparta_ctx_options o = {.strict = 1}, got;
    assert_null(sparta_ctx_create(&o));
    assert_non_null(strstr(sparta_message(NULL), "SPARTA_OPTIONS"));
    sparta_ctx *cx = sparta_ctx_create(NULL);
    for (o.size = 0; o.size < sizeof o.size; o.size++) {
        memset(&got, 7, sizeof got);
        assert_int_equal(sp_options(cx, "somebody", &o, &got, sizeof got), SPARTA_E_USAGE);
        assert_non_null(strstr(sparta_message(cx), "somebody: the size of its options is "));
        assert_int_equal(got.strict, 0x07070707); /* not touched */
    }
    assert_int_equal(sp_options(cx, "somebody", NULL, &got, sizeof got), SPARTA_OK);
    assert_int_equal(got.strict, 0);
    o.size = sizeof o + 100; /* of a newer header: what is known here counts */
    assert_int_equal(sp_options(cx, "somebody", &o, &got, sizeof got), SPARTA_OK);
    assert_int_equal(got.strict, 1);
    sparta_ctx_free(cx);
}

/* Broken invariants stop the builds that look for them; a release does not even evaluate them. */
static void test_assert(void **state)
{
    (void)state;
    int looked = 0;
    SP_ASSERT(++looked);
#ifdef SP_CHECKED
    assert_int_equal(looked, 1);
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        SP_ASSERT(looked == 2);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
    assert_int_equal(looked, 0);
#endif
}

static void test_messages(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(0);
    assert_string_equal(sparta_message(cx), "");
    assert_int_equal(sp_ctx_status(cx), SPARTA_E_INTERNAL);
    assert_int_equal(sp_fail(cx, SPARTA_E_SHAPE, "K is %d", 3), SPARTA_E_SHAPE);
    assert_string_equal(sparta_message(cx), "K is 3");
    assert_int_equal(sp_fail_in(cx, "MatMul %s", "qkv"), SPARTA_E_SHAPE);
    assert_string_equal(sparta_message(cx), "MatMul qkv: K is 3");
    sp_fail(cx, SPARTA_E_IO, "again: %s", sparta_message(cx)); /* its own message as an argument */
    assert_string_equal(sparta_message(cx), "again: MatMul qkv: K is 3");
    sp_fail(cx, SPARTA_E_IO, "name \x1b[31m\x7f%s", "\b\r");
    assert_string_equal(sparta_message(cx), "name ?[31m???");
    sp_ctx_clear(cx);
    assert_string_equal(sparta_message(cx), "");
    sparta_ctx_free(cx);
}

static void test_long_messages(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(0);
    char *text = malloc(5001);
    for (int n = 1000; n < 1040; n++) { /* two-byte characters cut anywhere */
        memset(text, 'a', 5000);
        for (int i = n % 2; i + 1 < n; i += 2) memcpy(text + i, "\xc3\xa9", 2);
        text[n] = 0;
        sp_fail(cx, SPARTA_E_IO, "%s", text);
        const char *m = sparta_message(cx);
        size_t size = strlen(m);
        assert_true(size <= 1023);
        if (n > 1023) {
            assert_string_equal(m + size - 3, "...");
            assert_int_equal((unsigned char)m[size - 4], 0xa9); /* a whole character before the dots */
        }
        sp_fail_in(cx, "%s", text);
        assert_true(strlen(sparta_message(cx)) <= 1023);
    }
    free(text);
    sparta_ctx_free(cx);
}

static void test_notes(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(0);
    assert_string_equal(sparta_notes(cx), "");
    sp_note(cx, "no compiler");
    sp_note(cx, "no %s", "compiler");
    sp_note(cx, "compiler"); /* a part of a line is not that line */
    assert_string_equal(sparta_notes(cx), "no compiler\ncompiler");
    for (int i = 0; i < 10000; i++) sp_note(cx, "note %d", i);
    assert_true(strlen(sparta_notes(cx)) < 4096);
    sp_ctx_forget_notes(cx);
    assert_string_equal(sparta_notes(cx), "");
    sparta_ctx_free(cx);
}

static sparta_ctx *signalled;
static void on_signal(int s)
{
    (void)s;
    sparta_ctx_cancel(signalled);
}

static void test_cancel(void **state)
{
    (void)state;
    sparta_ctx *cx = signalled = new_ctx(0);
    assert_int_equal(sp_check_cancel(cx), SPARTA_OK);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    assert_int_equal(sp_check_cancel(cx), SPARTA_E_CANCELLED);
    sp_ctx_clear(cx);
    assert_int_equal(sp_check_cancel(cx), SPARTA_E_CANCELLED); /* it stays */
    sparta_ctx_cancel(NULL);
    sparta_ctx_free(cx);
}

static void test_statuses(void **state)
{
    (void)state;
    assert_string_equal(sparta_status_name(SPARTA_OK), "OK");
    assert_string_equal(sparta_status_name(SPARTA_E_INTERNAL), "E_INTERNAL");
    assert_string_equal(sparta_status_name((sparta_status)99), "unknown");
    assert_string_equal(sparta_status_name((sparta_status)-1), "unknown");
    assert_int_equal(sp_exit_code(SPARTA_OK), 0);
    assert_int_equal(sp_exit_code(SPARTA_E_USAGE), 2);
    assert_int_equal(sp_exit_code(SPARTA_E_DIFFER), 3);
    assert_int_equal(sp_exit_code(SPARTA_E_UNSUPPORTED), 4);
    assert_int_equal(sp_exit_code(SPARTA_E_MEMORY), 5);
    assert_int_equal(sp_exit_code(SPARTA_E_CANCELLED), 130);
    assert_int_equal(sp_exit_code((sparta_status)99), 1);
    assert_string_equal(sparta_version(), SPARTA_VERSION);
}

/* ------------------------------------------------------------------ memory */

static void test_memory(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(64 << 20);
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 7, 5 << 20};
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        uint8_t *p = sp_alloc(cx, sizes[i]), *z = sp_zalloc(cx, sizes[i]);
        assert_true((uintptr_t)p % 64 == 0 && (uintptr_t)z % 64 == 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(z[k], 0);
        if (sizes[i]) memset(p, 7, sizes[i]);
        p = sp_realloc(cx, p, 2 * sizes[i] + 1);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(p[k], 7);
        p = sp_realloc(cx, p, sizes[i] / 2);
        for (size_t k = 0; k < sizes[i] / 2; k++) assert_int_equal(p[k], 7);
        assert_true(sp_ctx_memory(cx) >= sizes[i] + sizes[i] / 2);
        sp_free(cx, p);
        sp_free(cx, z);
        assert_int_equal(sp_ctx_memory(cx), 0);
    }
    assert_true(sp_ctx_memory_peak(cx) >= (size_t)15 << 20);
    sp_free(cx, NULL);
    sparta_ctx_free(cx);
}

static void test_budget(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(3 << 20);
    void *a = sp_alloc(cx, 2 << 20);
    assert_non_null(a);
    assert_null(sp_alloc(cx, 2 << 20));
    assert_int_equal(sp_ctx_status(cx), SPARTA_E_MEMORY);
    assert_string_equal(sparta_message(cx),
                        "memory: 3 MiB more would pass the budget of 3 MiB; raise options.max_memory");
    assert_null(sp_realloc(cx, a, 4 << 20));
    memset(a, 1, 2 << 20); /* still ours */
    assert_null(sp_alloc(cx, SIZE_MAX));
    assert_null(sp_alloc(cx, SIZE_MAX - 64));
    assert_null(sp_alloc_array(cx, SIZE_MAX / 2, 3));
    assert_null(sp_alloc_array(cx, (size_t)1 << 33, (size_t)1 << 33)); /* wraps to 4 */
    void *b = sp_alloc(cx, 1 << 19);
    assert_non_null(b);
    sp_free(cx, a);
    sp_free(cx, b);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

static void test_fail_alloc(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(0);
    uint64_t before = sp_ctx_alloc_count(cx);
    sp_ctx_fail_alloc(cx, 2, false);
    void *a = sp_alloc(cx, 8), *b = sp_alloc(cx, 8), *c = sp_zalloc(cx, 8);
    assert_true(a && !b && c);
    assert_int_equal(sp_ctx_alloc_count(cx), before + 3);
    sp_ctx_fail_alloc(cx, 1, true);
    assert_null(sp_realloc(cx, a, 16));
    assert_null(sp_alloc_array(cx, 1, 1));
    sp_ctx_fail_alloc(cx, 0, false);
    b = sp_alloc(cx, 8);
    assert_non_null(b);
    sp_free(cx, a);
    sp_free(cx, b);
    sp_free(cx, c);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

/* ------------------------------------------------------------------ arena */

static void test_arena(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(256 << 20);
    sp_arena *a = sp_arena_create(cx);
    enum { N = 4000 };
    static uint8_t *p[N];
    static size_t size[N];
    sp_rng r = sp_rng_seed(1);
    for (int i = 0; i < N; i++) {
        size[i] = sp_rng_next(&r) % (i % 100 == 0 ? 100000 : 200);
        p[i] = sp_arena_alloc(a, size[i]);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % (size[i] >= 64 ? 64 : 16), 0);
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(p[i][k], 0);
        memset(p[i], i & 255, size[i]);
    }
    for (int i = 0; i < N; i++) /* nobody wrote over a neighbour */
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(p[i][k], i & 255);
    assert_string_equal(sp_arena_printf(a, "%s-%d", "x", 12), "x-12");
    assert_string_equal(sp_arena_string(a, "hello"), "hello");
    assert_string_equal(sp_arena_bytes(a, "hello", 2), "he");
    assert_string_equal(sp_arena_bytes(a, NULL, 0), "");
    assert_null(sp_arena_array(a, SIZE_MAX / 2, 4));
    assert_null(sp_arena_alloc(a, SIZE_MAX));
    assert_null(sp_arena_alloc(a, (size_t)1 << 40));
    assert_non_null(sp_arena_alloc(a, 10)); /* a refusal leaves it usable */
    assert_ptr_equal(sp_arena_ctx(a), cx);
    sp_arena_free(a);
    sp_arena_free(NULL);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

static sparta_status arena_work(sparta_ctx *cx)
{
    sp_arena *a = sp_arena_create(cx);
    SP_NEED(cx, a);
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < 300 && !status; i++)
        if (!sp_arena_alloc(a, 100 + (size_t)(i % 7) * 3000)) status = sp_ctx_status(cx);
    sp_arena_free(a);
    return status;
}

static sparta_status text_and_map_work(sparta_ctx *cx)
{
    static char names[200][16];
    sp_text t;
    int64_t v;
    sp_text_init(&t, cx);
    sp_map *map = sp_map_create(cx);
    sparta_status status = map ? SPARTA_OK : sp_ctx_status(cx);
    for (int i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        sp_text_json(&t, names[i]);
        if (!status) status = sp_map_put(map, names[i], i);
    }
    if (!status) status = t.status;
    if (!status) assert_true(sp_map_get(map, "n77", &v) && v == 77);
    sp_map_free(map);
    sp_text_free(&t);
    return status;
}

static void sweep(sparta_status (*work)(sparta_ctx *))
{
    sparta_ctx *cx = new_ctx(0);
    assert_int_equal(work(cx), SPARTA_OK);
    int failures = 0;
    for (uint64_t n = 1;; n++) {
        sp_ctx_fail_alloc(cx, n, n % 2);
        sparta_status status = work(cx);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_int_equal(sp_ctx_memory(cx), 0);
        if (status == SPARTA_OK) break;
        assert_int_equal(status, SPARTA_E_MEMORY);
        failures++;
    }
    assert_true(failures > 5);
    sparta_ctx_free(cx);
}

static void test_sweeps(void **state)
{
    (void)state;
    sweep(arena_work);
    sweep(text_and_map_work);
}

/* ------------------------------------------------------------------ text */

static void test_text(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(1 << 20);
    sp_text t;
    sp_text_init(&t, cx);
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
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

static void test_json(void **state)
{
    (void)state;
    sparta_ctx *cx = new_ctx(0);
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
    sparta_ctx_free(cx);
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
    sparta_ctx *cx = new_ctx(0);
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
    sparta_ctx_free(cx);
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
    sparta_ctx *cx = sparta_ctx_create(NULL);
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
    sparta_ctx_free(cx);
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
    sparta_ctx *cx = new_ctx(0);
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
    sparta_ctx_free(cx);
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
        cmocka_unit_test(test_no_size),       cmocka_unit_test(test_assert),
        cmocka_unit_test(test_options),       cmocka_unit_test(test_messages),
        cmocka_unit_test(test_long_messages), cmocka_unit_test(test_notes),
        cmocka_unit_test(test_cancel),        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_arena),         cmocka_unit_test(test_fail_alloc),
        cmocka_unit_test(test_sweeps),        cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),          cmocka_unit_test(test_clean),
        cmocka_unit_test(test_glob),          cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_did_you_mean),  cmocka_unit_test(test_keep),
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_map),
        cmocka_unit_test(test_sha256),        cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_hash),          cmocka_unit_test(test_rng),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
