/* Making a session: the plan's nodes become calls, its values get their places. */
#include "run/session.h"
#include <string.h>

static bool is_panel(const sparta_node *n)
{
    return !strcmp(sparta_attr_string(&n->attrs, "layout", ""), "panel");
}
/* A Split of panels costs nothing: its outputs are rows of its input. */
static bool is_view(const sparta_node *n)
{
    return n->op == SPARTA_OP_Split && is_panel(n) && !sparta_attr_find(&n->attrs, "kernel");
}

static sparta_status add_symbol(sparta_session *s, const char *name)
{
    for (int i = 0; i < s->n_symbols; i++)
        if (!strcmp(s->symbol[i], name)) return SPARTA_OK;
    if (s->n_symbols == 64) return sparta_fail(s->cx, SPARTA_E_LIMIT, "package: more than 64 symbols");
    s->symbol[s->n_symbols] = name;
    s->bound[s->n_symbols] = sparta_symbol_bound(s->plan, name);
    s->size[s->n_symbols++] = -1;
    return SPARTA_OK;
}

/* Inputs name them; a dim that is arithmetic on them is compared when they have sizes. */
static sparta_status find_symbols(sparta_session *s)
{
    s->symbol = sparta_arena_array(s->arena, 64, sizeof(char *));
    s->size = sparta_arena_array(s->arena, 64, sizeof(int64_t));
    s->wanted = sparta_arena_array(s->arena, 64, sizeof(int64_t));
    s->bound = sparta_arena_array(s->arena, 64, sizeof(int64_t));
    if (!s->symbol || !s->size || !s->wanted || !s->bound) return sparta_ctx_status(s->cx);
    for (int i = 0; i < s->plan->n_inputs; i++)
        for (int d = 0; d < s->plan->input[i]->dims.rank; d++) {
            const char *name;
            if (sparta_expr_is_symbol(s->plan->input[i]->dims.dim[d], &name)) SPARTA_TRY(add_symbol(s, name));
        }
    return SPARTA_OK;
}

static sparta_status load_code(sparta_session *s)
{
    const sparta_package *p = s->package;
    int native = 0, unchecked = 0;
    SPARTA_TRY(sparta_target_check(s->cx));
    s->object = sparta_arena_array(s->arena, (size_t)p->n_kernels + 1, sizeof(void *));
    SPARTA_NEED(s->cx, s->object);
    s->n_objects = p->n_kernels;
    s->isa = sparta_target_name(SPARTA_TARGET_PORTABLE);
    for (int k = 0; k < p->n_kernels; k++) {
        const sparta_kernel_code *best = NULL;
        for (int c = 0; c < p->kernel[k].n_code; c++)
            if (sparta_target_fits(p->kernel[k].code[c].target) &&
                (!best || p->kernel[k].code[c].target < best->target))
                best = &p->kernel[k].code[c];
        if (!best) continue;
        const sparta_status status = sparta_jit_load(s->cx, best->bytes, best->size, &s->object[k]);
        if (status == SPARTA_E_MEMORY || status == SPARTA_E_CANCELLED) return status;
        if (status != SPARTA_OK) continue; /* the ladder ends in the portable kernel */
        s->isa = sparta_target_name(best->target);
        unchecked += best->unchecked;
        native++;
    }
    if (unchecked)
        sparta_note(
            s->cx,
            "package: its code for %s was compiled on a machine that cannot run it and was never checked; "
            "`sparta verify` against the model does that",
            s->isa);
    if (p->n_kernels > native)
        sparta_note(s->cx,
                    "package: %d of %d kernels have no code that runs here; their portable versions do, "
                    "which are slower",
                    p->n_kernels - native, p->n_kernels);
    return SPARTA_OK;
}

