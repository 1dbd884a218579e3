/* Making a session: the plan's nodes become calls, its values get their places. */
#include "run/session.h"
#include "panel/called.h"
#include <string.h>

/* A Split of lanes costs nothing: its outputs are rows of its input. */
static bool is_view(const sparta_session *s, const sp_node *n)
{
    return n->op == SP_OP_Split && n->n_in && n->in[0] && n->n_out &&
           sp_session_in_lanes(&s->value[n->out[0]->id]) && !sp_attr_find(&n->attrs, "kernel");
}

/* The same elements in other dims, of a value in rows that a step makes: it costs nothing either. */
static bool is_same(const sparta_session *s, const sp_node *n)
{
    if (!SP_OP_AMONG(n->op, SP_OP_Reshape, SP_OP_Flatten, SP_OP_Squeeze, SP_OP_Unsqueeze, SP_OP_Identity) ||
        n->n_out != 1 || !n->n_in || !n->in[0] || sp_attr_find(&n->attrs, "kernel"))
        return false;
    const run_value *x = &s->value[n->in[0]->id], *y = &s->value[n->out[0]->id];
    return !sp_session_in_lanes(x) && !sp_session_in_lanes(y) && (x->producer >= 0 || x->parent >= 0) &&
           n->in[0]->dtype == n->out[0]->dtype;
}

static void bind_same(sparta_session *s, const sp_node *n)
{
    const run_value *x = &s->value[n->in[0]->id];
    s->value[n->out[0]->id].parent = x->parent >= 0 ? x->parent : n->in[0]->id;
}

/* Inputs name them; a dim that is arithmetic on them is compared when they have sizes. */
static sparta_status find_symbols(sparta_session *s)
{
    sp_symbols found;
    SP_TRY(sp_input_symbols(s->cx, s->plan, &found));
    const size_t n = (size_t)found.n;
    s->symbol = sp_arena_array(s->arena, n + 1, sizeof(char *));
    s->size = sp_arena_array(s->arena, n + 1, sizeof(int64_t));
    s->wanted = sp_arena_array(s->arena, n + 1, sizeof(int64_t));
    s->bound = sp_arena_array(s->arena, n + 1, sizeof *s->bound);
    if (!s->symbol || !s->size || !s->wanted || !s->bound) return sp_ctx_status(s->cx);
    for (int i = 0; i < found.n; i++) {
        s->symbol[i] = found.name[i];
        s->bound[i] = sp_symbol_bound(s->plan, found.name[i]);
        s->size[i] = -1;
    }
    s->n_symbols = found.n;
    return SPARTA_OK;
}

/* Of a kernel's code the best that runs here and takes its arguments as this library gives them; NULL: there is none. */
static const sp_kernel_code *best_code(const sp_kernel *k, bool *other_arguments)
{
    const sp_kernel_code *best = NULL;
    for (int c = 0; c < k->n_code; c++) {
        const sp_kernel_code *code = &k->code[c];
        if (sp_target_device(code->target) != SP_DEVICE_CPU || !sp_target_fits(code->target)) continue;
        if (code->abi != sp_panel_abi())
            *other_arguments = true;
        else if (!best || code->target < best->target)
            best = code;
    }
    return best;
}

static sparta_status load_code(sparta_session *s)
{
    const sparta_package *p = s->package;
    int native = 0, unchecked = 0;
    bool other_arguments = false;
    SP_TRY(sp_target_check(s->cx));
    s->object = sp_arena_array(s->arena, (size_t)p->n_kernels + 1, sizeof(void *));
    SP_NEED(s->cx, s->object);
    s->n_objects = p->n_kernels;
    s->isa = sp_target_name(SP_TARGET_PORTABLE);
    for (int k = 0; k < p->n_kernels; k++) {
        const sp_kernel_code *best = best_code(&p->kernel[k], &other_arguments);
        if (!best) continue;
        const sparta_status status = sp_jit_load(s->cx, best->bytes, best->size, &s->object[k]);
        if (status == SPARTA_E_MEMORY || status == SPARTA_E_CANCELLED) return status;
        if (status != SPARTA_OK) continue; /* the ladder ends in the portable kernel */
        s->isa = sp_target_name(best->target);
        unchecked += best->unchecked;
        native++;
    }
    if (unchecked)
        sp_note(
            s->cx,
            "package: its code for %s was compiled on a machine that cannot run it and was never checked; "
            "compare its answers with those of the model (`sparta_model_run`)",
            s->isa);
    s->portable = p->n_kernels - native;
    const char *why =
        other_arguments ? " (it was compiled by another version of sparta: compile the model again)" : "";
    if (s->portable && !native) /* in the same words of every plan that is tried: said once */
        sp_note(s->cx,
                "package: no kernel has code that runs here%s; their portable versions do, which are slower",
                why);
    else if (s->portable)
        sp_note(s->cx,
                "package: %d of %d kernels have no code that runs here%s; their portable versions do, "
                "which are slower",
                s->portable, p->n_kernels, why);
    return SPARTA_OK;
}

