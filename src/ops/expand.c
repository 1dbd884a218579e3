/* Expand: the dims of x broadcast against those that the second input holds. */
#include "ops/flow.h"
#include "ops/ints.h"

sparta_status sparta_shape_Expand(sparta_graph *g, sparta_node *n)
{
    sparta_list shape;
    sparta_dims dims = {.rank = 0};
    SPARTA_TRY(sparta_ops_list(g, n, 1, "the shape", &shape));
    for (int i = 0; i < shape.n; i++) SPARTA_TRY(sparta_ops_append(g, n, &dims, shape.x[i]));
    SPARTA_TRY(sparta_ops_broadcast(g, n, &n->in[0]->dims, &dims, &dims));
    sparta_ops_set(n, 0, n->in[0]->dtype, &dims);
    return sparta_ops_move(g, n, 1);
}

/* The input repeats along the labels that it lacks. A shape with symbols there cannot be written anew. */
static sparta_status axes(sparta_axes *a)
{
    int label[SPARTA_RANK], rank = a->n->out[0]->dims.rank, x = a->n->in[0]->dims.rank;
    bool computed = false;
    SPARTA_TRY(sparta_axes_labels(a, a->n->out[0], label));
    a->how = SPARTA_FLOW_MOVE;
    sparta_axes_broadcast(a, 0, SPARTA_ARG, rank, label);
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < rank; i++) {
        a->out[0].axis[i] = sparta_axis_of(label[i]);
        if (i >= rank - x && a->in[0].axis[i - (rank - x)].n) continue;
        a->label[label[i]].why = "Expand repeats them";
        computed |= a->label[label[i]].size < 0;
    }
    for (int i = 0; computed && i < rank; i++)
        if (!a->label[label[i]].why) a->label[label[i]].why = "the shape is computed as the model runs";
    return SPARTA_OK;
}

static sparta_status shrink(const sparta_shrink *s)
{
    const sparta_dims *y = &s->n->out[0]->dims;
    int64_t shape[SPARTA_RANK] = {0};
    int before = y->rank - s->n->in[0]->dims.rank;
    bool changed = false;
    for (int i = 0; i < y->rank; i++) {
        bool has = i >= before && s->axes->in[0].axis[i - before].n;
        changed |= s->kept[s->axes->out[0].axis[i].label[0]] != NULL;
        if (has || !sparta_expr_is_const(y->dim[i], &shape[i])) shape[i] = 1;
    }
    return changed ? sparta_shrink_list(s, 1, y->rank, shape) : SPARTA_OK;
}

const sparta_flow sparta_flow_Expand = {
    SPARTA_EXACT, "the same elements, repeated", "any", "a shape computed from data", axes, shrink};
