/* Inputs for a run: those that are given, and the others made from a seed.
 *
 * Sizes: a symbol takes its value from an array that is given, else from options.dims, else the usual one (room measure). */
#include "api/api.h"
#include <math.h>
#include <string.h>

typedef struct wish { /* for one input */
    const sparta_tensor *given;
    bool asked, ranged; /* to be made; in a range */
    double lo, hi;
} wish;

struct sparta_inputs {
    sparta_ctx *cx;
    sp_arena *arena;
    int n;
    sparta_named_tensor *tensor;
    bool *made;      /* its data is ours */
    bool *from_seed; /* nobody gave it */
    sp_arrays file;
};

static sparta_status unknown_input(sparta_inputs *in, const sp_graph *g, const char *name)
{
    const char **names = sp_arena_array(in->arena, (size_t)g->n_inputs + 1, sizeof *names);
    SP_NEED(in->cx, names);
    sp_text all;
    sp_text_init(&all, in->cx);
    for (int i = 0; i < g->n_inputs; i++) {
        names[i] = g->input[i]->name;
        sp_text_printf(&all, "%s'%s'", i ? ", " : "", names[i]);
    }
    const char *near = sp_nearest(name, names, g->n_inputs);
    const sparta_status s =
        near ? sp_fail(in->cx, SPARTA_E_USAGE, "the model has no input '%s'; did you mean '%s'?", name, near)
             : sp_fail(in->cx, SPARTA_E_USAGE, "the model has no input '%s'; it has %s", name,
                       sp_text_str(&all));
    sp_text_free(&all);
    return s;
}

static sparta_status find(sparta_inputs *in, const sp_graph *g, const char *name, int *at)
{
    *at = sp_graph_named(g->input, g->n_inputs, name);
    return *at < 0 ? unknown_input(in, g, name) : SPARTA_OK;
}

static sparta_status wish_for(sparta_inputs *in, const sp_graph *g, const char *name, wish w, wish *list)
{
    int at;
    SP_TRY(find(in, g, name, &at));
    if (list[at].given || list[at].asked)
        return sp_fail(in->cx, SPARTA_E_USAGE, "input '%s': it is given twice; give it once", name);
    list[at] = w;
    return SPARTA_OK;
}

static sparta_status take(sparta_inputs *in, const sp_graph *g, const char *name, const sparta_tensor *t,
                          wish *list)
{
    SP_TRY(sp_tensor_on_cpu(in->cx, t, "input", name));
    return wish_for(in, g, name, (wish){.given = t}, list);
}

static sparta_status take_file(sparta_inputs *in, const sp_graph *g, const char *path, wish *list)
{
    SP_TRY(sp_arrays_open(in->cx, path, &in->file));
    for (int i = 0; i < in->file.n; i++)
        if (take(in, g, in->file.entry[i].name, &in->file.entry[i].tensor, list) != SPARTA_OK)
            return sp_fail_in(in->cx, "%s", path);
    return SPARTA_OK;
}

/* "-1:1" */
static bool read_range(sparta_inputs *in, const char *text, wish *w)
{
    const char *colon = strchr(text, ':');
    const char *lo = colon ? sp_arena_bytes(in->arena, text, (size_t)(colon - text)) : NULL;
    w->ranged = true;
    return lo && sp_parse_double(lo, &w->lo) && sp_parse_double(colon + 1, &w->hi) && isfinite(w->lo) &&
           isfinite(w->hi) && w->lo < w->hi;
}

/* "x=random", "x=random:-1:1" */
static sparta_status take_random(sparta_inputs *in, const sp_graph *g, const char *text, wish *list)
{
    const char *how = strrchr(text, '=');
    wish w = {.asked = true};
    if (!how || strncmp(how, "=random", 7) || (how[7] && (how[7] != ':' || !read_range(in, how + 8, &w))))
        return sp_fail(in->cx, SPARTA_E_USAGE,
                       "options.random %.100s: expected NAME=random or NAME=random:LO:HI with LO below HI",
                       text);
    const char *name = sp_arena_bytes(in->arena, text, (size_t)(how - text));
    SP_NEED(in->cx, name);
    return wish_for(in, g, name, w, list);
}

