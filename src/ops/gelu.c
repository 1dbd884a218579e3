/* Gelu: type and dims of the input; attribute approximate is "none" or "tanh". */
#include "ops/flow.h"
#include <string.h>

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const char *kind = sp_attr_string(&n->attrs, "approximate", "none");
    if (strcmp(kind, "none") && strcmp(kind, "tanh"))
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                           "approximate is \"%.40s\"; it must be \"none\" or \"tanh\"", kind);
    return sp_ops_same(g, n);
}

SP_RULE(Gelu, shape, SP_FLOATS, SP_EXACT, sp_flow_each, NULL, "element by element",
        "an approximation other than none and tanh");
