/* Attribute blocksize of DepthToSpace and SpaceToDepth. */
#ifndef SP_OPS_BLOCKS_H
#define SP_OPS_BLOCKS_H

#include "ops/ints.h"

/* x has rank 4 and blocksize is at least 1: as an expression. */
static inline sparta_status sp_ops_blocksize(sp_graph *g, const sp_node *n, const sp_expr **out)
{
    const int64_t size = sp_attr_int(&n->attrs, "blocksize", 0);
    SP_TRY(sp_ops_types(g, n, 0, SP_ANY));
    SP_TRY(sp_ops_rank(g, n, 0, 4, 4));
    if (size < 1 || size > 1 << 20)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "blocksize is %lld; it must be from 1 to %d",
                           (long long)size, 1 << 20);
    *out = sp_expr_const(g->arena, size);
    SP_NEED(g->cx, *out);
    return SPARTA_OK;
}

/* x / y, which must divide. */
static inline sparta_status sp_ops_blocks_of(sp_graph *g, const sp_node *n, int dim, const sp_expr *x,
                                             const sp_expr *y, const sp_expr **out)
{
    SP_NEED(g->cx, y);
    SP_TRY(sp_ops_divide(g, x, y, out));
    if (*out) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_SHAPE, "dim %d is %s, which %s does not divide", dim, sp_ops_say(g, x),
                       sp_ops_say(g, y));
}

#endif
