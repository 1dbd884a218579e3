/* safetensors, read in place and written as the reference writes it. */
#include "file/json.h"
#include "file/file.h"
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
    for (size_t i = 0; i < SPARTA_COUNT(types); i++)
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
    sparta_arena *arena;
    json_reader r;
    sparta_text scratch;
    sparta_map *names, *keys; /* of tensors, of metadata */
    info *tensor;             /* a growing array of the context */
    size_t n, most;
    sparta_pair *pair;
    size_t n_pairs, most_pairs;
} header;

/* Room for one more element; the array doubles. */
static sparta_status grow(sparta_ctx *cx, void **array, size_t n, size_t *most, size_t size)
{
    if (n < *most) return SPARTA_OK;
    size_t more = *most ? *most * 2 : 16; /* n is bounded by the header's 100 MB */
    void *p = sparta_realloc(cx, *array, more * size);
    SPARTA_NEED(cx, p);
    *array = p;
    *most = more;
    return SPARTA_OK;
}

static sparta_status keep(header *h, char **out)
{
    *out = sparta_arena_bytes(h->arena, sparta_text_str(&h->scratch), h->scratch.size);
    SPARTA_NEED(h->cx, *out);
    return SPARTA_OK;
}

static sparta_status new_key(header *h, sparta_map *seen, char **out)
{
    SPARTA_TRY(keep(h, out));
    if (sparta_map_get(seen, *out, NULL))
        return sparta_fail(h->cx, SPARTA_E_FORMAT, "the key \"%.200s\" occurs twice", *out);
    return sparta_map_put(seen, *out, 1);
}

static sparta_status read_metadata(header *h)
{
    bool more;
    SPARTA_TRY(sparta_json_open(&h->r, '{'));
    for (;;) {
        char *key = NULL, *value = NULL;
        SPARTA_TRY(sparta_json_more(&h->r, '}', &more));
        if (!more) return SPARTA_OK;
        SPARTA_TRY(sparta_json_key(&h->r, &h->scratch));
        SPARTA_TRY(new_key(h, h->keys, &key));
        SPARTA_TRY(sparta_json_string(&h->r, &h->scratch));
        SPARTA_TRY(keep(h, &value));
        SPARTA_TRY(grow(h->cx, (void **)&h->pair, h->n_pairs, &h->most_pairs, sizeof *h->pair));
        h->pair[h->n_pairs++] = (sparta_pair){key, value};
    }
}

static sparta_status read_shape(header *h, info *t)
{
    bool more;
    uint64_t size = 0;
    SPARTA_TRY(sparta_json_open(&h->r, '['));
    for (;;) {
        SPARTA_TRY(sparta_json_more(&h->r, ']', &more));
        if (!more) return SPARTA_OK;
        SPARTA_TRY(sparta_json_size(&h->r, &size));
        if (t->rank == SPARTA_RANK)
            return sparta_fail(h->cx, SPARTA_E_UNSUPPORTED, "more than %d dimensions are not supported",
                               SPARTA_RANK);
        if (size > INT64_MAX) return sparta_json_wrong(&h->r, "a size does not fit in 63 bits");
        t->dim[t->rank++] = (int64_t)size;
    }
}

static sparta_status read_offsets(header *h, info *t)
{
    bool more;
    uint64_t *const out[] = {&t->begin, &t->end};
    SPARTA_TRY(sparta_json_open(&h->r, '['));
    for (int i = 0; i < 3; i++) {
        SPARTA_TRY(sparta_json_more(&h->r, ']', &more));
        if (more != (i < 2)) return sparta_json_wrong(&h->r, "data_offsets are two numbers");
        if (more) SPARTA_TRY(sparta_json_size(&h->r, out[i]));
    }
    return SPARTA_OK;
}

