/* How much work nodes are, by counting: multiply-adds of products, and elements that are touched. Estimates of time, here and in compile,
 * multiply them by rates. */
#include "ops/ops.h"

/* An element that is not a sum takes a reference about as long as this many multiply-adds. */
enum { EACH = 16 };

/* The dims of a value; what cannot be worked out counts as 1. */
static sparta_tensor dims_of(sparta_ctx *cx, const sp_value *v, const sp_bindings *sizes)
{
    sparta_tensor t = {.rank = v->dims.rank};
    for (int d = 0; d < t.rank; d++) {
        int64_t size = 0;
        if (sp_expr_eval(cx, v->dims.dim[d], sizes, &size) != SPARTA_OK) sp_ctx_clear(cx);
        t.dim[d] = SP_MAX(size, 1);
    }
    return t;
}

static double elements(sparta_ctx *cx, const sp_value *v, const sp_bindings *sizes)
{
    const sparta_tensor t = dims_of(cx, v, sizes);
    double n = 1;
    for (int d = 0; d < t.rank; d++) n *= (double)t.dim[d];
    return n;
}

double sp_ops_products(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes)
{
    const sp_multiply *p = sp_multiply_of(n->op);
    if (!p || n->n_in < 2 || !n->in[0] || !n->in[1]) return 0;
    const sparta_tensor a = dims_of(cx, n->in[0], sizes), b = dims_of(cx, n->in[1], sizes),
                        y = dims_of(cx, n->out[0], sizes);
    return p->multiplies(&n->attrs, &a, &b, &y);
}

double sp_ops_touched(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes)
{
    const double in = n->n_in && n->in[0] && !n->in[0]->constant ? elements(cx, n->in[0], sizes) : 0;
    return SP_MAX(in, elements(cx, n->out[0], sizes));
}

double sp_ops_cost(sparta_ctx *cx, const sp_graph *g, const sp_bindings *sizes)
{
    double sum = 0;
    for (int i = 0; i < g->n_nodes; i++)
        sum += SP_MAX(sp_ops_products(cx, g->node[i], sizes), sp_ops_touched(cx, g->node[i], sizes) * EACH);
    return sum;
}
