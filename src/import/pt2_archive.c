/* pt2_archive.c: the archive that torch.export.save writes. Members are looked up in the zip's directory; those that are read are checked
 * against their CRC. They are stored, not packed, so that weights stay in the mapping; an archive that somebody packed again is read, too. */
#include "import/pt2.h"
#include <limits.h>
#include <string.h>

/* ------------------------------------------------------------------ types */

static const struct {
    int code;
    sparta_dtype dtype;
} types[] = {{1, SPARTA_U8},   {2, SPARTA_I8},   {3, SPARTA_I16}, {4, SPARTA_I32},   {5, SPARTA_I64},
             {6, SPARTA_F16},  {7, SPARTA_F32},  {8, SPARTA_F64}, {12, SPARTA_BOOL}, {13, SPARTA_BF16},
             {28, SPARTA_U16}, {34, SPARTA_U32}, {35, SPARTA_U64}};

bool sp_pt2_dtype(int64_t code, sparta_dtype *out)
{
    for (size_t i = 0; i < SP_COUNT(types); i++)
        if (types[i].code == code) {
            *out = types[i].dtype;
            return true;
        }
    return false;
}

/* ------------------------------------------------------------------ members */

/* The member that says what the archive is; torch writes no other of this name. */
#define FORMAT "/archive_format"

bool sp_pt2_is(sp_bytes file)
{
    enum { LOOKED_AT = 1 << 20 };
    const size_t n = SP_MIN(file.size, (size_t)LOOKED_AT);
    return file.size > 4 && !memcmp(file.data, "PK\3\4", 4) &&
           memmem(file.data + file.size - n, n, FORMAT, strlen(FORMAT));
}

static sparta_status broken(const sp_pt2 *p, const char *what)
{
    return sp_fail(p->cx, SPARTA_E_FORMAT, "%s; export the program again with torch.export.save", what);
}

static sparta_status read_directory(sp_pt2 *p)
{
    zip_directory d;
    SP_TRY(sp_zip_directory(p->cx, &p->file, &d));
    if (d.n > INT_MAX) return broken(p, "the archive has too many members");
    p->entry = sp_arena_array(p->keep, (size_t)d.n, sizeof *p->entry);
    p->data = sp_arena_array(p->keep, (size_t)d.n, sizeof *p->data);
    if (!p->entry || !p->data) return sp_ctx_status(p->cx);
    uint64_t at = d.at, total = 0;
    for (uint64_t i = 0; i < d.n; i++) {
        zip_entry *e = &p->entry[i];
        SP_TRY(sp_check_cancel(p->cx));
        SP_TRY(sp_zip_entry(p->cx, &p->file, &d, &at, e));
        total += e->packed; /* each is inside the file: no overflow before this catches it */
        if (total > p->file.size) return broken(p, "members of the archive overlap");
        p->data[i] = NULL;
        const char *name = sp_arena_bytes(p->keep, e->name, e->name_size);
        SP_NEED(p->cx, name);
        if (sp_map_get(p->members, name, NULL))
            return sp_fail(p->cx, SPARTA_E_FORMAT, "two members of the archive are called '%.200s'", name);
        SP_TRY(sp_map_put(p->members, name, (int64_t)i));
        const size_t tail = strlen(FORMAT);
        if (e->name_size > tail && !strcmp(name + e->name_size - tail, FORMAT) &&
            strchr(name, '/') == name + e->name_size - tail) {
            p->folder = sp_arena_bytes(p->keep, name, e->name_size - tail);
            SP_NEED(p->cx, p->folder);
        }
    }
    return p->folder ? SPARTA_OK : broken(p, "no folder of the archive has an archive_format");
}

/* The bytes of a member; data NULL: there is none of that path. */
static sparta_status member(sp_pt2 *p, const char *path, sp_bytes *out)
{
    int64_t at;
    *out = (sp_bytes){0};
    const char *whole = sp_arena_printf(p->keep, "%s/%s", p->folder, path);
    SP_NEED(p->cx, whole);
    if (!sp_map_get(p->members, whole, &at)) return SPARTA_OK;
    const zip_entry *e = &p->entry[at];
    if (!p->data[at]) {
        const uint8_t *bytes = e->data;
        if (e->method == ZIP_DEFLATED) {
            uint8_t *own = sp_arena_alloc(p->g->arena, (size_t)e->size + 1);
            SP_NEED(p->cx, own);
            SP_TRY(sp_zip_inflate(p->cx, e, own));
            bytes = own;
        }
        if (sp_crc32(0, bytes, (size_t)e->size) != e->crc)
            return sp_fail(p->cx, SPARTA_E_FORMAT, "'%.200s' is damaged: its CRC is another", path);
        p->data[at] = bytes;
    }
    *out = (sp_bytes){p->data[at], (size_t)e->size};
    return SPARTA_OK;
}

