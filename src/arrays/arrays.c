/* What a file holds, by its first bytes and its name, and the readers that take any of the kinds. */
#include "arrays/arrays.h"
#include <string.h>
#include <strings.h>

static bool ends(const char *path, const char *with)
{
    size_t n = strlen(path), k = strlen(with);
    return n >= k && !strcasecmp(path + n - k, with);
}

static bool begins(const sp_mapped *m, const char *with)
{
    size_t n = strlen(with);
    return m->size >= n && !strncasecmp((const char *)m->data, with, n);
}

/* The header's length takes 8 bytes, the last of them 0 in every file that is read; then comes '{'. */
static bool like_safetensors(const sp_mapped *m)
{
    return m->size > 8 && m->data[8] == '{' && m->data[4] == 0 && m->data[5] == 0 && m->data[6] == 0 &&
           m->data[7] == 0;
}

sparta_status sp_file_holds(sparta_ctx *cx, const char *path, sp_holds *out)
{
    sp_mapped m;
    SP_TRY(sp_mapped_open(cx, path, &m));
    bool zip = m.size >= 4 && (!memcmp(m.data, "PK\3\4", 4) || !memcmp(m.data, "PK\5\6", 4));
    *out = zip                                                  ? SP_HOLDS_NPZ
           : ends(path, ".safetensors") || like_safetensors(&m) ? SP_HOLDS_SAFETENSORS
           : ends(path, ".mtx") || begins(&m, "%%MatrixMarket") ? SP_HOLDS_MTX
           : ends(path, ".smtx")                                ? SP_HOLDS_SMTX
           : ends(path, ".npz")                                 ? SP_HOLDS_NPZ
                                                                : SP_HOLDS_OTHER;
    sp_mapped_close(&m);
    return SPARTA_OK;
}

sparta_status sp_arrays_open(sparta_ctx *cx, const char *path, sp_arrays *out)
{
    sp_holds holds = SP_HOLDS_OTHER;
    sp_arrays a = {0};
    SP_TRY(sp_file_holds(cx, path, &holds));
    if (holds == SP_HOLDS_SAFETENSORS) {
        SP_TRY(sp_safetensors_open(cx, path, &a.safetensors));
        a.n = a.safetensors.n;
        a.entry = a.safetensors.entry;
    } else if (holds == SP_HOLDS_NPZ) {
        const sparta_status s = sp_npz_read(cx, path, &a.npz);
        if (s == SPARTA_E_FORMAT && !ends(path, ".npz")) /* a zip archive, as torch.save writes them */
            return sp_fail(
                cx, s, "%s: is a zip archive of something else than arrays; give an .npz or a .safetensors",
                path);
        SP_TRY(s);
        a.n = a.npz.n;
        a.entry = a.npz.entry;
    } else
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: holds no named arrays; give an .npz or a .safetensors",
                       path);
    *out = a;
    return SPARTA_OK;
}

void sp_arrays_close(sp_arrays *a)
{
    if (!a) return;
    sp_npz_free(&a->npz);
    sp_safetensors_close(&a->safetensors);
    *a = (sp_arrays){0};
}

sparta_status sp_matrix_read(sparta_ctx *cx, const char *path, sp_coo *out)
{
    sp_holds holds = SP_HOLDS_OTHER;
    sp_mapped m;
    SP_TRY(sp_file_holds(cx, path, &holds));
    if (holds == SP_HOLDS_NPZ) return sp_scipy_read(cx, path, out);
    if (holds != SP_HOLDS_MTX && holds != SP_HOLDS_SMTX)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "%s: is no matrix; give an .mtx, an .smtx or an .npz of scipy.sparse.save_npz", path);
    SP_TRY(sp_mapped_open(cx, path, &m));
    sparta_status status = holds == SP_HOLDS_MTX ? sp_mtx_parse(cx, m.data, m.size, out)
                                                 : sp_smtx_parse(cx, m.data, m.size, out);
    sp_mapped_close(&m);
    return status ? sp_fail_in(cx, "%s", path) : SPARTA_OK;
}
