/* walked.h: what the targets of the whole walk share, whatever reads their bytes. A model is refused, or it is compiled (portable kernels, no
 * compiler, no timing), written, opened and run, and answers as the references of the file do:
 *
 *     bytes --import--> graph --propagate?--> compile --> file --> session --run--> the answers of the references?
 *
 * The bytes also decide whether it is propagated, how many threads run it, and the sizes of its symbols, three times in one session. */
#ifndef SP_TESTS_FUZZ_WALKED_H
#define SP_TESTS_FUZZ_WALKED_H

#include "compile/compile.h"
#include "ops/ops.h"
#include "propagated.h"
#include "run/run.h"

enum { SYMBOLS = 8, RUNS = 3 };
/* Numbers so large that a sum in another order leaves the floats say nothing. */
static const double vast = 1e15;

/* Memory and limits may end anything; that nobody wrote it yet, compiling. */
static inline bool went_well(sparta_ctx *cx, sparta_status s, const char *what)
{
    if (s == SPARTA_E_MEMORY || s == SPARTA_E_LIMIT || s == SPARTA_E_UNSUPPORTED) return false;
    if (s != SPARTA_OK) give_up(what, sparta_message(cx));
    return true;
}

/* ------------------------------------------------------------------ sizes */
typedef struct symbols {
    int n;
    const char *name[SYMBOLS];
    int64_t size[SYMBOLS];
} symbols;

/* One symbol may fill more than a panel; false: there are too many. */
static inline bool draw_sizes(const sp_graph *g, uint64_t key, symbols *out)
{
    static const int64_t small[] = {1, 2, 3, 5}, large[] = {1, 7, 17, 65};
    *out = (symbols){0};
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++) {
            const char *name;
            bool known = false;
            if (!sp_expr_is_symbol(g->input[i]->dims.dim[d], &name)) continue;
            for (int k = 0; k < out->n; k++) known |= !strcmp(out->name[k], name);
            if (known) continue;
            if (out->n == SYMBOLS) return false;
            const uint64_t at = key >> 2 * out->n & 3;
            out->size[out->n] = sp_symbol_within(g, name, out->n == (int)(key % 3) ? large[at] : small[at]);
            out->name[out->n++] = name;
        }
    return true;
}

/* ------------------------------------------------------------------ answers */
typedef struct watch {
    double most; /* of all values */
    bool beyond;
    sp_rng *jiggle; /* NULL: values are only looked at */
} watch;

/* What underflows in a narrow type may be more than nothing where a kernel keeps it in f32. */
static inline void lift_zeros(sp_rng *r, const sparta_tensor *t, int64_t n)
{
    const double least = t->dtype == SPARTA_F16 ? 0x1p-24 : t->dtype == SPARTA_BF16 ? 0x1p-126 : 0;
    for (int64_t i = 0; least > 0 && i < n; i++)
        if (sp_element_get(t->dtype, t->data, i) == 0 && sp_rng_uniform(r) < 0.5)
            sp_element_set(t->dtype, t->data, i, least);
}

static inline sparta_status see(void *arg, const sp_value *v, const sparta_tensor *t)
{
    watch *w = arg;
    const int64_t n = sparta_tensor_elements(t);
    if (w->jiggle) jiggle(w->jiggle, t, n);
    if (w->jiggle && v->producer) lift_zeros(w->jiggle, t, n);
    for (int64_t i = 0; !w->jiggle && i < n; i++) {
        const double x = fabs(sp_element_get(t->dtype, t->data, i));
        w->beyond |= !(x < vast) && sp_dtype_is_float(t->dtype);
        w->most = SP_MAX(w->most, x);
    }
    return SPARTA_OK;
}

/* As compile's own check has it: `part` of the largest number. Integers and truths are the same. */
static inline bool close_to(const sparta_tensor *want, const sparta_tensor *got, double part)
{
    const int64_t n = sparta_tensor_elements(want);
    double most = 0, worst = 0;
    if (!sp_tensor_same_shape(want, got) || want->dtype != got->dtype) return false;
    if (want->dtype == SPARTA_F16 || want->dtype == SPARTA_BF16) part *= 200;
    for (int64_t i = 0; i < n; i++) {
        const double x = sp_element_get(want->dtype, want->data, i),
                     y = sp_element_get(got->dtype, got->data, i);
        most = SP_MAX(most, fabs(x));
        if (!(fabs(x - y) <= worst)) worst = fabs(x - y);
    }
    return sp_dtype_is_float(want->dtype) ? worst <= part * most + 1e-6 : worst == 0;
}

/* Does the model itself answer otherwise when its values move by about an ulp? */
static inline bool trembles(sparta_ctx *cx, const sp_graph *g, const sparta_named_tensor *in,
                            const sparta_tensor *want, int o)
{
    sparta_tensor out[SOUND_OUTPUTS];
    bool moved = false;
    for (uint64_t k = 0; k < 8 && !moved; k++) {
        sp_rng r = sp_rng_seed(k + 1);
        watch w = {.jiggle = &r};
        if (sp_ops_run(cx, g, in, g->n_inputs, out, see, &w) != SPARTA_OK) return true;
        moved = !close_to(&want[o], &out[o], 1e-5);
        free_outputs(cx, g, out);
    }
    return moved;
}

