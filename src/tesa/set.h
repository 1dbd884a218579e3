/* A set of elements of a tensor of 1 to 6 dimensions: the fact that masks, constants and "needed" are made of.
 *
 * A set knows for each axis whether it differs along it. Where it does not, it keeps one slice for all, so a
 * pruned feature of (batch, sequence, 768) is 768 bits whatever the other sizes are, and they may be symbols:
 *
 *     extent {1, 1, 768}     1 1 . 1 1 . . 1 ...
 *
 * extent[axis] is the axis's size, or 1. Bits lie as a mask of (extent[0], the product of the others), of
 * (1, extent[0]) when there is one axis: as a product sees a weight. Large sets whose tiles of 64x64 are mostly
 * empty or full keep only the others' bits:
 *
 *     any    1 1 . .      part   . 1 . .      words  64 for each tile that is partly there
 *            1 . . .             . . . .
 *
 * Every function gives the smallest extents and chooses the storage, so equal sets are equal whatever way they
 * were made, and so are their digests. Sets do not know the sizes of axes along which they are alike; functions
 * that need sizes take them. Axes without elements have no say: their extent is 1.
 */
#ifndef SP_TESA_SET_H
#define SP_TESA_SET_H

#include "tesa/tesa.h"

#define SP_TESA_RANK 6

typedef struct sp_set {
    int rank;
    int64_t extent[SP_TESA_RANK];
    sp_mask mask;      /* bits NULL: in tiles */
    sp_mask any, part; /* a bit a tile: something is there; something is and something is not */
    int64_t *first;    /* of each row of tiles: how many partly present ones are above */
    uint64_t *words;   /* 64 each */
} sp_set;

/* Everything or nothing. */
sparta_status sp_set_all(sparta_ctx *cx, int rank, bool present, sp_set *out) SP_MUST;
/* From a mask of (extent[0], the others' product), or (1, extent[0]). The second takes the mask over, on failure
 * too. E_SHAPE when the shapes do not fit. */
sparta_status sp_set_of_mask(sparta_ctx *cx, int rank, const int64_t *extent, const sp_mask *m,
                             sp_set *out) SP_MUST;
sparta_status sp_set_take(sparta_ctx *cx, int rank, const int64_t *extent, sp_mask *m, sp_set *out) SP_MUST;
/* The plain bits with these extents, each the set's or any size where the set has 1. Free with sp_mask_free. */
sparta_status sp_set_mask(sparta_ctx *cx, const sp_set *s, const int64_t *extent, sp_mask *out) SP_MUST;
sparta_status sp_set_copy(sparta_ctx *cx, const sp_set *s, sp_set *out) SP_MUST;
void sp_set_free(sparta_ctx *cx, sp_set *s); /* one that is all zeros is fine */

bool sp_set_get(const sp_set *s, const int64_t *index);
bool sp_set_is_all(const sp_set *s);
bool sp_set_is_none(const sp_set *s);
bool sp_set_equal(const sp_set *a, const sp_set *b);
uint64_t sp_set_digest(const sp_set *s);
/* Elements of the set in a tensor of these dims; -1 when they are too many to count. */
int64_t sp_set_count(const sp_set *s, const int64_t *dim);

/* New sets, to be freed; `out` may not be an argument. Two sets have one rank, and extents that agree where both
 * are not 1 (E_SHAPE). */
typedef enum { SP_SET_AND, SP_SET_OR, SP_SET_ANDNOT } sp_set_how;
sparta_status sp_set_combine(sparta_ctx *cx, sp_set_how how, const sp_set *a, const sp_set *b,
                             sp_set *out) SP_MUST;
sparta_status sp_set_not(sparta_ctx *cx, const sp_set *s, sp_set *out) SP_MUST;
/* Indices [from, end) of an axis; E_SHAPE when they are outside of an extent that is not 1. */
sparta_status sp_set_slice(sparta_ctx *cx, const sp_set *s, int axis, int64_t from, int64_t end,
                           sp_set *out) SP_MUST;
/* One after the other along an axis; size[i] is what part i has there. */
sparta_status sp_set_concat(sparta_ctx *cx, int axis, const sp_set *const *part, const int64_t *size,
                            int parts, sp_set *out) SP_MUST;
/* Axis i of the result is axis order[i]. */
sparta_status sp_set_transpose(sparta_ctx *cx, const sp_set *s, const int *order, sp_set *out) SP_MUST;
/* Seen with more axes, the new ones first (NumPy's broadcasting). */
sparta_status sp_set_broadcast(sparta_ctx *cx, const sp_set *s, int rank, sp_set *out) SP_MUST;
/* The union over an axis, which stays with size 1. */
sparta_status sp_set_reduce(sparta_ctx *cx, const sp_set *s, int axis, sp_set *out) SP_MUST;

#endif
