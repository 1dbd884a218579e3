/* write.c: a graph as ONNX (IR 10, opset 21, or the lowest that has all it needs: write_opset.c). Weights are streamed, not gathered: everything else is small
 * and made in memory first (structure), sizes are added up, and then the file is written front to back:
 *
 *     ModelProto { ir, producer, opset, GraphProto { name, inputs, outputs, nodes, initialiser, ... } }
 *                                       length known before               head from memory, then its bytes
 *
 * Past the limit the weights go to "<file>.data" beside it, which is complete before the model appears. */
#include "import/onnx.h"
#include "import/write.h"
#include <string.h>

#define LIMIT          ((uint64_t)2 << 30) /* protobuf's */
#define SLACK          ((uint64_t)1 << 20) /* for what is written outside the graph */
#define EXTERNAL_FROM  1024 /* bytes: smaller constants stay in the model, where tools look for shapes */
#define EXTERNAL_ALIGN 64
#define ALIGN          8 /* as large as elements are */

/* ------------------------------------------------------------------ types */

static void put_dim(sp_text *shape, const sp_expr *e)
{
    sp_text dim;
    int64_t value;
    const char *symbol;
    sp_text_init(&dim, shape->cx);
    if (sp_expr_is_const(e, &value))
        sp_wire_put_int(&dim, DIM_VALUE, value);
    else if (sp_expr_is_symbol(e, &symbol))
        sp_wire_put_string(&dim, DIM_PARAM, symbol);
    sp_wire_put_message(shape, SHAPE_DIM, &dim);
    sp_text_free(&dim);
}

static void put_info(sp_text *graph, uint32_t field, const sp_value *v)
{
    sp_text shape, tensor, type, info;
    sp_text *all[] = {&shape, &tensor, &type, &info};
    for (int i = 0; i < 4; i++) sp_text_init(all[i], graph->cx);
    for (int i = 0; i < v->dims.rank; i++) put_dim(&shape, v->dims.dim[i]);
    sp_wire_put_int(&tensor, TENSOR_TYPE_ELEMENT, sp_dtype_to_onnx(v->dtype));
    sp_wire_put_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
    sp_wire_put_message(&type, TYPE_OF_TENSOR, &tensor);
    sp_wire_put_string(&info, INFO_NAME, v->name);
    sp_wire_put_message(&info, INFO_TYPE, &type);
    sp_wire_put_message(graph, field, &info);
    for (int i = 0; i < 4; i++) sp_text_free(all[i]);
}

/* ------------------------------------------------------------------ tensors */

static size_t tensor_bytes(const sparta_tensor *t)
{
    return sp_onnx_packed(t->dtype, sparta_tensor_elements(t));
}

/* Bytes [from, from + n) of elements narrower than a byte, packed, low bits first. */
static void pack(const sparta_tensor *t, size_t from, uint8_t *out, size_t n)
{
    const int bits = sp_dtype_bits(t->dtype), each = 8 / bits;
    const uint8_t *element = (const uint8_t *)t->data + from * (size_t)each;
    size_t left = (size_t)sparta_tensor_elements(t) - from * (size_t)each;
    for (size_t i = 0; i < n; i++) {
        unsigned byte = 0;
        for (int k = 0; k < each && left > 0; k++, left--)
            byte |= (*element++ & ((1u << bits) - 1)) << (k * bits);
        out[i] = (uint8_t)byte;
    }
}

/* Where bytes go: to a file, or to a text. */
typedef struct sink {
    sp_atomic *file;
    sp_text *text;
} sink;

static sparta_status put(const sink *to, const void *bytes, size_t n)
{
    if (to->file) return sp_atomic_write(to->file, bytes, n);
    sp_text_put(to->text, bytes, n);
    return to->text->status;
}

