/* The attribute of a tensor value: which elements exist, which have a value that is known, at which precision, and
 * how large the dimensions may be. Propagation moves these facts through a graph.
 *
 *     tesa [batch:1..64, 128, 768]; has along 2 mask 1x768 rle 0 700 68; constant f32 along 2 mask ... values 0.5;
 *          precision i8
 *
 *   dims       a number, or a symbol with bounds
 *   has        a set of elements (set.h); the others are 0. Or, for what is decided at run time, a bound without
 *              bits: at most k of each row, at most k blocks of each row of blocks, or nothing known
 *   constants  elements that exist and whose value is known: a pruned channel after a bias. One value for all that
 *              are alike along an axis: per tensor, row, column, or element
 *   precision  one for the tensor, or for each group of elements: group[axis] is how many share it along that axis,
 *              0 the whole axis. {0, 1} is per column, {64, 64} per block
 *
 * Normal form, kept by every function, so that equal attributes are equal and have one digest and one text: sets
 * and constants have the smallest extents; a constant whose bits are all 0 is an absent element (where `has` is a
 * set), and constants lie within `has`; groups are as large as they can be; an empty tensor has everything. -0.0 is
 * a constant.
 *
 * Two ways to combine facts, element by element:
 *
 *              and: both hold                          or: one of them holds
 *   has        the intersection                        the union
 *   constant   where either knows; two values          where both know the same
 *              that differ are a contradiction, E_USAGE
 *   precision  the narrower: the earlier row of        the first row of precisions.def
 *              precisions.def                          that holds the values of both
 *   bounds     the tighter one; a set is tighter       added; a set and a bound: unknown
 *   dims       bounds intersect (empty: E_SHAPE)       bounds span both
 *
 * An element that is absent stays absent under `and`, whatever constant the other side has: that is what a mask does.
 */
#ifndef SPARTA_TESA_ATTRIBUTE_H
#define SPARTA_TESA_ATTRIBUTE_H

#include "tesa/set.h"

typedef enum {
#define SPARTA_PRECISION(id, name, bits, sign, exponent, value) SPARTA_PRECISION_##id,
#include "tesa/precisions.def"
#undef SPARTA_PRECISION
    SPARTA_PRECISIONS
} sparta_precision;
const char *sparta_precision_name(sparta_precision p);
int sparta_precision_bits(sparta_precision p);
bool sparta_precision_parse(const char *name, size_t size, sparta_precision *out);
sparta_precision sparta_precision_of(sparta_dtype dtype);
bool sparta_precision_holds(sparta_precision wide, sparta_precision narrow); /* every value of narrow */
sparta_precision sparta_precision_join(sparta_precision a,
                                       sparta_precision b); /* the first that holds both */

typedef struct sparta_tesa_dim {
    int64_t min, max; /* equal: a number, and name is "" */
    char name[32];    /* of the symbol */
} sparta_tesa_dim;
static inline sparta_tesa_dim sparta_tesa_size(int64_t n)
{
    return (sparta_tesa_dim){n, n, ""};
}

typedef enum {
    SPARTA_HAS_SET,
    SPARTA_HAS_OF_ROW, /* at most `most` of each row: of the last axis */
    SPARTA_HAS_BLOCKS, /* at most `most` blocks of block[0] x block[1] of the last two axes in a row of blocks */
    SPARTA_HAS_UNKNOWN
} sparta_has;

typedef struct sparta_tesa {
    int rank;
    sparta_tesa_dim dim[SPARTA_TESA_RANK];
    sparta_has has;
    sparta_set set;
    int64_t most, block[2];
    /* Constants: the span `where` (extents, bits), and a value for each of its bits in row-major order. */
    int64_t constants; /* 0: none, and the rest is empty */
    int64_t extent[SPARTA_TESA_RANK];
    sparta_mask where;
    sparta_tensor value; /* (constants) */
    int64_t group[SPARTA_TESA_RANK];
    uint8_t *precision; /* a sparta_precision for each group, row-major */
} sparta_tesa;

/* Everything exists, nothing is known. Free with sparta_tesa_free. */
sparta_status sparta_tesa_create(sparta_ctx *cx, int rank, const sparta_tesa_dim *dim, sparta_precision p,
                                 sparta_tesa *out) SPARTA_MUST;
/* Of a weight (n, k) whose mask is known. */
sparta_status sparta_tesa_of_mask(sparta_ctx *cx, const sparta_mask *m, sparta_precision p,
                                  sparta_tesa *out) SPARTA_MUST;
/* Of values: elements that are not 0 exist (in a strict context -0.0 too), the precision is the type's. Two dimensions with any
 * strides, or row-major. */
sparta_status sparta_tesa_of_tensor(sparta_ctx *cx, const sparta_tensor *t, sparta_tesa *out) SPARTA_MUST;
sparta_status sparta_tesa_copy(sparta_ctx *cx, const sparta_tesa *t, sparta_tesa *out) SPARTA_MUST;
void sparta_tesa_free(sparta_ctx *cx, sparta_tesa *t); /* one that is all zeros is fine */

/* Replace one fact; on failure the attribute is as before. Extents of a set are the dims or 1, and 1 where the dim
 * is a symbol (E_SHAPE). Constants that no longer exist are forgotten. */
