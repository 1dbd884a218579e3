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
static sparta_status tokens_of(sparta_ctx *cx, const sparta_value *v, const sparta_bindings *sizes,
                               double *out)
{
    double n = 1;
    for (int d = 0; d + 1 < v->dims.rank; d++) {
        int64_t size = 1;
        const sparta_status s = sparta_expr_eval(cx, v->dims.dim[d], sizes, &size);
        if (s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
        if (s != SPARTA_OK) sparta_ctx_clear(cx); /* not known: no reason to fail */
        n *= (double)SPARTA_MAX(size, 1);
    }
    *out = n;
    return SPARTA_OK;
}

static sparta_status of_node(sparta_ctx *cx, const lower_node *ln, const sparta_bindings *sizes, double *us)
{
    double tokens;
    *us = 0;
    if (!ln->im->kernel) { /* in panels without a kernel: a view */
        if (!ln->panel) *us = sparta_compile_estimate_node(cx, ln->node, sizes);
        return SPARTA_OK;
    }
    if (ln->us <= 0) {
        *us = sparta_compile_estimate_kernel(cx, ln->node, sizes);
        return SPARTA_OK;
    }
    SPARTA_TRY(tokens_of(cx, ln->node->out[0], sizes, &tokens)); /* panels do 16 of them in the time of one */
    *us = ln->us * (ln->im->rows ? tokens : SPARTA_MAX(tokens, 16)) / (double)sparta_lower_tokens(&ln->task);
    return SPARTA_OK;
}

sparta_status sparta_lower_sum(lowering *l)
{
    sparta_bindings sizes;
    bool *panel = sparta_arena_array(l->arena, (size_t)l->g->n_values + 1, sizeof *panel);
    SPARTA_NEED(l->cx, panel);
    SPARTA_TRY(sparta_compile_usual_sizes(l->cx, l->arena, l->g, &sizes));
    sparta_lower_decide(l, panel);
    l->us = 0;
    for (int i = 0; i < l->n_nodes; i++) {
        double us;
        SPARTA_TRY(of_node(l->cx, &l->node[i], &sizes, &us));
        l->us += us;
    }
    return SPARTA_OK;
}
