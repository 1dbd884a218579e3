/* Packed tensors in files: an .npz that NumPy opens.
 *
 *     format          u8, the canonical text            p{p}_l{k}_pos    positions of level k of part p
 *     shape           i64                               p{p}_l{k}_crd    its coordinates, or _bits of a bitmap
 *     sparta          u8, the mark: the version,        p{p}_{name}      arrays of an opaque format
 *                     then 1 for a pattern              p{p}_values      of a pattern: bools, or absent
 *
 * Part 0 is the whole where there is no sum. Nothing in a file is believed: names, types and lengths are checked here
 * and by verify before anything is followed.
 */
#include "store/entries.h"
#include <stdio.h>
#include <string.h>

enum {
    VERSION = 1,
    HEAD = 3,                 /* format, shape, sparta */
    EACH = 2 * SP_LEVELS + 1, /* the most arrays of a part */
    NAME = 32,                /* room for the name of an array */
    TEXT = 1 << 16            /* the most bytes of a format's text */
};

/* ------------------------------------------------------------------ which arrays a part has */

typedef struct {
    char name[EACH][NAME];
    int n;
    bool values[EACH]; /* is it the values? */
    bool pos[EACH];    /* else: in pos[level], or in crd[level] */
    int level[EACH];
} arrays;

static void SP_PRINTF(2, 3) name_array(arrays *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(a->name[a->n], NAME, format, args);
    va_end(args);
}

static void add_array(arrays *a, bool pos, int level)
{
    a->pos[a->n] = pos;
    a->level[a->n] = level;
    a->values[a->n++] = false;
}

static void level_arrays(const sp_format *f, int part, arrays *a)
{
    for (int k = 0; k < f->n; k++) {
        const sp_level_info *info = &sp_level_table[f->level[k].kind];
        bool shared = f->level[k].properties & SP_PROP_AOS;
        if (info->has_pos) {
            name_array(a, "p%d_l%d_pos", part, k);
            add_array(a, true, k);
        }
        if (info->crd_kind == SP_CRD_NONE || shared) continue;
        name_array(a, "p%d_l%d_%s", part, k, info->crd_kind == SP_CRD_BITS ? "bits" : "crd");
        add_array(a, false, k);
    }
}

/* Every array that part `part` of this format has, its values last. */
static void name_arrays(const sp_format *f, int part, arrays *a)
{
    a->n = 0;
    for (int k = 0; f->opaque && k < SP_OPAQUE_ARRAYS && f->opaque->array[k]; k++) {
        name_array(a, "p%d_%s", part, f->opaque->array[k]);
        add_array(a, false, k);
    }
    level_arrays(f, part, a);
    name_array(a, "p%d_values", part);
    a->values[a->n++] = true;
}

static sparta_tensor *array_of(sp_packed *p, const arrays *a, int i)
{
    return a->values[i] ? &p->values : a->pos[i] ? &p->pos[a->level[i]] : &p->crd[a->level[i]];
}

/* ------------------------------------------------------------------ write */

typedef struct {
    const char **name;
    char (*part_name)[NAME];
    sparta_tensor *tensor;
    int n;
} listing;

static void list(listing *l, const char *name, sparta_tensor t)
{
    l->name[l->n] = name;
    l->tensor[l->n++] = t;
}

static void list_part(listing *l, const sp_packed *p, int part)
{
    arrays a;
    name_arrays(&p->format, part, &a);
    for (int i = 0; i < a.n; i++) {
        const sparta_tensor *t = array_of((sp_packed *)p, &a, i);
        if (!t->rank) continue; /* a pattern's values */
        memcpy(l->part_name[l->n], a.name[i], NAME);
        list(l, l->part_name[l->n], *t);
    }
}

static sparta_status write_listed(sparta_ctx *cx, const char *path, const sp_packed *p, listing *l,
                                  sp_text *text)
{
    uint8_t mark[] = {VERSION, 1};
    sp_format_print(&p->format, text);
    SP_TRY(text->status);
    int64_t size = (int64_t)text->size, rank = p->rank, marks = p->pattern ? 2 : 1;
    list(l, "format", sparta_tensor_view(SPARTA_U8, 1, &size, text->data));
    list(l, "shape", sparta_tensor_view(SPARTA_I64, 1, &rank, (void *)p->dim));
    list(l, "sparta", sparta_tensor_view(SPARTA_U8, 1, &marks, mark));
    for (int i = 0; i < sp_packed_leaves(p); i++) list_part(l, sp_packed_leaf(p, i), i);
    return sp_npz_write(cx, path, l->n, l->name, l->tensor);
}

