/* Inputs of run and verify: files, random numbers, or everything from the seed.
 *
 * Sizes: a symbol takes its value from an input that is given as a file, else from --dim, else the default of
 * room measure. */
#include "verbs.h"
#include "arrays/arrays.h"
#include "ops/ops.h"
#include <math.h>
#include <string.h>

typedef struct given {
    const char *rest; /* after NAME=; NULL: not given */
    bool random, ranged;
    double lo, hi;
    sparta_tensor file;
    bool loaded;
} given;

static int input_named(const sp_graph *g, const char *name)
{
    for (int i = 0; i < g->n_inputs; i++)
        if (!strcmp(g->input[i]->name, name)) return i;
    return -1;
}

/* `where`: the option and its value. */
static sparta_status unknown_input(cli *c, const sp_graph *g, const char *where, const char *name)
{
    const char **names = sp_arena_array(c->arena, (size_t)g->n_inputs + 1, sizeof *names);
    SP_NEED(c->cx, names);
    sp_text all;
    sp_text_init(&all, c->cx);
    for (int i = 0; i < g->n_inputs; i++) {
        names[i] = g->input[i]->name;
        sp_text_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = sp_nearest(name, names, g->n_inputs);
    sparta_status status =
        near ? sp_fail(c->cx, SPARTA_E_USAGE, "%s: the model has no input '%s'; did you mean %s?", where,
                       name, near)
             : sp_fail(c->cx, SPARTA_E_USAGE, "%s: the model has no input '%s'; it has %s", where, name,
                       sp_text_str(&all));
    sp_text_free(&all);
    return status;
}

/* random, random:LO:HI */
static sparta_status parse_random(cli *c, const char *name, given *x)
{
    const char *p = x->rest + strlen("random");
    x->random = true;
    if (!*p) return SPARTA_OK;
    const char *colon = strchr(p + 1, ':');
    const char *lo = colon ? sp_arena_bytes(c->arena, p + 1, (size_t)(colon - p - 1)) : NULL;
    x->ranged = lo && sp_parse_double(lo, &x->lo) && sp_parse_double(colon + 1, &x->hi) && isfinite(x->lo) &&
                isfinite(x->hi) && x->lo < x->hi;
    if (!x->ranged)
        return sp_fail(c->cx, SPARTA_E_USAGE,
                       "--input %s=%s: no range; give random or random:LO:HI with LO below HI", name,
                       x->rest);
    return SPARTA_OK;
}

static sparta_status take_one(cli *c, const sp_graph *g, const char *text, given *list)
{
    const char *name, *rest;
    SP_TRY(cli_cut(c, CLI_INPUT, text, &name, &rest));
    int at = input_named(g, name);
    if (at < 0) return unknown_input(c, g, "--input", name);
    if (list[at].rest)
        return sp_fail(c->cx, SPARTA_E_USAGE, "--input %s: is given twice; give it once", name);
    list[at].rest = rest;
    if (!strcmp(rest, "random") || !strncmp(rest, "random:", 7)) return parse_random(c, name, &list[at]);
    SP_TRY(sp_npy_read(c->cx, rest, &list[at].file));
    list[at].loaded = true;
    return SPARTA_OK;
}

static sparta_status take_entry(cli *c, const sp_graph *g, const char *path, const sp_npz_entry *e,
                                given *list)
{
    int at = input_named(g, e->name);
    if (at < 0) return unknown_input(c, g, path, e->name);
    if (list[at].rest)
        return sp_fail(c->cx, SPARTA_E_USAGE, "%s: %s is given by --input too; give it once", path, e->name);
    const sparta_tensor *t = &e->tensor;
    SP_TRY(sp_tensor_alloc(c->cx, t->dtype, t->rank, t->dim, &list[at].file));
    list[at].rest = path;
    list[at].loaded = true;
    return sp_tensor_copy(c->cx, t, &list[at].file);
}

/* --inputs F.npz: an array per input name. */
static sparta_status take_file(cli *c, const sp_graph *g, const char *path, given *list)
{
    sp_arrays a;
    SP_TRY(sp_arrays_open(c->cx, path, &a));
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < a.n && !status; i++) status = take_entry(c, g, path, &a.entry[i], list);
    sp_arrays_close(&a);
    return status;
}

