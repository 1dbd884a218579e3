/* Gelu: type and dims of the input; attribute approximate is "none" or "tanh". */
#include "ops/flow.h"
#include "ops/rule.h"
#include <string.h>

sparta_status sparta_shape_Gelu(sparta_graph *g, sparta_node *n)
{
    const char *kind = sparta_attr_string(&n->attrs, "approximate", "none");
    if (strcmp(kind, "none") && strcmp(kind, "tanh"))
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                               "approximate is \"%.40s\"; it must be \"none\" or \"tanh\"", kind);
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

const sparta_flow sparta_flow_Gelu = {SPARTA_EXACT,     "element by element",
                                      "floats",         "an approximation other than none and tanh",
                                      sparta_flow_each, NULL};
