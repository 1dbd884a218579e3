/* change.c: changing a graph in place: replacing uses, moving and dropping nodes, sorting. */
#include "graph/graph.h"
#include <string.h>

/* `by` takes over the name of `old`, an output. The ids go with the names, so that by_name stays true without
 * a change. */
static void swap_names(sp_graph *g, sp_value *old, sp_value *by)
{
    const char *name = old->name;
    old->name = by->name;
    by->name = name;
    int id = old->id;
    old->id = by->id;
    by->id = id;
    g->value[old->id] = old;
    g->value[by->id] = by;
}

sparta_status sp_graph_rename(sp_graph *g, sp_value *v, const char *name)
{
    sp_value *other;
    SP_TRY(sp_graph_add_value(g, name, &other));
    swap_names(g, other, v);
    return SPARTA_OK;
}

static void replace_in(sp_node *n, const sp_value *old, sp_value *by)
{
    for (int j = 0; j < n->n_in; j++)
        if (n->in[j] == old) n->in[j] = by;
}

static void replace_output(sp_graph *g, sp_value *old, sp_value *by)
{
    if (!old->is_output || by->is_output || by->is_input || by->constant) return;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->output[i] == old) g->output[i] = by;
    old->is_output = false;
    by->is_output = true;
    swap_names(g, old, by);
}

void sp_graph_replace(sp_graph *g, const sp_users *u, sp_value *old, sp_value *by)
{
    if (old == by) return;
    for (int i = u->first[old->id], last = -1; i < u->first[old->id + 1]; last = u->user[i++])
        if (u->user[i] != last) replace_in(g->node[u->user[i]], old, by); /* all slots of a node at once */
    replace_output(g, old, by);
}

/* Is it in the graph, at its id? */
static bool has_its_id(const sp_graph *g, const sp_value *v)
{
    return v->id >= 0 && v->id < g->n_values && g->value[v->id] == v;
}

/* Counted, then laid out one value behind the other: first[id] runs along while they are filled in, and is set back. */
sparta_status sp_graph_users(const sp_graph *g, sp_arena *arena, sp_users *out)
{
    const size_t values = (size_t)g->n_values;
    size_t all = 0;
    sp_users u;
    for (int i = 0; i < g->n_nodes; i++) all += (size_t)sp_node_slots(g->node[i]);
    u.first = sp_arena_array(arena, values + 2, sizeof *u.first);
    u.user = sp_arena_array(arena, SP_MAX(all, (size_t)1), sizeof *u.user);
    SP_NEED(g->cx, u.first && u.user);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < sp_node_slots(g->node[i]); k++)
            if (sp_node_slot(g->node[i], k)) {
                SP_ASSERT(has_its_id(g, sp_node_slot(g->node[i], k)));
                u.first[sp_node_slot(g->node[i], k)->id + 1]++;
            }
    for (size_t i = 0; i < values; i++) u.first[i + 1] += u.first[i];
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < sp_node_slots(g->node[i]); k++)
            if (sp_node_slot(g->node[i], k)) u.user[u.first[sp_node_slot(g->node[i], k)->id]++] = i;
    for (size_t i = values; i > 0; i--) u.first[i] = u.first[i - 1];
    u.first[0] = 0;
    *out = u;
    return SPARTA_OK;
}

int sp_graph_uses(const sp_graph *g, const sp_value *v)
{
    int uses = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->node[i]->n_in; j++) uses += g->node[i]->in[j] == v;
    for (int i = 0; i < g->n_outputs; i++) uses += g->output[i] == v;
    return uses;
}

void sp_graph_used(const sp_graph *g, bool *used)
{
    for (int i = 0; i < g->n_outputs; i++) used[g->output[i]->id] = true;
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->node[i]->n_in; j++)
            if (g->node[i]->in[j]) used[g->node[i]->in[j]->id] = true;
}

void sp_graph_move_node(sp_graph *g, int at, sp_node *node)
{
    int from = g->n_nodes - 1; /* mostly it was just added: look from the end */
    while (from > 0 && g->node[from] != node) from--;
    if (from >= at)
        memmove(g->node + at + 1, g->node + at, (size_t)(from - at) * sizeof *g->node);
    else {
        at--; /* it leaves a gap before its place */
        memmove(g->node + from, g->node + from + 1, (size_t)(at - from) * sizeof *g->node);
    }
    g->node[at] = node;
}

sparta_status sp_graph_set_input(sp_graph *g, sp_node *n, int i, sp_value *v)
{
    if (i >= n->n_in) {
        sp_value **in = sp_arena_array(g->arena, (size_t)i + 1, sizeof *in);
        SP_NEED(g->cx, in);
        if (n->n_in) memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
        n->in = in;
        n->n_in = i + 1;
    }
    n->in[i] = v;
    return SPARTA_OK;
}

static void orphan(sp_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]->producer == n) n->out[i]->producer = NULL;
}

void sp_graph_remove_node(sp_graph *g, int at)
{
    orphan(g->node[at]);
    memmove(g->node + at, g->node + at + 1, (size_t)(g->n_nodes - at - 1) * sizeof *g->node);
    g->n_nodes--;
}

/* ------------------------------------------------------------------ sweep */

/* maker[id of value] = index of the node that makes it, or -1. NULL after a message. */
static int *makers(const sp_graph *g)
{
    int *maker = sp_alloc_array(g->cx, (size_t)g->n_values, sizeof *maker);
    if (!maker) return NULL;
    for (int i = 0; i < g->n_values; i++) maker[i] = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->node[i]->n_out; j++) maker[g->node[i]->out[j]->id] = i;
    return maker;
}

