/* Named arrays in one file: a zip of .npy files. Written entries are stored, their data at a multiple of 64. */
#include "arrays/zip.h"
#include <limits.h>
#include <string.h>

enum { NAME_MOST = 4096 };

/* ------------------------------------------------------------------ reading */

static sparta_status check_crc(sparta_ctx *cx, const zip_entry *e, const uint8_t *bytes)
{
    uint32_t crc = sp_crc32(0, bytes, (size_t)e->size);
    if (crc == e->crc) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "npz: the data is damaged: its CRC is %08x and should be %08x", crc,
                   e->crc);
}

/* One string is read, the name of the layout in SciPy's matrices: as its bytes. */
static sparta_status parse_array(sparta_ctx *cx, const zip_entry *e, const uint8_t *bytes, sparta_tensor *out)
{
    static const char name[] = "format.npy";
    if (e->name_size == sizeof name - 1 && !memcmp(e->name, name, sizeof name - 1))
        return sp_npy_parse_text(cx, bytes, (size_t)e->size, out);
    return sp_npy_parse(cx, bytes, (size_t)e->size, out);
}

static sparta_status read_deflated(sparta_ctx *cx, const zip_entry *e, sparta_tensor *out)
{
    uint8_t *bytes = sp_alloc(cx, (size_t)e->size);
    SP_NEED(cx, bytes);
    sparta_status status = sp_zip_inflate(cx, e, bytes);
    if (!status) status = check_crc(cx, e, bytes);
    if (!status) status = parse_array(cx, e, bytes, out);
    sp_free(cx, bytes);
    return status;
}

static sparta_status read_array(sparta_ctx *cx, const zip_entry *e, sparta_tensor *out)
{
    if (e->method == ZIP_DEFLATED) return read_deflated(cx, e, out);
    SP_TRY(check_crc(cx, e, e->data));
    return parse_array(cx, e, e->data, out);
}

static sparta_status read_name(sparta_ctx *cx, const zip_entry *e, char **out)
{
    size_t n = e->name_size;
    if (n > NAME_MOST)
        return sp_fail(cx, SPARTA_E_LIMIT, "npz: a name of %zu bytes; at most %d are read", n, NAME_MOST);
    if (n < 4 || memcmp(e->name + n - 4, ".npy", 4))
        return sp_fail(cx, SPARTA_E_FORMAT, "npz: the entry \"%.*s\" is no .npy array", (int)n, e->name);
    *out = sp_alloc(cx, n - 4 + 1);
    SP_NEED(cx, *out);
    memcpy(*out, e->name, n - 4);
    (*out)[n - 4] = 0;
    return SPARTA_OK;
}

static sparta_status read_entries(sparta_ctx *cx, const sp_mapped *m, const zip_directory *d, sp_npz *z,
                                  sp_map *names)
{
    uint64_t at = d->at, total = 0;
    for (uint64_t i = 0; i < d->n; i++) {
        zip_entry e;
        SP_TRY(sp_check_cancel(cx));
        SP_TRY(sp_zip_entry(cx, m, d, &at, &e));
        total += e.packed; /* each is inside the file: no overflow before this catches it */
        if (total > m->size) return sp_fail(cx, SPARTA_E_FORMAT, "npz: entries overlap");
        sp_npz_entry *entry = &z->entry[i];
        SP_TRY(read_name(cx, &e, &entry->name));
        z->n = (int)i + 1;
        if (sp_map_get(names, entry->name, NULL))
            return sp_fail(cx, SPARTA_E_FORMAT, "npz: two arrays are named \"%s\"", entry->name);
        SP_TRY(sp_map_put(names, entry->name, (int64_t)i));
        if (read_array(cx, &e, &entry->tensor)) return sp_fail_in(cx, "array %s", entry->name);
    }
    return SPARTA_OK;
}

static sparta_status read_mapped(sparta_ctx *cx, const sp_mapped *m, sp_npz *z)
{
    zip_directory d;
    SP_TRY(sp_zip_directory(cx, m, &d));
    if (d.n > INT_MAX) return sp_fail(cx, SPARTA_E_LIMIT, "npz: too many arrays");
    z->entry = sp_alloc_array(cx, (size_t)d.n, sizeof *z->entry);
    SP_NEED(cx, z->entry);
    sp_map *names = sp_map_create(cx);
    SP_NEED(cx, names);
    sparta_status status = read_entries(cx, m, &d, z, names);
    sp_map_free(names);
    return status;
}

