/* The views of view.h. */
#include "builtin/view.h"

sparta_status sp_builtin_axis(sparta_ctx *cx, const char *op, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return sp_fail(cx, SPARTA_E_RANGE, "%s: axis %lld of a tensor of rank %d; it must be in [%d, %d]", op,
                       (long long)axis, rank, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return SPARTA_OK;
}

sparta_status sp_builtin_index(sparta_ctx *cx, const char *op, int64_t index, int64_t size, int64_t *out)
{
    if (index < -size || index >= size)
        return sp_fail(cx, SPARTA_E_RANGE,
                       "%s: index %lld is outside of a dimension of %lld; it must be in [%lld, %lld]", op,
                       (long long)index, (long long)size, -(long long)size, (long long)size - 1);
    *out = index < 0 ? index + size : index;
    return SPARTA_OK;
}

sparta_tensor sp_view_at(const sparta_tensor *t, int64_t offset)
{
    sparta_tensor v = *t;
    if (v.data) v.data = (char *)v.data + offset * (int64_t)sparta_dtype_size(v.dtype);
    return v;
}

sparta_tensor sp_view_part(const sparta_tensor *t, int axis, int64_t start, int64_t n)
{
    sparta_tensor v = sp_view_at(t, n > 0 ? start * t->stride[axis] : 0);
    v.dim[axis] = n;
    return v;
}

sparta_tensor sp_view_drop(const sparta_tensor *t, int axis, int64_t index)
{
    sparta_tensor v = sp_view_at(t, index * t->stride[axis]);
    v.rank--;
    for (int i = axis; i < v.rank; i++) {
        v.dim[i] = t->dim[i + 1];
        v.stride[i] = t->stride[i + 1];
    }
    return v;
}

sparta_tensor sp_view_tail(const sparta_tensor *t, int from)
{
    sparta_tensor v = *t;
    v.rank = t->rank - from;
    for (int i = 0; i < v.rank; i++) {
        v.dim[i] = t->dim[from + i];
        v.stride[i] = t->stride[from + i];
    }
    return v;
}

int64_t sp_view_row_but(const sparta_tensor *x, const sparta_tensor *y, int axis, int64_t row)
{
    int64_t at = 0;
    for (int i = y->rank - 2; i >= 0; i--) {
        if (i != axis) at += row % y->dim[i] * x->stride[i];
        row /= y->dim[i];
    }
    return at;
}

sparta_tensor sp_view_head(const sparta_tensor *t, int to)
{
    sparta_tensor v = *t;
    v.rank = to;
    return v;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

int64_t sp_slice_count(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first)
{
    if (start < 0) start += size;
    if (end < 0) end += size;
    if (step > 0) {
        *first = clamp(start, 0, size);
        end = clamp(end, 0, size);
        return end > *first ? (end - *first - 1) / step + 1 : 0;
    }
    if (step == INT64_MIN) step = -INT64_MAX; /* as far beyond every dimension, and it has a negative */
    *first = clamp(start, -1, size - 1);
    end = clamp(end, -1, size - 1);
    return *first > end ? (*first - end - 1) / -step + 1 : 0;
}
