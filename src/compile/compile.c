/* The driver: import, obey, infer, passes, choose, layout, pack, verify. */
#include "compile/lower.h"
#include "ops/ops.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ dims: "name=4" fixes a symbol, "name=1:8:32" bounds it */

static sparta_status parse_dim(sparta_ctx *cx, const char *text, char name[64], int64_t *value, bool *fixed)
{
    const char *eq = strchr(text, '='), *p;
    int64_t v[3] = {0};
    int n = 0;
    if (!eq || eq == text || eq - text >= 64)
        return sparta_fail(cx, SPARTA_E_USAGE, "--dim %s: expected NAME=N or NAME=MIN:OPT:MAX", text);
    memcpy(name, text, (size_t)(eq - text));
    name[eq - text] = 0;
    for (p = eq; *p && n < 3; n++) {
        char word[24];
        const size_t length = strcspn(++p, ":");
        snprintf(word, sizeof word, "%.*s", (int)SPARTA_MIN(length, sizeof word - 1), p);
        if (!sparta_parse_int(word, &v[n]) || v[n] < 1)
            return sparta_fail(cx, SPARTA_E_USAGE,
                               "--dim %s: '%s' is not a size; give a number of at least 1", text, word);
        p += length;
    }
    if (*p || (n != 1 && n != 3) || (n == 3 && (v[0] > v[1] || v[1] > v[2])))
        return sparta_fail(cx, SPARTA_E_USAGE, "--dim %s: expected NAME=N or NAME=MIN:OPT:MAX", text);
    *fixed = n == 1;
    *value = n == 1 ? v[0] : v[2];
    return SPARTA_OK;
}

static bool has_symbol(const sparta_graph *g, const char *name)
{
    const char *symbol;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++)
            if (sparta_expr_is_symbol(g->input[i]->dims.dim[d], &symbol) && !strcmp(symbol, name))
                return true;
    return false;
}

