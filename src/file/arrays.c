/* What a file holds, by its first bytes and its name, and the readers that take any of the kinds. */
#include "file/file.h"
#include <string.h>
#include <strings.h>

static bool ends(const char *path, const char *with)
{
    size_t n = strlen(path), k = strlen(with);
    return n >= k && !strcasecmp(path + n - k, with);
}

static bool begins(const sparta_mapped *m, const char *with)
{
    size_t n = strlen(with);
    return m->size >= n && !strncasecmp((const char *)m->data, with, n);
}

/* The header's length takes 8 bytes, the last of them 0 in every file that is read; then comes '{'. */
static bool like_safetensors(const sparta_mapped *m)
{
    return m->size > 8 && m->data[8] == '{' && m->data[4] == 0 && m->data[5] == 0 && m->data[6] == 0 &&
           m->data[7] == 0;
}

sparta_status sparta_file_holds(sparta_ctx *cx, const char *path, sparta_holds *out)
{
    sparta_mapped m;
    SPARTA_TRY(sparta_map_open(cx, path, &m));
    bool zip = m.size >= 4 && (!memcmp(m.data, "PK\3\4", 4) || !memcmp(m.data, "PK\5\6", 4));
    *out = zip                                                  ? SPARTA_HOLDS_NPZ
           : ends(path, ".safetensors") || like_safetensors(&m) ? SPARTA_HOLDS_SAFETENSORS
           : ends(path, ".mtx") || begins(&m, "%%MatrixMarket") ? SPARTA_HOLDS_MTX
           : ends(path, ".smtx")                                ? SPARTA_HOLDS_SMTX
           : ends(path, ".npz")                                 ? SPARTA_HOLDS_NPZ
                                                                : SPARTA_HOLDS_OTHER;
    sparta_map_close(&m);
    return SPARTA_OK;
}

sparta_status sparta_arrays_open(sparta_ctx *cx, const char *path, sparta_arrays *out)
{
    sparta_holds holds = SPARTA_HOLDS_OTHER;
    sparta_arrays a = {0};
    SPARTA_TRY(sparta_file_holds(cx, path, &holds));
    if (holds == SPARTA_HOLDS_SAFETENSORS) {
        SPARTA_TRY(sparta_safetensors_open(cx, path, &a.safetensors));
        a.n = a.safetensors.n;
        a.entry = a.safetensors.entry;
    } else if (holds == SPARTA_HOLDS_NPZ) {
        SPARTA_TRY(sparta_npz_read(cx, path, &a.npz));
        a.n = a.npz.n;
        a.entry = a.npz.entry;
    } else
        return sparta_fail(cx, SPARTA_E_FORMAT, "%s: holds no named arrays; give an .npz or a .safetensors",
                           path);
    *out = a;
    return SPARTA_OK;
}

void sparta_arrays_close(sparta_arrays *a)
{
    if (!a) return;
    sparta_npz_free(&a->npz);
    sparta_safetensors_close(&a->safetensors);
    *a = (sparta_arrays){0};
}

sparta_status sparta_matrix_read(sparta_ctx *cx, const char *path, sparta_coo *out)
{
    sparta_holds holds = SPARTA_HOLDS_OTHER;
    SPARTA_TRY(sparta_file_holds(cx, path, &holds));
    switch (holds) {
    case SPARTA_HOLDS_MTX: return sparta_mtx_read(cx, path, out);
    case SPARTA_HOLDS_SMTX: return sparta_smtx_read(cx, path, out);
    case SPARTA_HOLDS_NPZ: return sparta_scipy_read(cx, path, out);
    case SPARTA_HOLDS_SAFETENSORS:
    case SPARTA_HOLDS_OTHER: break;
    }
    return sparta_fail(cx, SPARTA_E_FORMAT,
                       "%s: is no matrix; give an .mtx, an .smtx or an .npz of scipy.sparse.save_npz", path);
}
