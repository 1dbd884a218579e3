/* wire_write.c: the writer of protobuf's wire form. */
#include "import/wire.h"
#include <string.h>

void sp_wire_put_varint(sp_text *t, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (uint8_t)(value & 127);
        value >>= 7;
        if (value) bytes[n] |= 128;
        n++;
    } while (value);
    sp_text_put(t, bytes, n);
}

static void put_tag(sp_text *t, uint32_t number, sp_wire_type type)
{
    sp_wire_put_varint(t, (uint64_t)number << 3 | (uint64_t)type);
}

void sp_wire_put_int(sp_text *t, uint32_t number, int64_t value)
{
    put_tag(t, number, SP_WIRE_VARINT);
    sp_wire_put_varint(t, (uint64_t)value);
}

void sp_wire_put_wide_int(sp_text *t, uint32_t number, int64_t value, int wider)
{
    uint8_t zeros[10] = {0};
    sp_wire_put_int(t, number, value);
    if (!wider || t->status != SPARTA_OK) return;
    t->data[t->size - 1] |= (char)128; /* more follows: nothing but zeros */
    memset(zeros, 128, (size_t)wider - 1);
    sp_text_put(t, zeros, (size_t)wider);
}

void sp_wire_put_float(sp_text *t, uint32_t number, float value)
{
    put_tag(t, number, SP_WIRE_32);
    sp_text_put(t, &value, sizeof value);
}

void sp_wire_put_head(sp_text *t, uint32_t number, uint64_t n)
{
    put_tag(t, number, SP_WIRE_BYTES);
    sp_wire_put_varint(t, n);
}

void sp_wire_put_bytes(sp_text *t, uint32_t number, const void *bytes, size_t n)
{
    sp_wire_put_head(t, number, n);
    sp_text_put(t, bytes, n);
}

void sp_wire_put_string(sp_text *t, uint32_t number, const char *s)
{
    sp_wire_put_bytes(t, number, s, strlen(s));
}

void sp_wire_put_message(sp_text *t, uint32_t number, const sp_text *message)
{
    if (message->status != SPARTA_OK && t->status == SPARTA_OK) t->status = message->status;
    sp_wire_put_bytes(t, number, sp_text_str(message), message->size);
}
