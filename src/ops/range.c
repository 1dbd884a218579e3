/* Range: one dim of max(ceil((limit - start) / delta), 0) elements. Of the three scalars, start and limit may
 * be sizes. */
#include "ops/ints.h"
#include "builtin/range.h"

/* ceil(span / step), where span is limit - start, or the other way round for a negative step. */
static sparta_status count_sizes(sp_graph *g, const sp_node *n, const sp_expr **out)
{
    const sp_expr *start = n->in[0]->ints[0], *limit = n->in[1]->ints[0];
    int64_t delta;
    if (!sp_expr_is_const(n->in[2]->ints[0], &delta) || delta == 0 || delta == INT64_MIN)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "delta is %s; it must be a number other than 0",
                           sp_ops_say(g, n->in[2]->ints[0]));
    const sp_expr *span =
        delta > 0 ? sp_expr_sub(g->arena, limit, start) : sp_expr_sub(g->arena, start, limit);
    const sp_expr *step = sp_expr_const(g->arena, delta > 0 ? delta : -delta),
                  *zero = sp_expr_const(g->arena, 0);
    SP_NEED(g->cx, span && step && zero);
    if (!sp_ops_natural(g, span)) span = sp_expr_max(g->arena, span, zero);
    SP_NEED(g->cx, span);
    const sp_expr *more = sp_expr_const(g->arena, (delta > 0 ? delta : -delta) - 1);
    SP_NEED(g->cx, more);
    more = sp_expr_add(g->arena, span, more);
    SP_NEED(g->cx, more);
    *out = sp_expr_div(g->arena, more, step);
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_value *const *in = (const sp_value *const *)n->in;
    const sp_expr *count = NULL;
    sp_dims dims = {.rank = 0};
    for (int i = 0; i < 3; i++) {
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_scalar(g, n, i));
    }
    if (in[0]->constant && in[1]->constant && in[2]->constant) {
        int64_t size;
        sparta_status status = sp_range_count(
            g->cx, (sparta_tensor[]){*in[0]->constant, *in[1]->constant, *in[2]->constant}, &size);
        if (status != SPARTA_OK) return sp_fail_in(g->cx, "node '%.200s'", n->name);
        count = sp_expr_const(g->arena, size);
    } else if (in[0]->ints && in[1]->ints && in[2]->ints) {
        SP_TRY(count_sizes(g, n, &count));
    } else {
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "its bounds are computed from data, so its length is not known before running; "
                           "fix the symbols with options.dims or export with static shapes");
    }
    SP_TRY(sp_ops_append(g, n, &dims, count));
    sp_ops_set(n, 0, in[0]->dtype, &dims);
    return SPARTA_OK;
}

SP_RULE(Range, shape, SP_FLOATS | SP_SIGNED, SP_OPAQUE, NULL, NULL,
        "folded where its bounds are known, else opaque", "bounds computed from data");
