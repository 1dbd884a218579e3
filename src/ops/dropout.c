/* Dropout: type and dims of the first input; the second output, the mask, is bool. Ratio and training_mode
 * are scalars. */
#include "ops/rule.h"

sparta_status sparta_shape_Dropout(sparta_graph *g, sparta_node *n)
{
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_FLOATS));
    SPARTA_TRY(sparta_ops_types(g, n, 2, SPARTA_BOOLS));
    for (int i = 1; i < 3; i++) SPARTA_TRY(sparta_ops_scalar(g, n, i));
    sparta_ops_set(n, 1, SPARTA_BOOL, &n->in[0]->dims);
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}