sparta_status sp_npz_read(sparta_ctx *cx, const char *path, sp_npz *out)
{
    sp_mapped m;
    sp_npz z = {.cx = cx};
    SP_TRY(sp_mapped_open(cx, path, &m));
    sparta_status status = read_mapped(cx, &m, &z);
    sp_mapped_close(&m);
    if (status) {
        sp_npz_free(&z);
        return sp_fail_in(cx, "%s", path);
    }
    *out = z;
    return SPARTA_OK;
}

void sp_npz_free(sp_npz *z)
{
    if (!z || !z->cx) return;
    for (int i = 0; i < z->n; i++) {
        sp_free(z->cx, z->entry[i].name);
        sp_free(z->cx, z->entry[i].tensor.data);
    }
    sp_free(z->cx, z->entry);
    *z = (sp_npz){0};
}

const sparta_tensor *sp_npz_find(const sp_npz *z, const char *name)
{
    for (int i = 0; i < z->n; i++)
        if (!strcmp(z->entry[i].name, name)) return &z->entry[i].tensor;
    return NULL;
}

/* ------------------------------------------------------------------ writing */

typedef struct record { /* what the directory will say of an entry */
    uint64_t at, size;
    uint32_t crc;
} record;

typedef struct writer {
    sparta_ctx *cx;
    sp_atomic *f;
    sp_text bytes; /* headers are put together here */
} writer;

/* Fields of a record: each a value and its bytes, 0 bytes for one that is left out. */
#define PUT(t, ...)                                                                                          \
    put(t, (const uint64_t[][2]){__VA_ARGS__}, sizeof((const uint64_t[][2]){__VA_ARGS__}) / 16)
static void put(sp_text *t, const uint64_t (*field)[2], size_t n)
{
    uint8_t b[8];
    for (size_t f = 0; f < n; f++) {
        for (uint64_t i = 0; i < field[f][1]; i++) b[i] = (uint8_t)(field[f][0] >> (8 * i));
        sp_text_put(t, b, field[f][1]);
    }
}

static uint64_t clip(uint64_t v)
{
    return SP_MIN(v, (uint64_t)UINT32_MAX);
}

static bool is_ascii(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s >= 128) return false;
    return true;
}

/* From "version needed" to the length of the name: the same in a local header and in the directory. */
static void put_common(sp_text *t, const char *name, const record *r, bool wide)
{
    const uint64_t size = wide ? UINT32_MAX : r->size;
    PUT(t, {wide ? 45 : 20, 2}, {is_ascii(name) ? 0 : 0x800, 2}, {ZIP_STORED, 2}); /* names are UTF-8 */
    PUT(t, {0, 2}, {0x0021, 2}); /* time and date: 1980-01-01, so that the same arrays make the same file */
    PUT(t, {r->crc, 4}, {size, 4}, {size, 4}, {strlen(name) + 4, 2});
}

static sparta_status flush(writer *w)
{
    if (w->bytes.status) return w->bytes.status;
    SP_TRY(sp_atomic_write(w->f, w->bytes.data, w->bytes.size));
    w->bytes.size = 0;
    return SPARTA_OK;
}

/* An extra field of zeros fills up to a multiple of 64; readers skip what they do not know. */
static sparta_status write_local(writer *w, const char *name, const record *r)
{
    bool wide = r->size >= UINT32_MAX;
    uint64_t fixed = r->at + ZIP_LOCAL_SIZE + strlen(name) + 4 + (wide ? 20 : 0) + 4, pad = -fixed & 63;
    PUT(&w->bytes, {ZIP_LOCAL, 4});
    put_common(&w->bytes, name, r, wide);
    PUT(&w->bytes, {(wide ? 20 : 0) + 4 + pad, 2});
    sp_text_printf(&w->bytes, "%s.npy", name);
    if (wide) PUT(&w->bytes, {1, 2}, {16, 2}, {r->size, 8}, {r->size, 8});
    PUT(&w->bytes, {0xd935, 2}, {pad, 2}); /* the id Android's zipalign uses for this */
    for (uint64_t i = 0; i < pad; i++) PUT(&w->bytes, {0, 1});
    return flush(w);
}

static sparta_status write_row_major(writer *w, const char *name, const sparta_tensor *t, record *r)
{
    sp_text header;
    size_t bytes;
    SP_TRY(sp_tensor_bytes(w->cx, t->dtype, t->rank, t->dim, &bytes));
    sp_text_init(&header, w->cx);
    sp_npy_header(t, &header);
    sparta_status status = header.status;
    if (!status) {
        uint32_t crc = sp_crc32(0, header.data, header.size);
        *r = (record){sp_atomic_offset(w->f), header.size + bytes, sp_crc32(crc, t->data, bytes)};
        status = write_local(w, name, r);
    }
    if (!status) status = sp_atomic_write(w->f, header.data, header.size);
    if (!status) status = sp_atomic_write(w->f, t->data, bytes);
    sp_text_free(&header);
    return status;
}

