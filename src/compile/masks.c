/* masks: a file of arrays named after weights, zero where a weight is gone, or of attributes (docs/tesa.md), whose masks say it. An initialiser's name means the file's own shape; a name that
 * only PyTorch has (modules.h) means PyTorch's. What does not fit is told with what would: the weight of a
 * similar name, the weights that have the shape of the mask, or that the mask lies the other way round. */
#include "compile/compile.h"
#include "compile/modules.h"
#include "tesa/attribute.h"
#include <inttypes.h>
#include <string.h>

enum { TOLD = 3 }; /* the most names in a message */

static const char *name_of(const sp_value *v)
{
    return v->origin ? v->origin : v->name;
}

/* Constants with a name of their own that a mask could be for. */
static bool is_weight(const sp_value *v)
{
    return v->constant && v->constant->data && v->constant->rank >= 1 && sp_dtype_is_float(v->dtype);
}

/* "; 'a', 'b' and 3 more have that shape", or nothing when none has. */
static void tell_same_shape(const sp_graph *g, const sparta_tensor *mask, sp_text *out)
{
    int n = 0;
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        if (!is_weight(v) || !sp_tensor_same_shape(v->constant, mask)) continue;
        if (n < TOLD) sp_text_printf(out, "%s'%.100s'", n ? ", " : "; ", name_of(v));
        n++;
    }
    if (n > TOLD) sp_text_printf(out, " and %d more", n - TOLD);
    if (n) sp_text_printf(out, n > 1 ? " have that shape" : " has that shape");
}

/* One mask and its weight. Where it is turned the mask is (n, k) and the weight (k, n). */
typedef struct masking {
    sparta_ctx *cx;
    const char *name; /* of the mask */
    const sparta_tensor *weight, *mask;
    bool turned;
} masking;

static bool is_turned(const sparta_tensor *a, const sparta_tensor *b)
{
    return a->rank == 2 && b->rank == 2 && a->dim[0] == b->dim[1] && a->dim[1] == b->dim[0];
}

static sparta_status other_shape(const masking *m, const sp_graph *g)
{
    sparta_tensor w = *m->weight; /* its shape alone */
    sp_text t;
    sp_text_init(&t, m->cx);
    if (m->turned) w.dim[0] = m->weight->dim[1], w.dim[1] = m->weight->dim[0];
    sp_text_printf(&t, "mask '%.100s': it is ", m->name);
    sp_tensor_print_shape(m->mask, &t);
    sp_text_printf(&t, ", the weight is ");
    sp_tensor_print_shape(&w, &t);
    if (m->turned) sp_text_printf(&t, " in PyTorch");
    if (is_turned(m->mask, &w))
        sp_text_printf(&t, "; transpose it");
    else
        tell_same_shape(g, m->mask, &t);
    sparta_status s = t.status ? t.status : sp_fail(m->cx, SPARTA_E_USAGE, "%s", sp_text_str(&t));
    sp_text_free(&t);
    return s;
}

/* The name that is most like it, by a few letters; NULL: none is. */
static const char *similar(const sp_graph *g, const sp_modules *m, const char *name)
{
    for (int i = 0; i < g->n_values; i++) {
        const char *one[1] = {name_of(g->value[i])};
        if (is_weight(g->value[i]) && sp_nearest(name, one, 1)) return one[0];
    }
    for (int i = 0; i < m->n; i++)
        if (sp_nearest(name, &m->weight[i].name, 1)) return m->weight[i].name;
    return NULL;
}

static sparta_status no_weight(sparta_ctx *cx, const sp_graph *g, const sp_modules *m, const char *path,
                               const char *name, const sparta_tensor *mask)
{
    const char *near = similar(g, m, name);
    sp_text t;
    sp_text_init(&t, cx);
    sp_text_printf(&t, "%.200s: the model has no weight '%.100s'", path, name);
    const size_t plain = t.size;
    if (near)
        sp_text_printf(&t, "; did you mean '%.100s'?", near);
    else
        tell_same_shape(g, mask, &t);
    if (t.size == plain) sp_text_printf(&t, "; `sparta_model_report` lists its layers");
    sparta_status s = t.status ? t.status : sp_fail(cx, SPARTA_E_USAGE, "%s", sp_text_str(&t));
    sp_text_free(&t);
    return s;
}

/* A mask that keeps all or nothing is obeyed, and most often a mistake. */
static void note_extremes(const masking *m, int64_t kept, int64_t all)
{
    if (all && !kept)
        sp_note(m->cx, "mask '%.100s' keeps nothing of the weight: what its layer gives is its bias alone",
                m->name);
    else if (all && kept == all)
        sp_note(m->cx, "mask '%.100s' keeps all of the weight: it changes nothing", m->name);
}

/* Does element i of the weight stay? NaN in a mask is not 0. */
static bool stays(const masking *m, bool turned, int64_t i)
{
    const int64_t k = turned ? m->weight->dim[1] : 1, n = turned ? m->weight->dim[0] : 1;
    return sp_element_get(m->mask->dtype, m->mask->data, turned ? i % k * n + i / k : i) != 0;
}

