/* kernel: a computation as loops over indices, before it is text.
 *
 * What stands between products is generated (docs/adr/0009-generated-kernels.md). A nest says it in index notation:
 *
 *     i j | k*; x0: f32[i,j,k]; x1: f32[k]; y0: f32[i,j,k]; t0 = mul(x0,x0); t1 = mean(t0); t2 = add(t1,1e-06); ...; y0 = mul(t4,x1)
 *
 *     loops      those left of the bar are run for each of their indices; those right of it once a phase, inside. The star is the vector loop, the
 *                last of its side: LANES indices at a time. Right of the bar, reductions end with a step across the lanes (ACROSS: along the last
 *                axis). Left of it, each lane has a reduction of its own (DOWN: other axes, and everything on panels, whose lanes are tokens).
 *                Where nothing is reduced there is no bar.
 *     operands   x0.. are read, y0.. written. An axis is a sum of loops with factors and a constant: [i,2*j+k-1,0]. `lanes` before the type: it lies
 *                in panels, as [token,feature], and the token loop is the vector loop.
 *     statements t0.. = word(arguments): words.def. What is stored is called by its operand, y0. A type other than f32 is said: t3: bool = less(x0,x1).
 *                A reducing word (sum, mean, largest, ...) runs over the loops right of the bar and has one result for all of them.
 *     phases     a statement stands in the first phase in which its arguments are known: what needs a reduction waits for the phase after it. What is
 *                used in a later phase than it is computed in is computed again when it is cheap, else kept (space LINE: scratch of the thread).
 *
 * The text is what a plan holds (attribute `nest`), what kernels are told apart by (equal texts are one kernel) and what `sparta kernel show` prints above
 * the C text. It has no sizes but those that operators fix (k:3, a window of 3; heads of 64) and no names of the model. At run time the sizes of loops
 * and the strides of operands come from the tensors at hand: the runtime knows nothing of what is computed, it checks that every access stays inside
 * (sp_nest_bind), joins neighbouring loops that are one in memory, and cuts the largest loop for the threads.
 *
 *     graph --express (room emit)--> nest --text (room emit)--> C --jit--> code
 *                                      |
 *                                     plan --bind--> sizes, strides --cut--> arguments of one thread
 *
 * A loop has a binding and a value a space, because other devices have other ones: serial, unrolled, vector; threads, and on a GPU grid, warp, lane;
 * registers, a line of scratch, shared memory. Loops over the stored positions of a sparse operand (SEGMENT, MERGE) are named here, `k@segment`, and
 * refused in nests of graphs; those of expressions have them (room special).
 *
 * Files: parse.c, print.c, phases.c (phases, spaces, what an access is to the vector loop), bind.c (sizes and strides), cut.c (threads, scratch).
 */
#ifndef SP_KERNEL_H
#define SP_KERNEL_H

#include "builtin/builtin.h"
#include "kernel/abi.h"
#include "tensor/tensor.h"

enum { SP_NEST_TERMS = 4, SP_NEST_STATEMENTS = 64, SP_NEST_ARGS = 4 };

/* PIECES: of what another loop goes over; in expressions alone. */
typedef enum { SP_OVER_COUNT, SP_OVER_SEGMENT, SP_OVER_MERGE, SP_OVER_PIECES } sp_nest_over;
typedef enum {
    SP_BIND_SERIAL,
    SP_BIND_UNROLL,
    SP_BIND_VECTOR,
    SP_BIND_THREADS,
    SP_BIND_GRID,
    SP_BIND_WARP,
    SP_BIND_LANE
} sp_nest_binding;
typedef enum { SP_SPACE_REGISTER, SP_SPACE_LINE, SP_SPACE_SHARED } sp_nest_space;

typedef struct sp_nest_loop {
    char name;  /* i j k ... */
    bool inner; /* right of the bar */
    sp_nest_over over;
    sp_nest_binding bind;
    int64_t
        size; /* "k:3"; -1: that of the first axis of an output, else of an input, which is this loop alone */
} sp_nest_loop;

typedef struct sp_nest_term {
    int loop;
    int64_t times;
} sp_nest_term;

typedef struct sp_nest_axis {
    int n;
    sp_nest_term term[SP_NEST_TERMS];
    int64_t plus;
} sp_nest_axis;

typedef struct sp_nest_operand {
    bool out, lanes;
    sparta_dtype dtype;
    int rank;
    sp_nest_axis axis[SPARTA_RANK];
} sp_nest_operand;

typedef enum { SP_ARG_OPERAND, SP_ARG_STATEMENT, SP_ARG_NUMBER } sp_nest_arg_kind;
typedef struct sp_nest_arg {
    sp_nest_arg_kind kind;
    int at;        /* operand or statement */
    double number; /* printed so that it reads back the same */
} sp_nest_arg;

typedef struct sp_nest_statement {
    int word; /* a row of words.def */
    sparta_dtype dtype;
    int n;
    sp_nest_arg arg[SP_NEST_ARGS];
    int stores; /* output operand that it is stored to, or -1 */
    /* Decided by sp_nest_phases. */
    bool inner;          /* it differs from index to index of the loops right of the bar */
    int phase;           /* the first in which it can be computed; of a reduction: in which it runs */
    sp_nest_space space; /* LINE: what an inner one leaves for later phases */
} sp_nest_statement;