static sparta_status missing(cli *c, const sp_graph *g, const given *list)
{
    sp_text names;
    sp_text_init(&names, c->cx);
    for (int i = 0; i < g->n_inputs; i++)
        if (!list[i].rest) sp_text_printf(&names, "%s%s", names.size ? ", " : "", g->input[i]->name);
    sparta_status status = !names.size
                               ? SPARTA_OK
                               : sp_fail(c->cx, SPARTA_E_USAGE,
                                         "%s: not given: %s; give every input with --input NAME=F.npy or "
                                         "NAME=random, or in the file of --inputs, or none",
                                         c->verb->name, sp_text_str(&names));
    sp_text_free(&names);
    return status;
}

/* ------------------------------------------------------------------ sizes */

/* A file's dims say what its symbols are. */
static sparta_status bind_file(cli *c, const sp_value *v, sparta_tensor *t, sp_bindings *sizes)
{
    if (t->rank != v->dims.rank)
        return sp_fail(c->cx, SPARTA_E_SHAPE,
                       "--input %s: has %d dimensions and the model wants %d; give an array of that shape",
                       v->name, t->rank, v->dims.rank);
    if (t->dtype != v->dtype && !sp_tensor_narrow(t, v->dtype))
        return sp_fail(c->cx, SPARTA_E_DTYPE, "--input %s: is %s and the model wants %s; convert it", v->name,
                       sparta_dtype_name(t->dtype), sparta_dtype_name(v->dtype));
    for (int d = 0; d < t->rank; d++) {
        const char *symbol;
        int64_t fixed;
        if (sp_expr_is_const(v->dims.dim[d], &fixed) && fixed != t->dim[d])
            return sp_fail(
                c->cx, SPARTA_E_SHAPE,
                "--input %s: dimension %d is %lld and the model wants %lld; give an array of that shape",
                v->name, d, (long long)t->dim[d], (long long)fixed);
        if (!sp_expr_is_symbol(v->dims.dim[d], &symbol)) continue;
        int at = 0;
        while (at < sizes->n && strcmp(sizes->name[at], symbol)) at++;
        if (at < sizes->n && sizes->value[at] != t->dim[d])
            return sp_fail(c->cx, SPARTA_E_USAGE,
                           "--input %s: makes %s %lld, which is %lld elsewhere; give inputs of one size",
                           v->name, symbol, (long long)t->dim[d], (long long)sizes->value[at]);
        ((const char **)sizes->name)[at] = symbol;
        ((int64_t *)sizes->value)[at] = t->dim[d];
        if (at == sizes->n) sizes->n++;
    }
    return SPARTA_OK;
}

