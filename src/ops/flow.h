/* flow: how facts flow through an operator, said once, as the axes its operands share.
 *
 * Propagation (room propagate) knows what is known of a value (zero, a constant) and what is needed of it. To carry
 * facts through a node it asks one thing: which axes of its operands are the same. An operator answers with labels,
 * as einsum and einops do:
 *
 *     Relu              x: b s c                     y: b s c          each
 *     MatMul            x: b m k    w: b k n         y: b m n          product, k summed
 *     Conv, grouped     x: b (g i) h w               y: b (g o) p q    product; i, its taps and h w summed
 *                       w: (g o) i t u   bias: (g o)
 *     Softmax           x: b s t                     y: b s t          t whole: each t depends on every t
 *     Reshape           x: b s (h d)                 y: b s h d        move
 *     Concat            x0: b L[0..)  x1: b L[64..)  y: b L            move, windows of one label
 *     Gather            x: L c                       y: L[3 1 4] c     move, picks of one label
 *
 * A label is an index space that operands have in common. An axis of an operand is one label, several (major first:
 * a composite), a window or pick of one (index i of the axis is index from + i * step, or at[i], of the label), or
 * none (size 1, repeated). Windows and picks are for MOVE alone.
 *
 * A label that only an input of a MOVE has is at index 0: of a window, the place where `from` puts that (a Gather of index 3 alone
 * takes L[-3..) of one index); of a label whose size is a symbol, anywhere, since facts are alike along it. One that only the output
 * has repeats.
 *
 * How outputs come from inputs:
 *
 *   FUNCTION   out = f(every element of the inputs that it shares labels with). Known where all of those are; the
 *              value is computed by running the reference on the constants alone.
 *   PRODUCT    out = sum over the summed labels of the product of the FACTORs, and ARGs, plus TERMs. Zero where a
 *              factor is, for finite values (with --strict a zero times an unknown is not zero). Of a summed label an ARG
 *              counts at every index while one of the products does; such an axis has no other label.
 *   MOVE       every element of an output is one of an input, or `fill`. Constants, zeros and precision pass.
 *   SIZES      outputs tell sizes of input 0, not contents: output element i reads axis i + first.
 *   OPAQUE     nothing is known, everything is needed, nothing can go. The default.
 *
 * What an operand holds may settle the result, whatever others hold: it hides them. A factor that is 0 hides the factors and
 * ARGs beside it, which PRODUCT says. `hides` says the rest: hides[0] lists inputs that do not count at the indices where this one is
 * known to be 0, hides[1] those that do not where it is known to be something else. What is hidden need not be known, and is not
 * needed. In a FUNCTION that holds for all values, infinities and NaN too; in a PRODUCT for finite ones, as its zeros do.
 *
 *     Where        the condition hides the choice it does not take             hides[0] = {1}, hides[1] = {2}
 *     Or           true hides the other                                        hides[1] = {the other}
 *     ReduceProd   a zero hides the rest of its line: an input that hides      hides[0] = {itself}
 *                  itself does so along its WHOLE labels
 *
 * What is done to a result once it is mixed comes `after`: a LayerNormalization's scale has the label that its statistics run over, and
 * yet scale[c] meets y[c] alone. Such an operand has the indices of WHOLE labels that the output has.
 *
 * Why an index of a label cannot be removed is a text for the user (`why`); NULL where it can be when all operands
 * agree. A label of kind WHOLE never can.
 */
#ifndef SP_OPS_FLOW_H
#define SP_OPS_FLOW_H

#include "ops/ops.h"
#include "ops/rule.h"

enum { SP_LABELS = 32, SP_COMPOSITE = 6 };

typedef enum {
    SP_EACH, /* index by index */
    SP_SUM,  /* only inputs have it: added up; zero summands may go */
    SP_WHOLE /* every index of the output depends on every index of the input */
} sp_label_kind;

typedef struct sp_label {
    sp_label_kind kind;
    int64_t size;    /* -1: not a number */
    const char *why; /* why its indices stay; NULL: they may go */
    /* Its size in a run on constants that are alike along it; 0: 1 for EACH, all of it otherwise; -1: no run. */
    int64_t run;
    bool alike; /* such a run is possible only where constants are alike along it */
    bool made;  /* only the output has it, and is the same at every index: there may be fewer */
} sp_label;