static sparta_status put_contents(const sink *to, const sparta_tensor *t)
{
    const size_t size = tensor_bytes(t);
    uint8_t piece[4096];
    if (sp_dtype_bits(t->dtype) >= 8) return put(to, t->data, size);
    for (size_t at = 0, n; at < size; at += n) {
        n = SP_MIN(size - at, sizeof piece);
        pack(t, at, piece, n);
        SP_TRY(put(to, piece, n));
    }
    return SPARTA_OK;
}

static void put_tensor_head(sp_text *out, const sparta_tensor *t, const char *name, int wider)
{
    for (int i = 0; i < t->rank; i++) sp_wire_put_int(out, TENSOR_DIMS, t->dim[i]);
    sp_wire_put_wide_int(out, TENSOR_TYPE, sp_dtype_to_onnx(t->dtype), wider);
    if (name) sp_wire_put_string(out, TENSOR_NAME, name);
}

void sp_onnx_put_tensor(sp_text *out, uint32_t field, const sparta_tensor *t)
{
    sp_text message;
    sp_text_init(&message, out->cx);
    put_tensor_head(&message, t, NULL, 0);
    sp_wire_put_head(&message, TENSOR_RAW, tensor_bytes(t));
    (void)put_contents(&(sink){.text = &message}, t); /* the text has the status */
    sp_wire_put_message(out, field, &message);
    sp_text_free(&message);
}

static void put_entry(sp_text *out, const char *key, const char *value)
{
    sp_text entry;
    sp_text_init(&entry, out->cx);
    sp_wire_put_string(&entry, ENTRY_KEY, key);
    sp_wire_put_string(&entry, ENTRY_VALUE, value);
    sp_wire_put_message(out, TENSOR_EXTERNAL, &entry);
    sp_text_free(&entry);
}

static void put_number(sp_text *out, const char *key, uint64_t value)
{
    sp_text number;
    sp_text_init(&number, out->cx);
    sp_text_printf(&number, "%lu", (unsigned long)value);
    put_entry(out, key, sp_text_str(&number));
    sp_text_free(&number);
}

/* ------------------------------------------------------------------ initialisers */

typedef struct writing {
    sparta_ctx *cx;
    const sp_graph *g;
    const char *path;
    bool *used;           /* by value id: constants somebody uses */
    const char *location; /* of external data; NULL: none */
    uint64_t *offset;     /* by value id, of external data */
    sp_text structure;    /* the GraphProto without initialisers */
    uint64_t graph_size;
    uint64_t begin; /* of the GraphProto in the file */
} writing;

static bool is_initializer(const writing *w, int i)
{
    const sp_value *v = w->g->value[i];
    return w->used[i] && v->constant && !v->producer;
}

static bool is_external(const writing *w, const sparta_tensor *t)
{
    return w->location && tensor_bytes(t) >= EXTERNAL_FROM;
}

/* The TensorProto up to its raw bytes (or all of it, when they are elsewhere), with the tag and length before
 * it. */
static void put_widened(const writing *w, const sp_value *v, int wider, sp_text *out)
{
    const sparta_tensor *t = v->constant;
    size_t raw = is_external(w, t) ? 0 : tensor_bytes(t);
    sp_text head;
    sp_text_init(&head, w->cx);
    put_tensor_head(&head, t, v->name, wider);
    if (is_external(w, t)) {
        put_entry(&head, "location", w->location);
        put_number(&head, "offset", w->offset[v->id]);
        put_number(&head, "length", tensor_bytes(t));
        sp_wire_put_int(&head, TENSOR_LOCATION, 1);
    } else
        sp_wire_put_head(&head, TENSOR_RAW, raw);
    sp_wire_put_head(out, GRAPH_INITIALIZER, head.size + raw);
    sp_text_put(out, sp_text_str(&head), head.size);
    if (head.status != SPARTA_OK && out->status == SPARTA_OK) out->status = head.status;
    sp_text_free(&head);
}

