/* One package made ready to run again and again: session, inputs from the seed, outputs. For bench, verify
 * and kernel bench. */
#ifndef SPARTA_MEASURE_RUNNER_H
#define SPARTA_MEASURE_RUNNER_H

#include "measure/measure.h"

typedef struct sparta_runner {
    sparta_ctx *cx;
    sparta_package *package; /* owned when `owns` */
    bool owns;
    sparta_session *session;
    sparta_named_tensor *in, *out;
    int n_in, n_out;
} sparta_runner;

/* Open a package, or compile an ONNX file in memory; into runner->package. */
sparta_status sparta_runner_open(sparta_ctx *cx, const char *path, const sparta_compile_request *compile,
                                 sparta_runner *out) SPARTA_MUST;
/* The same model with dense implements only. */
sparta_status sparta_runner_dense(sparta_ctx *cx, const sparta_runner *of,
                                  const sparta_compile_request *compile, sparta_runner *out) SPARTA_MUST;
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
void sparta_runner_close(sparta_runner *r); /* what is there; zeros are fine */

#endif
