/* special: an expression over operands in any formats becomes a kernel for just these.
 *
 *     "C(i,k) = A(i,j)*B(j,k)", A: csr
 *
 *     parse      statements: what is written, what is read, constants and words (kernel/words.def)
 *     lower      one nest for each term and each part of a sum of formats: loops over the levels of what is stored sparsely, then over what
 *                indices are left; of a statement, terms that sum come before those that do not
 *     schedule   loops in another order, cut, in vectors, written out, shared by threads; each step is checked when it is applied
 *     text       C with vector extensions, compiled by room jit
 *     run        operands packed into their formats, arguments, threads
 *
 *     i            k*4            j@A.1                     for (long k = 0; k + 4 * LANES <= n_k; k += 4 * LANES)
 *     a level      vectors of 4   stored positions of           for (long i = 0; i < n_i; i++) {
 *     that is      LANES          level 1 of A                      vec sum0 = splat(0.f), ...
 *     dense                                                         for (long A_1 = A_pos1[i]; A_1 < A_pos1[i + 1]; A_1++) {
 *                                                                       const long j = A_crd1[A_1]; ...
 *
 * What an expression means. An element that is not stored is 0. A statement is a sum of terms (what + and - join at its top); each term is
 * summed over the indices it has and the result has not. `=` writes the sum, `+=` adds it to what is there. Statements run one after the
 * other, and may read what earlier ones wrote: "y(i) = A(i,j)*x(j) + b(i); y(i) = relu(y(i))". "m(i) = largest(S(i,j))" takes the largest (or the
 * smallest) instead of the sum: one term, and where a factor is not stored there is nothing to take; of nothing it is -infinity (infinity). A 0 is not
 * stored in formats that fill up with zeros (blocks, rows of one width, diagonals).
 *
 * What is skipped. A factor that is not stored makes its term 0, whatever the other factors are (infinities too): such operands are needed, and loops
 * run over what they store. The first needed operand leads; an index that it binds is searched for in the others. Of operands that are not
 * needed (one side of a maximum) the element is looked up, or is 0. Blocks, diagonals and rows that are filled up multiply their stored zeros.
 *
 * An index is bound by its parts: a level i/4 binds one, i%4 the other. A part is (i % modulus) / weight (modulus 0: none). The loops
 * of a nest bind every part of every index once, so that any order is right in which a level comes after those above it.
 *
 * Pieces. A loop over PIECES binds nothing: loops inside of it go over the part that it gives them. So a row is cut in position space (pos and split), and
 * rows and what is in them are cut together, wherever rows end (fuse): pieces of all positions, in each the rows that have some of them, in each its positions.
 *
 * Types. What is read may be f16 or bf16 (sp_special_dtype): it is stored so and computed with as f32. Nests write f32; a result of another type is rounded
 * once, when all of them are done, whatever they add to it.
 *
 * Opaque formats (quads, pairs) have no levels and are refused.
 */
#ifndef SP_SPECIAL_H
#define SP_SPECIAL_H

#include "device/device.h"
#include "format/format.h"
#include "jit/jit.h"
#include "kernel/kernel.h"
#include "special/abi.h"

enum {
    SP_SPECIAL_OPERANDS = 12,
    SP_SPECIAL_INDICES = 12,
    SP_SPECIAL_NODES = 128,
    SP_SPECIAL_ACCESSES = 24,
    SP_SPECIAL_STATEMENTS = 12,
    SP_SPECIAL_LOOPS = 24,
    SP_SPECIAL_NESTS = 256,
    SP_SPECIAL_TEXT = 4096,
    SP_SPECIAL_VECTORS = 8, /* the most vectors of a loop at once */
    SP_SPECIAL_RANGES = -2, /* in place of an index */
    SP_SPECIAL_CURSORS = 4096
};

/* ------------------------------------------------------------------ the expression */
typedef struct sp_special_index {
    char name[8];
    int64_t size; /* -1: not known yet */
} sp_special_index;

