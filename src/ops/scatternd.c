/* ScatterND: type and dims of x. updates has the dims of indices but the last, then those of x that the
 * tuples leave free. */
#include "ops/ints.h"
#include <string.h>

static sparta_status check_reduction(sp_graph *g, sp_node *n)
{
    static const char *const known[] = {"none", "add", "mul", "max", "min"};
    const char *reduction = sp_attr_string(&n->attrs, "reduction", "none");
    for (size_t i = 0; i < SP_COUNT(known); i++)
        if (!strcmp(known[i], reduction)) return i ? sp_ops_types(g, n, 0, SP_NUMBERS) : SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED,
                       "reduction \"%.40s\" is not one of none, add, mul, max, min", reduction);
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *indices = &n->in[1]->dims, *updates = &n->in[2]->dims;
    int64_t tuple;
    sp_dims want = {.rank = 0};
    SP_TRY(check_reduction(g, n));
    SP_TRY(sp_ops_types(g, n, 1, SP_TYPE(SPARTA_I64)));
    SP_TRY(sp_ops_same_type(g, n, 0, 2));
    SP_TRY(sp_ops_rank(g, n, 0, 1, SPARTA_RANK));
    SP_TRY(sp_ops_rank(g, n, 1, 1, SPARTA_RANK));
    if (!sp_expr_is_const(indices->dim[indices->rank - 1], &tuple) || tuple < 1 || tuple > x->rank)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "the last dim of indices %s must be a number in [1, %d]",
                           sp_ops_say_dims(g, indices), x->rank);
    for (int i = 0; i < indices->rank - 1; i++) SP_TRY(sp_ops_append(g, n, &want, indices->dim[i]));
    for (int i = (int)tuple; i < x->rank; i++) SP_TRY(sp_ops_append(g, n, &want, x->dim[i]));
    SP_TRY(sp_ops_rank(g, n, 2, want.rank, want.rank));
    for (int i = 0; i < want.rank; i++)
        SP_TRY(sp_ops_agree(g, n, "a dim of updates", updates->dim[i], want.dim[i]));
    sp_ops_set(n, 0, n->in[0]->dtype, x);
    return strcmp(sp_attr_string(&n->attrs, "reduction", "none"), "none")
               ? SPARTA_OK
               : sp_ops_move(g, n, 1 << 0 | 1 << 2);
}

/* x, y: K c (K: the tuples choose), updates: i c. The indices say where, and stay. */
static sparta_status axes(sp_axes *a)
{
    static const char why[] = "where it writes among them is known only as the model runs";
    const sp_dims *x = &a->n->in[0]->dims, *updates = &a->n->in[2]->dims;
    int label[SPARTA_RANK], l, lead = a->n->in[1]->dims.rank - 1, tuple = x->rank - (updates->rank - lead);
    SP_TRY(sp_axes_labels(a, a->n->out[0], label));
    a->how = SP_FLOW_FUNCTION;
    a->no_values = true;
    a->in[0].role = a->in[2].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < x->rank; i++) a->in[0].axis[i] = a->out[0].axis[i] = sp_axis_of(label[i]);
    for (int i = 0; i < tuple; i++) {
        a->label[label[i]].why = why;
        a->label[label[i]].run = SP_MAX(a->label[label[i]].size, 0);
    }
    for (int i = 0; i < updates->rank; i++) {
        l = i < lead ? -1 : label[tuple + i - lead];
        if (l < 0) SP_TRY(sp_axes_label(a, updates->dim[i], SP_WHOLE, why, &l));
        a->in[2].axis[i] = sp_axis_of(l);
    }
    return SPARTA_OK;
}

SP_RULE(ScatterND, shape, SP_ALL, SP_CONSERVATIVE, axes, NULL,
        "nothing is known of what it writes; axes that its tuples leave free are independent", "");