static sparta_status write_entry(writer *w, const char *name, const sparta_tensor *t, record *r)
{
    const sparta_tensor *rows;
    sparta_tensor own;
    SP_TRY(sp_tensor_row_major(w->cx, t, &own, &rows));
    sparta_status status = write_row_major(w, name, rows, r);
    sp_free(w->cx, own.data);
    return status;
}

static sparta_status write_central(writer *w, const char *name, const record *r)
{
    bool wide = r->size >= UINT32_MAX, far = r->at >= UINT32_MAX;
    const uint64_t size = wide ? 8 : 0, at = far ? 8 : 0, extra = 2 * size + at;
    /* made on Unix: names are taken as they are, attributes are a mode */
    PUT(&w->bytes, {ZIP_CENTRAL, 4}, {3 << 8 | 45, 2});
    put_common(&w->bytes, name, r, wide);
    PUT(&w->bytes, {extra ? extra + 4 : 0, 2}, {0, 2}, {0, 2}, {0, 2}); /* comment, part, attributes */
    PUT(&w->bytes, {(uint64_t)0100644 << 16, 4}, {clip(r->at), 4});
    sp_text_printf(&w->bytes, "%s.npy", name);
    if (extra) PUT(&w->bytes, {1, 2}, {extra, 2}, {r->size, size}, {r->size, size}, {r->at, at});
    return flush(w);
}

static sparta_status write_end(writer *w, uint64_t n, uint64_t at)
{
    uint64_t end = sp_atomic_offset(w->f), size = end - at;
    sp_text *t = &w->bytes;
    const uint64_t few = SP_MIN(n, (uint64_t)UINT16_MAX), parts = 0, comment = 0;
    if (n >= UINT16_MAX || end >= UINT32_MAX) {
        PUT(t, {ZIP_END64, 4}, {ZIP_END64_SIZE - 12, 8}, {45, 2}, {45, 2}, {parts, 8});
        PUT(t, {n, 8}, {n, 8}, {size, 8}, {at, 8});
        PUT(t, {ZIP_LOCATOR, 4}, {0, 4}, {end, 8}, {1, 4});
    }
    PUT(t, {ZIP_END, 4}, {parts, 4}, {few, 2}, {few, 2}, {clip(size), 4}, {clip(at), 4}, {comment, 2});
    return flush(w);
}

static sparta_status write_all(writer *w, int n, const char *const *names, const sparta_tensor *tensors,
                               record *records)
{
    for (int i = 0; i < n; i++)
        if (write_entry(w, names[i], &tensors[i], &records[i]))
            return sp_fail_in(w->cx, "array %s", names[i]);
    uint64_t at = sp_atomic_offset(w->f);
    for (int i = 0; i < n; i++) SP_TRY(write_central(w, names[i], &records[i]));
    return write_end(w, (uint64_t)n, at);
}

static sparta_status check_names(sparta_ctx *cx, int n, const char *const *names)
{
    sp_map *seen = sp_map_create(cx);
    sparta_status status = SPARTA_OK;
    SP_NEED(cx, seen);
    for (int i = 0; i < n && !status; i++) {
        if (strlen(names[i]) + 4 > NAME_MOST)
            status = sp_fail(cx, SPARTA_E_LIMIT, "npz: the name %.40s... has more than %d bytes", names[i],
                             NAME_MOST - 4);
        else if (sp_map_get(seen, names[i], NULL))
            status = sp_fail(cx, SPARTA_E_USAGE, "npz: two arrays are named \"%s\"", names[i]);
        else
            status = sp_map_put(seen, names[i], i);
    }
    sp_map_free(seen);
    return status;
}

sparta_status sp_npz_write(sparta_ctx *cx, const char *path, int n, const char *const *names,
                           const sparta_tensor *tensors)
{
    SP_TRY(check_names(cx, n, names));
    record *records = sp_alloc_array(cx, (size_t)n, sizeof *records);
    SP_NEED(cx, records);
    writer w = {.cx = cx, .f = sp_atomic_open(cx, path)};
    sparta_status status = w.f ? SPARTA_OK : sp_ctx_status(cx);
    sp_text_init(&w.bytes, cx);
    if (!status) status = write_all(&w, n, names, tensors, records);
    status = sp_atomic_end(w.f, status);
    sp_text_free(&w.bytes);
    sp_free(cx, records);
    return status;
}
