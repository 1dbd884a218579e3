/* GatherND: the dims of indices but the last, then the dims of x that its tuples (and the batch) leave free.
 */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_GatherND(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims, *indices = &n->in[1]->dims;
    int64_t batch = sparta_attr_int(&n->attrs, "batch_dims", 0), tuple;
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_types(g, n, 1, SPARTA_TYPE(SPARTA_I64)));
    SPARTA_TRY(sparta_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SPARTA_TRY(sparta_ops_rank(g, n, 1, 1, SPARTA_RANK));
    if (batch < 0 || batch >= SPARTA_MIN(x->rank, indices->rank))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "batch_dims is %lld for ranks %d and %d",
                               (long long)batch, x->rank, indices->rank);
    if (!sparta_expr_is_const(indices->dim[indices->rank - 1], &tuple) || tuple < 1 ||
        tuple > x->rank - batch)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "the last dim of indices %s must be a number in [1, %d]",
                               sparta_ops_say_dims(g, indices), (int)(x->rank - batch));
    for (int i = 0; i < batch; i++)
        SPARTA_TRY(sparta_ops_agree(g, n, "a batch dim", x->dim[i], indices->dim[i]));
    for (int i = 0; i < indices->rank - 1; i++) SPARTA_TRY(sparta_ops_append(g, n, &dims, indices->dim[i]));
    for (int i = (int)(batch + tuple); i < x->rank; i++)
        SPARTA_TRY(sparta_ops_append(g, n, &dims, x->dim[i]));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}

/* x: b K c (K: the tuples choose), indices: b i t, y: b i c. */
static sparta_status axes(sparta_axes *a)
{
    static const char why[] = "which of them it takes is known only as the model runs";
    const sparta_dims *x = &a->n->in[0]->dims, *indices = &a->n->in[1]->dims, *y = &a->n->out[0]->dims;
    int label[SPARTA_RANK], l, batch = (int)sparta_attr_int(&a->n->attrs, "batch_dims", 0),
                               lead = indices->rank - 1;
    int chosen = x->rank - (y->rank - lead); /* axes before this one are of the batch or chosen */
    SPARTA_TRY(sparta_axes_labels(a, a->n->out[0], label));
    a->how = SPARTA_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = SPARTA_FACTOR;
    a->in[1].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < y->rank; i++) a->out[0].axis[i] = sparta_axis_of(label[i]);
    for (int i = 0; i < x->rank; i++) {
        l = i < batch ? label[i] : i >= chosen ? label[lead + i - chosen] : -1;
        if (l < 0) SPARTA_TRY(sparta_axes_label(a, x->dim[i], SPARTA_SUM, why, &l));
        a->in[0].axis[i] = sparta_axis_of(l);
    }
    for (int i = 0; i < lead; i++) a->in[1].axis[i] = sparta_axis_of(label[i]);
    SPARTA_TRY(sparta_axes_label(a, indices->dim[lead], SPARTA_SUM, why, &l));
    a->in[1].axis[lead] = sparta_axis_of(l);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_GatherND = {
    SPARTA_CONSERVATIVE, "zero where all it chooses from is, which stays", "any", "", axes, NULL};
