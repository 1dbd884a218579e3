/* jit: compilers that are missing, fail, hang, flood or are cancelled; several processes and threads at once.
 * (Slow: make test only.) */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "jit_place.h"

/* ------------------------------------------------------------------ compilers */

static void no_compiler(void **state)
{
    place *p = *state;
    sparta_ctx *cx = context(p->cache, "");
    refused(cx, adds, "switched off");
    refused(cx, subs, "switched off");
    assert_null(strchr(sparta_notes(cx), '\n')); /* one note */
    sparta_ctx_free(cx);
    cx = context(p->cache, "cc");
    refused(cx, adds, "no absolute path");
    sparta_ctx_free(cx);
    cx = context(p->cache, "/nonexistent/cc");
    refused(cx, adds, "no program");
    sparta_ctx_free(cx);
    cx = context(p->cache, p->root); /* a folder */
    refused(cx, adds, "no program");
    sparta_ctx_free(cx);
}

static void failing_text(void **state)
{
    place *p = *state;
    refused(p->cx, "int f(void) { return nonsense; }\n", "nonsense");
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED); /* the compiler is not given up */
    refused(p->cx,
            VISIBLE "int f(void) { extern int nowhere_to_be_found(void); return nowhere_to_be_found(); }\n",
            "nowhere_to_be_found");
    assert_int_equal(entries(p->cache, NULL, 0), 2);
    assert_int_equal(kernels(p, NULL, 0), 1); /* what does not load is not kept */
    assert_int_equal(sp_ctx_memory(p->cx), 0);
}

static void failing_compilers(void **state)
{
    place *p = *state;
    static const struct {
        const char *body, *message;
    } bad[] = {
        {"echo 'cc: the license has expired' >&2; echo more; exit 7",
         "failed (exit 7): cc: the license has expired"},
        {"exit 1", "it said nothing"},
        {"kill -9 $$", "signal 9"},
        {"exit 0", "its output cannot be read"},
        {"for a; do o=$a; done; echo garbage > \"$o\"", "does not load"},
        {"for a; do o=$a; done; ln -s /etc/passwd \"$o\"", "its output cannot be read"},
        {"for a; do o=$a; done; mkfifo \"$o\"", "its output cannot be read"},
        {"printf '\\033[31mred\\n'; exit 1", "?[31mred"},
        {"yes 'a line of many' | head -c 8000000; exit 3", "exit 3): a line of many"},
    };
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        char name[16];
        snprintf(name, sizeof name, "cc%zu", i);
        sparta_ctx *cx = with_script(p, name, bad[i].body);
        refused(cx, adds, bad[i].message);
        assert_int_equal(sp_ctx_memory(cx), 0);
        sparta_ctx_free(cx);
    }
    assert_int_equal(kernels(p, NULL, 0), 0);
}

/* One that knows no parameter, and leaves a file in `refused` each time it meets one. */
static sparta_ctx *old_compiler(const place *p, const char *name, char *refused, size_t size)
{
    char body[512];
    snprintf(refused, size, "%s/%s-refused", p->root, name);
    assert_int_equal(mkdir(refused, 0700), 0);
    snprintf(body, sizeof body,
             "case \"$*\" in *--param*) touch %s/$$; echo \"cc1: error: invalid --param name "
             "'avoid-fma-max-bits'\" >&2; exit 1 ;; esac\nexec /usr/bin/cc \"$@\"",
             refused);
    return with_script(p, name, body);
}

