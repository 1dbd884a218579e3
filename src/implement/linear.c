/* What the Linear rows share: which nodes they take, the parameters of their kernels. */
#include "implement/linear.h"
#include <math.h>

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

void sparta_linear_epilogue(const sparta_task *t, sparta_text *out)
{
    const sparta_node *n = t->node;
    const int act = sparta_act_parse(sparta_attr_string(&n->attrs, "activation", ""));
    sparta_text_printf(out, "ACT=%d RESIDUAL=%d STAT=%d", act, n->n_in > 3 && n->in[3] != NULL, t->stat);
}

void sparta_linear_parameters(const sparta_task *t, int form, sparta_text *out)
{
    sparta_text_printf(out, "FORM=%d CRD=%d ", form, t->k < 65536 || form != SPARTA_FORM_STRIPS ? 2 : 4);
    sparta_linear_epilogue(t, out);
}

/* ------------------------------------------------------------------ few tokens */

bool sparta_few_match(const sparta_task *t)
{
    return sparta_implement_few(t) && sparta_linear_match(t);
}

/* Kernels are made for 1, 2, 4, 8 or 16 tokens and take any number up to it at once. */
void sparta_few_parameters(const sparta_task *t, int form, sparta_text *out)
{
    const sparta_node *n = t->node;
    int tokens = 1;
    while (tokens < t->tokens) tokens *= 2;
    sparta_text_printf(out, "FORM=%d ACT=%d RESIDUAL=%d TOKENS=%d", form,
                       sparta_act_parse(sparta_attr_string(&n->attrs, "activation", "")),
                       n->n_in > 3 && n->in[3] != NULL, tokens);
}

/* In the time of a multiply-add of the other rows memory gives a quarter of a byte, and a core does a 16th of a vector. */
double sparta_few_cost(const sparta_task *t, double bytes, double vectors)
{
    const double tokens = (double)t->tokens;
    return fmax(bytes * 4, vectors * 16 * tokens) / tokens + (double)t->n;
}
