/* MatMul: (..., M, K) times (..., K, N) is (..., M, N); the leading dims broadcast. A vector on the left is a
 * row, on the right a column, and its dim does not appear in the result. */
#include "ops/flow.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *a = &n->in[0]->dims, *b = &n->in[1]->dims;
    sp_dims left = {.rank = SP_MAX(a->rank - 2, 0)}, right = {.rank = SP_MAX(b->rank - 2, 0)}, dims;
    SP_TRY(sp_ops_same_type(g, n, 0, 1));
    SP_TRY(sp_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SP_TRY(sp_ops_rank(g, n, 1, 1, SPARTA_RANK));
    SP_TRY(sp_ops_agree(g, n, "K of the left and of the right", a->dim[a->rank - 1],
                        b->dim[SP_MAX(b->rank - 2, 0)]));
    for (int i = 0; i < left.rank; i++) left.dim[i] = a->dim[i];
    for (int i = 0; i < right.rank; i++) right.dim[i] = b->dim[i];
    SP_TRY(sp_ops_broadcast(g, n, &left, &right, &dims));
    if (a->rank > 1) SP_TRY(sp_ops_append(g, n, &dims, a->dim[a->rank - 2]));
    if (b->rank > 1) SP_TRY(sp_ops_append(g, n, &dims, b->dim[b->rank - 1]));
    return sp_ops_done(n, n->in[0]->dtype, &dims);
}

/* x: b m k, w: b k n, y: b m n. A vector has no m, or no n. */
static sparta_status axes(sp_axes *a)
{
    const sp_dims *x = &a->n->in[0]->dims, *w = &a->n->in[1]->dims;
    int label[SPARTA_RANK], k, rank = a->n->out[0]->dims.rank, lead = rank - (x->rank > 1) - (w->rank > 1);
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    SP_TRY(sp_axes_label(a, x->dim[x->rank - 1], SP_SUM, NULL, &k));
    a->how = SP_FLOW_PRODUCT;
    for (int i = 0; i < 2; i++) { /* the leading dims broadcast; the last two are set below */
        const sp_dims *d = i ? w : x;
        int shown[SPARTA_RANK];
        for (int j = 0; j < lead; j++) shown[j] = label[j];
        for (int j = lead; j < lead + 2 && j < SPARTA_RANK; j++) shown[j] = k;
        sp_axes_broadcast(a, i, SP_FACTOR, d->rank > 1 ? lead + 2 : 1, d->rank > 1 ? shown : &k);
    }
    a->in[0].axis[x->rank - 1] = sp_axis_of(k);
    a->in[1].axis[SP_MAX(w->rank - 2, 0)] = sp_axis_of(k);
    if (x->rank > 1) a->in[0].axis[x->rank - 2] = sp_axis_of(label[lead]);
    if (w->rank > 1) a->in[1].axis[w->rank - 1] = sp_axis_of(label[rank - 1]);
    a->out[0].role = SP_ARG;
    for (int j = 0; j < rank; j++) a->out[0].axis[j] = sp_axis_of(label[j]);
    if (w->rank > 1) a->bias_axis = rank - 1;
    return SPARTA_OK;
}

SP_RULE(MatMul, shape, SP_WIDE, SP_EXACT, axes, NULL,
        "zero where every product of its sum is; zero and constant summands go", "");