/* ------------------------------------------------------------------ sizes */

/* The dims of a given array say what its symbols are. */
static sparta_status bind_given(sparta_ctx *cx, const sp_value *v, const sparta_tensor *t, sp_bindings *sizes)
{
    sparta_tensor narrow = *t;
    if (t->rank != v->dims.rank)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "input '%s': has %d dimensions and the model wants %d; give an array of that shape",
                       v->name, t->rank, v->dims.rank);
    if (t->dtype != v->dtype && !sp_tensor_narrow(&narrow, v->dtype))
        return sp_fail(cx, SPARTA_E_DTYPE, "input '%s': is %s and the model wants %s; convert it", v->name,
                       sparta_dtype_name(t->dtype), sparta_dtype_name(v->dtype));
    for (int d = 0; d < t->rank; d++) {
        const char *symbol;
        int64_t fixed;
        if (sp_expr_is_const(v->dims.dim[d], &fixed) && fixed != t->dim[d])
            return sp_fail(
                cx, SPARTA_E_SHAPE,
                "input '%s': dimension %d is %lld and the model wants %lld; give an array of that shape",
                v->name, d, (long long)t->dim[d], (long long)fixed);
        if (!sp_expr_is_symbol(v->dims.dim[d], &symbol)) continue;
        int at = 0;
        while (at < sizes->n && strcmp(sizes->name[at], symbol)) at++;
        if (at < sizes->n && sizes->value[at] != t->dim[d])
            return sp_fail(cx, SPARTA_E_USAGE,
                           "input '%s': makes %s %lld, which is %lld elsewhere; give inputs of one size",
                           v->name, symbol, (long long)t->dim[d], (long long)sizes->value[at]);
        ((const char **)sizes->name)[at] = symbol;
        ((int64_t *)sizes->value)[at] = t->dim[d];
        if (at == sizes->n) sizes->n++;
    }
    return SPARTA_OK;
}