typedef struct sp_special_operand {
    char name[20];
    int rank;
    bool read, written;
    sparta_dtype dtype;       /* F32, F16 or BF16 */
    int64_t dim[SPARTA_RANK]; /* -1: not known yet */
    bool stored;              /* it has a format; else it lies row-major */
    sp_format format;
    int like;         /* it is stored as this operand is, value for value; -1: it is not */
    int leaves;       /* parts of a sum, or 1 */
    int64_t count;    /* elements that are not 0, for the default schedule; -1: not known */
    int array, level; /* its first array and first size of a level (sp_special_args) */
} sp_special_operand;

typedef struct sp_special_access {
    int operand;
    sp_nest_axis axis[SPARTA_RANK]; /* terms name indices */
} sp_special_access;

typedef enum { SP_TREE_NUMBER, SP_TREE_ACCESS, SP_TREE_WORD } sp_special_kind;
typedef struct sp_special_node {
    sp_special_kind kind;
    int at; /* an access, or a word of words.def */
    double number;
    int n, arg[SP_NEST_ARGS];
} sp_special_node;

typedef struct sp_special_statement {
    int target; /* an access */
    bool adds;  /* += */
    int reduce; /* over indices that the result has not: SP_NEST_sum, largest or smallest */
    int root;   /* a node */
} sp_special_statement;

/* ------------------------------------------------------------------ nests */
/* (index % modulus) / weight; modulus 0: index / weight. */
typedef struct sp_special_digit {
    int index;
    int64_t modulus, weight;
} sp_special_digit;

typedef struct sp_special_loop {
    char name[28];
    sp_nest_over
        over; /* COUNT: all values of its part of an index; SEGMENT: positions of a level; MERGE: those at a coordinate that is known; PIECES: see below */
    sp_nest_binding bind; /* SERIAL, VECTOR or UNROLL; */
    bool threads;         /* and its steps are shared out among threads, */
    bool
        temporaries; /* each with a result of its own, since two would add to one element; these are added up at the end */
    int vectors;  /* bound to VECTOR: how many at once; UNROLL of positions: how many of them */
    bool gather;  /* UNROLL of positions: LANES of them at a time, the other operands gathered */
    int together; /* SEGMENT that the result has: so many of its positions at a time, each with sums of its own in the loop in vectors inside of it; 0: one */
    bool
        apart; /* the sum of what is inside is computed first, then multiplied by the factors that are known outside */
    unsigned
        caches;    /* uses whose elements that are read inside of it are copied to a tile first, a bit each */
    unsigned lent; /* those of them whose tile lies in scratch memory, which runs lend */
    int use, level; /* SEGMENT, MERGE; PIECES: of its positions, or use -1 */
    sp_special_digit
        digit; /* COUNT, SEGMENT: what it binds; index -1: a diagonal; SP_SPECIAL_RANGES: it counts the ranges of another. PIECES: what the inner loop binds */
    bool positions; /* SEGMENT: it may be cut where it stands, in position space (pos) */
    int64_t piece;  /* PIECES: so many at a time; 0: all that there are */
    bool
        fused; /* PIECES: of all positions below the outer loop, which is inside of it as well; else of those below one of its values */
    sp_special_digit outer; /* fused: what the outer loop binds */
    int64_t range; /* SEGMENT: of so many coordinates, one range at a time, which loop `with` counts */
    char with[8];
} sp_special_loop;

/* One access of a nest: levels of one leaf of its operand. */
typedef struct sp_special_use {
    int access, operand, leaf;
    bool factor; /* a term without it is 0 */
    bool needed; /* and loops go over what it stores */
    bool sparse; /* a level of it is not dense */
    int follows; /* it has the pattern of this use, and lies at the same positions; -1: it does not */
    const sp_format *format; /* NULL: row-major */
} sp_special_use;

