/* The walk of a sub-graph: parsed, its edges obeyed, made smaller, fused, cut into steps, compiled, checked. */
#include "specialize/specialize.h"
#include "store/store.h"
#include <string.h>

/* ------------------------------------------------------------------ in */
static sparta_status fetch(void *arg, const char *name, sparta_tensor *out)
{
    const sparta_specialized *s = arg;
    for (int i = 0; i < s->options.constants; i++) {
        const sparta_named_tensor *c = &s->options.constant[i];
        if (!c->name || strcmp(c->name, name)) continue;
        if (!c->tensor.data || !sp_tensor_contiguous(&c->tensor))
            return sp_fail(s->cx, SPARTA_E_USAGE,
                           "constant %.100s: it has no data, or does not lie row-major", name);
        *out = c->tensor;
        return SPARTA_OK;
    }
    return sp_fail(s->cx, SPARTA_E_USAGE,
                   "constant %.100s: nothing is given for it; give its contents in options.constant", name);
}

/* Names whose shape stays: a format is asked for them. */
static sparta_status pinned(const sparta_specialized *s, sp_propagate_options *o)
{
    const char **keep = sp_arena_array(s->arena, (size_t)s->options.edges + 1, sizeof *keep);
    SP_NEED(s->cx, keep);
    for (int i = 0; i < s->options.edges; i++)
        if (s->options.edge[i].format) keep[o->n_keep++] = s->options.edge[i].value;
    o->keep = keep;
    return SPARTA_OK;
}

static sparta_status pass(sp_graph *g, sparta_status (*run)(sp_graph *))
{
    SP_TRY(run(g));
    SP_TRY(sp_ops_infer(g));
    return sp_graph_verify(g);
}

/* What fuses into products, and what room emit has a nest for. */
static sparta_status transform(sparta_specialized *s)
{
    static sparta_status (*const passes[])(sp_graph *) = {sp_pass_simplify, sp_pass_layernorm,
                                                          sp_pass_gelu,     sp_pass_linear,
                                                          sp_pass_epilogue, sp_pass_simplify};
    sp_propagate_options o = {.threads = 1};
    sp_propagate_report report;
    SP_TRY(sp_graph_copy(s->given, &s->graph));
    SP_TRY(pinned(s, &o));
    if (!s->options.no_propagate) SP_TRY(sp_propagate(s->graph, &o, &report));
    for (size_t i = 0; i < SP_COUNT(passes); i++) SP_TRY(pass(s->graph, passes[i]));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ out */
static sparta_status list_values(sparta_specialized *s)
{
    bool *used = sp_arena_array(s->arena, (size_t)s->graph->n_values + 1, sizeof *used);
    SP_NEED(s->cx, used);
    s->shown = sp_arena_array(s->arena, (size_t)s->graph->n_values + 1, sizeof *s->shown);
    SP_NEED(s->cx, s->shown);
    for (int i = 0; i < s->graph->n_inputs; i++) used[s->graph->input[i]->id] = true;
    for (int i = 0; i < s->n_steps; i++)
        for (int k = 0; k < s->step[i]->told.arguments; k++) {
            const char *name = s->step[i]->argument[k].value;
            const sp_value *v = name ? sp_graph_find(s->graph, name) : NULL;
            if (v) used[v->id] = true;
        }
    for (int i = 0; i < s->graph->n_outputs; i++) used[s->graph->output[i]->id] = true;
    for (int i = 0; i < s->graph->n_values; i++) {
        const sp_value *v = s->graph->value[i];
        sparta_specialized_value *t = &s->value[i];
        if (!used[i] || !sp_dims_const(&v->dims, t->dim)) continue;
        t->name = v->name;
        t->role = v->is_input ? "input" : v->is_output ? "output" : v->constant ? "constant" : "inner";
        t->dtype = v->dtype;
        t->rank = v->dims.rank;
        if (!t->reason) t->reason = "";
        s->shown[s->n_values++] = *t;
    }
    return SPARTA_OK;
}

static sparta_status print(sparta_specialized *s)
{
    sp_text t;
    sp_text_init(&t, s->cx);
    sp_graph_print(s->graph, &t);
    s->text = sp_text_keep(&t, s->arena);
    SP_NEED(s->cx, s->text);
    return SPARTA_OK;
}

static sparta_status check_outputs(const sparta_specialized *s)
{
    for (int i = 0; i < s->graph->n_outputs; i++)
        if (!s->graph->output[i]->producer)
            return sp_fail(s->cx, SPARTA_E_UNSUPPORTED,
                           "output %s: nothing computes it, it is an input or a constant; leave it out",
                           s->graph->output[i]->name);
    return SPARTA_OK;
}

static sparta_status walk(sparta_specialized *s, const char *text)
{
    SP_TRY(sp_graph_parse(s->cx, text, fetch, s, &s->given));
    if (s->options.dims) SP_TRY(sp_compile_bind(s->cx, s->given, s->options.dims));
    SP_TRY(sp_ops_infer(s->given));
    SP_TRY(sp_specialize_edges(s));
    SP_TRY(transform(s));
    SP_TRY(check_outputs(s));
    s->value = sp_arena_array(s->arena, (size_t)s->graph->n_values + 1, sizeof *s->value);
    SP_NEED(s->cx, s->value);
    SP_TRY(sp_specialize_steps(s));
    SP_TRY(list_values(s));
    SP_TRY(print(s));
    SP_TRY(sp_specialize_code(s));
    return sp_specialize_check(s);
}

sparta_status sparta_specialize(sparta_ctx *cx, const char *graph, const sparta_specialize_options *options,
                                sparta_specialized **out)
{
    sparta_specialize_options o;
    SP_TRY(sp_options(cx, "specialize", options, &o, sizeof o));
    if (!graph) return sp_fail(cx, SPARTA_E_USAGE, "specialize: there is no graph; give its text");
    if (o.edges < 0 || o.constants < 0 || (o.edges && !o.edge) || (o.constants && !o.constant))
        return sp_fail(cx, SPARTA_E_USAGE, "specialize: options.edges or options.constants has no list");
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_specialized *s = sp_arena_array(arena, 1, sizeof *s);
    if (!s) {
        sp_arena_free(arena);
        return sp_ctx_status(cx);
    }
    *s = (sparta_specialized){.cx = cx, .arena = arena, .options = o};
    const sparta_status status = walk(s, graph);
    s->options = (sparta_specialize_options){0}; /* the caller's may go */
    if (status)
        sparta_specialized_free(s);
    else
        *out = s;
    return status;
}

void sparta_specialized_free(sparta_specialized *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_code; i++) sp_jit_close(s->object[i]);
    for (int i = 0; i < s->n_steps; i++) {
        if (s->step[i]->kernel.s) sp_special_close(&s->step[i]->kernel);
        sp_special_free(s->step[i]->special);
    }
    sp_graph_free(s->graph);
    sp_graph_free(s->given);
    sp_arena_free(s->arena);
}

const char *sparta_specialized_graph(const sparta_specialized *s)
{
    return s->text;
}
const sparta_specialized_value *sparta_specialized_value_at(const sparta_specialized *s, int i)
{
    return i >= 0 && i < s->n_values ? &s->shown[i] : NULL;
}
const sparta_specialized_step *sparta_specialized_step_at(const sparta_specialized *s, int i)
{
    return i >= 0 && i < s->n_steps ? &s->step[i]->told : NULL;
}
const sparta_specialized_code *sparta_specialized_code_at(const sparta_specialized *s, int i)
{
    return i >= 0 && i < s->n_code ? &s->code[i] : NULL;
}