static inline void compare_answers(sparta_ctx *cx, const sp_graph *g, sparta_session *session,
                                   const sparta_named_tensor *in)
{
    sparta_tensor want[SOUND_OUTPUTS];
    sparta_named_tensor got[SOUND_OUTPUTS];
    watch w = {0};
    for (int i = 0; i < g->n_outputs; i++) got[i] = (sparta_named_tensor){.name = g->output[i]->name};
    if (sp_ops_run(cx, g, in, g->n_inputs, want, see, &w) != SPARTA_OK) return; /* it refuses them */
    if (went_well(cx, sparta_session_run(cx, session, in, g->n_inputs, got, g->n_outputs), "run") &&
        !w.beyond && all_finite(g))
        for (int i = 0; i < g->n_outputs; i++)
            if (!close_to(&want[i], &got[i].tensor, 1e-4) && !trembles(cx, g, in, want, i))
                give_up("answer", got[i].name);
    free_outputs(cx, g, want);
}

/* ------------------------------------------------------------------ the walk */
static inline void run_some(sparta_ctx *cx, uint64_t key, const sp_graph *g, const sparta_package *p)
{
    const sparta_session_options options = {.size = sizeof options, .threads = key % 16 ? 1 : 2};
    sparta_session *session = NULL;
    sparta_named_tensor in[DRAW_INPUTS];
    symbols z;
    if (!went_well(cx, sparta_session_create(cx, p, &options, &session), "session")) return;
    sp_session_share_from(session, 0);
    for (uint64_t k = 0; k < RUNS && draw_sizes(g, key >> 4 * k, &z); k++) {
        const sp_make_inputs how = {key + k, {z.n, z.name, z.size}};
        if (sp_inputs_make(cx, g, &how, in) != SPARTA_OK) break;
        compare_answers(cx, g, session, in);
        sp_inputs_free(cx, in, g->n_inputs);
        if (!z.n) break;
    }
    sparta_session_free(session);
}

/* What a package says is what its file says. */
static inline void write_and_run(sparta_ctx *cx, uint64_t key, const sp_graph *g, const sparta_package *made)
{
    static char path[64];
    sparta_package *p = NULL;
    if (!*path) snprintf(path, sizeof path, "/dev/shm/sparta-fuzz-%d.sparta", (int)getpid());
    if (went_well(cx, sparta_package_save(cx, made, path), "write") &&
        went_well(cx, sparta_package_open(cx, path, &p), "open"))
        run_some(cx, key, g, p);
    sparta_package_close(p);
    unlink(path);
}

static inline void release(void *model)
{
    sp_model_close(model);
}

/* m is the model; a copy of twin, the same read again, becomes the plan. */
static inline void walk(sparta_ctx *cx, uint64_t key, const sp_model *m, sp_model **twin)
{
    sp_graph *g = m->graph, *plan;
    sp_compile_request request = {.options = {.no_measure = 1, .threads = 1, .db = ":memory:"}};
    sp_propagate_report report;
    sparta_package *p = NULL;
    symbols z;
    if (!accepted(cx, sp_ops_infer(g), "infer") || !accepted(cx, sp_ops_infer((*twin)->graph), "infer"))
        return;
    if (!is_cheap(g) || !g->n_outputs || !draw_sizes(g, key, &z)) return;
    if (!accepted(cx, sp_graph_copy((*twin)->graph, &plan), "copy")) return;
    request.options.dense_only = key % 8 == 7;
    if ((key % 4 && !accepted(cx, sp_propagate(plan, NULL, &report), "propagate")) ||
        !went_well(cx, sp_compile_graph(cx, plan, &request, &p), "compile")) {
        sp_graph_free(plan);
        return;
    }
    p->owner = (sp_model_owner){.object = *twin, .release = release};
    *twin = NULL;
    write_and_run(cx, key, g, p);
    sparta_package_close(p);
}

/* key is key_of what came from outside; data is what is read of it, and stays. */
static inline void walk_all(uint64_t key, const uint8_t *data, size_t size)
{
    sparta_ctx *cx = small_context(key >> 8);
    sp_model *m = NULL, *twin = NULL;
    if (!cx) return;
    if (accepted(cx, sp_model_parse(cx, data, size, NULL, &m), "read") &&
        accepted(cx, sp_model_parse(cx, data, size, NULL, &twin), "read again"))
        walk(cx, key, m, &twin);
    sp_model_close(twin);
    sp_model_close(m);
    if (sp_ctx_memory(cx) != 0 && !sp_ctx_slot(cx, SP_SLOT_FORMATS))
        give_up("memory", "some is held at the end");
    sparta_ctx_free(cx);
}

#endif
