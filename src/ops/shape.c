/* Shape: i64, one element per dim from attribute start to attribute end; the contents are the dims
 * themselves. */
#include "ops/flow.h"
#include "ops/ints.h"
#include "builtin/view.h"

sparta_status sparta_shape_Shape(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *x = &n->in[0]->dims;
    int64_t first, count = sparta_slice_count(x->rank, sparta_attr_int(&n->attrs, "start", 0),
                                              sparta_attr_int(&n->attrs, "end", x->rank), 1, &first);
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_append(g, n, &dims, sparta_expr_const(g->arena, count)));
    const sparta_expr **ints = sparta_arena_array(g->arena, (size_t)count, sizeof *ints);
    SPARTA_NEED(g->cx, ints);
    for (int64_t i = 0; i < count; i++) ints[i] = x->dim[first + i];
    sparta_ops_set(n, 0, SPARTA_I64, &dims);
    sparta_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

static sparta_status axes(sparta_axes *a)
{
    const sparta_dims *x = &a->n->in[0]->dims;
    int64_t first;
    int label[SPARTA_RANK], count;
    (void)sparta_slice_count(x->rank, sparta_attr_int(&a->n->attrs, "start", 0),
                             sparta_attr_int(&a->n->attrs, "end", x->rank), 1, &first);
    SPARTA_TRY(sparta_axes_labels(a, a->n->in[0], label));
    SPARTA_TRY(sparta_axes_label(a, a->n->out[0]->dims.dim[0], SPARTA_EACH, "they are sizes", &count));
    a->how = SPARTA_FLOW_SIZES;
    a->first = (int)first;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < x->rank; i++) a->in[0].axis[i] = sparta_axis_of(label[i]);
    a->out[0].axis[0] = sparta_axis_of(count);
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Shape = {SPARTA_EXACT, "tells sizes, needs no contents", "any", "", axes, NULL};
