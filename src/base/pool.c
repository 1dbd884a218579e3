/* One persistent team of threads.
 *
 *     run:     fn, arg <- job;  left <- threads;  job number + 1;  wake who sleeps;  do share 0, then those not taken;  wait for left == 0
 *     worker:  wait for a new job number (spin, then sleep on it);  do share i, then those not taken;  the last one wakes the caller
 *
 * A thread takes its own share, so that its cache has what it worked on before, and then what nobody has begun: a worker whose core is busy with
 * something else does not hold up the team, and one that comes when all is taken is not waited for. Share i is taken by whoever
 * counts its number of jobs up to this one.
 *
 * A waiter spins for a while, because the next job of a model comes soon, and then sleeps on a futex (which never
 * loses a wake: the kernel compares the word before it sleeps). Where there are more threads than cores a spinning
 * waiter would keep a worker from its core: it sleeps at once. A thread that was just woken often starts on the core of who woke it, and
 * stays there for milliseconds: whoever spins offers its core now and then.
 *
 * fork() copies the pool and none of its threads. In the child the caller does all shares by itself, one after the other: the same
 * shares, so the same answer. */
#include "base/base.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_THREADS = 1024 };
enum { YIELD = 8 };         /* rounds of spinning between offers of the core: some microseconds */
#define SPIN_SECONDS 300e-6 /* longer than one thread waits for another between two layers */

typedef struct worker {
    sp_pool *pool;
    int i;
    pthread_t thread;
} worker;

typedef struct share {            /* a line of its own */
    _Alignas(64) atomic_uint job; /* the last one that it was taken for */
} share;

struct sp_pool {
    sparta_ctx *cx;
    int threads;
    double spin; /* seconds; 0: sleep at once */
    void (*parallel_for)(void *host, int n, void (*fn)(void *arg, int i), void *arg);
    void *host;
    worker *workers;
    share *share;
    int started;
    pid_t home; /* the process that its threads live in */
    atomic_bool stop;
    void (*fn)(void *arg, int i); /* published by job; they stay until the last share is done */
    void *arg;
    atomic_bool busy;
    /* Lines of their own: the caller writes the first, the workers the second. */
    _Alignas(64) atomic_uint job;
    _Alignas(64) atomic_uint left;
    _Alignas(64) atomic_uint sleepers;
    atomic_uint caller_sleeps;
};

/* ------------------------------------------------------------------ waiting */

static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Spin while the word is (same) or is not (!same) `value`, at most the pool's spin time; the word as last seen. */
static unsigned spin(const sp_pool *pool, atomic_uint *word, unsigned value, bool same)
{
    unsigned now = atomic_load_explicit(word, memory_order_acquire);
    double end = 0;
    unsigned rounds = 0;
    while ((now == value) == same) {
        if (pool->spin <= 0) break;
        if (end == 0)
            end = sp_now() + pool->spin;
        else if (sp_now() >= end)
            break;
        for (int k = 0; k < 16 && (now == value) == same; k++) {
            pause_core();
            now = atomic_load_explicit(word, memory_order_acquire);
        }
        if ((now == value) == same && ++rounds % YIELD == 0) sched_yield();
    }
    return now;
}

