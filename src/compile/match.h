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
#ifndef SPARTA_COMPILE_MATCH_H
#define SPARTA_COMPILE_MATCH_H

#include "graph/graph.h"

typedef struct sparta_match {
    sparta_graph *g;
    int capacity;
    int *uses;            /* by value id: input slots of live nodes, and outputs */
    sparta_value **alias; /* by value id; NULL: itself */
    bool added;           /* nodes were appended: sort at the end */
} sparta_match;

/* One pass: begin, `visit` for every live node in order (nodes added on the way come last and are visited
 * too), sweep, sort. */
typedef sparta_status (*sparta_match_visit)(sparta_match *m, sparta_node *n, void *arg);
sparta_status sparta_match_run(sparta_graph *g, sparta_match_visit visit, void *arg) SPARTA_MUST;

/* ------------------------------------------------------------------ asking */
/* The node of operator `op` that makes v, or NULL. */
sparta_node *sparta_match_made_by(const sparta_value *v, sparta_op_id op);
int sparta_match_uses(const sparta_match *m, const sparta_value *v);
bool sparta_match_once(const sparta_match *m,
                       const sparta_value *v); /* one use, which is no output of the graph */
bool sparta_match_scalar(const sparta_value *v,
                         double *out); /* a constant of one element, not complex, as a number */
bool sparta_match_is(const sparta_value *v, double wanted); /* such a constant near `wanted` (1e-6 of it)? */
/* A small integer constant, at most SPARTA_RANK elements; their number, or -1. */
int sparta_match_ints(const sparta_value *v, int64_t out[SPARTA_RANK]);
bool sparta_match_f32(const sparta_value *v); /* typed, and f32 */
bool sparta_match_same_dims(const sparta_value *a, const sparta_value *b);
/* A constant f32 vector of n elements. */
bool sparta_match_vector(const sparta_value *v, const sparta_expr *n);
/* Of a node with two inputs: the scalar constant, and the other one (Add, Mul: either order). */
bool sparta_match_with_scalar(const sparta_node *n, sparta_value **other, double *scalar);
/* The axis attribute, counted from the front. */
int sparta_match_axis(const sparta_node *n, int64_t otherwise, int rank);
bool sparta_match_is_turn(const sparta_node *n); /* a Transpose of a matrix that does turn it */
/* Dims of all `in` broadcast together; false when they do not or are not known to. */
bool sparta_match_broadcast(int n, sparta_value *const *in, sparta_dims *out);

/* ------------------------------------------------------------------ changing */
/* The node is now another one with the same outputs; inputs nobody needs any more die. attrs are copied. */
sparta_status sparta_match_become(sparta_match *m, sparta_node *n, sparta_op_id op, int n_in,
                                  sparta_value *const *in, const sparta_attrs *attrs) SPARTA_MUST;
sparta_status sparta_match_rename(sparta_match *m, sparta_node *n, const char *name) SPARTA_MUST;
/* Output 0 of n is `by`: users are turned to it as the walk reaches them. An output of the graph keeps its
 * name. */
sparta_status sparta_match_alias(sparta_match *m, sparta_node *n, sparta_value *by) SPARTA_MUST;
/* A new typed node with one output; it sorts before its users at the end of the pass. */
sparta_status sparta_match_add(sparta_match *m, sparta_op_id op, const char *name, int n_in,
                               sparta_value *const *in, const sparta_attrs *attrs,
                               sparta_value **out) SPARTA_MUST;
/* A value that the pass is about to use outside of become and add. */
void sparta_match_use(sparta_match *m, sparta_value *v);
void sparta_match_release(sparta_match *m, sparta_value *v);
sparta_status sparta_match_room(sparta_match *m) SPARTA_MUST; /* after values were added to the graph */
/* An i64 constant of rank 1. */
sparta_status sparta_match_constant_ints(sparta_match *m, int n, const int64_t *ints,
                                         sparta_value **out) SPARTA_MUST;
/* The i64 vector of these expressions: a constant, or made from the shapes of inputs. NULL when it cannot be
 * said so. */
sparta_status sparta_match_shape_vector(sparta_match *m, int n, const sparta_expr *const *ints,
                                        sparta_value **out) SPARTA_MUST;
/* The second input of a Reshape of x to these dims, a constant where possible (0 copies a dim, one -1). NULL
 * when it cannot be said. */
sparta_status sparta_match_reshape_target(sparta_match *m, const sparta_value *x, const sparta_dims *dims,
                                          sparta_value **out) SPARTA_MUST;

/* Attributes for a compound literal: SPARTA_ATTRS(SPARTA_INT("axis", -1), SPARTA_STRING("activation",
 * "relu")). */
#define SPARTA_ATTRS(...)                                                                                    \
    &(sparta_attrs)                                                                                          \
    {                                                                                                        \
        (int)SPARTA_COUNT(((const sparta_attr[]){__VA_ARGS__})), (const sparta_attr[])                       \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define SPARTA_INT(key, value)                                                                               \
    {                                                                                                        \
        .name = (key), .kind = SPARTA_ATTR_INT, .i = (value)                                                 \
    }
#define SPARTA_FLOAT(key, value)                                                                             \
    {                                                                                                        \
        .name = (key), .kind = SPARTA_ATTR_FLOAT, .f = (value)                                               \
    }
#define SPARTA_STRING(key, value)                                                                            \
    {                                                                                                        \
        .name = (key), .kind = SPARTA_ATTR_STRING, .s = (value)                                              \
    }
#define SPARTA_INTS(key, count, values)                                                                      \
    {                                                                                                        \
        .name = (key), .kind = SPARTA_ATTR_INTS, .n = (count), .ints = (values)                              \
    }

#endif
