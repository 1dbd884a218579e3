/* Bits over the axes of a tensor, before they are a set: what sets and constants are moved with (span.c).
 *
 * A span has an extent for each axis and a mask of (extent[0], the others' product); with one axis of (1, it).
 * Along an axis a row of the mask is (outer, extent, inner); along the first axis it is whole rows:
 *
 *     extent {2, 3, 4}, axis 1:    row  o=0 [ i=0 .... | i=1 .... | i=2 .... ]    inner = 4
 */
#ifndef SP_TESA_SPAN_H
#define SP_TESA_SPAN_H

#include "tesa/set.h"
#include "tesa/words.h"

typedef struct sp_span {
    int rank;
    int64_t extent[SP_TESA_RANK];
    sp_mask mask;
} sp_span;

sparta_status sp_span_create(sparta_ctx *cx, int rank, const int64_t *extent, sp_span *out) SP_MUST;
/* Repeats axes of extent 1 until all are as given. E_SHAPE when they cannot be. */
sparta_status sp_span_widen(sparta_ctx *cx, const sp_span *s, const int64_t *extent, sp_span *out) SP_MUST;
sparta_status sp_span_slice(sparta_ctx *cx, const sp_span *s, int axis, int64_t from, int64_t end,
                            sp_span *out) SP_MUST;
/* The extents of all other axes are one. */
sparta_status sp_span_concat(sparta_ctx *cx, int axis, const sp_span *part, int parts, sp_span *out) SP_MUST;
sparta_status sp_span_permute(sparta_ctx *cx, const sp_span *s, const int *order, sp_span *out) SP_MUST;
sparta_status sp_span_reduce(sparta_ctx *cx, const sp_span *s, int axis, sp_span *out) SP_MUST;
/* The same bits with more axes of extent 1 in front. */
sparta_status sp_span_raise(sparta_ctx *cx, const sp_span *s, int rank, sp_span *out) SP_MUST;
/* Is every slice along the axis the same? */
bool sp_span_alike(const sp_span *s, int axis);
/* The index of a bit, and the place (row, column) of an index; axes of extent 1 are at 0. */
void sp_span_index(const sp_span *s, int64_t row, int64_t col, int64_t *index);
void sp_span_place(const sp_span *s, const int64_t *index, int64_t *row, int64_t *col);
/* The larger extent of each axis; false when two that are not 1 differ. */
bool sp_extents_join(int rank, const int64_t *a, const int64_t *b, int64_t *out);
/* Of a settled set, without tiles: a view when it has none (then *own is false). */
sparta_status sp_set_span(sparta_ctx *cx, const sp_set *s, sp_span *out, bool *own) SP_MUST;
/* All axes that are alike become 1. */
sparta_status sp_span_settle(sparta_ctx *cx, sp_span *s) SP_MUST;

#endif
