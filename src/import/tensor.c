/* tensor.c: a TensorProto as a tensor. Contents come as raw bytes, as a list of numbers of a wider type, or
 * from another file; exactly one of them, with exactly as many elements as the dims say, which is checked
 * before anything is allocated. Elements narrower than a byte are packed in the file, low bits first, and unpacked here:
 * the packed bytes are read as if they were u8, in a list too. */
#include "import/onnx.h"
#include <string.h>

size_t sp_onnx_packed(sparta_dtype dtype, int64_t n)
{
    const size_t bits = (size_t)sp_dtype_bits(dtype), each = 8 / bits;
    if (bits >= 8) return (size_t)n * sparta_dtype_size(dtype);
    return (size_t)n / each + ((size_t)n % each != 0);
}

/* A TensorProto as views. */
typedef struct proto {
    sp_wire body;
    sparta_dtype dtype;
    int64_t type;
    int rank;
    int64_t dim[SPARTA_RANK];
    const char *name;
    sp_bytes raw;
    uint32_t list;  /* number of the field with the list of numbers; 0: none */
    int64_t listed; /* entries of it */
    bool external;
    sp_onnx_external entries;
} proto;

static sp_wire_type list_type(uint32_t field)
{
    if (field == TENSOR_FLOATS) return SP_WIRE_32;
    return field == TENSOR_DOUBLES ? SP_WIRE_64 : SP_WIRE_VARINT;
}

/* The list that holds a type, as onnx.proto says. */
static uint32_t list_of(sparta_dtype dtype)
{
    switch (dtype) {
    case SPARTA_F32: return TENSOR_FLOATS;
    case SPARTA_F64: return TENSOR_DOUBLES;
    case SPARTA_I64: return TENSOR_INT64S;
    case SPARTA_U32:
    case SPARTA_U64: return TENSOR_UINT64S;
    default: return TENSOR_INT32S;
    }
}

static sparta_status read_dims(const sp_wire *w, const sp_wire_field *f, proto *p)
{
    sp_bytes rest;
    SP_TRY(sp_wire_pack(w, f, SP_WIRE_VARINT, &rest));
    while (rest.size) {
        uint64_t dim;
        SP_TRY(sp_wire_entry(w, SP_WIRE_VARINT, &rest, &dim));
        if ((int64_t)dim < 0)
            return sp_fail(w->cx, SPARTA_E_FORMAT, "dim %d is %lld; sizes are not negative", p->rank,
                           (long long)dim);
        if (p->rank == SPARTA_RANK)
            return sp_fail(w->cx, SPARTA_E_UNSUPPORTED, "more than %d dims; reshape the tensor", SPARTA_RANK);
        p->dim[p->rank++] = (int64_t)dim;
    }
    return SPARTA_OK;
}

static sparta_status read_list(const sp_wire *w, const sp_wire_field *f, proto *p)
{
    sp_bytes rest;
    SP_TRY(sp_wire_pack(w, f, list_type(f->number), &rest));
    int64_t before = p->listed;
    SP_TRY(sp_wire_count(w, list_type(f->number), rest, &p->listed));
    if (p->listed == before) return SPARTA_OK; /* an empty list is none */
    if (p->list && p->list != f->number)
        return sp_fail(w->cx, SPARTA_E_FORMAT, "TensorProto: two lists of elements (fields %u and %u)",
                       p->list, f->number);
    p->list = f->number;
    return SPARTA_OK;
}

static sparta_status read_field(sp_arena *scratch, const sp_wire *w, const sp_wire_field *f, proto *p)
{
    int64_t location;
    switch (f->number) {
    case TENSOR_DIMS: return read_dims(w, f, p);
    case TENSOR_TYPE: return sp_wire_int(w, f, &p->type);
    case TENSOR_RAW: return sp_wire_once(w, f, &p->raw);
    case TENSOR_FLOATS:
    case TENSOR_INT32S:
    case TENSOR_INT64S:
    case TENSOR_DOUBLES:
    case TENSOR_UINT64S: return read_list(w, f, p);
    case TENSOR_EXTERNAL: return sp_onnx_read_external(scratch, w, f, &p->entries);
    case TENSOR_LOCATION:
        SP_TRY(sp_wire_int(w, f, &location));
        if (location != 0 && location != 1)
            return sp_fail(w->cx, SPARTA_E_FORMAT, "TensorProto: data_location is %ld; 0 or 1 are known",
                           (long)location);
        p->external = location == 1;
        return SPARTA_OK;
    case TENSOR_SEGMENT:
        return sp_fail(w->cx, SPARTA_E_UNSUPPORTED,
                       "TensorProto: segments are not supported; save the tensor in one piece");
    default: return SPARTA_OK;
    }
}

