/* The driver: import, infer, passes, choose, layout, pack, verify. */
#include "compile/lower.h"
#include "ops/ops.h"
#include "run/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ dims: "name=4" fixes a symbol, "name=1:8:32" bounds it */

static sparta_status parse_dim(sparta_ctx *cx, const char *text, char name[64], int64_t *value, bool *fixed)
{
    const char *eq = strchr(text, '='), *p;
    int64_t v[3] = {0};
    int n = 0;
    if (!eq || eq == text || eq - text >= 64)
        return sparta_fail(cx, SPARTA_E_USAGE, "--dim %s: expected NAME=N or NAME=MIN:OPT:MAX", text);
    memcpy(name, text, (size_t)(eq - text));
    name[eq - text] = 0;
    for (p = eq; *p && n < 3; n++) {
        char word[24];
        const size_t length = strcspn(++p, ":");
        snprintf(word, sizeof word, "%.*s", (int)SPARTA_MIN(length, sizeof word - 1), p);
        if (!sparta_parse_int(word, &v[n]) || v[n] < 1)
            return sparta_fail(cx, SPARTA_E_USAGE, "--dim %s: '%s' is not a size of at least 1", text, word);
        p += length;
    }
    if (*p || (n != 1 && n != 3) || (n == 3 && (v[0] > v[1] || v[1] > v[2])))
        return sparta_fail(cx, SPARTA_E_USAGE, "--dim %s: expected NAME=N or NAME=MIN:OPT:MAX", text);
    *fixed = n == 1;
    *value = n == 1 ? v[0] : v[2];
    return SPARTA_OK;
}

static bool has_symbol(const sparta_graph *g, const char *name)
{
    const char *symbol;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++)
            if (sparta_expr_is_symbol(g->input[i]->dims.dim[d], &symbol) && !strcmp(symbol, name))
                return true;
    return false;
}

