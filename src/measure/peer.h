/* Another library (peers.def) as the other side of bench: a Python that has it runs the ONNX file in a process of its own, one timed run a request,
 * on the same inputs with as many threads. It is stopped while ours runs. */
#ifndef SP_MEASURE_PEER_H
#define SP_MEASURE_PEER_H

#include "measure/measure.h"

/* Is it the name of such a library, the word for --against? NULL is none. */
bool sp_peer_known(const char *name);
const char *sp_peer_near(const char *name); /* the one that was perhaps meant, in whatever case; or NULL */

typedef struct sp_peer sp_peer;
typedef struct sp_peer_model {
    const char *library; /* one that is known */
    const char *path;    /* ONNX */
    int threads;
    const sparta_named_tensor *in;
    int n_in;
    const sparta_named_tensor *out; /* names */
    int n_out;
} sp_peer_model;

/* The first of $SPARTA_PYTHON, or python3 and .venv/bin/python, that imports the library; E_UNSUPPORTED: none does. */
sparta_status sp_peer_open(sparta_ctx *cx, const sp_peer_model *model, sp_peer **out) SP_MUST;
const char *sp_peer_name(const sp_peer *p); /* "onnxruntime 1.20.1" */
sparta_status sp_peer_run(sp_peer *p, double *seconds) SP_MUST;
/* Output i of the last run. Free with sp_free. */
sparta_status sp_peer_output(sp_peer *p, int i, sparta_tensor *out) SP_MUST;
void sp_peer_close(sp_peer *p);

#endif
