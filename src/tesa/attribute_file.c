/* Named attributes in one .npz or .safetensors.
 *
 *     NAME/tesa       u8    the text, with `array` where one of these stands
 *     NAME/has        u8    (rows, bytes)      numpy.unpackbits(a, axis=1, bitorder="little")[:, :cols]
 *     NAME/constants  u8    (rows, bytes)
 *     NAME/values     any   (constants)
 *     NAME/precision  u8    a dim for each axis: places in the list of names in the text
 */
#include "file/file.h"
#include "tesa/attribute_inside.h"
#include <string.h>

enum { TEXT, HAS, CONSTANTS, VALUES, PRECISION, KINDS };
static const char *const suffix[KINDS] = {"tesa", "has", "constants", "values", "precision"};
#define LONGEST_TEXT (1 << 16) /* without masks and lists it is short */

/* ------------------------------------------------------------------ write */

typedef struct {
    sparta_ctx *cx;
    sp_arena *arena; /* everything below */
    int n;
    const char **name;
    sparta_tensor *tensor;
} writer;

static sparta_status put(writer *w, const char *name, int kind, sparta_tensor t)
{
    char *full = sp_arena_printf(w->arena, "%s/%s", name, suffix[kind]);
    SP_NEED(w->cx, full);
    w->name[w->n] = full;
    w->tensor[w->n++] = t;
    return SPARTA_OK;
}

static sparta_status put_bits(writer *w, const char *name, int kind, const sp_mask *m)
{
    int64_t bytes = sp_ceil_div(m->cols, 8);
    sparta_tensor t;
    SP_TRY(sp_tensor_alloc_in(w->arena, SPARTA_U8, 2, (int64_t[]){m->rows, bytes}, &t));
    for (int64_t i = 0; m->words && i < m->rows; i++)
        memcpy((uint8_t *)t.data + i * bytes, sp_mask_row(m, i), (size_t)bytes);
    return put(w, name, kind, t);
}

static sparta_status put_text(writer *w, const char *name, const sp_tesa *t)
{
    sp_text text;
    sp_text_init(&text, w->cx);
    sp_tesa_print_as(t, true, &text);
    int64_t size = (int64_t)text.size;
    char *copy = text.status ? NULL : sp_arena_bytes(w->arena, sp_text_str(&text), text.size);
    sp_text_free(&text);
    SP_NEED(w->cx, copy);
    return put(w, name, TEXT, sparta_tensor_view(SPARTA_U8, 1, &size, copy));
}

static sparta_status put_has(writer *w, const char *name, const sp_tesa *t)
{
    sp_span span;
    bool own;
    if (t->has != SP_HAS_SET || sp_set_is_all(&t->set) || sp_set_is_none(&t->set)) return SPARTA_OK;
    SP_TRY(sp_set_span(w->cx, &t->set, &span, &own));
    sparta_status status = put_bits(w, name, HAS, &span.mask);
    if (own) sp_mask_free(w->cx, &span.mask);
    return status;
}

static sparta_status put_precision(writer *w, const char *name, const sp_tesa *t)
{
    sp_precision palette[SP_PRECISIONS];
    int64_t dim[SP_TESA_RANK], groups = 1;
    bool whole = true;
    sparta_tensor a;
    for (int i = 0; i < t->rank; i++) {
        whole &= !t->group[i];
        dim[i] = sp_groups_of(&t->dim[i], t->group[i]);
        groups *= dim[i];
    }
    if (whole) return SPARTA_OK;
    int n = sp_tesa_palette(t, palette);
    SP_TRY(sp_tensor_alloc_in(w->arena, SPARTA_U8, t->rank, dim, &a));
    for (int64_t i = 0; i < groups; i++)
        for (int p = 0; p < n; p++)
            if (palette[p] == t->precision[i]) ((uint8_t *)a.data)[i] = (uint8_t)p;
    return put(w, name, PRECISION, a);
}