enum { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

static sparta_status read_field(header *h, info *t, unsigned *seen)
{
    SPARTA_TRY(sparta_json_key(&h->r, &h->scratch));
    const char *key = sparta_text_str(&h->scratch);
    unsigned bit = !strcmp(key, "dtype")          ? SEEN_DTYPE
                   : !strcmp(key, "shape")        ? SEEN_SHAPE
                   : !strcmp(key, "data_offsets") ? SEEN_OFFSETS
                                                  : 0;
    if (*seen & bit) return sparta_json_wrong(&h->r, "a key occurs twice");
    *seen |= bit;
    if (bit == SEEN_SHAPE) return read_shape(h, t);
    if (bit == SEEN_OFFSETS) return read_offsets(h, t);
    if (!bit) return sparta_json_skip(&h->r); /* the reference skips them too */
    SPARTA_TRY(sparta_json_string(&h->r, &h->scratch));
    return keep(h, &t->type);
}

static sparta_status read_info(header *h, info *t)
{
    unsigned seen = 0;
    bool more;
    SPARTA_TRY(sparta_json_open(&h->r, '{'));
    for (;;) {
        SPARTA_TRY(sparta_json_more(&h->r, '}', &more));
        if (!more) break;
        SPARTA_TRY(read_field(h, t, &seen));
    }
    return seen == SEEN_ALL ? SPARTA_OK
                            : sparta_json_wrong(&h->r, "a tensor lacks dtype, shape or data_offsets");
}

static sparta_status read_header(header *h)
{
    bool more;
    SPARTA_TRY(sparta_json_open(&h->r, '{'));
    for (;;) {
        info t = {0};
        SPARTA_TRY(sparta_json_more(&h->r, '}', &more));
        if (!more) return sparta_json_end(&h->r);
        SPARTA_TRY(sparta_json_key(&h->r, &h->scratch));
        SPARTA_TRY(new_key(h, h->names, &t.name));
        if (!strcmp(t.name, METADATA)) {
            if (read_metadata(h)) return sparta_fail_in(h->cx, METADATA);
            continue;
        }
        if (read_info(h, &t)) return sparta_fail_in(h->cx, "tensor \"%.200s\"", t.name);
        SPARTA_TRY(grow(h->cx, (void **)&h->tensor, h->n, &h->most, sizeof *h->tensor));
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
            return sparta_fail(
                h->cx, SPARTA_E_FORMAT,
                "tensor \"%.200s\": data_offsets [%llu, %llu] are not inside the %llu bytes of data", t->name,
                (unsigned long long)t->begin, (unsigned long long)t->end, (unsigned long long)size);
        if (t->begin != at)
            return sparta_fail(
                h->cx, SPARTA_E_FORMAT,
                "tensor \"%.200s\": its data begins at %llu, which %s the data before it, which ends at %llu",
                t->name, (unsigned long long)t->begin, t->begin < at ? "overlaps" : "leaves a gap to",
                (unsigned long long)at);
        at = t->end;
    }
    if (at == size) return SPARTA_OK;
    return sparta_fail(
        h->cx, SPARTA_E_FORMAT,
        "the tensors end at byte %llu of the data, the file at %llu; it was cut or appended to",
        (unsigned long long)at, (unsigned long long)size);
}

static sparta_status find_type(sparta_ctx *cx, const char *name, sparta_dtype *out)
{
    for (size_t i = 0; i < SPARTA_COUNT(types); i++)
        if (!strcmp(types[i].name, name)) {
            *out = types[i].dtype;
            return SPARTA_OK;
        }
    return sparta_fail(cx, SPARTA_E_UNSUPPORTED,
                       "the type %.40s is not supported; save it as F32, F16 or BF16", name);
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
    SPARTA_TRY(find_type(h->cx, t->type, &dtype));
    SPARTA_TRY(sparta_tensor_bytes(h->cx, dtype, t->rank, t->dim, &bytes));
    if (bytes != t->end - t->begin)
        return sparta_fail(h->cx, SPARTA_E_FORMAT,
                           "its shape and type need %zu bytes and data_offsets give %llu", bytes,
                           (unsigned long long)(t->end - t->begin));
    const uint8_t *p = data + t->begin;
    if (is_clean(dtype, p, bytes)) {
        *out = sparta_tensor_view(dtype, t->rank, t->dim, (void *)p);
        return SPARTA_OK;
    }
    SPARTA_TRY(sparta_tensor_alloc_in(h->arena, dtype, t->rank, t->dim, out));
    memcpy(out->data, p, bytes);
    for (size_t i = 0; dtype == SPARTA_BOOL && i < bytes; i++) ((uint8_t *)out->data)[i] = p[i] != 0;
    return SPARTA_OK;
}

static sparta_status make(header *h, const uint8_t *data, sparta_safetensors *s)
{
    s->entry = sparta_arena_array(h->arena, h->n, sizeof *s->entry);
    SPARTA_NEED(h->cx, s->entry);
    for (size_t i = 0; i < h->n; i++) {
        s->entry[i].name = h->tensor[i].name;
        if (view(h, &h->tensor[i], data, &s->entry[i].tensor))
            return sparta_fail_in(h->cx, "tensor \"%.200s\"", h->tensor[i].name);
    }
    s->n = (int)h->n;
    s->n_metadata = (int)h->n_pairs;
    s->metadata = sparta_arena_array(h->arena, h->n_pairs, sizeof *s->metadata);
    SPARTA_NEED(h->cx, s->metadata);
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
        return sparta_fail(cx, SPARTA_E_FORMAT, "the file has %zu bytes, its header's length alone takes 8",
                           n);
    uint64_t size = get64(bytes);
    if (size > HEADER_MOST)
        return sparta_fail(cx, SPARTA_E_LIMIT, "a header of %llu bytes; at most %d are read",
                           (unsigned long long)size, HEADER_MOST);
    if (size > n - 8)
        return sparta_fail(cx, SPARTA_E_FORMAT,
                           "the header has %llu bytes and the file only %zu after its length",
                           (unsigned long long)size, n - 8);
    if (size == 0 || bytes[8] != '{')
        return sparta_fail(cx, SPARTA_E_FORMAT, "the header does not begin with '{'");
    *out = (size_t)size;
    return SPARTA_OK;
}

static sparta_status parse(header *h, const uint8_t *bytes, size_t n, sparta_safetensors *s)
{
    size_t size = 0;
    SPARTA_TRY(header_size(h->cx, bytes, n, &size));
    const char *text = (const char *)bytes + 8;
    h->r = (json_reader){.cx = h->cx, .begin = text, .at = text, .end = text + size};
    h->names = sparta_map_create(h->cx);
    SPARTA_NEED(h->cx, h->names);
    h->keys = sparta_map_create(h->cx);
    SPARTA_NEED(h->cx, h->keys);
    SPARTA_TRY(read_header(h));
    if (h->n > INT_MAX || h->n_pairs > INT_MAX) return sparta_fail(h->cx, SPARTA_E_LIMIT, "too many tensors");
    SPARTA_TRY(check_tiling(h, n - 8 - size));
    return make(h, bytes + 8 + size, s);
}

sparta_status sparta_safetensors_parse(sparta_ctx *cx, const void *bytes, size_t n, sparta_safetensors *out)
{
    sparta_safetensors s = {.arena = sparta_arena_create(cx)};
    SPARTA_NEED(cx, s.arena);
    header h = {.cx = cx, .arena = s.arena};
    sparta_text_init(&h.scratch, cx);
    sparta_status status = parse(&h, bytes, n, &s);
    sparta_text_free(&h.scratch);
    sparta_map_free(h.names);
    sparta_map_free(h.keys);
    sparta_free(cx, h.tensor);
    sparta_free(cx, h.pair);
    if (status) {
        sparta_arena_free(s.arena);
        return sparta_fail_in(cx, "safetensors");
    }
    *out = s;
    return SPARTA_OK;
}

sparta_status sparta_safetensors_open(sparta_ctx *cx, const char *path, sparta_safetensors *out)
{
    sparta_mapped m;
    SPARTA_TRY(sparta_map_open(cx, path, &m));
    if (sparta_safetensors_parse(cx, m.data, m.size, out)) {
        sparta_map_close(&m);
        return sparta_fail_in(cx, "%s", path);
    }
    out->file = m;
    return SPARTA_OK;
}

void sparta_safetensors_close(sparta_safetensors *s)
{
    if (!s) return;
    sparta_arena_free(s->arena);
    sparta_map_close(&s->file);
    *s = (sparta_safetensors){0};
}

const sparta_tensor *sparta_safetensors_find(const sparta_safetensors *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->entry[i].name, name)) return &s->entry[i].tensor;
    return NULL;
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
static sparta_status check_name(sparta_ctx *cx, sparta_map *seen, const char *name)
{
    if (!sparta_json_is_text(name)) return sparta_fail(cx, SPARTA_E_USAGE, "safetensors: a name is no UTF-8");
    if (sparta_map_get(seen, name, NULL))
        return sparta_fail(cx, SPARTA_E_USAGE, "safetensors: the name \"%.200s\" is given twice", name);
    return sparta_map_put(seen, name, 1);
}

