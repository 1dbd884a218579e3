/* epilogue: what follows a Linear is done while its result is still in registers: y = act(x w + b) +
 * residual. */
#include "compile/match.h"
#include "compile/passes.h"
#include <string.h>

/* The activation attribute for this node, or NULL. */
static const char *activation_of(const sparta_node *n)
{
    switch (n->op) {
    case SPARTA_OP_Relu: return "relu";
    case SPARTA_OP_Tanh: return "tanh";
    case SPARTA_OP_Sigmoid: return "sigmoid";
    case SPARTA_OP_Gelu:
        return strcmp(sparta_attr_string(&n->attrs, "approximate", "none"), "tanh") == 0 ? "gelu_tanh"
                                                                                         : "gelu";
    default: return NULL;
    }
}

static bool has_residual(const sparta_node *linear)
{
    return linear->n_in > 3 && linear->in[3];
}

/* The Linear that makes v for this one user, if its result is not final already. */
static sparta_node *open_linear(const sparta_match *m, const sparta_value *v)
{
    sparta_node *n = sparta_match_made_by(v, SPARTA_OP_Linear);
    return n && !has_residual(n) && sparta_match_once(m, v) ? n : NULL;
}

static sparta_status activate(sparta_match *m, sparta_node *n, const char *activation)
{
    const sparta_node *linear = open_linear(m, n->in[0]);
    if (!linear || sparta_attr_string(&linear->attrs, "activation", "")[0]) return SPARTA_OK;
    int64_t transposed = sparta_attr_int(&linear->attrs, "transposed", 0);
    SPARTA_TRY(sparta_match_rename(m, n, linear->name));
    return sparta_match_become(
        m, n, SPARTA_OP_Linear, linear->n_in, linear->in,
        SPARTA_ATTRS(SPARTA_INT("transposed", transposed), SPARTA_STRING("activation", activation)));
}

static sparta_status add_residual(sparta_match *m, sparta_node *n)
{
    for (int i = 0; i < 2; i++) {
        sparta_value *other = n->in[1 - i];
        const sparta_node *linear = open_linear(m, n->in[i]);
        if (!linear || !sparta_match_same_dims(other, n->in[i]) || other->dtype != n->in[i]->dtype) continue;
        sparta_value *in[] = {linear->in[0], linear->in[1], linear->n_in > 2 ? linear->in[2] : NULL, other};
        sparta_attrs attrs = linear->attrs;
        SPARTA_TRY(sparta_match_rename(m, n, linear->name));
        return sparta_match_become(m, n, SPARTA_OP_Linear, 4, in, &attrs);
    }
    return SPARTA_OK;
}

static sparta_status visit(sparta_match *m, sparta_node *n, void *arg)
{
    (void)arg;
    const char *activation = activation_of(n);
    if (activation) return activate(m, n, activation);
    return n->op == SPARTA_OP_Add ? add_residual(m, n) : SPARTA_OK;
}

sparta_status sparta_pass_epilogue(sparta_graph *g)
{
    return sparta_match_run(g, visit, NULL);
}
