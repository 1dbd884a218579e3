/* Dims of tensors with heads: (B, heads, S, D), or (B, S, heads*D), seen as the first of them. */
#ifndef SP_OPS_HEADS_H
#define SP_OPS_HEADS_H

#include "ops/ints.h"

/* Input i of rank 3 or 4 as (B, heads, S, D). `attribute` says how many heads: it must be there and divide for rank 3, and be the
 * dim or absent for rank 4. */
sparta_status sp_ops_heads(sp_graph *g, const sp_node *n, int i, const char *attribute, sp_dims *out) SP_MUST;

#endif
