/* model.c: the walk over a ModelProto:
 *
 *     opset, graph -> initialisers -> inputs -> outputs of all nodes -> nodes -> outputs -> sort, verify
 *
 * Each step reads the GraphProto's fields again: nothing is kept but the graph itself. */
#include "import/onnx.h"
#include <string.h>

/* ------------------------------------------------------------------ ModelProto */

static sparta_status read_opset(sparta_importer *im, sparta_view bytes)
{
    sparta_wire w = sparta_wire_of(im->cx, "OperatorSetIdProto", bytes);
    sparta_wire_field f;
    const char *domain = "";
    int64_t version = 0;
    for (;;) {
        SPARTA_TRY(sparta_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == OPSET_DOMAIN) SPARTA_TRY(sparta_wire_string(&w, &f, im->scratch, &domain));
        if (f.number == OPSET_VERSION) SPARTA_TRY(sparta_wire_int(&w, &f, &version));
    }
    if (*domain && strcmp(domain, "ai.onnx") != 0) {
        im->other_domains = true;
        return SPARTA_OK;
    }
    if (version < SPARTA_OPSET_OLDEST || version > SPARTA_OPSET_NEWEST)
        return sparta_fail(im->cx, SPARTA_E_UNSUPPORTED,
                           "opset %ld is not supported; export or convert the model to opset %d to %d",
                           (long)version, SPARTA_OPSET_OLDEST, SPARTA_OPSET_NEWEST);
    if (im->model->opset && im->model->opset != version)
        return sparta_fail(im->cx, SPARTA_E_FORMAT, "two opsets, %d and %ld, for one domain",
                           im->model->opset, (long)version);
    im->model->opset = (int)version;
    return SPARTA_OK;
}

