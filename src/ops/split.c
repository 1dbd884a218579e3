/* Split: along attribute axis (0) each output has its length from the second input, or all have the same, the
 * last one what remains. */
#include "ops/ints.h"

/* ceil(size / parts) */
static sparta_status equal_part(sparta_graph *g, const sparta_expr *size, int parts, const sparta_expr **out)
{
    const sparta_expr *by = sparta_expr_const(g->arena, parts),
                      *more = sparta_expr_const(g->arena, parts - 1);
    SPARTA_NEED(g->cx, by && more);
    SPARTA_TRY(sparta_ops_divide(g, size, by, out));
    if (*out) return SPARTA_OK;
    more = sparta_expr_add(g->arena, size, more);
    SPARTA_NEED(g->cx, more);
    *out = sparta_expr_div(g->arena, more, by);
    SPARTA_NEED(g->cx, *out);
    return SPARTA_OK;
}

sparta_status sparta_shape_Split(sparta_graph *g, sparta_node *n)
{
    const sparta_value *x = n->in[0];
    sparta_list lengths;
    int axis;
    int64_t parts = sparta_attr_int(&n->attrs, "num_outputs", n->n_out);
    SPARTA_TRY(sparta_ops_axis(g, n, sparta_attr_int(&n->attrs, "axis", 0), x->dims.rank, &axis));
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the lengths", &lengths));
    if (lengths.n < 0 ? parts != n->n_out : lengths.n != n->n_out)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%lld parts and %d outputs",
                               lengths.n < 0 ? (long long)parts : (long long)lengths.n, n->n_out);
    const sparta_expr *rest = x->dims.dim[axis], *each = NULL;
    if (lengths.n < 0) SPARTA_TRY(equal_part(g, rest, n->n_out, &each));
    for (int i = 0; i < n->n_out; i++) {
        const sparta_expr *length = lengths.n >= 0 ? lengths.x[i] : i < n->n_out - 1 ? each : rest;
        sparta_dims dims = x->dims;
        dims.rank = axis;
        SPARTA_TRY(sparta_ops_append(g, n, &dims, length));
        dims.rank = x->dims.rank;
        rest = sparta_expr_sub(g->arena, rest, length);
        SPARTA_NEED(g->cx, rest);
        sparta_ops_set(n, i, x->dtype, &dims);
    }
    if (!sparta_expr_is(rest, 0))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "the parts of dim %d of %s leave %s over", axis,
                               sparta_ops_say_dims(g, &x->dims), sparta_ops_say(g, rest));
    return sparta_ops_move(g, n, 1);
}
