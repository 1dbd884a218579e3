/* The shapes of quant.h. */
#include "builtin/quant.h"

/* The scale's dims, for x and axis, are what its kind says? */
static bool fits(const sp_quant *q, const sparta_tensor *x)
{
    const sparta_tensor *s = q->scale;
    if (q->kind == SP_QUANT_TENSOR) return true;
    if (q->kind == SP_QUANT_AXIS) return s->dim[0] == x->dim[q->axis];
    for (int d = 0; d < x->rank; d++) {
        int64_t n = x->dim[d];
        if (d == q->axis) n = n / q->block + (n % q->block != 0);
        if (s->dim[d] != n) return false;
    }
    return true;
}

/* One element may be a scalar or (1). */
static bool alike(const sp_quant *q)
{
    if (!q->zero || sp_tensor_same_shape(q->zero, q->scale)) return true;
    return q->kind == SP_QUANT_TENSOR && sparta_tensor_elements(q->zero) == 1 && q->zero->rank <= 1;
}

sparta_status sp_quant_of(sparta_ctx *cx, const sp_op_args *args, const char *op, sp_quant *out)
{
    const sparta_tensor *x = &args->in[0], *scale = &args->in[1];
    const int64_t axis = sp_attr_int(args->attrs, "axis", 1);
    sp_quant q = {.block = sp_attr_int(args->attrs, "block_size", 0), .scale = scale};
    q.zero = sp_op_has(args, 2) ? &args->in[2] : NULL;
    if (q.block > 0)
        q.kind = SP_QUANT_BLOCKED;
    else if (scale->rank == 1 && scale->dim[0] != 1)
        q.kind = SP_QUANT_AXIS;
    if (q.kind != SP_QUANT_TENSOR) SP_TRY(sp_builtin_axis(cx, op, axis, x->rank, &q.axis));
    bool good = q.block >= 0 && (q.kind == SP_QUANT_BLOCKED ? scale->rank == x->rank : scale->rank <= 1);
    good = good && fits(&q, x) && alike(&q);
    if (!good)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "%s: the scale or zero point has a shape that does not belong to x with axis %lld "
                       "and blocks of %lld",
                       op, (long long)axis, (long long)q.block);
    *out = q;
    return SPARTA_OK;
}

int64_t sp_quant_at(const sp_quant *q, const sparta_tensor *t, const int64_t *index)
{
    int64_t at = 0;
    if (q->kind == SP_QUANT_TENSOR) return 0;
    if (q->kind == SP_QUANT_AXIS) return index[q->axis] * t->stride[0];
    for (int d = 0; d < t->rank; d++) at += (d == q->axis ? index[d] / q->block : index[d]) * t->stride[d];
    return at;
}