static sparta_status bind_dims(sparta_ctx *cx, sparta_graph *g, const char *const *dims)
{
    for (int i = 0; dims && dims[i]; i++) {
        char name[64];
        int64_t value = 0;
        bool fixed = false;
        const char *names[1] = {name};
        SPARTA_TRY(parse_dim(cx, dims[i], name, &value, &fixed));
        const sparta_bindings b = {1, names, &value};
        if (fixed)
            SPARTA_TRY(sparta_ops_bind(g, &b));
        else if (!has_symbol(g, name))
            return sparta_fail(cx, SPARTA_E_USAGE, "--dim %s: no input has a dimension '%s'", dims[i], name);
        else
            SPARTA_TRY(sparta_graph_add_bound(g, name, value));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ lowering */

static sparta_status lower(lowering *l)
{
    SPARTA_TRY(sparta_lower_targets(l->cx, l->request->options.target, &l->targets));
    if (l->request->runs_here && l->targets.foreign)
        return sparta_fail(
            l->cx, SPARTA_E_UNSUPPORTED,
            "target %s: this CPU cannot run it, so nothing could be timed; `sparta doctor` lists those "
            "it can, `sparta compile` makes code for others",
            l->request->options.target);
    l->target = l->targets.main;
    l->no_measure = l->request->options.no_measure || l->targets.foreign;
    SPARTA_TRY(sparta_tune_open(l->cx, l->request->db, &l->db));
    SPARTA_TRY(sparta_lower_choose(l));
    SPARTA_TRY(sparta_lower_layout(l));
    SPARTA_TRY(sparta_lower_pack(l));
    return sparta_graph_verify(l->g);
}

sparta_status sparta_compile_graph(sparta_ctx *cx, sparta_graph *g, const sparta_compile_request *request,
                                   sparta_package **out)
{
    lowering l = {.cx = cx, .g = g, .request = request};
    SPARTA_TRY(sparta_lower_strip(g));
    SPARTA_TRY(sparta_compile_passes(g));
    SPARTA_TRY(sparta_package_create(cx, &l.package));
    l.arena = sparta_arena_create(cx);
    sparta_status s = l.arena ? lower(&l) : sparta_ctx_status(cx);
    for (int i = 0; i < l.n_nodes; i++) sparta_mask_free(cx, &l.node[i].mask);
    for (int i = 0; i < l.n_kernels; i++)
        if (l.kernel[i].object) sparta_jit_close(l.kernel[i].object);
    sparta_tune_close(l.db);
    sparta_arena_free(l.arena);
    if (s != SPARTA_OK) {
        sparta_package_close(l.package);
        return s;
    }
    l.package->plan = g;
    *out = l.package;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ files */

static void close_model(void *model)
{
    sparta_model_close(model);
}

static sparta_status check_model(sparta_ctx *cx, const void *model)
{
    return sparta_model_check(cx, model);
}

/* Is the symbol given on the command line (or by the caller)? Then the schedule's word for it does not count. */
static bool is_given(const char *const *dims, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 0; dims && dims[i]; i++)
        if (!strncmp(dims[i], name, length) && dims[i][length] == '=') return true;
    return false;
}

static sparta_status bind_scheduled(sparta_ctx *cx, sparta_graph *g, const char *const *given,
                                    const sparta_schedule *s)
{
    for (int i = 0; i < s->n_dims; i++) {
        const sparta_schedule_name *d = &s->dim[i];
        if (is_given(given, d->name)) continue;
        const char *text = sparta_arena_printf(g->arena, "%s=%s", d->name, d->text);
        SPARTA_NEED(cx, text);
        const char *const one[] = {text, NULL};
        if (bind_dims(cx, g, one) != SPARTA_OK)
            return sparta_fail_in(cx, "%.200s:%d:%d", d->at.file, d->at.line, d->at.column);
    }
    return SPARTA_OK;
}

/* The model with what is said of it done, and inferred. */
static sparta_status load(sparta_ctx *cx, const char *onnx, const sparta_compile_options *o,
                          const sparta_schedule *schedule, sparta_obeyed *obeyed, sparta_model **out)
{
    const sparta_import_options options = {.external_data_root = o->external_data_root};
    sparta_model *m;
    int64_t lost = 0;
    SPARTA_TRY(sparta_model_open(cx, onnx, &options, &m));
    sparta_status s = bind_dims(cx, m->graph, o->dims);
    if (s == SPARTA_OK && schedule) s = bind_scheduled(cx, m->graph, o->dims, schedule);
    if (s == SPARTA_OK && o->masks) s = sparta_compile_masks(cx, m->graph, o->masks, &lost);
    if (s == SPARTA_OK && schedule) s = sparta_compile_schedule(cx, m->graph, schedule, obeyed);
    if (s == SPARTA_OK) s = sparta_ops_infer(m->graph);
    if (s != SPARTA_OK) {
        sparta_model_close(m);
        return s;
    }
    obeyed->masked_nonzero = lost + (schedule ? obeyed->masked_nonzero : 0);
    *out = m;
    return SPARTA_OK;
}

/* The same made smaller, where that is worth it. */
static sparta_status load_smaller(sparta_ctx *cx, const char *onnx, const sparta_compile_options *o,
                                  const sparta_schedule *schedule, sparta_obeyed *obeyed,
                                  sparta_propagate_report *went, sparta_model **out)
{
    sparta_model *m;
    SPARTA_TRY(load(cx, onnx, o, schedule, obeyed, &m));
    sparta_status s = sparta_compile_propagate(m->graph, o, obeyed, went);
    if (s == SPARTA_OK && sparta_compile_worth(went, o)) {
        *out = m;
        return SPARTA_OK;
    }
    sparta_model_close(m);
    SPARTA_TRY(s);
    went->parameters_after = went->parameters_before;
    went->nodes_after = went->nodes_before;
    went->n = 0;
    went->tensor = NULL; /* was the other graph's */
    return load(cx, onnx, o, schedule, obeyed, out);
}

/* A user's sparsifier that rolls dice would make the check below compare two different models. */
static sparta_status same_effects(sparta_ctx *cx, const sparta_obeyed *a, const sparta_obeyed *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->effect[i].digest != b->effect[i].digest) {
            sparta_fail(
                cx, SPARTA_E_USAGE,
                "'%.100s': sparsify %.100s keeps other elements when it is asked again; the same weight must "
                "give the same answer",
                a->effect[i].tensor, a->effect[i].text);
            return sparta_lower_fail_at(cx, a->effect[i].at);
        }
    return SPARTA_OK;
}

/* The check imports the model anew: what is compared with is the file (and what the schedule says of it, and without what is to be
 * removed), not what propagation and the passes made of it. */
static sparta_status verify_file(sparta_ctx *cx, const char *onnx, const sparta_compile_request *request,
                                 const sparta_schedule *schedule, const sparta_package *p)
{
    const sparta_model *given = p->owner.object;
    sparta_model *m;
    sparta_obeyed again = {0};
    const sparta_compile_options *o = &request->options;
    const char *const *remove = o->remove;
    const sparta_tolerance tolerance = {o->rtol > 0 ? o->rtol : -1, o->atol > 0 ? o->atol : -1};
    SPARTA_TRY(load(cx, onnx, o, schedule, &again, &m));
    sparta_status s = request->obeyed ? same_effects(cx, request->obeyed, &again) : SPARTA_OK;
    if (s == SPARTA_OK) s = sparta_model_check(cx, given);
    if (s == SPARTA_OK && (m->file.size != given->file.size || m->file.mtime_ns != given->file.mtime_ns))
        s = sparta_fail(cx, SPARTA_E_IO, "%s: it was replaced while it was compiled; compile it again", onnx);
    for (int i = 0; s == SPARTA_OK && remove && remove[i]; i++)
        s = sparta_propagate_remove(m->graph, remove[i]);
    if (s == SPARTA_OK && remove) s = sparta_ops_infer(m->graph);
    if (s == SPARTA_OK) s = sparta_compile_widen(m->graph);
    if (s == SPARTA_OK) s = sparta_lower_verify_targets(cx, p, m->graph, &tolerance);
    sparta_model_close(m);
    return s;
}

static sparta_status compile_model(sparta_ctx *cx, const char *onnx, const sparta_compile_request *asked,
                                   const sparta_schedule *schedule, sparta_package **out)
{
    sparta_compile_request request = *asked;
    sparta_obeyed obeyed = {0};
    sparta_model *m;
    sparta_package *p;
    sparta_propagate_report went;
    SPARTA_TRY(load_smaller(cx, onnx, &request.options, schedule, &obeyed, &went, &m));
    if (schedule) request.obeyed = &obeyed;
    sparta_status s = SPARTA_OK;
    if (schedule && schedule->target && !request.options.target) {
        lower_targets targets;
        request.options.target = schedule->target;
        if (sparta_lower_targets(cx, schedule->target, &targets) != SPARTA_OK)
            s = sparta_lower_fail_at(cx, schedule->target_at);
    }
    if (s == SPARTA_OK) s = sparta_compile_graph(cx, m->graph, &request, &p);
    if (s != SPARTA_OK) {
        sparta_model_close(m);
        return s;
    }
    p->owner = (sparta_model_owner){m, close_model, check_model};
    if (!request.no_verify) s = verify_file(cx, onnx, &request, schedule, p);
    /* A file that changed meanwhile is why answers differ. */
    if ((s == SPARTA_OK || s == SPARTA_E_DIFFER) && sparta_model_check(cx, m) != SPARTA_OK) s = SPARTA_E_IO;
    if (s != SPARTA_OK) {
        sparta_package_close(p);
        return s;
    }
    if (request.went) *request.went = went;
    if (request.masked_nonzero) *request.masked_nonzero = obeyed.masked_nonzero;
    *out = p;
    return SPARTA_OK;
}

/* The file's schedule, or none when there are rules or neither. */
static sparta_status open_schedule(sparta_ctx *cx, const sparta_compile_options *o, sparta_schedule **out)
{
    *out = NULL;
    if (o->schedule && o->rules)
        return sparta_fail(cx, SPARTA_E_USAGE,
                           "compile: a schedule file and rules: what counts? give one of them");
    if (o->rules && o->rules->cx != cx)
        return sparta_fail(cx, SPARTA_E_USAGE,
                           "compile: the rules belong to another context; make them with this one");
    return o->schedule ? sparta_schedule_open(cx, o->schedule, out) : SPARTA_OK;
}

sparta_status sparta_compile_open(sparta_ctx *cx, const char *onnx, const sparta_compile_options *options,
                                  sparta_opened *out)
{
    sparta_opened o = {0};
    SPARTA_TRY(open_schedule(cx, options, &o.schedule));
    sparta_status s =
        load(cx, onnx, options, options->rules ? options->rules : o.schedule, &o.obeyed, &o.model);
    if (s == SPARTA_OK)
        *out = o;
    else
        sparta_schedule_free(o.schedule);
    return s;
}

void sparta_compile_close(sparta_opened *o)
{
    sparta_model_close(o->model);
    sparta_schedule_free(o->schedule);
    *o = (sparta_opened){0};
}

sparta_status sparta_compile_file(sparta_ctx *cx, const char *onnx, const sparta_compile_request *request,
                                  sparta_package **out)
{
    sparta_schedule *schedule;
    SPARTA_TRY(open_schedule(cx, &request->options, &schedule));
    sparta_status s =
        compile_model(cx, onnx, request, request->options.rules ? request->options.rules : schedule, out);
    sparta_schedule_free(schedule);
    return s;
}

sparta_status sparta_compile(sparta_ctx *cx, const char *onnx, const char *package,
                             const sparta_compile_options *options)
{
    sparta_compile_request request = {0};
    sparta_package *p;
    if (options) memcpy(&request.options, options, SPARTA_MIN(options->size, sizeof request.options));
    SPARTA_TRY(sparta_compile_file(cx, onnx, &request, &p));
    sparta_status s = sparta_package_write(cx, p, package);
    sparta_package_close(p);
    return s;
}