static sparta_status read_model(sparta_importer *im, sparta_view bytes, sparta_view *graph)
{
    sparta_wire w = sparta_wire_of(im->cx, "ModelProto", bytes);
    sparta_wire_field f;
    sparta_view opset;
    *graph = (sparta_view){0};
    for (;;) {
        SPARTA_TRY(sparta_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == MODEL_GRAPH) SPARTA_TRY(sparta_wire_once(&w, &f, graph));
        if (f.number == MODEL_FUNCTIONS)
            return sparta_fail(
                im->cx, SPARTA_E_UNSUPPORTED,
                "the model has local functions; inline them first (onnx.inliner.inline_local_functions)");
        if (f.number != MODEL_OPSET) continue;
        SPARTA_TRY(sparta_wire_bytes(&w, &f, &opset));
        SPARTA_TRY(read_opset(im, opset));
    }
    if (!graph->data)
        return sparta_fail(im->cx, SPARTA_E_FORMAT,
                           "there is no graph in it; it is no ONNX model or truncated");
    if (!im->model->opset && im->other_domains)
        return sparta_fail(
            im->cx, SPARTA_E_UNSUPPORTED,
            "it has no operators of ai.onnx, only of other domains; export it with standard operators");
    if (!im->model->opset)
        return sparta_fail(im->cx, SPARTA_E_FORMAT,
                           "it does not say its opset; it is no ONNX model or truncated");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ GraphProto */

static sparta_status add_initializer(sparta_importer *im, sparta_view bytes)
{
    sparta_tensor t;
    const char *name;
    sparta_value *v;
    if (sparta_onnx_read_tensor(im->cx, im, im->g->arena, bytes, &t, &name) != SPARTA_OK)
        return sparta_fail_in(im->cx, "initialiser");
    if (!*name) return sparta_fail(im->cx, SPARTA_E_FORMAT, "an initialiser has no name");
    SPARTA_TRY(sparta_graph_add_constant(im->g, name, &t, false, &v));
    v->origin = v->name;
    if (sparta_dtype_is_float(t.dtype) &&
        !sparta_int_add(im->model->parameters, sparta_tensor_elements(&t), &im->model->parameters))
        return sparta_fail(im->cx, SPARTA_E_LIMIT, "more parameters than can be counted");
    return SPARTA_OK;
}

static sparta_status add_output(sparta_importer *im, sparta_view bytes)
{
    const char *name;
    SPARTA_TRY(sparta_onnx_info_name(im, bytes, &name));
    sparta_value *v = sparta_graph_find(im->g, name);
    if (!v)
        return sparta_fail(im->cx, SPARTA_E_FORMAT, "output '%.200s': nothing in the model makes it", name);
    return sparta_graph_add_output(im->g, v);
}

/* Call `step` with every message of one field. */
static sparta_status each(sparta_importer *im, sparta_view graph, uint32_t field,
                          sparta_status (*step)(sparta_importer *, sparta_view))
{
    sparta_wire w = sparta_wire_of(im->cx, "GraphProto", graph);
    sparta_wire_field f;
    sparta_view bytes;
    for (;;) {
        SPARTA_TRY(sparta_check_cancel(im->cx));
        SPARTA_TRY(sparta_wire_find(&w, field, &f));
        if (!f.number) return SPARTA_OK;
        SPARTA_TRY(sparta_wire_bytes(&w, &f, &bytes));
        sparta_arena *scratch = sparta_arena_create(im->cx);
        SPARTA_NEED(im->cx, scratch);
        im->scratch = scratch;
        sparta_status status = step(im, bytes);
        im->scratch = im->keep;
        sparta_arena_free(scratch);
        SPARTA_TRY(status);
    }
}

static sparta_status refuse_sparse(sparta_importer *im, sparta_view bytes)
{
    (void)bytes;
    return sparta_fail(
        im->cx, SPARTA_E_UNSUPPORTED,
        "the model has sparse initialisers; save them dense, with zeros: sparta finds the zeros itself");
}

static sparta_status graph_name(sparta_importer *im, sparta_view graph, const char **name)
{
    sparta_wire w = sparta_wire_of(im->cx, "GraphProto", graph);
    sparta_wire_field f;
    *name = "";
    for (;;) {
        SPARTA_TRY(sparta_wire_find(&w, GRAPH_NAME, &f));
        if (!f.number) return SPARTA_OK;
        SPARTA_TRY(sparta_wire_string(&w, &f, im->scratch, name));
    }
}

static sparta_status read_graph(sparta_importer *im, sparta_view graph)
{
    const char *name;
    SPARTA_TRY(graph_name(im, graph, &name));
    SPARTA_TRY(sparta_graph_create(im->cx, name, &im->model->graph));
    im->g = im->model->graph;
    SPARTA_TRY(each(im, graph, GRAPH_SPARSE, refuse_sparse));
    SPARTA_TRY(each(im, graph, GRAPH_INITIALIZER, add_initializer));
    SPARTA_TRY(each(im, graph, GRAPH_INPUT, sparta_onnx_add_input));
    SPARTA_TRY(each(im, graph, GRAPH_NODE, sparta_onnx_declare_node));
    SPARTA_TRY(each(im, graph, GRAPH_NODE, sparta_onnx_add_node));
    SPARTA_TRY(each(im, graph, GRAPH_OUTPUT, add_output));
    if (!im->g->n_outputs) return sparta_fail(im->cx, SPARTA_E_FORMAT, "the graph has no outputs");
    SPARTA_TRY(sparta_graph_sort(im->g));
    return sparta_graph_verify(im->g);
}

/* ------------------------------------------------------------------ the doors */

static sparta_status import(sparta_importer *im, sparta_view bytes)
{
    sparta_view graph;
    im->keep = im->scratch = sparta_arena_create(im->cx);
    im->files = sparta_map_create(im->cx);
    im->symbols = sparta_map_create(im->cx);
    im->renamed = sparta_map_create(im->cx);
    if (!im->keep || !im->files || !im->symbols || !im->renamed) return sparta_ctx_status(im->cx);
    if (!bytes.size) return sparta_fail(im->cx, SPARTA_E_FORMAT, "the file is empty");
    SPARTA_TRY(sparta_onnx_not_foreign(im->cx, bytes));
    SPARTA_TRY(read_model(im, bytes, &graph));
    return read_graph(im, graph);
}

/* Fills m; on failure the caller frees it. */
static sparta_status import_into(sparta_ctx *cx, sparta_model *m, sparta_view bytes, const char *folder)
{
    sparta_importer im = {.cx = cx, .model = m, .folder = folder, .suffix = 2};
    sparta_status status = import(&im, bytes);
    sparta_map_free(im.files);
    sparta_map_free(im.symbols);
    sparta_map_free(im.renamed);
    sparta_arena_free(im.keep);
    return status;
}

static void free_model(sparta_ctx *cx, sparta_model *m)
{
    sparta_graph_free(m->graph);
    for (int i = 0; i < m->n_external; i++) sparta_map_close(&m->external[i]);
    sparta_free(cx, m->external);
    if (m->file.data) sparta_map_close(&m->file);
    sparta_free(cx, m);
}

sparta_status sparta_model_parse(sparta_ctx *cx, const void *bytes, size_t n, const char *folder,
                                 sparta_model **out)
{
    sparta_model *m = sparta_zalloc(cx, sizeof *m);
    SPARTA_NEED(cx, m);
    sparta_status status = import_into(cx, m, (sparta_view){bytes, n}, folder);
    if (status != SPARTA_OK) {
        free_model(cx, m);
        return status;
    }
    *out = m;
    return SPARTA_OK;
}

/* The folder of a path: "." when it has none. NULL after a message. */
static char *folder_of(sparta_ctx *cx, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    const char *from = path;
    if (slash && n == 0) n = 1; /* the root */
    if (!slash) {
        from = ".";
        n = 1;
    }
    char *folder = sparta_zalloc(cx, n + 1);
    if (folder) memcpy(folder, from, n);
    return folder;
}

static sparta_status open_into(sparta_ctx *cx, sparta_model *m, const char *path,
                               const sparta_import_options *options)
{
    char *folder = options && options->external_data_root ? NULL : folder_of(cx, path);
    const char *root = options && options->external_data_root ? options->external_data_root : folder;
    SPARTA_NEED(cx, root);
    sparta_status status = sparta_map_open(cx, path, &m->file);
    if (status == SPARTA_OK) {
        status = import_into(cx, m, (sparta_view){m->file.data, m->file.size}, root);
        if (status != SPARTA_OK) sparta_fail_in(cx, "%s", path);
    }
    sparta_free(cx, folder);
    return status;
}

sparta_status sparta_model_open(sparta_ctx *cx, const char *path, const sparta_import_options *options,
                                sparta_model **out)
{
    sparta_model *m = sparta_zalloc(cx, sizeof *m);
    SPARTA_NEED(cx, m);
    sparta_status status = open_into(cx, m, path, options);
    if (status == SPARTA_OK && !(m->path = sparta_arena_string(m->graph->arena, path)))
        status = sparta_ctx_status(cx);
    if (status != SPARTA_OK) {
        free_model(cx, m);
        return status;
    }
    *out = m;
    return SPARTA_OK;
}

sparta_status sparta_model_check(sparta_ctx *cx, const sparta_model *m)
{
    if (!m->path) return SPARTA_OK;
    SPARTA_TRY(sparta_map_check(cx, &m->file, m->path));
    for (int i = 0; i < m->n_external; i++)
        if (sparta_map_check(cx, &m->external[i], "a file with its weights") != SPARTA_OK)
            return sparta_fail_in(cx, "%s", m->path);
    return SPARTA_OK;
}

void sparta_model_close(sparta_model *m)
{
    if (m) free_model(m->graph->cx, m);
}
