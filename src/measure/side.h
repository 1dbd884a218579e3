/* One of the two models that verify compares; for verify.c and difference.c. */
#ifndef SP_MEASURE_SIDE_H
#define SP_MEASURE_SIDE_H

#include "measure/measure.h"

typedef struct sp_side {
    sparta_ctx *cx;
    const char *path;
    sparta_package *package; /* one of package and model */
    sparta_session *session;
    sp_model *model;
    const sp_graph *graph; /* plan or model's */
    bool bound;            /* the sizes of the request replace the model's symbols */
} sp_side;

/* The ONNX file of a side anew, with masks, schedule and removals (of B alone, when both sides are ONNX), not inferred. */
sparta_status sp_side_model(const sp_side *s, const sp_verify_request *r, sp_model **out) SP_MUST;
/* Set out->first_difference: the name of the first value that differs when both run on these inputs. */
sparta_status sp_first_difference(sp_side *a, sp_side *b, const sparta_named_tensor *in, int n_in,
                                  const sp_verify_request *r, sp_arena *arena, sp_verify_result *out) SP_MUST;

#endif
