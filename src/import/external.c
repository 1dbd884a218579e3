/* external.c: weights in files beside the model, or in memory that the caller gives in their place. The model says which file, and is not trusted: known keys
 * only, plain decimal numbers, a path beneath the folder without links (file.h), a range inside the file. */
#include "import/onnx.h"
#include <string.h>

#define MOST_FILES 1024

sparta_status sp_onnx_read_external(sp_arena *a, const sp_wire *w, const sp_wire_field *f,
                                    sp_onnx_external *out)
{
    const char *key = "", *value = "";
    sp_bytes bytes;
    sp_wire_field part;
    SP_TRY(sp_wire_bytes(w, f, &bytes));
    sp_wire entry = sp_wire_of(w->cx, "external_data", bytes);
    for (;;) {
        SP_TRY(sp_wire_next(&entry, &part));
        if (!part.number) break;
        if (part.number == ENTRY_KEY) SP_TRY(sp_wire_string(&entry, &part, a, &key));
        if (part.number == ENTRY_VALUE) SP_TRY(sp_wire_string(&entry, &part, a, &value));
    }
    const char **slot = NULL;
    if (strcmp(key, "location") == 0) slot = &out->location;
    if (strcmp(key, "offset") == 0) slot = &out->offset;
    if (strcmp(key, "length") == 0) slot = &out->length;
    if (strcmp(key, "checksum") == 0 && !out->checksum) {
        out->checksum = true; /* a hint of the exporter (SHA-1); the sizes are what we rely on */
        return SPARTA_OK;
    }
    if (!slot || *slot)
        return sp_fail(w->cx, SPARTA_E_FORMAT,
                       "external_data: key '%.100s' is unknown or there twice; location, offset, length "
                       "and checksum are known",
                       key);
    *slot = value;
    return SPARTA_OK;
}

/* Digits only: no sign, no blank, no hex. An absent number is `otherwise`. */
static sparta_status decimal(sparta_ctx *cx, const char *key, const char *text, uint64_t otherwise,
                             uint64_t *out)
{
    int64_t value = -1;
    *out = otherwise;
    if (!text) return SPARTA_OK;
    if (text[0] == '-' || !sp_parse_int(text, &value))
        return sp_fail(cx, SPARTA_E_FORMAT, "external data: %s '%.40s' is no decimal number", key, text);
    *out = (uint64_t)value;
    return SPARTA_OK;
}

static sparta_status add_file(sp_importer *im, const char *location)
{
    sp_model *m = im->model;
    if (m->n_external >= MOST_FILES)
        return sp_fail(im->cx, SPARTA_E_LIMIT,
                       "external data: more than %d files; put the weights into fewer", MOST_FILES);
    if (m->n_external == im->external_capacity) {
        int wanted = im->external_capacity ? im->external_capacity * 2 : 4;
        sp_mapped *grown = sp_realloc(im->cx, m->external, (size_t)wanted * sizeof *grown);
        SP_NEED(im->cx, grown);
        m->external = grown;
        im->external_capacity = wanted;
    }
    const char *key = sp_arena_string(im->keep, location);
    SP_NEED(im->cx, key);
    SP_TRY(sp_mapped_open_beneath(im->cx, im->folder, location, &m->external[m->n_external]));
    m->n_external++;
    return sp_map_put(im->files, key, m->n_external - 1);
}

/* Memory that was given in the place of a file; *found is false where none was. */
static sparta_status given(const sp_importer *im, const char *location, sp_bytes *out, bool *found)
{
    const sp_import_options *o = im->options;
    *found = false;
    for (int i = 0; o && i < o->n_external && !*found; i++) {
        const sparta_tensor *t = &o->external[i].tensor;
        if (!o->external[i].name || strcmp(o->external[i].name, location) != 0) continue;
        if (t->dtype != SPARTA_U8 || t->rank != 1 || t->dim[0] < 0 || (t->dim[0] > 1 && t->stride[0] != 1) ||
            (t->dim[0] && !t->data) || t->device)
            return sp_fail(im->cx, SPARTA_E_USAGE,
                           "options.external '%.200s': it is no row of bytes in the memory of the CPU",
                           location);
        *out = (sp_bytes){t->data, (size_t)t->dim[0]};
        *found = true;
    }
    return SPARTA_OK;
}

/* The bytes that a location stands for: memory, or a file, which is opened once. */
static sparta_status located(sp_importer *im, const char *location, sp_bytes *out)
{
    int64_t index;
    bool found;
    SP_TRY(given(im, location, out, &found));
    if (found) return SPARTA_OK;
    if (!im->folder)
        return sp_fail(im->cx, SPARTA_E_USAGE,
                       "external data '%.200s': the model has no folder; open it as a file", location);
    if (!sp_map_get(im->files, location, &index)) {
        SP_TRY(add_file(im, location));
        index = im->model->n_external - 1;
    }
    *out = (sp_bytes){im->model->external[index].data, im->model->external[index].size};
    return SPARTA_OK;
}

sparta_status sp_onnx_open_external(sp_importer *im, const sp_onnx_external *e, size_t size,
                                    const uint8_t **out)
{
    uint64_t offset, length;
    sp_bytes file = {0};
    if (!e->location || !*e->location) return sp_fail(im->cx, SPARTA_E_FORMAT, "external data: no location");
    SP_TRY(decimal(im->cx, "offset", e->offset, 0, &offset));
    SP_TRY(decimal(im->cx, "length", e->length, size, &length));
    if (length != size)
        return sp_fail(im->cx, SPARTA_E_FORMAT, "external data: length is %lu; the shape says %zu bytes",
                       (unsigned long)length, size);
    SP_TRY(located(im, e->location, &file));
    if (offset > file.size || size > file.size - offset)
        return sp_fail(im->cx, SPARTA_E_FORMAT,
                       "external data '%.200s': bytes %lu to %lu are wanted and there are %zu; it is "
                       "truncated or another one",
                       e->location, (unsigned long)offset, (unsigned long)(offset + size), file.size);
    *out = file.data + offset;
    return SPARTA_OK;
}
