/* builtin: the reference of every operator, in plain C that anyone can read.
 *
 * The operators are the rows of ops.def, of which elementwise.def and reductions.def are part. Each has one function here, in its file, in
 * that of its family or made of its row, and written for clarity: it is what every fast implement is checked against, and the runtime's
 * last fallback. Matrix products and other float reductions accumulate in
 * double, so that the reference is the better answer. Where one would run in a session, a quick twin may take its place (quick.h).
 *
 *     in[0..n_in)  --> sp_builtin_<id> --> out[0..n_out)        all row-major or strided views, memory already there
 *
 * Invariants: the shape rule of the operator (room ops) ran when the graph was compiled, so ranks, dims and dtypes of `out` are right for `in`; a
 * reference still checks what depends on data (an index out of range is E_RANGE, never a read). An absent optional input has
 * data NULL and rank -1. Inputs and outputs do not overlap. Types: a reference handles every type of tensor.h that ONNX
 * allows for the operator, through sp_element_get/_set where speed does not matter.
 *
 * Those that multiply are rows of multiply.def too: how their weight lies, and how much work they are.
 *
 * The fused operators (domain "sparta"):
 *
 *   Linear(x, w, bias?, residual?)      y = x w^T, then the words of its epilogue in order
 *       x (..., K), w (N, K), or (K, N) when attribute transposed=0 ... see below; bias (N), residual (..., N)
 *       attributes: transposed: int, 1 when w is (N, K), 0 when (K, N);  epilogue: string, "bias gelu", "bias add relu" (epilogue.h)
 *   Attention(q, k, v, mask?, list?)    softmax(cap(scale q k^T) + mask) v for each head
 *       q (B, S, heads*E), k (B, T, kv_heads*E), v (B, T, kv_heads*D), y (B, S, heads*D); mask broadcastable to (B, heads, S, T), float, added;
 *       its first of four dims may be a part of B as well: the masks of so many items, again and again
 *       attributes: heads: int; kv_heads: int, heads when it is not there: heads / kv_heads heads of q, one after the other, share one
 *       of k and v; scale: float; softcap: float, cap(x) = softcap tanh(x / softcap), or x when it is 0;
 *       left, right: int, -1: query s stands at key s + T - S, and sees that many keys before and after it (right=0: causal) and no others:
 *       their scores are hidden: float, -inf when it is not there, whatever the mask says of them.
 *       A row whose every score is -inf is NaN, as IEEE says, unless nan_to_zero: int
 *       is 1: then probabilities that are NaN count as 0, and such a row is 0 (what sdpa's exporters write as Where(IsNaN(p), 0, p));
 *       or 2: such a row is 0, and what is NaN for another reason stays NaN (PyTorch's sdpa itself).
 *       list (B, heads, blocks of queries, n) i32, as Route makes it: block i of `block` queries (attribute: int) sees the blocks of keys whose numbers
 *       stand there, and no others: their scores are -inf. Numbers that do not ascend or are too large do not count.
 *   Embed(table0, ids0, table1, ids1, ...)   y = sum of table_i[ids_i], the ids broadcast against each other
 *       table_i (V_i, H) f32, ids_i integers; y (broadcast of all ids' dims..., H); a negative id counts from the end, as Gather's
 *       attribute column: int; when it is there, one element of the last dim of each ids counts, the others are another table's
 *   Relative(c, at, p?, back?)          y[b, h, i, j] = scale (c[b, i, h*K + at[i, j]] + p[b, j, h*L + back[j, i]])
 *       c (B, S, heads*K), at (S, T), p (B, T, heads*L), back (T, S), y (B, heads, S, T); attributes: heads: int; scale: float, 1 when it is not there
 *   Sparsify(x)                         y = x where an element stays, 0 elsewhere: line by line along the last axis
 *       attributes: above: float, magnitudes below it go; keep: int, of those left the so many largest magnitudes stay, of equals the first,
 *       0: all. A NaN is larger than every number, and what is 0 (or -0) is never there: y has 0 in its place.
 *       Before that: left, right: int, -1: of line s of S, which stands at element s + n - S, so many elements before and after that place may stay and
 *       no others (bands); function: string, one that was registered with the context (functions.c) says which of the line may stay.
 *       expect: float, the share of elements that is thought to be there, which changes no answer: what products that read y are timed with;
 *       0: as many as keep lets through
 *   Sparsify(x, q, k)                   the same of pairs: y = x where row and column stay, -inf elsewhere
 *       x (..., S, T), q (..., S, E), k (..., E, T): of each `block` rows those `keep` blocks of columns stay that Route would list, with what x holds
 *       as its mask; attributes: block, keep, own: int
 *   Route(q, k, mask?)                  which blocks of keys each block of queries goes to: a list for Attention (route.h)
 *       q (B, S, heads*E), k (B, T, kv_heads*E), mask as Attention's; y (B, heads, ceil(S / block), min(keep + own, ceil(T / block))) i32, ascending, -1
 *       behind the last number. Those `keep` blocks of keys whose means are most alike to that of the queries, as dot products are, and where own is
 *       1 (S is T then) the block of the same number. Blocks that mask and window hide from all of the queries are left out, unless all are.
 *       attributes: block, keep: int, at least 1; own: int; heads, kv_heads, left, right: as Attention's
 *   Interact(v0, v1, ..., dots)         y[b, p] = v_i[b] . v_j[b] for (i, j) = dots[p], as recommenders cross their features
 *       v_i (B, D), dots (P, 2) integers; y (B, P); attribute keep: int, a vector that stands before the dots: y (B, D + P)
 */
