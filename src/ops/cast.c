/* Cast and CastLike: the dims of the input in the type of attribute `to`, or in that of the second input. */
#include "ops/flow.h"
#include "ops/ints.h"

/* A size as a bool: is it other than 0? */
static sparta_status truth(sp_graph *g, const sp_expr *x, const sp_expr **out)
{
    const sp_expr *zero = sp_expr_const(g->arena, 0), *one = sp_expr_const(g->arena, 1), *none;
    SP_NEED(g->cx, zero && one);
    SP_TRY(sp_ints_equal(g, x, zero, &none));
    *out = !none ? NULL : sp_expr_is(none, 0) ? one : zero;
    return SPARTA_OK;
}

/* Dims of input 0 in type `to`; sizes stay known in i32, i64 and bool. */
static sparta_status convert(sp_graph *g, sp_node *n, sparta_dtype to)
{
    const sp_value *x = n->in[0];
    sp_ops_set(n, 0, to, &x->dims);
    if (!x->ints || (to != SPARTA_I64 && to != SPARTA_I32 && to != SPARTA_BOOL)) return SPARTA_OK;
    const sp_expr **ints = sp_arena_array(g->arena, (size_t)x->n_ints, sizeof *ints);
    SP_NEED(g->cx, ints);
    for (int i = 0; i < x->n_ints; i++) {
        int64_t value;
        ints[i] = x->ints[i];
        if (to == SPARTA_BOOL) SP_TRY(truth(g, x->ints[i], &ints[i]));
        if (!ints[i]) return SPARTA_OK;
        if (to == SPARTA_I32 && sp_expr_is_const(ints[i], &value) && value != (int32_t)value)
            return SPARTA_OK; /* it wraps */
    }
    sp_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

static sparta_status cast_shape(sp_graph *g, sp_node *n)
{
    int64_t code = sp_attr_int(&n->attrs, "to", 0);
    sparta_dtype to;
    if (!sp_dtype_from_onnx(code, &to))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "ONNX type %lld is not supported", (long long)code);
    return convert(g, n, to);
}

SP_RULE(Cast, cast_shape, SP_ALL, SP_EXACT, sp_flow_each, NULL, "element by element",
        "types that sparta does not have");

static sparta_status like_shape(sp_graph *g, sp_node *n)
{
    return convert(g, n, n->in[1]->dtype);
}

/* Of the second input only the type counts. */
static sparta_status like_axes(sp_axes *a)
{
    SP_TRY(sp_flow_same(a));
    a->how = SP_FLOW_FUNCTION;
    return SPARTA_OK;
}

SP_RULE(CastLike, like_shape, SP_ALL, SP_EXACT, like_axes, NULL, "element by element",
        "types that sparta does not have");
