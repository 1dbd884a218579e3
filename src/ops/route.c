/* Route: q is (B, S, heads*E), k (B, T, groups*E), the mask repeats into (B, heads, S, T); the list is (B, heads, ceil(S / block),
 * min(keep + own, ceil(T / block))) of i32. */
#include "builtin/route.h"
#include "ops/ints.h"

sparta_status sp_ops_route(sp_graph *g, const sp_node *n)
{
    const sparta_status s = sp_route_check(g->cx, sp_builtin_row(n->op)->name, &n->attrs);
    return s == SPARTA_OK ? s : sp_fail_in(g->cx, "'%.200s'", n->name);
}

sparta_status sp_ops_blocks(sp_graph *g, const sp_node *node, const sp_expr *n, const sp_expr **out)
{
    const int64_t block = sp_attr_int(&node->attrs, "block", 1);
    const sp_expr *size = sp_expr_const(g->arena, block), *more = sp_expr_const(g->arena, block - 1);
    if (block < 1) return sp_ops_fail(g, node, SPARTA_E_SHAPE, "block is %lld; at least 1", (long long)block);
    if (size && more) more = sp_expr_add(g->arena, n, more);
    *out = size && more ? sp_expr_div(g->arena, more, size) : NULL;
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const int64_t heads = sp_attr_int(&n->attrs, "heads", 1),
                  groups = sp_attr_int(&n->attrs, "kv_heads", heads), own = sp_attr_int(&n->attrs, "own", 0);
    int64_t keep = sp_attr_int(&n->attrs, "keep", 0);
    const sp_dims *q = &n->in[0]->dims, *k = &n->in[1]->dims;
    const sp_expr *blocks, *e, *f, *all = sp_expr_const(g->arena, heads),
                                   *some = sp_expr_const(g->arena, groups);
    sp_dims y = {.rank = 4};
    SP_NEED(g->cx, all && some);
    SP_TRY(sp_ops_route(g, n));
    if (groups < 1 || heads % groups)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%lld heads of q are no multiple of %lld heads of k",
                           (long long)heads, (long long)groups);
    for (int i = 0; i < 2; i++) SP_TRY(sp_ops_rank(g, n, i, 3, 3));
    SP_TRY(sp_ops_same_type(g, n, 0, 1));
    SP_TRY(sp_ops_agree(g, n, "batch", q->dim[0], k->dim[0]));
    SP_TRY(sp_ops_divide(g, q->dim[2], all, &e));
    SP_TRY(sp_ops_divide(g, k->dim[2], some, &f));
    if (!e || !f)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "columns %s and %s do not divide into heads",
                           sp_ops_say(g, q->dim[2]), sp_ops_say(g, k->dim[2]));
    SP_TRY(sp_ops_agree(g, n, "columns of a head of q and of k", e, f));
    if (own) SP_TRY(sp_ops_agree(g, n, "queries and keys, with own", q->dim[1], k->dim[1]));
    SP_TRY(sp_ops_types(g, n, 2, SP_FLOATS));
    y.dim[0] = q->dim[0], y.dim[1] = all;
    SP_TRY(sp_ops_blocks(g, n, q->dim[1], &y.dim[2]));
    SP_TRY(sp_ops_blocks(g, n, k->dim[1], &blocks));
    y.dim[3] = sp_expr_const(g->arena, keep < INT64_MAX ? keep + (own != 0) : keep);
    if (y.dim[3]) y.dim[3] = sp_expr_min(g->arena, y.dim[3], blocks);
    SP_NEED(g->cx, y.dim[3]);
    return sp_ops_done(n, SPARTA_I32, &y);
}

SP_RULE(Route, shape, SP_FLOATS, SP_OPAQUE, NULL, NULL,
        "opaque: which blocks are most alike is known only as the model runs", "");
