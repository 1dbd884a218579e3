/* onnxruntime as the other side of bench: a Python that has it runs the ONNX file in a process of its own, one timed run a request, on the
 * same inputs with as many threads. It is stopped while ours runs. */
#ifndef SPARTA_MEASURE_PEER_H
#define SPARTA_MEASURE_PEER_H

#include "measure/measure.h"

#define SPARTA_PEER "onnxruntime" /* the word for --against */

typedef struct sparta_peer sparta_peer;
typedef struct sparta_peer_model {
    const char *path; /* ONNX */
    int threads;
    const sparta_named_tensor *in;
    int n_in;
    const sparta_named_tensor *out; /* names */
    int n_out;
} sparta_peer_model;

/* The first of $SPARTA_PYTHON, or python3 and .venv/bin/python, that imports onnxruntime; E_UNSUPPORTED: none does. */
sparta_status sparta_peer_open(sparta_ctx *cx, const sparta_peer_model *model, sparta_peer **out) SPARTA_MUST;
const char *sparta_peer_name(const sparta_peer *p); /* "onnxruntime 1.20.1" */
sparta_status sparta_peer_run(sparta_peer *p, double *seconds) SPARTA_MUST;
/* Output i of the last run. Free with sparta_free. */
sparta_status sparta_peer_output(sparta_peer *p, int i, sparta_tensor *out) SPARTA_MUST;
void sparta_peer_close(sparta_peer *p);

#endif
