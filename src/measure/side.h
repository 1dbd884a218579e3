/* One of the two models that verify compares; for verify.c and difference.c. */
#ifndef SPARTA_MEASURE_SIDE_H
#define SPARTA_MEASURE_SIDE_H

#include "measure/measure.h"

typedef struct sparta_side {
    sparta_ctx *cx;
    const char *path;
    sparta_package *package; /* one of package and model */
    sparta_session *session;
    sparta_model *model;
    const sparta_graph *graph; /* plan or model's */
    bool bound;                /* the sizes of the request replace the model's symbols */
} sparta_side;

/* The ONNX file of a side anew, with masks, schedule and removals (of B alone, when both sides are ONNX), not inferred. */
sparta_status sparta_side_model(const sparta_side *s, const sparta_verify_request *r,
                                sparta_model **out) SPARTA_MUST;
/* Set out->first_difference: the name of the first value that differs when both run on these inputs. */
sparta_status sparta_first_difference(sparta_side *a, sparta_side *b, const sparta_named_tensor *in, int n_in,
                                      const sparta_verify_request *r, sparta_arena *arena,
                                      sparta_verify_result *out) SPARTA_MUST;

#endif
