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
#ifndef SPARTA_OPS_INTS_H
#define SPARTA_OPS_INTS_H

#include "ops/rule.h"

/* x >= 1, x >= 0, x <= -1 for all sizes of its symbols? false: not known. They allocate nothing. */
bool sparta_ops_positive(const sparta_graph *g, const sparta_expr *x);
bool sparta_ops_natural(const sparta_graph *g, const sparta_expr *x);
bool sparta_ops_negative(const sparta_graph *g, const sparta_expr *x);
/* x / y where it divides for all sizes, else *out is NULL. */
sparta_status sparta_ops_divide(const sparta_graph *g, const sparta_expr *x, const sparta_expr *y,
                                const sparta_expr **out) SPARTA_MUST;

/* A list of integers: the contents of input i, which has rank 1 (or 0). */
typedef struct sparta_list {
    int n;
    const sparta_expr *const *x;
} sparta_list;
/* E_UNSUPPORTED, naming `what`, when the contents are not known before running. An absent input gives n = -1.
 */
sparta_status sparta_ops_list(sparta_graph *g, const sparta_node *n, int i, const char *what,
                              sparta_list *out) SPARTA_MUST;
/* The same, where every element must be a constant. Up to `most` of them. */
sparta_status sparta_ops_constants(sparta_graph *g, const sparta_node *n, int i, const char *what, int most,
                                   int64_t *out, int *count) SPARTA_MUST;
/* Axes as a set; a repeated one is E_SHAPE. count is -1 when the input is absent. */
sparta_status sparta_ops_axes(sparta_graph *g, const sparta_node *n, int i, int rank, bool set[SPARTA_RANK],
                              int *count) SPARTA_MUST;

/* Contents of output i, if it is a small integer tensor: the array has as many elements as it. */
void sparta_ops_set_ints(sparta_node *n, int i, const sparta_expr *const *ints);
/* After the outputs' dims are set: contents of an operator that only moves the elements of the inputs in the
 * bit set `data`. */
sparta_status sparta_ops_move(sparta_graph *g, sparta_node *n, unsigned data) SPARTA_MUST;

/* Rule of a broadcasting operator on two inputs of one type; f, which may be NULL, computes contents, and
 * leaves *out NULL where it cannot. */
typedef sparta_status (*sparta_ints_fn)(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                        const sparta_expr **out);
sparta_status sparta_ops_binary(sparta_graph *g, sparta_node *n, unsigned types,
                                sparta_ints_fn f) SPARTA_MUST;
sparta_status sparta_ops_compare(sparta_graph *g, sparta_node *n, unsigned types,
                                 sparta_ints_fn f) SPARTA_MUST; /* bools out */
sparta_status sparta_ops_variadic(sparta_graph *g, sparta_node *n, sparta_ints_fn f) SPARTA_MUST;
sparta_status sparta_ops_reduce(sparta_graph *g, sparta_node *n, unsigned types,
                                sparta_ints_fn f) SPARTA_MUST;

/* What f may be. Division and remainder answer only for a >= 0, b >= 1. */
sparta_status sparta_ints_add(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out);
sparta_status sparta_ints_sub(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out);
sparta_status sparta_ints_mul(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out);
sparta_status sparta_ints_div(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out);
sparta_status sparta_ints_mod(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out);
sparta_status sparta_ints_min(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out);
sparta_status sparta_ints_max(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                              const sparta_expr **out);
sparta_status sparta_ints_equal(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                const sparta_expr **out);
sparta_status sparta_ints_less(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                               const sparta_expr **out);
sparta_status sparta_ints_less_or_equal(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                        const sparta_expr **out);
sparta_status sparta_ints_greater(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                  const sparta_expr **out);
sparta_status sparta_ints_greater_or_equal(sparta_graph *g, const sparta_expr *a, const sparta_expr *b,
                                           const sparta_expr **out);

#endif
