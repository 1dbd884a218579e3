/* Shapes of expressions. */
#include "expr/expr.h"

bool sparta_dims_equal(const sparta_dims *a, const sparta_dims *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!sparta_expr_equal(a->dim[i], b->dim[i])) return false;
    return true;
}

bool sparta_dims_const(const sparta_dims *d, int64_t out[SPARTA_RANK])
{
    int64_t value[SPARTA_RANK];
    for (int i = 0; i < d->rank; i++)
        if (!sparta_expr_is_const(d->dim[i], &value[i])) return false;
    for (int i = 0; out && i < d->rank; i++) out[i] = value[i];
    return true;
}

const sparta_expr *sparta_dims_elements(sparta_arena *a, const sparta_dims *d)
{
    const sparta_expr *n = sparta_expr_const(a, 1);
    for (int i = 0; i < d->rank && n; i++) n = sparta_expr_mul(a, n, d->dim[i]);
    return n;
}

sparta_status sparta_dims_eval(sparta_ctx *cx, const sparta_dims *d, const sparta_bindings *b,
                               int64_t out[SPARTA_RANK])
{
    int64_t value[SPARTA_RANK];
    for (int i = 0; i < d->rank; i++) {
        SPARTA_TRY(sparta_expr_eval(cx, d->dim[i], b, &value[i]));
        if (value[i] < 0)
            return sparta_fail(cx, SPARTA_E_SHAPE, "shape: dimension %d becomes %lld; sizes are not negative",
                               i, (long long)value[i]);
    }
    for (int i = 0; i < d->rank; i++) out[i] = value[i];
    return SPARTA_OK;
}

void sparta_dims_print(const sparta_dims *d, sparta_text *out)
{
    sparta_text_put(out, "[", 1);
    for (int i = 0; i < d->rank; i++) {
        if (i) sparta_text_put(out, ",", 1);
        sparta_expr_print(d->dim[i], out);
    }
    sparta_text_put(out, "]", 1);
}