#ifndef SP_BUILTIN_H
#define SP_BUILTIN_H

#include "tensor/tensor.h"

typedef enum sp_op_id {
#define SP_OP(id, domain, name, since, min_in, max_in, max_out) SP_OP_##id,
#include "builtin/ops.def"
#undef SP_OP
    SP_OPS
} sp_op_id;

/* Is it one of a list? SP_OP_AMONG(n->op, SP_OP_Add, SP_OP_Mul) */
static inline bool sp_op_among(sp_op_id op, const sp_op_id *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == op) return true;
    return false;
}
#define SP_OP_AMONG(op, ...)                                                                                 \
    sp_op_among(op, (const sp_op_id[]){__VA_ARGS__}, sizeof((sp_op_id[]){__VA_ARGS__}) / sizeof(sp_op_id))

/* ------------------------------------------------------------------ attributes */
typedef enum {
    SP_ATTR_INT,
    SP_ATTR_FLOAT,
    SP_ATTR_STRING,
    SP_ATTR_INTS,
    SP_ATTR_FLOATS,
    SP_ATTR_TENSOR
} sp_attr_kind;

typedef struct sp_attr {
    const char *name;
    sp_attr_kind kind;
    int64_t i;
    float f;
    const char *s;
    int n; /* of ints or floats */
    const int64_t *ints;
    const float *floats;
    const sparta_tensor *tensor;
} sp_attr;

typedef struct sp_attrs {
    int n;
    const sp_attr *attr;
} sp_attrs;

/* Attributes written down where they are used: SP_ATTRS(SP_INT("axis", -1), SP_STRING("epilogue", "relu")). They live as long as the block
 * they stand in. */
#define SP_ATTRS(...)                                                                                        \
    (&(sp_attrs){(int)SP_COUNT(((const sp_attr[]){__VA_ARGS__})), (const sp_attr[]){__VA_ARGS__}})
#define SP_INT(key, value)    ((sp_attr){.name = (key), .kind = SP_ATTR_INT, .i = (value)})
#define SP_FLOAT(key, value)  ((sp_attr){.name = (key), .kind = SP_ATTR_FLOAT, .f = (value)})
#define SP_STRING(key, value) ((sp_attr){.name = (key), .kind = SP_ATTR_STRING, .s = (value)})
#define SP_INTS(key, count, values)                                                                          \
    ((sp_attr){.name = (key), .kind = SP_ATTR_INTS, .n = (count), .ints = (values)})

const sp_attr *sp_attr_find(const sp_attrs *attrs, const char *name); /* or NULL */
int64_t sp_attr_int(const sp_attrs *attrs, const char *name, int64_t otherwise);
float sp_attr_float(const sp_attrs *attrs, const char *name, float otherwise);
const char *sp_attr_string(const sp_attrs *attrs, const char *name, const char *otherwise);

/* ------------------------------------------------------------------ the references */
typedef struct sp_op_args {
    const sp_attrs *attrs;
    int n_in, n_out;
    const sparta_tensor *in;
    const sparta_tensor *out; /* views of memory to fill */
} sp_op_args;

typedef sparta_status (*sp_builtin_fn)(sparta_ctx *cx, const sp_op_args *args);

typedef struct sp_builtin {
    sp_op_id id;
    const char *domain, *name;
    int since; /* the first opset of it that is read */
    int min_in, max_in, max_out;
    sp_builtin_fn fn;
} sp_builtin;

const sp_builtin *sp_builtin_row(sp_op_id id);
const sp_builtin *sp_builtin_find(const char *domain, const char *name); /* or NULL; "ai.onnx" is "" */
/* The reference. Where no output has an element nothing is computed, and no loop runs over the dims beside one of 0, of which a
 * few bytes of a file can make 2^62. */
sparta_status sp_builtin_run(sparta_ctx *cx, sp_op_id id, const sp_op_args *args) SP_MUST;
bool sp_op_empty(const sp_op_args *args); /* no output has an element */
static inline bool sp_op_has(const sp_op_args *a, int i)
{
    return i < a->n_in && a->in[i].rank >= 0;
}

/* ------------------------------------------------------------------ products */
typedef struct sp_multiply { /* a row of multiply.def */
    bool layer, fused;
    const char *lies;
    /* Multiply-adds of its first two operands that become y, by their dims. */
    double (*multiplies)(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                         const sparta_tensor *y);
} sp_multiply;
const sp_multiply *sp_multiply_of(sp_op_id op); /* NULL: it does not multiply */

/* The reference of an operator that is one call, of `cx` and `args`. */
#define SP_REFERENCE(id, call)                                                                               \
    sparta_status sp_builtin_##id(sparta_ctx *cx, const sp_op_args *args)                                    \
    {                                                                                                        \
        return call;                                                                                         \
    }
#define SP_OP(id, domain, name, since, min_in, max_in, max_out)                                              \
    sparta_status sp_builtin_##id(sparta_ctx *cx, const sp_op_args *args);
#include "builtin/ops.def"
#undef SP_OP

#endif
