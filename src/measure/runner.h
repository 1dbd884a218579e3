/* One package made ready to run again and again: session, inputs from the seed, outputs. For bench
 * and what-if. */
#ifndef SP_MEASURE_RUNNER_H
#define SP_MEASURE_RUNNER_H

#include "measure/measure.h"
#include "measure/peer.h"

typedef struct sp_runner {
    sparta_ctx *cx;
    sp_peer *peer;           /* owned: runs are its, and there is nothing else; NULL: ours */
    sparta_package *package; /* owned when `owns` */
    bool owns;
    sparta_session *session;
    sparta_named_tensor *in, *out;
    int n_in, n_out;
} sp_runner;

/* Open a package, or compile an ONNX file in memory; into runner->package. */
sparta_status sp_runner_open(sparta_ctx *cx, const char *path, const sp_compile_request *compile,
                             sp_runner *out) SP_MUST;
/* The model as it was given, before propagation, with dense implements only; weights that went are made from the seed. Where the package has a plan
 * for as few tokens as these sizes make, it is for as few, too: a plan is no gain of sparsity. */
sparta_status sp_runner_dense(sparta_ctx *cx, const sp_runner *of, const sp_bindings *sizes,
                              const sp_compile_request *compile, uint64_t seed, sp_runner *out) SP_MUST;
/* Another session of the same package, which `of` keeps. */
sp_runner sp_runner_share(const sp_runner *of);
typedef struct sp_runner_start {
    int threads;
    bool profile;
    uint64_t seed;
    const sp_bindings *sizes;          /* complete */
    const sparta_named_tensor *inputs; /* copied; the others are made from the seed */
    int n_inputs;
} sp_runner_start;
sparta_status sp_runner_start_session(sp_runner *r, const sp_runner_start *how) SP_MUST;
/* What is said of sizes, and what the given inputs say where a dimension is a symbol. Lives in the arena. */
sparta_status sp_runner_sizes(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const sp_bindings *said,
                              const sparta_named_tensor *inputs, int n_inputs, sp_bindings *out) SP_MUST;
sparta_status sp_runner_run(sp_runner *r, double *seconds) SP_MUST; /* seconds may be NULL */
/* What the package takes: its file, or its weights as they are stored when it was compiled in memory. */
size_t sp_runner_bytes(const sp_runner *r);

/* Times of runs, in order; in an arena. */
typedef struct sp_samples {
    int64_t n, capacity;
    double *x; /* seconds */
    double sum;
} sp_samples;
sparta_status sp_samples_add(sp_arena *arena, sp_samples *t, double seconds) SP_MUST;
typedef struct sp_alternation {         /* how long two runners take turns */
    int64_t warmup, iterations;         /* runs of each; iterations 0: by the clock */
    double seconds;                     /* of each */
    const sparta_compile_options *told; /* whose progress is called */
} sp_alternation;
/* a, b, a, b, ... so that noise hits both; b NULL: a alone. */
sparta_status sp_runner_alternate(sp_arena *arena, sp_runner *a, sp_runner *b, const sp_alternation *how,
                                  sp_samples *times_a, sp_samples *times_b) SP_MUST;
void sp_runner_close(sp_runner *r); /* what is there; zeros are fine */

#endif
