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
#ifndef SP_TESA_ATTRIBUTE_H
#define SP_TESA_ATTRIBUTE_H

#include "tesa/set.h"

typedef enum {
#define SP_PRECISION(id, name, bits, sign, exponent, value) SP_PRECISION_##id,
#include "tesa/precisions.def"
#undef SP_PRECISION
    SP_PRECISIONS
} sp_precision;
const char *sp_precision_name(sp_precision p);
int sp_precision_bits(sp_precision p);
bool sp_precision_parse(const char *name, size_t size, sp_precision *out);
sp_precision sp_precision_of(sparta_dtype dtype);
bool sp_precision_holds(sp_precision wide, sp_precision narrow); /* every value of narrow */
sp_precision sp_precision_join(sp_precision a, sp_precision b);  /* the first that holds both */

typedef struct sp_tesa_dim {
    int64_t min, max; /* equal: a number, and name is "" */
    char name[32];    /* of the symbol */
} sp_tesa_dim;
static inline sp_tesa_dim sp_tesa_size(int64_t n)
{
    return (sp_tesa_dim){n, n, ""};
}

typedef enum {
    SP_HAS_SET,
    SP_HAS_OF_ROW, /* at most `most` of each row: of the last axis */
    SP_HAS_BLOCKS, /* at most `most` blocks of block[0] x block[1] of the last two axes in a row of blocks */
    SP_HAS_UNKNOWN
} sp_has;

typedef struct sp_tesa {
    int rank;
    sp_tesa_dim dim[SP_TESA_RANK];
    sp_has has;
    sp_set set;
    int64_t most, block[2];
    /* Constants: the span `where` (extents, bits), and a value for each of its bits in row-major order. */
    int64_t constants; /* 0: none, and the rest is empty */
    int64_t extent[SP_TESA_RANK];
    sp_mask where;
    sparta_tensor value; /* (constants) */
    int64_t group[SP_TESA_RANK];
    uint8_t *precision; /* a sp_precision for each group, row-major */
} sp_tesa;

/* Everything exists, nothing is known. Free with sp_tesa_free. */
sparta_status sp_tesa_create(sparta_ctx *cx, int rank, const sp_tesa_dim *dim, sp_precision p,
                             sp_tesa *out) SP_MUST;
/* Of a weight (n, k) whose mask is known. */
sparta_status sp_tesa_of_mask(sparta_ctx *cx, const sp_mask *m, sp_precision p, sp_tesa *out) SP_MUST;
/* Of values: elements that are not 0 exist (in a strict context -0.0 too), the precision is the type's. Two dimensions with any
 * strides, or row-major. */
sparta_status sp_tesa_of_tensor(sparta_ctx *cx, const sparta_tensor *t, sp_tesa *out) SP_MUST;
sparta_status sp_tesa_copy(sparta_ctx *cx, const sp_tesa *t, sp_tesa *out) SP_MUST;
void sp_tesa_free(sparta_ctx *cx, sp_tesa *t); /* one that is all zeros is fine */

/* Replace one fact; on failure the attribute is as before. Extents of a set are the dims or 1, and 1 where the dim
 * is a symbol (E_SHAPE). Constants that no longer exist are forgotten. */
sparta_status sp_tesa_set_has(sparta_ctx *cx, sp_tesa *t, const sp_set *has) SP_MUST;
sparta_status sp_tesa_set_bound(sparta_ctx *cx, sp_tesa *t, sp_has kind, int64_t most,
                                const int64_t block[2]) SP_MUST;
/* The elements of `where` have these values. The tensor of values has the rank of the attribute and dims that are
 * its or 1 (any strides); NULL: nothing is known. */
sparta_status sp_tesa_set_constants(sparta_ctx *cx, sp_tesa *t, const sp_set *where,
                                    const sparta_tensor *value) SP_MUST;
/* precision has one for each group, row-major; a symbol's group is 0. */
sparta_status sp_tesa_set_precision(sparta_ctx *cx, sp_tesa *t, const int64_t *group,
                                    const sp_precision *precision) SP_MUST;

