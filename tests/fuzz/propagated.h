/* What both targets with propagation behind a reader ask: the graph is refused, or propagates; and where running it is cheap, the
 * smaller graph gives its answers and every fact that was claimed holds. */
#ifndef SPARTA_TESTS_FUZZ_PROPAGATED_H
#define SPARTA_TESTS_FUZZ_PROPAGATED_H

#include "unit/propagate_sound.h"

enum { CHEAP_NODES = 64, CHEAP_ELEMENTS = 4096, CHEAP_WEIGHTS = 1 << 16 };

static inline void give_up(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

/* A refusal has a message and is not our own mistake. */
static inline bool accepted(sparta_ctx *cx, sparta_status status, const char *what)
{
    if (status == SPARTA_E_INTERNAL || (status != SPARTA_OK && !*sparta_message(cx)))
        give_up(what, sparta_message(cx));
    return status == SPARTA_OK;
}

static inline bool is_cheap(const sparta_graph *g)
{
    if (g->n_nodes > CHEAP_NODES || g->n_inputs > DRAW_INPUTS || g->n_outputs > SOUND_OUTPUTS) return false;
    for (int i = 0; i < g->n_values; i++) {
        const sparta_value *v = g->value[i];
        double n = 1;
        for (int k = 0; v->typed && k < v->dims.rank; k++)
            n *= size_of(v, k) < 0 ? 64 : (double)size_of(v, k);
        if (n > (v->constant ? CHEAP_WEIGHTS : CHEAP_ELEMENTS)) return false;
    }
    return true;
}

static inline bool is_finite(const sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(sparta_element_get(t->dtype, t->data, i))) return false;
    return true;
}

/* Both run on one input. A model that refuses the input, or leaves the finite numbers, says nothing. */
static inline void compare_runs(draw *d, const sparta_graph *small, const sparta_propagation *p)
{
    soundness s = {0};
    sparta_named_tensor in[DRAW_INPUTS] = {{0}};
    sparta_tensor a[SOUND_OUTPUTS], b[SOUND_OUTPUTS];
    watching w = {.s = &s, .p = p};
    if (draw_inputs(d, 1, in) == SPARTA_OK &&
        sparta_ops_run(d->cx, d->g, in, d->g->n_inputs, a, look, &w) == SPARTA_OK) {
        bool finite = !w.beyond;
        for (int i = 0; i < d->g->n_values && finite; i++)
            finite = !d->g->value[i]->constant || is_finite(d->g->value[i]->constant);
        if (w.wrong && finite) give_up("fact", s.why);
        sparta_status status = sparta_ops_run(d->cx, small, in, d->g->n_inputs, b, NULL, NULL);
        if (status != SPARTA_OK && status != SPARTA_E_MEMORY)
            give_up("the smaller graph does not run", sparta_message(d->cx));
        if (status == SPARTA_OK) {
            if (finite && !compare(d, small, false, in, a, b, &s)) give_up("answer", s.why);
            free_outputs(d->cx, small, b);
        }
        free_outputs(d->cx, d->g, a);
    }
    draw_inputs_free(d, in);
}

/* g and twin are the same graph, read twice. */
static inline void check_propagation(sparta_ctx *cx, sparta_graph *g, sparta_graph *twin)
{
    static draw d;
    sparta_propagation *p = NULL;
    sparta_propagate_report report;
    if (!accepted(cx, sparta_ops_infer(g), "infer") || !accepted(cx, sparta_ops_infer(twin), "infer")) return;
    bool facts = accepted(cx, sparta_propagate_facts(g, NULL, &p), "facts");
    bool smaller = accepted(cx, sparta_propagate(twin, NULL, &report), "propagate");
    if (smaller && sparta_graph_verify(twin) == SPARTA_E_INTERNAL) give_up("verify", sparta_message(cx));
    d.cx = cx;
    d.g = g;
    d.wild = false;
    if (facts && smaller && g->n_inputs == twin->n_inputs && is_cheap(g)) compare_runs(&d, twin, p);
    sparta_propagation_free(p);
}

static inline sparta_ctx *small_context(void)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    options.cache_dir = "";
    options.compiler = "";
    return sparta_ctx_create(&options);
}

#endif
