/* Gelu: type and dims of the input; attribute approximate is "none" or "tanh". */
#include "ops/flow.h"
#include "ops/rule.h"
#include <string.h>

sparta_status sp_shape_Gelu(sp_graph *g, sp_node *n)
{
    const char *kind = sp_attr_string(&n->attrs, "approximate", "none");
    if (strcmp(kind, "none") && strcmp(kind, "tanh"))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "approximate is \"%.40s\"; it must be \"none\" or \"tanh\"", kind);
    return sp_ops_unary(g, n, SP_FLOATS);
}

const sp_flow sp_flow_Gelu = {SP_EXACT,     "element by element",
                              "floats",     "an approximation other than none and tanh",
                              sp_flow_each, NULL};