static sparta_status bind_value(sparta_session *s, const sp_value *v)
{
    run_value *r = &s->value[v->id];
    r->value = v;
    r->parent = r->producer = -1;
    r->tensor.dtype = v->dtype;
    r->tensor.rank = v->dims.rank;
    if (v->producer && !v->typed)
        return sp_fail(s->cx, SPARTA_E_FORMAT, "package: value '%s' has no type", v->name);
    if (v->constant) r->tensor = *v->constant;
    if (!v->producer) return SPARTA_OK;
    const char *layout = sp_attr_string(&v->producer->attrs, "layout", sp_layout_name(SP_LAYOUT_ROWS));
    if (!sp_layout_find(layout, &r->layout))
        return sp_fail(s->cx, SPARTA_E_FORMAT,
                       "package: '%s' has layout '%.100s', which this library does not know; compile the "
                       "model again",
                       v->name, layout);
    r->stat = sp_session_in_lanes(r) && sp_attr_int(&v->producer->attrs, "stat", 0) &&
              !sp_panel_takes_stat(v->producer->op);
    if (sp_session_in_lanes(r) && !sp_lane_features(v->dtype))
        return sp_fail(s->cx, SPARTA_E_FORMAT, "package: value '%s' cannot have layout '%s': it is %s",
                       v->name, layout, sparta_dtype_name(v->dtype));
    return SPARTA_OK;
}

/* The last dimension, when it is a number that something can have. */
static bool last_is_const(const sp_dims *d, int64_t *out)
{
    return d->rank > 0 && sp_expr_is_const(d->dim[d->rank - 1], out) && *out >= 0 && *out < INT64_MAX / 2;
}

static sparta_status bind_view(sparta_session *s, const sp_node *n)
{
    const run_value *parent = &s->value[n->in[0]->id];
    int64_t row = 0, left;
    if (!sp_session_in_lanes(parent) || !last_is_const(&n->in[0]->dims, &left))
        return sp_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' splits what is not in lanes", n->name);
    const int64_t each = sp_lane_features(n->in[0]->dtype);
    for (int i = 0; i < n->n_out; i++) {
        run_value *r = &s->value[n->out[i]->id];
        int64_t features;
        if (!last_is_const(&n->out[i]->dims, &features) || features % (4 * each))
            return sp_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' splits rows that are no multiple of 4",
                           n->name);
        if (r->layout != parent->layout || n->out[i]->dtype != n->in[0]->dtype)
            return sp_fail(s->cx, SPARTA_E_FORMAT,
                           "package: '%s' changes the layout or the type of what it splits", n->name);
        if (features > left || !sp_session_same_tokens(n->in[0], n->out[i]))
            return sp_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' splits more than there is", n->name);
        r->parent = parent->parent >= 0 ? parent->parent : n->in[0]->id;
        r->row0 = parent->row0 + row;
        row += features / each;
        left -= features;
    }
    return SPARTA_OK;
}

/* The weight behind a constant of the plan, by the name it was fetched under. */
static const sp_weight *weight_of(const sparta_session *s, const sp_value *v)
{
    return v->producer || v->is_input ? NULL : sp_package_weight(s->package, sp_initialiser_name(v));
}

