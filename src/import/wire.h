/* wire.h: protobuf's wire form, read as views (inside the room import).
 *
 *     message = { tag value }      tag = field number << 3 | type
 *     type 0 varint   1 eight bytes   2 length and bytes   5 four bytes     (3 and 4, groups: refused)
 *
 *     sparta_wire_field f;
 *     for (;;) {
 *         SPARTA_TRY(sparta_wire_next(&w, &f));
 *         if (!f.number) break;                     the end of the message
 *         ...
 *     }
 *
 * Nothing is copied and nothing recurses: a reader steps over one message, and a message inside it is a view
 * to make another reader of. Every length is checked against what is left. Writing is below.
 */
#ifndef SPARTA_IMPORT_WIRE_H
#define SPARTA_IMPORT_WIRE_H

#include "base/base.h"

typedef struct sparta_view {
    const uint8_t *data;
    size_t size;
} sparta_view;

typedef struct sparta_wire {
    sparta_ctx *cx;
    const char *what; /* of the message, for errors: "NodeProto" */
    const uint8_t *start, *at, *end;
} sparta_wire;

typedef enum {
    SPARTA_WIRE_VARINT = 0,
    SPARTA_WIRE_64 = 1,
    SPARTA_WIRE_BYTES = 2,
    SPARTA_WIRE_32 = 5
} sparta_wire_type;

typedef struct sparta_wire_field {
    uint32_t number; /* 0: the message is over */
    sparta_wire_type type;
    uint64_t value;    /* of the types that are numbers */
    sparta_view bytes; /* of BYTES; of the numbers too, as they stand in the file */
} sparta_wire_field;

sparta_wire sparta_wire_of(sparta_ctx *cx, const char *what, sparta_view bytes);
sparta_status sparta_wire_next(sparta_wire *w, sparta_wire_field *f) SPARTA_MUST;
/* The next field of one number, others stepped over. */
sparta_status sparta_wire_find(sparta_wire *w, uint32_t number, sparta_wire_field *f) SPARTA_MUST;

/* The field as what it should be; another wire type is E_FORMAT. */
sparta_status sparta_wire_int(const sparta_wire *w, const sparta_wire_field *f, int64_t *out) SPARTA_MUST;
sparta_status sparta_wire_bytes(const sparta_wire *w, const sparta_wire_field *f,
                                sparta_view *out) SPARTA_MUST;
/* A message that may be there once. */
sparta_status sparta_wire_once(const sparta_wire *w, const sparta_wire_field *f,
                               sparta_view *out) SPARTA_MUST;
sparta_status sparta_wire_string(const sparta_wire *w, const sparta_wire_field *f, sparta_arena *a,
                                 const char **out) SPARTA_MUST;

/* Repeated numbers come packed (BYTES) or one by one; `type` says which number it is. Steps over one entry of
 * `rest`. */
sparta_status sparta_wire_pack(const sparta_wire *w, const sparta_wire_field *f, sparta_wire_type type,
                               sparta_view *rest) SPARTA_MUST;
sparta_status sparta_wire_entry(const sparta_wire *w, sparta_wire_type type, sparta_view *rest,
                                uint64_t *out) SPARTA_MUST;
/* Adds the number of entries. */
sparta_status sparta_wire_count(const sparta_wire *w, sparta_wire_type type, sparta_view rest,
                                int64_t *n) SPARTA_MUST;

/* ------------------------------------------------------------------ writing (wire_write.c) */
size_t sparta_wire_varint_size(uint64_t value);
void sparta_wire_put_varint(sparta_text *t, uint64_t value);
void sparta_wire_put_int(sparta_text *t, uint32_t number, int64_t value);
/* The same number in so many bytes more, 0 to 8: leading zeros, which every reader skips. */
void sparta_wire_put_wide_int(sparta_text *t, uint32_t number, int64_t value, int wider);
void sparta_wire_put_float(sparta_text *t, uint32_t number, float value);
void sparta_wire_put_bytes(sparta_text *t, uint32_t number, const void *bytes, size_t n);
void sparta_wire_put_string(sparta_text *t, uint32_t number, const char *s);
/* Tag and length of n bytes that are written elsewhere. */
void sparta_wire_put_head(sparta_text *t, uint32_t number, uint64_t n);
void sparta_wire_put_message(sparta_text *t, uint32_t number, const sparta_text *message);

#endif