/* They are asked once: alone, or several side by side, which then run again side by side. */
static void old_compilers_do_without_the_parameter(void **state)
{
    place *p = *state;
    static const char *const text[] = {adds, subs, VISIBLE "int add(int a, int b) { return a * b; }\n"};
    static const int answer[] = {8, 2, 15};
    const sp_object *o[3];
    char tried[128];
    sparta_ctx *cx = old_compiler(p, "old", tried, sizeof tried);
    assert_int_equal(use(cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(cx, subs, 2), SP_JIT_COMPILED);
    assert_int_equal(entries(tried, NULL, 0), 1);
    assert_int_equal(sp_ctx_memory(cx), 0);
    assert_string_equal(sparta_notes(cx), "");
    sparta_ctx_free(cx);
    cx = old_compiler(p, "old-too", tried, sizeof tried);
    assert_int_equal(sp_jit_get_all(cx, SP_TARGET_PORTABLE, 3, text, o), SPARTA_OK);
    for (int i = 0; i < 3; i++) {
        assert_non_null(o[i]);
        assert_int_equal(((binary)sp_jit_symbol(o[i], "add"))(5, 3), answer[i]);
        sp_jit_close(o[i]);
    }
    assert_int_equal(entries(tried, NULL, 0), 3);
    assert_int_equal(use(cx, VISIBLE "int add(int a, int b) { return b - a; }\n", -2), SP_JIT_COMPILED);
    assert_int_equal(entries(tried, NULL, 0), 3);
    assert_int_equal(sp_ctx_memory(cx), 0);
    assert_string_equal(sparta_notes(cx), "");
    sparta_ctx_free(cx);
}

/* The limit on output stops a compiler that fills the disk. */
static void compiler_that_writes_without_end(void **state)
{
    place *p = *state;
    sparta_ctx *cx = with_script(p, "endless", "for a; do o=$a; done; exec cat /dev/zero > \"$o\"");
    refused(cx, adds, "failed");
    sparta_ctx_free(cx);
}

static long lines_in(const char *path)
{
    FILE *f = fopen(path, "r");
    long n = 0;
    assert_non_null(f);
    for (int c; (c = getc(f)) != EOF;) n += c == '\n';
    fclose(f);
    return n;
}

static void hanging_compilers(void **state)
{
    place *p = *state;
    char path[128], body[256];
    const double start = sp_now();
    setenv("SPARTA_CC_TIMEOUT", "1", 1);
    snprintf(body, sizeof body, "echo called >> '%s/calls'; sleep 100", p->root);
    sparta_ctx *cx = with_script(p, "hangs", body);
    refused(cx, adds, "took longer than 1 s");
    const double first = sp_now() - start;
    assert_true(first >= 0.9 && first < 80); /* it did not end by itself */
    snprintf(path, sizeof path, "%s/calls", p->root);
    const long calls = lines_in(path);
    assert_true(calls > 0);
    refused(cx, subs, "hung before"); /* a model has many kernels: one wait is enough */
    assert_int_equal(lines_in(path), calls);
    sparta_ctx_free(cx);
    snprintf(path, sizeof path, "%s/mute", p->root);
    write_script(path, "sleep 100");
    cx = context(p->cache, path);
    refused(cx, adds, "took longer than 1 s");
    refused(cx, adds, "hung before");
    sparta_ctx_free(cx);
    unsetenv("SPARTA_CC_TIMEOUT");
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_COMPILED); /* another compiler is not to blame */
}

static void *cancel_soon(void *cx)
{
    usleep(300000);
    sparta_ctx_cancel(cx);
    return NULL;
}

/* Compilers side by side fail as one does by itself: what they say is asked for once more, and so is one that took too long. */
static void several_fail_as_one(void **state)
{
    place *p = *state;
    static const char *const text[] = {adds, subs, VISIBLE "int add(int a, int b) { return a * b; }\n"};
    const sp_object *o[3];
    sparta_ctx *cx = with_script(p, "expired", "echo 'cc: the license has expired' >&2; exit 7");
    assert_int_equal(sp_jit_get_all(cx, SP_TARGET_PORTABLE, 3, text, o), SPARTA_OK);
    for (int i = 0; i < 3; i++) assert_null(o[i]);
    assert_string_equal(sparta_notes(cx), "");
    refused(cx, adds, "failed (exit 7): cc: the license has expired");
    sparta_ctx_free(cx);
    cx = context(p->cache, "");
    assert_int_equal(sp_jit_get_all(cx, SP_TARGET_PORTABLE, 3, text, o), SPARTA_OK);
    refused(cx, adds, "switched off");
    assert_null(strchr(sparta_notes(cx), '\n')); /* one note */
    sparta_ctx_free(cx);
    setenv("SPARTA_CC_TIMEOUT", "1", 1);
    cx = with_script(p, "hang", "sleep 100");
    const double start = sp_now();
    assert_int_equal(sp_jit_get_all(cx, SP_TARGET_PORTABLE, 3, text, o), SPARTA_OK);
    assert_string_equal(sparta_notes(cx), "");
    refused(cx, adds, "took longer than 1 s");
    refused(cx, subs, "hung before");
    assert_null(strchr(sparta_notes(cx), '\n'));
    assert_int_equal(sp_jit_get_all(cx, SP_TARGET_PORTABLE, 3, text, o), SPARTA_OK);
    assert_true(sp_now() - start < 80); /* none ended by itself */
    unsetenv("SPARTA_CC_TIMEOUT");
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

/* The first of them takes too long, those that come later do not: the compiler is not given up. */
static void one_of_several_is_slow(void **state)
{
    place *p = *state;
    static const char *const text[] = {adds, subs};
    const sp_object *o[2];
    char body[256];
    snprintf(body, sizeof body, "mkdir %s/first 2>/dev/null && sleep 100\nexec /usr/bin/cc \"$@\"", p->root);
    sparta_ctx *cx = with_script(p, "late", body);
    setenv("SPARTA_CC_TIMEOUT", "5", 1);
    assert_int_equal(sp_jit_get_all(cx, SP_TARGET_PORTABLE, 2, text, o), SPARTA_OK);
    assert_false(o[0] && o[1]);
    for (int i = 0; i < 2; i++) sp_jit_close(o[i]);
    use(cx, adds, 8);
    use(cx, subs, 2);
    assert_string_equal(sparta_notes(cx), "");
    unsetenv("SPARTA_CC_TIMEOUT");
    sparta_ctx_free(cx);
}

static void several_meet_no_memory(void **state)
{
    place *p = *state;
    static const char *const text[] = {adds, subs};
    const sp_object *o[2];
    char command[128];
    int failures = 0;
    sparta_status status = SPARTA_E_MEMORY;
    use(p->cx, adds, 8); /* the version of the compiler is known from here on */
    snprintf(command, sizeof command, "rm -f %s/kernels/*", p->cache);
    for (uint64_t n = 1; n < 40 && status; n++) {
        assert_int_equal(system(command), 0);
        sp_ctx_fail_alloc(p->cx, n, false);
        status = sp_jit_get_all(p->cx, SP_TARGET_PORTABLE, 2, text, o);
        sp_ctx_fail_alloc(p->cx, 0, false);
        failures += status == SPARTA_E_MEMORY;
        for (int i = 0; i < 2; i++) {
            assert_true(!status == (o[i] != NULL));
            sp_jit_close(o[i]);
        }
        assert_int_equal(sp_ctx_memory(p->cx), 0);
    }
    assert_int_equal(status, SPARTA_OK);
    assert_true(failures >= 5);
}

static void several_are_cancelled(void **state)
{
    place *p = *state;
    static const char *const text[] = {adds, subs};
    pthread_t thread;
    const sp_object *o[2];
    sparta_ctx *cx = with_script(p, "slower", "sleep 100");
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, cx), 0);
    assert_int_equal(sp_jit_get_all(cx, SP_TARGET_PORTABLE, 2, text, o), SPARTA_E_CANCELLED);
    pthread_join(thread, NULL);
    assert_null(o[0]);
    assert_null(o[1]);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
    assert_int_equal(entries(p->cache, NULL, 0) - (kernels(p, NULL, 0) >= 0), 1); /* key and kernels only */
}

