/* Propagation as compile wants it (before the passes), and as a job of its own: ONNX in, smaller ONNX out. */
#include "compile/lower.h"
#include "ops/ops.h"

/* Weights whose format or implement a schedule pins: it may ask for a shape. */
static sparta_status pinned(sp_graph *g, const sp_obeyed *o, sp_propagate_options *out)
{
    const char **keep = sp_arena_array(g->arena, (size_t)o->n + 1, sizeof *keep);
    SP_NEED(g->cx, keep);
    for (int i = 0; i < o->n; i++)
        if (o->effect[i].implement) keep[out->n_keep++] = o->effect[i].tensor;
    out->keep = keep;
    return SPARTA_OK;
}

sparta_status sp_compile_propagate(sp_graph *g, const sparta_compile_options *options,
                                   const sp_obeyed *obeyed, sp_propagate_report *out)
{
    sp_propagate_options o = {
        .remove = options->remove, .threads = options->threads, .multiple = options->multiple};
    while (options->remove && options->remove[o.n_remove]) o.n_remove++;
    SP_TRY(pinned(g, obeyed, &o));
    return sp_propagate(g, &o, out);
}

sparta_status sp_compile_facts(sp_graph *g, sparta_compile_options *options, sp_propagation **out)
{
    for (int i = 0; options->remove && options->remove[i]; i++)
        SP_TRY(sp_propagate_remove(g, options->remove[i]));
    options->remove = NULL; /* done */
    SP_TRY(sp_ops_infer(g));
    return sp_propagate_facts(g, NULL, out);
}

bool sp_compile_worth(const sp_propagate_report *went, double smaller_us, double given_us)
{
    const bool saves = went->parameters_before - went->parameters_after >= went->parameters_before / 16;
    return smaller_us <= given_us * (saves ? 1 : 1 - LOWER_NOISE);
}

/* Axes keep their sizes, or one index, as those that a constant repeats along. */
static bool lines_up(const sp_kept *k)
{
    bool same = true;
    for (int d = 0; d < k->rank; d++) same &= k->after[d] == k->before[d] || k->after[d] == 1;
    return same;
}

bool sp_compile_keeps_products(const sp_propagate_report *went)
{
    bool same = true;
    for (int i = 0; i < went->n; i++)
        same &= went->tensor[i].gone ? went->tensor[i].rank < 2 : lines_up(&went->tensor[i]);
    return same;
}

/* A product could have lost a bias that its neighbours have, so that they are no longer merged; then there are more nodes. */
bool sp_compile_no_slower(const sp_propagate_report *went, const sp_graph *smaller, const sp_graph *given)
{
    return sp_compile_keeps_products(went) && smaller->n_nodes <= given->n_nodes;
}

static sparta_status write_facts(sp_graph *g, sparta_compile_options *options)
{
    sp_propagation *p;
    SP_TRY(sp_compile_facts(g, options, &p));
    sparta_status s = sp_propagation_write(p, options->tesa);
    sp_propagation_free(p);
    return s;
}

sparta_status sparta_propagate_file(sparta_ctx *cx, const char *onnx, const char *smaller,
                                    const sparta_compile_options *options)
{
    sparta_compile_options all;
    sp_propagate_report report;
    sp_opened o;
    SP_TRY(sp_options(cx, "propagate", options, &all, sizeof all));
    SP_TRY(sp_compile_open(cx, onnx, &all, &o));
    sparta_status s = all.tesa ? write_facts(o.model->graph, &all) : SPARTA_OK;
    if (s == SPARTA_OK) s = sp_compile_propagate(o.model->graph, &all, &o.obeyed, &report);
    if (s == SPARTA_OK) s = sp_propagate_tie(o.model->graph);
    if (s == SPARTA_OK) s = sp_model_check(cx, o.model);
    if (s == SPARTA_OK) s = sp_onnx_write(cx, o.model->graph, smaller);
    sp_compile_close(&o);
    return s;
}
