/* Relative: c is (B, S, heads*K), at (S, T), p (B, T, heads*L), back (T, S); the output (B, heads, S, T). */
#include "ops/flow.h"
#include "ops/ints.h"

static sparta_status columns(sp_graph *g, const sp_node *n, int i, const sp_expr *heads)
{
    const sp_expr *each = NULL;
    if (sp_ops_positive(g, heads)) SP_TRY(sp_ops_divide(g, n->in[i]->dims.dim[2], heads, &each));
    return each ? SPARTA_OK
                : sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s columns do not divide into %s heads",
                              sp_ops_say(g, n->in[i]->dims.dim[2]), sp_ops_say(g, heads));
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_expr *heads = sp_expr_const(g->arena, sp_attr_int(&n->attrs, "heads", 1));
    SP_NEED(g->cx, heads);
    if (n->n_in == 3) return sp_ops_fail(g, n, SPARTA_E_FORMAT, "rows of keys come with their indices");
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) return sp_ops_fail(g, n, SPARTA_E_FORMAT, "input %d is absent", i);
        SP_TRY(sp_ops_types(g, n, i, i % 2 ? SP_INDICES : SP_TYPE(SPARTA_F32)));
        SP_TRY(sp_ops_rank(g, n, i, i % 2 ? 2 : 3, i % 2 ? 2 : 3));
        if (i % 2 == 0) SP_TRY(columns(g, n, i, heads));
    }
    const sp_dims *c = &n->in[0]->dims, *at = &n->in[1]->dims;
    SP_TRY(sp_ops_agree(g, n, "number of queries", c->dim[1], at->dim[0]));
    if (n->n_in > 2) {
        const sp_dims *p = &n->in[2]->dims, *back = &n->in[3]->dims;
        SP_TRY(sp_ops_agree(g, n, "number of items", c->dim[0], p->dim[0]));
        SP_TRY(sp_ops_agree(g, n, "number of keys", at->dim[1], p->dim[1]));
        SP_TRY(sp_ops_agree(g, n, "number of keys", at->dim[1], back->dim[0]));
        SP_TRY(sp_ops_agree(g, n, "number of queries", at->dim[0], back->dim[1]));
    }
    const sp_dims y = {.rank = 4, .dim = {c->dim[0], heads, at->dim[0], at->dim[1]}};
    return sp_ops_done(n, SPARTA_F32, &y);
}

/* c: b s (h k), at: s t, p: b t (h l), back: t s; y: b h s t. Items are apart from each other; all else stays. */
static sparta_status axes(sp_axes *a)
{
    static const char why[] = "which column is taken is known only as the model runs";
    const sp_dims *y = &a->n->out[0]->dims;
    int label[4], columns;
    for (int i = 0; i < 4; i++) SP_TRY(sp_axes_label(a, y->dim[i], SP_EACH, i ? why : NULL, &label[i]));
    const sp_axis b = sp_axis_of(label[0]), s = sp_axis_of(label[2]), t = sp_axis_of(label[3]);
    a->how = SP_FLOW_FUNCTION;
    a->no_values = true; /* its reference divides the columns by attribute heads */
    for (int i = 0; i < a->n->n_in; i++) {
        const sp_axis own = i < 2 ? s : t, other = i < 2 ? t : s;
        a->in[i].role = SP_ARG;
        a->in[i].axis[0] = i % 2 ? own : b;
        a->in[i].axis[1] = i % 2 ? other : own;
        if (i % 2) continue;
        SP_TRY(sp_axes_label(a, a->n->in[i]->dims.dim[2], SP_WHOLE, why, &columns));
        a->in[i].axis[2] = sp_axis_of(columns);
    }
    a->out[0] = (sp_flow_operand){.role = SP_ARG, .axis = {b, sp_axis_of(label[1]), s, t}};
    return SPARTA_OK;
}

SP_RULE(Relative, shape, SP_TYPE(SPARTA_F32), SP_CONSERVATIVE, axes, NULL, "item by item; all else stays",
        "");
