/* What a file is that is no ONNX model, by its first bytes and the names in an archive, and how one gets ONNX out of it. */
#include "import/import.h"
#include "import/onnx.h"
#include "import/pt2.h"
#include <string.h>

typedef struct foreign {
    size_t offset, n;
    const char *bytes, *names;
    bool shown;
    const char *what, *todo;
} foreign;

static const foreign known[] = {
#define SP_FOREIGN(offset, bytes, names, shown, what, todo)                                                  \
    {offset, sizeof(bytes) - 1, bytes, names, shown, what, todo},
#include "import/foreign.def"
#undef SP_FOREIGN
};

/* The names stand in the directory at an archive's end, and in front of each of its files. */
enum { LOOKED_AT = 1 << 16 };

static bool names(sp_bytes file, const char *name)
{
    const size_t n = SP_MIN(file.size, (size_t)LOOKED_AT);
    return memmem(file.data, n, name, strlen(name)) ||
           memmem(file.data + file.size - n, n, name, strlen(name));
}

static bool fits(const foreign *f, sp_bytes file)
{
    return file.size >= f->offset + f->n && !memcmp(file.data + f->offset, f->bytes, f->n) &&
           (!*f->names || names(file, f->names));
}

static const foreign *find(sp_bytes file)
{
    for (size_t i = 0; i < SP_COUNT(known); i++)
        if (fits(&known[i], file)) return &known[i];
    return NULL;
}

sparta_status sp_onnx_not_foreign(sparta_ctx *cx, sp_bytes file)
{
    const foreign *f = find(file);
    if (!f) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_UNSUPPORTED, "is no ONNX model but %s; %s", f->what, f->todo);
}

sparta_status sp_import_is_program(sparta_ctx *cx, const char *path, bool *out)
{
    sp_mapped file;
    SP_TRY(sp_mapped_open(cx, path, &file));
    *out = sp_pt2_is((sp_bytes){file.data, file.size});
    sp_mapped_close(&file);
    return SPARTA_OK;
}

sparta_status sp_import_can_show(sparta_ctx *cx, const char *path)
{
    sp_mapped file;
    SP_TRY(sp_mapped_open(cx, path, &file));
    const foreign *f = find((sp_bytes){file.data, file.size});
    sp_mapped_close(&file);
    if (!f || f->shown) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_UNSUPPORTED, "%s: is %s; %s", path, f->what, f->todo);
}
