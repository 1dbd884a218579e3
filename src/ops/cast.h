/* The rule that Cast and CastLike share. */
#ifndef SP_OPS_CAST_H
#define SP_OPS_CAST_H

#include "ops/ints.h"

/* Dims of input 0 in type `to`; sizes stay known in i32, i64 and bool. */
sparta_status sp_ops_cast(sp_graph *g, sp_node *n, sparta_dtype to) SP_MUST;

#endif