static sparta_status bind_dims(sparta_ctx *cx, sparta_graph *g, const char *const *dims)
{
    for (int i = 0; dims && dims[i]; i++) {
        char name[64];
        int64_t value = 0;
        bool fixed = false;
        const char *names[1] = {name};
        SPARTA_TRY(parse_dim(cx, dims[i], name, &value, &fixed));
        const sparta_bindings b = {1, names, &value};
        if (fixed)
            SPARTA_TRY(sparta_ops_bind(g, &b));
        else if (!has_symbol(g, name))
            return sparta_fail(cx, SPARTA_E_USAGE, "--dim %s: no input has a dimension '%s'", dims[i], name);
        else
            SPARTA_TRY(sparta_graph_add_bound(g, name, value));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ masks */

static sparta_status apply_mask(sparta_ctx *cx, sparta_graph *g, sparta_value *v, const sparta_tensor *mask)
{
    if (!sparta_tensor_same_shape(v->constant, mask)) {
        sparta_text a, b;
        sparta_text_init(&a, cx), sparta_text_init(&b, cx);
        sparta_tensor_print_shape(mask, &a), sparta_tensor_print_shape(v->constant, &b);
        sparta_fail(cx, SPARTA_E_USAGE, "mask '%s': it is %s, the weight is %s", v->name, sparta_text_str(&a),
                    sparta_text_str(&b));
        sparta_text_free(&a), sparta_text_free(&b);
        return sparta_ctx_status(cx);
    }
    sparta_tensor *copy = sparta_arena_alloc(g->arena, sizeof *copy);
    SPARTA_NEED(cx, copy);
    SPARTA_TRY(sparta_tensor_alloc_in(g->arena, v->dtype, v->constant->rank, v->constant->dim, copy));
    SPARTA_TRY(sparta_tensor_copy(cx, v->constant, copy));
    for (int64_t i = 0, n = sparta_tensor_elements(mask); i < n; i++)
        if (sparta_element_get(mask->dtype, mask->data, i) == 0)
            sparta_element_set(v->dtype, copy->data, i, 0);
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
    sparta_npz z;
    SPARTA_TRY(sparta_npz_read(cx, path, &z));
    sparta_status s = SPARTA_OK;
    for (int i = 0; i < z.n && s == SPARTA_OK; i++) {
        sparta_value *v = weight_named(g, z.entry[i].name);
        s = v ? apply_mask(cx, g, v, &z.entry[i].tensor)
              : sparta_fail(cx, SPARTA_E_USAGE,
                            "%s: the model has no weight '%s'; `sparta inspect` lists them", path,
                            z.entry[i].name);
    }
    sparta_npz_free(&z);
    return s;
}

/* ------------------------------------------------------------------ lowering */

static sparta_status find_target(sparta_ctx *cx, const char *name, sparta_target *out)
{
    if (!name)
        *out = sparta_target_best();
    else if (!sparta_target_parse(name, out))
        return sparta_fail(cx, SPARTA_E_USAGE, "--target %s: unknown; this build knows avx512 and portable",
                           name);
    else if (!sparta_target_fits(*out))
        return sparta_fail(cx, SPARTA_E_UNSUPPORTED,
                           "--target %s: this CPU cannot run it, so nothing could be checked or timed", name);
    return SPARTA_OK;
}

static sparta_status lower(lowering *l)
{
    SPARTA_TRY(find_target(l->cx, l->request->options.target, &l->target));
    SPARTA_TRY(sparta_tune_open(l->cx, l->request->db, &l->db));
    SPARTA_TRY(sparta_lower_choose(l));
    SPARTA_TRY(sparta_lower_layout(l));
    SPARTA_TRY(sparta_lower_pack(l));
    return sparta_graph_verify(l->g);
}

sparta_status sparta_compile_graph(sparta_ctx *cx, sparta_graph *g, const sparta_compile_request *request,
                                   sparta_package **out)
{
    lowering l = {.cx = cx, .g = g, .request = request};
    SPARTA_TRY(sparta_lower_strip(g));
    SPARTA_TRY(sparta_compile_passes(g));
    SPARTA_TRY(sparta_package_create(cx, &l.package));
    l.arena = sparta_arena_create(cx);
    sparta_status s = l.arena ? lower(&l) : sparta_ctx_status(cx);
    for (int i = 0; i < l.n_nodes; i++) sparta_mask_free(cx, &l.node[i].mask);
    for (int i = 0; i < l.n_kernels; i++)
        if (l.kernel[i].object) sparta_jit_close(l.kernel[i].object);
    sparta_tune_close(l.db);
    sparta_arena_free(l.arena);
    if (s != SPARTA_OK) {
        sparta_package_close(l.package);
        return s;
    }
    l.package->plan = g;
    *out = l.package;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ verification of the result */

/* Sizes for a check: symbols small, so that the references are quick: batch-like 1, everything else 6 (within its bound). */
static void small_sizes(const sparta_graph *g, const char **name, int64_t *size, int *n)
{
    *n = 0;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++) {
            const char *symbol;
            bool known = false;
            if (!sparta_expr_is_symbol(g->input[i]->dims.dim[d], &symbol)) continue;
            for (int k = 0; k < *n; k++) known |= !strcmp(name[k], symbol);
            if (known || *n == 32) continue;
            name[*n] = symbol;
            size[*n] = SPARTA_MIN(d == 0 ? 1 : 6, sparta_symbol_bound(g, symbol));
            (*n)++;
        }
}

static double difference(const sparta_tensor *a, const sparta_tensor *b, double *most)
{
    double worst = 0;
    *most = 0;
    for (int64_t i = 0, n = sparta_tensor_elements(b); i < n; i++) {
        const double x = sparta_element_get(a->dtype, a->data, i),
                     y = sparta_element_get(b->dtype, b->data, i);
        if ((isnan(x) && isnan(y)) || x == y) continue;
        if (isfinite(y) && fabs(y) > *most) *most = fabs(y);
        if (!(fabs(x - y) <= worst)) worst = isnan(x - y) ? INFINITY : fabs(x - y);
    }
    for (int64_t i = 0, n = sparta_tensor_elements(b); i < n; i++) {
        const double y = sparta_element_get(b->dtype, b->data, i);
        if (isfinite(y) && fabs(y) > *most) *most = fabs(y);
    }
    return worst;
}

static sparta_status compare(sparta_ctx *cx, const sparta_package *p, const sparta_graph *reference,
                             const sparta_named_tensor *inputs)
{
    const int n = reference->n_outputs;
    sparta_session *session = NULL;
    sparta_named_tensor *got = sparta_alloc_array(cx, (size_t)n + 1, sizeof *got);
    sparta_tensor *want = sparta_alloc_array(cx, (size_t)n + 1, sizeof *want);
    sparta_session_options options = {.size = sizeof options, .threads = 1};
    sparta_status s = got && want ? sparta_session_create(cx, p, &options, &session) : sparta_ctx_status(cx);
    for (int i = 0; i < n && s == SPARTA_OK; i++) got[i].name = reference->output[i]->name;
    if (s == SPARTA_OK) s = sparta_session_run(cx, session, inputs, reference->n_inputs, got, n);
    if (s == SPARTA_OK) s = sparta_ops_run(cx, reference, inputs, reference->n_inputs, want, NULL, NULL);
    for (int i = 0; i < n && s == SPARTA_OK; i++) {
        double most, worst = difference(&got[i].tensor, &want[i], &most);
        if (worst > 1e-6 + 1e-4 * most)
            s = sparta_fail(cx, SPARTA_E_DIFFER,
                            "compile: output '%s' differs from the reference by %g (largest value %g); "
                            "nothing was written",
                            got[i].name, worst, most);
    }
    for (int i = 0; want && i < n; i++) sparta_free(cx, want[i].data);
    sparta_free(cx, want);
    sparta_free(cx, got);
    sparta_session_free(session);
    return s;
}

/* Run the package and the reference of the graph on made-up inputs of a few tokens. */
static sparta_status verify(sparta_ctx *cx, const sparta_package *p, const sparta_graph *reference)
{
    const char *name[32];
    int64_t size[32];
    int n;
    sparta_named_tensor *inputs = sparta_alloc_array(cx, (size_t)reference->n_inputs + 1, sizeof *inputs);
    SPARTA_NEED(cx, inputs);
    small_sizes(reference, name, size, &n);
    sparta_status s = sparta_inputs_make(cx, reference, &(sparta_make_inputs){11, {n, name, size}}, inputs);
    if (s == SPARTA_OK) {
        s = compare(cx, p, reference, inputs);
        sparta_inputs_free(cx, inputs, reference->n_inputs);
    }
    sparta_free(cx, inputs);
    return s;
}

/* ------------------------------------------------------------------ files */

static void close_model(void *model)
{
    sparta_model_close(model);
}

static sparta_status load(sparta_ctx *cx, const char *onnx, const sparta_compile_request *request,
                          sparta_model **out)
{
    const sparta_import_options options = {.external_data_root = request->options.external_data_root};
    sparta_model *m;
    SPARTA_TRY(sparta_model_open(cx, onnx, &options, &m));
    sparta_status s = bind_dims(cx, m->graph, request->options.dims);
    if (s == SPARTA_OK && request->options.masks)
        s = sparta_compile_masks(cx, m->graph, request->options.masks);
    if (s != SPARTA_OK) {
        sparta_model_close(m);
        return s;
    }
    *out = m;
    return SPARTA_OK;
}

/* The check imports the model anew: what is compared with is the file, not what the passes made of it. */
static sparta_status verify_file(sparta_ctx *cx, const char *onnx, const sparta_compile_request *request,
                                 const sparta_package *p)
{
    sparta_model *m;
    SPARTA_TRY(load(cx, onnx, request, &m));
    sparta_status s = sparta_ops_infer(m->graph);
    if (s == SPARTA_OK) s = verify(cx, p, m->graph);
    sparta_model_close(m);
    return s;
}

sparta_status sparta_compile_file(sparta_ctx *cx, const char *onnx, const sparta_compile_request *request,
                                  sparta_package **out)
{
    sparta_model *m;
    sparta_package *p;
    SPARTA_TRY(load(cx, onnx, request, &m));
    sparta_status s = sparta_compile_graph(cx, m->graph, request, &p);
    if (s != SPARTA_OK) {
        sparta_model_close(m);
        return s;
    }
    p->owner = (sparta_model_owner){m, close_model};
    if (!request->no_verify) s = verify_file(cx, onnx, request, p);
    if (s != SPARTA_OK) {
        sparta_package_close(p);
        return s;
    }
    *out = p;
    return SPARTA_OK;
}

sparta_status sparta_compile(sparta_ctx *cx, const char *onnx, const char *package,
                             const sparta_compile_options *options)
{
    sparta_compile_request request = {0};
    sparta_package *p;
    if (options) memcpy(&request.options, options, SPARTA_MIN(options->size, sizeof request.options));
    SPARTA_TRY(sparta_compile_file(cx, onnx, &request, &p));
    sparta_status s = sparta_package_write(cx, p, package);
    sparta_package_close(p);
    return s;
}
