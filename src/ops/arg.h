/* The rule of ArgMax and ArgMin. */
#ifndef SP_OPS_ARG_H
#define SP_OPS_ARG_H

#include "ops/flow.h"
#include "ops/rule.h"

/* The dim at attribute axis (0) becomes 1, or goes when attribute keepdims=0; i64. */
sparta_status sp_ops_arg(sp_graph *g, sp_node *n) SP_MUST;
sparta_status sp_flow_arg(sp_axes *a) SP_MUST;

#endif
