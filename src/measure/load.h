/* Several sessions of one package at the same time, each in a thread of its own: what a server sees. */
#ifndef SPARTA_MEASURE_LOAD_H
#define SPARTA_MEASURE_LOAD_H

#include "measure/runner.h"

typedef struct sparta_load sparta_load;

/* n sessions of the package that `of` keeps open. */
sparta_status sparta_load_open(sparta_ctx *cx, const sparta_runner *of, int n, const sparta_runner_start *how,
                               sparta_load **out) SPARTA_MUST;
/* Windows of a, b, a, b, ... (b NULL: a alone) for the request's time and after its warm-up. Latencies are those of every run; rates are one a
 * window: seconds over runs, of all sessions together. */
sparta_status sparta_load_alternate(sparta_arena *arena, sparta_load *a, sparta_load *b,
                                    const sparta_bench_request *r, sparta_samples *latency_a,
                                    sparta_samples *latency_b, sparta_samples *rate_a,
                                    sparta_samples *rate_b) SPARTA_MUST;
void sparta_load_close(sparta_load *l); /* NULL is fine */

#endif
