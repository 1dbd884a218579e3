/* Arithmetic on contents that are expressions: how exported shape arithmetic is understood.
 *
 *     [batch, sequence, 256]  --Gather 0-->  batch  --Mul 4-->  4*batch  --Concat-->  [4*batch, -1]
 *
 * An operator that only moves elements is run on positions: its reference gets 0, 1, 2, ... in place of the
 * data, and what comes out says where each element came from. So one function serves Gather, Slice, Concat,
 * Where and all their kind.
 *
 * Symbols are sizes; for deciding signs they are taken to be at least 1 (an empty batch has no interesting
 * shape arithmetic). The references check what they get, so a wrong guess about a symbol is an error of the
 * run, not a wrong answer.
 */
#ifndef SP_OPS_INTS_H
#define SP_OPS_INTS_H

#include "ops/flow.h"
#include "ops/rule.h"

/* x >= 1, x >= 0, x <= -1 for all sizes of its symbols? false: not known. They allocate nothing. */
bool sp_ops_positive(const sp_graph *g, const sp_expr *x);
bool sp_ops_natural(const sp_graph *g, const sp_expr *x);
bool sp_ops_negative(const sp_graph *g, const sp_expr *x);
/* x / y where it divides for all sizes, else *out is NULL. */
sparta_status sp_ops_divide(const sp_graph *g, const sp_expr *x, const sp_expr *y,
                            const sp_expr **out) SP_MUST;

/* x + by; x / by, rounded up or down, by > 0; max(x, 0). NULL after a message, or of NULL. */
const sp_expr *sp_ops_plus(const sp_graph *g, const sp_expr *x, int64_t by);
const sp_expr *sp_ops_share(const sp_graph *g, const sp_expr *x, int64_t by, bool up);
const sp_expr *sp_ops_at_least_zero(const sp_graph *g, const sp_expr *x);

/* A list of integers: the contents of input i, which has rank 1 (or 0). */
typedef struct sp_list {
    int n;
    const sp_expr *const *x;
} sp_list;
/* E_UNSUPPORTED, naming `what`, when the contents are not known before running. An absent input gives n = -1.
 */
sparta_status sp_ops_list(sp_graph *g, const sp_node *n, int i, const char *what, sp_list *out) SP_MUST;
/* The same, where every element must be a constant. Up to `most` of them. */
sparta_status sp_ops_constants(sp_graph *g, const sp_node *n, int i, const char *what, int most, int64_t *out,
                               int *count) SP_MUST;
/* Axes as a set; a repeated one is E_SHAPE. count is -1 when the input is absent. */
sparta_status sp_ops_axes(sp_graph *g, const sp_node *n, int i, int rank, bool set[SPARTA_RANK],
                          int *count) SP_MUST;

/* Contents of output i, if it is a small integer tensor: the array has as many elements as it. */
void sp_ops_set_ints(sp_node *n, int i, const sp_expr *const *ints);
/* After the outputs' dims are set: contents of an operator that only moves the elements of the inputs in the
 * bit set `data`. */
sparta_status sp_ops_move(sp_graph *g, sp_node *n, unsigned data) SP_MUST;

/* Whole shape functions. Contents are computed by the rule's `follow` where it has one: of one input, follow(0, x); of two that
 * broadcast; of two whose result is a bool; of any number; of a list that is reduced. */
sparta_status sp_ops_unary(sp_graph *g, sp_node *n) SP_MUST;
sparta_status sp_ops_binary(sp_graph *g, sp_node *n) SP_MUST;
sparta_status sp_ops_compare(sp_graph *g, sp_node *n) SP_MUST;
sparta_status sp_ops_variadic(sp_graph *g, sp_node *n) SP_MUST;
sparta_status sp_ops_reduce(sp_graph *g, sp_node *n) SP_MUST;

/* What `follow` may be: *out is NULL where it does not know. Division and remainder answer only for a >= 0, b >= 1. */
sparta_status sp_ints_add(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_sub(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_mul(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_div(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_mod(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_min(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_max(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_equal(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_less(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_less_or_equal(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_greater(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);
sparta_status sp_ints_greater_or_equal(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);

/* ------------------------------------------------------------------ routes (route.c) */
/* Attributes block and keep are at least 1. */
sparta_status sp_ops_route(sp_graph *g, const sp_node *n) SP_MUST;
/* How many blocks of attribute block n things make. */
sparta_status sp_ops_blocks(sp_graph *g, const sp_node *node, const sp_expr *n, const sp_expr **out) SP_MUST;

#endif