typedef struct sp_special_nest {
    int statement, root; /* the term, a node */
    bool negative;       /* it is subtracted */
    bool whole;          /* it writes every element of the result once: nothing needs to be there before */
    bool joined;         /* its outermost loop is that of the nest before, and both are one function */
    int uses;
    sp_special_use use[SP_SPECIAL_ACCESSES]; /* the last is the result */
    int loops;
    sp_special_loop loop[SP_SPECIAL_LOOPS];
    int64_t
        bound[SP_SPECIAL_INDICES]; /* so many values an index has, whatever is given; 0: as many as it has */
} sp_special_nest;

typedef struct sp_special {
    sparta_ctx *cx;
    sp_arena *arena;
    const char *text;
    int indices, operands, accesses, nodes, statements, nests;
    sp_special_index index[SP_SPECIAL_INDICES];
    sp_special_operand operand[SP_SPECIAL_OPERANDS];
    sp_special_access access[SP_SPECIAL_ACCESSES];
    sp_special_node node[SP_SPECIAL_NODES];
    sp_special_statement statement[SP_SPECIAL_STATEMENTS];
    sp_special_nest *nest[SP_SPECIAL_NESTS];
    int arrays, levels; /* how many arrays and sizes of levels there are */
} sp_special;

/* An expression; free it whatever came of it. E_USAGE says what is wrong where. */
sparta_status sp_special_parse(sparta_ctx *cx, const char *text, sp_special **out) SP_MUST;
void sp_special_free(sp_special *s);
int sp_special_find(const sp_special *s, const char *operand); /* -1: none */
/* The same, or E_USAGE with what may be meant. */
sparta_status sp_special_named(const sp_special *s, const char *operand, int *out) SP_MUST;
/* Store an operand so. A result takes a format of dense levels alone, or that of an operand with the same indices, whose pattern it has. */
sparta_status sp_special_format(sp_special *s, const char *operand, const char *format) SP_MUST;
/* Its values are of this type; f32 where nothing is said. E_DTYPE: one that kernels do not take. */
sparta_status sp_special_dtype(sp_special *s, const char *operand, sparta_dtype dtype) SP_MUST;
/* The type in which nests meet the values of an operand. */
static inline sparta_dtype sp_special_lies(const sp_special_operand *o)
{
    return o->written ? SPARTA_F32 : o->dtype;
}
/* Sizes of an operand, or of an index; those of the others follow. */
sparta_status sp_special_shape(sp_special *s, int operand, const int64_t *dim) SP_MUST;
sparta_status sp_special_size(sp_special *s, const char *index, int64_t size) SP_MUST;
/* About so many elements of an operand are there: the default schedule then knows how often others are read. */
void sp_special_count(sp_special *s, int operand, int64_t count);
/* Every index has a size and every access stays inside, or E_SHAPE. */
sparta_status sp_special_sized(sp_special *s) SP_MUST;

/* Nests of the expression, their loops in the order of levels, none bound. */
sparta_status sp_special_lower(sp_special *s) SP_MUST;
/* Does a nest share a loop among threads? */
bool sp_special_shares(const sp_special_nest *n);
bool sp_special_temporaries(const sp_special_nest *n); /* with results of their own */
/* Does a nest write its result, every element? Else it adds to what is there. */
bool sp_special_stores(const sp_special *s, int nest);
/* Apply primitives to every nest: "reorder(k,i,j); vectorize(k,4); unroll(i1); threads(k)". NULL: of each nest those of its default. Behind "2:" they
 * are for nest 2 alone, up to the next such or "*:"; a nest that then has none gets its default. */
sparta_status sp_special_schedule(sp_special *s, const char *text, sp_target target) SP_MUST;
/* What is good without tuning: a text for sp_special_apply. */
sparta_status sp_special_default(const sp_special *s, const sp_special_nest *n, sp_target target,
                                 sp_text *out) SP_MUST;