/* Layout and type of each operand; where it lies is settled when sizes are known. */
static sparta_status bind_operands(sparta_session *s, run_step *step)
{
    const sp_node *n = step->node;
    sp_job *j = &step->call.job;
    j->stat = sp_attr_int(&n->attrs, "stat", 0) != 0;
    for (int i = 0; i < j->n_in; i++) {
        const sp_value *v = step->reads[i];
        sp_operand *o = &j->in[i];
        if (!v) continue;
        const sp_weight *w = weight_of(s, v);
        o->packed = NULL;
        if (w && w->packed) SP_TRY(sp_package_packed(s->cx, w, &o->packed));
        o->tensor = s->value[v->id].tensor;
        o->layout = o->packed ? SP_LAYOUT_PACKED : s->value[v->id].layout;
        if (o->layout == SP_LAYOUT_ROWS && v->constant && !v->constant->data)
            return sp_fail(s->cx, SPARTA_E_FORMAT,
                           "package: '%s' reads '%s' in rows, which it is not stored in", n->name, v->name);
    }
    for (int i = 0; i < j->n_out; i++) {
        j->out[i].layout = s->value[step->writes[i]->id].layout;
        j->out[i].tensor = s->value[step->writes[i]->id].tensor;
    }
    return SPARTA_OK;
}

/* A function of the caller's, by its name; the walker does its work where nobody registered it. */
static void find_function(sparta_session *s, run_step *step)
{
    sp_call *c = &step->call;
    const sp_packed *w = c->job.n_in > 1 ? c->job.in[1].packed : NULL;
    c->job.text = sp_attr_string(&step->node->attrs, "called", "");
    if (!w || sp_called_takes(s->cx, c->job.text, &w->format)) return;
    sp_note(s->cx,
            "package: %s was compiled with function '%.40s' as its kernel, and no such function takes its "
            "format in this context; the generic walker runs it, which is slower "
            "(sparta_kernel_function_register before the session is made)",
            step->node->name, c->job.text);
    c->kernel = &sp_panel_walk;
    c->entry = c->kernel->portable;
    c->object = NULL;
    step->implement = c->kernel->name;
}

static sparta_status bind_step(sparta_session *s, int at)
{
    const sp_node *n = s->plan->node[at];
    run_step *step = &s->step[s->n_steps];
    const char *kernel = sp_attr_string(&n->attrs, "kernel", NULL);
    const int64_t code = sp_attr_int(&n->attrs, "code", -1);
    if (code >= s->n_objects)
        return sp_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' names kernel %ld of %d", n->name, (long)code,
                       s->n_objects);
    step->node = n;
    if (kernel && (n->n_in < 1 || !n->in[0]))
        return sp_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' has no input for kernel '%s'", n->name, kernel);
    SP_TRY(sp_call_bind(s->cx, s->arena, n, kernel, code >= 0 ? s->object[code] : NULL, &step->call));
    /* What is generated and has no code that runs here is done by its reference, wherever its operands lie. */
    const bool reference = kernel && !step->call.kernel;
    if (reference) kernel = NULL;
    step->implement = kernel ? sp_attr_string(&n->attrs, "implement", kernel) : "builtin";
    step->op = sp_builtin_row(n->op)->name;
    step->n_reads = n->n_in;
    step->reads = n->in;
    step->writes = n->out;
    step->in = sp_arena_array(s->arena, (size_t)n->n_in + 1, sizeof(sparta_tensor));
    step->out = sp_arena_array(s->arena, (size_t)n->n_out + 1, sizeof(sparta_tensor));
    if (!step->in || !step->out) return sp_ctx_status(s->cx);
    if (step->call.kernel && step->call.kernel->generated) SP_TRY(sp_session_chain(s, step, at));
    SP_TRY(bind_operands(s, step));
    if (step->call.kernel == &sp_panel_called) find_function(s, step);
    const run_value *x = kernel ? &s->value[n->in[0]->id] : NULL;
    if (kernel && step->call.job.stat && sp_panel_takes_stat(n->op) && (!x->stat || x->parent >= 0))
        return sp_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' wants statistics that nobody leaves", n->name);
    if (!kernel && !reference && !sp_attr_find(&n->attrs, "chain") && n->n_out &&
        sp_session_in_lanes(&s->value[n->out[0]->id]))
        return sp_fail(s->cx, SPARTA_E_FORMAT, "package: '%s' has a layout and no kernel that would make it",
                       n->name);
    if (kernel) SP_TRY(sp_panel_prepare(s->cx, s->arena, step->call.kernel, &step->call.job));
    for (int i = 0; i < n->n_out; i++) s->value[n->out[i]->id].producer = s->n_steps;
    for (int i = 0; i < step->call.job.n_out; i++) s->value[step->writes[i]->id].producer = s->n_steps;
    s->n_steps++;
    return SPARTA_OK;
}