/* The compiler sees a clean environment: nothing of ours steers it. */
static void compiler_gets_a_clean_environment(void **state)
{
    place *p = *state;
    char list[128], text[8192] = {0}, body[256];
    snprintf(list, sizeof list, "%s/env", p->root);
    snprintf(body, sizeof body, "env > %s; exit 1", list);
    setenv("LD_PRELOAD_FOR_TEST", "evil", 1);
    setenv("GCC_EXEC_PREFIX", "/evil", 1);
    sparta_ctx *cx = with_script(p, "env-cc", body);
    refused(cx, adds, "exit 1");
    sparta_ctx_free(cx);
    unsetenv("LD_PRELOAD_FOR_TEST");
    unsetenv("GCC_EXEC_PREFIX");
    FILE *f = fopen(list, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_null(strstr(text, "evil"));
    assert_non_null(strstr(text, "TMPDIR="));
    assert_null(strstr(text, "HOME="));
}

/* An upgraded compiler makes new kernels. */
static void compiler_is_part_of_the_key(void **state)
{
    place *p = *state;
    const char *body = "exec /usr/bin/cc \"$@\"";
    if (access("/usr/bin/cc", X_OK)) skip();
    sparta_ctx *cx = with_script(p, "wrapped", body);
    assert_int_equal(use(cx, adds, 8), SP_JIT_COMPILED);
    assert_int_equal(use(cx, adds, 8), SP_JIT_CACHE);
    sparta_ctx_free(cx);
    cx = with_script(p, "wrapped", "# upgraded\nexec /usr/bin/cc \"$@\"");
    assert_int_equal(use(cx, adds, 8), SP_JIT_COMPILED);
    sparta_ctx_free(cx);
}

static void cancelled_while_compiling(void **state)
{
    place *p = *state;
    pthread_t thread;
    const sp_object *o = NULL;
    sparta_ctx *cx = with_script(p, "slow", "sleep 100");
    double start = sp_now();
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, cx), 0);
    assert_int_equal(sp_jit_get(cx, SP_TARGET_PORTABLE, adds, &o, NULL), SPARTA_E_CANCELLED);
    assert_true(sp_now() - start < 80); /* it did not end by itself */
    pthread_join(thread, NULL);
    assert_null(o);
    assert_int_equal(sp_ctx_memory(cx), 0);
    assert_string_equal(sparta_notes(cx), "");
    sparta_ctx_free(cx);
    assert_int_equal(entries(p->cache, NULL, 0) - (kernels(p, NULL, 0) >= 0), 1); /* key and kernels only */
}