static sparta_status check_names(sparta_ctx *cx, int n, const char *const *names, int n_metadata,
                                 const sparta_pair *metadata)
{
    sparta_map *seen = sparta_map_create(cx), *keys = seen ? sparta_map_create(cx) : NULL;
    sparta_status status = keys ? sparta_map_put(seen, METADATA, 1) : sparta_ctx_status(cx);
    for (int i = 0; i < n && !status; i++) status = check_name(cx, seen, names[i]);
    for (int i = 0; i < n_metadata && !status; i++) status = check_name(cx, keys, metadata[i].key);
    sparta_map_free(seen);
    sparta_map_free(keys);
    return status;
}

static void print_metadata(sparta_text *t, int n, const sparta_pair *pair)
{
    sparta_text_json(t, METADATA);
    for (int i = 0; i < n; i++) {
        sparta_text_printf(t, i ? "," : ":{");
        sparta_text_json(t, pair[i].key);
        sparta_text_printf(t, ":");
        sparta_text_json(t, pair[i].value);
    }
    sparta_text_printf(t, "}");
}

static sparta_status print_header(sparta_ctx *cx, sparta_text *t, int n, const item *items, int n_metadata,
                                  const sparta_pair *metadata)
{
    size_t at = 0, bytes = 0;
    sparta_text_put(t, "\0\0\0\0\0\0\0\0{", 9);
    if (n_metadata) print_metadata(t, n_metadata, metadata);
    for (int i = 0; i < n; i++) {
        const sparta_tensor *x = items[i].tensor;
        if (rank_of_type(x->dtype) < 0)
            return sparta_fail(
                cx, SPARTA_E_UNSUPPORTED,
                "safetensors: \"%.200s\" is %s, which has no form there; convert it to i8 or u8",
                items[i].name, sparta_dtype_name(x->dtype));
        SPARTA_TRY(sparta_tensor_bytes(cx, x->dtype, x->rank, x->dim, &bytes));
        if (i || n_metadata) sparta_text_put(t, ",", 1);
        sparta_text_json(t, items[i].name);
        sparta_text_printf(t, ":{\"dtype\":\"%s\",\"shape\":[", types[rank_of_type(x->dtype)].name);
        for (int d = 0; d < x->rank; d++) sparta_text_printf(t, d ? ",%lld" : "%lld", (long long)x->dim[d]);
        sparta_text_printf(t, "],\"data_offsets\":[%zu,", at);
        if (!sparta_size_add(at, bytes, &at))
            return sparta_fail(cx, SPARTA_E_LIMIT, "safetensors: too much data");
        sparta_text_printf(t, "%zu]}", at);
    }
    sparta_text_put(t, "}", 1);
    while (!t->status && t->size % 8) sparta_text_put(t, " ", 1);
    if (t->status) return t->status;
    if (t->size - 8 > HEADER_MOST)
        return sparta_fail(cx, SPARTA_E_LIMIT, "safetensors: the header would have %zu bytes", t->size - 8);
    for (int i = 0; i < 8; i++) t->data[i] = (char)((t->size - 8) >> (8 * i) & 255);
    return SPARTA_OK;
}

