/* base: programs run by argv. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/base.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct outcome {
    sparta_status status;
    int code;
    char said[20000];
    double seconds;
} outcome;

static outcome run_shell(sparta_ctx *cx, const char *script, const sparta_spawn_options *o)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    static outcome r;
    sparta_text said;
    double start = sparta_now();
    memset(&r, 0, sizeof r);
    r.code = 12345;
    sparta_text_init(&said, cx);
    r.status = sparta_spawn(cx, argv, o, &said, &r.code);
    r.seconds = sparta_now() - start;
    assert_true(said.size < sizeof r.said);
    memcpy(r.said, sparta_text_str(&said), said.size);
    sparta_text_free(&said);
    return r;
}

static void test_ends(void **state)
{
    sparta_ctx *cx = *state;
    outcome r = run_shell(cx, "echo out; echo err >&2; exit 7", NULL);
    assert_int_equal(r.status, SPARTA_OK);
    assert_int_equal(r.code, 7);
    assert_string_equal(r.said, "out\nerr\n");
    r = run_shell(cx, "kill -SEGV $$", NULL);
    assert_int_equal(r.code, -SIGSEGV);
    r = run_shell(cx, "exec >&- 2>&-; sleep 0.05; exit 3", NULL); /* silent before its end */
    assert_int_equal(r.code, 3);
}

static void test_surroundings(void **state)
{
    sparta_ctx *cx = *state;
    setenv("SPARTA_SECRET", "x", 1);
    outcome r =
        run_shell(cx, "echo \"[$SPARTA_SECRET]$LC_ALL\"; cat; ls /proc/self/fd | wc -l; ulimit -c", NULL);
    assert_string_equal(r.said, "[]C\n4\n0\n"); /* 0 1 2 and the folder ls reads */
    const char *env[] = {"A=b", NULL};
    sparta_spawn_options o = {.env = env};
    r = run_shell(cx, "echo $A$LC_ALL", &o);
    assert_string_equal(r.said, "b\n");
    const char *argv[] = {"/bin/echo", "a b", "$HOME;*", NULL}; /* no shell in between */
    sparta_text said;
    int code;
    sparta_text_init(&said, cx);
    assert_int_equal(sparta_spawn(cx, argv, NULL, &said, &code), SPARTA_OK);
    assert_string_equal(sparta_text_str(&said), "a b $HOME;*\n");
    sparta_text_free(&said);
    assert_int_equal(sparta_spawn(cx, argv, NULL, NULL, &code), SPARTA_OK); /* nobody listens */
    assert_int_equal(code, 0);
}

static void test_refusals(void **state)
{
    sparta_ctx *cx = *state;
    int code = 5;
    const char *missing[] = {"/no/such/program", NULL}, *relative[] = {"sh", NULL}, *none[] = {NULL},
               *folder[] = {"/tmp", NULL};
    assert_int_equal(sparta_spawn(cx, missing, NULL, NULL, &code), SPARTA_E_IO);
    assert_string_equal(sparta_message(cx),
                        "spawn: /no/such/program cannot be run: No such file or directory");
    assert_int_equal(sparta_spawn(cx, folder, NULL, NULL, &code), SPARTA_E_IO);
    assert_int_equal(sparta_spawn(cx, relative, NULL, NULL, &code), SPARTA_E_USAGE);
    assert_int_equal(sparta_spawn(cx, none, NULL, NULL, &code), SPARTA_E_USAGE);
    assert_int_equal(code, 5);
}

static void test_timeout(void **state)
{
    sparta_ctx *cx = *state;
    sparta_spawn_options o = {.timeout = 0.2};
    outcome r = run_shell(cx, "echo begun; sleep 30 & sleep 30", &o);
    assert_int_equal(r.status, SPARTA_OK);
    assert_int_equal(r.code, -1000);
    assert_string_equal(r.said, "begun\n");
    assert_true(r.seconds >= 0.2 && r.seconds < 5);
    r = run_shell(cx, "trap '' TERM INT; while :; do sleep 1; done", &o);
    assert_int_equal(r.code, -1000);
}

/* A grandchild that keeps the pipe open does not keep us, and does not outlive its parent. */
static void test_left_behind(void **state)
{
    sparta_ctx *cx = *state;
    outcome r = run_shell(cx, "sleep 30 & echo $!", NULL);
    assert_int_equal(r.code, 0);
    assert_true(r.seconds < 5);
    pid_t left = (pid_t)atoi(r.said);
    assert_true(left > 1);
    char path[64], what[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)left);
    bool gone = false;
    for (int i = 0; i < 200 && !gone; i++) {
        FILE *f = fopen(path, "r");
        gone = !f || !fgets(what, sizeof what, f) || strstr(what, ") Z") || strstr(what, ") X");
        if (f) fclose(f);
        if (!gone) nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    assert_true(gone);
}

static void test_limits(void **state)
{
    sparta_ctx *cx = *state;
    outcome r =
        run_shell(cx, "i=0; while [ $i -lt 3000 ]; do echo 0123456789; i=$((i+1)); done; exit 4", NULL);
    assert_int_equal(r.code, 4); /* what is past the cap is read and dropped: the child is not stopped */
    assert_int_equal(strlen(r.said), 16 << 10);
    sparta_spawn_options o = {.output = 1000};
    char script[200], path[] = "/tmp/sparta-limit-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(script, sizeof script, "exec head -c 100000 /dev/zero > %s", path);
    r = run_shell(cx, script, &o);
    assert_true(r.code != 0);
    FILE *f = fopen(path, "r");
    fseek(f, 0, SEEK_END);
    assert_true(ftell(f) <= 1000);
    fclose(f);
    remove(path);
    sparta_spawn_options m = {.memory = 64 << 20};
    r = run_shell(cx, "ulimit -v", &m);
    assert_string_equal(r.said, "65536\n");
}

static void *cancel_soon(void *cx)
{
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    sparta_ctx_cancel(cx);
    return NULL;
}

static void test_cancelled(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, cancel_soon, cx), 0);
    outcome r = run_shell(cx, "sleep 30", NULL);
    pthread_join(t, NULL);
    assert_int_equal(r.status, SPARTA_E_CANCELLED);
    assert_int_equal(r.code, 12345); /* outputs are untouched */
    assert_true(r.seconds < 5);
    r = run_shell(cx, "echo never", NULL);
    assert_int_equal(r.status, SPARTA_E_CANCELLED);
    assert_string_equal(r.said, "");
    sparta_ctx_free(cx);
}

static void test_no_memory(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sparta_ctx_fail_alloc(cx, 1, true);
    outcome r = run_shell(cx, "echo hello", NULL);
    assert_int_equal(r.status, SPARTA_E_MEMORY);
    assert_int_equal(r.code, 12345);
    assert_int_equal(sparta_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

static int set_up(void **state)
{
    return (*state = sparta_ctx_create(NULL)) ? 0 : -1;
}

static int tear_down(void **state)
{
    int held = sparta_ctx_memory(*state) != 0;
    sparta_ctx_free(*state);
    return held;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),        cmocka_unit_test(test_surroundings),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_left_behind), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cancelled),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