static sparta_status find_sizes(cli *c, const sp_graph *g, given *list, sp_bindings *out)
{
    sp_bindings flags, all;
    SP_TRY(cli_dims(c, &flags));
    size_t most = (size_t)flags.n + (size_t)g->n_inputs * SPARTA_RANK + 1;
    const char **name = sp_arena_array(c->arena, most, sizeof *name);
    SP_NEED(c->cx, name);
    int64_t *value = sp_arena_array(c->arena, most, sizeof *value);
    SP_NEED(c->cx, value);
    for (int i = 0; i < flags.n; i++) {
        name[i] = flags.name[i];
        value[i] = flags.value[i];
    }
    all = (sp_bindings){flags.n, name, value};
    for (int i = 0; i < g->n_inputs; i++)
        if (list[i].loaded) SP_TRY(bind_file(c, g->input[i], &list[i].file, &all));
    SP_TRY(sp_sizes_fill(c->cx, c->arena, g, &all, out));
    sp_sizes_note(c->cx, &all, out);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ numbers */

/* Floats in [lo, hi); integers the whole numbers in it. */
static void fill_range(sparta_tensor *t, const given *x, uint64_t seed)
{
    sp_rng rng = sp_rng_seed(seed);
    bool whole = !sp_dtype_is_float(t->dtype);
    int64_t n = sparta_tensor_elements(t);
    for (int64_t i = 0; i < n; i++) {
        double v = x->lo + sp_rng_uniform(&rng) * (x->hi - x->lo);
        if (whole)
            sp_element_set_int(t->dtype, t->data, i, (int64_t)floor(v));
        else
            sp_element_set(t->dtype, t->data, i, v);
    }
}

static sparta_status fill_all(cli *c, const sp_graph *g, given *list, cli_inputs *out)
{
    uint64_t seed = (uint64_t)cli_int(c, CLI_SEED, 0);
    sp_make_inputs make = {.seed = seed};
    SP_TRY(find_sizes(c, g, list, &make.sizes));
    SP_TRY(sp_inputs_make(c->cx, g, &make, out->tensor));
    out->n = g->n_inputs;
    for (int i = 0; i < g->n_inputs; i++) {
        out->generated[i] = !list[i].loaded;
        if (list[i].ranged) fill_range(&out->tensor[i].tensor, &list[i], seed + 1 + (uint64_t)i);
        if (!list[i].loaded) continue;
        sp_free(c->cx, out->tensor[i].tensor.data);
        out->tensor[i].tensor = list[i].file;
        list[i].loaded = false; /* it has a new owner */
    }
    return SPARTA_OK;
}

/* With what --dim says in place of the symbols where that is needed: to infer the shapes at all, or to broadcast. */
sparta_status cli_open_model(cli *c, const char *path, sp_model **out)
{
    sp_import_options options = {cli_text(c, CLI_EXTERNAL, NULL)};
    sp_bindings sizes;
    SP_TRY(cli_dims(c, &sizes));
    for (bool bound = false;; bound = true) {
        sp_model *m = NULL;
        bool bind = false;
        SP_TRY(sp_model_open(c->cx, path, &options, &m));
        sparta_status status = bound ? sp_ops_bind(m->graph, &sizes) : SPARTA_OK;
        if (!status) status = sp_ops_infer_given(m->graph, &sizes, &bind);
        if (!status && (!bind || bound)) {
            *out = m;
            return SPARTA_OK;
        }
        sp_model_close(m);
        if (!bind || bound) return status;
    }
}

sparta_status cli_inputs_make(cli *c, const sp_graph *g, cli_inputs *out)
{
    const cli_values *v = &c->option[CLI_INPUT];
    const char *file = cli_text(c, CLI_INPUTS, NULL);
    given *list = sp_arena_array(c->arena, (size_t)g->n_inputs + 1, sizeof *list);
    SP_NEED(c->cx, list);
    cli_inputs in = {.generated = sp_arena_array(c->arena, (size_t)g->n_inputs + 1, sizeof *in.generated)};
    SP_NEED(c->cx, in.generated);
    in.tensor = sp_arena_array(c->arena, (size_t)g->n_inputs + 1, sizeof *in.tensor);
    SP_NEED(c->cx, in.tensor);
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < v->n && !status; i++) status = take_one(c, g, v->value[i], list);
    if (!status && file) status = take_file(c, g, file, list);
    if (!status && (v->n || file)) status = missing(c, g, list);
    if (!status) status = fill_all(c, g, list, &in);
    for (int i = 0; i < g->n_inputs; i++)
        if (list[i].loaded) sp_free(c->cx, list[i].file.data);
    if (!status) *out = in;
    return status;
}

void cli_inputs_free(cli *c, cli_inputs *in)
{
    if (in->tensor) sp_inputs_free(c->cx, in->tensor, in->n);
    *in = (cli_inputs){0};
}
