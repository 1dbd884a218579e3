/* What both targets with propagation behind a reader ask: the graph is refused, or propagates; and where running it is cheap, the
 * smaller graph gives its answers, every fact that was claimed holds, and one in four is written as ONNX, read and run again. Half of
 * the inputs, by their bytes, are propagated strictly and run with infinities and NaN. */
#ifndef SP_TESTS_FUZZ_PROPAGATED_H
#define SP_TESTS_FUZZ_PROPAGATED_H

#include "import/import.h"
#include "unit/propagate_sound.h"
#include <unistd.h>

enum { CHEAP_NODES = 64, CHEAP_ELEMENTS = 4096, CHEAP_WEIGHTS = 1 << 16, LARGE_ELEMENTS = 1 << 20 };

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

static inline bool is_cheap(const sp_graph *g)
{
    if (g->n_nodes > CHEAP_NODES || g->n_inputs > DRAW_INPUTS || g->n_outputs > SOUND_OUTPUTS) return false;
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        double n = 1;
        for (int k = 0; v->typed && k < v->dims.rank; k++)
            n *= size_of(v, k) < 0 ? 64 : (double)size_of(v, k);
        if (n > (v->constant ? CHEAP_WEIGHTS : CHEAP_ELEMENTS)) return false;
    }
    return true;
}

/* Facts of so many elements take seconds in an instrumented build, and would say nothing new. */
static inline bool is_large(const sp_graph *g)
{
    for (int i = 0; i < g->n_values; i++) {
        double n = 1;
        for (int k = 0; g->value[i]->typed && k < g->value[i]->dims.rank; k++)
            n *= size_of(g->value[i], k) < 0 ? 1 : (double)size_of(g->value[i], k);
        if (n > LARGE_ELEMENTS) return true;
    }
    return false;
}

static inline bool is_finite(const sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(sp_element_get(t->dtype, t->data, i))) return false;
    return true;
}

/* The same outputs from the file that the smaller graph is written to. */
static inline void compare_written(sparta_ctx *cx, sp_graph *small, const sparta_named_tensor *in,
                                   const sparta_tensor *want)
{
    static char path[64];
    sp_model *m = NULL;
    sparta_tensor got[SOUND_OUTPUTS];
    if (!*path) snprintf(path, sizeof path, "/dev/shm/sparta-fuzz-%d.onnx", (int)getpid());
    if (!accepted(cx, sp_propagate_tie(small), "tie") ||
        !accepted(cx, sp_onnx_write(cx, small, path), "write"))
        return;
    sparta_status status = sp_model_open(cx, path, NULL, &m);
    unlink(path);
    if (status == SPARTA_OK) status = sp_ops_infer(m->graph);
    if (status == SPARTA_OK) status = sp_ops_run(cx, m->graph, in, small->n_inputs, got, NULL, NULL);
    if (status != SPARTA_OK && status != SPARTA_E_MEMORY && status != SPARTA_E_LIMIT)
        give_up("what was written", sparta_message(cx));
    if (status == SPARTA_OK) {
        for (int i = 0; i < small->n_outputs; i++)
            if (!same_output(&want[i], &got[i], 1e-6)) give_up("what was written", "it answers otherwise");
        free_outputs(cx, m->graph, got);
    }
    sp_model_close(m);
}

static inline bool all_finite(const sp_graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        if (g->value[i]->constant && !is_finite(g->value[i]->constant)) return false;
    return true;
}

/* Every zero gets the sign that arg has. */
static inline sparta_status sign_zeros(void *arg, const sp_value *v, const sparta_tensor *t)
{
    int64_t n = sparta_tensor_elements(t);
    (void)v;
    for (int64_t i = 0; sp_dtype_is_float(t->dtype) && i < n; i++)
        if (sp_element_get(t->dtype, t->data, i) == 0) sp_element_set(t->dtype, t->data, i, *(double *)arg);
    return SPARTA_OK;
}

/* The sign of a zero is not kept. Where it counts (1/0, in a strict context) the model says nothing. */
static inline bool signs_count(draw *d, const sparta_named_tensor *in, const sparta_tensor *truth)
{
    sparta_tensor out[SOUND_OUTPUTS];
    bool moved = false;
    for (int k = 0; k < 2 && !moved; k++) {
        double zero = k ? -0.0 : 0.0;
        if (sp_ops_run(d->cx, d->g, in, d->g->n_inputs, out, sign_zeros, &zero) != SPARTA_OK) return true;
        for (int i = 0; i < d->g->n_outputs; i++) moved |= !same_output(&truth[i], &out[i], 1e-6);
        free_outputs(d->cx, d->g, out);
    }
    return moved;
}

