/* Is propagation sound on one random model? For the soundness test, and for the one that plants wrong rules.
 *
 *     known      each element that is called known has that value, for every input
 *     needed     elements that are called neither known nor needed are changed, all at once: the answers stay as they are
 *     outputs    the smaller model gives the answers of the model
 *     again      propagating what came out changes nothing
 *     text       what came out is a valid graph, and its text parses back
 *
 * All of that is equal bit for bit, but for the sign of zeros, unless constants moved into a bias: answers may then differ by 1e-5 of the
 * largest magnitude of the output. A larger difference counts when it is not of the kind that the model makes of its own rounding: a
 * model that answers otherwise when each of its values moves by about an ulp (a Floor of what is almost 1) says nothing, and is set
 * aside; the tests limit how many are. */
#ifndef SP_TESTS_PROPAGATE_SOUND_H
#define SP_TESTS_PROPAGATE_SOUND_H

#include "propagate_random.h"
#include "propagate_needed.h"

typedef struct soundness {
    int inputs; /* random inputs of each model */
    int64_t graphs, nodes, nodes_after, parameters, parameters_after, smaller;
    int64_t elements, known;     /* of values that are no constants: looked at, called known */
    int64_t spoiled;             /* that nobody needs, and were changed */
    int64_t runs, beyond, aside; /* runs, those that left the finite numbers, outputs set aside */
    int64_t answers, exact;      /* outputs compared, those equal bit for bit */
    int64_t made[SP_OPS], refused[SP_OPS];
    char why[512]; /* what was not sound */
} soundness;

#define UNSOUND(s, ...) (snprintf((s)->why, sizeof(s)->why, __VA_ARGS__), false)

/* ------------------------------------------------------------------ facts */
typedef struct watching {
    soundness *s;
    const sp_propagation *p;
    sp_rng *jiggle, *spoil; /* NULL: claims are checked */
    bool wild, beyond, wrong;
} watching;

/* Each element moves by about an ulp; zeros stay. */
static inline void jiggle(sp_rng *r, const sparta_tensor *t, int64_t n)
{
    double ulp = t->dtype == SPARTA_F64    ? 1e-15
                 : t->dtype == SPARTA_F32  ? 1e-7
                 : t->dtype == SPARTA_BF16 ? 8e-3
                                           : 1e-3;
    for (int64_t i = 0; sp_dtype_is_float(t->dtype) && i < n; i++)
        sp_element_set(t->dtype, t->data, i,
                       sp_element_get(t->dtype, t->data, i) * (1 + ulp * (sp_rng_uniform(r) * 4 - 2)));
}

/* What nobody needs becomes something else; its sign stays, mostly, so that roots and logarithms do. Integers may be indices. */
static inline void spoil(watching *w, const sp_value *v, const sparta_tensor *t, int64_t n)
{
    int64_t index[SPARTA_RANK] = {0};
    double claimed;
    bool flips = t->dtype == SPARTA_BOOL;
    for (int64_t i = 0; (flips || sp_dtype_is_float(t->dtype)) && i < n; i++) {
        if (!is_needed(w->p, v, index) && !sp_tesa_known(sp_propagation_tesa(w->p, v), index, &claimed)) {
            double x = sp_element_get(t->dtype, t->data, i), u = sp_rng_uniform(w->spoil);
            double y = flips    ? (double)(x == 0)
                       : u < .1 ? (double)(w->wild ? NAN : 0.5)
                                : x * (0.5 + u) + (u > .9);
            sp_element_set(t->dtype, t->data, i, y);
            w->s->spoiled++;
        }
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dim[d]; d--) index[d] = 0;
    }
}

static inline sparta_status look(void *arg, const sp_value *v, const sparta_tensor *t)
{
    watching *w = arg;
    int64_t index[SPARTA_RANK] = {0}, n = sparta_tensor_elements(t);
    if (w->jiggle) {
        jiggle(w->jiggle, t, n);
        return SPARTA_OK;
    }
    for (int64_t i = 0; i < n && !w->wild; i++) w->beyond |= !isfinite(sp_element_get(t->dtype, t->data, i));
    if (w->spoil) {
        spoil(w, v, t, n);
        return SPARTA_OK;
    }
    if (w->beyond || w->wrong || v->is_input || v->constant) return SPARTA_OK;
    for (int64_t i = 0; i < n; i++) {
        double claimed, got = sp_element_get(t->dtype, t->data, i);
        bool known = sp_tesa_known(sp_propagation_tesa(w->p, v), index, &claimed);
        w->s->elements++;
        w->s->known += known;
        if (known && claimed != got) {
            w->wrong = true;
            (void)UNSOUND(w->s, "'%s' (of %s) is called %.9g at element %lld and is %.9g", v->name,
                          v->producer ? sp_builtin_row(v->producer->op)->name : "nobody", claimed,
                          (long long)i, got);
            return SPARTA_OK;
        }
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dim[d]; d--) index[d] = 0;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ outputs */
static inline bool same_output(const sparta_tensor *a, const sparta_tensor *b, double part)
{
    int64_t n = sparta_tensor_elements(a);
    double most = 0;
    if (!sp_tensor_same_shape(a, b) || a->dtype != b->dtype) return false;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(sp_element_get(a->dtype, a->data, i));
        if (isfinite(x)) most = SP_MAX(most, x);
    }
    if (a->dtype == SPARTA_F16 || a->dtype == SPARTA_BF16) part *= 1000;
    for (int64_t i = 0; i < n; i++) {
        double x = sp_element_get(a->dtype, a->data, i), y = sp_element_get(b->dtype, b->data, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!sp_dtype_is_float(a->dtype) || !(fabs(x - y) <= part * most)) return false;
    }
    return true;
}