/* The name stands behind the dims in most files, and messages about them want it. */
static sparta_status read_name(sp_arena *scratch, sp_wire w, const char **name)
{
    sp_wire_field f;
    *name = "";
    SP_TRY(sp_wire_find(&w, TENSOR_NAME, &f));
    return f.number ? sp_wire_string(&w, &f, scratch, name) : SPARTA_OK;
}

static sparta_status read_proto(sparta_ctx *cx, sp_arena *scratch, sp_bytes bytes, proto *p)
{
    sp_wire w = sp_wire_of(cx, "TensorProto", bytes);
    sp_wire_field f;
    *p = (proto){.body = w};
    SP_TRY(read_name(scratch, w, &p->name));
    for (;;) {
        SP_TRY(sp_wire_next(&w, &f));
        if (!f.number) return SPARTA_OK;
        if (read_field(scratch, &w, &f, p) != SPARTA_OK) return sp_fail_in(cx, "tensor '%.200s'", p->name);
    }
}

static sparta_status check_type(sparta_ctx *cx, proto *p)
{
    if (p->type == 8)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "strings are not supported; convert them to numbers before the model");
    if (!sp_dtype_from_onnx(p->type, &p->dtype))
        return sp_fail(
            cx, p->type <= 0 ? SPARTA_E_FORMAT : SPARTA_E_UNSUPPORTED,
            "element type %ld is not supported; f32, f16, bf16, f64, bool and integers of 2 to 64 bits are",
            (long)p->type);
    return SPARTA_OK;
}

/* Which of the three places the contents are in, and do they fit the dims? */
static sparta_status check_contents(sparta_ctx *cx, const proto *p, int64_t elements, size_t size)
{
    const bool packed = sp_dtype_bits(p->dtype) < 8;
    if (p->external) {
        if (p->raw.size || p->list)
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "the tensor has external data and contents of its own; one is allowed");
        return SPARTA_OK;
    }
    if (p->raw.size && p->list)
        return sp_fail(cx, SPARTA_E_FORMAT, "raw_data and a list of elements; one is allowed");
    if (p->list && p->list != list_of(p->dtype))
        return sp_fail(cx, SPARTA_E_FORMAT, "elements of type %s are listed in field %u and belong into %u",
                       sparta_dtype_name(p->dtype), p->list, list_of(p->dtype));
    if (packed && (p->list ? (uint64_t)p->listed : p->raw.size) != size)
        return sp_fail(
            cx, SPARTA_E_FORMAT, "the shape says %ld elements of %d bits; the file has %zu bytes, not %zu",
            (long)elements, sp_dtype_bits(p->dtype), p->list ? (size_t)p->listed : p->raw.size, size);
    if (!packed && (p->list ? p->listed != elements : p->raw.size != size))
        return sp_fail(cx, SPARTA_E_FORMAT, "the shape says %ld elements of %zu bytes; the file has %zu %s",
                       (long)elements, sparta_dtype_size(p->dtype), p->list ? (size_t)p->listed : p->raw.size,
                       p->list ? "elements" : "bytes");
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ lists of numbers */

/* The bits of a half stand in an int32, and so does a byte of packed elements. */
static bool fits(sparta_dtype dtype, uint64_t value)
{
    const int64_t x = (int64_t)value;
    const int bits = SP_MAX(sp_dtype_bits(dtype), 8);
    if (dtype == SPARTA_U64) return true;
    if (sp_dtype_is_float(dtype) || sp_dtype_bits(dtype) < 8) return value < (uint64_t)1 << bits;
    return x >= sp_dtype_lowest(dtype) && x <= sp_dtype_highest(dtype);
}

