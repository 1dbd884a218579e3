/* The view of heads.h. */
#include "builtin/heads.h"

sparta_status sp_view_heads(sparta_ctx *cx, const char *op, const sparta_tensor *t, int64_t heads,
                            sparta_tensor *out)
{
    if (t->rank == 4) {
        *out = *t;
        return SPARTA_OK;
    }
    if (t->rank != 3 || heads < 1 || t->dim[2] % heads)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "%s: %lld columns of a tensor of rank %d do not divide into %lld heads", op,
                       t->rank == 3 ? (long long)t->dim[2] : 0, t->rank, (long long)heads);
    int64_t each = t->dim[2] / heads;
    *out = (sparta_tensor){.dtype = t->dtype,
                           .rank = 4,
                           .dim = {t->dim[0], heads, t->dim[1], each},
                           .stride = {t->stride[0], each * t->stride[2], t->stride[1], t->stride[2]},
                           .data = t->data};
    return SPARTA_OK;
}