static inline void free_outputs(sparta_ctx *cx, const sp_graph *g, sparta_tensor *out)
{
    for (int i = 0; i < g->n_outputs; i++) sp_free(cx, out[i].data);
}

enum { SOUND_OUTPUTS = 64 };

/* Does the model itself answer otherwise when its values move a little? */
static inline bool shaky(draw *d, const sparta_named_tensor *in, const sparta_tensor *truth, int o)
{
    sparta_tensor out[SOUND_OUTPUTS];
    bool moved = false;
    for (uint64_t k = 0; k < 6 && !moved; k++) {
        sp_rng r = sp_rng_seed(k + 1);
        watching w = {.jiggle = &r};
        if (sp_ops_run(d->cx, d->g, in, d->g->n_inputs, out, look, &w) != SPARTA_OK) return false;
        moved = !same_output(&truth[o], &out[o], 1e-6);
        free_outputs(d->cx, d->g, out);
    }
    return moved;
}

static inline bool compare(draw *d, const sp_graph *small, bool exact, const sparta_named_tensor *in,
                           const sparta_tensor *a, const sparta_tensor *b, soundness *s)
{
    for (int o = 0; o < d->g->n_outputs; o++) {
        if (strcmp(d->g->output[o]->name, small->output[o]->name))
            return UNSOUND(s, "output %d lost its name", o);
        s->answers++;
        s->exact += same_output(&a[o], &b[o], 0);
        /* Sums are of doubles, four side by side: without their zeros they end otherwise by a rounding of a double, which shows
         * where they cancel. */
        if (same_output(&a[o], &b[o], exact ? 1e-14 : 1e-5)) continue;
        if (!exact && shaky(d, in, a, o)) {
            s->aside++;
            continue;
        }
        int64_t n = sparta_tensor_elements(&a[o]), at = 0;
        if (!sp_tensor_same_shape(&a[o], &b[o]))
            return UNSOUND(s, "output '%s' has other dims", d->g->output[o]->name);
        for (double most = -1; n > 0; n--) {
            double x = sp_element_get(a[o].dtype, a[o].data, n - 1),
                   y = sp_element_get(b[o].dtype, b[o].data, n - 1);
            double off = x == y || (isnan(x) && isnan(y)) ? 0 : isfinite(x - y) ? fabs(x - y) : INFINITY;
            if (off > most) most = off, at = n - 1;
        }
        return UNSOUND(s, "output '%s' is %.9g at element %lld and was %.9g", d->g->output[o]->name,
                       sp_element_get(b[o].dtype, b[o].data, at), (long long)at,
                       sp_element_get(a[o].dtype, a[o].data, at));
    }
    return true;
}

/* Do the answers stay when what nobody needs is changed? */
static inline bool needs_no_more(draw *d, const sp_propagation *p, const sparta_named_tensor *in,
                                 uint64_t seed, const sparta_tensor *truth, soundness *s)
{
    sparta_tensor out[SOUND_OUTPUTS];
    sp_rng r = sp_rng_seed(seed);
    watching w = {.s = s, .p = p, .spoil = &r, .wild = d->wild};
    bool same = true;
    if (sp_ops_run(d->cx, d->g, in, d->g->n_inputs, out, look, &w) != SPARTA_OK)
        return UNSOUND(s, "the spoiled model does not run: %s", sparta_message(d->cx));
    for (int o = 0; o < d->g->n_outputs && same; o++) {
        same = w.beyond || same_output(&truth[o], &out[o], 0);
        if (!same) (void)UNSOUND(s, "output '%s' needs what is said not to be", d->g->output[o]->name);
    }
    free_outputs(d->cx, d->g, out);
    return same;
}

