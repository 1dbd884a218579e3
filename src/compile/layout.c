/* layout: conversions and order. Which nodes work on panels is settled (settle.c); here Identity nodes convert where a neighbour wants the
 * other, and nodes on rows are moved as early as they can be, so that runs of panel nodes stay together and form large groups.
 */
#include "compile/lower.h"
#include <string.h>

/* Does input i of this node come in panels? */
static bool takes_panel(const lower_node *ln, int i)
{
    if (ln->panel && !ln->im->kernel) return i == 0; /* a view */
    const sp_slot *slot = sp_implement_slot(ln->im, ln->node, i);
    return slot && slot->layouts & SP_IN(PANELS);
}

/* ------------------------------------------------------------------ conversions */

typedef struct list {
    lower_node *node;
    int n;
} list;

/* from -> Identity -> to (made when NULL); kernel "pack" or "unpack". */
static sparta_status convert(lowering *l, list *out, sp_value *from, sp_value **to, bool to_panel)
{
    sp_node *node;
    const char *name =
        sp_arena_printf(l->g->arena, "%s/%s", *to ? (*to)->name : from->name, to_panel ? "pack" : "unpack");
    SP_NEED(l->cx, name);
    SP_TRY(sp_graph_add_node(l->g, SP_OP_Identity, name, 1, &from, 1, to, &(sp_attrs){0}, &node));
    (*to)->dtype = from->dtype;
    (*to)->dims = from->dims;
    (*to)->typed = true;
    out->node[out->n++] = (lower_node){.node = node,
                                       .task = {.node = node},
                                       .panel = to_panel,
                                       .kernel = -1,
                                       .im = to_panel ? &sp_implement_pack : &sp_implement_unpack};
    return SPARTA_OK;
}

static sparta_status convert_inputs(lowering *l, list *out, lower_node *ln, bool *panel, sp_value **twin)
{
    for (int k = 0; k < ln->node->n_in; k++) {
        sp_value *v = ln->node->in[k];
        if (!v || (v->constant && !takes_panel(ln, k)) || panel[v->id] == takes_panel(ln, k)) continue;
        if (!twin[v->id]) {
            sp_value *made = NULL;
            SP_TRY(convert(l, out, v, &made, !panel[v->id]));
            twin[v->id] = made;
        }
        ln->node->in[k] = twin[v->id];
    }
    return SPARTA_OK;
}

/* An output of the graph that lives in panels gets a twin: the panels under a new name, the rows under its own. */
static sparta_status convert_output(lowering *l, list *out, lower_node *ln, int k, sp_value **twin)
{
    sp_value *rows = ln->node->out[k], *panels;
    SP_TRY(sp_graph_add_value(l->g, NULL, &panels));
    panels->dtype = rows->dtype;
    panels->dims = rows->dims;
    panels->typed = true;
    panels->producer = ln->node;
    ln->node->out[k] = panels;
    rows->producer = NULL;
    out->node[out->n++] = *ln;
    SP_TRY(convert(l, out, panels, &rows, false));
    twin[rows->id] = panels; /* readers in panels take the twin */
    return SPARTA_OK;
}

static sparta_status insert(lowering *l, bool *panel, sp_value **twin, list *out)
{
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SP_TRY(convert_inputs(l, out, ln, panel, twin));
        if (ln->panel && ln->node->n_out == 1 && ln->node->out[0]->is_output) {
            const int id = ln->node->out[0]->id;
            SP_TRY(convert_output(l, out, ln, 0, twin));
            panel[id] = false;
        } else {
            out->node[out->n++] = *ln;
        }
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ order */

/* Nodes on rows as early as they can be, so that runs of panel nodes stay together. The level of a node is the number of changes
 * between rows (even) and panels (odd) on the longest way to it; a stable sort by level keeps the topological order. */
static int level_of(const lower_node *ln, const int *level)
{
    const bool odd = ln->panel || ln->im == &sp_implement_unpack; /* conversions travel with the panels */
    int most = 0;
    for (int i = 0; i < ln->node->n_in; i++) {
        const sp_value *v = ln->node->in[i];
        if (v && v->producer && level[v->id] > most) most = level[v->id];
    }
    return most % 2 == odd ? most : most + 1;
}

static sparta_status order(lowering *l, list *all)
{
    int *level = sp_arena_array(l->arena, (size_t)l->g->n_values + 1, sizeof *level);
    int *mine = sp_arena_array(l->arena, (size_t)all->n + 1, sizeof *mine);
    int *start =
        sp_arena_array(l->arena, (size_t)all->n + 3, sizeof *start); /* of each level in the sorted list */
    lower_node *sorted = sp_arena_array(l->arena, (size_t)all->n + 1, sizeof *sorted);
    if (!level || !mine || !start || !sorted) return sp_ctx_status(l->cx);
    for (int i = 0; i < all->n; i++) {
        mine[i] = level_of(&all->node[i], level);
        for (int k = 0; k < all->node[i].node->n_out; k++) level[all->node[i].node->out[k]->id] = mine[i];
        start[mine[i] + 1]++;
    }
    for (int i = 0; i <= all->n + 1; i++) start[i + 1] += start[i];
    for (int i = 0; i < all->n; i++) {
        const int at = start[mine[i]]++;
        sorted[at] = all->node[i];
        l->g->node[at] = all->node[i].node;
    }
    l->node = sorted;
    l->n_nodes = all->n;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ kernels */

/* Statistics flow from a Linear to the normalisation of its output, when both lie in panels. */
static void settle_stat(lowering *l, const bool *left)
{
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *norm = &l->node[i];
        if (norm->node->op == SP_OP_LayerNormalization && norm->panel)
            norm->task.stat = left[norm->node->in[0]->id];
    }
}

static sparta_status settle_kernel(lowering *l, lower_node *ln)
{
    sp_text text;
    if (!ln->im->kernel) return SPARTA_OK;
    sp_text_init(&text, l->cx);
    if (ln->im->parameters) ln->im->parameters(ln->im, &ln->task, &text);
    sparta_status s = text.status == SPARTA_OK
                          ? sp_lower_kernel(l, ln->im->kernel, sp_text_str(&text), &ln->kernel)
                          : text.status;
    sp_text_free(&text);
    return s;
}

sparta_status sp_lower_layout(lowering *l)
{
    sp_graph *g = l->g;
    const size_t values = (size_t)g->n_values * 4 + 16,
                 nodes = (size_t)g->n_nodes + 2 * (size_t)g->n_values +
                         16; /* every value may be converted, outputs once more */
    bool *panel = sp_arena_array(l->arena, values, sizeof *panel);
    sp_value **twin = sp_arena_array(l->arena, values, sizeof *twin);
    list all = {sp_arena_array(l->arena, nodes, sizeof(lower_node)), 0};
    bool *left = sp_arena_array(l->arena, values, sizeof *left); /* with statistics */
    if (!panel || !twin || !all.node || !left) return sp_ctx_status(l->cx);
    for (int i = 0; i < l->n_nodes; i++)
        for (int k = 0; k < l->node[i].node->n_out; k++)
            panel[l->node[i].node->out[k]->id] = l->node[i].panel;
    SP_TRY(insert(l, panel, twin, &all));
    SP_TRY(order(l, &all));
    for (int i = 0; i < l->n_nodes; i++)
        left[l->node[i].node->out[0]->id] = l->node[i].panel && l->node[i].task.stat;
    settle_stat(l, left);
    for (int i = 0; i < l->n_nodes; i++) {
        SP_TRY(sp_check_cancel(l->cx));
        SP_TRY(settle_kernel(l, &l->node[i]));
    }
    return SPARTA_OK;
}