static sparta_status find_sizes(sparta_inputs *in, const sp_graph *g, const char *const *dims,
                                const wish *list, sp_bindings *out)
{
    sp_bindings said;
    SP_TRY(sp_api_dims(in->cx, in->arena, dims, &said));
    const size_t most = (size_t)said.n + (size_t)g->n_inputs * SPARTA_RANK + 1;
    const char **name = sp_arena_array(in->arena, most, sizeof *name);
    SP_NEED(in->cx, name);
    int64_t *value = sp_arena_array(in->arena, most, sizeof *value);
    SP_NEED(in->cx, value);
    for (int i = 0; i < said.n; i++) name[i] = said.name[i], value[i] = said.value[i];
    sp_bindings all = {said.n, name, value};
    for (int i = 0; i < g->n_inputs; i++)
        if (list[i].given) SP_TRY(bind_given(in->cx, g->input[i], list[i].given, &all));
    SP_TRY(sp_sizes_fill(in->cx, in->arena, g, &all, out));
    sp_sizes_note(in->cx, &all, out);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ numbers */

/* Floats in [lo, hi); integers the whole numbers in it, as far as the type has them. */
static void fill_range(sparta_tensor *t, const wish *w, uint64_t seed)
{
    sp_rng rng = sp_rng_seed(seed);
    const bool whole = !sp_dtype_is_float(t->dtype);
    const int64_t n = sparta_tensor_elements(t), lowest = whole ? sp_dtype_lowest(t->dtype) : 0,
                  highest = whole ? sp_dtype_highest(t->dtype) : 0;
    for (int64_t i = 0; i < n; i++) {
        const double u = sp_rng_uniform(&rng), v = w->lo * (1 - u) + w->hi * u;
        if (whole)
            sp_element_set_int(t->dtype, t->data, i,
                               v <= (double)lowest    ? lowest
                               : v >= (double)highest ? highest
                                                      : (int64_t)floor(v));
        else
            sp_element_set(t->dtype, t->data, i, v);
    }
}

/* A given array as a run wants it: of the model's type, row-major. */
static sparta_status adopt(sparta_inputs *in, int i, const sparta_tensor *given, sparta_dtype dtype)
{
    sparta_tensor *t = &in->tensor[i].tensor;
    if (sp_tensor_contiguous(given)) {
        sp_free(in->cx, t->data);
        *t = *given;
        in->made[i] = false;
        if (t->dtype != dtype) (void)sp_tensor_narrow(t, dtype);
        return SPARTA_OK;
    }
    sparta_tensor narrow = *given;
    if (narrow.dtype != dtype) (void)sp_tensor_narrow(&narrow, dtype);
    return sp_tensor_copy(in->cx, &narrow, t);
}

static sparta_status make_all(sparta_inputs *in, const sp_graph *g, const sparta_inputs_options *o)
{
    const size_t n = (size_t)g->n_inputs + 1;
    sp_make_inputs make = {.seed = o->seed};
    wish *list = sp_arena_array(in->arena, n, sizeof *list);
    SP_NEED(in->cx, list);
    in->made = sp_arena_array(in->arena, n, sizeof *in->made);
    SP_NEED(in->cx, in->made);
    in->from_seed = sp_arena_array(in->arena, n, sizeof *in->from_seed);
    SP_NEED(in->cx, in->from_seed);
    in->tensor = sp_arena_array(in->arena, n, sizeof *in->tensor);
    SP_NEED(in->cx, in->tensor);
    for (int i = 0; i < o->n_given; i++) SP_TRY(take(in, g, o->given[i].name, &o->given[i].tensor, list));
    for (int i = 0; o->random && o->random[i]; i++) SP_TRY(take_random(in, g, o->random[i], list));
    if (o->archive) SP_TRY(take_file(in, g, o->archive, list));
    SP_TRY(find_sizes(in, g, o->dims, list, &make.sizes));
    SP_TRY(sp_inputs_make(in->cx, g, &make, in->tensor));
    in->n = g->n_inputs;
    for (int i = 0; i < in->n; i++) in->made[i] = true;
    for (int i = 0; i < in->n; i++) {
        in->tensor[i].name = sp_arena_string(in->arena, g->input[i]->name); /* the model may be closed */
        SP_NEED(in->cx, in->tensor[i].name);
        in->from_seed[i] = !list[i].given;
        if (list[i].ranged) fill_range(&in->tensor[i].tensor, &list[i], o->seed + 1 + (uint64_t)i);
        if (list[i].given) SP_TRY(adopt(in, i, list[i].given, g->input[i]->dtype));
    }
    return SPARTA_OK;
}

static sparta_status make(sparta_ctx *cx, const sp_graph *g, const sparta_inputs_options *options,
                          sparta_inputs **out)
{
    sparta_inputs_options o;
    SP_TRY(sp_options(cx, "inputs", options, &o, sizeof o));
    sparta_inputs *in = sp_zalloc(cx, sizeof *in);
    SP_NEED(cx, in);
    in->cx = cx;
    in->arena = sp_arena_create(cx);
    const sparta_status s = in->arena ? make_all(in, g, &o) : sp_ctx_status(cx);
    if (s == SPARTA_OK)
        *out = in;
    else
        sparta_inputs_free(in);
    return s;
}

sparta_status sparta_package_make_inputs(sparta_ctx *cx, const sparta_package *package,
                                         const sparta_inputs_options *options, sparta_inputs **out)
{
    return make(cx, package->plan, options, out);
}

sparta_status sparta_model_make_inputs(sparta_ctx *cx, const sparta_model *model,
                                       const sparta_inputs_options *options, sparta_inputs **out)
{
    return make(cx, sp_api_graph(model), options, out);
}

const sparta_named_tensor *sparta_inputs_array(const sparta_inputs *in, int i)
{
    return i >= 0 && i < in->n ? &in->tensor[i] : NULL;
}

int sparta_inputs_made(const sparta_inputs *in, int i)
{
    return i >= 0 && i < in->n && in->from_seed[i];
}

void sparta_inputs_free(sparta_inputs *in)
{
    if (!in) return;
    for (int i = 0; i < in->n; i++)
        if (in->made[i]) sp_free(in->cx, in->tensor[i].tensor.data);
    sp_arrays_close(&in->file);
    sp_arena_free(in->arena);
    sp_free(in->cx, in);
}
