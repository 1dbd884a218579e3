/* safetensors, read in place and written as the reference writes it. */
#include "arrays/json.h"
#include "arrays/arrays.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MOST = 100000000 };
#define METADATA "__metadata__"

/* The types, in the order of the reference's enum, by which its writer sorts (last first). */
static const struct {
    const char *name;
    sparta_dtype dtype;
} types[] = {{"BOOL", SPARTA_BOOL}, {"U8", SPARTA_U8},   {"I8", SPARTA_I8},     {"I16", SPARTA_I16},
             {"U16", SPARTA_U16},   {"F16", SPARTA_F16}, {"BF16", SPARTA_BF16}, {"I32", SPARTA_I32},
             {"U32", SPARTA_U32},   {"F32", SPARTA_F32}, {"F64", SPARTA_F64},   {"I64", SPARTA_I64},
             {"U64", SPARTA_U64}};

static int rank_of_type(sparta_dtype dtype)
{
    for (size_t i = 0; i < SP_COUNT(types); i++)
        if (types[i].dtype == dtype) return (int)i;
    return -1;
}

/* ------------------------------------------------------------------ the header */

typedef struct info { /* of one tensor, as the header says */
    char *name, *type;
    uint64_t begin, end;
    int rank;
    int64_t dim[SPARTA_RANK];
} info;

typedef struct header {
    sparta_ctx *cx;
    sp_arena *arena;
    json_reader r;
    sp_text scratch;
    sp_map *names, *keys; /* of tensors, of metadata */
    info *tensor;         /* a growing array of the context */
    size_t n, most;
    sp_key_value *pair;
    size_t n_pairs, most_pairs;
} header;

/* Room for one more element; the array doubles. */
static sparta_status grow(sparta_ctx *cx, void **array, size_t n, size_t *most, size_t size)
{
    if (n < *most) return SPARTA_OK;
    size_t more = *most ? *most * 2 : 16; /* n is bounded by the header's 100 MB */
    void *p = sp_realloc(cx, *array, more * size);
    SP_NEED(cx, p);
    *array = p;
    *most = more;
    return SPARTA_OK;
}

static sparta_status keep(header *h, char **out)
{
    *out = sp_arena_bytes(h->arena, sp_text_str(&h->scratch), h->scratch.size);
    SP_NEED(h->cx, *out);
    return SPARTA_OK;
}

static sparta_status new_key(header *h, sp_map *seen, char **out)
{
    SP_TRY(keep(h, out));
    if (sp_map_get(seen, *out, NULL))
        return sp_fail(h->cx, SPARTA_E_FORMAT, "the key \"%.200s\" occurs twice", *out);
    return sp_map_put(seen, *out, 1);
}

static sparta_status read_metadata(header *h)
{
    bool more;
    SP_TRY(sp_json_open(&h->r, '{'));
    for (;;) {
        char *key = NULL, *value = NULL;
        SP_TRY(sp_json_more(&h->r, '}', &more));
        if (!more) return SPARTA_OK;
        SP_TRY(sp_json_key(&h->r, &h->scratch));
        SP_TRY(new_key(h, h->keys, &key));
        SP_TRY(sp_json_string(&h->r, &h->scratch));
        SP_TRY(keep(h, &value));
        SP_TRY(grow(h->cx, (void **)&h->pair, h->n_pairs, &h->most_pairs, sizeof *h->pair));
        h->pair[h->n_pairs++] = (sp_key_value){key, value};
    }
}

static sparta_status read_shape(header *h, info *t)
{
    bool more;
    uint64_t size = 0;
    SP_TRY(sp_json_open(&h->r, '['));
    for (;;) {
        SP_TRY(sp_json_more(&h->r, ']', &more));
        if (!more) return SPARTA_OK;
        SP_TRY(sp_json_size(&h->r, &size));
        if (t->rank == SPARTA_RANK)
            return sp_fail(h->cx, SPARTA_E_UNSUPPORTED, "more than %d dimensions are not supported",
                           SPARTA_RANK);
        if (size > INT64_MAX) return sp_json_wrong(&h->r, "a size does not fit in 63 bits");
        t->dim[t->rank++] = (int64_t)size;
    }
}

