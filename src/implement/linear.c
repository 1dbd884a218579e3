/* What the Linear rows share: which nodes they take, the parameters of their kernels. */
#include "implement/linear.h"
#include <math.h>

static bool bias_fits(const sp_task *t)
{
    const sp_value *b = t->node->n_in > 2 ? t->node->in[2] : NULL;
    return !b || (b->constant && sparta_tensor_elements(b->constant) == t->n);
}

static bool residual_fits(const sp_task *t)
{
    const sp_value *r = t->node->n_in > 3 ? t->node->in[3] : NULL;
    return !r || (!r->constant && sp_dims_equal(&r->dims, &t->node->out[0]->dims));
}

bool sp_linear_match(const sp_task *t)
{
    const sp_node *n = t->node;
    return t->mask && sp_implement_tokens(n->in[0]) && !n->in[0]->constant &&
           sp_implement_tokens(n->out[0]) && bias_fits(t) && residual_fits(t);
}

void sp_linear_epilogue(const sp_task *t, sp_text *out)
{
    const sp_node *n = t->node;
    sp_words words;
    if (sp_words_of(&n->attrs, n->n_in > 2 && n->in[2], n->n_in > 3 && n->in[3], &words)) words.n = 0;
    sp_implement_epilogue(&words, t->stat, out);
}

void sp_linear_parameters(const sp_task *t, int form, sp_text *out)
{
    sp_text_printf(out, "FORM=%d CRD=%d ", form, t->k < 65536 || form != SP_FORM_STRIPS ? 2 : 4);
    sp_linear_epilogue(t, out);
}

enum { SHORTEST = 128 };
int64_t sp_linear_range(const sp_task *t)
{
    return sp_point_get(t->point, "RANGE", SHORTEST);
}
bool sp_linear_range_differs(const sp_task *t)
{
    return sp_linear_range(t) == SHORTEST || sp_linear_range(t) / 2 < t->k;
}

/* ------------------------------------------------------------------ few tokens */

bool sp_few_match(const sp_task *t)
{
    return sp_implement_few(t) && sp_linear_match(t);
}

/* Kernels are made for 1, 2, 4, 8 or 16 tokens and take any number up to it at once. */
void sp_few_parameters(const sp_task *t, int form, sp_text *out)
{
    int tokens = 1;
    while (tokens < t->tokens) tokens *= 2;
    sp_text_printf(out, "FORM=%d TOKENS=%d ", form, tokens);
    sp_linear_epilogue(t, out);
}

/* In the time of a multiply-add of the other rows memory gives a quarter of a byte, and a core does a 16th of a vector. */
double sp_few_cost(const sp_task *t, double bytes, double vectors)
{
    const double tokens = (double)t->tokens;
    return fmax(bytes * 4, vectors * 16 * tokens) / tokens + (double)t->n;
}
