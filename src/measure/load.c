/* Several sessions at the same time.
 *
 *   window of a:  thread 0  |run|run|run|      each thread has a context, a session and inputs of its own; the package is shared
 *                 thread 1  |run |run |run|    each begins no run after the window's end, and finishes the last
 *   window of b:  ...
 *
 * The rate of a window is the sum of what each thread did by its own clock, so that a thread that is done early is not counted as waiting.
 */
#include "measure/load.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { WINDOWS = 12 }; /* that the time is cut into, at least */

typedef struct worker {
    sp_load *of;
    sparta_ctx *cx;
    sp_arena *arena;
    sp_runner runner;
    sp_samples latency; /* of the last window */
    double took;
    sparta_status status;
} worker;

struct sp_load {
    sparta_ctx *cx;
    int n;
    worker *worker;
    atomic_bool stop; /* one failed, or was cancelled */
    double until;     /* no run begins after it */
    int64_t least;    /* runs of each thread, whatever the clock says */
};

static sparta_status open_worker(sp_load *l, const sp_runner *of, const sp_runner_start *how, worker *w)
{
    w->of = l;
    w->cx = sparta_ctx_create(sp_ctx_options_of(l->cx));
    if (!w->cx)
        return sp_fail(l->cx, SPARTA_E_MEMORY, "bench: no memory for another session; lower --concurrency");
    w->runner = sp_runner_share(of);
    w->runner.cx = w->cx;
    sparta_status status = sp_runner_start_session(&w->runner, how);
    return status ? sp_fail(l->cx, status, "%s", sparta_message(w->cx)) : SPARTA_OK;
}

sparta_status sp_load_open(sparta_ctx *cx, const sp_runner *of, int n, const sp_runner_start *how,
                           sp_load **out)
{
    sp_load *l = sp_zalloc(cx, sizeof *l);
    SP_NEED(cx, l);
    l->cx = cx;
    l->worker = sp_alloc_array(cx, (size_t)n, sizeof *l->worker);
    sparta_status status = l->worker ? SPARTA_OK : sp_ctx_status(cx);
    for (; !status && l->n < n; l->n++) status = open_worker(l, of, how, &l->worker[l->n]);
    if (status)
        sp_load_close(l);
    else
        *out = l;
    return status;
}

sparta_session *sp_load_session(const sp_load *l)
{
    return l->worker[0].runner.session;
}

void sp_load_close(sp_load *l)
{
    if (!l) return;
    for (int i = 0; i < l->n; i++) {
        sp_runner_close(&l->worker[i].runner);
        sp_arena_free(l->worker[i].arena);
        sparta_ctx_free(l->worker[i].cx);
    }
    sp_free(l->cx, l->worker);
    sp_free(l->cx, l);
}

/* ------------------------------------------------------------------ a window */

static sparta_status run_window(worker *w)
{
    const double start = sp_now();
    double now = start;
    sp_arena_free(w->arena);
    w->latency = (sp_samples){0};
    w->arena = sp_arena_create(w->cx);
    SP_NEED(w->cx, w->arena);
    while ((w->latency.n < w->of->least || now < w->of->until) && !atomic_load(&w->of->stop)) {
        double seconds;
        if (w == w->of->worker && sp_check_cancel(w->of->cx)) sparta_ctx_cancel(w->cx);
        SP_TRY(sp_runner_run(&w->runner, &seconds));
        SP_TRY(sp_samples_add(w->arena, &w->latency, seconds));
        now = sp_now();
    }
    w->took = now - start;
    return SPARTA_OK;
}

static void *work(void *arg)
{
    worker *w = arg;
    w->status = run_window(w);
    if (w->status) atomic_store(&w->of->stop, true);
    return NULL;
}

/* The first thread is the caller's. A cancellation is noticed by it, and by the flag by the others. */
static sparta_status run_all(sp_load *l)
{
    pthread_t *thread = sp_alloc_array(l->cx, (size_t)l->n, sizeof *thread);
    SP_NEED(l->cx, thread);
    int started = 1;
    sparta_status status = SPARTA_OK;
    atomic_store(&l->stop, false);
    while (started < l->n && !pthread_create(&thread[started], NULL, work, &l->worker[started])) started++;
    if (started < l->n) {
        atomic_store(&l->stop, true);
        status =
            sp_fail(l->cx, SPARTA_E_MEMORY, "bench: no thread %d of %d; lower --concurrency", started, l->n);
    } else
        work(&l->worker[0]);
    for (int i = 1; i < started; i++) pthread_join(thread[i], NULL);
    sp_free(l->cx, thread);
    for (int i = 0; i < l->n && !status; i++)
        if (l->worker[i].status)
            status = sp_fail(l->cx, l->worker[i].status, "%s", sparta_message(l->worker[i].cx));
    return status ? status : sp_check_cancel(l->cx);
}

static sparta_status window(sp_arena *arena, sp_load *l, double seconds, sp_samples *latency,
                            sp_samples *rate)
{
    double rates = 0;
    l->until = sp_now() + seconds;
    l->least = 1;
    SP_TRY(sp_check_cancel(l->cx));
    SP_TRY(run_all(l));
    for (int i = 0; i < l->n; i++) {
        const worker *w = &l->worker[i];
        for (int64_t k = 0; k < w->latency.n; k++) SP_TRY(sp_samples_add(arena, latency, w->latency.x[k]));
        rates += (double)w->latency.n / SP_MAX(w->took, 1e-9);
    }
    return sp_samples_add(arena, rate, 1 / rates);
}

static sparta_status warm(sp_load *l, int64_t runs)
{
    l->until = 0;
    l->least = runs;
    return runs ? run_all(l) : SPARTA_OK;
}

sparta_status sp_load_alternate(sp_arena *arena, sp_load *a, sp_load *b, const sp_bench_request *r,
                                sp_samples *latency_a, sp_samples *latency_b, sp_samples *rate_a,
                                sp_samples *rate_b)
{
    const double each = SP_MIN(r->seconds / WINDOWS, 0.25), start = sp_now();
    const double all = r->seconds * (b ? 2 : 1);
    SP_TRY(warm(a, r->warmup));
    if (b) SP_TRY(warm(b, r->warmup));
    do {
        SP_TRY(window(arena, a, each, latency_a, rate_a));
        if (b) SP_TRY(window(arena, b, each, latency_b, rate_b));
        sp_compile_tell(&r->compile.options, (int)(100 * SP_MIN((sp_now() - start) / all, 1)), 100,
                        "measuring");
    } while (rate_a->n < 5 || sp_now() - start < all);
    return SPARTA_OK;
}
