/* layout: conversions and order. Where the results of nodes lie is settled (settle.c); here Identity nodes convert where a neighbour wants another
 * layout, and nodes on rows are moved as early as they can be, so that runs of nodes on lanes stay together and form large groups.
 */
#include "compile/lower.h"
#include <string.h>

/* ------------------------------------------------------------------ conversions */

typedef struct list {
    lower_node *node;
    int n;
    sp_layout *lies;               /* of each value */
    sp_value *(*twin)[SP_LAYOUTS]; /* of each value in other layouts; NULL: nobody wanted it there yet */
} list;

/* from -> Identity -> to (made when NULL), by kernel "to_lanes" or "to_rows". */
static sparta_status convert(lowering *l, list *out, sp_value *from, sp_value **to, sp_layout layout)
{
    const sp_implement *im = layout == SP_LAYOUT_ROWS ? &sp_implement_to_rows : &sp_implement_to_lanes;
    sp_node *node;
    const char *name = sp_arena_printf(l->g->arena, "%s/%s", *to ? (*to)->name : from->name, im->name);
    SP_NEED(l->cx, name);
    SP_TRY(sp_graph_add_node(l->g, SP_OP_Identity, name, 1, &from, 1, to, &(sp_attrs){0}, &node));
    (*to)->dtype = from->dtype;
    (*to)->dims = from->dims;
    (*to)->typed = true;
    out->lies[(*to)->id] = layout;
    out->node[out->n++] =
        (lower_node){.node = node, .task = {.node = node}, .layout = layout, .kernel = -1, .im = im};
    return SPARTA_OK;
}

/* A value where it is wanted: itself or its twin there. From lanes to lanes the way is over rows. */
static sparta_status bring(lowering *l, list *out, sp_value **v, sp_layout to)
{
    const sp_value *was = *v;
    const sp_layout from = out->lies[was->id];
    if (from == to) return SPARTA_OK;
    if (!out->twin[was->id][to]) {
        sp_value *made = NULL;
        if (to != SP_LAYOUT_ROWS) SP_TRY(bring(l, out, v, SP_LAYOUT_ROWS));
        SP_TRY(convert(l, out, *v, &made, to));
        out->twin[was->id][to] = made;
    }
    *v = out->twin[was->id][to];
    return SPARTA_OK;
}

static sparta_status convert_inputs(lowering *l, list *out, lower_node *ln)
{
    for (int k = 0; k < ln->node->n_in; k++) {
        sp_value *v = ln->node->in[k];
        const sp_layout to = sp_lower_takes(ln->node, ln->im, ln->layout, k);
        if (!v || (v->constant && !sp_layout_has_lanes(to))) continue;
        SP_TRY(bring(l, out, &v, to));
        ln->node->in[k] = v;
    }
    return SPARTA_OK;
}

/* An output of the graph that does not lie in rows gets a twin: the lanes under a new name, the rows under its own. */
static sparta_status convert_output(lowering *l, list *out, lower_node *ln)
{
    sp_value *rows = ln->node->out[0], *lanes;
    SP_TRY(sp_graph_add_value(l->g, NULL, &lanes));
    lanes->dtype = rows->dtype;
    lanes->dims = rows->dims;
    lanes->typed = true;
    lanes->producer = ln->node;
    ln->node->out[0] = lanes;
    rows->producer = NULL;
    out->lies[lanes->id] = ln->layout;
    out->twin[rows->id][ln->layout] = lanes; /* readers of lanes take the twin */
    out->node[out->n++] = *ln;
    return convert(l, out, lanes, &rows, SP_LAYOUT_ROWS);
}

static sparta_status insert(lowering *l, list *out)
{
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *ln = &l->node[i];
        SP_TRY(convert_inputs(l, out, ln));
        if (ln->layout != SP_LAYOUT_ROWS && ln->node->n_out == 1 && ln->node->out[0]->is_output)
            SP_TRY(convert_output(l, out, ln));
        else
            out->node[out->n++] = *ln;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ order */

/* Nodes on rows as early as they can be, so that runs of nodes on lanes stay together. The level of a node is the number of changes
 * between rows (even) and lanes (odd) on the longest way to it; a stable sort by level keeps the topological order. */
static int level_of(const lower_node *ln, const int *level)
{
    /* conversions travel with the lanes */
    const bool odd = sp_layout_has_lanes(ln->layout) || ln->im == &sp_implement_to_rows;
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

/* Statistics flow from a Linear to the normalisation of its output, when both lie in lanes. */
static void settle_stat(lowering *l, const bool *left)
{
    for (int i = 0; i < l->n_nodes; i++) {
        lower_node *norm = &l->node[i];
        if (sp_panel_takes_stat(norm->node->op) && sp_layout_has_lanes(norm->layout) &&
            !sp_implement_generates(norm->im))
            norm->task.stat = left[norm->node->in[0]->id];
    }
}

static sparta_status settle_kernel(lowering *l, lower_node *ln)
{
    if (ln->chain || ln->nest) return SPARTA_OK; /* fuse.c has said what runs it */
    return sp_lower_want(l, ln->im, &ln->task, &ln->kernel);
}

sparta_status sp_lower_layout(lowering *l)
{
    sp_graph *g = l->g;
    /* every value may be wanted in every layout, outputs once more */
    const size_t values = (size_t)g->n_values * (SP_LAYOUTS + 2) + 16, nodes = (size_t)g->n_nodes + values;
    list all = {.node = sp_arena_array(l->arena, nodes, sizeof *all.node),
                .lies = sp_arena_array(l->arena, values, sizeof *all.lies),
                .twin = sp_arena_array(l->arena, values, sizeof *all.twin)};
    bool *left = sp_arena_array(l->arena, values, sizeof *left); /* with statistics */
    if (!all.node || !all.lies || !all.twin || !left) return sp_ctx_status(l->cx);
    for (int i = 0; i < l->n_nodes; i++)
        for (int k = 0; k < l->node[i].node->n_out; k++)
            all.lies[l->node[i].node->out[k]->id] = l->node[i].layout;
    SP_TRY(insert(l, &all));
    SP_TRY(order(l, &all));
    for (int i = 0; i < l->n_nodes; i++)
        left[l->node[i].node->out[0]->id] = sp_layout_has_lanes(l->node[i].layout) && l->node[i].task.stat;
    settle_stat(l, left);
    SP_TRY(sp_lower_fuse(l));
    for (int i = 0; i < l->n_nodes; i++) {
        SP_TRY(sp_check_cancel(l->cx));
        SP_TRY(settle_kernel(l, &l->node[i]));
    }
    return sp_lower_build(l);
}