sparta_status sp_special_apply(sp_special *s, sp_special_nest *n, const char *text) SP_MUST;

/* The first index that a schedule gives a size; -1: none. */
int sp_special_bounded(const sp_special *s);

/* The nests as text, one line each: the term, its loops, and where it runs. */
void sp_special_print(const sp_special *s, sp_text *out);
/* The C text: function sp_special_<number of the nest> each, with its head. */
sparta_status sp_special_text(sp_special *s, sp_target target, sp_text *out) SP_MUST;
sparta_status sp_special_head(sp_target target, sp_text *out) SP_MUST;
void sp_special_functions(const sp_special *s, const char *prefix, sp_text *out);

/* ------------------------------------------------------------------ running */
typedef struct sp_special_kernel {
    sp_special *s;
    const sp_object *object;
    void (*entry[SP_SPECIAL_NESTS])(const struct sp_special_args *);
    sp_packed packed[SP_SPECIAL_OPERANDS]; /* of stored operands and results */
    sparta_tensor dense[SP_SPECIAL_OPERANDS];
    void **array;
    long *size;
    /* Results of other types: what nests write, by array, for so many elements; NULL: where it lies. Functions of the code that convert. */
    float **wide;
    int64_t *wide_n;
    void (*widen[SP_SPECIAL_OPERANDS])(const void *from, float *to, long n);
    void (*narrow[SP_SPECIAL_OPERANDS])(const float *from, void *to, long n);
    double compile_ms;
    sp_jit_rung rung;
    bool borrows; /* what is read and what is dense belongs to somebody else (sp_special_attach) */
} sp_special_kernel;
/* The most steps of all loops of a nest that are worth starting. */
#define SP_SPECIAL_WORK 1e14
/* Operands (dense, row-major, each of its type) are packed, results allocated. Sizes of all were given by the tensors: those of results have no data. */
sparta_status sp_special_build(sp_special *s, const sparta_tensor *operand, sp_target target,
                               sp_special_kernel *out) SP_MUST;
/* The same without a copy: what is read and has a format is packed already and stays where it is, row-major operands are somebody else's, given
 * before each run: sizes of all were told before (sp_special_sized). sp_special_compile then makes the code, its text into `text`. */
sparta_status sp_special_attach(sp_special *s, const sp_packed *const *packed,
                                sp_special_kernel *out) SP_MUST;
sparta_status sp_special_give(sp_special_kernel *k, const sparta_tensor *const *given) SP_MUST;
sparta_status sp_special_compile(sp_special_kernel *k, sp_target target, sp_text *text) SP_MUST;
/* With code that is there already: entries are looked up under `prefix`; object NULL: compile. */
sparta_status sp_special_bind(sp_special *s, const sparta_tensor *operand, sp_special_kernel *out) SP_MUST;
sparta_status sp_special_code(sp_special_kernel *k, const sp_object *o, const char *prefix) SP_MUST;
/* Elements of the tile in scratch that a nest, and those that are one function with it, need at the sizes that there are; 0: none, -1: more than memory has. */
int64_t sp_special_scratch(const sp_special *s, int nest);
/* The nest after the last that is one function with this one. */
int sp_special_group(const sp_special *s, int nest);
/* Has the result to be 0 before this nest runs? Then which operand it is. */
bool sp_special_clears(const sp_special *s, int nest, int *operand);
/* pool NULL: one thread. E_CANCELLED, or no memory for temporaries: results are then half done. */
sparta_status sp_special_run(const sp_special_kernel *k, sp_pool *pool) SP_MUST;
/* A result as a dense tensor, of the caller to free. */
sparta_status sp_special_result(const sp_special_kernel *k, int operand, sparta_tensor *out) SP_MUST;
double sp_special_work(const sp_special_kernel *k); /* steps of all loops, at most */
void sp_special_close(sp_special_kernel *k);

#endif
