/* What shape rules are made of.
 *
 *   fail        an error that names operator and node              types     which types an input may have
 *   axis, axes  counted from the back when negative                broadcast NumPy's rule on dims that are expressions
 *   unary, binary, ...  whole rules that many operators share      list      a small integer input as expressions
 *
 * Before a rule runs, sparta_ops_infer_node has checked that the node has the inputs and outputs its row asks
 * for, that all inputs are typed, and has forgotten what was known of the outputs.
 */
#ifndef SPARTA_OPS_RULE_H
#define SPARTA_OPS_RULE_H

#include "ops/ops.h"

/* Sets of types, as bits. */
#define SPARTA_TYPE(t) (1u << (t))
#define SPARTA_FLOATS                                                                                        \
    (SPARTA_TYPE(SPARTA_F32) | SPARTA_TYPE(SPARTA_F16) | SPARTA_TYPE(SPARTA_BF16) | SPARTA_TYPE(SPARTA_F64))
#define SPARTA_SIGNED                                                                                        \
    (SPARTA_TYPE(SPARTA_I8) | SPARTA_TYPE(SPARTA_I16) | SPARTA_TYPE(SPARTA_I32) | SPARTA_TYPE(SPARTA_I64))
#define SPARTA_UNSIGNED                                                                                      \
    (SPARTA_TYPE(SPARTA_U8) | SPARTA_TYPE(SPARTA_U16) | SPARTA_TYPE(SPARTA_U32) | SPARTA_TYPE(SPARTA_U64))
#define SPARTA_NUMBERS (SPARTA_FLOATS | SPARTA_SIGNED | SPARTA_UNSIGNED)
#define SPARTA_BOOLS   SPARTA_TYPE(SPARTA_BOOL)
#define SPARTA_ANY     (SPARTA_NUMBERS | SPARTA_BOOLS)
#define SPARTA_NARROW  /* stored, moved, cast and quantised, but not computed with */                        \
    (SPARTA_TYPE(SPARTA_U4) | SPARTA_TYPE(SPARTA_I4) | SPARTA_TYPE(SPARTA_U2) | SPARTA_TYPE(SPARTA_I2))
#define SPARTA_INDICES (SPARTA_TYPE(SPARTA_I32) | SPARTA_TYPE(SPARTA_I64))

sparta_status sparta_ops_fail(const sparta_graph *g, const sparta_node *n, sparta_status status,
                              const char *format, ...) SPARTA_PRINTF(4, 5);
/* Text for messages, in the arena; "?" when there is no memory. */
const char *sparta_ops_say(const sparta_graph *g, const sparta_expr *x);
const char *sparta_ops_say_dims(const sparta_graph *g, const sparta_dims *d);

static inline bool sparta_ops_has(const sparta_node *n, int i)
{
    return i < n->n_in && n->in[i];
}
sparta_status sparta_ops_types(const sparta_graph *g, const sparta_node *n, int i,
                               unsigned types) SPARTA_MUST; /* absent is fine */
sparta_status sparta_ops_same_type(const sparta_graph *g, const sparta_node *n, int i, int j) SPARTA_MUST;
sparta_status sparta_ops_rank(const sparta_graph *g, const sparta_node *n, int i, int least,
                              int most) SPARTA_MUST;
sparta_status sparta_ops_scalar(const sparta_graph *g, const sparta_node *n,
                                int i) SPARTA_MUST; /* one element */
sparta_status sparta_ops_axis(const sparta_graph *g, const sparta_node *n, int64_t axis, int rank,
                              int *out) SPARTA_MUST;
/* Two dims that must agree. What is known to differ is E_SHAPE with `what` and both; what is not known is noted in the graph (solve.c
 * makes it known where it can, runs compare the rest). */
sparta_status sparta_ops_agree(sparta_graph *g, const sparta_node *n, const char *what, const sparta_expr *a,
                               const sparta_expr *b) SPARTA_MUST;
/* Sizes that are not known to be equal, nor to be 1, are taken to be equal. */
sparta_status sparta_ops_broadcast(sparta_graph *g, const sparta_node *n, const sparta_dims *a,
                                   const sparta_dims *b, sparta_dims *out) SPARTA_MUST;
/* `from` repeats into `to` without changing it? */
sparta_status sparta_ops_broadcasts_to(sparta_graph *g, const sparta_node *n, const sparta_dims *from,
                                       const sparta_dims *to) SPARTA_MUST;
sparta_status sparta_ops_append(const sparta_graph *g, const sparta_node *n, sparta_dims *d,
                                const sparta_expr *x) SPARTA_MUST;
void sparta_ops_set(sparta_node *n, int i, sparta_dtype dtype, const sparta_dims *dims);

/* Whole rules. */
sparta_status sparta_ops_unary(sparta_graph *g, sparta_node *n, unsigned types) SPARTA_MUST;
sparta_status sparta_ops_test(sparta_graph *g, sparta_node *n,
                              unsigned types) SPARTA_MUST; /* one input, bools out */

#endif
