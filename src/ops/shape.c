/* Shape: i64, one element per dim from attribute start to attribute end; the contents are the dims
 * themselves. */
#include "ops/ints.h"
#include "builtin/view.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims;
    int64_t first, count = sp_slice_count(x->rank, sp_attr_int(&n->attrs, "start", 0),
                                          sp_attr_int(&n->attrs, "end", x->rank), 1, &first);
    sp_dims dims = {.rank = 0};
    SP_TRY(sp_ops_append(g, n, &dims, sp_expr_const(g->arena, count)));
    const sp_expr **ints = sp_arena_array(g->arena, (size_t)count, sizeof *ints);
    SP_NEED(g->cx, ints);
    for (int64_t i = 0; i < count; i++) ints[i] = x->dim[first + i];
    sp_ops_set(n, 0, SPARTA_I64, &dims);
    sp_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

static sparta_status axes(sp_axes *a)
{
    const sp_dims *x = &a->n->in[0]->dims;
    int64_t first;
    int label[SPARTA_RANK], count;
    (void)sp_slice_count(x->rank, sp_attr_int(&a->n->attrs, "start", 0),
                         sp_attr_int(&a->n->attrs, "end", x->rank), 1, &first);
    SP_TRY(sp_axes_labels(a, a->n->in[0], label));
    SP_TRY(sp_axes_label(a, a->n->out[0]->dims.dim[0], SP_EACH, "they are sizes", &count));
    a->how = SP_FLOW_SIZES;
    a->first = (int)first;
    a->in[0].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < x->rank; i++) a->in[0].axis[i] = sp_axis_of(label[i]);
    a->out[0].axis[0] = sp_axis_of(count);
    return SPARTA_OK;
}

SP_RULE(Shape, shape, SP_ALL, SP_EXACT, axes, NULL, "tells sizes, needs no contents", "");
