/* module.c: which module of PyTorch a node is part of. An exporter that transposes a Linear's weight gives the result a name of its own
 * ("onnx::MatMul_317", "val_53"); what people know it by is the module's path. Each exporter says it in its own way:
 *
 *     older   name of the node    /bert/encoder/layer.0/query/MatMul        ->  bert.encoder.layer.0.query
 *                                 /layers/layers.0/MatMul                   ->  layers.0     (a list repeats its name)
 *     newer   metadata            pkg.torch.onnx.name_scopes:
 *                                 ['', 'h.0', 'h.0.query', 'linear']        ->  h.0.query
 *
 * What does not look so is no error: the node then is part of no module that is known. */
#include "import/onnx.h"
#include <string.h>

#define SCOPES "pkg.torch.onnx.name_scopes"

/* The last but one of the quoted words: the last is the call inside the module. */
static sparta_status last_scope(sp_importer *im, const char *list, const char **out)
{
    const char *word = NULL, *before = NULL;
    size_t length = 0, length_before = 0;
    for (const char *p = strchr(list, '\''), *end; p && (end = strchr(p + 1, '\''));
         p = strchr(end + 1, '\'')) {
        before = word;
        length_before = length;
        word = p + 1;
        length = (size_t)(end - word);
    }
    if (!before || !length_before) return SPARTA_OK;
    const char *module = sp_arena_printf(im->scratch, "%.*s", (int)SP_MIN(length_before, 1000), before);
    SP_NEED(im->cx, module);
    *out = module;
    return SPARTA_OK;
}

sparta_status sp_onnx_read_scopes(sp_importer *im, sp_bytes entry, const char **out)
{
    sp_wire w = sp_wire_of(im->cx, "StringStringEntryProto", entry);
    sp_wire_field f, value = {0};
    bool scopes = false;
    const char *list;
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) break;
        if (f.number == ENTRY_KEY && f.type == SP_WIRE_BYTES)
            scopes = f.bytes.size == strlen(SCOPES) && !memcmp(f.bytes.data, SCOPES, f.bytes.size);
        if (f.number == ENTRY_VALUE) value = f;
    }
    if (!scopes || !value.number) return SPARTA_OK;
    SP_TRY(sp_wire_string(&w, &value, im->scratch, &list));
    return last_scope(im, list, out);
}

/* Does the next segment say this one again, with an index: "layers" before "layers.0"? */
static bool is_repeated(const char *segment, size_t n, const char *next)
{
    return !strncmp(segment, next, n) && next[n] == '.';
}

sparta_status sp_onnx_module_of_name(sp_importer *im, const char *name, const char **out)
{
    const char *last = strrchr(name, '/');
    if (*name != '/' || last == name) return SPARTA_OK;
    char *path = sp_arena_alloc(im->scratch, (size_t)(last - name) + 1), *to = path;
    SP_NEED(im->cx, path);
    for (const char *p = name + 1; p < last;) {
        const size_t n = strcspn(p, "/");
        if (p + n == last || !is_repeated(p, n, p + n + 1)) {
            if (to > path) *to++ = '.';
            memcpy(to, p, n);
            to += n;
        }
        p += n + 1;
    }
    *to = 0;
    if (to > path) *out = path;
    return SPARTA_OK;
}
