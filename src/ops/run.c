/* The reference executor: every node by its builtin, in order. Slow and plain, it is what compiled packages
 * are checked against.
 *
 * Dims come from the actual inputs: each symbol is bound by the first input dim that is just this symbol,
 * every other dim is then evaluated and compared. A value's memory is freed after its last use. */
#include "ops/ops.h"
#include "builtin/quick.h"
#include <stdio.h>
#include <string.h>

typedef struct run {
    sparta_ctx *cx;
    const sp_graph *g;
    sparta_tensor *t; /* by value id; data NULL: not there */
    int *last;        /* by value id: index of the last node that reads it; n_nodes for outputs */
    bool *owned;      /* by value id: ours to free */
    bool *given;      /* by value id: an input that was given */
    int n_symbols;
    const char *symbol[SP_GRAPH_SYMBOLS];
    const char *from[SP_GRAPH_SYMBOLS]; /* the input that bound it */
    int64_t size[SP_GRAPH_SYMBOLS];
    sp_ops_watch every;
    void *arg;
    bool quick; /* twins where there are some */
} run;

static sp_bindings bindings(const run *r)
{
    return (sp_bindings){r->n_symbols, r->symbol, r->size};
}

/* ------------------------------------------------------------------ inputs */
static sparta_status name_inputs(const run *r, const char *what, const char *names)
{
    sp_text t;
    sp_text_init(&t, r->cx);
    for (int i = 0; i < r->g->n_inputs; i++)
        sp_text_printf(&t, "%s'%.200s'", i ? ", " : "", r->g->input[i]->name);
    sparta_status status = sp_fail(r->cx, SPARTA_E_USAGE, "run: %s%.500s; the model's inputs are %.1000s",
                                   what, names, sp_text_str(&t));
    sp_text_free(&t);
    return status;
}

static sparta_status check_names(const run *r, const sparta_named_tensor *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        const sp_value *v = sp_graph_find(r->g, inputs[i].name);
        if (!v || !v->is_input) return name_inputs(r, "there is no input ", inputs[i].name);
        if (r->given[v->id]) return name_inputs(r, "given twice: ", inputs[i].name);
        r->given[v->id] = true;
    }
    sp_text missing;
    sp_text_init(&missing, r->cx);
    for (int i = 0; i < r->g->n_inputs; i++)
        if (!r->given[r->g->input[i]->id])
            sp_text_printf(&missing, "%s'%.200s'", missing.size ? ", " : "", r->g->input[i]->name);
    sparta_status status = missing.size ? name_inputs(r, "missing: ", sp_text_str(&missing)) : SPARTA_OK;
    sp_text_free(&missing);
    return status;
}

static sparta_status bind_symbol(run *r, const sp_value *v, const char *name, int64_t size)
{
    for (int i = 0; i < r->n_symbols; i++) {
        if (strcmp(r->symbol[i], name)) continue;
        if (r->size[i] == size) return SPARTA_OK;
        return sp_fail(
            r->cx, SPARTA_E_SHAPE,
            "run: '%.100s' is %lld in input '%.200s' and %lld in input '%.200s'; it must be one size", name,
            (long long)r->size[i], r->from[i], (long long)size, v->name);
    }
    if (r->n_symbols == SP_GRAPH_SYMBOLS)
        return sp_fail(r->cx, SPARTA_E_LIMIT, "run: more than %d symbols", SP_GRAPH_SYMBOLS);
    const sp_bound bound = sp_graph_bound(r->g, name);
    if (sp_bound_check(r->cx, &bound, size) != SPARTA_OK)
        return sp_fail_in(r->cx, "run: input '%.200s'", v->name);
    r->symbol[r->n_symbols] = name;
    r->from[r->n_symbols] = v->name;
    r->size[r->n_symbols++] = size;
    return SPARTA_OK;
}

/* "run: dim 1 of input 'x' is 7 and must be 8 ([batch,8])". The text is made here: the graph may be shared by
 * threads. */
static sparta_status wrong_shape(const run *r, const sp_value *v, const char *what, int64_t is, int64_t must)
{
    sp_text t;
    sp_text_init(&t, r->cx);
    sp_dims_print(&v->dims, &t);
    sparta_status status =
        sp_fail(r->cx, SPARTA_E_SHAPE, "run: %s of input '%.200s' is %lld and must be %lld (%.500s)", what,
                v->name, (long long)is, (long long)must, sp_text_str(&t));
    sp_text_free(&t);
    return status;
}

