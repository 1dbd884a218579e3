/* GatherND: the dims of indices but the last, then the dims of x that its tuples (and the batch) leave free.
 */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *indices = &n->in[1]->dims;
    int64_t batch = sp_attr_int(&n->attrs, "batch_dims", 0), tuple;
    sp_dims dims = {.rank = 0};
    SP_TRY(sp_ops_types(g, n, 1, SP_TYPE(SPARTA_I64)));
    SP_TRY(sp_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SP_TRY(sp_ops_rank(g, n, 1, 1, SPARTA_RANK));
    if (batch < 0 || batch >= SP_MIN(x->rank, indices->rank))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "batch_dims is %lld for ranks %d and %d", (long long)batch,
                           x->rank, indices->rank);
    if (!sp_expr_is_const(indices->dim[indices->rank - 1], &tuple) || tuple < 1 || tuple > x->rank - batch)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "the last dim of indices %s must be a number in [1, %d]",
                           sp_ops_say_dims(g, indices), (int)(x->rank - batch));
    for (int i = 0; i < batch; i++) SP_TRY(sp_ops_agree(g, n, "a batch dim", x->dim[i], indices->dim[i]));
    for (int i = 0; i < indices->rank - 1; i++) SP_TRY(sp_ops_append(g, n, &dims, indices->dim[i]));
    for (int i = (int)(batch + tuple); i < x->rank; i++) SP_TRY(sp_ops_append(g, n, &dims, x->dim[i]));
    sp_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sp_ops_move(g, n, 1);
}

/* x: b K c (K: the tuples choose), indices: b i t, y: b i c. */
static sparta_status axes(sp_axes *a)
{
    static const char why[] = "which of them it takes is known only as the model runs";
    const sp_dims *x = &a->n->in[0]->dims, *indices = &a->n->in[1]->dims, *y = &a->n->out[0]->dims;
    int label[SPARTA_RANK], l, batch = (int)sp_attr_int(&a->n->attrs, "batch_dims", 0),
                               lead = indices->rank - 1;
    int chosen = x->rank - (y->rank - lead); /* axes before this one are of the batch or chosen */
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    a->how = SP_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = SP_FACTOR;
    a->in[1].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < y->rank; i++) a->out[0].axis[i] = sp_axis_of(label[i]);
    for (int i = 0; i < x->rank; i++) {
        l = i < batch ? label[i] : i >= chosen ? label[lead + i - chosen] : -1;
        if (l < 0) SP_TRY(sp_axes_label(a, x->dim[i], SP_SUM, why, &l));
        a->in[0].axis[i] = sp_axis_of(l);
    }
    for (int i = 0; i < lead; i++) a->in[1].axis[i] = sp_axis_of(label[i]);
    SP_TRY(sp_axes_label(a, indices->dim[lead], SP_SUM, why, &l));
    a->label[l].run = chosen - batch; /* part of a tuple would choose more of x */
    a->in[1].axis[lead] = sp_axis_of(l);
    return SPARTA_OK;
}

SP_RULE(GatherND, shape, SP_ALL, SP_CONSERVATIVE, axes, NULL,
        "zero where all it chooses from is, which stays", "");
