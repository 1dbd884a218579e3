/* norm: layer normalisation of the last axis with constant gain and shift, on panels. */
#include "implement/implement.h"

static bool is_vector(const sp_value *v, const sp_expr *features)
{
    return !v || (v->dims.rank == 1 && sp_expr_equal(v->dims.dim[0], features));
}

static bool match(const sp_task *t)
{
    const sp_node *n = t->node;
    if (!n->in[0]) return false;
    const int64_t axis = sp_attr_int(&n->attrs, "axis", -1);
    const int last = n->in[0]->dims.rank - 1;
    const sp_expr *features = n->in[0]->dims.dim[last];
    return (axis == -1 || axis == last) && n->in[1] && is_vector(n->in[1], features) &&
           is_vector(n->n_in > 2 ? n->in[2] : NULL, features);
}

const sp_implement sp_implement_norm = {.name = "norm", .kernel = "norm", .match = match};
