/* The rule of ArgMax and ArgMin. */
#ifndef SPARTA_OPS_ARG_H
#define SPARTA_OPS_ARG_H

#include "ops/flow.h"
#include "ops/rule.h"

/* The dim at attribute axis (0) becomes 1, or goes when attribute keepdims=0; i64. */
sparta_status sparta_ops_arg(sparta_graph *g, sparta_node *n) SPARTA_MUST;
sparta_status sparta_flow_arg(sparta_axes *a) SPARTA_MUST;

#endif
