/* base: the team of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/base.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8 };

typedef struct job {
    sp_pool *pool;
    int calls[64]; /* plain memory: run must order it */
    int round;
    bool own_thread[64];
    pthread_t thread[64];
} job;

static void count(void *arg, int i)
{
    job *j = arg;
    j->calls[i] += j->round;
}

static void test_every_share_once(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    for (int threads = 1; threads <= MOST; threads++) {
        sp_pool *pool = sp_pool_create(cx, threads);
        assert_non_null(pool);
        assert_int_equal(sp_pool_threads(pool), threads);
        job j = {0};
        int expected = 0;
        for (int round = 1; round <= 300; round++) {
            j.round = round;
            expected += round;
            sp_pool_run(pool, count, &j);
            for (int i = 0; i < threads; i++) assert_int_equal(j.calls[i], expected);
            if (round % 100 == 0)
                nanosleep(&(struct timespec){0, 2000000}, NULL); /* they fall asleep, and wake */
        }
        for (int i = threads; i < 64; i++) assert_int_equal(j.calls[i], 0);
        sp_pool_free(pool);
    }
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

/* Until all shares have begun: each then is another thread's. */
static void meet(atomic_int *begun, int shares)
{
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < shares) nanosleep(&(struct timespec){0, 20000}, NULL);
}

static atomic_int begun;
static void remember(void *arg, int i)
{
    job *j = arg;
    j->thread[i] = pthread_self();
    meet(&begun, 4);
    if (i % 2) nanosleep(&(struct timespec){0, 300000}, NULL); /* the caller goes to sleep too */
}

static void test_threads_are_ours(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sp_pool *pool = sp_pool_create(cx, 4);
    job first = {0}, second = {0};
    for (int round = 0; round < 20; round++) {
        atomic_store(&begun, 0);
        sp_pool_run(pool, remember, round ? &second : &first);
        const job *j = round ? &second : &first;
        int known = 0;
        assert_true(pthread_equal(j->thread[0], pthread_self()));
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < i; k++) assert_false(pthread_equal(j->thread[i], j->thread[k]));
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++) known += pthread_equal(j->thread[i], first.thread[k]) != 0;
        assert_int_equal(known, 4); /* the same ones every time */
    }
    sp_pool_free(pool);
    sparta_ctx_free(cx);
}

static void note_thread(void *arg, int i)
{
    ((job *)arg)->thread[i] = pthread_self();
}

/* Shares that nobody has begun are done by who is there: the caller does not wait for a worker that still sleeps. */
static void test_who_is_late_is_not_waited_for(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sp_pool *pool = sp_pool_create(cx, MOST);
    assert_non_null(pool);
    int alone = 0;
    for (int round = 0; round < 10000 && !alone; round++) {
        job j = {0};
        nanosleep(&(struct timespec){0, 1000000}, NULL); /* all fall asleep */
        sp_pool_run(pool, note_thread, &j);
        alone = 1;
        for (int i = 0; i < MOST; i++) alone &= pthread_equal(j.thread[i], pthread_self()) != 0;
    }
    assert_true(alone);
    sp_pool_free(pool);
    sparta_ctx_free(cx);
}

static atomic_int inner_calls;
static void look_at_signals(void *arg, int i)
{
    meet(&begun, MOST);
    pthread_sigmask(SIG_SETMASK, NULL, &((sigset_t *)arg)[i]);
}

/* The host's handlers do not run on our threads, but for those of faults, which are the thread's own. */
static void test_signals(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sp_pool *pool = sp_pool_create(cx, MOST);
    assert_non_null(pool);
    sigset_t mask[MOST];
    atomic_store(&begun, 0);
    sp_pool_run(pool, look_at_signals, mask);
    for (int i = 1; i < MOST; i++) {
        assert_int_equal(sigismember(&mask[i], SIGINT), 1);
        assert_int_equal(sigismember(&mask[i], SIGCHLD), 1);
        assert_int_equal(sigismember(&mask[i], SIGBUS), 0);
        assert_int_equal(sigismember(&mask[i], SIGSEGV), 0);
    }
    sp_pool_free(pool);
    sparta_ctx_free(cx);
}

