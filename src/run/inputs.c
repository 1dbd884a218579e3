/* Inputs from a seed, and the bounds that a model sets on its own symbols. */
#include "run/run.h"
#include <string.h>

/* Operators whose output holds all elements of input 0, each once or more. */
static bool keeps_elements(const sp_node *n)
{
    return SP_OP_AMONG(n->op, SP_OP_Cast, SP_OP_Identity, SP_OP_Reshape, SP_OP_Flatten, SP_OP_Squeeze,
                       SP_OP_Unsqueeze, SP_OP_Transpose, SP_OP_Expand);
}

/* Operators whose output holds elements of input 0 and nothing else. */
static bool passes_elements(const sp_node *n)
{
    return SP_OP_AMONG(n->op, SP_OP_Gather, SP_OP_Slice, SP_OP_Split) || keeps_elements(n);
}

/* How many numbers there are in the list that input k is compared with (a one-hot code, 0 to rows-1); 0: there is no list. */
static int64_t rows_listed(const sp_node *n, int k)
{
    const sparta_tensor *list = n->op == SP_OP_Equal && n->in[1 - k] ? n->in[1 - k]->constant : NULL;
    const int64_t rows = list ? sparta_tensor_elements(list) : 0;
    if (rows < 3 || sp_dtype_is_float(list->dtype) || !sp_tensor_contiguous(list)) return 0;
    for (int64_t i = 0; i < rows; i++)
        if (sp_element_get_int(list->dtype, list->data, i) != i) return 0;
    return rows;
}

/* Rows of the table that input k of a node indexes; 0: none. */
static int64_t rows_indexed(const sp_node *n, int k)
{
    int64_t rows = rows_listed(n, k);
    if (rows) return rows;
    if (!(n->op == SP_OP_Embed && k % 2 == 1) && !(n->op == SP_OP_Gather && k == 1)) return 0;
    const int64_t axis = n->op == SP_OP_Embed ? 0 : sp_attr_int(&n->attrs, "axis", 0);
    const sp_dims *table = &n->in[k - 1]->dims;
    const int64_t at = axis < 0 ? axis + table->rank : axis;
    return at >= 0 && at < table->rank && sp_expr_is_const(table->dim[at], &rows) ? rows : 0;
}

/* Fewest rows of the tables that integer value `v` or parts of it index; 0: none. `left` nodes may still be looked at. */
static int64_t table_rows(const sp_graph *g, const sp_value *v, int depth, int64_t *left)
{
    int64_t rows = 0;
    for (int i = 0; i < g->n_nodes && --*left > 0; i++) {
        const sp_node *n = g->node[i];
        for (int k = 0; k < n->n_in; k++) {
            if (n->in[k] != v) continue;
            int64_t found = rows_indexed(n, k);
            for (int o = 0; k == 0 && o < n->n_out && depth < 8 && passes_elements(n); o++) {
                const int64_t further = table_rows(g, n->out[o], depth + 1, left);
                if (further > 0) found = found ? SP_MIN(found, further) : further;
            }
            if (found > 0) rows = rows ? SP_MIN(rows, found) : found;
        }
    }
    return rows;
}

/* Is something divided by integer value `v` or parts of it? */
static bool divides(const sp_graph *g, const sp_value *v, int depth, int64_t *left)
{
    for (int i = 0; i < g->n_nodes && --*left > 0; i++) {
        const sp_node *n = g->node[i];
        if (SP_OP_AMONG(n->op, SP_OP_Div, SP_OP_Mod) && n->in[1] == v) return true;
        if (n->n_in == 0 || n->in[0] != v || depth == 8 || !passes_elements(n)) continue;
        for (int o = 0; o < n->n_out; o++)
            if (divides(g, n->out[o], depth + 1, left)) return true;
    }
    return false;
}

static void fill(const sp_graph *g, const sp_value *v, sp_rng *rng, const sparta_tensor *t)
{
    int64_t left = 10000000;
    const int64_t n = sparta_tensor_elements(t), rows = table_rows(g, v, 0, &left);
    const bool ones = !rows && strstr(v->name, "mask");
    const int64_t least = !rows && !sp_dtype_is_float(t->dtype) && divides(g, v, 0, &left);
    for (int64_t i = 0; i < n; i++) {
        if (ones)
            sp_element_set(t->dtype, t->data, i, 1);
        else if (sp_dtype_is_float(t->dtype))
            sp_element_set(t->dtype, t->data, i, 2 * sp_rng_uniform(rng) - 1);
        else
            sp_element_set_int(t->dtype, t->data, i,
                               least + (int64_t)(sp_rng_uniform(rng) * (double)(rows ? rows : 2)));
    }
}

