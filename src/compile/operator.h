/* operator: from an expression to a call that is prepared; for the files of this room only.
 *
 *     operator_graph.c   "y(m,n) = x(m,k)*w(n,k) + b(n)" --> a graph of one node, its sizes found and checked
 *     operator.c         the node --> an implement, its weight stored, its code, a prepared call
 */
#ifndef SP_COMPILE_OPERATOR_H
#define SP_COMPILE_OPERATOR_H

#include "call/operator.h"
#include "compile/lower.h"

typedef struct operator_ref { /* name(index, index) */
    char name[32];
    int rank;
    char index[SPARTA_RANK][32];
} operator_ref;

typedef struct making {
    sparta_ctx *cx;
    const sparta_operator_spec *spec;
    sparta_operator *op;
    /* Of the expression. */
    int n;
    operator_ref ref[SP_OPERATOR_OPERANDS]; /* the result first */
    char name[64];                          /* sparta::Attention; "": a product */
    const char *attrs;                      /* "{heads=4}" of an operator; "" */
    /* Of the node. */
    int input[SP_OPERATOR_OPERANDS]; /* which operand; -1: absent */
    int n_in, weight;                /* operand that is a product's weight, or -1 */
} making;

static inline bool sp_operator_packed(const making *m, int i)
{
    return m->spec->packed && m->spec->packed[i];
}
static inline bool sp_operator_constant(const making *m, int i)
{
    return i > 0 && (m->spec->operand[i].data || sp_operator_packed(m, i));
}
/* Read the expression, find the sizes of its indices, and make op->graph of it. */
sparta_status sp_operator_graph(making *m) SP_MUST;
/* The place of an index in op->size. */
int sp_operator_size(making *m, const char *index);

#endif
