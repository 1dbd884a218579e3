/* masks: a file of arrays named after weights, zero where a weight is gone. What does not fit is told with what would: the weight of a
 * similar name, the weights that have the shape of the mask, or that the mask lies the other way round. */
#include "compile/compile.h"
#include <string.h>

enum { TOLD = 3 }; /* the most names in a message */

static const char *name_of(const sparta_value *v)
{
    return v->origin ? v->origin : v->name;
}

/* Constants with a name of their own that a mask could be for. */
static bool is_weight(const sparta_value *v)
{
    return v->constant && v->constant->data && v->constant->rank >= 1 && sparta_dtype_is_float(v->dtype);
}

/* "; 'a', 'b' and 3 more have that shape", or nothing when none has. */
static void tell_same_shape(const sparta_graph *g, const sparta_tensor *mask, sparta_text *out)
{
    int n = 0;
    for (int i = 0; i < g->n_values; i++) {
        const sparta_value *v = g->value[i];
        if (!is_weight(v) || !sparta_tensor_same_shape(v->constant, mask)) continue;
        if (n < TOLD) sparta_text_printf(out, "%s'%.100s'", n ? ", " : "; ", name_of(v));
        n++;
    }
    if (n > TOLD) sparta_text_printf(out, " and %d more", n - TOLD);
    if (n) sparta_text_printf(out, n > 1 ? " have that shape" : " has that shape");
}

static bool is_turned(const sparta_tensor *a, const sparta_tensor *b)
{
    return a->rank == 2 && b->rank == 2 && a->dim[0] == b->dim[1] && a->dim[1] == b->dim[0];
}

static sparta_status other_shape(sparta_ctx *cx, const sparta_graph *g, const sparta_value *v,
                                 const sparta_tensor *mask)
{
    sparta_text t;
    sparta_text_init(&t, cx);
    sparta_text_printf(&t, "mask '%.100s': it is ", name_of(v));
    sparta_tensor_print_shape(mask, &t);
    sparta_text_printf(&t, ", the weight is ");
    sparta_tensor_print_shape(v->constant, &t);
    if (is_turned(mask, v->constant))
        sparta_text_printf(&t, "; transpose it");
    else
        tell_same_shape(g, mask, &t);
    sparta_status s = t.status ? t.status : sparta_fail(cx, SPARTA_E_USAGE, "%s", sparta_text_str(&t));
    sparta_text_free(&t);
    return s;
}

/* The name that is most like it, by a few letters; NULL: none is. */
static const char *similar(const sparta_graph *g, const char *name)
{
    for (int i = 0; i < g->n_values; i++) {
        const char *one[1] = {name_of(g->value[i])};
        if (is_weight(g->value[i]) && sparta_nearest(name, one, 1)) return one[0];
    }
    return NULL;
}

static sparta_status no_weight(sparta_ctx *cx, const sparta_graph *g, const char *path,
                               const sparta_npz_entry *e)
{
    const char *near = similar(g, e->name);
    sparta_text t;
    sparta_text_init(&t, cx);
    sparta_text_printf(&t, "%.200s: the model has no weight '%.100s'", path, e->name);
    const size_t plain = t.size;
    if (near)
        sparta_text_printf(&t, "; did you mean '%.100s'?", near);
    else
        tell_same_shape(g, &e->tensor, &t);
    if (t.size == plain) sparta_text_printf(&t, "; `sparta inspect` lists its layers");
    sparta_status s = t.status ? t.status : sparta_fail(cx, SPARTA_E_USAGE, "%s", sparta_text_str(&t));
    sparta_text_free(&t);
    return s;
}

/* A mask that keeps all or nothing is obeyed, and most often a mistake. */
static void note_extremes(sparta_ctx *cx, const sparta_value *v, int64_t kept, int64_t all)
{
    if (all && !kept)
        sparta_note(cx, "mask '%.100s' keeps nothing of the weight: what its layer gives is its bias alone",
                    name_of(v));
    else if (all && kept == all)
        sparta_note(cx, "mask '%.100s' keeps all of the weight: it changes nothing", name_of(v));
}

sparta_status sparta_compile_mask(sparta_ctx *cx, sparta_graph *g, sparta_value *v, const sparta_tensor *mask)
{
    if (!sparta_tensor_same_shape(v->constant, mask)) return other_shape(cx, g, v, mask);
    sparta_tensor *copy = sparta_arena_alloc(g->arena, sizeof *copy);
    int64_t kept = 0;
    const int64_t n = sparta_tensor_elements(mask);
    SPARTA_NEED(cx, copy);
    SPARTA_TRY(sparta_tensor_alloc_in(g->arena, v->dtype, v->constant->rank, v->constant->dim, copy));
    SPARTA_TRY(sparta_tensor_copy(cx, v->constant, copy));
    for (int64_t i = 0; i < n; i++) {
        const bool stays = sparta_element_get(mask->dtype, mask->data, i) != 0; /* NaN is not 0 */
        if (!stays) sparta_element_set(v->dtype, copy->data, i, 0);
        kept += stays;
    }
    note_extremes(cx, v, kept, n);
    v->constant = copy;
    return SPARTA_OK;
}

static sparta_value *weight_named(const sparta_graph *g, const char *name)
{
    for (int i = 0; i < g->n_values; i++) {
        sparta_value *v = g->value[i];
        if (v->constant && (!strcmp(v->name, name) || (v->origin && !strcmp(v->origin, name)))) return v;
    }
    return NULL;
}

sparta_status sparta_compile_masks(sparta_ctx *cx, sparta_graph *g, const char *path)
{
    sparta_arrays a;
    SPARTA_TRY(sparta_arrays_open(cx, path, &a));
    sparta_status s = SPARTA_OK;
    if (!a.n) sparta_note(cx, "%.200s: there is no mask in it: nothing is pruned", path);
    for (int i = 0; i < a.n && s == SPARTA_OK; i++) {
        sparta_value *v = weight_named(g, a.entry[i].name);
        s = v ? sparta_compile_mask(cx, g, v, &a.entry[i].tensor) : no_weight(cx, g, path, &a.entry[i]);
    }
    sparta_arrays_close(&a);
    return s;
}
