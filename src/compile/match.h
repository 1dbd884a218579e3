/* match: what the passes are written in: who uses a value, is it this constant, rewrite that node.
 *
 * A pass walks the nodes in order. At the last node of a pattern (its root) it looks up through producers,
 * and when all is as it should be the root *becomes* the fused node: same output value, new operator and
 * inputs. What led there is left without users and is swept away at the end.
 *
 *     x --> Div --> Erf --> Add --> Mul --> y          x --------------> Gelu --> y
 *      \___________________________/                    \--> Div --> Erf --> Add      dead: uses 0, swept at
 * the end
 *
 * The table of uses is kept true while nodes change, dead ones do not count. Values made during the pass have
 * their uses counted too. Aliases: simplify says "y is x" and the users of y, which come later in the order,
 * are turned to x when the walk reaches them.
 */
#ifndef SP_COMPILE_MATCH_H
#define SP_COMPILE_MATCH_H

#include "graph/graph.h"

typedef struct sp_match {
    sp_graph *g;
    int capacity;
    int *uses;        /* by value id: input slots of live nodes, and outputs */
    sp_value **alias; /* by value id; NULL: itself */
    bool added;       /* nodes were appended: sort at the end */
    void *state;      /* the pass's own */
} sp_match;

/* One pass: begin, `visit` for every live node in order (nodes added on the way come last and are visited
 * too), sweep, sort. */
typedef sparta_status (*sp_match_visit)(sp_match *m, sp_node *n);
sparta_status sp_match_run(sp_graph *g, sp_match_visit visit, void *state) SP_MUST;
/* A row of passes.def that is no more than that. */
#define SP_MATCH_PASS(name, visit)                                                                           \
    sparta_status sp_pass_##name(sp_graph *g)                                                                \
    {                                                                                                        \
        return sp_match_run(g, visit, NULL);                                                                 \
    }

/* ------------------------------------------------------------------ asking */
/* The node of operator `op` that makes v, or NULL. */
sp_node *sp_match_made_by(const sp_value *v, sp_op_id op);
int sp_match_uses(const sp_match *m, const sp_value *v);
bool sp_match_once(const sp_match *m, const sp_value *v); /* one use, which is no output of the graph */
/* The nodes that read a value and are wanted themselves. Few values are asked about, so they are found by looking; a file that makes us look too often is
 * left as it is (`effort` is what may still be looked at). n = -1: that, more than there is room for, or an output of the graph. */
enum { SP_MATCH_READERS = 8 };
typedef struct sp_readers {
    int n;
    sp_node *node[SP_MATCH_READERS];
} sp_readers;
sp_readers sp_match_readers(const sp_match *m, const sp_value *v, int64_t *effort);
/* A constant of one element, not complex, as a number. */
bool sp_match_scalar(const sp_value *v, double *out);
bool sp_match_is(const sp_value *v, double wanted); /* such a constant near `wanted` (1e-6 of it)? */
/* A small integer constant, at most SPARTA_RANK elements; their number, or -1. */
int sp_match_ints(const sp_value *v, int64_t out[SPARTA_RANK]);
bool sp_match_f32(const sp_value *v); /* typed, and f32 */
bool sp_match_same_dims(const sp_value *a, const sp_value *b);
/* A constant f32 vector of n elements. */
bool sp_match_vector(const sp_value *v, const sp_expr *n);
/* Of a node with two inputs: the scalar constant, and the other one (Add, Mul: either order). */
bool sp_match_with_scalar(const sp_node *n, sp_value **other, double *scalar);
/* The axis attribute, counted from the front. */
int sp_match_axis(const sp_node *n, int64_t otherwise, int rank);
/* x and the range, when v is x[..., from:to] with steps of 1; else NULL. */
sp_value *sp_match_slice_of(const sp_value *v, int64_t *from, int64_t *to);
bool sp_match_is_turn(const sp_node *n); /* a Transpose of a matrix that does turn it */
/* Dims of all `in` broadcast together; false when they do not or are not known to. */
bool sp_match_broadcast(int n, sp_value *const *in, sp_dims *out);

/* ------------------------------------------------------------------ changing */
/* The node is now another one with the same outputs; inputs nobody needs any more die. attrs are copied. */
sparta_status sp_match_become(sp_match *m, sp_node *n, sp_op_id op, int n_in, sp_value *const *in,
                              const sp_attrs *attrs) SP_MUST;
sparta_status sp_match_rename(sp_match *m, sp_node *n, const char *name) SP_MUST;
/* Output 0 of n is `by`: users are turned to it as the walk reaches them. An output of the graph keeps its
 * name. */
sparta_status sp_match_alias(sp_match *m, sp_node *n, sp_value *by) SP_MUST;
/* A new typed node with one output; it sorts before its users at the end of the pass. */
sparta_status sp_match_add(sp_match *m, sp_op_id op, const char *name, int n_in, sp_value *const *in,
                           const sp_attrs *attrs, sp_value **out) SP_MUST;
/* x in parts of these sizes along its last axis; parts that are NULL are new values. */
sparta_status sp_match_split(sp_match *m, const char *name, sp_value *x, int n, const int64_t *sizes,
                             sp_value **part) SP_MUST;
/* A value that the pass is about to use outside of become and add. */
void sp_match_use(sp_match *m, sp_value *v);
void sp_match_release(sp_match *m, sp_value *v);
sparta_status sp_match_room(sp_match *m) SP_MUST; /* after values were added to the graph */
/* A constant with a copy of the tensor's elements; an i64 one of rank 1. */
sparta_status sp_match_constant(sp_match *m, const sparta_tensor *t, sp_value **out) SP_MUST;
sparta_status sp_match_constant_ints(sp_match *m, int n, const int64_t *ints, sp_value **out) SP_MUST;
/* Constants of equal numbers, of which every layer may have one: what a pass made of the first serves them all. */
enum { SP_MATCH_KNOWN = 16 };
typedef struct sp_match_known {
    int n;
    const sparta_tensor *from[SP_MATCH_KNOWN];
    sp_value *made[SP_MATCH_KNOWN];
} sp_match_known;
sp_value *sp_match_known_of(const sp_match_known *k, const sparta_tensor *t);  /* NULL: nothing yet */
void sp_match_know(sp_match_known *k, const sparta_tensor *t, sp_value *made); /* while there is room */
/* The i64 vector of these expressions: a constant, or made from the shapes of inputs. NULL when it cannot be
 * said so. */
sparta_status sp_match_shape_vector(sp_match *m, int n, const sp_expr *const *ints, sp_value **out) SP_MUST;
bool sp_match_is_size(const sp_node *n); /* a multiple of a size, as that makes it */
/* The second input of a Reshape of x to these dims, a constant where possible (0 copies a dim, one -1). NULL
 * when it cannot be said. */
sparta_status sp_match_reshape_target(sp_match *m, const sp_value *x, const sp_dims *dims,
                                      sp_value **out) SP_MUST;
/* x in these dims: a Reshape of it. NULL when its target cannot be said. */
sparta_status sp_match_reshaped(sp_match *m, const char *name, const sp_dims *dims, sp_value **x) SP_MUST;

#endif
