/* Running: inputs are checked and bound, groups executed in order, outputs handed out as views. */
#include "run/session.h"
#include <stdatomic.h>
#include <string.h>

/* ------------------------------------------------------------------ inputs */

static sparta_status wrong_name(sparta_ctx *cx, const sp_graph *g, const char *name, const char *what)
{
    sp_text known;
    sp_text_init(&known, cx);
    for (int i = 0; i < g->n_inputs; i++) sp_text_printf(&known, "%s%s", i ? ", " : "", g->input[i]->name);
    const sparta_status status =
        sp_fail(cx, SPARTA_E_USAGE, "input '%s': %s takes %s", name, what, sp_text_str(&known));
    sp_text_free(&known);
    return status;
}

/* Every input of the model is given, once, and nothing else; afterwards run_value.given says by what. */
static sparta_status match_names(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs, int n)
{
    const sp_graph *g = s->plan;
    for (int i = 0; i < g->n_inputs; i++) s->value[g->input[i]->id].given = NULL;
    for (int i = n - 1; i >= 0; i--) {
        const sp_value *v = sp_graph_find(g, inputs[i].name);
        if (v) s->value[v->id].given = &inputs[i]; /* of several the first */
    }
    for (int i = 0; i < g->n_inputs; i++)
        if (!s->value[g->input[i]->id].given)
            return wrong_name(cx, g, g->input[i]->name, "missing; the model");
    for (int i = 0; i < n; i++) {
        const sp_value *v = sp_graph_find(g, inputs[i].name);
        if (!v || !v->is_input) return wrong_name(cx, g, inputs[i].name, "the model has no such input; it");
        if (s->value[v->id].given != &inputs[i])
            return sp_fail(cx, SPARTA_E_USAGE, "input '%s': it is given twice", inputs[i].name);
    }
    return SPARTA_OK;
}

static sparta_status bind_size(sparta_ctx *cx, sparta_session *s, const sp_value *v, int d, int64_t size)
{
    const char *name;
    int64_t fixed;
    if (sp_expr_is_const(v->dims.dim[d], &fixed)) {
        if (fixed == size) return SPARTA_OK;
        return sp_fail(cx, SPARTA_E_USAGE, "input '%s': dimension %d is %ld, the model wants %ld", v->name, d,
                       (long)size, (long)fixed);
    }
    if (!sp_expr_is_symbol(v->dims.dim[d], &name)) return SPARTA_OK;
    for (int i = 0; i < s->n_symbols; i++) {
        if (strcmp(s->symbol[i], name)) continue;
        if (s->wanted[i] >= 0 && s->wanted[i] != size)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "input '%s': dimension %d ('%s') is %ld here and %ld in another input", v->name, d,
                           name, (long)size, (long)s->wanted[i]);
        if (sp_bound_check(cx, &s->bound[i], size) != SPARTA_OK) return sp_fail_in(cx, "input '%s'", v->name);
        s->wanted[i] = size;
    }
    return SPARTA_OK;
}

/* A dim that is arithmetic, now that its symbols have sizes. */
static sparta_status check_arithmetic(sparta_ctx *cx, const sparta_session *s, const sp_value *v,
                                      const sparta_tensor *t)
{
    const sp_bindings sizes = {s->n_symbols, s->symbol, s->wanted};
    for (int d = 0; d < t->rank; d++) {
        int64_t size;
        if (sp_expr_is_const(v->dims.dim[d], NULL) || sp_expr_is_symbol(v->dims.dim[d], NULL)) continue;
        SP_TRY(sp_expr_eval(cx, v->dims.dim[d], &sizes, &size));
        if (size != t->dim[d])
            return sp_fail(
                cx, SPARTA_E_SHAPE,
                "input '%s': dimension %d is %ld, and must be %ld at the sizes of the other inputs", v->name,
                d, (long)t->dim[d], (long)size);
    }
    return SPARTA_OK;
}

