/* Attention: q is (B, S, heads*E), k (B, T, groups*E), v (B, T, groups*D), the output (B, S, heads*D); the mask repeats into (B, heads,
 * S, T). Groups (attribute kv_heads) of as many heads each share a head of k and v. These two may also come as a cache has them, (B, groups, T, E)
 * and (B, groups, T, D). */
#include "ops/ints.h"

typedef struct sizes {
    const sp_expr *heads, *groups, *each; /* each: heads of a group */
    const sp_expr *e, *d;                 /* columns of a head in q and k, in v and the output */
} sizes;

/* Keys of k or v. */
static const sp_expr *keys_of(const sp_value *v)
{
    return v->dims.dim[v->dims.rank - 2];
}

/* Columns of one head of input i. */
static sparta_status columns_of(sp_graph *g, const sp_node *n, int i, const sp_expr *heads,
                                const sp_expr **out)
{
    const sp_dims *x = &n->in[i]->dims;
    const sp_expr *all = x->dim[x->rank - 1];
    *out = NULL;
    if (x->rank == 4) {
        *out = all;
        return sp_ops_agree(g, n, "heads of k and v", x->dim[1], heads);
    }
    if (sp_ops_positive(g, heads)) SP_TRY(sp_ops_divide(g, all, heads, out));
    if (!*out)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s columns do not divide into %s heads", sp_ops_say(g, all),
                           sp_ops_say(g, heads));
    return SPARTA_OK;
}

static sparta_status sizes_of(sp_graph *g, const sp_node *n, sizes *s)
{
    const int64_t heads = sp_attr_int(&n->attrs, "heads", 1),
                  groups = sp_attr_int(&n->attrs, "kv_heads", heads);
    const sp_expr *columns;
    if (groups < 1 || heads % groups)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%lld heads of q are no multiple of %lld heads of k and v",
                           (long long)heads, (long long)groups);
    s->heads = sp_expr_const(g->arena, heads);
    SP_NEED(g->cx, s->heads);
    s->groups = sp_expr_const(g->arena, groups);
    SP_NEED(g->cx, s->groups);
    s->each = sp_expr_const(g->arena, heads / groups);
    SP_NEED(g->cx, s->each);
    SP_TRY(columns_of(g, n, 0, s->heads, &s->e));
    SP_TRY(columns_of(g, n, 1, s->groups, &columns));
    SP_TRY(columns_of(g, n, 2, s->groups, &s->d));
    return sp_ops_agree(g, n, "columns of a head of q and of k", s->e, columns);
}

/* A mask of four dims may be that of a part of the batch, again and again. */
static sparta_status check_mask(sp_graph *g, sp_node *n, const sizes *s)
{
    if (!sp_ops_has(n, 3)) return SPARTA_OK;
    const sp_dims *m = &n->in[3]->dims;
    const sp_expr *batch = n->in[0]->dims.dim[0], *times = NULL;
    if (m->rank == 4 && sp_ops_positive(g, m->dim[0])) SP_TRY(sp_ops_divide(g, batch, m->dim[0], &times));
    const sp_dims full = {
        .rank = 4, .dim = {times ? m->dim[0] : batch, s->heads, n->in[0]->dims.dim[1], keys_of(n->in[1])}};
    return sp_ops_broadcasts_to(g, n, m, &full);
}

/* (B, heads, blocks of queries, any number) */
static sparta_status check_list(sp_graph *g, sp_node *n, const sizes *s)
{
    const sp_expr *rows;
    if (!sp_ops_has(n, 4)) return SPARTA_OK;
    const sp_dims *list = &n->in[4]->dims;
    SP_TRY(sp_ops_rank(g, n, 4, 4, 4));
    SP_TRY(sp_ops_types(g, n, 4, SP_TYPE(SPARTA_I32)));
    SP_TRY(sp_ops_blocks(g, n, n->in[0]->dims.dim[1], &rows));
    SP_TRY(sp_ops_agree(g, n, "batch of q and of the list", n->in[0]->dims.dim[0], list->dim[0]));
    SP_TRY(sp_ops_agree(g, n, "heads of q and of the list", s->heads, list->dim[1]));
    return sp_ops_agree(g, n, "blocks of queries", rows, list->dim[2]);
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    const sp_dims *q = &n->in[0]->dims;
    sizes s;
    for (int i = 0; i < 3; i++) {
        SP_TRY(sp_ops_rank(g, n, i, 3, i ? 4 : 3));
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_agree(g, n, "batch", q->dim[0], n->in[i]->dims.dim[0]));
    }
    SP_TRY(sp_ops_agree(g, n, "length of k and v", keys_of(n->in[1]), keys_of(n->in[2])));
    SP_TRY(sizes_of(g, n, &s));
    SP_TRY(sp_ops_types(g, n, 3, SP_FLOATS));
    SP_TRY(check_mask(g, n, &s));
    SP_TRY(check_list(g, n, &s));
    const sp_expr *columns = sp_expr_mul(g->arena, s.heads, s.d);
    SP_NEED(g->cx, columns);
    const sp_dims y = {.rank = 3, .dim = {q->dim[0], q->dim[1], columns}};
    return sp_ops_done(n, n->in[0]->dtype, &y);
}

