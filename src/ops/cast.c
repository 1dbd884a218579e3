/* Cast: the dims of the input in the type of attribute `to`. */
#include "ops/flow.h"
#include "ops/cast.h"

/* A size as a bool: is it other than 0? */
static sparta_status truth(sparta_graph *g, const sparta_expr *x, const sparta_expr **out)
{
    const sparta_expr *zero = sparta_expr_const(g->arena, 0), *one = sparta_expr_const(g->arena, 1), *none;
    SPARTA_NEED(g->cx, zero && one);
    SPARTA_TRY(sparta_ints_equal(g, x, zero, &none));
    *out = !none ? NULL : sparta_expr_is(none, 0) ? one : zero;
    return SPARTA_OK;
}

sparta_status sparta_ops_cast(sparta_graph *g, sparta_node *n, sparta_dtype to)
{
    const sparta_value *x = n->in[0];
    sparta_ops_set(n, 0, to, &x->dims);
    if (!x->ints || (to != SPARTA_I64 && to != SPARTA_I32 && to != SPARTA_BOOL)) return SPARTA_OK;
    const sparta_expr **ints = sparta_arena_array(g->arena, (size_t)x->n_ints, sizeof *ints);
    SPARTA_NEED(g->cx, ints);
    for (int i = 0; i < x->n_ints; i++) {
        int64_t value;
        ints[i] = x->ints[i];
        if (to == SPARTA_BOOL) SPARTA_TRY(truth(g, x->ints[i], &ints[i]));
        if (!ints[i]) return SPARTA_OK;
        if (to == SPARTA_I32 && sparta_expr_is_const(ints[i], &value) && value != (int32_t)value)
            return SPARTA_OK; /* it wraps */
    }
    sparta_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

sparta_status sparta_shape_Cast(sparta_graph *g, sparta_node *n)
{
    int64_t code = sparta_attr_int(&n->attrs, "to", 0);
    sparta_dtype to;
    if (!sparta_dtype_from_onnx(code, &to))
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "ONNX type %lld is not supported",
                               (long long)code);
    return sparta_ops_cast(g, n, to);
}

const sparta_flow sparta_flow_Cast = {
    SPARTA_EXACT, "element by element", "any", "types that sparta does not have", sparta_flow_each, NULL};
