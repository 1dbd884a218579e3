/* propagate: sparsity that spreads, and the smaller model that gives the same answer.
 *
 * One pruned channel makes columns of the next layer dead, a bias makes them constants. Two facts flow:
 *
 *     known    forward     this element is 0, or this constant, whatever the inputs are
 *     needed   backward    some output depends on this element
 *
 *        x ----> Conv ----> BatchNorm ----> Relu ----> Conv ----> y
 *                 w[3]=0      y[3]=b'        y[3]=c      w[:,3] times c goes into its bias; channel 3 is gone everywhere
 *
 * How a fact passes an operator is said by the axes its operands share (ops/flow.h), so there is one carrier for all operators
 * and no operator is special here. What may go is then agreed on, axis by axis: an index of an axis goes when everybody who has
 * the axis can do without it,
 *
 *     its elements are not needed, or known; and every operand that shares the label says the same; and where it is summed over,
 *     what it adds is 0, or a constant that a bias can take up
 *
 * and what cannot go says who holds it. Compaction then slices the constants, rewrites the few attributes that count indices,
 * and infers every shape again, which must come out as agreed. Rounds follow until nothing changes.
 *
 * Sound: what is called known is so for all finite values. A product of a known zero and an unknown is taken for zero; the
 * sign of a zero is not known, and no rule depends on it. In a strict context (--strict) zero times unknown is unknown, and -0.0 is a
 * constant other than 0.
 *
 *     facts       facts.h what is kept of a value: its TeSA and what is needed of it; cells.c their contraction; constant.c what constants hold
 *     passes      known.c, evaluate.c forward; needed.c backward; hide.c what one operand settles for others; move.c both, for
 *                 operators that only move elements; precision.c types that spread
 *     changes     tidy.c first of a round, what is written in a way that hides axes; spare.c what could go, agree.c what does; compact.c the smaller graph,
 *                 slice.c its constants; fold.c constants into biases and initialisers; once.c constants that repeat; tie.c weights used twice
 *     words       report.c what went and what stayed; explain.c who holds it; request.c what a user asks to remove, heads.c of attentions
 */
#ifndef SP_PROPAGATE_H
#define SP_PROPAGATE_H

#include "ops/ops.h"
#include "tesa/attribute.h"

typedef struct sp_propagation sp_propagation;

/* What became of one initialiser. */
typedef struct sp_kept {
    const char *name;
    int rank;
    int64_t before[SPARTA_RANK], after[SPARTA_RANK];
    bool gone;              /* nobody uses it any more */
    const char *blocked_by; /* why dead slices stay, in words; "" */
} sp_kept;

typedef struct sp_propagate_report {
    /* Elements of initialisers of floats and quantised numbers. */
    int64_t parameters_before, parameters_after;
    int nodes_before, nodes_after, rounds;
    int moved; /* products whose constants went into a bias, where they are rounded once more */
    /* It ended before all was looked at: after how much, and what to do; "": all was. */
    const char *cut_short;
    int n;
    sp_kept *tensor; /* in the graph's arena */
} sp_propagate_report;

typedef struct sp_propagate_options {
    int n_remove;
    const char *const *remove; /* "encoder.2.heads=3,5": see request.c */
    const char *const *keep;   /* names of constants whose shape stays (a schedule pins their format) */
    int n_keep;
    int threads;   /* 0: the cores available */
    int multiple;  /* of indices that axes of weights keep; 0: 1 */
    double effort; /* a share of the steps that end a hostile model (facts.h); 0: all of them */
} sp_propagate_options;

/* Facts about every value of an inferred graph, which is not changed. */
sparta_status sp_propagate_facts(sp_graph *g, const sp_propagate_options *options,
                                 sp_propagation **out) SP_MUST;
void sp_propagation_free(sp_propagation *p);
/* What is known of a value; its precision is its type, or the narrower one it was dequantised from. Lives as long as p. */
const sp_tesa *sp_propagation_tesa(const sp_propagation *p, const sp_value *v);
/* Write what is known of every value that a node makes: a file of attributes. */
sparta_status sp_propagation_write(const sp_propagation *p, const char *path) SP_MUST;

/* Edit an inferred graph as a request says: "encoder.2.heads=3,5" or "conv1.weight=4-7" (request.c). */
sparta_status sp_propagate_remove(sp_graph *g, const char *request) SP_MUST;
/* Propagate and compact in place, to the fixed point. The graph is inferred, before and after. */
sparta_status sp_propagate(sp_graph *g, const sp_propagate_options *options,
                           sp_propagate_report *out) SP_MUST;
/* The report of a graph from which nothing is taken. */
sparta_status sp_propagate_nothing(sp_graph *g, sp_propagate_report *out) SP_MUST;
/* Before a graph is written to a file: transposed copies of weights that are also used as they are become a Transpose of them again,
 * so that the file has them once. The graph is for writing after that: infer would fold them. */
sparta_status sp_propagate_tie(sp_graph *g) SP_MUST;

#endif
