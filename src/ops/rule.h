/* What shape rules are made of.
 *
 *   fail        an error that names operator and node              types     which types an input may have
 *   axis, axes  counted from the back when negative                broadcast NumPy's rule on dims that are expressions
 *   same, binary, ...  whole rules that many operators share       list      a small integer input as expressions
 *
 * Before a rule runs, sp_ops_infer_node has checked that the node has the inputs and outputs its row asks
 * for, that all inputs are typed, the first with a type of the rule's, and has forgotten what was known of the outputs.
 */
#ifndef SP_OPS_RULE_H
#define SP_OPS_RULE_H

#include "ops/ops.h"

/* Sets of types, as bits. */
#define SP_TYPE(t)  (1u << (t))
#define SP_FLOATS   (SP_TYPE(SPARTA_F32) | SP_TYPE(SPARTA_F16) | SP_TYPE(SPARTA_BF16) | SP_TYPE(SPARTA_F64))
#define SP_SIGNED   (SP_TYPE(SPARTA_I8) | SP_TYPE(SPARTA_I16) | SP_TYPE(SPARTA_I32) | SP_TYPE(SPARTA_I64))
#define SP_UNSIGNED (SP_TYPE(SPARTA_U8) | SP_TYPE(SPARTA_U16) | SP_TYPE(SPARTA_U32) | SP_TYPE(SPARTA_U64))
#define SP_NUMBERS  (SP_FLOATS | SP_SIGNED | SP_UNSIGNED)
#define SP_BOOLS    SP_TYPE(SPARTA_BOOL)
#define SP_ANY      (SP_NUMBERS | SP_BOOLS)
#define SP_NARROW   /* stored, moved, cast and quantised, but not computed with */                           \
    (SP_TYPE(SPARTA_U4) | SP_TYPE(SPARTA_I4) | SP_TYPE(SPARTA_U2) | SP_TYPE(SPARTA_I2))
#define SP_ALL     (SP_ANY | SP_NARROW)
#define SP_INDICES (SP_TYPE(SPARTA_I32) | SP_TYPE(SPARTA_I64))
#define SP_WIDE    (SP_FLOATS | SP_INDICES | SP_TYPE(SPARTA_U32) | SP_TYPE(SPARTA_U64))

sparta_status sp_ops_fail(const sp_graph *g, const sp_node *n, sparta_status status, const char *format, ...)
    SP_PRINTF(4, 5);
/* Text for messages, in the arena; "?" when there is no memory. */
const char *sp_ops_say(const sp_graph *g, const sp_expr *x);
const char *sp_ops_say_dims(const sp_graph *g, const sp_dims *d);

static inline bool sp_ops_has(const sp_node *n, int i)
{
    return i < n->n_in && n->in[i];
}
/* Absent is fine. */
sparta_status sp_ops_types(const sp_graph *g, const sp_node *n, int i, unsigned types) SP_MUST;
sparta_status sp_ops_same_type(const sp_graph *g, const sp_node *n, int i, int j) SP_MUST;
sparta_status sp_ops_rank(const sp_graph *g, const sp_node *n, int i, int least, int most) SP_MUST;
sparta_status sp_ops_scalar(const sp_graph *g, const sp_node *n, int i) SP_MUST; /* one element */
sparta_status sp_ops_axis(const sp_graph *g, const sp_node *n, int64_t axis, int rank, int *out) SP_MUST;
/* Two dims that must agree. What is known to differ is E_SHAPE with `what` and both; what is not known is noted in the graph (solve.c
 * makes it known where it can, runs compare the rest). */
sparta_status sp_ops_agree(sp_graph *g, const sp_node *n, const char *what, const sp_expr *a,
                           const sp_expr *b) SP_MUST;
/* Sizes that are not known to be equal, nor to be 1, are taken to be equal. */
sparta_status sp_ops_broadcast(sp_graph *g, const sp_node *n, const sp_dims *a, const sp_dims *b,
                               sp_dims *out) SP_MUST;
/* `from` repeats into `to` without changing it? */
sparta_status sp_ops_broadcasts_to(sp_graph *g, const sp_node *n, const sp_dims *from,
                                   const sp_dims *to) SP_MUST;
sparta_status sp_ops_append(const sp_graph *g, const sp_node *n, sp_dims *d, const sp_expr *x) SP_MUST;
void sp_ops_set(sp_node *n, int i, sparta_dtype dtype, const sp_dims *dims);
/* Of output 0; SPARTA_OK, for a shape function to end with. */
sparta_status sp_ops_done(sp_node *n, sparta_dtype dtype, const sp_dims *dims) SP_MUST;

/* Whole shape functions: type and dims of the input; those of the first input, into which the second repeats; bools with the dims of the
 * input. ints.h has those that follow contents. */
sparta_status sp_ops_same(sp_graph *g, sp_node *n) SP_MUST;
sparta_status sp_ops_into(sp_graph *g, sp_node *n) SP_MUST;
sparta_status sp_ops_test(sp_graph *g, sp_node *n) SP_MUST;

#endif