static sparta_status write_tensor(sparta_ctx *cx, sparta_atomic *f, const sparta_tensor *t)
{
    size_t bytes = 0;
    sparta_tensor copy;
    SPARTA_TRY(sparta_tensor_bytes(cx, t->dtype, t->rank, t->dim, &bytes));
    if (sparta_tensor_contiguous(t)) return sparta_atomic_write(f, t->data, bytes);
    SPARTA_TRY(sparta_tensor_alloc(cx, t->dtype, t->rank, t->dim, &copy));
    sparta_status status = sparta_tensor_copy(cx, t, &copy);
    if (!status) status = sparta_atomic_write(f, copy.data, bytes);
    sparta_free(cx, copy.data);
    return status;
}

static sparta_status write_file(sparta_ctx *cx, const char *path, const sparta_text *head, int n,
                                const item *items)
{
    sparta_atomic *f = sparta_atomic_open(cx, path);
    SPARTA_NEED(cx, f);
    sparta_status status = sparta_atomic_write(f, head->data, head->size);
    for (int i = 0; i < n && !status; i++) status = write_tensor(cx, f, items[i].tensor);
    if (!status) return sparta_atomic_commit(f);
    sparta_atomic_abort(f);
    return status;
}

sparta_status sparta_safetensors_write(sparta_ctx *cx, const char *path, int n, const char *const *names,
                                       const sparta_tensor *tensors, int n_metadata,
                                       const sparta_pair *metadata)
{
    sparta_text head;
    SPARTA_TRY(check_names(cx, n, names, n_metadata, metadata));
    item *items = sparta_alloc_array(cx, (size_t)n, sizeof *items);
    SPARTA_NEED(cx, items);
    for (int i = 0; i < n; i++) items[i] = (item){names[i], &tensors[i]};
    if (n) qsort(items, (size_t)n, sizeof *items, by_type_then_name);
    sparta_text_init(&head, cx);
    sparta_status status = print_header(cx, &head, n, items, n_metadata, metadata);
    if (!status) status = write_file(cx, path, &head, n, items);
    sparta_text_free(&head);
    sparta_free(cx, items);
    return status;
}
