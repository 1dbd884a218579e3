/* What a file is that is no ONNX model, by its first bytes and the names in an archive, and how one gets ONNX out of it. */
#include "import/onnx.h"
#include <string.h>

typedef struct foreign {
    size_t offset, n;
    const char *bytes, *names, *what, *todo;
} foreign;

static const foreign known[] = {
#define SPARTA_FOREIGN(offset, bytes, names, what, todo)                                                     \
    {offset, sizeof(bytes) - 1, bytes, names, what, todo},
#include "import/foreign.def"
#undef SPARTA_FOREIGN
};

/* The names stand in the directory at an archive's end, and in front of each of its files. */
enum { LOOKED_AT = 1 << 16 };

static bool names(sparta_view file, const char *name)
{
    const size_t n = SPARTA_MIN(file.size, (size_t)LOOKED_AT);
    return memmem(file.data, n, name, strlen(name)) ||
           memmem(file.data + file.size - n, n, name, strlen(name));
}

static bool fits(const foreign *f, sparta_view file)
{
    return file.size >= f->offset + f->n && !memcmp(file.data + f->offset, f->bytes, f->n) &&
           (!*f->names || names(file, f->names));
}

sparta_status sparta_onnx_not_foreign(sparta_ctx *cx, sparta_view file)
{
    for (size_t i = 0; i < SPARTA_COUNT(known); i++)
        if (fits(&known[i], file))
            return sparta_fail(cx, SPARTA_E_UNSUPPORTED, "is no ONNX model but %s; %s", known[i].what,
                               known[i].todo);
    return SPARTA_OK;
}
