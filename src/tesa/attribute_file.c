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
    sparta_arena *arena; /* everything below */
    int n;
    const char **name;
    sparta_tensor *tensor;
} writer;

static sparta_status put(writer *w, const char *name, int kind, sparta_tensor t)
{
    char *full = sparta_arena_printf(w->arena, "%s/%s", name, suffix[kind]);
    SPARTA_NEED(w->cx, full);
    w->name[w->n] = full;
    w->tensor[w->n++] = t;
    return SPARTA_OK;
}

static sparta_status put_bits(writer *w, const char *name, int kind, const sparta_mask *m)
{
    int64_t bytes = sparta_ceil_div(m->cols, 8);
    sparta_tensor t;
    SPARTA_TRY(sparta_tensor_alloc_in(w->arena, SPARTA_U8, 2, (int64_t[]){m->rows, bytes}, &t));
    for (int64_t i = 0; m->words && i < m->rows; i++)
        memcpy((uint8_t *)t.data + i * bytes, sparta_mask_row(m, i), (size_t)bytes);
    return put(w, name, kind, t);
}

static sparta_status put_text(writer *w, const char *name, const sparta_tesa *t)
{
    sparta_text text;
    sparta_text_init(&text, w->cx);
    sparta_tesa_print_as(t, true, &text);
    int64_t size = (int64_t)text.size;
    char *copy = text.status ? NULL : sparta_arena_bytes(w->arena, sparta_text_str(&text), text.size);
    sparta_text_free(&text);
    SPARTA_NEED(w->cx, copy);
    return put(w, name, TEXT, sparta_tensor_view(SPARTA_U8, 1, &size, copy));
}

static sparta_status put_has(writer *w, const char *name, const sparta_tesa *t)
{
    sparta_span span;
    bool own;
    if (t->has != SPARTA_HAS_SET || sparta_set_is_all(&t->set) || sparta_set_is_none(&t->set))
        return SPARTA_OK;
    SPARTA_TRY(sparta_set_span(w->cx, &t->set, &span, &own));
    sparta_status status = put_bits(w, name, HAS, &span.mask);
    if (own) sparta_mask_free(w->cx, &span.mask);
    return status;
}

static sparta_status put_precision(writer *w, const char *name, const sparta_tesa *t)
{
    sparta_precision palette[SPARTA_PRECISIONS];
    int64_t dim[SPARTA_TESA_RANK], groups = 1;
    bool whole = true;
    sparta_tensor a;
    for (int i = 0; i < t->rank; i++) {
        whole &= !t->group[i];
        dim[i] = sparta_groups_of(&t->dim[i], t->group[i]);
        groups *= dim[i];
    }
    if (whole) return SPARTA_OK;
    int n = sparta_tesa_palette(t, palette);
    SPARTA_TRY(sparta_tensor_alloc_in(w->arena, SPARTA_U8, t->rank, dim, &a));
    for (int64_t i = 0; i < groups; i++)
        for (int p = 0; p < n; p++)
            if (palette[p] == t->precision[i]) ((uint8_t *)a.data)[i] = (uint8_t)p;
    return put(w, name, PRECISION, a);
}

static sparta_status put_tesa(writer *w, const char *name, const sparta_tesa *t)
{
    SPARTA_TRY(put_text(w, name, t));
    SPARTA_TRY(put_has(w, name, t));
    if (t->constants) SPARTA_TRY(put_bits(w, name, CONSTANTS, &t->where));
    if (t->constants)
        SPARTA_TRY(put(w, name, VALUES, sparta_tensor_view(t->value.dtype, 1, &t->constants, t->value.data)));
    return put_precision(w, name, t);
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static sparta_status write_all(writer *w, const char *path, int n, const char *const *name,
                               const sparta_tesa *tesa)
{
    size_t most = (size_t)n * KINDS;
    w->name = sparta_arena_array(w->arena, most, sizeof *w->name);
    w->tensor = sparta_arena_array(w->arena, most, sizeof *w->tensor);
    SPARTA_NEED(w->cx, w->name && w->tensor ? w : NULL);
    for (int i = 0; i < n; i++) SPARTA_TRY(put_tesa(w, name[i], &tesa[i]));
    if (ends_in(path, ".safetensors"))
        return sparta_safetensors_write(w->cx, path, w->n, w->name, w->tensor, 0, NULL);
    return sparta_npz_write(w->cx, path, w->n, w->name, w->tensor);
}

sparta_status sparta_tesa_write(sparta_ctx *cx, const char *path, int n, const char *const *name,
                                const sparta_tesa *tesa)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(name[i], name[k]))
                return sparta_fail(cx, SPARTA_E_USAGE,
                                   "%s: two attributes are named \"%s\"; names must differ", path, name[i]);
    writer w = {.cx = cx, .arena = sparta_arena_create(cx)};
    SPARTA_NEED(cx, w.arena);
    sparta_status status = write_all(&w, path, n, name, tesa);
    sparta_arena_free(w.arena);
    return status;
}

