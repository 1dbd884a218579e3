/* copy.c: a second graph like the first, to be changed by itself. What never changes in a graph (names, expressions, attributes, constants) is
 * borrowed; what changes (lists, values, nodes, bounds) is its own. */
#include "graph/graph.h"
#include <string.h>

/* A list of n pointers of its own, to be filled. NULL after a message. */
static void *list_of(sparta_ctx *cx, int n, int *capacity)
{
    *capacity = n + 1;
    return sp_alloc_array(cx, (size_t)n + 1, sizeof(void *));
}

static sparta_status copy_values(const sp_graph *from, sp_graph *g)
{
    g->value = list_of(g->cx, from->n_values, &g->value_capacity);
    SP_NEED(g->cx, g->value);
    for (int i = 0; i < from->n_values; i++) {
        sp_value *v = sp_arena_alloc(g->arena, sizeof *v);
        SP_NEED(g->cx, v);
        *v = *from->value[i];
        v->producer = NULL; /* until its node is here */
        SP_TRY(sp_map_put(g->by_name, v->name, i));
        g->value[g->n_values++] = v;
    }
    return SPARTA_OK;
}

/* The values of the copy in the place of those of the original. */
static void map_values(const sp_graph *g, sp_value *const *from, int n, sp_value **to)
{
    for (int i = 0; i < n; i++) to[i] = from[i] ? g->value[from[i]->id] : NULL;
}

static sparta_status copy_node(sp_graph *g, const sp_node *from)
{
    sp_node *n = sp_arena_alloc(g->arena, sizeof *n);
    SP_NEED(g->cx, n);
    *n = *from;
    n->in = sp_arena_array(g->arena, (size_t)n->n_in + 1, sizeof *n->in);
    n->out = sp_arena_array(g->arena, (size_t)n->n_out + 1, sizeof *n->out);
    if (!n->in || !n->out) return sp_ctx_status(g->cx);
    map_values(g, from->in, n->n_in, n->in);
    map_values(g, from->out, n->n_out, n->out);
    for (int i = 0; i < n->n_out; i++) n->out[i]->producer = n;
    g->node[g->n_nodes++] = n;
    return SPARTA_OK;
}

static sparta_status copy_lists(const sp_graph *from, sp_graph *g)
{
    g->node = list_of(g->cx, from->n_nodes, &g->node_capacity);
    SP_NEED(g->cx, g->node);
    g->input = list_of(g->cx, from->n_inputs, &g->input_capacity);
    SP_NEED(g->cx, g->input);
    g->output = list_of(g->cx, from->n_outputs, &g->output_capacity);
    SP_NEED(g->cx, g->output);
    for (int i = 0; i < from->n_nodes; i++) SP_TRY(copy_node(g, from->node[i]));
    g->n_inputs = from->n_inputs, g->n_outputs = from->n_outputs;
    map_values(g, from->input, g->n_inputs, g->input);
    map_values(g, from->output, g->n_outputs, g->output);
    return SPARTA_OK;
}

/* A table with room for `most`, of which n are there. */
static sparta_status copy_table(sp_graph *g, const void *from, int n, size_t most, size_t size, void *out)
{
    if (!from) return SPARTA_OK;
    void *table = sp_arena_array(g->arena, most, size);
    SP_NEED(g->cx, table);
    memcpy(table, from, (size_t)n * size);
    memcpy(out, &table, sizeof table);
    return SPARTA_OK;
}

static sparta_status copy_all(const sp_graph *from, sp_graph *g)
{
    SP_TRY(copy_values(from, g));
    SP_TRY(copy_lists(from, g));
    SP_TRY(copy_table(g, from->bound, from->n_bounds, SP_GRAPH_SYMBOLS, sizeof *g->bound, &g->bound));
    SP_TRY(copy_table(g, from->fixed, from->n_fixed, SP_GRAPH_SYMBOLS, sizeof *g->fixed, &g->fixed));
    SP_TRY(copy_table(g, from->must, from->n_musts, SP_GRAPH_MUSTS, sizeof *g->must, &g->must));
    g->n_bounds = from->n_bounds, g->n_fixed = from->n_fixed, g->n_musts = from->n_musts;
    g->fresh = from->fresh, g->folded = from->folded;
    return SPARTA_OK;
}

sparta_status sp_graph_copy(const sp_graph *from, sp_graph **out)
{
    sp_graph *g;
    SP_TRY(sp_graph_create(from->cx, from->name, &g));
    const sparta_status s = copy_all(from, g);
    if (s != SPARTA_OK) {
        sp_graph_free(g);
        return s;
    }
    *out = g;
    return SPARTA_OK;
}
