/* Are the items of a batch computed apart?
 *
 * Said by the axes of flow.h: a value that has the item symbol in one of its dims has items there; a node keeps them apart when all its
 * operands that have items have them under one label, index by index, and every output has that label too.
 *
 *     MatMul    x: b m k   w: k n      y: b m n     apart
 *     Softmax   x: b t  over b         y: b t       not: b is whole
 *     Gather    x: b c     of item 0   y: c         not: the output has no b
 *
 * How many items there are may not get into the contents either (x / batch): such values, from Shape, may only say where elements
 * move to (a Reshape's shape). */
#include "ops/flow.h"

typedef struct search {
    sp_graph *g;
    sp_arena *arena; /* of axes */
    const char *symbol;
    bool *counts; /* by value id: the contents tell how many items there are */
} search;

enum { NO_ITEMS = -1, MIXED = -2 };

/* The axis that has the items. */
static int item_axis(const search *s, const sp_value *v)
{
    int axis = NO_ITEMS;
    for (int i = 0; i < v->dims.rank; i++)
        if (sp_ops_mentions(v->dims.dim[i], s->symbol)) axis = axis == NO_ITEMS ? i : MIXED;
    return axis;
}

static bool has_items(const search *s, const sp_value *v)
{
    return v && item_axis(s, v) != NO_ITEMS;
}

/* What a node's outputs know of the number of items; `inputs`: some input tells it. */
static void note_counts(search *s, const sp_node *n, bool inputs)
{
    for (int o = 0; o < n->n_out; o++) {
        const sp_value *v = n->out[o];
        bool *counts = &s->counts[v->id];
        *counts = inputs && !v->ints;
        for (int i = 0; v->ints && i < v->n_ints; i++) *counts |= sp_ops_mentions(v->ints[i], s->symbol);
    }
}

/* The items of an operand are the major part of one label, the same for all; -1 in *label: none yet. */
static bool same_label(const search *s, const sp_axes *a, const sp_value *v, const sp_flow_operand *o,
                       int *label)
{
    const int at = item_axis(s, v);
    if (at == MIXED || !o->axis[at].n || o->axis[at].window) return false;
    const int l = o->axis[at].label[0];
    if (*label < 0) *label = l;
    return l == *label && a->label[l].kind == SP_EACH;
}

/* A node some operand of which has items. */
static bool keeps_apart(const search *s, const sp_node *n, const sp_axes *a)
{
    const bool moves = a->how == SP_FLOW_MOVE || n->op == SP_OP_Reshape;
    int label = -1;
    if (a->how == SP_FLOW_OPAQUE) return false;
    for (int i = 0; i < n->n_in; i++) {
        const sp_value *v = n->in[i];
        if (!v) continue;
        if (s->counts[v->id] && !(moves && a->in[i].role == SP_SIDE)) return false;
        if (!has_items(s, v)) continue;
        if (a->in[i].role == SP_SIDE || !same_label(s, a, v, &a->in[i], &label)) return false;
    }
    for (int o = 0; o < n->n_out; o++)
        if (!has_items(s, n->out[o]) || !same_label(s, a, n->out[o], &a->out[o], &label)) return false;
    return true;
}

static sparta_status look_at(search *s, const sp_node *n, bool *apart)
{
    bool items = false, counts = false;
    sp_axes a;
    for (int i = 0; i < n->n_in; i++) {
        items |= has_items(s, n->in[i]);
        counts |= n->in[i] && s->counts[n->in[i]->id];
    }
    for (int o = 0; o < n->n_out; o++) items |= has_items(s, n->out[o]);
    if (items) {
        SP_TRY(sp_axes_of(s->g, n, s->arena, &a));
        if (a.how == SP_FLOW_SIZES)
            counts = true;
        else
            *apart = keeps_apart(s, n, &a);
    }
    note_counts(s, n, counts);
    return SPARTA_OK;
}

sparta_status sp_ops_items_apart(sp_graph *g, const char *symbol, bool *out)
{
    search s = {.g = g, .symbol = symbol, .arena = sp_arena_create(g->cx)};
    SP_NEED(g->cx, s.arena);
    bool apart = true;
    s.counts = sp_arena_array(s.arena, (size_t)g->n_values + 1, sizeof *s.counts);
    sparta_status status = s.counts ? SPARTA_OK : sp_ctx_status(g->cx);
    for (int i = 0; i < g->n_nodes && apart && !status; i++) status = look_at(&s, g->node[i], &apart);
    sp_arena_free(s.arena);
    if (!status) *out = apart;
    return status;
}