/* One element. present: false only when it is known to be 0. */
bool sp_tesa_present(const sp_tesa *t, const int64_t *index);
/* Is its value known (0 when absent)? As double; *place is where it is in t->value, -1 when absent. */
bool sp_tesa_known(const sp_tesa *t, const int64_t *index, double *value, int64_t *place);
sp_precision sp_tesa_precision_at(const sp_tesa *t, const int64_t *index);
bool sp_tesa_equal(const sp_tesa *a, const sp_tesa *b);
uint64_t sp_tesa_digest(const sp_tesa *t);

/* ------------------------------------------------------------------ algebra: new attributes, to be freed */
sparta_status sp_tesa_and(sparta_ctx *cx, const sp_tesa *a, const sp_tesa *b, sp_tesa *out) SP_MUST;
sparta_status sp_tesa_or(sparta_ctx *cx, const sp_tesa *a, const sp_tesa *b, sp_tesa *out) SP_MUST;
/* [from, end) of an axis, which has at least `end`. */
sparta_status sp_tesa_slice(sparta_ctx *cx, const sp_tesa *t, int axis, int64_t from, int64_t end,
                            sp_tesa *out) SP_MUST;
/* Along an axis that is a number in all parts; the other dims are one. */
sparta_status sp_tesa_concat(sparta_ctx *cx, int axis, const sp_tesa *const *part, int parts,
                             sp_tesa *out) SP_MUST;
sparta_status sp_tesa_transpose(sparta_ctx *cx, const sp_tesa *t, const int *order, sp_tesa *out) SP_MUST;
/* NumPy's rule: new axes in front, axes of size 1 repeated. */
sparta_status sp_tesa_broadcast(sparta_ctx *cx, const sp_tesa *t, int rank, const sp_tesa_dim *dim,
                                sp_tesa *out) SP_MUST;
/* The same elements in row-major order under other dims; symbols stay where they are. Exact; what differs along a part
 * of the axes that are joined or split is written out for them. */
sparta_status sp_tesa_reshape(sparta_ctx *cx, const sp_tesa *t, int rank, const sp_tesa_dim *dim,
                              sp_tesa *out) SP_MUST;

/* ------------------------------------------------------------------ covers: parts by precision
 * The elements of each precision covered by blocks, by its own table of costs. Parts are disjoint and their union is
 * what exists, constants included. Two numbers as dims and a set are needed (E_UNSUPPORTED): what is decided at run
 * time has no cover. */
typedef struct sp_tesa_cost {
    sp_precision precision; /* the size's costs are for its elements; ANY: for all that have no row */
    int sizes;
    sp_cover_size size[SP_COVER_SIZES];
} sp_tesa_cost;
typedef struct sp_tesa_cover {
    int parts; /* one for each precision that occurs, in the order of precisions.def */
    struct {
        sp_precision precision;
        sp_cover cover;
    } part[SP_PRECISIONS];
    double cost;
} sp_tesa_cover;
sparta_status sp_tesa_cover_by(sparta_ctx *cx, const sp_tesa *t, const sp_tesa_cost *cost, int costs,
                               sp_cover_how how, sp_tesa_cover *out) SP_MUST;
void sp_tesa_cover_free(sparta_ctx *cx, sp_tesa_cover *cover);

/* ------------------------------------------------------------------ text and files (docs/tesa.md) */
void sp_tesa_print(const sp_tesa *t, sp_text *out);
sparta_status sp_tesa_parse(sparta_ctx *cx, const char *text, sp_tesa *out) SP_MUST;

/* Named attributes in one .npz, or .safetensors when the path ends so. Arrays NAME/tesa (the text, with "array" in
 * place of what follows), NAME/has, NAME/constants (bits, u8), NAME/values, NAME/precision (u8). */
typedef struct sp_tesa_file {
    int n;
    char **name;
    sp_tesa *tesa;
} sp_tesa_file;
sparta_status sp_tesa_write(sparta_ctx *cx, const char *path, int n, const char *const *name,
                            const sp_tesa *tesa) SP_MUST;
sparta_status sp_tesa_read(sparta_ctx *cx, const char *path, sp_tesa_file *out) SP_MUST;
void sp_tesa_file_free(sparta_ctx *cx, sp_tesa_file *f);

#endif
