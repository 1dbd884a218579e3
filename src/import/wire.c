/* wire.c: the reader of protobuf's wire form. */
#include "import/wire.h"
#include <string.h>

sp_wire sp_wire_of(sparta_ctx *cx, const char *what, sp_bytes bytes)
{
    return (sp_wire){cx, what, bytes.data, bytes.data, bytes.data + bytes.size};
}

static sparta_status broken(const sp_wire *w, const char *what)
{
    return sp_fail(w->cx, SPARTA_E_FORMAT, "%s, byte %zu: %s; the file is truncated or no ONNX model",
                   w->what, (size_t)(w->at - w->start), what);
}

/* At most ten bytes, the tenth at most 1. NULL: wrong. */
static const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return NULL;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return at;
        }
    }
    return NULL;
}

static uint64_t little(const uint8_t *at, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* The value of a number at `at`: its end, or NULL. */
static const uint8_t *number(sp_wire_type type, const uint8_t *at, const uint8_t *end, uint64_t *out)
{
    if (type == SP_WIRE_VARINT) return varint(at, end, out);
    int n = type == SP_WIRE_64 ? 8 : 4;
    if (end - at < n) return NULL;
    *out = little(at, n);
    return at + n;
}

sparta_status sp_wire_next(sp_wire *w, sp_wire_field *f)
{
    uint64_t tag, size;
    *f = (sp_wire_field){0};
    if (w->at == w->end) return SPARTA_OK;
    const uint8_t *at = varint(w->at, w->end, &tag);
    if (!at || tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1) return broken(w, "a field has no valid number");
    int type = tag & 7;
    const uint8_t *end;
    if (type == SP_WIRE_BYTES) {
        at = varint(at, w->end, &size);
        if (!at || size > (uint64_t)(w->end - at)) return broken(w, "a field is longer than what is left");
        end = at + size;
    } else if (type == SP_WIRE_VARINT || type == SP_WIRE_64 || type == SP_WIRE_32) {
        end = number((sp_wire_type)type, at, w->end, &f->value);
        if (!end) return broken(w, "a number does not end");
    } else
        return broken(w, "a field has an unknown wire type");
    f->number = (uint32_t)(tag >> 3);
    f->type = (sp_wire_type)type;
    f->bytes = (sp_bytes){at, (size_t)(end - at)};
    w->at = end;
    return SPARTA_OK;
}

sparta_status sp_wire_find(sp_wire *w, uint32_t wanted, sp_wire_field *f)
{
    do SP_TRY(sp_wire_next(w, f));
    while (f->number && f->number != wanted);
    return SPARTA_OK;
}

static sparta_status expect(const sp_wire *w, const sp_wire_field *f, sp_wire_type type)
{
    if (f->type == type) return SPARTA_OK;
    return sp_fail(w->cx, SPARTA_E_FORMAT,
                   "%s: field %u has wire type %d and must have %d; this is no ONNX model", w->what,
                   f->number, (int)f->type, (int)type);
}

sparta_status sp_wire_int(const sp_wire *w, const sp_wire_field *f, int64_t *out)
{
    SP_TRY(expect(w, f, SP_WIRE_VARINT));
    *out = (int64_t)f->value;
    return SPARTA_OK;
}

sparta_status sp_wire_bytes(const sp_wire *w, const sp_wire_field *f, sp_bytes *out)
{
    SP_TRY(expect(w, f, SP_WIRE_BYTES));
    *out = f->bytes;
    return SPARTA_OK;
}

sparta_status sp_wire_once(const sp_wire *w, const sp_wire_field *f, sp_bytes *out)
{
    if (out->data)
        return sp_fail(w->cx, SPARTA_E_FORMAT, "%s: field %u is there twice; one is allowed", w->what,
                       f->number);
    return sp_wire_bytes(w, f, out);
}

sparta_status sp_wire_string(const sp_wire *w, const sp_wire_field *f, sp_arena *a, const char **out)
{
    SP_TRY(expect(w, f, SP_WIRE_BYTES));
    if (memchr(f->bytes.data, 0, f->bytes.size))
        return sp_fail(w->cx, SPARTA_E_FORMAT, "%s: the text of field %u has a zero byte in it", w->what,
                       f->number);
    *out = sp_arena_bytes(a, (const char *)f->bytes.data, f->bytes.size);
    SP_NEED(w->cx, *out);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ repeated numbers */

sparta_status sp_wire_pack(const sp_wire *w, const sp_wire_field *f, sp_wire_type type, sp_bytes *rest)
{
    if (f->type != SP_WIRE_BYTES) SP_TRY(expect(w, f, type));
    *rest = f->bytes;
    return SPARTA_OK;
}

sparta_status sp_wire_entry(const sp_wire *w, sp_wire_type type, sp_bytes *rest, uint64_t *out)
{
    const uint8_t *end = number(type, rest->data, rest->data + rest->size, out);
    if (!end) return broken(w, "a number in a list does not end");
    rest->size -= (size_t)(end - rest->data);
    rest->data = end;
    return SPARTA_OK;
}

sparta_status sp_wire_count(const sp_wire *w, sp_wire_type type, sp_bytes rest, int64_t *n)
{
    if (type != SP_WIRE_VARINT) {
        size_t each = type == SP_WIRE_64 ? 8 : 4;
        if (rest.size % each) return broken(w, "a list of numbers ends within one");
        *n += (int64_t)(rest.size / each);
        return SPARTA_OK;
    }
    for (size_t i = 0; i < rest.size; i++)
        *n += rest.data[i] < 128; /* each varint has one such byte, its last */
    if (rest.size && rest.data[rest.size - 1] >= 128) return broken(w, "a number in a list does not end");
    return SPARTA_OK;
}
