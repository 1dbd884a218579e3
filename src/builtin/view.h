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
/* Where row `row` of y's last dim begins in x of the same rank, at index 0 of `axis`. */
int64_t sp_view_row_but(const sparta_tensor *x, const sparta_tensor *y, int axis, int64_t row);

/* fn(cx, args) with every input and output row-major: others are copied before and after. For references whose loops know no strides. */
sparta_status sp_builtin_dense(sparta_ctx *cx, const sp_op_args *args, sp_builtin_fn fn) SP_MUST;
/* What each index along a dim of `size`, n of them from element `at` of row-major `indices` on, means in steps of `step`; one that is
 * outside counts as 0, and false comes back. */
bool sp_builtin_offsets(const sparta_tensor *indices, int64_t at, int64_t n, int64_t size, int64_t step,
                        int64_t *out);
/* E_RANGE for the first of all indices that is outside of a dim of `size`. */
sparta_status sp_builtin_check_indices(sparta_ctx *cx, const char *op, const sparta_tensor *indices,
                                       int64_t size) SP_MUST;
/* The slices of row-major x that tuples along the last dim of row-major `indices` name, after `batch` dims that both share: their offsets in
 * bytes, one a tuple, to be freed. *bytes is how long a slice is. */
sparta_status sp_builtin_tuples(sparta_ctx *cx, const char *op, const sparta_tensor *x,
                                const sparta_tensor *indices, int batch, int64_t **out,
                                size_t *bytes) SP_MUST;

/* How many elements start:end:step takes of a dimension of `size`, by Slice's clamping rule, and the index of
 * the first. */
int64_t sp_slice_count(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first);

#endif
