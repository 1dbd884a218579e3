/* Interact: dot products of vectors, two by two, item by item.
 *
 *     in: v0 ... vN-1, each (B, D); dots (P, 2)        y[b, p] = v_i[b] . v_j[b]   for (i, j) = dots[p]
 *
 * With attribute keep = k the row begins with vector k itself: y is (B, D + P). Sums are taken in double. */
#include "builtin/view.h"

static double dot(const sparta_tensor *a, const sparta_tensor *b, int64_t item)
{
    double sum = 0;
    for (int64_t d = 0; d < a->dim[1]; d++)
        sum += sp_element_get(a->dtype, a->data, item * a->stride[0] + d * a->stride[1]) *
               sp_element_get(b->dtype, b->data, item * b->stride[0] + d * b->stride[1]);
    return sum;
}

static sparta_status vector_at(sparta_ctx *cx, const sp_op_args *args, int64_t p, int side,
                               const sparta_tensor **out)
{
    const sparta_tensor *dots = &args->in[args->n_in - 1];
    int64_t i = sp_element_get_int(dots->dtype, dots->data, p * dots->stride[0] + side * dots->stride[1]);
    SP_TRY(sp_builtin_index(cx, "Interact", i, args->n_in - 1, &i));
    *out = &args->in[i];
    return SPARTA_OK;
}

sparta_status sp_builtin_Interact(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0], *dots = &args->in[args->n_in - 1];
    const int64_t keep = sp_attr_int(args->attrs, "keep", -1), items = out->dim[0];
    int64_t at = 0;
    if (keep >= args->n_in - 1)
        return sp_fail(cx, SPARTA_E_RANGE, "Interact: vector %lld is kept of %d", (long long)keep,
                       args->n_in - 1);
    if (keep >= 0) {
        at = args->in[keep].dim[1];
        const sparta_tensor head = sp_view_part(out, 1, 0, at);
        SP_TRY(sp_tensor_copy(cx, &args->in[keep], &head));
    }
    for (int64_t p = 0; p < dots->dim[0]; p++) {
        const sparta_tensor *a, *b;
        SP_TRY(vector_at(cx, args, p, 0, &a));
        SP_TRY(vector_at(cx, args, p, 1, &b));
        for (int64_t item = 0; item < items; item++)
            sp_element_set(out->dtype, out->data, item * out->stride[0] + (at + p) * out->stride[1],
                           dot(a, b, item));
        if (p % 64 == 0) SP_TRY(sp_check_cancel(cx));
    }
    return SPARTA_OK;
}