static bool says(sp_bytes b, const char *text)
{
    return b.size == strlen(text) && !memcmp(b.data, text, b.size);
}

/* The only model there is: what is called models/NAME.json. */
static sparta_status find_model(sp_pt2 *p, uint64_t n)
{
    static const char before[] = "/models/", after[] = ".json";
    const size_t folder = strlen(p->folder), least = folder + strlen(before) + strlen(after);
    bool compiled = false;
    for (uint64_t i = 0; i < n; i++) {
        const zip_entry *e = &p->entry[i];
        const char *path = e->name + SP_MIN(folder, e->name_size);
        const size_t left = e->name_size - SP_MIN(folder, e->name_size);
        compiled |= memmem(path, left, "/data/aotinductor/", 18) != NULL;
        if (e->name_size <= least || memcmp(path, before, strlen(before)) != 0) continue;
        if (memcmp(e->name + e->name_size - strlen(after), after, strlen(after)) != 0) continue;
        const char *name = sp_arena_bytes(p->keep, path + strlen(before), e->name_size - least);
        SP_NEED(p->cx, name);
        if (p->name)
            return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                           "it has several programs, '%.100s' and '%.100s'; save each in a file of its own",
                           p->name, name);
        p->name = name;
    }
    if (p->name) return SPARTA_OK;
    if (compiled)
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                       "is a package that AOTInductor compiled, machine code and no graph; save the program "
                       "itself: torch.export.save(torch.export.export(module.eval(), (example,)), FILE)");
    return broken(p, "there is no program in the archive");
}

sparta_status sp_pt2_open(sp_pt2 *p, sp_bytes file)
{
    sp_bytes b;
    zip_directory d;
    p->file = (sp_mapped){.data = file.data, .size = file.size};
    SP_TRY(read_directory(p));
    SP_TRY(member(p, "archive_format", &b));
    if (!says(b, "pt2")) return broken(p, "archive_format does not say pt2");
    SP_TRY(member(p, "byteorder", &b));
    if (b.data && !says(b, "little"))
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                       "its weights are not little-endian; export it on a machine that is");
    SP_TRY(sp_zip_directory(p->cx, &p->file, &d));
    return find_model(p, d.n);
}

sparta_status sp_pt2_json(sp_pt2 *p, const char *path, const json_value **out)
{
    sp_bytes b;
    *out = NULL;
    SP_TRY(member(p, path, &b));
    if (!b.data) return SPARTA_OK;
    if (sp_json_tree(p->keep, (const char *)b.data, b.size, out) != SPARTA_OK)
        return sp_fail_in(p->cx, "%.200s", path);
    return SPARTA_OK;
}

sparta_status sp_pt2_index_of(sp_pt2 *p, const json_value *object, sp_pt2_index *out)
{
    const int n = object && object->kind == JSON_OBJECT ? object->n : 0;
    int i = 0;
    *out = (sp_pt2_index){.row = sp_arena_array(p->keep, (size_t)n + 1, sizeof *out->row)};
    SP_NEED(p->cx, out->row);
    out->map = sp_map_create(p->cx);
    SP_NEED(p->cx, out->map);
    for (const json_value *v = n ? object->first : NULL; v; v = v->next) {
        out->row[i] = v;
        SP_TRY(sp_map_put(out->map, v->key, i++));
    }
    return SPARTA_OK;
}

const json_value *sp_pt2_row(const sp_pt2_index *x, const char *key)
{
    int64_t at;
    return x->map && sp_map_get(x->map, key, &at) ? x->row[at] : NULL;
}

/* ------------------------------------------------------------------ tensors */

static bool read_ints(const json_value *list, int64_t *out, int n)
{
    int i = 0;
    if (!list || list->kind != JSON_ARRAY || list->n != n) return false;
    for (const json_value *v = list->first; v; v = v->next)
        if (!sp_json_int(sp_json_get(v, "as_int"), &out[i++])) return false;
    return true;
}

