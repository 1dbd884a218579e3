/* Subjects: from a file to a session that can be run and timed. */
#include "measure/runner.h"

sparta_status sparta_runner_open(sparta_ctx *cx, const char *path, const sparta_compile_request *compile,
                                 sparta_runner *out)
{
    sparta_file_kind kind;
    sparta_package *p = NULL;
    SPARTA_TRY(sparta_file_kind_of(cx, path, &kind));
    if (kind == SPARTA_FILE_PACKAGE)
        SPARTA_TRY(sparta_package_open(cx, path, &p));
    else
        SPARTA_TRY(sparta_compile_file(cx, path, compile, &p));
    *out = (sparta_runner){.cx = cx, .package = p, .owns = true};
    return SPARTA_OK;
}

/* The target that a schedule asks for; NULL: none. Both sides run on it. */
static sparta_status scheduled_target(sparta_ctx *cx, const char *path, const char **out)
{
    sparta_schedule *schedule;
    sparta_target target;
    SPARTA_TRY(sparta_schedule_open(cx, path, &schedule));
    if (schedule->target && sparta_target_parse(schedule->target, &target)) *out = sparta_target_name(target);
    sparta_schedule_free(schedule);
    return SPARTA_OK;
}

sparta_status sparta_runner_dense(sparta_ctx *cx, const sparta_runner *of,
                                  const sparta_compile_request *compile, sparta_runner *out)
{
    sparta_graph *g = NULL;
    sparta_package *p = NULL;
    sparta_compile_request dense = *compile;
    dense.options.dense_only = 1;
    dense.options.masks = NULL; /* the graph has them already */
    dense.options.dims = NULL;
    dense.no_verify = true;
    if (dense.options.schedule && !dense.options.target)
        SPARTA_TRY(scheduled_target(cx, dense.options.schedule, &dense.options.target));
    SPARTA_TRY(sparta_compile_unplan(cx, of->package, &g));
    sparta_status status =
        sparta_compile_graph(cx, g, &dense, &p); /* the package owns the graph when it succeeds */
    if (status) {
        sparta_graph_free(g);
        return status;
    }
    *out = (sparta_runner){.cx = cx, .package = p, .owns = true};
    return SPARTA_OK;
}

sparta_runner sparta_runner_share(const sparta_runner *of)
{
    return (sparta_runner){.cx = of->cx, .package = of->package};
}

sparta_status sparta_runner_start_session(sparta_runner *r, const sparta_runner_start *how)
{
    const sparta_graph *plan = r->package->plan;
    sparta_session_options options = {sizeof options, how->threads, how->profile};
    r->in = sparta_alloc_array(r->cx, (size_t)plan->n_inputs + 1, sizeof *r->in);
    SPARTA_NEED(r->cx, r->in);
    r->out = sparta_alloc_array(r->cx, (size_t)plan->n_outputs + 1, sizeof *r->out);
    SPARTA_NEED(r->cx, r->out);
    sparta_make_inputs make = {how->seed, *how->sizes};
    SPARTA_TRY(sparta_inputs_make(r->cx, plan, &make, r->in));
    r->n_in = plan->n_inputs;
    for (int i = 0; i < plan->n_outputs; i++) r->out[i].name = plan->output[i]->name;
    r->n_out = plan->n_outputs;
    return sparta_session_create(r->cx, r->package, &options, &r->session);
}

sparta_status sparta_runner_run(sparta_runner *r, double *seconds)
{
    SPARTA_TRY(sparta_check_cancel(r->cx));
    double start = sparta_now();
    SPARTA_TRY(sparta_session_run(r->cx, r->session, r->in, r->n_in, r->out, r->n_out));
    if (seconds) *seconds = sparta_now() - start;
    return SPARTA_OK;
}

void sparta_runner_close(sparta_runner *r)
{
    if (!r->cx) return;
    sparta_session_free(r->session);
    if (r->in) sparta_inputs_free(r->cx, r->in, r->n_in);
    sparta_free(r->cx, r->in);
    sparta_free(r->cx, r->out);
    if (r->owns) sparta_package_close(r->package);
    *r = (sparta_runner){0};
}