typedef struct sp_axis {
    int n; /* labels; 0: size 1 */
    int label[SP_COMPOSITE];
    bool window; /* n is 1, and this is where its indices are */
    int64_t from, step;
    const int64_t *at; /* in place of from and step; NULL: none */
} sp_axis;

typedef enum {
    SP_SIDE,   /* a parameter such as a shape, or absent: must be there as it is */
    SP_ARG,    /* data */
    SP_FACTOR, /* of a PRODUCT: where it is zero, so is the product */
    SP_TERM    /* of a PRODUCT: added to it */
} sp_role;

typedef struct sp_flow_operand {
    sp_role role;
    bool after;        /* its WHOLE labels are the output's */
    bool sign;         /* the sign of its zeros counts, which is not known: where it is 0, nothing is */
    uint64_t hides[2]; /* sets of inputs, bit i is input i: where this is 0; where it is another constant */
    sp_axis axis[SPARTA_RANK]; /* as many as the value's rank */
} sp_flow_operand;

typedef enum { SP_FLOW_OPAQUE, SP_FLOW_FUNCTION, SP_FLOW_PRODUCT, SP_FLOW_MOVE, SP_FLOW_SIZES } sp_flow_how;

typedef struct sp_axes {
    sp_graph *g;
    const sp_node *n;
    sp_arena *arena; /* of pick lists and operands */
    sp_flow_how how;
    int labels;
    sp_label label[SP_LABELS];
    sp_flow_operand *in, *out; /* n_in, n_out; all SIDE to begin with */
    bool broadcasts;           /* inputs repeat along dims of 1: one may be smaller than it is */
    bool no_values;            /* constants other than 0 do not pass: a padded border is not the constant */
    const sparta_tensor *fill; /* MOVE: one element, what indices that no input covers hold; NULL: 0 */
    /* PRODUCT: where constants that go are added. The output's axis `bias_axis` gets a vector: to input `bias` (which may
     * be absent), or with bias < 0 in an Add after the node. bias_axis < 0: they cannot be. */
    int bias, bias_axis;
    int first; /* SIZES: the axis that output element 0 reads */
} sp_axes;

/* What is left of each label: kept[l][i] is 1 where index i stays; NULL: all of it. */
typedef struct sp_shrink {
    sp_graph *g;
    sp_node *n;
    const sp_axes *axes; /* as they were before */
    const uint8_t *const *kept;
} sp_shrink;

/* How much a rule says, for docs/operators.md and the counts that `make test` prints. */
typedef enum { SP_OPAQUE, SP_CONSERVATIVE, SP_EXACT } sp_exactness;

/* Contents that are expressions, from those of two inputs; *out is NULL where it does not know (ints.h). */
typedef sparta_status (*sp_ints_fn)(sp_graph *g, const sp_expr *a, const sp_expr *b, const sp_expr **out);

/* Everything this room says of an operator: sp_rule_<id>. */
typedef struct sp_rule {
    sparta_status (*shape)(sp_graph *g, sp_node *n);
    unsigned types; /* of its data, a set of rule.h: those that input 0 may have */
    sp_exactness exact;
    const char *says;                  /* the rule of its flow in one line */
    const char *refuses;               /* what the shape function or the reference refuses; "" */
    sparta_status (*axes)(sp_axes *a); /* NULL: opaque */
    /* After indices went: rewrite attributes and SIDE inputs of the node, whose values have their new dims already. NULL:
     * nothing to do. */
    sparta_status (*shrink)(const sp_shrink *s);
    sp_ints_fn follow; /* what a whole shape function of ints.h computes contents with, or NULL */
} sp_rule;

#define SP_OP(id, domain, name, since, min_in, max_in, max_out) extern const sp_rule sp_rule_##id;
#include "builtin/ops.def"
#undef SP_OP
const sp_rule *sp_rule_of(sp_op_id op);
/* The rule of an operator that is not a row of a table. */
#define SP_RULE(id, shape, types, exact, axes, shrink, says, refuses)                                        \
    const sp_rule sp_rule_##id = {shape, types, exact, says, refuses, axes, shrink, NULL}