static void want(const sp_value *v, const int *maker, bool *live, int *stack, int *top)
{
    if (!v || maker[v->id] < 0 || live[maker[v->id]]) return;
    live[maker[v->id]] = true;
    stack[(*top)++] = maker[v->id];
}

sparta_status sp_graph_sweep(sp_graph *g)
{
    int *maker = makers(g);
    bool *live = sp_alloc_array(g->cx, (size_t)g->n_nodes, sizeof *live);
    int *stack = sp_alloc_array(g->cx, (size_t)g->n_nodes, sizeof *stack); /* each node enters once */
    bool ready = maker && live && stack;
    if (ready) {
        int top = 0, kept = 0;
        for (int i = 0; i < g->n_outputs; i++) want(g->output[i], maker, live, stack, &top);
        while (top > 0) {
            const sp_node *n = g->node[stack[--top]];
            for (int j = 0; j < n->n_in; j++) want(n->in[j], maker, live, stack, &top);
        }
        for (int i = 0; i < g->n_nodes; i++) {
            if (live[i])
                g->node[kept++] = g->node[i];
            else
                orphan(g->node[i]);
        }
        g->n_nodes = kept;
    }
    sp_free(g->cx, maker);
    sp_free(g->cx, live);
    sp_free(g->cx, stack);
    return ready ? SPARTA_OK : sp_ctx_status(g->cx);
}

/* ------------------------------------------------------------------ sort: depth first, without recursion */

typedef struct sorting {
    const sp_graph *g;
    int *maker;
    int *next;  /* per node: the next input to look at; -1: not begun */
    int *stack; /* nodes begun and not finished: a path */
    bool *done;
    sp_node **order;
    int n_done;
} sorting;

static sparta_status visit(sorting *s, int first)
{
    int top = 0;
    s->stack[top++] = first;
    s->next[first] = 0;
    while (top > 0) {
        int i = s->stack[top - 1];
        sp_node *n = s->g->node[i];
        if (s->next[i] == n->n_in) {
            s->done[i] = true;
            s->order[s->n_done++] = n;
            top--;
            continue;
        }
        const sp_value *v = n->in[s->next[i]++];
        int from = v ? s->maker[v->id] : -1;
        if (from < 0 || s->done[from]) continue;
        if (s->next[from] >= 0)
            return sp_fail(s->g->cx, SPARTA_E_FORMAT,
                           "%s '%.200s': it depends on its own output '%.200s' (a cycle)",
                           sp_builtin_row(n->op)->name, n->name, v->name);
        s->next[from] = 0;
        s->stack[top++] = from;
    }
    return SPARTA_OK;
}

static sparta_status visit_all(sorting *s)
{
    for (int i = 0; i < s->g->n_nodes; i++) s->next[i] = -1;
    for (int i = 0; i < s->g->n_nodes; i++)
        if (!s->done[i]) SP_TRY(visit(s, i));
    return SPARTA_OK;
}

/* Does every node come after those that make its inputs? `maker` has their places before sorting; `place` is scratch. */
static bool in_order(const sp_graph *g, const int *maker, int *place)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] && maker[n->in[k]->id] >= 0 && place[maker[n->in[k]->id]] >= 0) return false;
        for (int k = 0; k < n->n_out; k++) place[maker[n->out[k]->id]] = -1; /* made */
    }
    return true;
}

sparta_status sp_graph_sort(sp_graph *g)
{
    size_t n = (size_t)g->n_nodes;
    sorting s = {.g = g, .maker = makers(g)};
    s.next = sp_alloc_array(g->cx, n, sizeof *s.next);
    s.stack = sp_alloc_array(g->cx, n, sizeof *s.stack);
    s.done = sp_alloc_array(g->cx, n, sizeof *s.done);
    s.order = sp_alloc_array(g->cx, n, sizeof *s.order);
    bool ready = s.maker && s.next && s.stack && s.done && s.order;
    sparta_status status = ready ? visit_all(&s) : sp_ctx_status(g->cx);
    if (status == SPARTA_OK && n) memcpy(g->node, s.order, n * sizeof *g->node);
    SP_ASSERT(status != SPARTA_OK || in_order(g, s.maker, s.next));
    sp_free(g->cx, s.maker);
    sp_free(g->cx, s.next);
    sp_free(g->cx, s.stack);
    sp_free(g->cx, s.done);
    sp_free(g->cx, s.order);
    return status;
}

/* ------------------------------------------------------------------ attributes */
sparta_status sp_graph_set_attr(sp_graph *g, sp_node *n, const sp_attr *attr)
{
    const sp_attrs *old = &n->attrs;
    sp_attr *all = sp_arena_array(g->arena, (size_t)old->n + 1, sizeof *all);
    int at = 0;
    SP_NEED(g->cx, all);
    while (at < old->n && strcmp(old->attr[at].name, attr->name)) at++;
    for (int i = 0; i < old->n; i++) all[i] = old->attr[i];
    all[at] = *attr;
    n->attrs = (sp_attrs){SP_MAX(old->n, at + 1), all};
    return SPARTA_OK;
}

sparta_status sp_graph_drop_attr(sp_graph *g, sp_node *n, const char *name)
{
    sp_attr *left = sp_arena_array(g->arena, (size_t)n->attrs.n, sizeof *left);
    int count = 0;
    SP_NEED(g->cx, left);
    for (int i = 0; i < n->attrs.n; i++)
        if (strcmp(n->attrs.attr[i].name, name)) left[count++] = n->attrs.attr[i];
    n->attrs = (sp_attrs){count, left};
    return SPARTA_OK;
}
