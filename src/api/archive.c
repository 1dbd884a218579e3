/* Archives: named arrays in a file, .npy (one, without a name), .npz and .safetensors. */
#include "api/api.h"
#include <string.h>

struct sparta_archive {
    sparta_ctx *cx;
    int n;
    sparta_named_tensor *entry;
    sparta_tensor single; /* of a .npy */
    sp_arrays arrays;     /* of the others */
};

static sparta_status take(sparta_archive *a, int n, const sp_npz_entry *entry)
{
    a->entry = sp_alloc_array(a->cx, (size_t)n + 1, sizeof *a->entry);
    SP_NEED(a->cx, a->entry);
    a->n = n;
    for (int i = 0; i < n; i++) a->entry[i] = (sparta_named_tensor){entry[i].name, entry[i].tensor};
    return SPARTA_OK;
}

static sparta_status read_all(sparta_archive *a, const char *path)
{
    sparta_file_kind kind;
    SP_TRY(sparta_file_kind_of(a->cx, path, &kind));
    if (kind == SPARTA_FILE_NPY) {
        SP_TRY(sp_npy_read(a->cx, path, &a->single));
        return take(a, 1, &(sp_npz_entry){.name = "", .tensor = a->single});
    }
    SP_TRY(sp_arrays_open(a->cx, path, &a->arrays));
    return take(a, a->arrays.n, a->arrays.entry);
}

sparta_status sparta_archive_open(sparta_ctx *cx, const char *path, sparta_archive **out)
{
    sparta_archive *a = sp_zalloc(cx, sizeof *a);
    SP_NEED(cx, a);
    a->cx = cx;
    const sparta_status s = read_all(a, path);
    if (s == SPARTA_OK)
        *out = a;
    else
        sparta_archive_close(a);
    return s;
}

void sparta_archive_close(sparta_archive *a)
{
    if (!a) return;
    sp_free(a->cx, a->single.data);
    sp_arrays_close(&a->arrays);
    sp_free(a->cx, a->entry);
    sp_free(a->cx, a);
}

const sparta_named_tensor *sparta_archive_array(const sparta_archive *a, int i)
{
    return i >= 0 && i < a->n ? &a->entry[i] : NULL;
}

const sparta_tensor *sparta_archive_find(const sparta_archive *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (!strcmp(a->entry[i].name, name)) return &a->entry[i].tensor;
    return NULL;
}

/* ------------------------------------------------------------------ writing */

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

static sparta_status save_many(sparta_ctx *cx, const char *path, const sparta_named_tensor *array, int n,
                               const char **name, sparta_tensor *tensor)
{
    for (int i = 0; i < n; i++) {
        name[i] = array[i].name;
        tensor[i] = array[i].tensor;
    }
    return ends_with(path, ".npz") ? sp_npz_write(cx, path, n, name, tensor)
                                   : sp_safetensors_write(cx, path, n, name, tensor, 0, NULL);
}

sparta_status sparta_archive_save(sparta_ctx *cx, const char *path, const sparta_named_tensor *array, int n)
{
    for (int i = 0; i < n; i++)
        SP_TRY(sp_tensor_on_cpu(cx, &array[i].tensor, "array", array[i].name ? array[i].name : ""));
    if (ends_with(path, ".npy") && n == 1) return sp_npy_write(cx, path, &array[0].tensor);
    if (!ends_with(path, ".npz") && !ends_with(path, ".safetensors"))
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "%s: its name has to say what to write; end it with .npz or .safetensors, or with .npy "
            "for one array",
            path);
    const char **name = sp_alloc_array(cx, (size_t)n + 1, sizeof *name);
    sparta_tensor *tensor = name ? sp_alloc_array(cx, (size_t)n + 1, sizeof *tensor) : NULL;
    const sparta_status s = tensor ? save_many(cx, path, array, n, name, tensor) : sp_ctx_status(cx);
    sp_free(cx, tensor);
    sp_free(cx, name);
    return s;
}
