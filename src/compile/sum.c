/* sum: what one run of a graph takes, from what was decided for its nodes: the number by which a model as given and the smaller one that
 * propagation makes of it compete.
 *
 *     products with a weight     the time that was measured or modelled for the row that won, by the tokens there are
 *     other kernels, references  as estimate.c counts: what has no kernel is a hundred times slower, and never free
 *
 * at usual sizes (a sequence of 128, an image of 224 by 224), on one thread. Rough, which is enough to compare two graphs of one model.
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

static sparta_status of_node(sparta_ctx *cx, const lower_node *ln, const sp_bindings *sizes, double *us)
{
    double tokens;
    *us = 0;
    if (!ln->im->kernel) { /* in panels without a kernel: a view */
        if (!ln->panel) *us = sp_compile_estimate_node(cx, ln->node, sizes);
        return SPARTA_OK;
    }
    if (ln->us <= 0) {
        *us = sp_compile_estimate_kernel(cx, ln->node, sizes);
        return SPARTA_OK;
    }
    SP_TRY(tokens_of(cx, ln->node->out[0], sizes, &tokens)); /* panels do 16 of them in the time of one */
    *us = ln->us * (sp_implement_panels(ln->im) ? SP_MAX(tokens, 16) : tokens) /
          (double)sp_lower_tokens(&ln->task);
    return SPARTA_OK;
}

sparta_status sp_lower_sum(lowering *l)
{
    sp_bindings sizes;
    bool *panel = sp_arena_array(l->arena, (size_t)l->g->n_values + 1, sizeof *panel);
    SP_NEED(l->cx, panel);
    SP_TRY(sp_compile_usual_sizes(l->cx, l->arena, l->g, &sizes));
    sp_lower_decide(l, panel);
    l->us = 0;
    for (int i = 0; i < l->n_nodes; i++) {
        double us;
        SP_TRY(of_node(l->cx, &l->node[i], &sizes, &us));
        l->us += us;
    }
    return SPARTA_OK;
}
