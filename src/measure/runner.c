/* Subjects: from a file to a session that can be run and timed. */
#include "measure/runner.h"
#include "implement/implement.h"
#include <string.h>

sparta_status sp_runner_open(sparta_ctx *cx, const char *path, const sp_compile_request *compile,
                             sp_runner *out)
{
    sparta_file_kind kind;
    sparta_package *p = NULL;
    SP_TRY(sparta_file_kind_of(cx, path, &kind));
    if (kind == SPARTA_FILE_PACKAGE)
        SP_TRY(sparta_package_open(cx, path, &p));
    else
        SP_TRY(sp_compile_file(cx, path, compile, &p));
    *out = (sp_runner){.cx = cx, .package = p, .owns = true};
    return SPARTA_OK;
}

/* The target that a schedule asks for; NULL: none. Both sides run on it. */
static sparta_status scheduled_target(sparta_ctx *cx, const char *path, const char **out)
{
    sparta_schedule *schedule;
    sp_target target;
    SP_TRY(sparta_schedule_open(cx, path, &schedule));
    if (schedule->target && sp_target_parse(schedule->target, &target)) *out = sp_target_name(target);
    sparta_schedule_free(schedule);
    return SPARTA_OK;
}

/* The most tokens of a product at these sizes, as a session counts them to choose its plan. */
static sparta_status count_tokens(sparta_ctx *cx, const sp_graph *g, const sp_bindings *sizes, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        int64_t dim[SPARTA_RANK], tokens = 1;
        if (!sp_node_is_fused(n) || !n->n_in || !n->in[0] || n->in[0]->dims.rank < 2) continue;
        SP_TRY(sp_dims_eval(cx, &n->in[0]->dims, sizes, dim));
        for (int d = 0; d + 1 < n->in[0]->dims.rank; d++)
            if (!sp_int_mul(tokens, dim[d], &tokens)) tokens = INT64_MAX;
        *out = SP_MAX(*out, tokens);
    }
    return SPARTA_OK;
}

/* How many tokens the plan is for that runs at these sizes, when they are few; 0: it is the usual one. */
static sparta_status few_tokens(sparta_ctx *cx, const sparta_package *p, const sp_bindings *sizes,
                                int64_t *out)
{
    int64_t tokens;
    *out = 0;
    if (!p->n_others) return SPARTA_OK;
    SP_TRY(count_tokens(cx, p->plan, sizes, &tokens));
    for (int i = 0; i < p->n_others; i++)
        if (tokens >= p->other[i].least && tokens <= p->other[i].most && p->other[i].most <= SP_FEW_TOKENS)
            *out = p->other[i].most;
    return SPARTA_OK;
}

sparta_status sp_runner_dense(sparta_ctx *cx, const sp_runner *of, const sp_bindings *sizes,
                              const sp_compile_request *compile, uint64_t seed, sp_runner *out)
{
    sp_graph *g = NULL;
    int64_t few;
    sparta_package *p = NULL;
    sp_compile_request dense = *compile;
    dense.options.dense_only = 1;
    dense.options.masks = NULL; /* the graph has them already */
    dense.options.dims = NULL;
    dense.no_verify = true;
    if (dense.options.schedule && !dense.options.target)
        SP_TRY(scheduled_target(cx, dense.options.schedule, &dense.options.target));
    SP_TRY(few_tokens(cx, of->package, sizes, &few));
    SP_TRY(sp_compile_given(cx, of->package, seed, &g));
    g->most_tokens = few;
    /* The package owns the graph when it succeeds. */
    sparta_status status = sp_compile_graph(cx, g, &dense, &p);
    if (status) {
        sp_graph_free(g);
        return status;
    }
    *out = (sp_runner){.cx = cx, .package = p, .owns = true};
    return SPARTA_OK;
}

sp_runner sp_runner_share(const sp_runner *of)
{
    return (sp_runner){.cx = of->cx, .package = of->package};
}

/* ------------------------------------------------------------------ inputs */

sparta_status sp_runner_sizes(sparta_ctx *cx, sp_arena *arena, const sp_graph *g, const sp_bindings *said,
                              const sparta_named_tensor *inputs, int n_inputs, sp_bindings *out)
{
    const size_t most = (size_t)said->n + (size_t)n_inputs * SPARTA_RANK + 1;
    const char **name = sp_arena_array(arena, most, sizeof *name);
    SP_NEED(cx, name);
    int64_t *value = sp_arena_array(arena, most, sizeof *value);
    SP_NEED(cx, value);
    int n = said->n;
    for (int i = 0; i < n; i++) name[i] = said->name[i], value[i] = said->value[i];
    for (int i = 0; i < n_inputs; i++) {
        const int at = sp_graph_named(g->input, g->n_inputs, inputs[i].name);
        const sparta_tensor *t = &inputs[i].tensor;
        for (int d = 0; at >= 0 && d < SP_MIN(t->rank, g->input[at]->dims.rank); d++) {
            int k = 0;
            if (!sp_expr_is_symbol(g->input[at]->dims.dim[d], &name[n])) continue;
            while (strcmp(name[k], name[n])) k++;
            value[k] = t->dim[d];
            if (k < n) continue;
            name[n] = sp_arena_string(arena, name[n]); /* the graph may be gone before the sizes */
            SP_NEED(cx, name[n]);
            n++;
        }
    }
    *out = (sp_bindings){n, name, value};
    return SPARTA_OK;
}

