/* Attention: q is (B, S, heads*E), k (B, T, heads*E), v (B, T, heads*D), the output (B, S, heads*D); the mask repeats into (B, heads,
 * S, T). */
#include "ops/ints.h"

/* Columns of one head of input i. */
static sparta_status columns_of(sp_graph *g, const sp_node *n, int i, const sp_expr *heads,
                                const sp_expr **out)
{
    const sp_expr *all = n->in[i]->dims.dim[2];
    *out = NULL;
    if (sp_ops_positive(g, heads)) SP_TRY(sp_ops_divide(g, all, heads, out));
    if (!*out)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s columns do not divide into %s heads", sp_ops_say(g, all),
                           sp_ops_say(g, heads));
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *q = &n->in[0]->dims, *k = &n->in[1]->dims, *v = &n->in[2]->dims;
    const sp_expr *heads = sp_expr_const(g->arena, sp_attr_int(&n->attrs, "heads", 1)), *columns;
    SP_NEED(g->cx, heads);
    for (int i = 0; i < 3; i++) {
        SP_TRY(sp_ops_rank(g, n, i, 3, 3));
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_agree(g, n, "batch", q->dim[0], n->in[i]->dims.dim[0]));
    }
    SP_TRY(sp_ops_agree(g, n, "columns of q and k", q->dim[2], k->dim[2]));
    SP_TRY(sp_ops_agree(g, n, "length of k and v", k->dim[1], v->dim[1]));
    SP_TRY(columns_of(g, n, 0, heads, &columns));
    SP_TRY(columns_of(g, n, 2, heads, &columns));
    SP_TRY(sp_ops_types(g, n, 3, SP_FLOATS));
    sp_dims scores = {.rank = 4, .dim = {q->dim[0], heads, q->dim[1], k->dim[1]}};
    if (sp_ops_has(n, 3)) SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[3]->dims, &scores));
    const sp_dims y = {.rank = 3, .dim = {q->dim[0], q->dim[1], v->dim[2]}};
    return sp_ops_done(n, n->in[0]->dtype, &y);
}

/* q: b s (h e), k: b t (h e), v: b t (h d), mask: b h s t; y: b s (h d). Heads may go; e and d stay. */
static sparta_status axes(sp_axes *a)
{
    static const char why[] = "the columns of a head belong together; prune whole heads";
    const sp_dims *q = &a->n->in[0]->dims;
    const sp_expr *heads = sp_expr_const(a->g->arena, sp_attr_int(&a->n->attrs, "heads", 1)), *columns,
                  *columns_v;
    int b, h, s, t, e, d;
    SP_NEED(a->g->cx, heads);
    SP_TRY(sp_ops_divide(a->g, q->dim[2], heads, &columns));
    SP_TRY(sp_ops_divide(a->g, a->n->in[2]->dims.dim[2], heads, &columns_v));
    if (!columns || !columns_v) return SPARTA_OK;
    SP_TRY(sp_axes_label(a, q->dim[0], SP_EACH, NULL, &b));
    SP_TRY(sp_axes_label(a, heads, SP_EACH, NULL, &h));
    SP_TRY(sp_axes_label(a, q->dim[1], SP_EACH, NULL, &s));
    SP_TRY(sp_axes_label(a, a->n->in[1]->dims.dim[1], SP_WHOLE, "a softmax runs over them", &t));
    SP_TRY(sp_axes_label(a, columns, SP_WHOLE, why, &e));
    SP_TRY(sp_axes_label(a, columns_v, SP_EACH, why, &d));
    a->how = SP_FLOW_FUNCTION;
    a->label[e].run = SP_MAX(a->label[e].size, 0);
    a->label[d].run = SP_MAX(a->label[d].size, 0);
    a->no_values = true; /* its reference divides the columns by attribute heads */
    for (int i = 0; i < 3; i++)
        a->in[i] = (sp_flow_operand){
            .role = SP_ARG, .axis = {sp_axis_of(b), sp_axis_of(i ? t : s), sp_axis_pair(h, i == 2 ? d : e)}};
    sp_axes_broadcast(a, 3, SP_ARG, 4, (int[]){b, h, s, t});
    a->out[0] = a->in[2];
    a->out[0].axis[1] = sp_axis_of(s);
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    int h = s->axes->in[0].axis[2].label[0];
    if (!s->kept[h]) return SPARTA_OK;
    return sp_shrink_int(s, "heads", sp_shrink_count(s, h, 0, s->axes->label[h].size));
}

SP_RULE(Attention, shape, SP_FLOATS, SP_CONSERVATIVE, axes, shrink,
        "head by head; the columns of a head and all rows of k and v stay", "");