/* ------------------------------------------------------------------ read */

/* NAME/kind, or NULL. */
static const sparta_tensor *find(const sparta_arrays *a, const char *name, size_t size, int kind)
{
    for (int i = 0; i < a->n; i++) {
        const char *full = a->entry[i].name;
        if (!strncmp(full, name, size) && full[size] == '/' && !strcmp(full + size + 1, suffix[kind]))
            return &a->entry[i].tensor;
    }
    return NULL;
}

static sparta_status read_one(sparta_ctx *cx, const sparta_arrays *a, int at, char **name, sparta_tesa *out)
{
    const char *full = a->entry[at].name;
    const sparta_tensor *t = &a->entry[at].tensor;
    size_t size = strlen(full) - strlen("/tesa");
    sparta_tesa_arrays arrays = {.has = find(a, full, size, HAS),
                                 .constants = find(a, full, size, CONSTANTS),
                                 .values = find(a, full, size, VALUES),
                                 .precision = find(a, full, size, PRECISION)};
    if (t->dtype != SPARTA_U8 || t->rank != 1 || t->dim[0] > LONGEST_TEXT || !sparta_tensor_contiguous(t) ||
        memchr(t->data, 0, (size_t)t->dim[0]))
        return sparta_fail(cx, SPARTA_E_FORMAT,
                           "%s: no text of an attribute; it is u8 (length), at most %d long", full,
                           LONGEST_TEXT);
    char *text = sparta_zalloc(cx, (size_t)t->dim[0] + 1);
    SPARTA_NEED(cx, text);
    if (t->dim[0]) memcpy(text, t->data, (size_t)t->dim[0]);
    sparta_status status = sparta_tesa_parse_as(cx, text, &arrays, out);
    sparta_free(cx, text);
    if (status) return sparta_fail_in(cx, "%s", full);
    *name = sparta_zalloc(cx, size + 1);
    if (!*name) {
        sparta_tesa_free(cx, out);
        return sparta_ctx_status(cx);
    }
    memcpy(*name, full, size);
    return SPARTA_OK;
}

static sparta_status read_all(sparta_ctx *cx, const sparta_arrays *a, sparta_tesa_file *f)
{
    f->name = sparta_alloc_array(cx, (size_t)a->n, sizeof *f->name);
    SPARTA_NEED(cx, f->name);
    f->tesa = sparta_alloc_array(cx, (size_t)a->n, sizeof *f->tesa);
    SPARTA_NEED(cx, f->tesa);
    for (int i = 0; i < a->n; i++) {
        if (!ends_in(a->entry[i].name, "/tesa")) continue;
        SPARTA_TRY(sparta_check_cancel(cx));
        SPARTA_TRY(read_one(cx, a, i, &f->name[f->n], &f->tesa[f->n]));
        f->n++;
    }
    if (f->n) return SPARTA_OK;
    return sparta_fail(cx, SPARTA_E_FORMAT, "there is no attribute (an array NAME/tesa) among %d arrays",
                       a->n);
}

sparta_status sparta_tesa_read(sparta_ctx *cx, const char *path, sparta_tesa_file *out)
{
    sparta_arrays a;
    sparta_tesa_file f = {0};
    SPARTA_TRY(sparta_arrays_open(cx, path, &a));
    sparta_status status = read_all(cx, &a, &f);
    sparta_arrays_close(&a);
    if (status) {
        sparta_tesa_file_free(cx, &f);
        return sparta_fail_in(cx, "%s", path);
    }
    *out = f;
    return SPARTA_OK;
}

void sparta_tesa_file_free(sparta_ctx *cx, sparta_tesa_file *f)
{
    if (!f) return;
    for (int i = 0; i < f->n; i++) {
        sparta_free(cx, f->name[i]);
        sparta_tesa_free(cx, &f->tesa[i]);
    }
    sparta_free(cx, f->name);
    sparta_free(cx, f->tesa);
    *f = (sparta_tesa_file){0};
}