/* A given input in the place of the one that was made, whose type and shape it has to have. */
static sparta_status take_input(sp_runner *r, const sparta_named_tensor *given)
{
    const sparta_tensor *t = &given->tensor;
    int at = 0;
    while (at < r->n_in && strcmp(r->in[at].name, given->name)) at++;
    if (at == r->n_in)
        return sp_fail(r->cx, SPARTA_E_USAGE,
                       "input '%.100s': the other model has none of that name; compare models with the same "
                       "inputs",
                       given->name);
    sparta_tensor *made = &r->in[at].tensor;
    if (made->dtype != t->dtype || made->rank != t->rank ||
        memcmp(made->dim, t->dim, (size_t)t->rank * sizeof *t->dim))
        return sp_fail(r->cx, SPARTA_E_SHAPE,
                       "input '%.100s': the two models want other types or shapes of it; compare models with "
                       "the same inputs",
                       given->name);
    return sp_tensor_copy(r->cx, t, made);
}

sparta_status sp_runner_start_session(sp_runner *r, const sp_runner_start *how)
{
    const sp_graph *plan = r->package->plan;
    sparta_session_options options = {sizeof options, how->threads, how->profile};
    r->in = sp_alloc_array(r->cx, (size_t)plan->n_inputs + 1, sizeof *r->in);
    SP_NEED(r->cx, r->in);
    r->out = sp_alloc_array(r->cx, (size_t)plan->n_outputs + 1, sizeof *r->out);
    SP_NEED(r->cx, r->out);
    sp_make_inputs make = {how->seed, *how->sizes};
    SP_TRY(sp_inputs_make(r->cx, plan, &make, r->in));
    r->n_in = plan->n_inputs;
    for (int i = 0; i < how->n_inputs; i++) SP_TRY(take_input(r, &how->inputs[i]));
    for (int i = 0; i < plan->n_outputs; i++) r->out[i].name = plan->output[i]->name;
    r->n_out = plan->n_outputs;
    return sparta_session_create(r->cx, r->package, &options, &r->session);
}

sparta_status sp_runner_run(sp_runner *r, double *seconds)
{
    SP_TRY(sp_check_cancel(r->cx));
    if (r->peer) return sp_peer_run(r->peer, seconds);
    double start = sp_now();
    SP_TRY(sparta_session_run(r->cx, r->session, r->in, r->n_in, r->out, r->n_out));
    if (seconds) *seconds = sp_now() - start;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ size */

static size_t tensor_bytes(const sparta_tensor *t)
{
    return t->data ? (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype) : 0;
}

static size_t packed_bytes(const sp_packed *p)
{
    size_t bytes = tensor_bytes(&p->values);
    for (int k = 0; k < SP_LEVELS; k++) bytes += tensor_bytes(&p->pos[k]) + tensor_bytes(&p->crd[k]);
    for (int i = 0; i < p->parts; i++) bytes += packed_bytes(&p->part[i]);
    return bytes;
}

size_t sp_runner_bytes(const sp_runner *r)
{
    const sparta_package *p = r->package;
    size_t bytes = p ? p->bytes : 0;
    if (!p) return 0; /* a peer's: not known */
    for (int i = 0; i < p->n_weights && !p->bytes; i++)
        bytes += p->weight[i].packed ? packed_bytes(&p->weight[i].pack) : tensor_bytes(&p->weight[i].tensor);
    return bytes;
}

/* ------------------------------------------------------------------ taking turns */

sparta_status sp_samples_add(sp_arena *arena, sp_samples *t, double seconds)
{
    SP_GROW(arena, t->x, t->n, t->capacity);
    t->x[t->n++] = seconds;
    t->sum += seconds;
    return SPARTA_OK;
}

/* How much is done, 1: all. Time is per subject, the two share what they have together: the slow one does not
 * starve the other of pairs. */
static double part(const sp_alternation *how, const sp_samples *a, const sp_samples *b, bool two)
{
    if (how->iterations > 0) return (double)a->n / (double)how->iterations;
    const double all = how->seconds * (two ? 2 : 1), done = all > 0 ? (a->sum + b->sum) / all : 1;
    return a->n >= 5 ? done : SP_MIN(done, .99);
}

static sparta_status once(sp_arena *arena, sp_runner *r, sp_samples *t)
{
    double seconds;
    SP_TRY(sp_runner_run(r, &seconds));
    return sp_samples_add(arena, t, seconds);
}

sparta_status sp_runner_alternate(sp_arena *arena, sp_runner *a, sp_runner *b, const sp_alternation *how,
                                  sp_samples *times_a, sp_samples *times_b)
{
    for (int64_t i = 0; i < how->warmup; i++) {
        SP_TRY(sp_runner_run(a, NULL));
        if (b) SP_TRY(sp_runner_run(b, NULL));
    }
    for (double done = 0; done < 1; done = part(how, times_a, times_b, b != NULL)) {
        SP_TRY(once(arena, a, times_a));
        if (b) SP_TRY(once(arena, b, times_b));
        sp_compile_tell(how->told, (int)(100 * SP_MIN(done, 1.0)), 100, "measuring");
    }
    return SPARTA_OK;
}

void sp_runner_close(sp_runner *r)
{
    if (!r->cx) return;
    sp_peer_close(r->peer);
    sparta_session_free(r->session);
    if (r->in) sp_inputs_free(r->cx, r->in, r->n_in);
    sp_free(r->cx, r->in);
    sp_free(r->cx, r->out);
    if (r->owns) sparta_package_close(r->package);
    *r = (sp_runner){0};
}
