/* Loops that a caller shares with threads which would wait for it. */
#include "base/ctx.h"

enum {
    SHARE_FROM = 1 << 18,  /* units from which on another thread helps: some tens of microseconds */
    CHECK_EVERY = 1 << 22, /* units between looks at cancellation */
};

typedef struct shared {
    const sparta_ctx *cx;
    int64_t n, grain; /* grain: items between looks at cancellation */
    int threads;
    void (*fn)(void *arg, int64_t from, int64_t to);
    void *arg;
} shared;

static void part(void *arg, int thread)
{
    const shared *s = arg;
    const int64_t each = s->n / s->threads, more = s->n % s->threads;
    int64_t at = each * thread + SP_MIN((int64_t)thread, more);
    const int64_t end = at + each + (thread < more);
    while (at < end && !sp_ctx_cancelled(s->cx)) {
        const int64_t to = end - at > s->grain ? at + s->grain : end;
        s->fn(s->arg, at, to);
        at = to;
    }
}

void sp_ctx_lend(sparta_ctx *cx, sp_pool *team)
{
    cx->team = team;
}

sparta_status sp_ctx_share(sparta_ctx *cx, int64_t n, int64_t each,
                           void (*fn)(void *arg, int64_t from, int64_t to), void *arg)
{
    int64_t all;
    if (each < 1) each = 1;
    const bool large = !sp_int_mul(n, each, &all) || all >= SHARE_FROM;
    shared s = {cx, n, SP_MAX(CHECK_EVERY / each, (int64_t)1), 1, fn, arg};
    if (large && cx->team) s.threads = sp_pool_threads(cx->team);
    if (s.threads > 1)
        sp_pool_run(cx->team, part, &s);
    else
        part(&s, 0);
    return sp_check_cancel(cx);
}
