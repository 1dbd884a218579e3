/* What the Linear rows share: which nodes they take, the parameters of kernel linear. */
#include "implement/linear.h"

static bool bias_fits(const sparta_task *t)
{
    const sparta_value *b = t->node->n_in > 2 ? t->node->in[2] : NULL;
    return !b || (b->constant && b->dtype == SPARTA_F32 && sparta_tensor_elements(b->constant) == t->n);
}

static bool residual_fits(const sparta_task *t)
{
    const sparta_value *r = t->node->n_in > 3 ? t->node->in[3] : NULL;
    return !r ||
           (r->dtype == SPARTA_F32 && !r->constant && sparta_dims_equal(&r->dims, &t->node->out[0]->dims));
}

bool sparta_linear_match(const sparta_task *t)
{
    const sparta_node *n = t->node;
    return n->op == SPARTA_OP_Linear && t->mask && n->in[1]->dtype == SPARTA_F32 &&
           sparta_implement_tokens(n->in[0]) && !n->in[0]->constant && sparta_implement_tokens(n->out[0]) &&
           bias_fits(t) && residual_fits(t);
}

void sparta_linear_parameters(const sparta_task *t, int sparse, sparta_text *out)
{
    const sparta_node *n = t->node;
    const int act = sparta_act_parse(sparta_attr_string(&n->attrs, "activation", ""));
    sparta_text_printf(out, "SPARSE=%d CRD=%d ACT=%d RESIDUAL=%d STAT=%d", sparse,
                       t->k < 65536 || !sparse ? 2 : 4, act, n->n_in > 3 && n->in[3] != NULL, t->stat);
}
