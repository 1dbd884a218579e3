/* The row of products of two values that are computed, where a schedule sparsifies the left one as the model runs: an attention's probabilities before they meet
 * the values, or any other. What stays of a row is listed, and the rows of the right one that are not listed are not read. */
#include "implement/implement.h"

/* The same matrices in front of both, or one on the right for all. */
static bool fits(const sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *w = &n->in[1]->dims, *y = &n->out[0]->dims;
    bool same = x->rank == w->rank, one = true;
    int64_t size;
    if (x->rank < 2 || w->rank < 2 || w->rank > x->rank || y->rank != x->rank) return false;
    for (int d = 0; d + 2 < w->rank; d++) {
        same = same && sp_expr_equal(x->dim[d], w->dim[d]);
        one = one && sp_expr_is_const(w->dim[d], &size) && size == 1;
    }
    return same || one;
}

/* What is not read is not multiplied: 0 times an infinite value would show. Rows of which much is there are not worth listing, and without a Sparsify nobody knows. */
static bool match(const sp_task *t)
{
    return !t->strict && t->present > 0 && t->present < SP_MATMUL_SHARE && fits(t->node);
}

const sp_implement sp_implement_matmul_skip = {
    .name = "matmul_skip", .sparse = true, .skips = true, .kernel = "matmul_skip", .match = match};