/* Type, sizes and strides; data NULL. */
static sparta_status read_meta(sp_pt2 *p, const json_value *meta, sparta_tensor *t, int64_t *offset)
{
    const json_value *sizes = sp_json_get(meta, "sizes");
    int64_t code;
    if (!sizes || sizes->kind != JSON_ARRAY || !sp_json_int(sp_json_get(meta, "dtype"), &code))
        return broken(p, "it has no type");
    if (!sp_pt2_dtype(code, &t->dtype))
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                       "element type %lld of PyTorch's schema is not supported; f32, f16, bf16, f64, bool "
                       "and integers are",
                       (long long)code);
    if (sizes->n > SPARTA_RANK)
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED, "more than %d dims; reshape it", SPARTA_RANK);
    t->rank = sizes->n;
    if (!read_ints(sizes, t->dim, t->rank) || !read_ints(sp_json_get(meta, "strides"), t->stride, t->rank) ||
        !sp_json_int(sp_json_get(sp_json_get(meta, "storage_offset"), "as_int"), offset))
        return broken(p, "its sizes, strides or offset are no numbers");
    return SPARTA_OK;
}

/* Do all elements lie in a storage of `room` elements? */
static bool lies_in(const sparta_tensor *t, int64_t offset, int64_t room)
{
    int64_t last = offset, step;
    if (offset < 0) return false;
    for (int d = 0; d < t->rank; d++) {
        if (t->stride[d] < 0 || __builtin_mul_overflow(t->stride[d], t->dim[d] - 1, &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    return last < room;
}

/* The view as it lies in the file, or a row-major copy where kernels cannot read that. */
static sparta_status place(sp_pt2 *p, sparta_tensor *t, sp_bytes storage, int64_t offset)
{
    const size_t size = sparta_dtype_size(t->dtype);
    const int64_t elements = sparta_tensor_elements(t);
    sparta_tensor own;
    if (elements && !lies_in(t, offset, (int64_t)(storage.size / size)))
        return sp_fail(p->cx, SPARTA_E_FORMAT, "its elements lie outside of its %zu bytes", storage.size);
    t->data = (void *)(storage.data + (elements ? (size_t)offset * size : 0));
    const bool aligned = (uintptr_t)t->data % size == 0;
    if (elements && aligned && sp_tensor_contiguous(t)) return SPARTA_OK;
    SP_TRY(sp_tensor_alloc_in(p->g->arena, t->dtype, t->rank, t->dim, &own));
    if (elements && aligned) SP_TRY(sp_tensor_copy(p->cx, t, &own));
    if (elements && !aligned) {
        uint8_t *straight = sp_arena_alloc(p->keep, storage.size);
        SP_NEED(p->cx, straight);
        memcpy(straight, storage.data, storage.size);
        t->data = straight + (size_t)offset * size;
        SP_TRY(sp_tensor_copy(p->cx, t, &own));
    }
    *t = own;
    return SPARTA_OK;
}

sparta_status sp_pt2_tensor(sp_pt2 *p, const json_value *row, const char *kind, sparta_tensor *out)
{
    const json_value *pickled = sp_json_get(row, "use_pickle");
    const char *file = sp_json_text(sp_json_get(row, "path_name"));
    sparta_tensor t = {0};
    int64_t offset;
    size_t bytes;
    sp_bytes storage;
    if (!row || !file) return broken(p, "the archive does not say where it is");
    if (pickled && pickled->yes)
        return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                       "it is pickled, and pickles are never read; make it a plain tensor before the export");
    SP_TRY(read_meta(p, sp_json_get(row, "tensor_meta"), &t, &offset));
    SP_TRY(sp_tensor_bytes(p->cx, t.dtype, t.rank, t.dim, &bytes));
    const char *path = sp_arena_printf(p->keep, "data/%s/%s", kind, file);
    SP_NEED(p->cx, path);
    SP_TRY(member(p, path, &storage));
    if (!storage.data) return sp_fail(p->cx, SPARTA_E_FORMAT, "there is no '%.200s' in the archive", path);
    SP_TRY(place(p, &t, storage, offset));
    *out = t;
    return SPARTA_OK;
}
