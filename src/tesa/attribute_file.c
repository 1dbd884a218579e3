/* Named attributes in one .npz or .safetensors: the facts of sparta_tesa_facts, each an array. Dims are the value's, or 1 where all are
 * alike, so that numpy.broadcast_to gives every element its own.
 *
 *     NAME/tesa       u8    text: the dims, then the names of precisions: "[batch,128,768] i8 f16"
 *     NAME/has        bool  what exists; no such array: everything
 *     NAME/known      bool  what has a value that is known; no such array: nothing
 *     NAME/values     any   the values of those
 *     NAME/precision  u8    places in the list of names; no such array: the first
 */
#include "tesa/attribute.h"
#include <string.h>

enum { TEXT, HAS, KNOWN, VALUES, PRECISION, KINDS };
static const char *const suffix[KINDS] = {"tesa", "has", "known", "values", "precision"};
#define LONGEST_TEXT (1 << 16)

static bool ends_in(const char *name, const char *with)
{
    const size_t n = strlen(name), k = strlen(with);
    return n >= k && !strcmp(name + n - k, with);
}

bool sp_tesa_is_array(const char *name)
{
    return ends_in(name, "/tesa");
}

/* ------------------------------------------------------------------ write */
typedef struct writer {
    sparta_ctx *cx;
    sp_arena *arena; /* everything below */
    int n;
    const char **name;
    sparta_tensor *tensor;
} writer;

static sparta_status put(writer *w, const char *name, int kind, const sparta_tensor *t)
{
    if (!t->data) return SPARTA_OK;
    w->name[w->n] = sp_arena_printf(w->arena, "%s/%s", name, suffix[kind]);
    SP_NEED(w->cx, w->name[w->n]);
    w->tensor[w->n++] = *t;
    return SPARTA_OK;
}

static sparta_status put_tesa(writer *w, const char *name, const sp_tesa *t)
{
    sparta_tesa_facts f;
    SP_TRY(sp_tesa_facts(w->arena, t, &f));
    char *text = sp_arena_printf(w->arena, "%s %s", f.dims, f.precision);
    SP_NEED(w->cx, text);
    const sparta_tensor bytes = sparta_tensor_view(SPARTA_U8, 1, (int64_t[]){(int64_t)strlen(text)}, text);
    SP_TRY(put(w, name, TEXT, &bytes));
    SP_TRY(put(w, name, HAS, &f.has));
    SP_TRY(put(w, name, KNOWN, &f.known));
    SP_TRY(put(w, name, VALUES, &f.values));
    return put(w, name, PRECISION, &f.which);
}

static sparta_status check_names(sparta_ctx *cx, const char *path, int n, const char *const *name)
{
    sp_map *seen = sp_map_create(cx);
    SP_NEED(cx, seen);
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < n && !status; i++)
        status = sp_map_get(seen, name[i], &(int64_t){0})
                     ? sp_fail(cx, SPARTA_E_USAGE,
                               "%.200s: two attributes are named '%.100s'; names must differ", path, name[i])
                     : sp_map_put(seen, name[i], i);
    sp_map_free(seen);
    return status;
}

static sparta_status write_all(writer *w, const char *path, int n, const char *const *name,
                               const sp_tesa *const *tesa)
{
    const size_t most = (size_t)n * KINDS;
    w->name = sp_arena_array(w->arena, SP_MAX(most, 1), sizeof *w->name);
    w->tensor = sp_arena_array(w->arena, SP_MAX(most, 1), sizeof *w->tensor);
    SP_NEED(w->cx, w->name && w->tensor);
    for (int i = 0; i < n; i++) SP_TRY(put_tesa(w, name[i], tesa[i]));
    if (ends_in(path, ".safetensors"))
        return sp_safetensors_write(w->cx, path, w->n, w->name, w->tensor, 0, NULL);
    return sp_npz_write(w->cx, path, w->n, w->name, w->tensor);
}

sparta_status sp_tesa_write(sparta_ctx *cx, const char *path, int n, const char *const *name,
                            const sp_tesa *const *tesa)
{
    SP_TRY(check_names(cx, path, n, name));
    writer w = {.cx = cx, .arena = sp_arena_create(cx)};
    SP_NEED(cx, w.arena);
    sparta_status status = write_all(&w, path, n, name, tesa);
    sp_arena_free(w.arena);
    return status;
}

/* ------------------------------------------------------------------ read */
typedef struct reader {
    sparta_ctx *cx;
    sp_tesas f;
    sp_map *names; /* of all arrays */
} reader;

/* The array NAME/kind, or one without data. */
static sparta_status find(const reader *r, const char *name, int kind, sparta_tensor *out)
{
    int64_t at;
    const char *full = sp_arena_printf(r->f.arena, "%s/%s", name, suffix[kind]);
    SP_NEED(r->cx, full);
    *out = sp_map_get(r->names, full, &at) ? r->f.arrays.entry[at].tensor : (sparta_tensor){0};
    return SPARTA_OK;
}