static sparta_status read_offsets(header *h, info *t)
{
    bool more;
    uint64_t *const out[] = {&t->begin, &t->end};
    SP_TRY(sp_json_open(&h->r, '['));
    for (int i = 0; i < 3; i++) {
        SP_TRY(sp_json_more(&h->r, ']', &more));
        if (more != (i < 2)) return sp_json_wrong(&h->r, "data_offsets are two numbers");
        if (more) SP_TRY(sp_json_size(&h->r, out[i]));
    }
    return SPARTA_OK;
}

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

static sparta_status read_field(header *h, info *t, unsigned *seen)
{
    SP_TRY(sp_json_key(&h->r, &h->scratch));
    const char *key = sp_text_str(&h->scratch);
    unsigned bit = !strcmp(key, "dtype")          ? SEEN_DTYPE
                   : !strcmp(key, "shape")        ? SEEN_SHAPE
                   : !strcmp(key, "data_offsets") ? SEEN_OFFSETS
                                                  : 0;
    if (*seen & bit) return sp_json_wrong(&h->r, "a key occurs twice");
    *seen |= bit;
    if (bit == SEEN_SHAPE) return read_shape(h, t);
    if (bit == SEEN_OFFSETS) return read_offsets(h, t);
    if (!bit) return sp_json_skip(&h->r); /* the reference skips them too */
    SP_TRY(sp_json_string(&h->r, &h->scratch));
    return keep(h, &t->type);
}

static sparta_status read_info(header *h, info *t)
{
    unsigned seen = 0;
    bool more;
    SP_TRY(sp_json_open(&h->r, '{'));
    for (;;) {
        SP_TRY(sp_json_more(&h->r, '}', &more));
        if (!more) break;
        SP_TRY(read_field(h, t, &seen));
    }
    return seen == SEEN_ALL ? SPARTA_OK : sp_json_wrong(&h->r, "a tensor lacks dtype, shape or data_offsets");
}

static sparta_status read_header(header *h)
{
    bool more;
    SP_TRY(sp_json_open(&h->r, '{'));
    for (;;) {
        info t = {0};
        SP_TRY(sp_json_more(&h->r, '}', &more));
        if (!more) return sp_json_end(&h->r);
        SP_TRY(sp_json_key(&h->r, &h->scratch));
        SP_TRY(new_key(h, h->names, &t.name));
        if (!strcmp(t.name, METADATA)) {
            if (read_metadata(h)) return sp_fail_in(h->cx, METADATA);
            continue;
        }
        if (read_info(h, &t)) return sp_fail_in(h->cx, "tensor \"%.200s\"", t.name);
        SP_TRY(grow(h->cx, (void **)&h->tensor, h->n, &h->most, sizeof *h->tensor));
        h->tensor[h->n++] = t;
    }
}

/* ------------------------------------------------------------------ the data */

