/* Several sessions of one package at the same time, each in a thread of its own: what a server sees. */
#ifndef SP_MEASURE_LOAD_H
#define SP_MEASURE_LOAD_H

#include "measure/runner.h"

typedef struct sp_load sp_load;

/* n sessions of the package that `of` keeps open. */
sparta_status sp_load_open(sparta_ctx *cx, const sp_runner *of, int n, const sp_runner_start *how,
                           sp_load **out) SP_MUST;
/* Windows of a, b, a, b, ... (b NULL: a alone) for the request's time and after its warm-up. Latencies are those of every run; rates are one a
 * window: seconds over runs, of all sessions together. */
sparta_status sp_load_alternate(sp_arena *arena, sp_load *a, sp_load *b, const sp_bench_request *r,
                                sp_samples *latency_a, sp_samples *latency_b, sp_samples *rate_a,
                                sp_samples *rate_b) SP_MUST;
sparta_session *sp_load_session(const sp_load *l); /* the first */
void sp_load_close(sp_load *l);                    /* NULL is fine */

#endif
