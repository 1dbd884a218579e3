/* model.c: the walk over a ModelProto:
 *
 *     opset, graph -> operators known? -> initialisers -> inputs -> outputs of all nodes -> nodes -> outputs -> sort, verify
 *
 * Each step reads the GraphProto's fields again: nothing is kept but the graph itself. */
#include "import/onnx.h"
#include "import/pt2.h"
#include <string.h>

/* ------------------------------------------------------------------ ModelProto */

static sparta_status read_opset(sp_importer *im, sp_bytes bytes)
{
    sp_wire w = sp_wire_of(im->cx, "OperatorSetIdProto", bytes);
    sp_wire_field f;
    const char *domain = "";
    int64_t version = 0;
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == OPSET_DOMAIN) SP_TRY(sp_wire_string(&w, &f, im->scratch, &domain));
        if (f.number == OPSET_VERSION) SP_TRY(sp_wire_int(&w, &f, &version));
    }
    if (*domain && strcmp(domain, "ai.onnx") != 0) {
        im->other_domains = true;
        return SPARTA_OK;
    }
    if (version < SP_OPSET_OLDEST || version > SP_OPSET_NEWEST)
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "opset %ld is not supported; export or convert the model to opset %d to %d",
                       (long)version, SP_OPSET_OLDEST, SP_OPSET_NEWEST);
    if (im->model->opset && im->model->opset != version)
        return sp_fail(im->cx, SPARTA_E_FORMAT, "two opsets, %d and %ld, for one domain", im->model->opset,
                       (long)version);
    im->model->opset = (int)version;
    return SPARTA_OK;
}

static sparta_status read_model(sp_importer *im, sp_bytes bytes, sp_bytes *graph)
{
    sp_wire w = sp_wire_of(im->cx, "ModelProto", bytes);
    sp_wire_field f;
    sp_bytes opset;
    *graph = (sp_bytes){0};
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == MODEL_GRAPH) SP_TRY(sp_wire_once(&w, &f, graph));
        if (f.number == MODEL_FUNCTIONS)
            return sp_fail(
                im->cx, SPARTA_E_UNSUPPORTED,
                "the model has local functions; inline them first (onnx.inliner.inline_local_functions)");
        if (f.number != MODEL_OPSET) continue;
        SP_TRY(sp_wire_bytes(&w, &f, &opset));
        SP_TRY(read_opset(im, opset));
    }
    if (!graph->data)
        return sp_fail(im->cx, SPARTA_E_FORMAT, "there is no graph in it; it is no ONNX model or truncated");
    if (!im->model->opset && im->other_domains)
        return sp_fail(
            im->cx, SPARTA_E_UNSUPPORTED,
            "it has no operators of ai.onnx, only of other domains; export it with standard operators");
    if (!im->model->opset)
        return sp_fail(im->cx, SPARTA_E_FORMAT,
                       "it does not say its opset; it is no ONNX model or truncated");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ GraphProto */

static sparta_status add_initializer(sp_importer *im, sp_bytes bytes)
{
    sparta_tensor t;
    const char *name;
    sp_value *v;
    if (sp_onnx_read_tensor(im->cx, im, im->g->arena, bytes, &t, &name) != SPARTA_OK)
        return sp_fail_in(im->cx, "initialiser");
    if (!*name) return sp_fail(im->cx, SPARTA_E_FORMAT, "an initialiser has no name");
    SP_TRY(sp_graph_add_constant(im->g, name, &t, false, &v));
    v->origin = v->name;
    if (sp_dtype_is_float(t.dtype) &&
        !sp_int_add(im->model->parameters, sparta_tensor_elements(&t), &im->model->parameters))
        return sp_fail(im->cx, SPARTA_E_LIMIT, "more parameters than can be counted");
    return SPARTA_OK;
}

static sparta_status add_output(sp_importer *im, sp_bytes bytes)
{
    const char *name;
    SP_TRY(sp_onnx_info_name(im, bytes, &name));
    sp_value *v = sp_graph_find(im->g, name);
    if (!v) return sp_fail(im->cx, SPARTA_E_FORMAT, "output '%.200s': nothing in the model makes it", name);
    return sp_graph_add_output(im->g, v);
}

/* Call `step` with every message of one field. */
static sparta_status each(sp_importer *im, sp_bytes graph, uint32_t field,
                          sparta_status (*step)(sp_importer *, sp_bytes))
{
    sp_wire w = sp_wire_of(im->cx, "GraphProto", graph);
    sp_wire_field f;
    sp_bytes bytes;
    for (;;) {
        SP_TRY(sp_check_cancel(im->cx));
        SP_TRY(sp_wire_find(&w, field, &f));
        if (!f.number) return SPARTA_OK;
        SP_TRY(sp_wire_bytes(&w, &f, &bytes));
        sp_arena *scratch = sp_arena_create(im->cx);
        SP_NEED(im->cx, scratch);
        im->scratch = scratch;
        sparta_status status = step(im, bytes);
        im->scratch = im->keep;
        sp_arena_free(scratch);
        SP_TRY(status);
    }
}

static sparta_status refuse_sparse(sp_importer *im, sp_bytes bytes)
{
    (void)bytes;
    return sp_fail(
        im->cx, SPARTA_E_UNSUPPORTED,
        "the model has sparse initialisers; save them dense, with zeros: sparta finds the zeros itself");
}