static sparta_status check_input(run *r, const sparta_named_tensor *in)
{
    const sp_value *v = sp_graph_find(r->g, in->name);
    const sparta_tensor *t = &in->tensor;
    const char *symbol;
    if (t->dtype != v->dtype)
        return sp_fail(r->cx, SPARTA_E_DTYPE, "run: input '%.200s' is %s and must be %s", v->name,
                       sparta_dtype_name(t->dtype), sparta_dtype_name(v->dtype));
    if (t->rank != v->dims.rank) return wrong_shape(r, v, "the rank", t->rank, v->dims.rank);
    if (sparta_tensor_elements(t) < 0 || (!t->data && sparta_tensor_elements(t) > 0))
        return sp_fail(r->cx, SPARTA_E_USAGE, "run: input '%.200s' has no data or impossible dims", v->name);
    for (int i = 0; i < t->rank; i++)
        if (sp_expr_is_symbol(v->dims.dim[i], &symbol)) SP_TRY(bind_symbol(r, v, symbol, t->dim[i]));
    r->t[v->id] = sp_tensor_placed(t);
    return SPARTA_OK;
}

/* Dims that are numbers or arithmetic, once all symbols are bound. */
static sparta_status check_dims(const run *r, const sp_value *v)
{
    sp_bindings b = bindings(r);
    int64_t dim[SPARTA_RANK];
    const sparta_tensor *t = &r->t[v->id];
    if (sp_dims_eval(r->cx, &v->dims, &b, dim) != SPARTA_OK)
        return sp_fail_in(r->cx, "run: input '%.200s'", v->name);
    for (int i = 0; i < t->rank; i++) {
        char which[32];
        snprintf(which, sizeof which, "dim %d", i);
        if (t->dim[i] != dim[i]) return wrong_shape(r, v, which, t->dim[i], dim[i]);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ nodes */
static void find_last_uses(run *r)
{
    for (int i = 0; i < r->g->n_values; i++) r->last[i] = -1;
    for (int i = 0; i < r->g->n_nodes; i++)
        for (int k = 0; k < r->g->node[i]->n_in; k++)
            if (r->g->node[i]->in[k]) r->last[r->g->node[i]->in[k]->id] = i;
    for (int i = 0; i < r->g->n_outputs; i++) r->last[r->g->output[i]->id] = r->g->n_nodes;
}

static void release(run *r, int id)
{
    if (!r->owned[id]) return;
    sp_free(r->cx, r->t[id].data);
    r->owned[id] = false;
    r->t[id].data = NULL;
}

static void release_after(run *r, int at)
{
    const sp_node *n = r->g->node[at];
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && r->last[n->in[i]->id] == at) release(r, n->in[i]->id);
    for (int i = 0; i < n->n_out; i++)
        if (r->last[n->out[i]->id] < at) release(r, n->out[i]->id); /* nobody reads it */
}

static sparta_status make_outputs(run *r, const sp_node *n, sparta_tensor *out)
{
    sp_bindings b = bindings(r);
    for (int i = 0; i < n->n_out; i++) {
        const sp_value *v = n->out[i];
        int64_t dim[SPARTA_RANK];
        if (!v->typed)
            return sp_fail(r->cx, SPARTA_E_INTERNAL, "run: value '%.200s' has no type; infer first", v->name);
        SP_TRY(sp_dims_eval(r->cx, &v->dims, &b, dim));
        SP_TRY(sp_tensor_alloc(r->cx, v->dtype, v->dims.rank, dim, &r->t[v->id]));
        r->owned[v->id] = true;
        out[i] = r->t[v->id];
    }
    return SPARTA_OK;
}

static sparta_status run_node(run *r, const sp_node *n, sparta_tensor *room)
{
    sparta_tensor *in = room, *out = room + n->n_in;
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] ? r->t[n->in[i]->id] : (sparta_tensor){.rank = -1};
    SP_TRY(make_outputs(r, n, out));
    const sp_op_args args = {&n->attrs, n->n_in, n->n_out, in, out};
    SP_TRY(r->quick ? sp_builtin_quick(r->cx, n->op, &args) : sp_builtin_run(r->cx, n->op, &args));
    for (int i = 0; i < n->n_out && r->every; i++) SP_TRY(r->every(r->arg, n->out[i], &out[i]));
    return SPARTA_OK;
}

