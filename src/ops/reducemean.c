/* ReduceMean: the dims that the second input names become 1, or go when attribute keepdims=0. */
#include "ops/ints.h"

sparta_status sparta_shape_ReduceMean(sparta_graph *g, sparta_node *n)
{
    return sparta_ops_reduce(g, n, SPARTA_NUMBERS, NULL);
}