static int by_offset(const void *a, const void *b)
{
    const info *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sorted, every tensor begins where the one before it ends: also an empty one. */
static sparta_status check_tiling(header *h, uint64_t size)
{
    uint64_t at = 0;
    if (h->n) qsort(h->tensor, h->n, sizeof *h->tensor, by_offset);
    for (size_t i = 0; i < h->n; i++) {
        const info *t = &h->tensor[i];
        if (t->begin > t->end || t->end > size)
            return sp_fail(
                h->cx, SPARTA_E_FORMAT,
                "tensor \"%.200s\": data_offsets [%llu, %llu] are not inside the %llu bytes of data", t->name,
                (unsigned long long)t->begin, (unsigned long long)t->end, (unsigned long long)size);
        if (t->begin != at)
            return sp_fail(
                h->cx, SPARTA_E_FORMAT,
                "tensor \"%.200s\": its data begins at %llu, which %s the data before it, which ends at %llu",
                t->name, (unsigned long long)t->begin, t->begin < at ? "overlaps" : "leaves a gap to",
                (unsigned long long)at);
        at = t->end;
    }
    if (at == size) return SPARTA_OK;
    return sp_fail(h->cx, SPARTA_E_FORMAT,
                   "the tensors end at byte %llu of the data, the file at %llu; it was cut or appended to",
                   (unsigned long long)at, (unsigned long long)size);
}

static sparta_status find_type(sparta_ctx *cx, const char *name, sparta_dtype *out)
{
    for (size_t i = 0; i < SP_COUNT(types); i++)
        if (!strcmp(types[i].name, name)) {
            *out = types[i].dtype;
            return SPARTA_OK;
        }
    return sp_fail(cx, SPARTA_E_UNSUPPORTED, "the type %.40s is not supported; save it as F32, F16 or BF16",
                   name);
}

static bool is_clean(sparta_dtype dtype, const uint8_t *p, size_t n)
{
    if ((uintptr_t)p % sparta_dtype_size(dtype)) return false;
    for (size_t i = 0; dtype == SPARTA_BOOL && i < n; i++)
        if (p[i] > 1) return false;
    return true;
}

/* A view, or a copy when C could not read the bytes where they are. */
static sparta_status view(header *h, const info *t, const uint8_t *data, sparta_tensor *out)
{
    sparta_dtype dtype = SPARTA_F32;
    size_t bytes = 0;
    SP_TRY(find_type(h->cx, t->type, &dtype));
    SP_TRY(sp_tensor_bytes(h->cx, dtype, t->rank, t->dim, &bytes));
    if (bytes != t->end - t->begin)
        return sp_fail(h->cx, SPARTA_E_FORMAT, "its shape and type need %zu bytes and data_offsets give %llu",
                       bytes, (unsigned long long)(t->end - t->begin));
    const uint8_t *p = data + t->begin;
    if (is_clean(dtype, p, bytes)) {
        *out = sparta_tensor_view(dtype, t->rank, t->dim, (void *)p);
        return SPARTA_OK;
    }
    SP_TRY(sp_tensor_alloc_in(h->arena, dtype, t->rank, t->dim, out));
    memcpy(out->data, p, bytes);
    for (size_t i = 0; dtype == SPARTA_BOOL && i < bytes; i++) ((uint8_t *)out->data)[i] = p[i] != 0;
    return SPARTA_OK;
}

static sparta_status make(header *h, const uint8_t *data, sp_safetensors *s)
{
    s->entry = sp_arena_array(h->arena, h->n, sizeof *s->entry);
    SP_NEED(h->cx, s->entry);
    for (size_t i = 0; i < h->n; i++) {
        s->entry[i].name = h->tensor[i].name;
        if (view(h, &h->tensor[i], data, &s->entry[i].tensor))
            return sp_fail_in(h->cx, "tensor \"%.200s\"", h->tensor[i].name);
    }
    s->n = (int)h->n;
    s->n_metadata = (int)h->n_pairs;
    s->metadata = sp_arena_array(h->arena, h->n_pairs, sizeof *s->metadata);
    SP_NEED(h->cx, s->metadata);
    if (h->n_pairs) memcpy(s->metadata, h->pair, h->n_pairs * sizeof *s->metadata);
    return SPARTA_OK;
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static sparta_status header_size(sparta_ctx *cx, const uint8_t *bytes, size_t n, size_t *out)
{
    if (n < 8)
        return sp_fail(cx, SPARTA_E_FORMAT, "the file has %zu bytes, its header's length alone takes 8", n);
    uint64_t size = get64(bytes);
    if (size > HEADER_MOST)
        return sp_fail(cx, SPARTA_E_LIMIT, "a header of %llu bytes; at most %d are read",
                       (unsigned long long)size, HEADER_MOST);
    if (size > n - 8)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "the header has %llu bytes and the file only %zu after its length",
                       (unsigned long long)size, n - 8);
    if (size == 0 || bytes[8] != '{')
        return sp_fail(cx, SPARTA_E_FORMAT, "the header does not begin with '{'");
    *out = (size_t)size;
    return SPARTA_OK;
}

static sparta_status parse(header *h, const uint8_t *bytes, size_t n, sp_safetensors *s)
{
    size_t size = 0;
    SP_TRY(header_size(h->cx, bytes, n, &size));
    const char *text = (const char *)bytes + 8;
    h->r = (json_reader){.cx = h->cx, .begin = text, .at = text, .end = text + size};
    h->names = sp_map_create(h->cx);
    SP_NEED(h->cx, h->names);
    h->keys = sp_map_create(h->cx);
    SP_NEED(h->cx, h->keys);
    SP_TRY(read_header(h));
    if (h->n > INT_MAX || h->n_pairs > INT_MAX) return sp_fail(h->cx, SPARTA_E_LIMIT, "too many tensors");
    SP_TRY(check_tiling(h, n - 8 - size));
    return make(h, bytes + 8 + size, s);
}

sparta_status sp_safetensors_parse(sparta_ctx *cx, const void *bytes, size_t n, sp_safetensors *out)
{
    sp_safetensors s = {.arena = sp_arena_create(cx)};
    SP_NEED(cx, s.arena);
    header h = {.cx = cx, .arena = s.arena};
    sp_text_init(&h.scratch, cx);
    sparta_status status = parse(&h, bytes, n, &s);
    sp_text_free(&h.scratch);
    sp_map_free(h.names);
    sp_map_free(h.keys);
    sp_free(cx, h.tensor);
    sp_free(cx, h.pair);
    if (status) {
        sp_arena_free(s.arena);
        return sp_fail_in(cx, "safetensors");
    }
    *out = s;
    return SPARTA_OK;
}

sparta_status sp_safetensors_open(sparta_ctx *cx, const char *path, sp_safetensors *out)
{
    sp_mapped m;
    SP_TRY(sp_mapped_open(cx, path, &m));
    if (sp_safetensors_parse(cx, m.data, m.size, out)) {
        sp_mapped_close(&m);
        return sp_fail_in(cx, "%s", path);
    }
    out->file = m;
    return SPARTA_OK;
}

void sp_safetensors_close(sp_safetensors *s)
{
    if (!s) return;
    sp_arena_free(s->arena);
    sp_mapped_close(&s->file);
    *s = (sp_safetensors){0};
}

/* ------------------------------------------------------------------ writing */

typedef struct item {
    const char *name;
    const sparta_tensor *tensor;
} item;

static int by_type_then_name(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int p = rank_of_type(x->tensor->dtype), q = rank_of_type(y->tensor->dtype);
    return p != q ? q - p : strcmp(x->name, y->name);
}

/* Names that the reader would refuse. */
static sparta_status check_name(sparta_ctx *cx, sp_map *seen, const char *name)
{
    if (!sp_json_is_text(name)) return sp_fail(cx, SPARTA_E_USAGE, "safetensors: a name is no UTF-8");
    if (sp_map_get(seen, name, NULL))
        return sp_fail(cx, SPARTA_E_USAGE, "safetensors: the name \"%.200s\" is given twice", name);
    return sp_map_put(seen, name, 1);
}

static sparta_status check_names(sparta_ctx *cx, int n, const char *const *names, int n_metadata,
                                 const sp_key_value *metadata)
{
    sp_map *seen = sp_map_create(cx), *keys = seen ? sp_map_create(cx) : NULL;
    sparta_status status = keys ? sp_map_put(seen, METADATA, 1) : sp_ctx_status(cx);
    for (int i = 0; i < n && !status; i++) status = check_name(cx, seen, names[i]);
    for (int i = 0; i < n_metadata && !status; i++) status = check_name(cx, keys, metadata[i].key);
    sp_map_free(seen);
    sp_map_free(keys);
    return status;
}

static void print_metadata(sp_text *t, int n, const sp_key_value *pair)
{
    sp_text_json(t, METADATA);
    for (int i = 0; i < n; i++) {
        sp_text_printf(t, i ? "," : ":{");
        sp_text_json(t, pair[i].key);
        sp_text_printf(t, ":");
        sp_text_json(t, pair[i].value);
    }
    sp_text_printf(t, "}");
}

static sparta_status print_header(sparta_ctx *cx, sp_text *t, int n, const item *items, int n_metadata,
                                  const sp_key_value *metadata)
{
    size_t at = 0, bytes = 0;
    sp_text_put(t, "\0\0\0\0\0\0\0\0{", 9);
    if (n_metadata) print_metadata(t, n_metadata, metadata);
    for (int i = 0; i < n; i++) {
        const sparta_tensor *x = items[i].tensor;
        if (rank_of_type(x->dtype) < 0)
            return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                           "safetensors: \"%.200s\" is %s, which has no form there; convert it to i8 or u8",
                           items[i].name, sparta_dtype_name(x->dtype));
        SP_TRY(sp_tensor_bytes(cx, x->dtype, x->rank, x->dim, &bytes));
        if (i || n_metadata) sp_text_put(t, ",", 1);
        sp_text_json(t, items[i].name);
        sp_text_printf(t, ":{\"dtype\":\"%s\",\"shape\":[", types[rank_of_type(x->dtype)].name);
        for (int d = 0; d < x->rank; d++) sp_text_printf(t, d ? ",%lld" : "%lld", (long long)x->dim[d]);
        sp_text_printf(t, "],\"data_offsets\":[%zu,", at);
        if (!sp_size_add(at, bytes, &at)) return sp_fail(cx, SPARTA_E_LIMIT, "safetensors: too much data");
        sp_text_printf(t, "%zu]}", at);
    }
    sp_text_put(t, "}", 1);
    while (!t->status && t->size % 8) sp_text_put(t, " ", 1);
    if (t->status) return t->status;
    if (t->size - 8 > HEADER_MOST)
        return sp_fail(cx, SPARTA_E_LIMIT, "safetensors: the header would have %zu bytes", t->size - 8);
    for (int i = 0; i < 8; i++) t->data[i] = (char)((t->size - 8) >> (8 * i) & 255);
    return SPARTA_OK;
}

