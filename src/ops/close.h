/* close: is an answer that of the reference, but for rounding?
 *
 * Of one output, a against the reference's b:
 *
 *     max|a-b| <= rtol * max|b| + 1e-6 * s
 *
 * s is the largest operand of the node that computes the output, in the reference's run; of a product the largest term, of what picks,
 * multiplies or takes roots and exponentials no more than the result says (ceiling in close.c). The first term compares outputs of any
 * size, 1e-8 too, but takes max|b| for no less than the smallest number that has all its digits (1.2e-38 of f32); the second forgives sums that cancel, whose rounding is that
 * of what was summed, not of what is left of it.
 *
 *     y = x - mean(x)      x about 1000, y about 1e-4:  the digits of y end at 1000 * 2^-24
 *
 * The outputs of a quantised graph are forgiven more: answer.c says how much. Whatever is forgiven besides rtol is the output's slack. An answer
 * that is not close even so may be that of a model that magnifies rounding: units.c measures how far.
 * compile's own check and verify both ask here:
 *
 *     sp_answer answer = {inputs, n, outputs, slack};
 *     SP_TRY(sp_ops_answer(cx, g, &answer));
 *     sp_close(&got, &outputs[0], &tolerance, slack[0], &closeness);
 */
#ifndef SP_OPS_CLOSE_H
#define SP_OPS_CLOSE_H

#include "ops/ops.h"

enum { SP_UNITS_TEXT = 160 };

typedef struct sp_tolerance {
    double rtol; /* < 0: 1e-4; 2e-2 for f16 and bf16, 0 for integers */
    double atol; /* in place of the slack; < 0: that */
} sp_tolerance;

typedef struct sp_closeness {
    double max_abs, max_rel, cosine;
    double finite;  /* max_abs of what is finite on both sides */
    int64_t broken; /* elements that are NaN or Inf on one side only */
    double largest; /* max|b| */
    double allowed; /* what max_abs may be */
    bool ok;
} sp_closeness;

/* NaN equals NaN, Inf equals Inf of the same sign; max_abs is Inf where they do not, or where shapes or types differ. */
bool sp_close(const sparta_tensor *a, const sparta_tensor *b, const sp_tolerance *t, double slack,
              sp_closeness *out);

/* NaN or Inf on one side only. */
bool sp_is_broken(double a, double b);

/* The largest finite element, by its absolute value. */
double sp_largest(const sparta_tensor *t);

/* A run of the references. */
typedef struct sp_answer {
    const sparta_named_tensor *in;
    int n_in;
    sparta_tensor *out; /* to be filled: one an output of the graph, sp_free each data */
    double *slack;      /* to be filled: of each */
} sp_answer;
sparta_status sp_ops_answer(sparta_ctx *cx, const sp_graph *g, const sp_answer *a) SP_MUST;

/* What one unit in the last place of what sums and normalisations read does to an output (units.c): another run of the references, for answers
 * that are not close without it. */
typedef struct sp_units {
    double change;      /* the most of what is finite with it and without; 0 of integers */
    int64_t broken;     /* elements that are NaN or Inf with it or without it, and not both */
    int64_t elements;   /* of the output */
    sparta_tensor mark; /* of its shape, a float: NaN in elements that are broken */
} sp_units;

/* To be filled: units[g->n_outputs], which are zeros, and freed where it fails. broken: the answer in question is NaN or Inf where the reference is not,
 * or the other way round; the references run a few times, as chance decides where that is. */
sparta_status sp_ops_units(sparta_ctx *cx, const sp_graph *g, const sp_answer *a, bool broken,
                           sp_units *units) SP_MUST;
void sp_units_free(sparta_ctx *cx, sp_units *units, int n);
/* That, of one tensor and its answer, neither with gaps: moved becomes the mark. */
sp_units sp_units_of(const sparta_tensor *moved, const sparta_tensor *answer);
/* As sp_close, with twice the change added to the slack, and without the elements that are broken, unless all are; units may be NULL. */
bool sp_close_units(const sparta_tensor *a, const sparta_tensor *b, const sp_tolerance *t, double slack,
                    const sp_units *units, sp_closeness *out);
/* "one unit in the last place changes 0.01 and makes 3 of 8 elements NaN or Inf" */
const char *sp_units_print(const sp_units *units, char out[SP_UNITS_TEXT]);
/* Every element at random by up to so many units in its last place, exact ones not; t has no gaps. */
void sp_move_units(const sparta_tensor *t, double units, sp_rng *rng);

/* The largest finite element, by its absolute value, of every value that a run of the references computed. */
typedef struct sp_scales {
    sparta_ctx *cx;
    const sp_graph *g;
    double *largest; /* by value id; -1: not computed, or a constant not looked at yet */
} sp_scales;

sparta_status sp_scales_create(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *inputs, int n,
                               sp_scales *out) SP_MUST;
void sp_scales_free(sp_scales *s);
sparta_status sp_scales_watch(void *scales, const sp_value *v, const sparta_tensor *t); /* a sp_ops_watch */
double sp_scales_of(const sp_scales *s, const sp_value *v);                             /* s of a value */
double sp_slack(const sp_scales *s, const sp_value *v); /* 1e-6 * s; 0 of integers */
/* The node that computes a value: through what only moves it; NULL: none, it is an input or a constant. */
const sp_node *sp_computed_by(const sp_value *v);

#endif