static sparta_status put_tesa(writer *w, const char *name, const sp_tesa *t)
{
    SP_TRY(put_text(w, name, t));
    SP_TRY(put_has(w, name, t));
    if (t->constants) SP_TRY(put_bits(w, name, CONSTANTS, &t->where));
    if (t->constants)
        SP_TRY(put(w, name, VALUES, sparta_tensor_view(t->value.dtype, 1, &t->constants, t->value.data)));
    return put_precision(w, name, t);
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static sparta_status write_all(writer *w, const char *path, int n, const char *const *name,
                               const sp_tesa *tesa)
{
    size_t most = (size_t)n * KINDS;
    w->name = sp_arena_array(w->arena, most, sizeof *w->name);
    w->tensor = sp_arena_array(w->arena, most, sizeof *w->tensor);
    SP_NEED(w->cx, w->name && w->tensor ? w : NULL);
    for (int i = 0; i < n; i++) SP_TRY(put_tesa(w, name[i], &tesa[i]));
    if (ends_in(path, ".safetensors"))
        return sp_safetensors_write(w->cx, path, w->n, w->name, w->tensor, 0, NULL);
    return sp_npz_write(w->cx, path, w->n, w->name, w->tensor);
}

sparta_status sp_tesa_write(sparta_ctx *cx, const char *path, int n, const char *const *name,
                            const sp_tesa *tesa)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(name[i], name[k]))
                return sp_fail(cx, SPARTA_E_USAGE, "%s: two attributes are named \"%s\"; names must differ",
                               path, name[i]);
    writer w = {.cx = cx, .arena = sp_arena_create(cx)};
    SP_NEED(cx, w.arena);
    sparta_status status = write_all(&w, path, n, name, tesa);
    sp_arena_free(w.arena);
    return status;
}

/* ------------------------------------------------------------------ read */

/* NAME/kind, or NULL. */
static const sparta_tensor *find(const sp_arrays *a, const char *name, size_t size, int kind)
{
    for (int i = 0; i < a->n; i++) {
        const char *full = a->entry[i].name;
        if (!strncmp(full, name, size) && full[size] == '/' && !strcmp(full + size + 1, suffix[kind]))
            return &a->entry[i].tensor;
    }
    return NULL;
}

static sparta_status read_one(sparta_ctx *cx, const sp_arrays *a, int at, char **name, sp_tesa *out)
{
    const char *full = a->entry[at].name;
    const sparta_tensor *t = &a->entry[at].tensor;
    size_t size = strlen(full) - strlen("/tesa");
    sp_tesa_arrays arrays = {.has = find(a, full, size, HAS),
                             .constants = find(a, full, size, CONSTANTS),
                             .values = find(a, full, size, VALUES),
                             .precision = find(a, full, size, PRECISION)};
    if (t->dtype != SPARTA_U8 || t->rank != 1 || t->dim[0] > LONGEST_TEXT || !sp_tensor_contiguous(t) ||
        memchr(t->data, 0, (size_t)t->dim[0]))
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: no text of an attribute; it is u8 (length), at most %d long",
                       full, LONGEST_TEXT);
    char *text = sp_zalloc(cx, (size_t)t->dim[0] + 1);
    SP_NEED(cx, text);
    if (t->dim[0]) memcpy(text, t->data, (size_t)t->dim[0]);
    sparta_status status = sp_tesa_parse_as(cx, text, &arrays, out);
    sp_free(cx, text);
    if (status) return sp_fail_in(cx, "%s", full);
    *name = sp_zalloc(cx, size + 1);
    if (!*name) {
        sp_tesa_free(cx, out);
        return sp_ctx_status(cx);
    }
    memcpy(*name, full, size);
    return SPARTA_OK;
}

static sparta_status read_all(sparta_ctx *cx, const sp_arrays *a, sp_tesa_file *f)
{
    f->name = sp_alloc_array(cx, (size_t)a->n, sizeof *f->name);
    SP_NEED(cx, f->name);
    f->tesa = sp_alloc_array(cx, (size_t)a->n, sizeof *f->tesa);
    SP_NEED(cx, f->tesa);
    for (int i = 0; i < a->n; i++) {
        if (!ends_in(a->entry[i].name, "/tesa")) continue;
        SP_TRY(sp_check_cancel(cx));
        SP_TRY(read_one(cx, a, i, &f->name[f->n], &f->tesa[f->n]));
        f->n++;
    }
    if (f->n) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "there is no attribute (an array NAME/tesa) among %d arrays", a->n);
}

sparta_status sp_tesa_read(sparta_ctx *cx, const char *path, sp_tesa_file *out)
{
    sp_arrays a;
    sp_tesa_file f = {0};
    SP_TRY(sp_arrays_open(cx, path, &a));
    sparta_status status = read_all(cx, &a, &f);
    sp_arrays_close(&a);
    if (status) {
        sp_tesa_file_free(cx, &f);
        return sp_fail_in(cx, "%s", path);
    }
    *out = f;
    return SPARTA_OK;
}

void sp_tesa_file_free(sparta_ctx *cx, sp_tesa_file *f)
{
    if (!f) return;
    for (int i = 0; i < f->n; i++) {
        sp_free(cx, f->name[i]);
        sp_tesa_free(cx, &f->tesa[i]);
    }
    sp_free(cx, f->name);
    sp_free(cx, f->tesa);
    *f = (sp_tesa_file){0};
}