/* The low bytes of the number are the element: all types are little-endian, as this machine is. */
static sparta_status copy_entries(const sp_wire *w, const proto *p, sp_bytes rest, uint8_t **to)
{
    size_t size = sparta_dtype_size(p->dtype);
    if (list_type(p->list) != SP_WIRE_VARINT) {
        if (rest.size) memcpy(*to, rest.data, rest.size);
        *to += rest.size;
        return SPARTA_OK;
    }
    while (rest.size) {
        uint64_t value;
        SP_TRY(sp_wire_entry(w, SP_WIRE_VARINT, &rest, &value));
        if (!fits(p->dtype, value))
            return sp_fail(w->cx, SPARTA_E_FORMAT, "an element does not fit into %s",
                           sparta_dtype_name(p->dtype));
        memcpy(*to, &value, size);
        *to += size;
    }
    return SPARTA_OK;
}

static sparta_status copy_list(sp_arena *arena, const proto *p, size_t size, const void **out)
{
    sp_wire w = p->body;
    sp_wire_field f;
    sp_bytes rest;
    uint8_t *data = sp_arena_alloc(arena, size);
    SP_NEED(w.cx, data);
    *out = data;
    for (;;) {
        SP_TRY(sp_wire_find(&w, p->list, &f));
        if (!f.number) return SPARTA_OK;
        SP_TRY(sp_wire_pack(&w, &f, list_type(p->list), &rest));
        SP_TRY(copy_entries(&w, p, rest, &data));
    }
}

/* ------------------------------------------------------------------ packed elements */

static sparta_status unpack(sp_arena *arena, sparta_ctx *cx, sparta_dtype dtype, int64_t n, const void **data)
{
    const uint8_t *from = *data;
    const int bits = sp_dtype_bits(dtype), each = 8 / bits;
    uint8_t *to = sp_arena_alloc(arena, (size_t)n);
    SP_NEED(cx, to);
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint8_t)(from[i / each] >> (i % each * bits) & ((1 << bits) - 1));
    *data = to;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ all of it */

static sparta_status contents(sparta_ctx *cx, sp_importer *external, sp_arena *arena, const proto *p,
                              size_t size, const void **out)
{
    if (p->list) return copy_list(arena, p, size, out);
    const uint8_t *data = p->raw.data;
    if (p->external) {
        if (!external)
            return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                           "external data is not allowed here; save the tensor in the file itself");
        SP_TRY(sp_onnx_open_external(external, &p->entries, size, &data));
    }
    if (size && (uintptr_t)data % sparta_dtype_size(p->dtype) == 0) {
        *out = data;
        return SPARTA_OK;
    }
    void *copy = sp_arena_alloc(arena, size); /* kernels read whole elements: misaligned ones must move */
    SP_NEED(cx, copy);
    if (size) memcpy(copy, data, size);
    if (external) sp_mapped_forget(&external->model->file, data, size);
    *out = copy;
    return SPARTA_OK;
}

static sparta_status make_tensor(sparta_ctx *cx, sp_importer *external, sp_arena *arena, proto *p,
                                 sparta_tensor *out)
{
    size_t size;
    SP_TRY(check_type(cx, p));
    SP_TRY(sp_tensor_bytes(cx, p->dtype, p->rank, p->dim, &size));
    sparta_tensor t = sparta_tensor_view(p->dtype, p->rank, p->dim, NULL);
    const int64_t n = sparta_tensor_elements(&t);
    const int bits = sp_dtype_bits(p->dtype);
    if (bits < 8) size = sp_onnx_packed(p->dtype, n);
    SP_TRY(check_contents(cx, p, n, size));
    const void *data = NULL;
    SP_TRY(contents(cx, external, arena, p, size, &data));
    if (bits < 8) SP_TRY(unpack(arena, cx, p->dtype, n, &data));
    t.data = (void *)data; /* constants are never written to */
    *out = t;
    return SPARTA_OK;
}

sparta_status sp_onnx_read_tensor(sparta_ctx *cx, sp_importer *external, sp_arena *arena, sp_bytes bytes,
                                  sparta_tensor *out, const char **name)
{
    proto p;
    sp_arena *scratch = external ? external->scratch : arena;
    SP_TRY(read_proto(cx, scratch, bytes, &p));
    if (make_tensor(cx, external, arena, &p, out) != SPARTA_OK)
        return sp_fail_in(cx, "tensor '%.200s'", p.name);
    if (name) *name = p.name;
    return SPARTA_OK;
}