/* Behind `at` bytes of the GraphProto, the raw bytes at a multiple of 8 in the file, so that who maps it can read them in place: the
 * number of the type, which may have leading zeros, makes up for what is missing. */
static void put_initializer(const writing *w, const sp_value *v, uint64_t at, sp_text *out)
{
    for (int wider = 0; wider < ALIGN; wider++) {
        out->size = 0;
        put_widened(w, v, wider, out);
        if (out->status != SPARTA_OK || (w->begin + at + out->size) % ALIGN == 0) return;
    }
}

/* Adds up the GraphProto. */
static sparta_status measure(writing *w)
{
    uint64_t size = w->structure.size;
    for (int i = 0; i < w->g->n_values; i++) {
        if (!is_initializer(w, i)) continue;
        const sparta_tensor *t = w->g->value[i]->constant;
        sp_text head;
        sp_text_init(&head, w->cx);
        put_initializer(w, w->g->value[i], size, &head);
        size += head.size + (is_external(w, t) ? 0 : tensor_bytes(t));
        sparta_status status = head.status;
        sp_text_free(&head);
        SP_TRY(status);
    }
    w->graph_size = size;
    return SPARTA_OK;
}

static sparta_status write_initializer(const writing *w, const sp_value *v, uint64_t *at, sp_atomic *f)
{
    const sparta_tensor *t = v->constant;
    sp_text head;
    sp_text_init(&head, w->cx);
    put_initializer(w, v, *at, &head);
    *at += head.size + (is_external(w, t) ? 0 : tensor_bytes(t));
    sparta_status status = head.status;
    if (status == SPARTA_OK) status = sp_atomic_write(f, head.data, head.size);
    if (status == SPARTA_OK && !is_external(w, t)) status = put_contents(&(sink){.file = f}, t);
    sp_text_free(&head);
    return status;
}

/* ------------------------------------------------------------------ the files */

static sparta_status write_weights(writing *w, sp_atomic *f)
{
    for (int i = 0; i < w->g->n_values; i++) {
        if (!is_initializer(w, i) || !is_external(w, w->g->value[i]->constant)) continue;
        const sparta_tensor *t = w->g->value[i]->constant;
        SP_TRY(sp_check_cancel(w->cx));
        SP_TRY(sp_atomic_align(f, EXTERNAL_ALIGN));
        w->offset[i] = sp_atomic_offset(f);
        SP_TRY(put_contents(&(sink){.file = f}, t));
    }
    return SPARTA_OK;
}

/* "<path>.data", whose last part is the location, since it is beside the model. */
static sparta_status write_external(writing *w)
{
    sp_text path;
    sp_text_init(&path, w->cx);
    sp_text_printf(&path, "%s.data", w->path);
    sp_atomic *f = path.status == SPARTA_OK ? sp_atomic_open(w->cx, sp_text_str(&path)) : NULL;
    sp_text_free(&path);
    SP_NEED(w->cx, f);
    return sp_atomic_end(f, write_weights(w, f));
}

/* All of the ModelProto before the GraphProto's bytes. */
static void put_model_head(const writing *w, sp_text *head)
{
    const sp_onnx_versions versions = sp_onnx_versions_of(w->g);
    sp_text opset;
    sp_text_init(&opset, w->cx);
    sp_wire_put_string(&opset, OPSET_DOMAIN, "");
    sp_wire_put_int(&opset, OPSET_VERSION, versions.opset);
    sp_wire_put_int(head, MODEL_IR_VERSION, versions.ir);
    sp_wire_put_string(head, MODEL_PRODUCER, "sparta");
    sp_wire_put_string(head, MODEL_PRODUCER_VERSION, SPARTA_VERSION);
    sp_wire_put_message(head, MODEL_OPSET, &opset);
    sp_wire_put_head(head, MODEL_GRAPH, w->graph_size);
    sp_text_free(&opset);
}

/* Sizes, and where the graph begins, which the length of its size has a part in; should that change once more, the file is as good,
 * but not aligned. */
