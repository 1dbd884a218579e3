/* base: context, memory, arena. Text, maps and numbers, digests, processes and the pool have files of their own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/base.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),  cmocka_unit_test(test_no_size),       cmocka_unit_test(test_assert),
        cmocka_unit_test(test_messages), cmocka_unit_test(test_long_messages), cmocka_unit_test(test_notes),
        cmocka_unit_test(test_cancel),   cmocka_unit_test(test_statuses),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_budget),   cmocka_unit_test(test_fail_alloc),    cmocka_unit_test(test_arena),
        cmocka_unit_test(test_sweeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