/* One input: the facts, and the answers of both. */
static inline bool check_input(draw *d, const sp_graph *small, bool exact, const sp_propagation *p,
                               uint64_t seed, soundness *s)
{
    sparta_named_tensor in[DRAW_INPUTS] = {{0}};
    sparta_tensor a[SOUND_OUTPUTS], b[SOUND_OUTPUTS];
    watching w = {.s = s, .p = p, .wild = d->wild};
    bool sound = true;
    if (draw_inputs(d, seed, in) != SPARTA_OK) return UNSOUND(s, "inputs: %s", sparta_message(d->cx));
    if (sp_ops_run(d->cx, d->g, in, d->g->n_inputs, a, look, &w) != SPARTA_OK)
        sound = UNSOUND(s, "the model does not run: %s", sparta_message(d->cx));
    else if (sp_ops_run(d->cx, small, in, d->g->n_inputs, b, NULL, NULL) != SPARTA_OK) {
        sound = UNSOUND(s, "the smaller model does not run: %s", sparta_message(d->cx));
        free_outputs(d->cx, d->g, a);
    } else {
        s->runs++;
        s->beyond += w.beyond;
        sound = !w.wrong &&
                (w.beyond || (compare(d, small, exact, in, a, b, s) && needs_no_more(d, p, in, seed, a, s)));
        free_outputs(d->cx, d->g, a);
        free_outputs(d->cx, small, b);
    }
    draw_inputs_free(d, in);
    return sound;
}

/* ------------------------------------------------------------------ the smaller model as a graph */
static inline sparta_status fetch_constant(void *arg, const char *name, sparta_tensor *out)
{
    const sp_graph *g = arg;
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        if (!v->constant || strcmp(v->origin ? v->origin : v->name, name)) continue;
        *out = *v->constant;
        return SPARTA_OK;
    }
    return sp_fail(g->cx, SPARTA_E_FORMAT, "there is no constant %s", name);
}

static inline bool reads_back(sp_graph *g, const char *text, soundness *s)
{
    sp_graph *copy;
    sp_text again;
    if (sp_graph_parse(g->cx, text, fetch_constant, g, &copy) != SPARTA_OK)
        return UNSOUND(s, "the text does not parse: %s", sparta_message(g->cx));
    sp_text_init(&again, g->cx);
    sp_graph_print(copy, &again);
    bool same = !strcmp(text, sp_text_str(&again)), valid = sp_graph_verify(g) == SPARTA_OK;
    sp_text_free(&again);
    sp_graph_free(copy);
    if (!valid) return UNSOUND(s, "%s", sparta_message(g->cx));
    return same ? true : UNSOUND(s, "the text of its text is another");
}

static inline bool stays(sp_graph *g, const sp_propagate_options *options, const char *text, soundness *s)
{
    sp_propagate_report report;
    sp_text again;
    if (sp_propagate(g, options, &report) != SPARTA_OK) return UNSOUND(s, "again: %s", sparta_message(g->cx));
    sp_text_init(&again, g->cx);
    sp_graph_print(g, &again);
    bool same = !strcmp(text, sp_text_str(&again));
    sp_text_free(&again);
    return same ? true : UNSOUND(s, "propagating it again changes it");
}

/* ------------------------------------------------------------------ a seed */
static inline bool check_graph(draw *d, sp_graph *small, uint64_t seed, soundness *s)
{
    sp_propagation *p;
    sp_propagate_report report;
    sp_text text;
    bool sound = true;
    if (d->g->n_outputs > SOUND_OUTPUTS) return UNSOUND(s, "%d outputs", d->g->n_outputs);
    if (sp_propagate_facts(d->g, NULL, &p) != SPARTA_OK)
        return UNSOUND(s, "facts: %s", sparta_message(d->cx));
    const sp_propagate_options options = {.multiple = seed % 6 ? 1 : 2 + (int)(seed % 4)};
    if (sp_propagate(small, &options, &report) != SPARTA_OK) {
        sp_propagation_free(p);
        return UNSOUND(s, "propagate: %s", sparta_message(d->cx));
    }
    s->graphs++;
    s->nodes += report.nodes_before;
    s->nodes_after += report.nodes_after;
    s->parameters += report.parameters_before;
    s->parameters_after += report.parameters_after;
    s->smaller +=
        report.parameters_after < report.parameters_before || report.nodes_after < report.nodes_before;
    sp_text_init(&text, d->cx);
    sp_graph_print(small, &text);
    for (int i = 0; i < s->inputs && sound; i++)
        sound = check_input(d, small, report.moved == 0, p, seed * 1000 + (uint64_t)i, s);
    sound =
        sound && reads_back(small, sp_text_str(&text), s) && stays(small, &options, sp_text_str(&text), s);
    sp_text_free(&text);
    sp_propagation_free(p);
    return sound;
}

/* false: s->why says what was not sound. Models of a strict context get infinities and NaN. */
static inline bool check_seed(sparta_ctx *cx, uint64_t seed, soundness *s)
{
    static draw d, twin;
    bool sound, wild = sp_ctx_strict(cx);
    s->why[0] = 0;
    if (draw_graph(cx, seed, wild, &d) != SPARTA_OK) return UNSOUND(s, "drawing: %s", sparta_message(cx));
    if (draw_graph(cx, seed, wild, &twin) != SPARTA_OK) {
        sp_graph_free(d.g);
        return UNSOUND(s, "drawing it again: %s", sparta_message(cx));
    }
    for (int i = 0; i < SP_OPS; i++) {
        s->made[i] += d.made[i];
        s->refused[i] += d.refused[i];
    }
    sound = check_graph(&d, twin.g, seed, s);
    sp_graph_free(twin.g);
    sp_graph_free(d.g);
    return sound;
}

#endif
