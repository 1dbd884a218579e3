/* RotaryEmbedding: type and dims of x. The tables of cos and sin are (positions, half) with position_ids (B, S), or (B, S, half)
 * without; half is half of attribute rotary_embedding_dim, or of a head. */
#include "ops/flow.h"
#include "ops/heads.h"

sparta_status sparta_ops_heads(sparta_graph *g, const sparta_node *n, int i, const char *attribute,
                               sparta_dims *out)
{
    const sparta_dims *x = &n->in[i]->dims;
    const sparta_expr *heads = sparta_expr_const(g->arena, sparta_attr_int(&n->attrs, attribute, 0)),
                      *each = NULL;
    SPARTA_NEED(g->cx, heads);
    SPARTA_TRY(sparta_ops_rank(g, n, i, 3, 4));
    if (x->rank == 4) {
        *out = *x;
        if (!sparta_attr_find(&n->attrs, attribute) || sparta_expr_is(heads, 0)) return SPARTA_OK;
        return sparta_ops_agree(g, n, attribute, heads, x->dim[1]);
    }
    if (sparta_ops_positive(g, heads)) SPARTA_TRY(sparta_ops_divide(g, x->dim[2], heads, &each));
    if (!each)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s columns of '%.200s' do not divide into %s=%s heads",
                               sparta_ops_say(g, x->dim[2]), n->in[i]->name, attribute,
                               sparta_ops_say(g, heads));
    *out = (sparta_dims){.rank = 4, .dim = {x->dim[0], heads, x->dim[1], each}};
    return SPARTA_OK;
}

/* Half of what turns: a whole number of pairs, inside of the head. */
static sparta_status find_half(sparta_graph *g, const sparta_node *n, const sparta_expr *head,
                               const sparta_expr **out)
{
    int64_t turned = sparta_attr_int(&n->attrs, "rotary_embedding_dim", 0), size;
    const sparta_expr *two = sparta_expr_const(g->arena, 2), *whole = head;
    if (turned) whole = sparta_expr_const(g->arena, turned);
    SPARTA_NEED(g->cx, two && whole);
    SPARTA_TRY(sparta_ops_divide(g, whole, two, out));
    if (!*out || turned < 0 || (sparta_expr_is_const(head, &size) && turned > size))
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s elements of a head of %s cannot be turned in pairs",
                               sparta_ops_say(g, whole), sparta_ops_say(g, head));
    return SPARTA_OK;
}

sparta_status sparta_shape_RotaryEmbedding(sparta_graph *g, sparta_node *n)
{
    sparta_dims x;
    const sparta_expr *half;
    const bool ids = sparta_ops_has(n, 3);
    SPARTA_TRY(sparta_ops_heads(g, n, 0, "num_heads", &x));
    SPARTA_TRY(find_half(g, n, x.dim[3], &half));
    SPARTA_TRY(sparta_ops_types(g, n, 3, SPARTA_INDICES));
    SPARTA_TRY(sparta_ops_rank(g, n, 3, 2, 2));
    for (int i = 1; i < 3; i++) {
        const sparta_dims *table = &n->in[i]->dims;
        SPARTA_TRY(sparta_ops_same_type(g, n, 0, i));
        SPARTA_TRY(sparta_ops_rank(g, n, i, ids ? 2 : 3, ids ? 2 : 3));
        SPARTA_TRY(sparta_ops_agree(g, n, "columns of cos or sin, and half of what turns",
                                    table->dim[table->rank - 1], half));
        if (ids)
            SPARTA_TRY(
                sparta_ops_agree(g, n, "positions of cos and sin", n->in[1]->dims.dim[0], table->dim[0]));
    }
    const sparta_dims *rows = &n->in[ids ? 3 : 1]->dims, *others = &n->in[ids ? 3 : 2]->dims;
    SPARTA_TRY(sparta_ops_agree(g, n, "batch of x and of the positions", x.dim[0], rows->dim[0]));
    SPARTA_TRY(sparta_ops_agree(g, n, "length of x and of the positions", x.dim[2], rows->dim[1]));
    SPARTA_TRY(sparta_ops_agree(g, n, "batch of cos and of sin", rows->dim[0], others->dim[0]));
    SPARTA_TRY(sparta_ops_agree(g, n, "length of cos and of sin", rows->dim[1], others->dim[1]));
    return sparta_ops_unary(g, n, SPARTA_FLOATS);
}

/* The tables are by batch and place, (b s half), or by position, (positions half), with the positions (b s). */
static sparta_status table_axes(sparta_axes *a, int i, const int *label)
{
    const sparta_node *n = a->n;
    const bool places = i == 3 || !sparta_ops_has(n, 3); /* it begins with b s */
    if (!sparta_ops_has(n, i)) return SPARTA_OK;
    a->in[i].role = SPARTA_ARG;
    for (int k = 0; k < n->in[i]->dims.rank; k++) {
        int l = k ? label[2] : label[0];
        if (!places || k == 2)
            SPARTA_TRY(sparta_axes_label(a, n->in[i]->dims.dim[k], SPARTA_WHOLE,
                                         "RotaryEmbedding turns by them", &l));
        a->in[i].axis[k] = sparta_axis_of(l);
    }
    return SPARTA_OK;
}

/* x: b h s d or b s (h d). Zero stays zero. */
static sparta_status axes(sparta_axes *a)
{
    const sparta_node *n = a->n;
    sparta_dims x;
    int label[4];
    static const char *const why[4] = {NULL, NULL, NULL, "it turns pairs of them; prune whole heads"};
    SPARTA_TRY(sparta_ops_heads(a->g, n, 0, "num_heads", &x));
    for (int i = 0; i < 4; i++)
        SPARTA_TRY(sparta_axes_label(a, x.dim[i], i == 3 ? SPARTA_WHOLE : SPARTA_EACH, why[i], &label[i]));
    a->label[label[1]].run = SPARTA_MAX(a->label[label[1]].size, 0); /* as attribute num_heads says */
    a->how = SPARTA_FLOW_PRODUCT;
    a->no_values = true;
    a->in[0].role = SPARTA_FACTOR;
    a->out[0].role = SPARTA_ARG;
    for (int i = 0; i < 4; i++) a->in[0].axis[i] = sparta_axis_of(label[i]);
    if (n->in[0]->dims.rank == 3) {
        a->in[0].axis[1] = sparta_axis_of(label[2]);
        a->in[0].axis[2] = sparta_axis_pair(label[1], label[3]);
    }
    for (int i = 0; i < n->in[0]->dims.rank; i++) a->out[0].axis[i] = a->in[0].axis[i];
    for (int i = 1; i < 4; i++) SPARTA_TRY(table_axes(a, i, label));
    return SPARTA_OK;
}

static sparta_status shrink(const sparta_shrink *s)
{
    int64_t heads = s->axes->label[1].size;
    if (!sparta_attr_int(&s->n->attrs, "num_heads", 0)) return SPARTA_OK;
    return sparta_shrink_int(s, "num_heads", sparta_shrink_count(s, 1, 0, heads));
}

const sparta_flow sparta_flow_RotaryEmbedding = {
    SPARTA_CONSERVATIVE,
    "head by head; zero where the head is; the elements of a head stay",
    "floats",
    "",
    axes,
    shrink};