static sparta_status build(sparta_session *s)
{
    const sp_graph *g = s->plan;
    s->n_values = g->n_values;
    s->value = sp_arena_array(s->arena, (size_t)g->n_values + 1, sizeof *s->value);
    s->step = sp_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *s->step);
    s->group = sp_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *s->group);
    s->spent = sp_arena_array(s->arena, ((size_t)g->n_nodes + 1) * (size_t)s->threads, sizeof(double));
    s->profiled = sp_arena_array(s->arena, (size_t)g->n_nodes + 1, sizeof *s->profiled);
    s->turn = sp_arena_array(s->arena, (size_t)s->threads, sizeof *s->turn);
    if (!s->value || !s->step || !s->group || !s->spent || !s->profiled || !s->turn)
        return sp_ctx_status(s->cx);
    SP_TRY(sp_package_unchanged(s->cx, s->package));
    SP_TRY(find_symbols(s));
    SP_TRY(load_code(s));
    SP_TRY(sp_package_ready(s->cx, s->package, s->pool));
    for (int i = 0; i < g->n_values; i++) SP_TRY(bind_value(s, g->value[i]));
    for (int i = 0; i < g->n_nodes; i++) {
        if (is_same(s, g->node[i]))
            bind_same(s, g->node[i]);
        else
            SP_TRY(is_view(s, g->node[i]) ? bind_view(s, g->node[i]) : bind_step(s, i));
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (sp_session_in_lanes(&s->value[g->output[i]->id]))
            return sp_fail(s->cx, SPARTA_E_FORMAT, "package: output '%s' is not left in rows",
                           g->output[i]->name);
    sp_session_folds(s);
    sp_session_appends(s);
    return SPARTA_OK;
}

sparta_status sp_session_create(sparta_ctx *cx, const sparta_package *package, const sp_graph *plan,
                                const sparta_session_options *options, sp_pool *pool, sparta_session **out)
{
    sparta_session *s = sp_zalloc(cx, sizeof *s);
    SP_NEED(cx, s);
    s->cx = cx;
    s->package = package;
    s->plan = plan;
    s->profile = options->profile;
    s->borrowed = pool != NULL;
    s->last = s;
    s->only = -1;
    s->arena = sp_arena_create(cx);
    s->pool = pool || !s->arena ? pool : sp_pool_create(cx, options->threads);
    if (!s->arena || !s->pool) {
        sparta_session_free(s);
        return sp_ctx_status(cx);
    }
    s->threads = s->team = sp_pool_threads(s->pool);
    s->share_from = SP_SHARE_FROM;
    sparta_status status = build(s);
    if (status != SPARTA_OK) {
        sparta_session_free(s);
        return status;
    }
    *out = s;
    return SPARTA_OK;
}

sparta_status sparta_session_create(sparta_ctx *cx, const sparta_package *package,
                                    const sparta_session_options *options, sparta_session **out)
{
    sparta_session_options o;
    sparta_session *s;
    SP_TRY(sp_options(cx, "session", options, &o, sizeof o));
    SP_TRY(sp_session_create(cx, package, package->plan, &o, NULL, &s));
    const sparta_status status = sp_session_others(s, &o);
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
    for (int i = 0; i < s->n_others; i++) sparta_session_free(s->other[i].session);
    for (int i = 0; i < s->n_objects; i++)
        if (s->object[i]) sp_jit_close(s->object[i]);
    if (!s->borrowed) sp_pool_free(s->pool);
    sp_free(s->cx, s->buffer);
    sp_arena_free(s->arena);
    sp_free(s->cx, s);
}

void sp_session_share_from(sparta_session *s, double operations)
{
    s->share_from = operations;
    s->laid_out = false;
    for (int i = 0; i < s->n_others; i++) sp_session_share_from(s->other[i].session, operations);
}

void sp_session_only(sparta_session *s, int plan)
{
    s->only = plan;
}

int sparta_session_threads(const sparta_session *s)
{
    return s->threads;
}
size_t sp_session_memory(const sparta_session *s)
{
    size_t bytes = s->buffer_bytes;
    for (int i = 0; i < s->n_others; i++) bytes += s->other[i].session->buffer_bytes;
    return bytes;
}
const char *sparta_session_isa(const sparta_session *s)
{
    return s->isa;
}
int sparta_session_portable(const sparta_session *s)
{
    return s->portable;
}
