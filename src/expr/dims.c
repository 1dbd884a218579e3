/* Shapes of expressions. */
#include "expr/expr.h"

bool sp_dims_equal(const sp_dims *a, const sp_dims *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!sp_expr_equal(a->dim[i], b->dim[i])) return false;
    return true;
}

bool sp_dims_const(const sp_dims *d, int64_t out[SPARTA_RANK])
{
    int64_t value[SPARTA_RANK];
    for (int i = 0; i < d->rank; i++)
        if (!sp_expr_is_const(d->dim[i], &value[i])) return false;
    for (int i = 0; out && i < d->rank; i++) out[i] = value[i];
    return true;
}

const sp_expr *sp_dims_elements(sp_arena *a, const sp_dims *d)
{
    const sp_expr *n = sp_expr_const(a, 1);
    for (int i = 0; i < d->rank && n; i++) n = sp_expr_mul(a, n, d->dim[i]);
    return n;
}

sparta_status sp_dims_eval(sparta_ctx *cx, const sp_dims *d, const sp_bindings *b, int64_t out[SPARTA_RANK])
{
    int64_t value[SPARTA_RANK];
    for (int i = 0; i < d->rank; i++) {
        SP_TRY(sp_expr_eval(cx, d->dim[i], b, &value[i]));
        if (value[i] < 0)
            return sp_fail(cx, SPARTA_E_SHAPE, "shape: dimension %d becomes %lld; sizes are not negative", i,
                           (long long)value[i]);
    }
    for (int i = 0; i < d->rank; i++) out[i] = value[i];
    return SPARTA_OK;
}

void sp_dims_print(const sp_dims *d, sp_text *out)
{
    sp_text_put(out, "[", 1);
    for (int i = 0; i < d->rank; i++) {
        if (i) sp_text_put(out, ",", 1);
        sp_expr_print(d->dim[i], out);
    }
    sp_text_put(out, "]", 1);
}
