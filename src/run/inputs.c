/* Inputs from a seed, and the bounds that a model sets on its own symbols. */
#include "run/run.h"
#include <string.h>

/* Rows of the table that integer value `v` indexes, looking through casts; 0: none. */
static int64_t table_rows(const sparta_graph *g, const sparta_value *v, int depth)
{
    int64_t rows = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const sparta_node *n = g->node[i];
        for (int k = 0; k < n->n_in; k++) {
            int64_t found = 0;
            if (n->in[k] != v) continue;
            const bool ids =
                (n->op == SPARTA_OP_Embed && k % 2 == 1) || (n->op == SPARTA_OP_Gather && k == 1);
            if (ids) {
                const int64_t axis = n->op == SPARTA_OP_Embed ? 0 : sparta_attr_int(&n->attrs, "axis", 0);
                const sparta_dims *table = &n->in[k - 1]->dims;
                const int64_t at = axis < 0 ? axis + table->rank : axis;
                if (at < 0 || at >= table->rank || !sparta_expr_is_const(table->dim[at], &found)) found = 0;
            } else if ((n->op == SPARTA_OP_Cast || n->op == SPARTA_OP_Identity) && depth < 8) {
                found = table_rows(g, n->out[0], depth + 1);
            }
            if (found > 0) rows = rows ? SPARTA_MIN(rows, found) : found;
        }
    }
    return rows;
}

static void fill(const sparta_graph *g, const sparta_value *v, sparta_rng *rng, const sparta_tensor *t)
{
    const int64_t n = sparta_tensor_elements(t), rows = table_rows(g, v, 0);
    const bool ones = !rows && strstr(v->name, "mask");
    for (int64_t i = 0; i < n; i++) {
        if (ones)
            sparta_element_set(t->dtype, t->data, i, 1);
        else if (sparta_dtype_is_float(t->dtype))
            sparta_element_set(t->dtype, t->data, i, 2 * sparta_rng_uniform(rng) - 1);
        else
            sparta_element_set_int(t->dtype, t->data, i,
                                   (int64_t)(sparta_rng_uniform(rng) * (double)(rows ? rows : 2)));
    }
}

sparta_status sparta_inputs_make(sparta_ctx *cx, const sparta_graph *g, const sparta_make_inputs *how,
                                 sparta_named_tensor *out)
{
    sparta_rng rng = sparta_rng_seed(how->seed);
    for (int i = 0; i < g->n_inputs; i++) {
        int64_t dim[SPARTA_RANK];
        sparta_status s = sparta_dims_eval(cx, &g->input[i]->dims, &how->sizes, dim);
        out[i] = (sparta_named_tensor){.name = g->input[i]->name};
        if (s == SPARTA_OK)
            s = sparta_tensor_alloc(cx, g->input[i]->dtype, g->input[i]->dims.rank, dim, &out[i].tensor);
        if (s != SPARTA_OK) {
            sparta_inputs_free(cx, out, i);
            return s;
        }
        fill(g, g->input[i], &rng, &out[i].tensor);
    }
    return SPARTA_OK;
}

void sparta_inputs_free(sparta_ctx *cx, sparta_named_tensor *t, int n)
{
    for (int i = 0; i < n; i++) sparta_free(cx, t[i].tensor.data);
}

/* What was promised when it was compiled, and a slice of a constant that is as long as the symbol: the constant's own length bounds it. */
int64_t sparta_symbol_bound(const sparta_graph *g, const char *symbol)
{
    int64_t bound = INT64_MAX;
    for (int i = 0; i < g->n_bounds; i++)
        if (!strcmp(g->bound[i].symbol, symbol)) bound = g->bound[i].most;
    for (int i = 0; i < g->n_nodes; i++) {
        const sparta_node *n = g->node[i];
        if (n->op != SPARTA_OP_Slice || !n->in[0] || n->in[0]->producer || n->in[0]->is_input) continue;
        for (int d = 0; d < n->out[0]->dims.rank && d < n->in[0]->dims.rank; d++) {
            const char *name;
            int64_t size;
            if (sparta_expr_is_symbol(n->out[0]->dims.dim[d], &name) && !strcmp(name, symbol) &&
                sparta_expr_is_const(n->in[0]->dims.dim[d], &size))
                bound = SPARTA_MIN(bound, size);
        }
    }
    return bound;
}
