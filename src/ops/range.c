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
    const bool up = delta > 0;
    const sp_expr *span = sp_expr_sub(g->arena, up ? limit : start, up ? start : limit);
    *out = sp_ops_share(g, sp_ops_at_least_zero(g, span), up ? delta : -delta, true);
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
    return sp_ops_done(n, in[0]->dtype, &dims);
}

SP_RULE(Range, shape, SP_FLOATS | SP_SIGNED, SP_OPAQUE, NULL, NULL,
        "folded where its bounds are known, else opaque", "bounds computed from data");