sparta_status sparta_tesa_set_has(sparta_ctx *cx, sparta_tesa *t, const sparta_set *has) SPARTA_MUST;
sparta_status sparta_tesa_set_bound(sparta_ctx *cx, sparta_tesa *t, sparta_has kind, int64_t most,
                                    const int64_t block[2]) SPARTA_MUST;
/* The elements of `where` have these values. The tensor of values has the rank of the attribute and dims that are
 * its or 1 (any strides); NULL: nothing is known. */
sparta_status sparta_tesa_set_constants(sparta_ctx *cx, sparta_tesa *t, const sparta_set *where,
                                        const sparta_tensor *value) SPARTA_MUST;
/* precision has one for each group, row-major; a symbol's group is 0. */
sparta_status sparta_tesa_set_precision(sparta_ctx *cx, sparta_tesa *t, const int64_t *group,
                                        const sparta_precision *precision) SPARTA_MUST;

/* One element. present: false only when it is known to be 0. */
bool sparta_tesa_present(const sparta_tesa *t, const int64_t *index);
/* Is its value known (0 when absent)? As double; *place is where it is in t->value, -1 when absent. */
bool sparta_tesa_known(const sparta_tesa *t, const int64_t *index, double *value, int64_t *place);
sparta_precision sparta_tesa_precision_at(const sparta_tesa *t, const int64_t *index);
bool sparta_tesa_equal(const sparta_tesa *a, const sparta_tesa *b);
uint64_t sparta_tesa_digest(const sparta_tesa *t);

/* ------------------------------------------------------------------ algebra: new attributes, to be freed */
sparta_status sparta_tesa_and(sparta_ctx *cx, const sparta_tesa *a, const sparta_tesa *b,
                              sparta_tesa *out) SPARTA_MUST;
sparta_status sparta_tesa_or(sparta_ctx *cx, const sparta_tesa *a, const sparta_tesa *b,
                             sparta_tesa *out) SPARTA_MUST;
/* [from, end) of an axis, which has at least `end`. */
sparta_status sparta_tesa_slice(sparta_ctx *cx, const sparta_tesa *t, int axis, int64_t from, int64_t end,
                                sparta_tesa *out) SPARTA_MUST;
/* Along an axis that is a number in all parts; the other dims are one. */
sparta_status sparta_tesa_concat(sparta_ctx *cx, int axis, const sparta_tesa *const *part, int parts,
                                 sparta_tesa *out) SPARTA_MUST;
sparta_status sparta_tesa_transpose(sparta_ctx *cx, const sparta_tesa *t, const int *order,
                                    sparta_tesa *out) SPARTA_MUST;
/* NumPy's rule: new axes in front, axes of size 1 repeated. */
sparta_status sparta_tesa_broadcast(sparta_ctx *cx, const sparta_tesa *t, int rank,
                                    const sparta_tesa_dim *dim, sparta_tesa *out) SPARTA_MUST;
/* The same elements in row-major order under other dims; symbols stay where they are. Exact; what differs along a part
 * of the axes that are joined or split is written out for them. */
sparta_status sparta_tesa_reshape(sparta_ctx *cx, const sparta_tesa *t, int rank, const sparta_tesa_dim *dim,
                                  sparta_tesa *out) SPARTA_MUST;

/* ------------------------------------------------------------------ covers: parts by precision
 * The elements of each precision covered by blocks, by its own table of costs. Parts are disjoint and their union is
 * what exists, constants included. Two numbers as dims and a set are needed (E_UNSUPPORTED): what is decided at run
 * time has no cover. */
typedef struct sparta_tesa_cost {
    sparta_precision precision; /* the size's costs are for its elements; ANY: for all that have no row */
    int sizes;
    sparta_cover_size size[SPARTA_COVER_SIZES];
} sparta_tesa_cost;
typedef struct sparta_tesa_cover {
    int parts; /* one for each precision that occurs, in the order of precisions.def */
    struct {
        sparta_precision precision;
        sparta_cover cover;
    } part[SPARTA_PRECISIONS];
    double cost;
} sparta_tesa_cover;
sparta_status sparta_tesa_cover_by(sparta_ctx *cx, const sparta_tesa *t, const sparta_tesa_cost *cost,
                                   int costs, sparta_cover_how how, sparta_tesa_cover *out) SPARTA_MUST;
void sparta_tesa_cover_free(sparta_ctx *cx, sparta_tesa_cover *cover);

/* ------------------------------------------------------------------ text and files (docs/tesa.md) */
void sparta_tesa_print(const sparta_tesa *t, sparta_text *out);
sparta_status sparta_tesa_parse(sparta_ctx *cx, const char *text, sparta_tesa *out) SPARTA_MUST;

/* Named attributes in one .npz, or .safetensors when the path ends so. Arrays NAME/tesa (the text, with "array" in
 * place of what follows), NAME/has, NAME/constants (bits, u8), NAME/values, NAME/precision (u8). */
typedef struct sparta_tesa_file {
    int n;
    char **name;
    sparta_tesa *tesa;
} sparta_tesa_file;
sparta_status sparta_tesa_write(sparta_ctx *cx, const char *path, int n, const char *const *name,
                                const sparta_tesa *tesa) SPARTA_MUST;
sparta_status sparta_tesa_read(sparta_ctx *cx, const char *path, sparta_tesa_file *out) SPARTA_MUST;
void sparta_tesa_file_free(sparta_ctx *cx, sparta_tesa_file *f);

#endif
