/* verify.c: every invariant of a graph, checked after each pass. A failure is a bug of the pass, hence
 * E_INTERNAL. */
#include "graph/graph.h"
#include <string.h>

#define BROKEN(g, ...) sp_fail((g)->cx, SPARTA_E_INTERNAL, "graph: " __VA_ARGS__)

static bool owns(const sp_graph *g, const sp_value *v)
{
    return v && v->id >= 0 && v->id < g->n_values && g->value[v->id] == v;
}

static sparta_status check_constant(const sp_graph *g, const sp_value *v)
{
    const sparta_tensor *t = v->constant;
    int64_t dim[SPARTA_RANK];
    if (v->is_input) return BROKEN(g, "value '%.200s' is an input and a constant", v->name);
    if (!v->typed || v->dtype != t->dtype || v->dims.rank != t->rank || !sp_dims_const(&v->dims, dim))
        return BROKEN(g, "constant '%.200s' has another type than its contents", v->name);
    for (int i = 0; i < t->rank; i++)
        if (dim[i] != t->dim[i])
            return BROKEN(g, "constant '%.200s' has other dims than its contents", v->name);
    if (!sp_tensor_contiguous(t)) return BROKEN(g, "constant '%.200s' is not row-major", v->name);
    return SPARTA_OK;
}

static sparta_status check_ints(const sp_graph *g, const sp_value *v)
{
    int64_t dim[SPARTA_RANK], n = 1;
    if (!v->typed || sp_dtype_is_float(v->dtype) || !sp_dims_const(&v->dims, dim))
        return BROKEN(g, "value '%.200s' has ints and is no integer tensor of known dims", v->name);
    for (int i = 0; i < v->dims.rank; i++)
        if (!sp_int_mul(n, dim[i], &n))
            return BROKEN(g, "value '%.200s' has too many elements for ints", v->name);
    if (n != v->n_ints)
        return BROKEN(g, "value '%.200s' has %d ints for %ld elements", v->name, v->n_ints, (long)n);
    for (int i = 0; i < v->n_ints; i++)
        if (!v->ints[i]) return BROKEN(g, "value '%.200s' lacks int %d", v->name, i);
    return SPARTA_OK;
}

static sparta_status check_value(const sp_graph *g, int i)
{
    const sp_value *v = g->value[i];
    if (!v || v->id != i) return BROKEN(g, "value %d has id %d", i, v ? v->id : -1);
    if (!v->name || sp_graph_find(g, v->name) != v) return BROKEN(g, "value %d is not found by its name", i);
    if (v->is_input && v->producer) return BROKEN(g, "input '%.200s' is produced by a node", v->name);
    if (v->is_input && !v->typed) return BROKEN(g, "input '%.200s' has no type", v->name);
    if (v->typed && (v->dims.rank < 0 || v->dims.rank > SPARTA_RANK))
        return BROKEN(g, "value '%.200s' has rank %d", v->name, v->dims.rank);
    for (int d = 0; v->typed && d < v->dims.rank; d++)
        if (!v->dims.dim[d]) return BROKEN(g, "value '%.200s' lacks dim %d", v->name, d);
    if (v->constant) SP_TRY(check_constant(g, v));
    return v->ints ? check_ints(g, v) : SPARTA_OK;
}

static sparta_status check_lists(const sp_graph *g)
{
    int inputs = 0, outputs = 0;
    for (int i = 0; i < g->n_values; i++) {
        inputs += g->value[i]->is_input;
        outputs += g->value[i]->is_output;
    }
    if (inputs != g->n_inputs || outputs != g->n_outputs)
        return BROKEN(g, "%d of %d inputs and %d of %d outputs are listed", g->n_inputs, inputs, g->n_outputs,
                      outputs);
    for (int i = 0; i < g->n_inputs; i++)
        if (!owns(g, g->input[i]) || !g->input[i]->is_input)
            return BROKEN(g, "entry %d of the inputs is no input", i);
    for (int i = 0; i < g->n_outputs; i++)
        if (!owns(g, g->output[i]) || !g->output[i]->is_output)
            return BROKEN(g, "entry %d of the outputs is no output", i);
    return SPARTA_OK;
}

/* `made`: by value id, was its producer passed already? */
static sparta_status check_node(const sp_graph *g, const sp_node *n, bool *made)
{
    if (!n || (int)n->op < 0 || n->op >= SP_OPS || !n->name)
        return BROKEN(g, "a node without operator or name");
    const sp_builtin *row = sp_builtin_row(n->op);
    if (n->n_in < row->min_in || (row->max_in >= 0 && n->n_in > row->max_in) || n->n_out < 1 ||
        (row->max_out >= 0 && n->n_out > row->max_out))
        return BROKEN(g, "%s '%.200s' has %d inputs and %d outputs", row->name, n->name, n->n_in, n->n_out);
    for (int i = 0; i < n->n_in; i++) {
        const sp_value *v = n->in[i];
        if (!v && (i < row->min_in || row->max_in < 0))
            return BROKEN(g, "%s '%.200s' lacks input %d", row->name, n->name, i);
        if (!v) continue;
        if (!owns(g, v))
            return BROKEN(g, "%s '%.200s': input %d is not of this graph", row->name, n->name, i);
        if (!v->is_input && !v->constant && !made[v->id])
            return BROKEN(g, "%s '%.200s': input '%.200s' is not made before it", row->name, n->name,
                          v->name);
    }
    for (int i = 0; i < n->n_out; i++) {
        sp_value *v = n->out[i];
        if (!owns(g, v))
            return BROKEN(g, "%s '%.200s': output %d is not of this graph", row->name, n->name, i);
        if (v->producer != n || made[v->id])
            return BROKEN(g, "%s '%.200s': output '%.200s' has another producer", row->name, n->name,
                          v->name);
        made[v->id] = true;
    }
    return SPARTA_OK;
}

static sparta_status check_nodes(const sp_graph *g, bool *made)
{
    for (int i = 0; i < g->n_nodes; i++) SP_TRY(check_node(g, g->node[i], made));
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->producer && !made[i])
            return BROKEN(g, "value '%.200s' has a producer that is not in the graph", g->value[i]->name);
    for (int i = 0; i < g->n_outputs; i++) {
        const sp_value *v = g->output[i];
        if (!v->is_input && !v->constant && !made[v->id])
            return BROKEN(g, "output '%.200s' is made by nobody", v->name);
    }
    return SPARTA_OK;
}

sparta_status sp_graph_verify(const sp_graph *g)
{
    for (int i = 0; i < g->n_values; i++) SP_TRY(check_value(g, i));
    if (sp_map_size(g->by_name) != (size_t)g->n_values)
        return BROKEN(g, "%zu names for %d values", sp_map_size(g->by_name), g->n_values);
    SP_TRY(check_lists(g));
    bool *made = sp_alloc_array(g->cx, (size_t)g->n_values, sizeof *made);
    SP_NEED(g->cx, made);
    sparta_status status = check_nodes(g, made);
    sp_free(g->cx, made);
    return status;
}