static sparta_status lay_out(writing *w)
{
    sp_text head;
    SP_TRY(measure(w));
    sp_text_init(&head, w->cx);
    put_model_head(w, &head);
    w->begin = head.size;
    const sparta_status status = head.status;
    sp_text_free(&head);
    return status == SPARTA_OK ? measure(w) : status;
}

static sparta_status write_model(const writing *w, sp_atomic *f)
{
    sp_text head;
    sp_text_init(&head, w->cx);
    put_model_head(w, &head);
    sparta_status status = head.status;
    if (status == SPARTA_OK) status = sp_atomic_write(f, head.data, head.size);
    sp_text_free(&head);
    SP_TRY(status);
    SP_TRY(sp_atomic_write(f, sp_text_str(&w->structure), w->structure.size));
    uint64_t at = w->structure.size;
    for (int i = 0; i < w->g->n_values; i++) {
        SP_TRY(sp_check_cancel(w->cx));
        if (is_initializer(w, i)) SP_TRY(write_initializer(w, w->g->value[i], &at, f));
    }
    return SPARTA_OK;
}

static sparta_status write_files(writing *w, uint64_t limit)
{
    SP_TRY(lay_out(w));
    sp_text location;
    sp_text_init(&location, w->cx);
    sparta_status status = SPARTA_OK;
    if (w->graph_size + SLACK > limit) {
        const char *slash = strrchr(w->path, '/');
        sp_text_printf(&location, "%s.data", slash ? slash + 1 : w->path);
        w->location = sp_text_str(&location);
        status = location.status;
        if (status == SPARTA_OK) status = write_external(w);
        if (status == SPARTA_OK) status = lay_out(w);
    }
    sp_atomic *f = NULL;
    if (status == SPARTA_OK) {
        f = sp_atomic_open(w->cx, w->path);
        status = f ? write_model(w, f) : sp_ctx_status(w->cx);
    }
    status = sp_atomic_end(f, status);
    sp_text_free(&location);
    return status;
}

/* ------------------------------------------------------------------ all of it */

static sparta_status put_structure(writing *w)
{
    const sp_graph *g = w->g;
    sp_wire_put_string(&w->structure, GRAPH_NAME, *g->name ? g->name : "model");
    for (int i = 0; i < g->n_inputs; i++) put_info(&w->structure, GRAPH_INPUT, g->input[i]);
    for (int i = 0; i < g->n_outputs; i++) {
        if (!g->output[i]->typed)
            return sp_fail(w->cx, SPARTA_E_USAGE,
                           "output '%.200s': its type is not known; infer shapes before writing",
                           g->output[i]->name);
        put_info(&w->structure, GRAPH_OUTPUT, g->output[i]);
    }
    SP_TRY(sp_onnx_put_nodes(&w->structure, g));
    return w->structure.status;
}

sparta_status sp_onnx_write_within(sparta_ctx *cx, const sp_graph *g, const char *path, uint64_t limit)
{
    writing w = {.cx = cx, .g = g, .path = path};
    sp_text_init(&w.structure, cx);
    w.used = sp_alloc_array(cx, (size_t)g->n_values, sizeof *w.used);
    w.offset = sp_alloc_array(cx, (size_t)g->n_values, sizeof *w.offset);
    sparta_status status = w.used && w.offset ? SPARTA_OK : sp_ctx_status(cx);
    if (status == SPARTA_OK) {
        sp_graph_used(g, w.used);
        status = put_structure(&w);
    }
    if (status == SPARTA_OK) status = write_files(&w, limit);
    sp_text_free(&w.structure);
    sp_free(cx, w.used);
    sp_free(cx, w.offset);
    return status;
}

sparta_status sp_onnx_write(sparta_ctx *cx, const sp_graph *g, const char *path)
{
    return sp_onnx_write_within(cx, g, path, LIMIT);
}
