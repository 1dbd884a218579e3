/* wire.h: protobuf's wire form, read as views (inside the room import).
 *
 *     message = { tag value }      tag = field number << 3 | type
 *     type 0 varint   1 eight bytes   2 length and bytes   5 four bytes     (3 and 4, groups: refused)
 *
 *     sp_wire_field f;
 *     for (;;) {
 *         SP_TRY(sp_wire_next(&w, &f));
 *         if (!f.number) break;                     the end of the message
 *         ...
 *     }
 *
 * Nothing is copied and nothing recurses: a reader steps over one message, and a message inside it is a view
 * to make another reader of. Every length is checked against what is left. Writing is below.
 */
#ifndef SP_IMPORT_WIRE_H
#define SP_IMPORT_WIRE_H

#include "base/base.h"

typedef struct sp_bytes {
    const uint8_t *data;
    size_t size;
} sp_bytes;

typedef struct sp_wire {
    sparta_ctx *cx;
    const char *what; /* of the message, for errors: "NodeProto" */
    const uint8_t *start, *at, *end;
} sp_wire;

typedef enum { SP_WIRE_VARINT = 0, SP_WIRE_64 = 1, SP_WIRE_BYTES = 2, SP_WIRE_32 = 5 } sp_wire_type;

typedef struct sp_wire_field {
    uint32_t number; /* 0: the message is over */
    sp_wire_type type;
    uint64_t value; /* of the types that are numbers */
    sp_bytes bytes; /* of BYTES; of the numbers too, as they stand in the file */
} sp_wire_field;

sp_wire sp_wire_of(sparta_ctx *cx, const char *what, sp_bytes bytes);
sparta_status sp_wire_next(sp_wire *w, sp_wire_field *f) SP_MUST;
/* The next field of one number, others stepped over. */
sparta_status sp_wire_find(sp_wire *w, uint32_t number, sp_wire_field *f) SP_MUST;

/* The field as what it should be; another wire type is E_FORMAT. */
sparta_status sp_wire_int(const sp_wire *w, const sp_wire_field *f, int64_t *out) SP_MUST;
sparta_status sp_wire_bytes(const sp_wire *w, const sp_wire_field *f, sp_bytes *out) SP_MUST;
/* A message that may be there once. */
sparta_status sp_wire_once(const sp_wire *w, const sp_wire_field *f, sp_bytes *out) SP_MUST;
sparta_status sp_wire_string(const sp_wire *w, const sp_wire_field *f, sp_arena *a, const char **out) SP_MUST;

/* Repeated numbers come packed (BYTES) or one by one; `type` says which number it is. Steps over one entry of
 * `rest`. */
sparta_status sp_wire_pack(const sp_wire *w, const sp_wire_field *f, sp_wire_type type,
                           sp_bytes *rest) SP_MUST;
sparta_status sp_wire_entry(const sp_wire *w, sp_wire_type type, sp_bytes *rest, uint64_t *out) SP_MUST;
/* Adds the number of entries. */
sparta_status sp_wire_count(const sp_wire *w, sp_wire_type type, sp_bytes rest, int64_t *n) SP_MUST;

/* ------------------------------------------------------------------ writing (wire_write.c) */
void sp_wire_put_varint(sp_text *t, uint64_t value);
void sp_wire_put_int(sp_text *t, uint32_t number, int64_t value);
/* The same number in `wider` bytes more, 0 to 8: leading zeros, which every reader skips. */
void sp_wire_put_wide_int(sp_text *t, uint32_t number, int64_t value, int wider);
void sp_wire_put_float(sp_text *t, uint32_t number, float value);
void sp_wire_put_bytes(sp_text *t, uint32_t number, const void *bytes, size_t n);
void sp_wire_put_string(sp_text *t, uint32_t number, const char *s);
/* Tag and length of n bytes that are written elsewhere. */
void sp_wire_put_head(sp_text *t, uint32_t number, uint64_t n);
void sp_wire_put_message(sp_text *t, uint32_t number, const sp_text *message);

#endif
