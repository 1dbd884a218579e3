/* external.c: weights in files beside the model. The model says which file, and is not trusted: known keys
 * only, plain decimal numbers, a path beneath the folder without links (file.h), a range inside the file. */
#include "import/onnx.h"
#include <string.h>

#define MOST_FILES 1024

sparta_status sparta_onnx_read_external(sparta_arena *a, const sparta_wire *w, const sparta_wire_field *f,
                                        sparta_onnx_external *out)
{
    const char *key = "", *value = "";
    sparta_view bytes;
    sparta_wire_field part;
    SPARTA_TRY(sparta_wire_bytes(w, f, &bytes));
    sparta_wire entry = sparta_wire_of(w->cx, "external_data", bytes);
    for (;;) {
        SPARTA_TRY(sparta_wire_next(&entry, &part));
        if (!part.number) break;
        if (part.number == ENTRY_KEY) SPARTA_TRY(sparta_wire_string(&entry, &part, a, &key));
        if (part.number == ENTRY_VALUE) SPARTA_TRY(sparta_wire_string(&entry, &part, a, &value));
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
        return sparta_fail(w->cx, SPARTA_E_FORMAT,
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
    if (text[0] == '-' || !sparta_parse_int(text, &value))
        return sparta_fail(cx, SPARTA_E_FORMAT, "external data: %s '%.40s' is no decimal number", key, text);
    *out = (uint64_t)value;
    return SPARTA_OK;
}

static sparta_status add_file(sparta_importer *im, const char *location)
{
    sparta_model *m = im->model;
    if (m->n_external >= MOST_FILES)
        return sparta_fail(im->cx, SPARTA_E_LIMIT,
                           "external data: more than %d files; put the weights into fewer", MOST_FILES);
    if (m->n_external == im->external_capacity) {
        int wanted = im->external_capacity ? im->external_capacity * 2 : 4;
        sparta_mapped *grown = sparta_realloc(im->cx, m->external, (size_t)wanted * sizeof *grown);
        SPARTA_NEED(im->cx, grown);
        m->external = grown;
        im->external_capacity = wanted;
    }
    const char *key = sparta_arena_string(im->keep, location);
    SPARTA_NEED(im->cx, key);
    SPARTA_TRY(sparta_map_open_beneath(im->cx, im->folder, location, &m->external[m->n_external]));
    m->n_external++;
    return sparta_map_put(im->files, key, m->n_external - 1);
}

sparta_status sparta_onnx_open_external(sparta_importer *im, const sparta_onnx_external *e, size_t size,
                                        const uint8_t **out)
{
    uint64_t offset, length;
    int64_t index;
    if (!e->location || !*e->location)
        return sparta_fail(im->cx, SPARTA_E_FORMAT, "external data: no location");
    SPARTA_TRY(decimal(im->cx, "offset", e->offset, 0, &offset));
    SPARTA_TRY(decimal(im->cx, "length", e->length, size, &length));
    if (length != size)
        return sparta_fail(im->cx, SPARTA_E_FORMAT, "external data: length is %lu; the shape says %zu bytes",
                           (unsigned long)length, size);
    if (!im->folder)
        return sparta_fail(im->cx, SPARTA_E_USAGE,
                           "external data '%.200s': the model has no folder; open it as a file", e->location);
    if (!sparta_map_get(im->files, e->location, &index)) {
        SPARTA_TRY(add_file(im, e->location));
        index = im->model->n_external - 1;
    }
    const sparta_mapped *file = &im->model->external[index];
    if (offset > file->size || size > file->size - offset)
        return sparta_fail(im->cx, SPARTA_E_FORMAT,
                           "external data '%.200s': bytes %lu to %lu are wanted and the file has %zu; it is "
                           "truncated or another one",
                           e->location, (unsigned long)offset, (unsigned long)(offset + size), file->size);
    *out = file->data + offset;
    return SPARTA_OK;
}
