/* What a run of the references would cost, before it is run. */
#include "ops/ops.h"

enum { EACH = 16 }; /* an element that is no sum takes about as long as so many multiply-adds */

static double elements(const int64_t *dim, int rank)
{
    double n = 1;
    for (int i = 0; i < rank; i++) n *= (double)dim[i];
    return n;
}

/* Multiply-adds of one element of the output. */
static double depth(const sp_node *n, const int64_t (*dim)[SPARTA_RANK])
{
    const sp_value *const *in = (const sp_value *const *)n->in;
    switch (n->op) {
    case SP_OP_MatMul:
    case SP_OP_Linear: return in[0]->dims.rank ? (double)dim[0][in[0]->dims.rank - 1] : 1;
    case SP_OP_Gemm: return (double)dim[0][sp_attr_int(&n->attrs, "transA", 0) ? 0 : 1];
    case SP_OP_Conv:
    case SP_OP_ConvTranspose: return elements(dim[1] + 1, in[1]->dims.rank - 1);
    default: return EACH;
    }
}

static sparta_status of_node(sparta_ctx *cx, const sp_node *n, const sp_bindings *sizes, double *sum)
{
    int64_t in[2][SPARTA_RANK] = {{0}}, out[SPARTA_RANK];
    for (int i = 0; i < n->n_in && i < 2; i++)
        if (n->in[i]) SP_TRY(sp_dims_eval(cx, &n->in[i]->dims, sizes, in[i]));
    SP_TRY(sp_dims_eval(cx, &n->out[0]->dims, sizes, out));
    double most = elements(out, n->out[0]->dims.rank) * depth(n, in);
    if (n->n_in && n->in[0]) most = SP_MAX(most, elements(in[0], n->in[0]->dims.rank) * EACH);
    *sum += most;
    return SPARTA_OK;
}

sparta_status sp_ops_cost(sparta_ctx *cx, const sp_graph *g, const sp_bindings *sizes, double *out)
{
    double sum = 0;
    for (int i = 0; i < g->n_nodes; i++) SP_TRY(of_node(cx, g->node[i], sizes, &sum));
    *out = sum;
    return SPARTA_OK;
}
