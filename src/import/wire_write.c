/* wire_write.c: the writer of protobuf's wire form. */
#include "import/wire.h"
#include <string.h>

size_t sparta_wire_varint_size(uint64_t value)
{
    size_t n = 1;
    while (value >>= 7) n++;
    return n;
}

void sparta_wire_put_varint(sparta_text *t, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (uint8_t)(value & 127);
        value >>= 7;
        if (value) bytes[n] |= 128;
        n++;
    } while (value);
    sparta_text_put(t, bytes, n);
}

static void put_tag(sparta_text *t, uint32_t number, sparta_wire_type type)
{
    sparta_wire_put_varint(t, (uint64_t)number << 3 | (uint64_t)type);
}

void sparta_wire_put_int(sparta_text *t, uint32_t number, int64_t value)
{
    put_tag(t, number, SPARTA_WIRE_VARINT);
    sparta_wire_put_varint(t, (uint64_t)value);
}

void sparta_wire_put_wide_int(sparta_text *t, uint32_t number, int64_t value, int wider)
{
    uint8_t zeros[10] = {0};
    sparta_wire_put_int(t, number, value);
    if (!wider || t->status != SPARTA_OK) return;
    t->data[t->size - 1] |= (char)128; /* more follows: nothing but zeros */
    memset(zeros, 128, (size_t)wider - 1);
    sparta_text_put(t, zeros, (size_t)wider);
}

void sparta_wire_put_float(sparta_text *t, uint32_t number, float value)
{
    put_tag(t, number, SPARTA_WIRE_32);
    sparta_text_put(t, &value, sizeof value);
}

void sparta_wire_put_head(sparta_text *t, uint32_t number, uint64_t n)
{
    put_tag(t, number, SPARTA_WIRE_BYTES);
    sparta_wire_put_varint(t, n);
}

void sparta_wire_put_bytes(sparta_text *t, uint32_t number, const void *bytes, size_t n)
{
    sparta_wire_put_head(t, number, n);
    sparta_text_put(t, bytes, n);
}

void sparta_wire_put_string(sparta_text *t, uint32_t number, const char *s)
{
    sparta_wire_put_bytes(t, number, s, strlen(s));
}

void sparta_wire_put_message(sparta_text *t, uint32_t number, const sparta_text *message)
{
    if (message->status != SPARTA_OK && t->status == SPARTA_OK) t->status = message->status;
    sparta_wire_put_bytes(t, number, sparta_text_str(message), message->size);
}
