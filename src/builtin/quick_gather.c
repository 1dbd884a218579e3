/* GatherElements of elements of 4 bytes, as most are, row by row. */
#include "builtin/quick.h"
#include "builtin/view.h"

typedef struct picker {
    const sparta_tensor *x, *y;
    const int64_t *indices;
    int axis;
    const sp_quick_kernels *kernels;
    bool bad; /* an index was out of range */
} picker;

static void pick_rows(void *arg, int64_t from, int64_t to)
{
    picker *p = arg;
    const int last = p->y->rank - 1;
    const int64_t n = p->y->dim[last], along = p->axis == last ? 0 : p->x->stride[last];
    bool good = true;
    for (int64_t row = from; row < to; row++)
        good &= p->kernels->pick(p->indices + row * n, n, p->x->dim[p->axis], p->x->stride[p->axis],
                                 (const uint32_t *)p->x->data + sp_view_row_but(p->x, p->y, p->axis, row),
                                 along, (uint32_t *)p->y->data + row * n);
    if (!good) __atomic_store_n(&p->bad, true, __ATOMIC_RELAXED);
}

sparta_status sp_quick_GatherElements(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *x = &args->in[0], *indices = &args->in[1], *y = &args->out[0];
    picker p = {.x = x, .y = y, .indices = indices->data, .kernels = sp_quick_here()};
    SP_TRY(sp_builtin_axis(cx, "GatherElements", sp_attr_int(args->attrs, "axis", 0), x->rank, &p.axis));
    if (sparta_dtype_size(x->dtype) != 4 || indices->dtype != SPARTA_I64 || ((uintptr_t)indices->data & 7) ||
        (((uintptr_t)x->data | (uintptr_t)y->data) & 3) || !sp_tensor_contiguous(y) ||
        !sp_tensor_contiguous(indices) || x->dim[p.axis] == 0)
        return SPARTA_OK;
    for (int i = 0; i < y->rank; i++)
        if (i != p.axis && y->dim[i] > x->dim[i]) return SPARTA_OK; /* the reference says what is wrong */
    const int64_t n = y->dim[y->rank - 1];
    *done = true;
    SP_TRY(sp_ctx_share(cx, sparta_tensor_elements(y) / n, 16 * n, pick_rows, &p));
    return p.bad ? sp_builtin_check_indices(cx, "GatherElements", indices, x->dim[p.axis]) : SPARTA_OK;
}
