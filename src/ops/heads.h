/* Dims of tensors with heads: (B, heads, S, D), or (B, S, heads*D), seen as the first of them. */
#ifndef SPARTA_OPS_HEADS_H
#define SPARTA_OPS_HEADS_H

#include "ops/ints.h"

/* Input i of rank 3 or 4 as (B, heads, S, D). `attribute` says how many heads: it must be there and divide for rank 3, and be the
 * dim or absent for rank 4. */
sparta_status sparta_ops_heads(sparta_graph *g, const sparta_node *n, int i, const char *attribute,
                               sparta_dims *out) SPARTA_MUST;

#endif