sparta_status sp_store_write(sparta_ctx *cx, const char *path, const sp_packed *p)
{
    SP_TRY(sp_packed_verify(cx, p));
    if (!p->pattern && sp_dtype_bits(p->dtype) < 8) /* NumPy's descr would not tell i4 from u4 */
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "%s: values of type %s have no form in this file; convert them to i8 or u8", path,
                       sparta_dtype_name(p->dtype));
    size_t most = HEAD + (size_t)sp_packed_leaves(p) * EACH;
    listing l = {.name = sp_alloc_array(cx, most, sizeof *l.name),
                 .part_name = sp_alloc_array(cx, most, sizeof *l.part_name),
                 .tensor = sp_alloc_array(cx, most, sizeof *l.tensor)};
    sp_text text;
    sp_text_init(&text, cx);
    bool room = l.name && l.part_name && l.tensor;
    sparta_status status = room ? write_listed(cx, path, p, &l, &text) : sp_ctx_status(cx);
    sp_text_free(&text);
    sp_free(cx, l.name);
    sp_free(cx, l.part_name);
    sp_free(cx, l.tensor);
    return status;
}

/* ------------------------------------------------------------------ read: names */

static bool is_row(const sparta_tensor *t, sparta_dtype dtype, int64_t least, int64_t most)
{
    return t && t->rank == 1 && t->dtype == dtype && t->dim[0] >= least && t->dim[0] <= most;
}

bool sp_store_is_packed(const sp_npz *z)
{
    const sparta_tensor *mark = sp_npz_find(z, "sparta");
    return mark && mark->rank == 1 && mark->dtype == SPARTA_U8 && mark->dim[0] >= 1 &&
           sp_npz_find(z, "format") && sp_npz_find(z, "shape");
}