/* Is the mask's first dim that of the batch, or 1? */
static bool plain_mask(const sp_node *n)
{
    if (!sp_ops_has(n, 3) || n->in[3]->dims.rank < 4) return true;
    const sp_expr *items = n->in[3]->dims.dim[0];
    return sp_expr_is(items, 1) || sp_expr_equal(items, n->in[0]->dims.dim[0]);
}

static void mask_axes(sp_axes *a, int b, int h, int r, int s, int t)
{
    if (!sp_ops_has(a->n, 3)) return;
    const sp_dims *m = &a->n->in[3]->dims;
    const sp_axis full[4] = {sp_axis_of(b), sp_axis_pair(h, r), sp_axis_of(s), sp_axis_of(t)};
    a->in[3].role = SP_ARG;
    for (int k = 0; k < m->rank; k++)
        if (!sp_expr_is(m->dim[k], 1)) a->in[3].axis[k] = full[4 - m->rank + k];
}

static sp_axis triple(int h, int r, int columns)
{
    sp_axis x = sp_axis_pair(h, r);
    x.label[x.n++] = columns;
    return x;
}

/* q: b s (h r e), k: b t (h e) or b h t e, v: b t (h d) or b h t d, mask: b (h r) s t; y: b s (h r d). Groups of heads may go; e and d stay. */
static sparta_status axes(sp_axes *a)
{
    static const char why[] = "the columns of a head belong together; prune whole heads",
                      sees[] = "a window of keys counts them";
    const sp_dims *q = &a->n->in[0]->dims;
    const bool window =
        sp_attr_int(&a->n->attrs, "left", -1) >= 0 || sp_attr_int(&a->n->attrs, "right", -1) >= 0;
    sizes z;
    int b, h, r, s, t, e, d;
    if (!plain_mask(a->n) || sp_ops_has(a->n, 4)) return SPARTA_OK;
    SP_TRY(sizes_of(a->g, a->n, &z));
    SP_TRY(sp_axes_label(a, q->dim[0], SP_EACH, NULL, &b));
    SP_TRY(sp_axes_label(a, z.groups, SP_EACH, NULL, &h));
    SP_TRY(sp_axes_label(a, z.each, SP_EACH, "they share a head of k and v", &r));
    SP_TRY(sp_axes_label(a, q->dim[1], SP_EACH, window ? sees : NULL, &s));
    SP_TRY(sp_axes_label(a, keys_of(a->n->in[1]), SP_WHOLE, "a softmax runs over them", &t));
    SP_TRY(sp_axes_label(a, z.e, SP_WHOLE, why, &e));
    SP_TRY(sp_axes_label(a, z.d, SP_EACH, why, &d));
    a->how = SP_FLOW_FUNCTION;
    a->label[e].run = SP_MAX(a->label[e].size, 0);
    a->label[d].run = SP_MAX(a->label[d].size, 0);
    a->label[r].run = SP_MAX(a->label[r].size, 0);
    a->no_values = true; /* its reference divides the columns by attribute heads */
    a->in[0] = (sp_flow_operand){.role = SP_ARG, .axis = {sp_axis_of(b), sp_axis_of(s), triple(h, r, e)}};
    for (int i = 1; i < 3; i++) {
        const int columns = i == 2 ? d : e;
        a->in[i] = (sp_flow_operand){.role = SP_ARG,
                                     .axis = {sp_axis_of(b), sp_axis_of(t), sp_axis_pair(h, columns)}};
        if (a->n->in[i]->dims.rank == 4)
            a->in[i] = (sp_flow_operand){
                .role = SP_ARG, .axis = {sp_axis_of(b), sp_axis_of(h), sp_axis_of(t), sp_axis_of(columns)}};
    }
    mask_axes(a, b, h, r, s, t);
    a->out[0] = (sp_flow_operand){.role = SP_ARG, .axis = {sp_axis_of(b), sp_axis_of(s), triple(h, r, d)}};
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    const sp_label *label = s->axes->label;
    const sp_axis *q = &s->axes->in[0].axis[2];
    const int h = q->label[0], r = q->label[1];
    if (!s->kept[h]) return SPARTA_OK;
    const int64_t groups = sp_shrink_count(s, h, 0, label[h].size);
    SP_TRY(sp_shrink_int(s, "heads", groups * label[r].size));
    return sp_attr_find(&s->n->attrs, "kv_heads") ? sp_shrink_int(s, "kv_heads", groups) : SPARTA_OK;
}

SP_RULE(Attention, shape, SP_FLOATS, SP_CONSERVATIVE, axes, shrink,
        "head by head; the columns of a head and all rows of k and v stay", "");
