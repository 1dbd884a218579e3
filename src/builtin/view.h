/* Views of parts of a tensor, and checked indices: what the references that move data are made of.
 *
 *     part   x[:, start : start+n, :]       same rank          drop   x[:, index, :]       one dimension less
 */
#ifndef SP_BUILTIN_VIEW_H
#define SP_BUILTIN_VIEW_H

#include "builtin/elementwise.h"

/* Count a negative axis from the back; E_RANGE when it is none of `rank`. */
sparta_status sp_builtin_axis(sparta_ctx *cx, const char *op, int64_t axis, int rank, int *out) SP_MUST;
/* Count a negative index from the back; E_RANGE when it is outside of a dimension of `size`. */
sparta_status sp_builtin_index(sparta_ctx *cx, const char *op, int64_t index, int64_t size,
                               int64_t *out) SP_MUST;

sparta_tensor sp_view_at(const sparta_tensor *t, int64_t offset); /* the same view, `offset` elements on */
sparta_tensor sp_view_part(const sparta_tensor *t, int axis, int64_t start, int64_t n);
sparta_tensor sp_view_drop(const sparta_tensor *t, int axis, int64_t index);
/* The dimensions from `from` on, at index 0 of the others. */
sparta_tensor sp_view_tail(const sparta_tensor *t, int from);
sparta_tensor sp_view_head(const sparta_tensor *t, int to); /* the dimensions before `to` */

/* How many elements start:end:step takes of a dimension of `size`, by Slice's clamping rule, and the index of
 * the first. */
int64_t sp_slice_count(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first);

#endif
