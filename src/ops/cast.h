/* The rule that Cast and CastLike share. */
#ifndef SPARTA_OPS_CAST_H
#define SPARTA_OPS_CAST_H

#include "ops/ints.h"

/* Dims of input 0 in type `to`; sizes stay known in i32, i64 and bool. */
sparta_status sparta_ops_cast(sparta_graph *g, sparta_node *n, sparta_dtype to) SPARTA_MUST;

#endif