static sparta_status bind_value(sparta_session *s, const sparta_value *v)
{
    run_value *r = &s->value[v->id];
    r->value = v;
    r->parent = r->producer = -1;
    r->tensor.dtype = v->dtype;
    r->tensor.rank = v->dims.rank;
    if (v->producer && !v->typed)
        return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: value '%s' has no type", v->name);
    if (v->constant) r->tensor = *v->constant;
    if (!v->producer) return SPARTA_OK;
    r->panels = is_panel(v->producer);
    r->stat = r->panels && sparta_attr_int(&v->producer->attrs, "stat", 0) &&
              v->producer->op != SPARTA_OP_LayerNormalization;
    if (r->panels && v->dtype != SPARTA_F32)
        return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: value '%s' cannot live in panels: it is not f32",
                           v->name);
    return SPARTA_OK;
}

/* The last dimension, when it is a number. */
static bool last_is_const(const sparta_dims *d, int64_t *out)
{
    return d->rank > 0 && sparta_expr_is_const(d->dim[d->rank - 1], out) && *out >= 0;
}

static sparta_status bind_view(sparta_session *s, const sparta_node *n)
{
    const run_value *parent = &s->value[n->in[0]->id];
    int64_t row = 0, rows;
    if (!parent->panels || !last_is_const(&n->in[0]->dims, &rows))
        return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' splits what is not in panels", n->name);
    for (int i = 0; i < n->n_out; i++) {
        run_value *r = &s->value[n->out[i]->id];
        int64_t features;
        if (!last_is_const(&n->out[i]->dims, &features) || features % 4)
            return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' splits rows that are no multiple of 4",
                               n->name);
        if (features > rows - row || !sparta_session_same_tokens(n->in[0], n->out[i]))
            return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' splits more than there is", n->name);
        r->parent = parent->parent >= 0 ? parent->parent : n->in[0]->id;
        r->row0 = parent->row0 + row;
        row += features;
    }
    return SPARTA_OK;
}

/* The weight behind a constant of the plan, by the name it was fetched under. */
static const sparta_weight *weight_of(const sparta_session *s, const sparta_value *v)
{
    return v->producer || v->is_input ? NULL
                                      : sparta_package_weight(s->package, v->origin ? v->origin : v->name);
}

/* What kind each operand is; where it lies is settled when sizes are known. */
static sparta_status bind_operands(sparta_session *s, const sparta_node *n, sparta_job *j)
{
    j->stat = sparta_attr_int(&n->attrs, "stat", 0) != 0;
    for (int i = 0; i < j->n_in; i++) {
        const sparta_value *v = n->in[i];
        sparta_operand *o = &j->in[i];
        if (!v) continue;
        const sparta_weight *w = weight_of(s, v);
        o->packed = w && w->packed ? &w->pack : NULL;
        o->tensor = s->value[v->id].tensor;
        o->kind = s->value[v->id].panels ? SPARTA_OPERAND_PANELS
                  : o->packed            ? SPARTA_OPERAND_PACKED
                                         : SPARTA_OPERAND_ROWS;
        if (o->kind == SPARTA_OPERAND_ROWS && v->constant && !v->constant->data)
            return sparta_fail(s->cx, SPARTA_E_FORMAT,
                               "package: '%s' reads '%s' in rows, which it is not stored in", n->name,
                               v->name);
    }
    for (int i = 0; i < j->n_out; i++)
        j->out[i].kind = s->value[n->out[i]->id].panels ? SPARTA_OPERAND_PANELS : SPARTA_OPERAND_ROWS;
    return SPARTA_OK;
}

