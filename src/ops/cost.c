/* How much work nodes are, by counting: multiply-adds of products, and elements that are touched. Estimates of time, here and in compile,
 * multiply them by rates. */
#include "ops/ops.h"
#include <math.h>

/* An element that is not a sum takes a reference about as long as this many multiply-adds. */
enum { EACH = 16 };

/* Sizes of symbols, and where failures of evaluation go. */
typedef struct count {
    sparta_ctx *cx;
    const sp_bindings *sizes;
} count;

/* One dim; what cannot be worked out counts as 1. */
static double dim_of(const count *c, const sp_value *v, int d)
{
    int64_t size = 0;
    if (d < 0 || d >= v->dims.rank) return 1;
    if (sp_expr_eval(c->cx, v->dims.dim[d], c->sizes, &size) != SPARTA_OK) sp_ctx_clear(c->cx);
    return size > 0 ? (double)size : 1;
}

/* Of the dims from `first` on. */
static double elements(const count *c, const sp_value *v, int first)
{
    double n = 1;
    for (int d = first; v && d < v->dims.rank; d++) n *= dim_of(c, v, d);
    return n;
}

double sp_ops_products(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes)
{
    const count c = {cx, sizes};
    const sp_value *a = n->n_in ? n->in[0] : NULL, *b = n->n_in > 1 ? n->in[1] : NULL, *y = n->out[0];
    if (!a || !b) return 0;
    switch (n->op) {
    case SP_OP_Linear:
    case SP_OP_MatMul:
    case SP_OP_Interact: return elements(&c, y, 0) * dim_of(&c, a, a->dims.rank - 1);
    case SP_OP_Gemm: return elements(&c, y, 0) * dim_of(&c, a, !sp_attr_int(&n->attrs, "transA", 0));
    case SP_OP_Conv: return elements(&c, y, 0) * elements(&c, b, 1);
    case SP_OP_ConvTranspose: return elements(&c, a, 0) * elements(&c, b, 1);
    /* scores, and the rows of v that they weigh; k is (..., T, E) */
    case SP_OP_Attention:
    case SP_OP_OnnxAttention:
        return (elements(&c, a, 0) + elements(&c, y, 0)) * dim_of(&c, b, b->dims.rank - 2);
    /* right for a product of matrices, whichever the axes */
    case SP_OP_Einsum: return sqrt(elements(&c, a, 0) * elements(&c, b, 0) * elements(&c, y, 0));
    default: return 0;
    }
}

double sp_ops_touched(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes)
{
    const count c = {cx, sizes};
    const double in = n->n_in && n->in[0] && !n->in[0]->constant ? elements(&c, n->in[0], 0) : 0;
    return SP_MAX(in, elements(&c, n->out[0], 0));
}

double sp_ops_cost(sparta_ctx *cx, const sp_graph *g, const sp_bindings *sizes)
{
    double sum = 0;
    for (int i = 0; i < g->n_nodes; i++)
        sum += SP_MAX(sp_ops_products(cx, g->node[i], sizes), sp_ops_touched(cx, g->node[i], sizes) * EACH);
    return sum;
}
