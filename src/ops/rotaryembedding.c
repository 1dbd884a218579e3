/* RotaryEmbedding: type and dims of x. The tables of cos and sin are (positions, half) with position_ids (B, S), or (B, S, half)
 * without; half is half of attribute rotary_embedding_dim, or of a head. */
#include "ops/flow.h"
#include "ops/heads.h"

sparta_status sp_ops_heads(sp_graph *g, const sp_node *n, int i, const char *attribute, sp_dims *out)
{
    const sp_dims *x = &n->in[i]->dims;
    const sp_expr *heads = sp_expr_const(g->arena, sp_attr_int(&n->attrs, attribute, 0)), *each = NULL;
    SP_NEED(g->cx, heads);
    SP_TRY(sp_ops_rank(g, n, i, 3, 4));
    if (x->rank == 4) {
        *out = *x;
        if (!sp_attr_find(&n->attrs, attribute) || sp_expr_is(heads, 0)) return SPARTA_OK;
        return sp_ops_agree(g, n, attribute, heads, x->dim[1]);
    }
    if (sp_ops_positive(g, heads)) SP_TRY(sp_ops_divide(g, x->dim[2], heads, &each));
    if (!each)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s columns of '%.200s' do not divide into %s=%s heads",
                           sp_ops_say(g, x->dim[2]), n->in[i]->name, attribute, sp_ops_say(g, heads));
    *out = (sp_dims){.rank = 4, .dim = {x->dim[0], heads, x->dim[1], each}};
    return SPARTA_OK;
}

/* Half of what turns: a whole number of pairs, inside of the head. */
static sparta_status find_half(sp_graph *g, const sp_node *n, const sp_expr *head, const sp_expr **out)
{
    int64_t turned = sp_attr_int(&n->attrs, "rotary_embedding_dim", 0), size;
    const sp_expr *two = sp_expr_const(g->arena, 2), *whole = head;
    if (turned) whole = sp_expr_const(g->arena, turned);
    SP_NEED(g->cx, two && whole);
    SP_TRY(sp_ops_divide(g, whole, two, out));
    if (!*out || turned < 0 || (sp_expr_is_const(head, &size) && turned > size))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s elements of a head of %s cannot be turned in pairs",
                           sp_ops_say(g, whole), sp_ops_say(g, head));
    return SPARTA_OK;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    sp_dims x;
    const sp_expr *half;
    const bool ids = sp_ops_has(n, 3);
    SP_TRY(sp_ops_heads(g, n, 0, "num_heads", &x));
    SP_TRY(find_half(g, n, x.dim[3], &half));
    SP_TRY(sp_ops_types(g, n, 3, SP_INDICES));
    SP_TRY(sp_ops_rank(g, n, 3, 2, 2));
    for (int i = 1; i < 3; i++) {
        const sp_dims *table = &n->in[i]->dims;
        SP_TRY(sp_ops_same_type(g, n, 0, i));
        SP_TRY(sp_ops_rank(g, n, i, ids ? 2 : 3, ids ? 2 : 3));
        SP_TRY(sp_ops_agree(g, n, "columns of cos or sin, and half of what turns",
                            table->dim[table->rank - 1], half));
        if (ids) SP_TRY(sp_ops_agree(g, n, "positions of cos and sin", n->in[1]->dims.dim[0], table->dim[0]));
    }
    const sp_dims *rows = &n->in[ids ? 3 : 1]->dims, *others = &n->in[ids ? 3 : 2]->dims;
    SP_TRY(sp_ops_agree(g, n, "batch of x and of the positions", x.dim[0], rows->dim[0]));
    SP_TRY(sp_ops_agree(g, n, "length of x and of the positions", x.dim[2], rows->dim[1]));
    SP_TRY(sp_ops_agree(g, n, "batch of cos and of sin", rows->dim[0], others->dim[0]));
    SP_TRY(sp_ops_agree(g, n, "length of cos and of sin", rows->dim[1], others->dim[1]));
    return sp_ops_same(g, n);
}

/* The tables are by batch and place, (b s half), or by position, (positions half), with the positions (b s). */
static sparta_status table_axes(sp_axes *a, int i, const int *label)
{
    const sp_node *n = a->n;
    const bool places = i == 3 || !sp_ops_has(n, 3); /* it begins with b s */
    if (!sp_ops_has(n, i)) return SPARTA_OK;
    a->in[i].role = SP_ARG;
    for (int k = 0; k < n->in[i]->dims.rank; k++) {
        int l = k ? label[2] : label[0];
        if (!places || k == 2)
            SP_TRY(sp_axes_label(a, n->in[i]->dims.dim[k], SP_WHOLE, "RotaryEmbedding turns by them", &l));
        a->in[i].axis[k] = sp_axis_of(l);
    }
    return SPARTA_OK;
}

/* x: b h s d or b s (h d). Zero stays zero. */
static sparta_status axes(sp_axes *a)
{
    const sp_node *n = a->n;
    sp_dims x;
    int label[4];
    static const char *const why[4] = {NULL, NULL, NULL, "it turns pairs of them; prune whole heads"};
    SP_TRY(sp_ops_heads(a->g, n, 0, "num_heads", &x));
    for (int i = 0; i < 4; i++)
        SP_TRY(sp_axes_label(a, x.dim[i], i == 3 ? SP_WHOLE : SP_EACH, why[i], &label[i]));
    a->label[label[1]].run = SP_MAX(a->label[label[1]].size, 0); /* as attribute num_heads says */
    a->how = SP_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = SP_FACTOR;
    a->out[0].role = SP_ARG;
    for (int i = 0; i < 4; i++) a->in[0].axis[i] = sp_axis_of(label[i]);
    if (n->in[0]->dims.rank == 3) {
        a->in[0].axis[1] = sp_axis_of(label[2]);
        a->in[0].axis[2] = sp_axis_pair(label[1], label[3]);
    }
    for (int i = 0; i < n->in[0]->dims.rank; i++) a->out[0].axis[i] = a->in[0].axis[i];
    for (int i = 1; i < 4; i++) SP_TRY(table_axes(a, i, label));
    return SPARTA_OK;
}

static sparta_status shrink(const sp_shrink *s)
{
    int64_t heads = s->axes->label[1].size;
    if (!sp_attr_int(&s->n->attrs, "num_heads", 0)) return SPARTA_OK;
    return sp_shrink_int(s, "num_heads", sp_shrink_count(s, 1, 0, heads));
}

SP_RULE(RotaryEmbedding, shape, SP_FLOATS, SP_CONSERVATIVE, axes, shrink,
        "head by head; zero where the head is; the elements of a head stay", "");