static sparta_status run_nodes(run *r)
{
    for (int i = 0; i < r->g->n_nodes; i++) {
        const sp_node *n = r->g->node[i];
        SP_TRY(sp_check_cancel(r->cx));
        sparta_tensor *room = sp_alloc_array(r->cx, (size_t)n->n_in + (size_t)n->n_out, sizeof *room);
        SP_NEED(r->cx, room);
        sparta_status status = run_node(r, n, room);
        sp_free(r->cx, room);
        if (status == SPARTA_E_CANCELLED) return status;
        if (status != SPARTA_OK)
            return sp_fail_in(r->cx, "run: %s '%.200s'", sp_builtin_row(n->op)->name, n->name);
        release_after(r, i);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ outputs */
/* Hand over what is ours; copy inputs and constants. */
static sparta_status take_outputs(run *r, sparta_tensor *taken)
{
    for (int i = 0; i < r->g->n_outputs; i++) {
        int id = r->g->output[i]->id;
        const sparta_tensor *t = &r->t[id];
        if (r->owned[id]) {
            taken[i] = *t;
            r->owned[id] = false;
            continue;
        }
        SP_TRY(sp_tensor_alloc(r->cx, t->dtype, t->rank, t->dim, &taken[i]));
        SP_TRY(sp_tensor_copy(r->cx, t, &taken[i]));
    }
    return SPARTA_OK;
}

static sparta_status run_all(run *r, const sparta_named_tensor *inputs, int n_inputs, sparta_tensor *taken)
{
    SP_TRY(check_names(r, inputs, n_inputs));
    for (int i = 0; i < n_inputs; i++) SP_TRY(check_input(r, &inputs[i]));
    for (int i = 0; i < r->g->n_inputs; i++) SP_TRY(check_dims(r, r->g->input[i]));
    const sp_bindings sizes = bindings(r);
    SP_TRY(sp_graph_check_musts(r->cx, r->g, &sizes));
    for (int i = 0; i < r->g->n_values; i++)
        if (r->g->value[i]->constant) r->t[i] = *r->g->value[i]->constant;
    find_last_uses(r);
    SP_TRY(run_nodes(r));
    return take_outputs(r, taken);
}

static sparta_status run_graph(run r, const sparta_named_tensor *inputs, int n_inputs, sparta_tensor *outputs)
{
    sparta_ctx *cx = r.cx;
    const sp_graph *g = r.g;
    r.t = sp_alloc_array(cx, (size_t)g->n_values, sizeof *r.t);
    r.last = sp_alloc_array(cx, (size_t)g->n_values, sizeof *r.last);
    r.owned = sp_alloc_array(cx, (size_t)g->n_values, sizeof *r.owned);
    r.given = sp_alloc_array(cx, (size_t)g->n_values, sizeof *r.given);
    sparta_tensor *taken = sp_alloc_array(cx, (size_t)g->n_outputs, sizeof *taken);
    bool ready = r.t && r.last && r.owned && r.given && taken;
    sparta_status status = ready ? run_all(&r, inputs, n_inputs, taken) : sp_ctx_status(cx);
    for (int i = 0; ready && i < g->n_values; i++) release(&r, i);
    for (int i = 0; ready && i < g->n_outputs; i++) {
        if (status == SPARTA_OK)
            outputs[i] = taken[i];
        else
            sp_free(cx, taken[i].data);
    }
    sp_free(cx, r.t);
    sp_free(cx, r.last);
    sp_free(cx, r.owned);
    sp_free(cx, r.given);
    sp_free(cx, taken);
    return status;
}

sparta_status sp_ops_run(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *inputs, int n_inputs,
                         sparta_tensor *outputs, sp_ops_watch every, void *arg)
{
    return run_graph((run){.cx = cx, .g = g, .every = every, .arg = arg}, inputs, n_inputs, outputs);
}

sparta_status sp_ops_run_quick(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *inputs,
                               int n_inputs, sparta_tensor *outputs, sp_ops_watch every, void *arg)
{
    return run_graph((run){.cx = cx, .g = g, .every = every, .arg = arg, .quick = true}, inputs, n_inputs,
                     outputs);
}