/* Both run on one input. A model that refuses the input, or leaves the finite numbers where that is not strict, says nothing. */
static inline void compare_runs(draw *d, uint64_t key, sp_graph *small, const sp_propagation *p)
{
    soundness s = {0};
    sparta_named_tensor in[DRAW_INPUTS] = {{0}};
    sparta_tensor a[SOUND_OUTPUTS], b[SOUND_OUTPUTS];
    watching w = {.s = &s, .p = p, .wild = d->wild};
    if (draw_inputs(d, key, in) == SPARTA_OK &&
        sp_ops_run(d->cx, d->g, in, d->g->n_inputs, a, look, &w) == SPARTA_OK) {
        bool says = d->wild || (!w.beyond && all_finite(d->g));
        if (w.wrong && says) give_up("fact", s.why);
        sparta_status status = sp_ops_run(d->cx, small, in, d->g->n_inputs, b, NULL, NULL);
        if (status != SPARTA_OK && status != SPARTA_E_MEMORY)
            give_up("the smaller graph does not run", sparta_message(d->cx));
        if (status == SPARTA_OK) {
            if (says && !compare(d, small, false, in, a, b, &s) && !(d->wild && signs_count(d, in, a)))
                give_up("answer", s.why);
            if (key % 8 < 2 && small->n_outputs) compare_written(d->cx, small, in, b);
            free_outputs(d->cx, small, b);
        }
        free_outputs(d->cx, d->g, a);
    }
    draw_inputs_free(d, in);
}

/* What the program shows of every value. */
static inline void check_shown(sparta_ctx *cx, const sp_graph *g, const sp_propagation *p)
{
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        double zeros, constants;
        sp_text text;
        if (!v->typed) continue;
        sp_tesa_shares(sp_propagation_tesa(p, v), &zeros, &constants);
        if (!(zeros >= 0 && constants >= 0 && zeros + constants <= 1 + 1e-9)) give_up("shares", v->name);
        if (!sp_precision_name(sp_tesa_precision(sp_propagation_tesa(p, v), NULL)))
            give_up("precision", v->name);
        sp_text_init(&text, cx);
        (void)accepted(cx, sp_tesa_print(sp_propagation_tesa(p, v), &text), "attribute");
        sp_text_free(&text);
    }
}

/* One request in four graphs, of a value or a node that is there. */
static inline sparta_status remove_some(uint64_t key, sp_graph *g)
{
    char request[160];
    const uint64_t at = key / 16;
    if (key % 64 < 48 || !g->n_nodes || !g->n_values) return SPARTA_OK;
    const sp_node *n = g->node[at % (uint64_t)g->n_nodes];
    const sp_value *v = n->n_in ? n->in[at / 7 % (uint64_t)n->n_in] : NULL;
    if (at % 3)
        snprintf(request, sizeof request, "%.100s=%d", v ? v->name : n->name, (int)(at / 5 % 4));
    else
        snprintf(request, sizeof request, "%.100s%sheads=%d", at % 2 ? n->name : "", at % 2 ? "." : "",
                 (int)(at / 5 % 3));
    return sp_propagate_remove(g, request);
}

/* g and twin are the same graph, read twice; key is key_of its bytes. */
static inline void check_propagation(sparta_ctx *cx, uint64_t key, sp_graph *g, sp_graph *twin)
{
    static draw d;
    sp_propagation *p = NULL;
    sp_propagate_report report;
    if (!accepted(cx, sp_ops_infer(g), "infer") || !accepted(cx, sp_ops_infer(twin), "infer")) return;
    if (is_large(g)) return;
    if (!accepted(cx, remove_some(key, g), "remove") || !accepted(cx, remove_some(key, twin), "remove"))
        return;
    bool facts = accepted(cx, sp_propagate_facts(g, NULL, &p), "facts");
    bool smaller = accepted(cx, sp_propagate(twin, NULL, &report), "propagate");
    if (smaller && sp_graph_verify(twin) == SPARTA_E_INTERNAL) give_up("verify", sparta_message(cx));
    if (facts && is_cheap(g)) check_shown(cx, g, p);
    d.cx = cx;
    d.g = g;
    d.wild = sp_ctx_strict(cx);
    if (facts && smaller && g->n_inputs == twin->n_inputs && is_cheap(g)) compare_runs(&d, key, twin, p);
    sp_propagation_free(p);
}

static inline uint64_t key_of(const uint8_t *data, size_t size)
{
    uint64_t key = size;
    for (size_t i = 0; i < size; i++) key = (key ^ data[i]) * 0x100000001b3u;
    return key >> 24;
}

static inline sparta_ctx *small_context(uint64_t key)
{
    sparta_ctx_options options = SPARTA_OPTIONS(sparta_ctx_options);
    options.max_memory = (size_t)64 << 20;
    options.strict = key % 16 < 8;
    options.cache_dir = "";
    options.compiler = "";
    return sparta_ctx_create(&options);
}

#endif
