/* Attention: q is (B, S, heads*E), k (B, T, heads*E), v (B, T, heads*D), the output (B, S, heads*D); the mask repeats into (B, heads,
 * S, T). */
#include "ops/flow.h"
#include "ops/ints.h"

/* Columns of one head of input i. */
static sparta_status columns_of(sparta_graph *g, const sparta_node *n, int i, const sparta_expr *heads,
                                const sparta_expr **out)
{
    const sparta_expr *all = n->in[i]->dims.dim[2];
    *out = NULL;
    if (sparta_ops_positive(g, heads)) SPARTA_TRY(sparta_ops_divide(g, all, heads, out));
    if (!*out)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s columns do not divide into %s heads",
                               sparta_ops_say(g, all), sparta_ops_say(g, heads));
    return SPARTA_OK;
}

sparta_status sparta_shape_Attention(sparta_graph *g, sparta_node *n)
{
    const sparta_dims *q = &n->in[0]->dims, *k = &n->in[1]->dims, *v = &n->in[2]->dims;
    const sparta_expr *heads = sparta_expr_const(g->arena, sparta_attr_int(&n->attrs, "heads", 1)), *columns;
    SPARTA_NEED(g->cx, heads);
    for (int i = 0; i < 3; i++) {
        SPARTA_TRY(sparta_ops_rank(g, n, i, 3, 3));
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_agree(g, n, "batch", q->dim[0], n->in[i]->dims.dim[0]));
    }
    SPARTA_TRY(sparta_ops_agree(g, n, "columns of q and k", q->dim[2], k->dim[2]));
    SPARTA_TRY(sparta_ops_agree(g, n, "length of k and v", k->dim[1], v->dim[1]));
    SPARTA_TRY(columns_of(g, n, 0, heads, &columns));
    SPARTA_TRY(columns_of(g, n, 2, heads, &columns));
    SPARTA_TRY(sparta_ops_types(g, n, 0, SPARTA_FLOATS));
    SPARTA_TRY(sparta_ops_types(g, n, 3, SPARTA_FLOATS));
    sparta_dims scores = {.rank = 4, .dim = {q->dim[0], heads, q->dim[1], k->dim[1]}};
    if (sparta_ops_has(n, 3)) SPARTA_TRY(sparta_ops_broadcasts_to(g, n, &n->in[3]->dims, &scores));
    const sparta_dims y = {.rank = 3, .dim = {q->dim[0], q->dim[1], v->dim[2]}};
    sparta_ops_set(n, 0, n->in[0]->dtype, &y);
    return SPARTA_OK;
}

/* q: b s (h e), k: b t (h e), v: b t (h d), mask: b h s t; y: b s (h d). Heads may go; e and d stay. */
static sparta_status axes(sparta_axes *a)
{
    static const char why[] = "the columns of a head belong together; prune whole heads";
    const sparta_dims *q = &a->n->in[0]->dims;
    const sparta_expr *heads = sparta_expr_const(a->g->arena, sparta_attr_int(&a->n->attrs, "heads", 1)),
                      *columns, *columns_v;
    int b, h, s, t, e, d;
    SPARTA_NEED(a->g->cx, heads);
    SPARTA_TRY(sparta_ops_divide(a->g, q->dim[2], heads, &columns));
    SPARTA_TRY(sparta_ops_divide(a->g, a->n->in[2]->dims.dim[2], heads, &columns_v));
    if (!columns || !columns_v) return SPARTA_OK;
    SPARTA_TRY(sparta_axes_label(a, q->dim[0], SPARTA_EACH, NULL, &b));
    SPARTA_TRY(sparta_axes_label(a, heads, SPARTA_EACH, NULL, &h));
    SPARTA_TRY(sparta_axes_label(a, q->dim[1], SPARTA_EACH, NULL, &s));
    SPARTA_TRY(sparta_axes_label(a, a->n->in[1]->dims.dim[1], SPARTA_WHOLE, "a softmax runs over them", &t));
    SPARTA_TRY(sparta_axes_label(a, columns, SPARTA_WHOLE, why, &e));
    SPARTA_TRY(sparta_axes_label(a, columns_v, SPARTA_EACH, why, &d));
    a->how = SPARTA_FLOW_FUNCTION;
    a->label[e].run = SPARTA_MAX(a->label[e].size, 0);
    a->label[d].run = SPARTA_MAX(a->label[d].size, 0);
    a->no_values = true; /* its reference divides the columns by attribute heads */
    for (int i = 0; i < 3; i++)
        a->in[i] = (sparta_flow_operand){
            .role = SPARTA_ARG,
            .axis = {sparta_axis_of(b), sparta_axis_of(i ? t : s), sparta_axis_pair(h, i == 2 ? d : e)}};
    sparta_axes_broadcast(a, 3, SPARTA_ARG, 4, (int[]){b, h, s, t});
    a->out[0] = a->in[2];
    a->out[0].axis[1] = sparta_axis_of(s);
    return SPARTA_OK;
}

static sparta_status shrink(const sparta_shrink *s)
{
    int h = s->axes->in[0].axis[2].label[0];
    if (!s->kept[h]) return SPARTA_OK;
    return sparta_shrink_int(s, "heads", sparta_shrink_count(s, h, 0, s->axes->label[h].size));
}

const sparta_flow sparta_flow_Attention = {SPARTA_CONSERVATIVE,
                                           "head by head; the columns of a head and all rows of k and v stay",
                                           "floats",
                                           "",
                                           axes,
                                           shrink};
