/* Attribute blocksize of DepthToSpace and SpaceToDepth. */
#ifndef SPARTA_OPS_BLOCKS_H
#define SPARTA_OPS_BLOCKS_H

#include "ops/ints.h"

/* x has rank 4 and blocksize is at least 1: as an expression. */
static inline sparta_status sparta_ops_blocksize(sparta_graph *g, const sparta_node *n,
                                                 const sparta_expr **out)
{
    const int64_t size = sparta_attr_int(&n->attrs, "blocksize", 0);
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_ANY));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 4, 4));
    if (size < 1 || size > 1 << 20)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "blocksize is %lld; it must be from 1 to %d",
                               (long long)size, 1 << 20);
    *out = sparta_expr_const(g->arena, size);
    SPARTA_NEED(g->cx, *out);
    return SPARTA_OK;
}

/* x / y, which must divide. */
static inline sparta_status sparta_ops_blocks_of(sparta_graph *g, const sparta_node *n, int dim,
                                                 const sparta_expr *x, const sparta_expr *y,
                                                 const sparta_expr **out)
{
    SPARTA_NEED(g->cx, y);
    SPARTA_TRY(sparta_ops_divide(g, x, y, out));
    if (*out) return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "dim %d is %s, which %s does not divide", dim,
                           sparta_ops_say(g, x), sparta_ops_say(g, y));
}

#endif