/* The axes of a node, in `arena`; opaque where its operator has no rule. The node is typed. */
sparta_status sp_axes_of(sp_graph *g, const sp_node *n, sp_arena *arena, sp_axes *out) SP_MUST;

/* ------------------------------------------------------------------ for rules */
/* A new label for a dim; E_LIMIT beyond SP_LABELS. */
sparta_status sp_axes_label(sp_axes *a, const sp_expr *dim, sp_label_kind kind, const char *why,
                            int *out) SP_MUST;
/* Labels for every axis of a value, EACH; label[] has its rank. */
sparta_status sp_axes_labels(sp_axes *a, const sp_value *v, int *label) SP_MUST;
static inline sp_axis sp_axis_of(int label)
{
    return (sp_axis){.n = 1, .label = {label}};
}
static inline sp_axis sp_axis_pair(int major, int minor)
{
    return (sp_axis){.n = 2, .label = {major, minor}};
}
static inline sp_axis sp_axis_window(int label, int64_t from, int64_t step)
{
    return (sp_axis){.n = 1, .label = {label}, .window = true, .from = from, .step = step};
}
/* Index i of the axis as an index of its label. */
static inline int64_t sp_axis_at(const sp_axis *x, int64_t i)
{
    return !x->window ? i : x->at ? x->at[i] : x->from + i * x->step;
}

static inline bool sp_axis_has(const sp_axis *x, int label)
{
    for (int j = 0; j < x->n; j++)
        if (x->label[j] == label) return true;
    return false;
}

/* Say nothing after all. */
sparta_status sp_axes_opaque(sp_axes *a);

/* Whole rules. */
/* FUNCTION: all inputs broadcast to output 0; further outputs like it. */
sparta_status sp_flow_each(sp_axes *a);
/* PRODUCT: the same, all inputs are factors (Mul, And). */
sparta_status sp_flow_times(sp_axes *a);
/* MOVE: output 0 is input 0, the other inputs are SIDE (Identity). */
sparta_status sp_flow_same(sp_axes *a);
/* FUNCTION on input 0, whole along the axes of the set `whole`; output 0 has its dims. Other inputs, if any, are ARGs that
 * broadcast to it. */
sparta_status sp_flow_along(sp_axes *a, const bool whole[SPARTA_RANK], const char *why) SP_MUST;
/* Inputs and output are the same elements in row-major order (Reshape, Flatten): axes come apart into the labels they have in
 * common. What is left is mixed: summed on the side of the input, new on that of the output, all of it with a why, and only zeros
 * pass. */
sparta_status sp_flow_reshape(sp_axes *a) SP_MUST;
/* Reductions: input 0 over the axes that input 1 names; their labels have this kind and why. In a PRODUCT that is WHOLE along them one
 * zero is enough. */
sparta_status sp_flow_reduce(sp_axes *a, sp_flow_how how, sp_label_kind kind, const char *why) SP_MUST;
/* Input `i` broadcasts against the labels of a value of this rank (NumPy's rule, from the right). */
void sp_axes_broadcast(sp_axes *a, int i, sp_role role, int rank, const int *label);

/* For shrink: how many of a label's indices [from, end) are left; replace input i, which the node may not have had, by a list of
 * integers or a tensor of them; set an INT attribute. */
int64_t sp_shrink_count(const sp_shrink *s, int label, int64_t from, int64_t end);
sparta_status sp_shrink_list(const sp_shrink *s, int i, int count, const int64_t *numbers) SP_MUST;
sparta_status sp_shrink_tensor(const sp_shrink *s, int i, int rank, const int64_t *dim,
                               const int64_t *numbers) SP_MUST;
/* Input i, a list of integers that may be computed as the model runs, with the elements that `set` has replaced by numbers. */
sparta_status sp_shrink_some(const sp_shrink *s, int i, int count, const bool *set,
                             const int64_t *numbers) SP_MUST;
static inline sparta_status sp_shrink_int(const sp_shrink *s, const char *attribute, int64_t value)
{
    return sp_graph_set_attr(s->g, s->n, &SP_INT(attribute, value));
}

#endif