/* "[batch,128,768] i8 f16" comes apart. */
static sparta_status split_text(const reader *r, const sparta_tensor *t, sparta_tesa_facts *f)
{
    const bool is_text = t->dtype == SPARTA_U8 && t->rank == 1 && t->dim[0] <= LONGEST_TEXT &&
                         sp_tensor_contiguous(t) && !(t->dim[0] && memchr(t->data, 0, (size_t)t->dim[0]));
    char *text = is_text ? sp_arena_bytes(r->f.arena, t->data, (size_t)t->dim[0]) : NULL;
    if (is_text) SP_NEED(r->cx, text);
    const char *end = text ? strchr(text, ']') : NULL;
    if (!end)
        return sp_fail(r->cx, SPARTA_E_FORMAT, "it is no text of an attribute, such as \"[batch,768] f32\"");
    f->dims = sp_arena_bytes(r->f.arena, text, (size_t)(end + 1 - text));
    SP_NEED(r->cx, f->dims);
    f->precision = end + 1 + strspn(end + 1, " ");
    return SPARTA_OK;
}

static sparta_status read_tesa(const reader *r, const sparta_tensor *text, sp_named_tesa *e)
{
    sparta_tesa_facts f = {.size = sizeof f};
    SP_TRY(find(r, e->name, HAS, &f.has));
    SP_TRY(find(r, e->name, KNOWN, &f.known));
    SP_TRY(find(r, e->name, VALUES, &f.values));
    SP_TRY(find(r, e->name, PRECISION, &f.which));
    SP_TRY(split_text(r, text, &f));
    return sp_tesa_of_facts(r->f.arena, &f, &e->tesa);
}

/* What NAME/kind is a part of, where NAME is an attribute; NULL: of nothing. */
static sparta_status owner_of(const reader *r, const char *full, const char **name, int *kind)
{
    const char *slash = strrchr(full, '/');
    sparta_tensor text;
    *name = NULL;
    for (*kind = 0; slash && *kind < KINDS && strcmp(slash + 1, suffix[*kind]); (*kind)++) continue;
    if (!slash || *kind == KINDS) return SPARTA_OK;
    const char *owner = sp_arena_bytes(r->f.arena, full, (size_t)(slash - full));
    SP_NEED(r->cx, owner);
    SP_TRY(find(r, owner, TEXT, &text));
    if (text.data) *name = owner;
    return SPARTA_OK;
}

static sparta_status read_all(reader *r)
{
    const sp_arrays *a = &r->f.arrays;
    r->f.entry = sp_arena_array(r->f.arena, (size_t)SP_MAX(a->n, 1), sizeof *r->f.entry);
    SP_NEED(r->cx, r->f.entry);
    for (int i = 0; i < a->n; i++) SP_TRY(sp_map_put(r->names, a->entry[i].name, i));
    for (int i = 0; i < a->n; i++) {
        sp_named_tesa e = {.name = NULL};
        int kind;
        SP_TRY(sp_check_cancel(r->cx));
        SP_TRY(owner_of(r, a->entry[i].name, &e.name, &kind));
        if (e.name && kind != TEXT) continue;
        sparta_status status = e.name ? read_tesa(r, &a->entry[i].tensor, &e) : SPARTA_OK;
        if (status == SPARTA_E_USAGE) /* a wrong text is not the user's here */
            status = sp_fail(r->cx, SPARTA_E_FORMAT, "%s", sparta_message(r->cx));
        if (status) return sp_fail_in(r->cx, "%.200s", a->entry[i].name);
        if (!e.name) e = (sp_named_tesa){.name = a->entry[i].name, .array = &a->entry[i].tensor};
        r->f.entry[r->f.n++] = e;
    }
    return SPARTA_OK;
}

sparta_status sp_tesas_open(sparta_ctx *cx, const char *path, sp_tesas *out)
{
    reader r = {.cx = cx};
    SP_TRY(sp_arrays_open(cx, path, &r.f.arrays));
    r.f.arena = sp_arena_create(cx);
    r.names = r.f.arena ? sp_map_create(cx) : NULL;
    sparta_status status = r.names ? read_all(&r) : sp_ctx_status(cx);
    sp_map_free(r.names);
    if (!status) {
        *out = r.f;
        return SPARTA_OK;
    }
    sp_tesas_close(&r.f);
    return sp_fail_in(cx, "%.200s", path);
}

void sp_tesas_close(sp_tesas *f)
{
    sp_arrays_close(&f->arrays);
    sp_arena_free(f->arena);
    *f = (sp_tesas){0};
}

sparta_status sp_tesas_mask(const sp_tesas *f, int i, sparta_tensor *out)
{
    const sp_named_tesa *e = &f->entry[i];
    const sp_tesa *t = &e->tesa;
    int64_t dim[SPARTA_RANK], index[SPARTA_RANK] = {0};
    if (e->array) {
        *out = *e->array;
        return SPARTA_OK;
    }
    if (!sp_dims_const(&t->dims, dim))
        return sp_fail(sp_arena_ctx(f->arena), SPARTA_E_SHAPE,
                       "mask '%.100s': one of its dims is no number; a weight has numbers", e->name);
    SP_TRY(sp_tensor_alloc_in(f->arena, SPARTA_BOOL, t->dims.rank, dim, out));
    const int64_t n = sparta_tensor_elements(out);
    for (int64_t at = 0; at < n; at++) {
        ((uint8_t *)out->data)[at] = !t->state.at || sp_cells_get(&t->state, t->dims.rank, index) != SP_ZERO;
        for (int d = t->dims.rank - 1; d >= 0 && ++index[d] == dim[d]; d--) index[d] = 0;
    }
    return SPARTA_OK;
}
