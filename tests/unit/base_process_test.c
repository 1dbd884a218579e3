/* base: programs run by argv. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/base.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct outcome {
    sparta_status status;
    int code;
    char said[20000];
    double seconds;
} outcome;

/* Who waits for a child that sleeps for 100 seconds waits longer. */
enum { END = 80 };

static outcome run_shell(sparta_ctx *cx, const char *script, const sp_spawn_options *o)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    static outcome r;
    sp_text said;
    double start = sp_now();
    memset(&r, 0, sizeof r);
    r.code = 12345;
    sp_text_init(&said, cx);
    r.status = sp_spawn(cx, argv, o, &said, &r.code);
    r.seconds = sp_now() - start;
    assert_true(said.size < sizeof r.said);
    memcpy(r.said, sp_text_str(&said), said.size);
    sp_text_free(&said);
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
    sp_spawn_options o = {.env = env};
    r = run_shell(cx, "echo $A$LC_ALL", &o);
    assert_string_equal(r.said, "b\n");
    const char *argv[] = {"/bin/echo", "a b", "$HOME;*", NULL}; /* no shell in between */
    sp_text said;
    int code;
    sp_text_init(&said, cx);
    assert_int_equal(sp_spawn(cx, argv, NULL, &said, &code), SPARTA_OK);
    assert_string_equal(sp_text_str(&said), "a b $HOME;*\n");
    sp_text_free(&said);
    assert_int_equal(sp_spawn(cx, argv, NULL, NULL, &code), SPARTA_OK); /* nobody listens */
    assert_int_equal(code, 0);
}

static void test_refusals(void **state)
{
    sparta_ctx *cx = *state;
    int code = 5;
    const char *missing[] = {"/no/such/program", NULL}, *relative[] = {"sh", NULL}, *none[] = {NULL},
               *folder[] = {"/tmp", NULL};
    assert_int_equal(sp_spawn(cx, missing, NULL, NULL, &code), SPARTA_E_IO);
    assert_string_equal(sparta_message(cx),
                        "spawn: /no/such/program cannot be run: No such file or directory");
    assert_int_equal(sp_spawn(cx, folder, NULL, NULL, &code), SPARTA_E_IO);
    assert_int_equal(sp_spawn(cx, relative, NULL, NULL, &code), SPARTA_E_USAGE);
    assert_int_equal(sp_spawn(cx, none, NULL, NULL, &code), SPARTA_E_USAGE);
    assert_int_equal(code, 5);
}

static void test_timeout(void **state)
{
    sparta_ctx *cx = *state;
    sp_spawn_options o = {.timeout = 1}; /* time enough to begin, also beside other work */
    outcome r = run_shell(cx, "echo begun; sleep 100 & sleep 100", &o);
    assert_int_equal(r.status, SPARTA_OK);
    assert_int_equal(r.code, -1000);
    assert_string_equal(r.said, "begun\n");
    assert_true(r.seconds >= 1 && r.seconds < END);
    r = run_shell(cx, "trap '' TERM INT; while :; do sleep 1; done", &o);
    assert_int_equal(r.code, -1000);
}