static sparta_status graph_name(sp_importer *im, sp_bytes graph, const char **name)
{
    sp_wire w = sp_wire_of(im->cx, "GraphProto", graph);
    sp_wire_field f;
    *name = "";
    for (;;) {
        SP_TRY(sp_wire_find(&w, GRAPH_NAME, &f));
        if (!f.number) return SPARTA_OK;
        SP_TRY(sp_wire_string(&w, &f, im->scratch, name));
    }
}

static sparta_status see_nodes(sp_importer *im, sp_bytes graph)
{
    return each(im, graph, GRAPH_NODE, sp_onnx_see_node);
}

static sparta_status read_graph(sp_importer *im, sp_bytes graph)
{
    const char *name;
    SP_TRY(graph_name(im, graph, &name));
    SP_TRY(sp_graph_create(im->cx, name, &im->model->graph));
    im->g = im->model->graph;
    SP_TRY(each(im, graph, GRAPH_SPARSE, refuse_sparse));
    SP_TRY(sp_onnx_check_operators(im, graph, see_nodes));
    SP_TRY(each(im, graph, GRAPH_INITIALIZER, add_initializer));
    SP_TRY(each(im, graph, GRAPH_INPUT, sp_onnx_add_input));
    SP_TRY(sp_onnx_relate_dims(im));
    SP_TRY(each(im, graph, GRAPH_NODE, sp_onnx_declare_node));
    SP_TRY(each(im, graph, GRAPH_NODE, sp_onnx_add_node));
    SP_TRY(each(im, graph, GRAPH_OUTPUT, add_output));
    if (!im->g->n_outputs) return sp_fail(im->cx, SPARTA_E_FORMAT, "the graph has no outputs");
    SP_TRY(sp_graph_sort(im->g));
    SP_TRY(sp_onnx_name_layers(im));
    return sp_graph_verify(im->g);
}

/* ------------------------------------------------------------------ the doors */

static sparta_status import(sp_importer *im, sp_bytes bytes)
{
    sp_bytes graph;
    im->keep = im->scratch = sp_arena_create(im->cx);
    im->files = sp_map_create(im->cx);
    im->symbols = sp_map_create(im->cx);
    im->renamed = sp_map_create(im->cx);
    if (!im->keep || !im->files || !im->symbols || !im->renamed) return sp_ctx_status(im->cx);
    if (!bytes.size) return sp_fail(im->cx, SPARTA_E_FORMAT, "the file is empty");
    SP_TRY(sp_onnx_not_foreign(im->cx, bytes));
    SP_TRY(read_model(im, bytes, &graph));
    return read_graph(im, graph);
}

/* Fills m; on failure the caller frees it. */
static sparta_status import_into(sparta_ctx *cx, sp_model *m, sp_bytes bytes, const char *folder,
                                 const sp_import_options *options)
{
    sp_importer im = {.cx = cx, .model = m, .folder = folder, .options = options, .suffix = 2};
    sparta_status status = sp_pt2_is(bytes) ? sp_pt2_import(m, cx, bytes) : import(&im, bytes);
    sp_map_free(im.files);
    sp_map_free(im.symbols);
    sp_map_free(im.renamed);
    sp_arena_free(im.keep);
    return status;
}

static void free_model(sparta_ctx *cx, sp_model *m)
{
    sp_graph_free(m->graph);
    for (int i = 0; i < m->n_external; i++) sp_mapped_close(&m->external[i]);
    sp_free(cx, m->external);
    if (m->file.data) sp_mapped_close(&m->file);
    sp_free(cx, m);
}

sparta_status sp_model_parse(sparta_ctx *cx, const void *bytes, size_t n, const char *folder, sp_model **out)
{
    sp_model *m = sp_zalloc(cx, sizeof *m);
    SP_NEED(cx, m);
    sparta_status status = import_into(cx, m, (sp_bytes){bytes, n}, folder, NULL);
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
    char *folder = sp_zalloc(cx, n + 1);
    if (folder) memcpy(folder, from, n);
    return folder;
}

static sparta_status open_into(sparta_ctx *cx, sp_model *m, const char *path,
                               const sp_import_options *options)
{
    char *folder = options && options->external_data_root ? NULL : folder_of(cx, path);
    const char *root = options && options->external_data_root ? options->external_data_root : folder;
    SP_NEED(cx, root);
    sparta_status status = sp_mapped_open(cx, path, &m->file);
    if (status == SPARTA_OK) {
        status = import_into(cx, m, (sp_bytes){m->file.data, m->file.size}, root, options);
        if (status != SPARTA_OK) sp_fail_in(cx, "%s", path);
    }
    sp_free(cx, folder);
    return status;
}

sparta_status sp_model_open(sparta_ctx *cx, const char *path, const sp_import_options *options,
                            sp_model **out)
{
    sp_model *m = sp_zalloc(cx, sizeof *m);
    SP_NEED(cx, m);
    sparta_status status = open_into(cx, m, path, options);
    if (status == SPARTA_OK && !(m->path = sp_arena_string(m->graph->arena, path)))
        status = sp_ctx_status(cx);
    if (status != SPARTA_OK) {
        free_model(cx, m);
        return status;
    }
    *out = m;
    return SPARTA_OK;
}

sparta_status sp_model_check(sparta_ctx *cx, const sp_model *m)
{
    if (!m->path) return SPARTA_OK;
    SP_TRY(sp_mapped_check(cx, &m->file, m->path));
    for (int i = 0; i < m->n_external; i++)
        if (sp_mapped_check(cx, &m->external[i], "a file with its weights") != SPARTA_OK)
            return sp_fail_in(cx, "%s", m->path);
    return SPARTA_OK;
}

void sp_model_close(sp_model *m)
{
    if (m) free_model(m->graph->cx, m);
}