static void every_allocation_may_fail(void **state)
{
    place *p = *state;
    int failures = 0;
    sparta_status status = SPARTA_E_MEMORY;
    use(p->cx, adds, 8);                      /* the version of the compiler is known from here on */
    for (int round = 0; round < 2; round++) { /* from the cache, then compiled */
        for (uint64_t n = 1; n < 100; n++) {
            const sp_object *o = NULL;
            char command[128];
            snprintf(command, sizeof command, "rm -f %s/kernels/*", p->cache);
            if (round) assert_int_equal(system(command), 0);
            sp_ctx_fail_alloc(p->cx, n, false);
            status = sp_jit_get(p->cx, SP_TARGET_PORTABLE, adds, &o, NULL);
            sp_ctx_fail_alloc(p->cx, 0, false);
            if (status) {
                assert_int_equal(status, SPARTA_E_MEMORY);
                assert_null(o);
                failures++;
            }
            sp_jit_close(o);
            assert_int_equal(sp_ctx_memory(p->cx), 0);
        }
    }
    assert_int_equal(status, SPARTA_OK);
    assert_true(failures >= 3);
}

/* ------------------------------------------------------------------ at once */

static void processes_compile_at_once(void **state)
{
    place *p = *state;
    enum { PROCESSES = 8 };
    pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        if ((pid[i] = fork()) != 0) continue;
        sparta_ctx *cx = context(p->cache, NULL);
        const sp_object *o;
        if (sp_jit_get(cx, SP_TARGET_PORTABLE, adds, &o, NULL)) _exit(1);
        binary f = (binary)sp_jit_symbol(o, "add");
        _exit(f && f(5, 3) == 8 && !sparta_notes(cx)[0] ? 0 : 2);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(kernels(p, NULL, 0), 1);
    assert_int_equal(entries(p->cache, NULL, 0), 2);
    assert_int_equal(use(p->cx, adds, 8), SP_JIT_CACHE);
}

/* Processes that are killed at any moment leave a cache that works. */
static void killed_processes_do_no_harm(void **state)
{
    place *p = *state;
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            sparta_ctx *cx = context(p->cache, NULL);
            const sp_object *o;
            for (int k = 0;; k++) {
                char text[128];
                snprintf(text, sizeof text, VISIBLE "int add(int a, int b) { return a + b + %d; }\n", k);
                if (sp_jit_get(cx, SP_TARGET_PORTABLE, text, &o, NULL)) _exit(1);
            }
        }
        usleep(1000 + 17000 * (unsigned)i);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    use(p->cx, VISIBLE "int add(int a, int b) { return a + b + 0; }\n", 8);
    use(p->cx, VISIBLE "int add(int a, int b) { return a + b + 1; }\n", 9);
    assert_null(strstr(sparta_notes(p->cx), "damaged"));
}

typedef struct worker {
    const place *p;
    int seed, wrong;
} worker;

static void *hammer(void *arg)
{
    worker *w = arg;
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.cache_dir = w->p->cache;
    sparta_ctx *cx = sparta_ctx_create(&options);
    for (int i = 0; i < 60; i++) {
        int k = (i + w->seed) % 3;
        const sp_object *o, *same;
        char text[128];
        snprintf(text, sizeof text, VISIBLE "int add(int a, int b) { return a + %d * b; }\n", k);
        if (sp_jit_get(cx, SP_TARGET_PORTABLE, text, &o, NULL) || sp_jit_load(cx, o->bytes, o->size, &same)) {
            w->wrong++;
            continue;
        }
        binary f = (binary)sp_jit_symbol(o, "add");
        w->wrong += o != same || f(100, 7) != 100 + 7 * k;
        sp_jit_close(same);
        sp_jit_close(o);
    }
    sparta_ctx_free(cx);
    return NULL;
}

static void threads_share_the_table(void **state)
{
    place *p = *state;
    pthread_t thread[4];
    worker w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = (worker){p, i, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, hammer, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(w[i].wrong, 0);
    }
}

int main(void)
{
    unsetenv("SPARTA_TARGET");
    const struct CMUnitTest tests[] = {
        TEST(no_compiler),
        TEST(failing_text),
        TEST(failing_compilers),
        TEST(old_compilers_do_without_the_parameter),
        TEST(compiler_that_writes_without_end),
        TEST(hanging_compilers),
        TEST(several_fail_as_one),
        TEST(one_of_several_is_slow),
        TEST(several_meet_no_memory),
        TEST(several_are_cancelled),
        TEST(compiler_gets_a_clean_environment),
        TEST(compiler_is_part_of_the_key),
        TEST(cancelled_while_compiling),
        TEST(every_allocation_may_fail),
        TEST(processes_compile_at_once),
        TEST(killed_processes_do_no_harm),
        TEST(threads_share_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