static unsigned wait_job(sp_pool *pool, unsigned seen)
{
    unsigned now = spin(pool, &pool->job, seen, true);
    if (now != seen) return now;
    /* Sleeper first, job second; run writes the job first and reads the sleepers second: one of the two sees the other. */
    atomic_fetch_add(&pool->sleepers, 1);
    while ((now = atomic_load(&pool->job)) == seen) futex_wait(&pool->job, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
    return now;
}

static void wait_done(sp_pool *pool)
{
    unsigned left = spin(pool, &pool->left, 0, false);
    if (left == 0) return;
    atomic_store(&pool->caller_sleeps, 1);
    while ((left = atomic_load(&pool->left)) != 0) futex_wait(&pool->left, left);
    atomic_store(&pool->caller_sleeps, 0);
}

/* ------------------------------------------------------------------ working */

/* Share i of a job, unless somebody has it: then, or when the job is over, the number is no longer that of the job before. */
static void do_share(sp_pool *pool, unsigned job, int i)
{
    unsigned before = job - 1;
    if (atomic_load_explicit(&pool->share[i].job, memory_order_relaxed) != before ||
        !atomic_compare_exchange_strong(&pool->share[i].job, &before, job))
        return;
    pool->fn(pool->arg, i);
    if (atomic_fetch_sub(&pool->left, 1) == 1 && atomic_load(&pool->caller_sleeps)) futex_wake(&pool->left);
}

/* Its own first. */
static void do_shares(sp_pool *pool, unsigned job, int own)
{
    for (int i = 0; i < pool->threads; i++) do_share(pool, job, (own + i) % pool->threads);
}

static void *work(void *arg)
{
    worker *w = arg;
    sp_pool *pool = w->pool;
    for (unsigned seen = 0;;) {
        seen = wait_job(pool, seen);
        if (atomic_load(&pool->stop)) return NULL;
        do_shares(pool, seen, w->i);
    }
}

static unsigned publish(sp_pool *pool)
{
    atomic_store_explicit(&pool->left, (unsigned)pool->threads, memory_order_relaxed);
    const unsigned job = atomic_fetch_add(&pool->job, 1) + 1;
    if (atomic_load(&pool->sleepers)) futex_wake(&pool->job);
    return job;
}

static void run_alone(int n, void (*fn)(void *arg, int i), void *arg)
{
    for (int i = 0; i < n; i++) fn(arg, i);
}

void sp_pool_run(sp_pool *pool, void (*fn)(void *arg, int i), void *arg)
{
    if (pool->threads == 1) {
        fn(arg, 0);
    } else if (pool->parallel_for) {
        pool->parallel_for(pool->host, pool->threads, fn, arg);
    } else if (pool->home != getpid()) {
        run_alone(pool->threads, fn, arg);
    } else if (atomic_exchange_explicit(&pool->busy, true, memory_order_acquire)) {
        run_alone(pool->threads, fn, arg); /* a job inside a job: the team is busy with us */
    } else {
        pool->fn = fn;
        pool->arg = arg;
        do_shares(pool, publish(pool), 0);
        wait_done(pool);
        atomic_store_explicit(&pool->busy, false, memory_order_release);
    }
}

int sp_pool_threads(const sp_pool *pool)
{
    return pool->threads;
}

/* ------------------------------------------------------------------ life */

/* Workers take no signals: the host's handlers run on the host's threads. But a fault is the thread's own: one that is blocked kills
 * the process, whatever handler it has. */
static sparta_status start_workers(sp_pool *pool)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t all, before;
    int error = 0;
    sigfillset(&all);
    for (size_t i = 0; i < SP_COUNT(faults); i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < pool->threads && !error; i++) {
        worker *w = &pool->workers[i - 1];
        *w = (worker){.pool = pool, .i = i};
        error = pthread_create(&w->thread, NULL, work, w);
        if (!error) pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return SPARTA_OK;
    return sp_fail(pool->cx, SPARTA_E_LIMIT,
                   "pool: only %d of %d threads could be started: %s; use fewer (options.threads)",
                   pool->started + 1, pool->threads, strerror(error));
}

sp_pool *sp_pool_create(sparta_ctx *cx, int threads)
{
    const sparta_ctx_options *o = sp_ctx_options_of(cx);
    int cores = sp_cores();
    if (threads == 0) threads = SP_MIN(cores, MOST_THREADS);
    if (threads < 0 || threads > MOST_THREADS) {
        sp_fail(cx, SPARTA_E_USAGE, "pool: %d threads; give 1 to %d, or 0 for the cores available", threads,
                MOST_THREADS);
        return NULL;
    }
    sp_pool *pool = sp_zalloc(cx, sizeof *pool);
    if (!pool) return NULL;
    *pool = (sp_pool){
        .cx = cx, .threads = threads, .parallel_for = o->parallel_for, .host = o->host, .home = getpid()};
    pool->spin = threads > cores ? 0 : SPIN_SECONDS;
    if (threads == 1 || pool->parallel_for) return pool;
    pool->workers = sp_alloc_array(cx, (size_t)threads - 1, sizeof *pool->workers);
    pool->share = sp_zalloc(cx, (size_t)threads * sizeof *pool->share);
    if (!pool->workers || !pool->share || start_workers(pool)) {
        sp_pool_free(pool);
        return NULL;
    }
    return pool;
}

void sp_pool_free(sp_pool *pool)
{
    if (!pool) return;
    if (pool->home == getpid()) {
        atomic_store(&pool->stop, true);
        atomic_fetch_add(&pool->job, 1);
        futex_wake(&pool->job);
        for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    }
    sp_free(pool->cx, pool->workers);
    sp_free(pool->cx, pool->share);
    sp_free(pool->cx, pool);
}

/* ------------------------------------------------------------------ cores */

/* A container's quota (cgroup v2, as seen from inside): "max 100000" or "150000 100000". 0: none. */
static int quota_cores(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    long quota = 0, period = 0;
    if (!f) return 0;
    int n = fscanf(f, "%ld %ld", &quota, &period);
    fclose(f);
    if (n != 2 || quota <= 0 || period <= 0) return 0;
    return (int)SP_MIN((quota + period - 1) / period, (long)MOST_THREADS);
}

int sp_cores(void)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    int quota = quota_cores();
    if (quota) n = SP_MIN(n, quota);
    return n < 1 ? 1 : (int)n;
}
