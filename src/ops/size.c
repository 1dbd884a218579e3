/* Size: a scalar i64; its content is the product of the dims. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Size(sparta_graph *g, sparta_node *n)
{
    const sparta_expr **ints = sparta_arena_alloc(g->arena, sizeof *ints);
    SPARTA_NEED(g->cx, ints);
    *ints = sparta_dims_elements(g->arena, &n->in[0]->dims);
    SPARTA_NEED(g->cx, *ints);
    sparta_ops_set(n, 0, SPARTA_I64, &(sparta_dims){.rank = 0});
    sparta_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

/* Every axis counts, so all of them stay. */
static sparta_status axes(sparta_axes *a)
{
    int label[SPARTA_RANK], rank = a->n->in[0]->dims.rank;
    if (rank == 0) return SPARTA_OK;
    SPARTA_TRY(sparta_axes_labels(a, a->n->in[0], label));
    a->how = SPARTA_FLOW_SIZES;
    a->in[0].role = a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < rank; i++) {
        a->label[label[i]].why = "it counts them";
        a->in[0].axis[i] = sparta_axis_of(label[i]);
    }
    return SPARTA_OK;
}

const sparta_flow sparta_flow_Size = {
    SPARTA_CONSERVATIVE, "tells sizes, needs no contents; every axis stays", "any", "", axes, NULL};