/* Weights that are not 0 and would go. */
static int64_t count_lost(const masking *m, bool turned)
{
    const int64_t n = sparta_tensor_elements(m->mask);
    int64_t lost = 0;
    for (int64_t i = 0; i < n; i++)
        lost += sp_element_get(m->weight->dtype, m->weight->data, i) != 0 && !stays(m, turned, i);
    return lost;
}

/* A mask is most often what a pruned weight's zeros are, and then nothing is lost. Where only the transposed one does that, it is the
 * transposed one that was meant. */
static sparta_status check_lost(const masking *m, int64_t *out)
{
    const int64_t lost = count_lost(m, m->turned);
    if (lost && is_turned(m->mask, m->mask) && !count_lost(m, !m->turned))
        return sp_fail(m->cx, SPARTA_E_USAGE,
                       "mask '%.100s': it removes %" PRId64
                       " weights that are not 0, and transposed it would remove zeros only; transpose it",
                       m->name, lost);
    if (lost) sp_note(m->cx, "mask '%.100s' removes %" PRId64 " weights that are not 0", m->name, lost);
    *out += lost;
    return SPARTA_OK;
}

/* A copy of the weight without what the mask removes. */
static sparta_status apply(const masking *m, sp_graph *g, sparta_tensor **out)
{
    sparta_tensor *copy = sp_arena_alloc(g->arena, sizeof *copy);
    int64_t kept = 0;
    const int64_t n = sparta_tensor_elements(m->mask);
    SP_NEED(m->cx, copy);
    SP_TRY(sp_tensor_alloc_in(g->arena, m->weight->dtype, m->weight->rank, m->weight->dim, copy));
    SP_TRY(sp_tensor_copy(m->cx, m->weight, copy));
    for (int64_t i = 0; i < n; i++) {
        const bool stay = stays(m, m->turned, i);
        if (!stay) sp_element_set(copy->dtype, copy->data, i, 0);
        kept += stay;
    }
    note_extremes(m, kept, n);
    *out = copy;
    return SPARTA_OK;
}

sparta_status sp_compile_mask(sparta_ctx *cx, sp_graph *g, const sp_module_weight *w,
                              const sparta_tensor *mask, int64_t *lost)
{
    const masking m = {cx, w->name, w->value->constant, mask, w->turned};
    sparta_tensor *masked = NULL;
    if (w->several)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "mask '%.100s': several weights of the model are of that module; name the "
                       "initialiser, which `sparta_model_report` shows",
                       w->name);
    if (m.turned ? !is_turned(m.weight, mask) : !sp_tensor_same_shape(m.weight, mask))
        return other_shape(&m, g);
    SP_TRY(check_lost(&m, lost));
    SP_TRY(apply(&m, g, &masked));
    w->value->constant = masked;
    return SPARTA_OK;
}

/* Weights by their names and those they have in the file; of several the first. */
static sparta_status name_weights(const sp_graph *g, sp_map *names)
{
    for (int i = g->n_values - 1; i >= 0; i--) {
        const sp_value *v = g->value[i];
        if (!v->constant) continue;
        if (v->origin) SP_TRY(sp_map_put(names, v->origin, i));
        SP_TRY(sp_map_put(names, v->name, i));
    }
    return SPARTA_OK;
}

static sparta_status apply_each(sparta_ctx *cx, sp_graph *g, const char *path, const sp_tesas *a,
                                const sp_map *names, sp_modules *modules, int64_t *lost)
{
    for (int i = 0; i < a->n; i++) {
        const char *name = a->entry[i].name;
        int64_t id;
        sparta_tensor mask;
        const bool known = sp_map_get(names, name, &id);
        const sp_module_weight own = {.name = name, .value = known ? g->value[id] : NULL}, *w = &own;
        SP_TRY(sp_check_cancel(cx));
        SP_TRY(sp_tesas_mask(a, i, &mask));
        if (!known && !modules->g) SP_TRY(sp_modules_find_all(g, modules));
        if (!known) w = sp_modules_find(modules, name);
        SP_TRY(w ? sp_compile_mask(cx, g, w, &mask, lost) : no_weight(cx, g, modules, path, name, &mask));
    }
    return SPARTA_OK;
}

static sparta_status apply_all(sparta_ctx *cx, sp_graph *g, const char *path, const sp_tesas *a,
                               int64_t *lost)
{
    sp_modules modules = {0}; /* looked for when a name is not the file's */
    sp_map *names = sp_map_create(cx);
    SP_NEED(cx, names);
    sparta_status s = name_weights(g, names);
    if (s == SPARTA_OK) s = apply_each(cx, g, path, a, names, &modules, lost);
    sp_map_free(names);
    sp_modules_free(&modules);
    return s;
}

sparta_status sp_compile_masks(sparta_ctx *cx, sp_graph *g, const char *path, int64_t *lost)
{
    sp_tesas a;
    int64_t n = 0;
    SP_TRY(sp_tesas_open(cx, path, &a));
    if (!a.n) sp_note(cx, "%.200s: there is no mask in it: nothing is pruned", path);
    sparta_status s = apply_all(cx, g, path, &a, &n);
    sp_tesas_close(&a);
    if (s == SPARTA_OK && lost) *lost = n;
    return s;
}
