/* sum: what one node takes in one of its ways, at usual sizes (a sequence of 128, an image of 224 by 224), on one thread.
 *
 *     what was timed or modelled     that time, by the tokens there are
 *     everything else                as estimate.c counts: what has no kernel is a hundred times slower, and never free
 *
 * Rough, which is enough to compare two ways, or two graphs of one model.
 */
#include "compile/lower.h"

/* Tokens of a value: all its dims but the last. */
static sparta_status tokens_of(sparta_ctx *cx, const sp_value *v, const sp_bindings *sizes, double *out)
{
    double n = 1;
    for (int d = 0; d + 1 < v->dims.rank; d++) {
        int64_t size = 1;
        const sparta_status s = sp_expr_eval(cx, v->dims.dim[d], sizes, &size);
        if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
        if (s != SPARTA_OK) sp_ctx_clear(cx); /* not known: no reason to fail */
        n *= (double)SP_MAX(size, 1);
    }
    *out = n;
    return SPARTA_OK;
}

sparta_status sp_lower_us(const lowering *l, const lower_node *ln, const lower_way *way, double *us)
{
    double tokens;
    if (way->us <= 0) {
        *us = way->im->kernel ? sp_compile_estimate_kernel(l->cx, ln->node, &l->sizes)
                              : sp_compile_estimate_node(l->cx, ln->node, &l->sizes);
        return SPARTA_OK;
    }
    *us = way->us;
    if (!ln->task.each) return SPARTA_OK; /* it was timed at these sizes */
    SP_TRY(tokens_of(l->cx, ln->node->out[0], &l->sizes, &tokens));
    const double timed = (double)sp_lower_tokens(&ln->task), least = sp_implement_in_lanes(way->im) ? 16 : 1;
    *us *= SP_MAX(tokens, least) / SP_MAX(timed, least); /* panels do 16 tokens in the time of one */
    return SPARTA_OK;
}