static sparta_status bind_step(sparta_session *s, const sparta_node *n)
{
    run_step *step = &s->step[s->n_steps];
    const char *kernel = sparta_attr_string(&n->attrs, "kernel", NULL);
    const int64_t code = sparta_attr_int(&n->attrs, "code", -1);
    if (code >= s->n_objects)
        return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' names kernel %ld of %d", n->name,
                           (long)code, s->n_objects);
    step->node = n;
    if (kernel && (n->n_in < 1 || !n->in[0]))
        return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' has no input for kernel '%s'", n->name,
                           kernel);
    step->implement = kernel ? sparta_attr_string(&n->attrs, "implement", kernel) : "builtin";
    SPARTA_TRY(sparta_call_bind(s->cx, n, kernel, code >= 0 ? s->object[code] : NULL, &step->call));
    step->in = sparta_arena_array(s->arena, (size_t)n->n_in + 1, sizeof(sparta_tensor));
    step->out = sparta_arena_array(s->arena, (size_t)n->n_out + 1, sizeof(sparta_tensor));
    if (!step->in || !step->out) return sparta_ctx_status(s->cx);
    SPARTA_TRY(bind_operands(s, n, &step->call.job));
    if (kernel && step->call.job.stat && n->op == SPARTA_OP_LayerNormalization &&
        !s->value[n->in[0]->id].stat)
        return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' wants statistics that nobody leaves",
                           n->name);
    if (kernel) SPARTA_TRY(step->call.kernel->prepare(s->cx, s->arena, &step->call.job));
    for (int i = 0; i < n->n_out; i++) s->value[n->out[i]->id].producer = s->n_steps;
    s->n_steps++;
    return SPARTA_OK;
}

static sparta_status build(sparta_session *s)
{
    const sparta_graph *g = s->plan;
    s->n_values = g->n_values;
    s->value = sparta_arena_array(s->arena, (size_t)g->n_values + 1, sizeof *s->value);
    s->step = sparta_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *s->step);
    s->group = sparta_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *s->group);
    s->spent = sparta_arena_array(s->arena, ((size_t)g->n_nodes + 1) * (size_t)s->threads, sizeof(double));
    s->profiled = sparta_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *s->profiled);
    if (!s->value || !s->step || !s->group || !s->spent || !s->profiled) return sparta_ctx_status(s->cx);
    SPARTA_TRY(sparta_package_unchanged(s->cx, s->package));
    SPARTA_TRY(find_symbols(s));
    SPARTA_TRY(load_code(s));
    for (int i = 0; i < g->n_values; i++) SPARTA_TRY(bind_value(s, g->value[i]));
    for (int i = 0; i < g->n_nodes; i++)
        SPARTA_TRY(is_view(g->node[i]) ? bind_view(s, g->node[i]) : bind_step(s, g->node[i]));
    for (int i = 0; i < g->n_outputs; i++)
        if (s->value[g->output[i]->id].panels)
            return sparta_fail(s->cx, SPARTA_E_FORMAT, "package: output '%s' is left in panels",
                               g->output[i]->name);
    sparta_session_pairs(s);
    return SPARTA_OK;
}

sparta_status sparta_session_create(sparta_ctx *cx, const sparta_package *package,
                                    const sparta_session_options *options, sparta_session **out)
{
    sparta_session *s = sparta_zalloc(cx, sizeof *s);
    SPARTA_NEED(cx, s);
    s->cx = cx;
    s->package = package;
    s->plan = package->plan;
    sparta_session_options o = {0};
    if (options) memcpy(&o, options, SPARTA_MIN(options->size, sizeof o));
    s->profile = o.profile;
    s->arena = sparta_arena_create(cx);
    s->pool = s->arena ? sparta_pool_create(cx, o.threads) : NULL;
    if (!s->pool) {
        sparta_session_free(s);
        return sparta_ctx_status(cx);
    }
    s->threads = s->team = sparta_pool_threads(s->pool);
    s->share_from = SPARTA_SHARE_FROM;
    sparta_status status = build(s);
    if (status != SPARTA_OK) {
        sparta_session_free(s);
        return status;
    }
    *out = s;
    return SPARTA_OK;
}

void sparta_session_free(sparta_session *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_objects; i++)
        if (s->object[i]) sparta_jit_close(s->object[i]);
    sparta_pool_free(s->pool);
    sparta_free(s->cx, s->buffer);
    sparta_arena_free(s->arena);
    sparta_free(s->cx, s);
}

void sparta_session_share_from(sparta_session *s, double operations)
{
    s->share_from = operations;
    s->laid_out = false;
}

int sparta_session_threads(const sparta_session *s)
{
    return s->threads;
}
size_t sparta_session_memory(const sparta_session *s)
{
    return s->buffer_bytes;
}
const char *sparta_session_isa(const sparta_session *s)
{
    return s->isa;
}