static sparta_status write_tensor(sparta_ctx *cx, sp_atomic *f, const sparta_tensor *t)
{
    size_t bytes = 0;
    const sparta_tensor *rows;
    sparta_tensor own;
    SP_TRY(sp_tensor_bytes(cx, t->dtype, t->rank, t->dim, &bytes));
    SP_TRY(sp_tensor_row_major(cx, t, &own, &rows));
    sparta_status status = sp_atomic_write(f, rows->data, bytes);
    sp_free(cx, own.data);
    return status;
}

static sparta_status write_file(sparta_ctx *cx, const char *path, const sp_text *head, int n,
                                const item *items)
{
    sp_atomic *f = sp_atomic_open(cx, path);
    SP_NEED(cx, f);
    sparta_status status = sp_atomic_write(f, head->data, head->size);
    for (int i = 0; i < n && !status; i++) status = write_tensor(cx, f, items[i].tensor);
    return sp_atomic_end(f, status);
}

sparta_status sp_safetensors_write(sparta_ctx *cx, const char *path, int n, const char *const *names,
                                   const sparta_tensor *tensors, int n_metadata, const sp_key_value *metadata)
{
    sp_text head;
    SP_TRY(check_names(cx, n, names, n_metadata, metadata));
    item *items = sp_alloc_array(cx, (size_t)n, sizeof *items);
    SP_NEED(cx, items);
    for (int i = 0; i < n; i++) items[i] = (item){names[i], &tensors[i]};
    if (n) qsort(items, (size_t)n, sizeof *items, by_type_then_name);
    sp_text_init(&head, cx);
    sparta_status status = print_header(cx, &head, n, items, n_metadata, metadata);
    if (!status) status = write_file(cx, path, &head, n, items);
    sp_text_free(&head);
    sp_free(cx, items);
    return status;
}
