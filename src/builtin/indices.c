/* Indices that name parts of a tensor, and references that need their tensors row-major (view.h). */
#include "builtin/view.h"
#include <string.h>

/* ------------------------------------------------------------------ row-major tensors */
sparta_status sp_builtin_dense(sparta_ctx *cx, const sp_op_args *args, sp_builtin_fn fn)
{
    bool dense = true;
    for (int i = 0; i < args->n_in; i++) dense &= args->in[i].rank < 0 || sp_tensor_contiguous(&args->in[i]);
    for (int i = 0; i < args->n_out; i++)
        dense &= args->out[i].rank < 0 || sp_tensor_contiguous(&args->out[i]);
    if (dense) return fn(cx, args);
    const int n = args->n_in + args->n_out;
    sparta_tensor *t = sp_alloc_array(cx, 2 * (size_t)n, sizeof *t), *own = t + n;
    SP_NEED(cx, t);
    memset(t, 0, 2 * (size_t)n * sizeof *t);
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < n && status == SPARTA_OK; i++) {
        const sparta_tensor *given = i < args->n_in ? &args->in[i] : &args->out[i - args->n_in],
                            *rows = given;
        if (given->rank >= 0) status = sp_tensor_row_major(cx, given, &own[i], &rows);
        t[i] = *rows;
    }
    const sp_op_args again = {args->attrs, args->n_in, args->n_out, t, t + args->n_in};
    if (status == SPARTA_OK) status = fn(cx, &again);
    for (int i = 0; i < args->n_out && status == SPARTA_OK; i++)
        if (own[args->n_in + i].data) status = sp_tensor_copy(cx, &again.out[i], &args->out[i]);
    for (int i = 0; i < n; i++) sp_free(cx, own[i].data);
    sp_free(cx, t);
    return status;
}

/* ------------------------------------------------------------------ indices */
static inline bool offset(int64_t index, int64_t size, int64_t step, int64_t *out)
{
    index += index < 0 ? size : 0;
    const bool inside = (uint64_t)index < (uint64_t)size;
    *out = inside ? index * step : 0;
    return inside;
}

bool sp_builtin_offsets(const sparta_tensor *indices, int64_t at, int64_t n, int64_t size, int64_t step,
                        int64_t *out)
{
    bool good = true;
    int64_t i = 0, x;
    if (indices->dtype == SPARTA_I64)
        for (const char *from = (const char *)indices->data + at * 8; i < n; i++) {
            memcpy(&x, from + i * 8, 8); /* a file's may stand anywhere */
            good &= offset(x, size, step, &out[i]);
        }
    for (; i < n; i++)
        good &= offset(sp_element_get_int(indices->dtype, indices->data, at + i), size, step, &out[i]);
    return good;
}

sparta_status sp_builtin_check_indices(sparta_ctx *cx, const char *op, const sparta_tensor *indices,
                                       int64_t size)
{
    int64_t index;
    for (int64_t i = 0; i < sparta_tensor_elements(indices); i++)
        SP_TRY(sp_builtin_index(cx, op, sp_element_get_int(indices->dtype, indices->data, i), size, &index));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ tuples */
static sparta_status bad_tuple(sparta_ctx *cx, const char *op, const sparta_tensor *x,
                               const sparta_tensor *indices, int batch, int64_t at, int tuple)
{
    int64_t index;
    for (int i = 0; i < tuple; i++)
        SP_TRY(sp_builtin_index(cx, op, sp_element_get_int(indices->dtype, indices->data, at * tuple + i),
                                x->dim[batch + i], &index));
    return SPARTA_OK;
}

static sparta_status add_tuples(sparta_ctx *cx, const char *op, const sparta_tensor *x,
                                const sparta_tensor *indices, int batch, int64_t *out)
{
    const int tuple = (int)indices->dim[indices->rank - 1];
    const int64_t size = (int64_t)sparta_dtype_size(x->dtype),
                  tuples = sparta_tensor_elements(indices) / tuple;
    int64_t batches = 1, place;
    for (int i = 0; i < batch; i++) batches *= indices->dim[i];
    const int64_t each = tuples / batches, step = batch ? x->stride[batch - 1] : 0;
    for (int64_t i = 0; i < tuples; i++) {
        out[i] = i / each * step * size;
        for (int k = 0; k < tuple; k++) {
            if (!sp_builtin_offsets(indices, i * tuple + k, 1, x->dim[batch + k], x->stride[batch + k] * size,
                                    &place))
                return bad_tuple(cx, op, x, indices, batch, i, tuple);
            out[i] += place;
        }
    }
    return SPARTA_OK;
}

sparta_status sp_builtin_tuples(sparta_ctx *cx, const char *op, const sparta_tensor *x,
                                const sparta_tensor *indices, int batch, int64_t **out, size_t *bytes)
{
    const int last = indices->rank - 1;
    const int64_t tuple = last >= 0 ? indices->dim[last] : -1, n = sparta_tensor_elements(indices);
    if (batch < 0 || batch > last || tuple < 0 || tuple > x->rank - batch)
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: tuples of %lld indices do not fit a tensor of rank %d", op,
                       (long long)tuple, x->rank);
    for (int i = 0; i < batch; i++)
        if (indices->dim[i] != x->dim[i])
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: dim %d of the batch is %lld and %lld", op, i,
                           (long long)x->dim[i], (long long)indices->dim[i]);
    int64_t tuples = 1;
    for (int i = 0; i < last; i++) tuples *= indices->dim[i];
    *bytes = sparta_dtype_size(x->dtype);
    for (int i = batch + (int)tuple; i < x->rank; i++) *bytes *= (size_t)x->dim[i];
    *out = sp_alloc_array(cx, (size_t)tuples + 1, sizeof **out);
    SP_NEED(cx, *out);
    if (n == 0) { /* no tuples, or tuples of nothing that name all of x */
        const int64_t whole = tuples ? (int64_t)*bytes : 0;
        int64_t batches = 1;
        for (int i = 0; i < batch; i++) batches *= indices->dim[i];
        for (int64_t i = 0; i < tuples; i++) (*out)[i] = batch ? i / (tuples / batches) * whole : 0;
        return SPARTA_OK;
    }
    const sparta_status status = add_tuples(cx, op, x, indices, batch, *out);
    if (status == SPARTA_OK) return SPARTA_OK;
    sp_free(cx, *out);
    *out = NULL;
    return status;
}