sparta_status sp_inputs_make(sparta_ctx *cx, const sp_graph *g, const sp_make_inputs *how,
                             sparta_named_tensor *out)
{
    sp_rng rng = sp_rng_seed(how->seed);
    for (int i = 0; i < g->n_inputs; i++) {
        int64_t dim[SPARTA_RANK];
        sparta_status s = sp_dims_eval(cx, &g->input[i]->dims, &how->sizes, dim);
        out[i] = (sparta_named_tensor){.name = g->input[i]->name};
        if (s == SPARTA_OK)
            s = sp_tensor_alloc(cx, g->input[i]->dtype, g->input[i]->dims.rank, dim, &out[i].tensor);
        if (s != SPARTA_OK) {
            sp_inputs_free(cx, out, i);
            return s;
        }
        fill(g, g->input[i], &rng, &out[i].tensor);
    }
    return SPARTA_OK;
}

void sp_inputs_free(sparta_ctx *cx, sparta_named_tensor *t, int n)
{
    for (int i = 0; i < n; i++) sp_free(cx, t[i].tensor.data);
}

/* The one integer of a constant; false: it is none. */
static bool one_int(const sp_value *v, int64_t *out)
{
    if (!v || !v->constant || sp_dtype_is_float(v->dtype) || sparta_tensor_elements(v->constant) != 1)
        return false;
    *out = sp_element_get_int(v->dtype, v->constant->data, 0);
    return true;
}

/* Is it start, start + 1, ... , as many as the symbol says, in whatever shape? The largest then is start + symbol - 1. */
static bool counts_up(const sp_value *v, const char *symbol, int64_t *start)
{
    const char *name;
    int64_t from, step, added;
    *start = 0;
    for (int steps = 0; steps < 16 && v->producer && !sp_dtype_is_float(v->dtype); steps++) {
        const sp_node *n = v->producer;
        if (n->op == SP_OP_Range) {
            const bool known = one_int(n->in[0], &from) && one_int(n->in[2], &step) && from >= 0 && step == 1;
            return known && sp_expr_is_symbol(v->dims.dim[0], &name) && !strcmp(name, symbol) &&
                   !__builtin_add_overflow(*start, from, start);
        }
        const int other = n->op == SP_OP_Add && one_int(n->in[0], &added);
        if (n->op == SP_OP_Add) {
            if (!(other || one_int(n->in[1], &added)) || added < 0 ||
                __builtin_add_overflow(*start, added, start))
                return false;
        } else if (!keeps_elements(n))
            return false;
        v = n->in[other];
    }
    return false;
}

/* A slice of a constant that is as long as the symbol: the constant's own length bounds it. */
static int64_t bound_of_slice(const sp_node *n, const char *symbol)
{
    int64_t bound = INT64_MAX;
    if (n->op != SP_OP_Slice || !n->in[0] || n->in[0]->producer || n->in[0]->is_input) return bound;
    for (int d = 0; d < n->out[0]->dims.rank && d < n->in[0]->dims.rank; d++) {
        const char *name;
        int64_t size;
        if (sp_expr_is_symbol(n->out[0]->dims.dim[d], &name) && !strcmp(name, symbol) &&
            sp_expr_is_const(n->in[0]->dims.dim[d], &size))
            bound = SP_MIN(bound, size);
    }
    return bound;
}

/* Positions that are counted up to the symbol, and looked up in a table: its rows bound it. */
static int64_t bound_of_lookup(const sp_node *n, const char *symbol)
{
    int64_t bound = INT64_MAX, start;
    for (int k = 1; k < n->n_in; k += 2) {
        const int64_t rows = rows_indexed(n, k);
        if (rows > 0 && counts_up(n->in[k], symbol, &start)) bound = SP_MIN(bound, SP_MAX(rows - start, 0));
    }
    return bound;
}

/* What was promised when it was compiled, and what the tables of the model hold. */
sp_bound sp_symbol_bound(const sp_graph *g, const char *symbol)
{
    sp_bound bound = sp_graph_bound(g, symbol);
    for (int i = 0; i < g->n_nodes; i++) {
        bound.most = SP_MIN(bound.most, bound_of_slice(g->node[i], symbol));
        bound.most = SP_MIN(bound.most, bound_of_lookup(g->node[i], symbol));
    }
    return bound;
}

int64_t sp_symbol_within(const sp_graph *g, const char *symbol, int64_t size)
{
    const sp_bound bound = sp_symbol_bound(g, symbol);
    return SP_MIN(SP_MAX(size, bound.least), bound.most);
}