static bool is_there(pid_t pid)
{
    char path[64], what[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    bool there = f && fgets(what, sizeof what, f) && !strstr(what, ") Z") && !strstr(what, ") X");
    if (f) fclose(f);
    return there;
}

/* Does it end before it would by itself? */
static bool ends(pid_t pid)
{
    for (int i = 0; i < 100 * END && is_there(pid); i++) usleep(10000);
    return !is_there(pid);
}

/* A grandchild that keeps the pipe open does not keep us, and does not outlive its parent. */
static void test_left_behind(void **state)
{
    sparta_ctx *cx = *state;
    outcome r = run_shell(cx, "sleep 100 & echo $!", NULL);
    assert_int_equal(r.code, 0);
    assert_true(r.seconds < END);
    pid_t left = (pid_t)atoi(r.said);
    assert_true(left > 1);
    assert_true(ends(left));
}

static void test_limits(void **state)
{
    sparta_ctx *cx = *state;
    outcome r =
        run_shell(cx, "i=0; while [ $i -lt 3000 ]; do echo 0123456789; i=$((i+1)); done; exit 4", NULL);
    assert_int_equal(r.code, 4); /* what is past the cap is read and dropped: the child is not stopped */
    assert_int_equal(strlen(r.said), 16 << 10);
    sp_spawn_options o = {.output = 1000};
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
    sp_spawn_options m = {.memory = 64 << 20};
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
    outcome r = run_shell(cx, "sleep 100", NULL);
    pthread_join(t, NULL);
    assert_int_equal(r.status, SPARTA_E_CANCELLED);
    assert_int_equal(r.code, 12345); /* outputs are untouched */
    assert_true(r.seconds < END);
    r = run_shell(cx, "echo never", NULL);
    assert_int_equal(r.status, SPARTA_E_CANCELLED);
    assert_string_equal(r.said, "");
    sparta_ctx_free(cx);
}

static void *fork_and_cancel(void *cx)
{
    static pid_t pid;
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    pid = fork();
    if (pid == 0) { /* has every descriptor of the host, as long as it lives */
        alarm(60);
        for (;;) pause();
    }
    sparta_ctx_cancel(cx);
    return &pid;
}

static void test_cancelled_while_the_host_forks(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    pthread_t t;
    void *pid;
    assert_int_equal(pthread_create(&t, NULL, fork_and_cancel, cx), 0);
    outcome r = run_shell(cx, "sleep 100", NULL);
    pthread_join(t, &pid);
    kill(*(pid_t *)pid, SIGKILL);
    assert_int_equal(waitpid(*(pid_t *)pid, NULL, 0), *(pid_t *)pid);
    assert_int_equal(r.status, SPARTA_E_CANCELLED);
    assert_true(r.seconds < END);
    sparta_ctx_free(cx);
}

static void test_no_memory(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sp_ctx_fail_alloc(cx, 1, true);
    outcome r = run_shell(cx, "echo hello", NULL);
    assert_int_equal(r.status, SPARTA_E_MEMORY);
    assert_int_equal(r.code, 12345);
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

/* ------------------------------------------------------------------ hosts that do things their own way */

static void reap_all(int signal)
{
    (void)signal;
    int before = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    errno = before;
}

/* A host that ignores SIGCHLD, or reaps whatever ends, hears the same exit codes at once. */
static void test_children_of_the_host(void **state)
{
    sparta_ctx *cx = *state;
    struct sigaction before, mine[] = {{.sa_handler = SIG_IGN}, {.sa_handler = reap_all}};
    for (size_t i = 0; i < SP_COUNT(mine); i++) {
        sp_spawn_options o = {.timeout = 30};
        assert_int_equal(sigaction(SIGCHLD, &mine[i], &before), 0);
        outcome r = run_shell(cx, "sleep 0.1; echo out; exit 7", &o);
        sigaction(SIGCHLD, &before, NULL);
        assert_int_equal(r.status, SPARTA_OK);
        assert_int_equal(r.code, 7);
        assert_string_equal(r.said, "out\n");
        assert_true(r.seconds < END);
    }
}

/* The limits of the host may be smaller than what the program is allowed. */
static void test_limits_of_the_host(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit l = {(rlim_t)2 << 30, (rlim_t)2 << 30};
        sparta_ctx *cx = sparta_ctx_create(NULL);
        sp_spawn_options o = {.output = (size_t)4 << 30, .timeout = 30};
        if (setrlimit(RLIMIT_FSIZE, &l)) _exit(10);
        outcome r = run_shell(cx, "ulimit -f", &o);
        if (r.status) fprintf(stderr, "%s\n", sparta_message(cx));
        _exit(r.status ? 11 : strcmp(r.said, "4194304\n") ? 12 : 0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* What is compiling when its parent is killed does not go on. */
static void test_parent_is_killed(void **state)
{
    (void)state;
    char path[] = "/tmp/sparta-killed-XXXXXX", script[100], text[32] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(script, sizeof script, "echo $$ > %s; sleep 100", path);
    pid_t pid = fork();
    if (pid == 0) {
        run_shell(sparta_ctx_create(NULL), script, NULL);
        _exit(0);
    }
    for (int i = 0; i < 100 * END && !strchr(text, '\n'); i++) {
        usleep(10000);
        (void)!pread(fd, text, sizeof text - 1, 0);
    }
    close(fd);
    remove(path);
    pid_t program = (pid_t)atoi(text);
    assert_true(program > 1 && is_there(program));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(ends(program));
}

/* ------------------------------------------------------------------ side by side */

enum { SEVERAL = 5 };
typedef struct crowd {
    sp_program all[SEVERAL];
    const char *argv[SEVERAL][4];
    sp_text said[SEVERAL];
} crowd;

static sparta_status run_crowd(sparta_ctx *cx, crowd *c, const char *const *script, const sp_spawn_options *o,
                               int at_once)
{
    for (int i = 0; i < SEVERAL; i++) {
        c->argv[i][0] = "/bin/sh", c->argv[i][1] = "-c", c->argv[i][2] = script[i], c->argv[i][3] = NULL;
        sp_text_init(&c->said[i], cx);
        c->all[i] = (sp_program){.argv = c->argv[i], .options = o, .said = &c->said[i]};
    }
    return sp_spawn_all(cx, c->all, SEVERAL, at_once);
}

static void leave_crowd(crowd *c)
{
    for (int i = 0; i < SEVERAL; i++) sp_text_free(&c->said[i]);
}

/* Each waits for a file that another makes: only programs that run at once end. */
static void test_side_by_side(void **state)
{
    sparta_ctx *cx = *state;
    char folder[] = "/tmp/sparta-crowd-XXXXXX", text[SEVERAL][200];
    const char *script[SEVERAL];
    static const char *const missing[] = {"/nonexistent/program", NULL};
    const sp_spawn_options o = {.timeout = 60};
    crowd c;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < SEVERAL; i++) {
        snprintf(text[i], sizeof text[i],
                 "echo %d; touch %s/%d; until [ -e %s/%d ]; do sleep 0.01; done; exit %d", i, folder, i,
                 folder, (i + 1) % SEVERAL, i);
        script[i] = text[i];
    }
    assert_int_equal(run_crowd(cx, &c, script, &o, 64), SPARTA_OK);
    for (int i = 0; i < SEVERAL; i++) {
        snprintf(text[i], sizeof text[i], "%d\n", i);
        assert_int_equal(c.all[i].error, 0);
        assert_int_equal(c.all[i].exit_code, i);
        assert_string_equal(sp_text_str(&c.said[i]), text[i]);
    }
    leave_crowd(&c);
    snprintf(text[0], sizeof text[0], "rm -r %s", folder);
    assert_int_equal(system(text[0]), 0);
    sp_program two[] = {{.argv = missing}, {.argv = c.argv[0]}};
    c.argv[0][2] = "exit 3";
    assert_int_equal(sp_spawn_all(cx, two, 2, 1), SPARTA_OK);
    assert_int_equal(two[0].error, ENOENT);
    assert_int_equal(two[1].error, 0);
    assert_int_equal(two[1].exit_code, 3);
    assert_int_equal(sp_spawn_all(cx, NULL, 0, 4), SPARTA_OK);
}

/* As many at once as is said, and none once one has taken too long. */
static void test_one_after_another(void **state)
{
    sparta_ctx *cx = *state;
    static const char *const order[SEVERAL] = {"sleep 0.05; date +%s%N", "date +%s%N", "date +%s%N",
                                               "date +%s%N", "date +%s%N"};
    static const char *const late[SEVERAL] = {"exit 2", "sleep 60", "exit 0", "exit 0", "exit 0"};
    const sp_spawn_options o = {.timeout = 1};
    crowd c;
    assert_int_equal(run_crowd(cx, &c, order, NULL, 1), SPARTA_OK);
    for (int i = 1; i < SEVERAL; i++)
        assert_true(atoll(sp_text_str(&c.said[i])) > atoll(sp_text_str(&c.said[i - 1])));
    leave_crowd(&c);
    assert_int_equal(run_crowd(cx, &c, late, &o, 1), SPARTA_OK);
    assert_int_equal(c.all[0].exit_code, 2);
    assert_int_equal(c.all[1].exit_code, -1000);
    for (int i = 2; i < SEVERAL; i++) assert_int_equal(c.all[i].error, ETIMEDOUT);
    leave_crowd(&c);
}

/* What program i wrote of itself; 0: nothing yet. */
static pid_t pid_in(const char *folder, int i)
{
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "%s/%d", folder, i);
    FILE *f = fopen(path, "r");
    const bool whole = f && fgets(text, sizeof text, f) && strchr(text, '\n');
    if (f) fclose(f);
    return whole ? (pid_t)atoi(text) : 0;
}

enum { AT_ONCE = 3 };
typedef struct watched {
    sparta_ctx *cx;
    const char *folder;
} watched;

static void *cancel_when_all_run(void *arg)
{
    const watched *w = arg;
    for (int i = 0; i < AT_ONCE; i++)
        for (int k = 0; k < 100 * END && !pid_in(w->folder, i); k++) usleep(10000);
    sparta_ctx_cancel(w->cx);
    return NULL;
}

/* Those that run are gone, the others never begin. */
static void test_all_are_cancelled(void **state)
{
    (void)state;
    char folder[] = "/tmp/sparta-crowd-XXXXXX", text[SEVERAL][100];
    const char *script[SEVERAL];
    watched w = {sparta_ctx_create(NULL), folder};
    pthread_t t;
    crowd c;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < SEVERAL; i++) {
        snprintf(text[i], sizeof text[i], "echo $$ > %s/%d; exec sleep 100", folder, i);
        script[i] = text[i];
    }
    const double start = sp_now();
    assert_int_equal(pthread_create(&t, NULL, cancel_when_all_run, &w), 0);
    assert_int_equal(run_crowd(w.cx, &c, script, NULL, AT_ONCE), SPARTA_E_CANCELLED);
    pthread_join(t, NULL);
    for (int i = 0; i < SEVERAL; i++) {
        const pid_t pid = pid_in(folder, i);
        assert_int_equal(pid > 1, i < AT_ONCE);
        assert_true(!pid || ends(pid));
    }
    assert_true(sp_now() - start < END); /* they did not end by themselves */
    leave_crowd(&c);
    snprintf(text[0], sizeof text[0], "rm -r %s", folder);
    assert_int_equal(system(text[0]), 0);
    sparta_ctx_free(w.cx);
}

static int set_up(void **state)
{
    return (*state = sparta_ctx_create(NULL)) ? 0 : -1;
}

static int tear_down(void **state)
{
    int held = sp_ctx_memory(*state) != 0;
    sparta_ctx_free(*state);
    return held;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_surroundings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_cancelled_while_the_host_forks),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_children_of_the_host),
        cmocka_unit_test(test_limits_of_the_host),
        cmocka_unit_test(test_parent_is_killed),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_one_after_another),
        cmocka_unit_test(test_all_are_cancelled),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
