/* epilogue: what follows a Linear is done while its result is still in registers: y = act(x w + b) +
 * residual. */
#include "compile/match.h"
#include "compile/passes.h"
#include <string.h>

/* The activation attribute for this node, or NULL. */
static const char *activation_of(const sp_node *n)
{
    switch (n->op) {
    case SP_OP_Relu: return "relu";
    case SP_OP_Tanh: return "tanh";
    case SP_OP_Sigmoid: return "sigmoid";
    case SP_OP_Gelu:
        return strcmp(sp_attr_string(&n->attrs, "approximate", "none"), "tanh") == 0 ? "gelu_tanh" : "gelu";
    default: return NULL;
    }
}

static bool has_residual(const sp_node *linear)
{
    return linear->n_in > 3 && linear->in[3];
}

/* The Linear that makes v for this one user, if its result is not final already. */
static sp_node *open_linear(const sp_match *m, const sp_value *v)
{
    sp_node *n = sp_match_made_by(v, SP_OP_Linear);
    return n && !has_residual(n) && sp_match_once(m, v) ? n : NULL;
}

static sparta_status activate(sp_match *m, sp_node *n, const char *activation)
{
    const sp_node *linear = open_linear(m, n->in[0]);
    if (!linear || sp_attr_string(&linear->attrs, "activation", "")[0]) return SPARTA_OK;
    int64_t transposed = sp_attr_int(&linear->attrs, "transposed", 0);
    SP_TRY(sp_match_rename(m, n, linear->name));
    return sp_match_become(m, n, SP_OP_Linear, linear->n_in, linear->in,
                           SP_ATTRS(SP_INT("transposed", transposed), SP_STRING("activation", activation)));
}

static sparta_status add_residual(sp_match *m, sp_node *n)
{
    for (int i = 0; i < 2; i++) {
        sp_value *other = n->in[1 - i];
        const sp_node *linear = open_linear(m, n->in[i]);
        if (!linear || !sp_match_same_dims(other, n->in[i]) || other->dtype != n->in[i]->dtype) continue;
        sp_value *in[] = {linear->in[0], linear->in[1], linear->n_in > 2 ? linear->in[2] : NULL, other};
        sp_attrs attrs = linear->attrs;
        SP_TRY(sp_match_rename(m, n, linear->name));
        return sp_match_become(m, n, SP_OP_Linear, 4, in, &attrs);
    }
    return SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n, void *arg)
{
    (void)arg;
    const char *activation = activation_of(n);
    if (activation) return activate(m, n, activation);
    return n->op == SP_OP_Add ? add_residual(m, n) : SPARTA_OK;
}

sparta_status sp_pass_epilogue(sp_graph *g)
{
    return sp_match_run(g, visit, NULL);
}
