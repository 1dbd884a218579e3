/* products: MatMuls of constants that infer leaves, because the reference would take long for them, are constants too: projections of the positions that DeBERTa adds to
 * its scores. The quick twin multiplies, within limits of its own; what it declines stays a node. Not when strict: it sums in another order than the reference.
 */
#include "builtin/quick.h"
#include "compile/passes.h"
#include "ops/ops.h"

enum { MOST_BYTES = 1 << 26 };                /* of one result */
static const int64_t MOST = (int64_t)1 << 33, /* multiplications, of one */
    MOST_ALL = (int64_t)1 << 36;              /* and of all */

typedef struct product {
    int64_t dim[SPARTA_RANK]; /* of its result */
    int64_t work;             /* multiplications */
    size_t bytes;
} product;

/* Is it a product of constants of f32 and known sizes, and not too large? */
static bool is_product(const sp_node *n, product *p)
{
    int64_t elements = 1;
    if (n->op != SP_OP_MatMul || !n->in[0]->constant || !n->in[1]->constant ||
        n->out[0]->dtype != SPARTA_F32 || !sp_dims_const(&n->out[0]->dims, p->dim))
        return false;
    for (int i = 0; i < n->out[0]->dims.rank; i++)
        if (!sp_int_mul(elements, p->dim[i], &elements)) return false;
    const sparta_tensor *a = n->in[0]->constant;
    if (elements > MOST_BYTES / 4 || a->rank < 1 || !sp_int_mul(elements, a->dim[a->rank - 1], &p->work))
        return false;
    p->bytes = (size_t)elements * 4;
    return p->work > 0 && p->work <= MOST;
}

static sparta_status multiply(sp_graph *g, sp_node *n, const product *p, bool *done)
{
    sp_value *y = n->out[0];
    sparta_tensor *out = sp_arena_alloc(g->arena, sizeof *out);
    SP_NEED(g->cx, out);
    SP_TRY(sp_tensor_alloc_in(g->arena, SPARTA_F32, y->dims.rank, p->dim, out));
    const sparta_tensor in[] = {*n->in[0]->constant, *n->in[1]->constant};
    SP_TRY(sp_quick_MatMul(g->cx, &(sp_op_args){&n->attrs, 2, 1, in, out}, done));
    if (!*done) return SPARTA_OK;
    y->constant = out;
    y->producer = NULL;
    return SPARTA_OK;
}

/* In order: a product may be of another one. */
sparta_status sp_pass_products(sp_graph *g)
{
    int64_t left = MOST_ALL;
    size_t bytes = sp_ctx_budget(g->cx) / 8;
    for (int i = 0; i < g->n_nodes && !sp_ctx_strict(g->cx); i++) {
        sp_node *n = g->node[i];
        product p;
        bool done = false;
        if (!is_product(n, &p) || p.work > left || p.bytes > bytes) continue;
        SP_TRY(sp_check_cancel(g->cx));
        SP_TRY(multiply(g, n, &p, &done));
        left -= p.work;
        bytes -= p.bytes;
        if (done) sp_graph_remove_node(g, i--);
    }
    return SPARTA_OK;
}
