/* One package made ready to run again and again: session, inputs from the seed, outputs. For bench
 * and what-if. */
#ifndef SPARTA_MEASURE_RUNNER_H
#define SPARTA_MEASURE_RUNNER_H

#include "measure/measure.h"
#include "measure/peer.h"

typedef struct sparta_runner {
    sparta_ctx *cx;
    sparta_peer *peer;       /* owned: runs are its, and there is nothing else; NULL: ours */
    sparta_package *package; /* owned when `owns` */
    bool owns;
    sparta_session *session;
    sparta_named_tensor *in, *out;
    int n_in, n_out;
} sparta_runner;

/* Open a package, or compile an ONNX file in memory; into runner->package. */
sparta_status sparta_runner_open(sparta_ctx *cx, const char *path, const sparta_compile_request *compile,
                                 sparta_runner *out) SPARTA_MUST;
/* The model as it was given, before propagation, with dense implements only; weights that went are made from the seed. */
sparta_status sparta_runner_dense(sparta_ctx *cx, const sparta_runner *of,
                                  const sparta_compile_request *compile, uint64_t seed,
                                  sparta_runner *out) SPARTA_MUST;
/* Another session of the same package, which `of` keeps. */
sparta_runner sparta_runner_share(const sparta_runner *of);
typedef struct sparta_runner_start {
    int threads;
    bool profile;
    uint64_t seed;
    const sparta_bindings *sizes; /* complete */
} sparta_runner_start;
sparta_status sparta_runner_start_session(sparta_runner *r, const sparta_runner_start *how) SPARTA_MUST;
sparta_status sparta_runner_run(sparta_runner *r, double *seconds) SPARTA_MUST; /* seconds may be NULL */
/* What the package takes: its file, or its weights as they are stored when it was compiled in memory. */
size_t sparta_runner_bytes(const sparta_runner *r);

/* Times of runs, in order; in an arena. */
typedef struct sparta_samples {
    int64_t n, capacity;
    double *x; /* seconds */
    double sum;
} sparta_samples;
sparta_status sparta_samples_add(sparta_ctx *cx, sparta_arena *arena, sparta_samples *t,
                                 double seconds) SPARTA_MUST;
typedef struct sparta_alternation { /* how long two runners take turns */
    int64_t warmup, iterations;     /* runs of each; iterations 0: by the clock */
    double seconds;                 /* of each */
    void (*progress)(void *arg, int done, int all, const char *what); /* or NULL */
    void *progress_arg;
} sparta_alternation;
/* a, b, a, b, ... so that noise hits both; b NULL: a alone. */
sparta_status sparta_runner_alternate(sparta_arena *arena, sparta_runner *a, sparta_runner *b,
                                      const sparta_alternation *how, sparta_samples *times_a,
                                      sparta_samples *times_b) SPARTA_MUST;
void sparta_runner_close(sparta_runner *r); /* what is there; zeros are fine */

#endif