static void inner(void *arg, int i)
{
    (void)arg, (void)i;
    atomic_fetch_add(&inner_calls, 1);
}
static void outer(void *arg, int i)
{
    (void)i;
    sp_pool_run(arg, inner, NULL);
}

static void test_job_in_job(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sp_pool *pool = sp_pool_create(cx, 3);
    atomic_store(&inner_calls, 0);
    sp_pool_run(pool, outer, pool);
    assert_int_equal(atomic_load(&inner_calls), 9);
    sp_pool_free(pool);
    sparta_ctx_free(cx);
}

typedef struct freed {
    sparta_ctx *cx;
    void *p[MOST];
} freed;
static void free_share(void *arg, int i)
{
    freed *f = arg;
    sp_free(f->cx, f->p[i]);
}

static void test_workers_may_free(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sp_pool *pool = sp_pool_create(cx, MOST);
    size_t before = sp_ctx_memory(cx);
    for (int round = 0; round < 50; round++) {
        freed f = {.cx = cx};
        for (int i = 0; i < MOST; i++) f.p[i] = sp_alloc(cx, 1000);
        sp_pool_run(pool, free_share, &f);
        assert_int_equal(sp_ctx_memory(cx), before);
    }
    sp_pool_free(pool);
    sparta_ctx_free(cx);
}

static int host_calls;
static void host_for(void *host, int n, void (*fn)(void *arg, int i), void *arg)
{
    assert_ptr_equal(host, &host_calls);
    host_calls++;
    for (int i = n - 1; i >= 0; i--) fn(arg, i);
}

static void test_host(void **state)
{
    (void)state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.parallel_for = host_for;
    o.host = &host_calls;
    sparta_ctx *cx = sparta_ctx_create(&o);
    sp_pool *pool = sp_pool_create(cx, 5);
    job j = {.round = 1};
    sp_pool_run(pool, count, &j);
    assert_int_equal(host_calls, 1);
    for (int i = 0; i < 5; i++) assert_int_equal(j.calls[i], 1);
    sp_pool_free(pool);
    sparta_ctx_free(cx);
}

static void test_refusals(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    assert_true(sp_cores() >= 1);
    assert_null(sp_pool_create(cx, -1));
    assert_int_equal(sp_ctx_status(cx), SPARTA_E_USAGE);
    assert_null(sp_pool_create(cx, 1 << 20));
    sp_pool *pool = sp_pool_create(cx, 0);
    assert_int_equal(sp_pool_threads(pool), sp_cores());
    sp_pool_free(pool);
    sp_pool_free(NULL);
    for (uint64_t n = 1; n <= 2; n++) {
        sp_ctx_fail_alloc(cx, n, false);
        assert_null(sp_pool_create(cx, 2));
        assert_int_equal(sp_ctx_status(cx), SPARTA_E_MEMORY);
    }
    assert_int_equal(sp_ctx_memory(cx), 0);
    sparta_ctx_free(cx);
}

/* In a child of fork() the pool has no threads: every share is done all the same, and nobody waits. */
static void test_fork(void **state)
{
    (void)state;
    sparta_ctx *cx = sparta_ctx_create(NULL);
    sp_pool *pool = sp_pool_create(cx, 3);
    job j = {.round = 1};
    sp_pool_run(pool, count, &j);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(600); /* it hangs */
        sp_pool_run(pool, count, &j);
        int wrong = 0;
        for (int i = 0; i < 3; i++) wrong += j.calls[i] != 2;
        sp_pool_free(pool);
        _exit(wrong || sp_ctx_memory(cx));
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    sp_pool_run(pool, count, &j); /* the parent's team is whole */
    for (int i = 0; i < 3; i++) assert_int_equal(j.calls[i], 2);
    sp_pool_free(pool);
    sparta_ctx_free(cx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_share_once),
        cmocka_unit_test(test_threads_are_ours),
        cmocka_unit_test(test_who_is_late_is_not_waited_for),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_job_in_job),
        cmocka_unit_test(test_workers_may_free),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
