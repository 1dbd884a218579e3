/* Range: one dim of max(ceil((limit - start) / delta), 0) elements. Of the three scalars, start and limit may
 * be sizes. */
#include "ops/flow.h"
#include "ops/ints.h"
#include "builtin/range.h"

/* ceil(span / step), where span is limit - start, or the other way round for a negative step. */
static sparta_status count_sizes(sparta_graph *g, const sparta_node *n, const sparta_expr **out)
{
    const sparta_expr *start = n->in[0]->ints[0], *limit = n->in[1]->ints[0];
    int64_t delta;
    if (!sparta_expr_is_const(n->in[2]->ints[0], &delta) || delta == 0 || delta == INT64_MIN)
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "delta is %s; it must be a number other than 0",
                               sparta_ops_say(g, n->in[2]->ints[0]));
    const sparta_expr *span =
        delta > 0 ? sparta_expr_sub(g->arena, limit, start) : sparta_expr_sub(g->arena, start, limit);
    const sparta_expr *step = sparta_expr_const(g->arena, delta > 0 ? delta : -delta),
                      *zero = sparta_expr_const(g->arena, 0);
    SPARTA_NEED(g->cx, span && step && zero);
    if (!sparta_ops_natural(g, span)) span = sparta_expr_max(g->arena, span, zero);
    SPARTA_NEED(g->cx, span);
    const sparta_expr *more = sparta_expr_const(g->arena, (delta > 0 ? delta : -delta) - 1);
    SPARTA_NEED(g->cx, more);
    more = sparta_expr_add(g->arena, span, more);
    SPARTA_NEED(g->cx, more);
    *out = sparta_expr_div(g->arena, more, step);
    SPARTA_NEED(g->cx, *out);
    return SPARTA_OK;
}

sparta_status sparta_shape_Range(sparta_graph *g, sparta_node *n)
{
    const sparta_value *const *in = (const sparta_value *const *)n->in;
    const sparta_expr *count = NULL;
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS | SPARTA_SIGNED));
    for (int i = 0; i < 3; i++) {
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_scalar(g, n, i));
    }
    if (in[0]->constant && in[1]->constant && in[2]->constant) {
        int64_t size;
        sparta_status status = sparta_range_count(
            g->cx, (sparta_tensor[]){*in[0]->constant, *in[1]->constant, *in[2]->constant}, &size);
        if (status != SPARTA_OK) return sparta_fail_in(g->cx, "node '%.200s'", n->name);
        count = sparta_expr_const(g->arena, size);
    } else if (in[0]->ints && in[1]->ints && in[2]->ints) {
        SPARTA_TRY(count_sizes(g, n, &count));
    } else {
        return sparta_ops_fail(
            g, n, SPARTA_E_UNSUPPORTED,
            "its bounds are computed from data, so its length is not known before running; "
            "fix the symbols with --dim or export with static shapes");
    }
    SPARTA_TRY(sparta_ops_append(g, n, &dims, count));
    sparta_ops_set(n, 0, in[0]->dtype, &dims);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Range = {SPARTA_OPAQUE,
                                       "folded where its bounds are known, else opaque",
                                       "floats and signed integers",
                                       "bounds computed from data",
                                       NULL,
                                       NULL};