/* p, a digit: a name of ours. All of them must have been asked for. */
static sparta_status all_used(sparta_ctx *cx, const sp_npz *z, const bool *used)
{
    for (int i = 0; i < z->n; i++) {
        const char *name = z->entry[i].name;
        if (!used[i] && name[0] == 'p' && name[1] >= '0' && name[1] <= '9')
            return sp_fail(cx, SPARTA_E_FORMAT, "the array %.64s is none that the format has", name);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ read: parts */

typedef struct {
    sparta_ctx *cx;
    const sp_npz *z;
    sp_map *names; /* to entries of z */
    bool *used;    /* (z->n) */
    const sparta_tensor *first_values;
    bool pattern; /* the mark says so, or a part has no values */
} reading;

static const sparta_tensor *use(reading *r, const char *name)
{
    int64_t i;
    if (!sp_map_get(r->names, name, &i)) return NULL;
    r->used[i] = true;
    return &r->z->entry[i].tensor;
}

static sparta_status read_part(reading *r, int part, sp_packed *p)
{
    arrays a;
    name_arrays(&p->format, part, &a);
    for (int i = 0; i < a.n; i++) {
        const sparta_tensor *t = use(r, a.name[i]);
        if (!t && !a.values[i]) return sp_fail(r->cx, SPARTA_E_FORMAT, "the array %s is missing", a.name[i]);
        if (t) *array_of(p, &a, i) = *t;
        if (!a.values[i]) continue;
        if (!t) r->pattern = true;
        if (t && !r->first_values) r->first_values = t;
    }
    return SPARTA_OK;
}

/* Types and shape of the whole, and of each part. */
static void complete(const reading *r, sp_packed *p)
{
    p->pattern = r->pattern;
    p->dtype = p->pattern || !r->first_values ? SPARTA_BOOL : r->first_values->dtype;
    for (int i = 0; i < p->parts; i++) {
        sp_packed *part = &p->part[i];
        part->pattern = p->pattern;
        part->dtype = p->dtype;
        part->rank = p->rank;
        memcpy(part->dim, p->dim, sizeof part->dim);
    }
}

static sparta_status read_parts(reading *r, sp_packed *p)
{
    const sp_format *leaf[SP_PARTS];
    int n = sp_sum_leaves(&p->format, leaf);
    if (n > SP_PARTS) return sp_fail(r->cx, SPARTA_E_FORMAT, "the sum has more than %d parts", SP_PARTS);
    if (p->format.sum) {
        p->part = sp_alloc_array(r->cx, (size_t)n, sizeof *p->part);
        SP_NEED(r->cx, p->part);
        p->parts = n;
    }
    for (int i = 0; i < n; i++) {
        sp_packed *part = p->format.sum ? &p->part[i] : p;
        part->format = *leaf[i];
        SP_TRY(read_part(r, i, part));
    }
    complete(r, p);
    return SPARTA_OK;
}

static sparta_status read_format(reading *r, const sparta_tensor *t, sp_format *out)
{
    sp_text text;
    if (!is_row(t, SPARTA_U8, 1, TEXT) || memchr(t->data, 0, (size_t)t->dim[0]))
        return sp_fail(r->cx, SPARTA_E_FORMAT, "the array format is no text of bytes (u8)");
    sp_text_init(&text, r->cx);
    sp_text_put(&text, t->data, (size_t)t->dim[0]);
    sparta_status status = text.status;
    if (!status) status = sp_format_parse(r->cx, sp_text_str(&text), out);
    if (status == SPARTA_E_USAGE) /* a wrong text is not the user's here */
        status = sp_fail(r->cx, SPARTA_E_FORMAT, "%s", sparta_message(r->cx));
    sp_text_free(&text);
    return status;
}

static sparta_status read_all(reading *r, sp_packed *p)
{
    for (int i = 0; i < r->z->n; i++) /* the reader of npz files saw that no name is there twice */
        SP_TRY(sp_map_put(r->names, r->z->entry[i].name, i));
    const sparta_tensor *mark = use(r, "sparta"), *shape = use(r, "shape"), *format = use(r, "format");
    if (!is_row(mark, SPARTA_U8, 1, 1 << 20))
        return sp_fail(r->cx, SPARTA_E_FORMAT,
                       "is no packed tensor of ours (no mark); make one with `sparta_packed_create`");
    if (((const uint8_t *)mark->data)[0] != VERSION)
        return sp_fail(r->cx, SPARTA_E_FORMAT, "is a packed tensor of version %d; this reads version %d",
                       ((const uint8_t *)mark->data)[0], VERSION);
    r->pattern = mark->dim[0] > 1 && ((const uint8_t *)mark->data)[1] == 1;
    SP_TRY(read_format(r, format, &p->format));
    if (!is_row(shape, SPARTA_I64, 1, SPARTA_RANK))
        return sp_fail(r->cx, SPARTA_E_FORMAT, "the array shape is no row of 1 to %d sizes (i64)",
                       SPARTA_RANK);
    p->rank = (int)shape->dim[0];
    memcpy(p->dim, shape->data, (size_t)p->rank * sizeof p->dim[0]);
    SP_TRY(read_parts(r, p));
    SP_TRY(all_used(r->cx, r->z, r->used));
    return sp_packed_verify(r->cx, p);
}

/* The parts are ours, their arrays the npz's. */
static void forget(sparta_ctx *cx, sp_packed *p)
{
    sp_free(cx, p->part);
    *p = (sp_packed){0};
}

static sparta_status read_npz(sparta_ctx *cx, const sp_npz *z, sp_packed *out)
{
    sp_packed p = {0};
    reading r = {.cx = cx, .z = z, .names = sp_map_create(cx)};
    SP_NEED(cx, r.names);
    r.used = sp_alloc_array(cx, (size_t)z->n, sizeof *r.used);
    sparta_status status = r.used ? read_all(&r, &p) : sp_ctx_status(cx);
    sp_free(cx, r.used);
    sp_map_free(r.names);
    if (status)
        forget(cx, &p);
    else
        *out = p;
    return status;
}

sparta_status sp_store_read(sparta_ctx *cx, const char *path, sp_store_file *out)
{
    sp_store_file f = {0};
    SP_TRY(sp_npz_read(cx, path, &f.npz));
    if (read_npz(cx, &f.npz, &f.packed)) {
        sp_npz_free(&f.npz);
        return sp_fail_in(cx, "%s", path);
    }
    *out = f;
    return SPARTA_OK;
}

void sp_store_file_free(sparta_ctx *cx, sp_store_file *f)
{
    if (!f) return;
    forget(cx, &f->packed);
    sp_npz_free(&f->npz);
}
