/* Models on their references: an ONNX file, its shapes inferred, run node by node. */
#include "api/api.h"
#include "ops/ops.h"
#include <string.h>

struct sparta_model {
    sparta_ctx *cx;
    sp_model *model;
    sparta_tensor *result; /* of the last run, one an output */
    sparta_ctx *made_by;   /* that run's */
};

const sp_graph *sp_api_graph(const sparta_model *m)
{
    return m->model->graph;
}

sparta_status sp_api_dims(sparta_ctx *cx, sp_arena *arena, const char *const *dims, sp_bindings *out)
{
    int n = 0;
    while (dims && dims[n]) n++;
    const char **name = sp_arena_array(arena, (size_t)n + 1, sizeof *name);
    SP_NEED(cx, name);
    int64_t *value = sp_arena_array(arena, (size_t)n + 1, sizeof *value);
    SP_NEED(cx, value);
    for (int i = 0; i < n; i++) {
        const char *equal = strchr(dims[i], '=');
        if (!equal || equal == dims[i] || !sp_parse_int(equal + 1, &value[i]) || value[i] < 0)
            return sp_fail(cx, SPARTA_E_USAGE, "options.dims %.100s: expected NAME=N", dims[i]);
        name[i] = sp_arena_bytes(arena, dims[i], (size_t)(equal - dims[i]));
        SP_NEED(cx, name[i]);
    }
    *out = (sp_bindings){n, name, value};
    return SPARTA_OK;
}

/* With sizes in place of symbols where that is needed: to infer the shapes at all, or to broadcast. */
static sparta_status open_inferred(sparta_ctx *cx, const char *onnx, const sp_import_options *options,
                                   const sp_bindings *sizes, sp_model **out)
{
    for (bool bound = false;; bound = true) {
        sp_model *m = NULL;
        bool bind = false;
        SP_TRY(sp_model_open(cx, onnx, options, &m));
        sparta_status s = bound ? sp_ops_bind(m->graph, sizes) : SPARTA_OK;
        if (s == SPARTA_OK) s = sp_ops_infer_given(m->graph, sizes, &bind);
        if (s == SPARTA_OK && (!bind || bound)) {
            *out = m;
            return SPARTA_OK;
        }
        sp_model_close(m);
        if (!bind || bound) return s;
    }
}

static sparta_status open_all(sparta_model *m, const char *onnx, const sparta_compile_options *o)
{
    const sp_import_options options = sp_import_options_of(o);
    sp_bindings sizes;
    sp_arena *arena = sp_arena_create(m->cx);
    SP_NEED(m->cx, arena);
    sparta_status s = sp_api_dims(m->cx, arena, o->dims, &sizes);
    if (s == SPARTA_OK) s = open_inferred(m->cx, onnx, &options, &sizes, &m->model);
    sp_arena_free(arena);
    return s;
}

sparta_status sparta_model_open(sparta_ctx *cx, const char *onnx, const sparta_compile_options *options,
                                sparta_model **out)
{
    sparta_compile_options o;
    SP_TRY(sp_options(cx, "model", options, &o, sizeof o));
    sparta_model *m = sp_zalloc(cx, sizeof *m);
    SP_NEED(cx, m);
    m->cx = cx;
    const sparta_status s = open_all(m, onnx, &o);
    if (s == SPARTA_OK)
        *out = m;
    else
        sparta_model_close(m);
    return s;
}

static void forget(sparta_model *m)
{
    for (int i = 0; m->result && i < m->model->graph->n_outputs; i++) sp_free(m->made_by, m->result[i].data);
    sp_free(m->made_by, m->result);
}

void sparta_model_close(sparta_model *m)
{
    if (!m) return;
    forget(m);
    sp_model_close(m->model);
    sp_free(m->cx, m);
}

/* ------------------------------------------------------------------ asking */

int sparta_model_inputs(const sparta_model *m)
{
    return m->model->graph->n_inputs;
}
int sparta_model_outputs(const sparta_model *m)
{
    return m->model->graph->n_outputs;
}
const char *sparta_model_input_name(const sparta_model *m, int i)
{
    return i >= 0 && i < m->model->graph->n_inputs ? m->model->graph->input[i]->name : NULL;
}
const char *sparta_model_output_name(const sparta_model *m, int i)
{
    return i >= 0 && i < m->model->graph->n_outputs ? m->model->graph->output[i]->name : NULL;
}

/* ------------------------------------------------------------------ running */

sparta_status sparta_model_run(sparta_ctx *cx, sparta_model *m, const sparta_named_tensor *inputs,
                               int n_inputs, sparta_named_tensor *outputs, int n_outputs)
{
    const sp_graph *g = m->model->graph;
    for (int i = 0; i < n_outputs; i++)
        if (sp_graph_named(g->output, g->n_outputs, outputs[i].name) < 0)
            return sp_fail(cx, SPARTA_E_USAGE, "output '%s': the model has no such output", outputs[i].name);
    for (int i = 0; i < n_inputs; i++)
        SP_TRY(sp_tensor_on_cpu(cx, &inputs[i].tensor, "input", inputs[i].name));
    /* The last run's may be inputs of this one, and stay when it fails. */
    sparta_model run = {.model = m->model, .made_by = cx};
    run.result = sp_zalloc(cx, ((size_t)g->n_outputs + 1) * sizeof *run.result);
    SP_NEED(cx, run.result);
    sparta_status s = sp_ops_run(cx, g, inputs, n_inputs, run.result, NULL, NULL);
    if (s == SPARTA_OK) s = sp_model_check(cx, m->model); /* its file, while it ran */
    if (s != SPARTA_OK) {
        forget(&run);
        return s;
    }
    forget(m);
    m->result = run.result;
    m->made_by = cx;
    for (int i = 0; i < n_outputs; i++)
        outputs[i].tensor = m->result[sp_graph_named(g->output, g->n_outputs, outputs[i].name)];
    return SPARTA_OK;
}
