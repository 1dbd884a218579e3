/* specialize: for other compilers. A sub-graph goes in as text, with what is known of its edges and how they are to be stored; the transformed
 * graph comes out, the formats it settled on, and for every node a C function that needs nothing of this library.
 *
 *     text --parse--> graph --edges.c--> TeSA in it --propagate, passes--> smaller, fused --steps.c--> steps --code.c--> C, shared objects
 *                                                                                                       |
 *                                                                                     check.c: the references, on random inputs
 *
 * Every function has one signature,
 *
 *     void sparta_step_3(void *const *argument, long phase, long part, long parts)
 *
 * and a list that says what each pointer is: a value as it lies row-major, or an array of how it is stored, "p0_l1_pos". Sizes and strides are
 * in the code. So a caller has one call to make, whatever the node is (docs/adr/0011-kernels-for-other-compilers.md).
 *
 * A step is one of three:
 *
 *     an expression    room special: products, and element-wise operators of which an operand is stored in a format
 *     a nest           room emit: element-wise operators, reductions, softmax, normalisations, transpositions, row-major; neighbours are one where
 *                      what is between them is read once
 *     another shape    Reshape and the like: no code, the same memory
 *
 * What is none of them is refused by its name (E_UNSUPPORTED). All sizes are numbers when steps are made.
 *
 * Invariants. Everything that is handed out lives in the arena of the object or in the kernels of its steps. What runs here was compared with the
 * references before the caller sees it. Texts have numbers of the graph and no names.
 */
#ifndef SP_SPECIALIZE_H
#define SP_SPECIALIZE_H

#include "compile/compile.h"
#include "ops/ops.h"
#include "special/special.h"

enum { SP_SPECIALIZE_OPERANDS = 8, SP_SPECIALIZE_STEPS = 4096 };

/* An operand of an expression. */
typedef struct sp_specialize_operand {
    char name[4];
    const sp_value *value; /* NULL: scratch, in a format of dense levels */
    const char *format;    /* NULL: row-major */
} sp_specialize_operand;

typedef enum { SP_STEP_EXPRESSION, SP_STEP_NEST, SP_STEP_SHAPE } sp_step_kind;

typedef struct sp_specialize_step {
    sp_step_kind kind;
    const sp_node *node;
    int number;
    /* An expression: its text and operands, and the arrays and sizes of its kernel. */
    const char *text;
    int operands;
    sp_specialize_operand operand[SP_SPECIALIZE_OPERANDS];
    sp_special *special;
    sp_special_kernel kernel;
    /* A nest, and which values its operands are. */
    sp_nest *nest;
    const void *is[SP_NEST_OPERANDS];
    sp_nest_bound bound;
    /* What the caller sees, and which array of the kernel (expressions) each argument is. */
    sparta_specialized_step told;
    sparta_specialized_argument *argument;
    int *place, room;
} sp_specialize_step;

struct sparta_specialized {
    sparta_ctx *cx;
    sp_arena *arena;
    sp_graph *graph, *given; /* transformed; as it was, for the check */
    sparta_specialize_options options;
    bool *used; /* of each edge's format: a step has it */
    const char *text;
    int n_values, n_steps, n_code;
    sparta_specialized_value *value; /* by id of the graph's */
    sparta_specialized_value *shown; /* those that are there, in the order of the graph */
    sp_specialize_step **step;
    sparta_specialized_code *code;
    const sp_object **object;
};

/* edges.c: what the edges say, said in the graph (before it is inferred the second time); formats they ask for. */
sparta_status sp_specialize_edges(sparta_specialized *s) SP_MUST;
const char *sp_specialize_asked(const sparta_specialized *s, const sp_value *v); /* NULL: nothing */
sparta_status sp_specialize_all_used(const sparta_specialized *s) SP_MUST;
/* choose.c: the format of a constant matrix, in the arena; NULL: row-major. Its reason is noted. */
sparta_status sp_specialize_choose(sparta_specialized *s, const sp_value *v, const char **out) SP_MUST;
/* express.c: a node as an expression; *can false: it is none. */
sparta_status sp_specialize_express(sparta_specialized *s, sp_specialize_step *step, bool *can) SP_MUST;
/* steps.c: the steps of the transformed graph, with their arguments. */
sparta_status sp_specialize_steps(sparta_specialized *s) SP_MUST;
/* The expression again, for the text of one target: to be freed. */
sparta_status sp_specialize_lower(sparta_ctx *cx, const sp_specialize_step *step, sp_target target,
                                  sp_special **out) SP_MUST;
/* code.c: texts and shared objects of all targets. */
sparta_status sp_specialize_code(sparta_specialized *s) SP_MUST;
/* check.c: what runs here, compared with the references of the given graph. */
sparta_status sp_specialize_check(sparta_specialized *s) SP_MUST;

#endif
