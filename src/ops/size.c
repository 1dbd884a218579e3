/* Size: a scalar i64; its content is the product of the dims. */
#include "ops/ints.h"

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_expr **ints = sp_arena_alloc(g->arena, sizeof *ints);
    SP_NEED(g->cx, ints);
    *ints = sp_dims_elements(g->arena, &n->in[0]->dims);
    SP_NEED(g->cx, *ints);
    sp_ops_set(n, 0, SPARTA_I64, &(sp_dims){.rank = 0});
    sp_ops_set_ints(n, 0, ints);
    return SPARTA_OK;
}

/* Every axis counts, so all of them stay. */
static sparta_status axes(sp_axes *a)
{
    int label[SPARTA_RANK], rank = a->n->in[0]->dims.rank;
    if (rank == 0) return SPARTA_OK;
    SP_TRY(sp_axes_labels(a, a->n->in[0], label));
    a->how = SP_FLOW_SIZES;
    a->in[0].role = a->out[0].role = SP_ARG;
    for (int i = 0; i < rank; i++) {
        a->label[label[i]].why = "it counts them";
        a->in[0].axis[i] = sp_axis_of(label[i]);
    }
    return SPARTA_OK;
}

SP_RULE(Size, shape, SP_ALL, SP_CONSERVATIVE, axes, NULL, "tells sizes, needs no contents; every axis stays",
        "");