/* What the inputs are, against the model: s->wanted gets the sizes of its symbols. data: they have some, to be run. */
static sparta_status look_at_inputs(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                                    int n, bool data)
{
    const sp_graph *g = s->plan;
    SP_TRY(match_names(cx, s, inputs, n));
    for (int i = 0; i < s->n_symbols; i++) s->wanted[i] = -1;
    for (int i = 0; i < g->n_inputs; i++) {
        const sp_value *v = g->input[i];
        const sparta_tensor *t = &s->value[v->id].given->tensor;
        SP_TRY(sp_tensor_on_cpu(cx, t, "input", v->name));
        if (t->dtype != v->dtype)
            return sp_fail(cx, SPARTA_E_USAGE, "input '%s': it is %s, the model wants %s", v->name,
                           sparta_dtype_name(t->dtype), sparta_dtype_name(v->dtype));
        if (t->rank != v->dims.rank)
            return sp_fail(cx, SPARTA_E_USAGE, "input '%s': it has %d dimensions, the model wants %d",
                           v->name, t->rank, v->dims.rank);
        if (!sp_tensor_contiguous(t) && !(s->value[v->id].gaps && sp_session_in_order(t)))
            return sp_fail(cx, SPARTA_E_USAGE, "input '%s': it must be row-major without gaps", v->name);
        for (int d = 0; d < t->rank; d++) SP_TRY(bind_size(cx, s, v, d, t->dim[d]));
        if (data && !t->data && sparta_tensor_elements(t))
            return sp_fail(cx, SPARTA_E_USAGE, "input '%s': it has no data", v->name);
    }
    for (int i = 0; i < g->n_inputs; i++)
        SP_TRY(check_arithmetic(cx, s, g->input[i], &s->value[g->input[i]->id].given->tensor));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ groups */

typedef struct wave {     /* one job of the pool */
    const sparta_ctx *cx; /* whose cancellation counts: of whole panels, and heads */
    sparta_session *s;
    const run_group *group;
    int64_t from, to; /* panels, or heads */
    int step;         /* shared panels: the one step to do */
    int parts;        /* a whole value: threads that share it */
} wave;

/* Thread time: while one works alone the others wait, and it costs the whole team. */
static double cost(const sparta_session *s, double seconds)
{
    return s->team == 1 ? seconds * s->threads : seconds;
}

static void together(sparta_session *s, void (*fn)(void *arg, int thread), void *arg)
{
    if (s->team == 1)
        fn(arg, 0);
    else
        sp_pool_run(s->pool, fn, arg);
}

static void timed_call(sparta_session *s, int step, const sp_place *at, int thread)
{
    if (!s->profile) {
        sp_call_panel(&s->step[step].call, at);
        return;
    }
    const double t = sp_now();
    sp_call_panel(&s->step[step].call, at);
    s->spent[(size_t)thread * (size_t)s->n_steps + (size_t)step] += cost(s, sp_now() - t);
}

static float *work_of(const sparta_session *s, int thread)
{
    return (float *)(void *)(s->buffer + s->work_at + s->work_bytes * (size_t)thread);
}

/* n panels or heads are shared out in equal numbers. A thread takes its own, one after the other, whose neighbours its cache has; then those that
 * others have not come to: one whose core is busy with something else holds up no more than what it has in hand. */
static void share_out(sparta_session *s, int64_t n)
{
    for (int t = 0; t < s->team; t++)
        atomic_store_explicit(&s->turn[t].next, n * t / s->team, memory_order_relaxed);
}

/* The next one for this thread, which has come as far as the panels of thread *of; -1: all are taken. */
static int64_t take(sparta_session *s, int64_t n, int thread, int *of)
{
    for (; *of < s->team; ++*of) {
        const int t = (thread + *of) % s->team;
        const int64_t end = n * (t + 1) / s->team;
        if (atomic_load_explicit(&s->turn[t].next, memory_order_relaxed) >= end) continue;
        const int64_t u = atomic_fetch_add_explicit(&s->turn[t].next, 1, memory_order_relaxed);
        if (u < end) return u;
    }
    return -1;
}

/* Whole panels, each depth first through the group. */
static void depth_first(void *arg, int thread)
{
    const wave *w = arg;
    sparta_session *s = w->s;
    const int64_t n = w->to - w->from;
    int of = 0;
    for (int64_t p; !sp_ctx_cancelled(w->cx) && (p = take(s, n, thread, &of)) >= 0;) {
        const sp_place at = {
            .panel = w->from + p, .slot = thread, .part = 0, .parts = 1, .work = work_of(s, thread)};
        for (int i = w->group->first; i <= w->group->last; i++)
            if (!s->step[i].folded) timed_call(s, i, &at, thread);
    }
}

/* Panels left over: every thread does its part of each, one step at a time. */
static void shared(void *arg, int thread)
{
    const wave *w = arg;
    sparta_session *s = w->s;
    for (int64_t p = w->from; p < w->to; p++) {
        const sp_place at = {.panel = p,
                             .slot = (int)(p - w->from),
                             .part = thread,
                             .parts = s->team,
                             .work = work_of(s, thread)};
        timed_call(s, w->step, &at, thread);
    }
}

/* The same by one thread: a small step. The others wait, and it costs the whole team. */
static void alone(const wave *w)
{
    sparta_session *s = w->s;
    const double t = s->profile ? sp_now() : 0;
    for (int64_t p = w->from; p < w->to; p++)
        sp_call_panel(&s->step[w->step].call,
                      &(sp_place){.panel = p, .slot = (int)(p - w->from), .parts = 1, .work = work_of(s, 0)});
    if (s->profile) s->spent[w->step] += (sp_now() - t) * s->threads;
}

/* A whole value: this thread's part of it. */
static void whole(void *arg, int thread)
{
    const wave *w = arg;
    sparta_session *s = w->s;
    if (thread >= w->parts) return;
    const sp_place at = {.slot = thread, .part = thread, .parts = w->parts, .work = work_of(s, thread)};
    const double t = s->profile ? sp_now() : 0;
    sp_call_panel(&s->step[w->step].call, &at);
    if (s->profile)
        s->spent[(size_t)thread * (size_t)s->n_steps + (size_t)w->step] +=
            (sp_now() - t) * s->threads / w->parts; /* who has no part waits */
}

/* Heads: all (item, head) pairs, each with its rows of the product. */
static void by_heads(void *arg, int thread)
{
    const wave *w = arg;
    sparta_session *s = w->s;
    const int a = w->group->first, p = s->step[a].product;
    const sp_call *attention = &s->step[a].call, *product = &s->step[p].call;
    const int64_t heads = attention->job.groups;
    double *spent = s->spent + (size_t)thread * (size_t)s->n_steps;
    int of = 0;
    for (int64_t u; !sp_ctx_cancelled(w->cx) && (u = take(s, w->to, thread, &of)) >= 0;) {
        const sp_head h = {&product->job, &attention->job, product->entry,    attention->entry,
                           u / heads,     u % heads,       work_of(s, thread)};
        const double start = s->profile ? sp_now() : 0;
        sp_head_product(&h);
        const double middle = s->profile ? sp_now() : 0;
        sp_head_attend(&h);
        if (!s->profile) continue;
        spent[p] += cost(s, middle - start);
        spent[a] += cost(s, sp_now() - middle);
    }
}

/* Inputs may lie elsewhere in every run, caches with other gaps, and their contents are checked anew. */
static sparta_status refresh(sparta_ctx *cx, sparta_session *s, run_step *step)
{
    sp_job *j = &step->call.job;
    for (int k = 0; k < j->n_in; k++) {
        const sp_value *v = step->reads[k];
        if (v && (v->is_input || s->value[v->id].appended)) j->in[k].tensor = s->value[v->id].tensor;
        if (sp_session_is_lookup(s, v)) SP_TRY(refresh(cx, s, &s->step[s->value[v->id].producer]));
    }
    return step->call.kernel->ready ? step->call.kernel->ready(cx, j) : SPARTA_OK;
}

static sparta_status run_heads(sparta_ctx *cx, sparta_session *s, const run_group *g)
{
    if (!s->step[g->first].call.job.tokens) return SPARTA_OK; /* items of no tokens */
    SP_TRY(refresh(cx, s, &s->step[g->first]));
    SP_TRY(refresh(cx, s, &s->step[s->step[g->first].product]));
    const sp_job *attention = &s->step[g->first].call.job;
    const int64_t heads = attention->in[0].tensor.dim[0] * attention->groups;
    share_out(s, heads);
    together(s, by_heads, &(wave){.cx = cx, .s = s, .group = g, .to = heads});
    return SPARTA_OK;
}

static sparta_status run_whole(sparta_ctx *cx, sparta_session *s, const run_group *g)
{
    const sp_call *call = &s->step[g->first].call;
    wave w = {.s = s, .group = g, .step = g->first};
    if (!call->job.tokens) return SPARTA_OK; /* nothing to make */
    SP_TRY(refresh(cx, s, &s->step[g->first]));
    w.parts = call->kernel->parts(&call->job, s->team);
    if (w.parts == 1)
        whole(&w, 0);
    else
        together(s, whole, &w);
    return SPARTA_OK;
}

static sparta_status run_panels(sparta_ctx *cx, sparta_session *s, const run_group *g)
{
    if (!s->step[g->first].call.job.tokens) return SPARTA_OK; /* none to run */
    for (int i = g->first; i <= g->last; i++)
        if (!s->step[i].folded) SP_TRY(refresh(cx, s, &s->step[i]));
    /* Full panels in equal numbers; what is left, a part-filled one included, is shared (at most as many as there are slots). */
    const sp_job *first = &s->step[g->first].call.job;
    const int64_t panels = first->panels, full = first->tokens / SP_PANEL;
    const int64_t whole = s->team == 1 ? panels : full / s->team * s->team;
    share_out(s, whole);
    if (whole) together(s, depth_first, &(wave){.cx = cx, .s = s, .group = g, .from = 0, .to = whole});
    for (int i = g->first; whole < panels && i <= g->last; i++) {
        wave w = {.s = s, .group = g, .from = whole, .to = panels, .step = i};
        if (s->step[i].folded) continue;
        if (s->step[i].small)
            alone(&w);
        else
            together(s, shared, &w);
    }
    return SPARTA_OK;
}

static sparta_status run_builtin(sparta_ctx *cx, sparta_session *s, int i)
{
    const double t = sp_now();
    sp_ctx_lend(cx, s->team > 1 ? s->pool : NULL);
    const sparta_status status =
        s->step[i].appends ? sp_session_append(cx, s, &s->step[i]) : sp_session_reference(cx, s, &s->step[i]);
    sp_ctx_lend(cx, NULL);
    SP_TRY(status);
    if (s->profile) s->spent[i] += (sp_now() - t) * s->threads; /* the others wait: it costs the whole team */
    return SPARTA_OK;
}

sparta_status sp_session_look(sparta_ctx *cx, sparta_session *s, const sparta_named_tensor *inputs,
                              int n_inputs, const sparta_named_tensor *outputs, int n_outputs, bool data)
{
    for (int i = 0; i < n_outputs; i++) {
        const sp_value *v = sp_graph_find(s->plan, outputs[i].name);
        if (!v || !v->is_output)
            return sp_fail(cx, SPARTA_E_USAGE, "output '%s': the model has no such output", outputs[i].name);
    }
    SP_TRY(sp_package_unchanged(cx, s->package));
    return look_at_inputs(cx, s, inputs, n_inputs, data);
}

sparta_status sp_session_prepare(sparta_ctx *cx, sparta_session *s)
{
    if (!s->laid_out || memcmp(s->wanted, s->size, (size_t)s->n_symbols * sizeof *s->size))
        SP_TRY(sp_session_layout(cx, s));
    for (int i = 0; i < s->plan->n_inputs; i++) {
        run_value *r = &s->value[s->plan->input[i]->id];
        r->tensor = sp_tensor_placed(&r->given->tensor);
    }
    return SPARTA_OK;
}

sparta_status sp_session_execute(sparta_ctx *cx, sparta_session *s)
{
    for (int g = 0; g < s->n_groups; g++) {
        SP_TRY(sp_check_cancel(cx));
        switch (s->group[g].kind) {
        case RUN_ROWS: SP_TRY(run_builtin(cx, s, s->group[g].first)); break;
        case RUN_WHOLE: SP_TRY(run_whole(cx, s, &s->group[g])); break;
        case RUN_PANELS: SP_TRY(run_panels(cx, s, &s->group[g])); break;
        case RUN_HEADS: SP_TRY(run_heads(cx, s, &s->group[g])); break;
        }
    }
    SP_TRY(sp_check_cancel(cx));                  /* panels may have been left out */
    SP_TRY(sp_package_unchanged(cx, s->package)); /* while it ran */
    s->runs++;
    return SPARTA_OK;
}

const sparta_step *sparta_session_step(sparta_session *s, int i)
{
    double sum = 0;
    s = s->last;
    if (i < 0 || i >= s->n_steps) return NULL;
    const run_step *step = &s->step[i];
    for (int t = 0; t < s->threads; t++) sum += s->spent[(size_t)t * (size_t)s->n_steps + (size_t)i];
    s->profiled[i] = (sparta_step){step->node->name, step->op,
                                   step->implement,  s->runs ? sum / s->threads / (double)s->runs : 0,
                                   step->ops,        step->dense_ops};
    return &s->profiled[i];
}

int sp_session_steps(sparta_session *s, const sparta_step **out)
{
    s = s->last;
    for (int i = 0; i < s->n_steps; i++) sparta_session_step(s, i);
    *out = s->profiled;
    return s->n_steps;
}

const sp_node *sp_session_node(const sparta_session *s, int i)
{
    return s->last->step[i].node;
}

const sp_graph *sp_session_plan(const sparta_session *s)
{
    return s->last->plan;
}

void sparta_session_forget_times(sparta_session *s)
{
    memset(s->spent, 0, (size_t)s->threads * (size_t)s->n_steps * sizeof *s->spent);
    s->runs = 0;
    for (int i = 0; i < s->n_others; i++) sparta_session_forget_times(s->other[i].session);
}