typedef struct sp_nest {
    int loops, operands, statements; /* operands: inputs first */
    sp_nest_loop loop[SP_NEST_LOOPS];
    sp_nest_operand operand[SP_NEST_OPERANDS];
    sp_nest_statement statement[SP_NEST_STATEMENTS];
} sp_nest;

/* ------------------------------------------------------------------ words */
typedef enum {
#define SP_WORD(name, n, kind, costly) SP_NEST_##name,
#include "kernel/words.def"
#undef SP_WORD
    SP_NEST_WORDS
} sp_nest_word_id;
typedef enum {
    SP_KIND_NUMBER,
    SP_KIND_REAL,
    SP_KIND_TEST,
    SP_KIND_CHECK,
    SP_KIND_LOGIC,
    SP_KIND_CHOOSE,
    SP_KIND_CAST,
    SP_KIND_COPY,
    SP_KIND_STEPS,
    SP_KIND_REDUCE
} sp_nest_kind;
typedef struct sp_nest_word {
    const char *name;
    int n;
    sp_nest_kind kind;
    bool costly;
} sp_nest_word;
const sp_nest_word *sp_nest_word_row(int word);
static inline bool sp_nest_reduces(const sp_nest_statement *s)
{
    return sp_nest_word_row(s->word)->kind == SP_KIND_REDUCE;
}
/* Is statement `at` an argument of s? */
static inline bool sp_nest_reads(const sp_nest_statement *s, int at)
{
    for (int i = 0; i < s->n; i++)
        if (s->arg[i].kind == SP_ARG_STATEMENT && s->arg[i].at == at) return true;
    return false;
}

/* ------------------------------------------------------------------ text */
/* Text to nest: everything is checked (names, arity, types, order: only what stands before is used; limits). E_FORMAT says what is wrong where. */
sparta_status sp_nest_parse(sparta_ctx *cx, const char *text, sp_nest *out) SP_MUST;
void sp_nest_print(const sp_nest *n, sp_text *out);
/* What parse checks, of a nest that was made otherwise. Phases are decided afterwards. */
sparta_status sp_nest_check(sparta_ctx *cx, const sp_nest *n) SP_MUST;

/* ------------------------------------------------------------------ what there is to know of a nest */
/* Phases and spaces of statements; returns how many phases there are. sp_nest_parse has called it. */
int sp_nest_phases(sp_nest *n);
int sp_nest_vector(const sp_nest *n);  /* the vector loop; -1: there is none (it was not checked) */
bool sp_nest_barred(const sp_nest *n); /* it has loops right of the bar */
bool sp_nest_down(const sp_nest *n);   /* and the vector loop is left of it */
#define SP_NEST_LANES 64               /* tokens of a panel */
bool sp_nest_lanes(const sp_nest *n);  /* operands lie in panels */
int sp_nest_inputs(const sp_nest *n);  /* operands that are read */
bool sp_nest_uses(const sp_nest_operand *o, int loop);          /* an axis has the loop */
bool sp_nest_inner(const sp_nest *n, const sp_nest_operand *o); /* an axis has a loop right of the bar */
/* Is argument `a` another at each index of the loops right of the bar? */
bool sp_nest_arg_inner(const sp_nest *n, const sp_nest_arg *a);
sparta_dtype sp_nest_arg_dtype(const sp_nest *n, const sp_nest_arg *a, sparta_dtype number);
/* How an operand goes along the vector loop: not at all, element by element (the last axis is it, but for axes of size 1 behind, written 0; or lanes), or by a stride that is known at
 * run time. */
typedef enum { SP_ALONG_NONE, SP_ALONG_UNIT, SP_ALONG_ANY } sp_nest_along;
sp_nest_along sp_nest_access(const sp_nest *n, int operand);
/* Bytes of an element of a kept line. */
int sp_nest_bytes(sparta_dtype dtype);

/* ------------------------------------------------------------------ at run time */
typedef struct
    sp_nest_bound { /* sizes and strides of one run, neighbouring loops joined (those that went are of size 1) */
    int64_t size[SP_NEST_LOOPS];
    int64_t stride[SP_NEST_OPERANDS][SP_NEST_LOOPS]; /* in elements */
    int64_t offset[SP_NEST_OPERANDS];
    int64_t block, line; /* as in abi.h */
} sp_nest_bound;
/* Tensors (rank, dims, strides, dtype) of all operands, inputs first. A `lanes` operand's tensor has the dims [tokens, features], of one panel: token
 * stride 1, feature stride 64; what lies behind its last token, up to a multiple of 16, may be read and written.
 * E_SHAPE, E_FORMAT: an access leaves its operand, a type differs, a stride along the vector loop is not the one that the text was compiled for. */
sparta_status sp_nest_bind(sparta_ctx *cx, const sp_nest *n, const sparta_tensor *tensor,
                           sp_nest_bound *out) SP_MUST;
/* Indices of all loops: what decides whether threads are worth it. */
int64_t sp_nest_work(const sp_nest *n, const sp_nest_bound *b);
/* Bytes of scratch of a thread: lines kept between phases. */
size_t sp_nest_scratch(const sp_nest *n, const sp_nest_bound *b);
/* Part `part` of `parts`: a range of the loop that is cut (never one right of the bar; the vector loop in multiples of 16), as arguments of the
 * kernel. False: nothing to do. */
bool sp_nest_cut(const sp_nest *n, const sp_nest_bound *b, void *const *data, int part, int parts, void *work,
                 struct sp_nest_args *out);

#endif
