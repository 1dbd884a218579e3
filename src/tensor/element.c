/* One element at a time, of any type: the slow, readable way. */
#include "tensor/tensor.h"
#include <math.h>
#include <string.h>

#define READ(type)     (((const type *)data)[at])
#define WRITE(type, v) (((type *)data)[at] = (type)(v))

double sp_element_get(sparta_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case SPARTA_F32: return (double)READ(float);
    case SPARTA_F16: return (double)sp_f16_to_f32(READ(uint16_t));
    case SPARTA_BF16: return (double)sp_bf16_to_f32(READ(uint16_t));
    case SPARTA_F64: return READ(double);
    case SPARTA_U64: return (double)READ(uint64_t);
    default: return (double)sp_element_get_int(dtype, data, at);
    }
}

/* What a C cast does where it is defined, modulo 2^64 beyond; 0 for what is no number. */
static int64_t wrap(double v)
{
    if (v > -0x1p63 && v < 0x1p63) return (int64_t)v;
    if (!isfinite(v)) return 0;
    v = fmod(v, 0x1p64);
    return (int64_t)(v < 0 ? -(uint64_t)-v : (uint64_t)v);
}

/* The sign bit is worth -sign. */
static int64_t extend(int64_t bits, int64_t sign)
{
    return (bits ^ sign) - sign;
}

int64_t sp_element_get_int(sparta_dtype dtype, const void *data, int64_t at)
{
    switch (dtype) {
    case SPARTA_I8: return READ(int8_t);
    case SPARTA_U8: return READ(uint8_t);
    case SPARTA_I16: return READ(int16_t);
    case SPARTA_U16: return READ(uint16_t);
    case SPARTA_I32: return READ(int32_t);
    case SPARTA_U32: return READ(uint32_t);
    case SPARTA_I64: return READ(int64_t);
    case SPARTA_U64: return (int64_t)READ(uint64_t);
    case SPARTA_BOOL: return READ(uint8_t) != 0;
    case SPARTA_U4: return READ(uint8_t) & 15;
    case SPARTA_U2: return READ(uint8_t) & 3;
    case SPARTA_I4: return extend(READ(uint8_t) & 15, 8);
    case SPARTA_I2: return extend(READ(uint8_t) & 3, 2);
    case SPARTA_F32:
    case SPARTA_F16:
    case SPARTA_BF16:
    case SPARTA_F64: return wrap(sp_element_get(dtype, data, at));
    }
    return 0;
}

/* To float, to odd: when inexact the last bit is set, so that a second rounding to 16 bits cannot go wrong. */
static float narrow_to_odd(double v)
{
    float f = (float)v;
    uint32_t bits;
    if (isnan(v) || (double)f == v) return f;
    memcpy(&bits, &f, 4);
    if (fabs((double)f) > fabs(v)) bits--;
    bits |= 1;
    memcpy(&f, &bits, 4);
    return f;
}

void sp_element_set(sparta_dtype dtype, void *data, int64_t at, double value)
{
    switch (dtype) {
    case SPARTA_F32: WRITE(float, value); break;
    case SPARTA_F16: WRITE(uint16_t, sp_f32_to_f16(narrow_to_odd(value))); break;
    case SPARTA_BF16: WRITE(uint16_t, sp_f32_to_bf16(narrow_to_odd(value))); break;
    case SPARTA_F64: WRITE(double, value); break;
    case SPARTA_BOOL: WRITE(uint8_t, value != 0); break;
    default: sp_element_set_int(dtype, data, at, wrap(value)); break;
    }
}

void sp_element_set_int(sparta_dtype dtype, void *data, int64_t at, int64_t value)
{
    switch (dtype) {
    case SPARTA_I8: WRITE(int8_t, value); break;
    case SPARTA_U8: WRITE(uint8_t, value); break;
    case SPARTA_I16: WRITE(int16_t, value); break;
    case SPARTA_U16: WRITE(uint16_t, value); break;
    case SPARTA_I32: WRITE(int32_t, value); break;
    case SPARTA_U32: WRITE(uint32_t, value); break;
    case SPARTA_I64: WRITE(int64_t, value); break;
    case SPARTA_U64: WRITE(uint64_t, value); break;
    case SPARTA_BOOL: WRITE(uint8_t, value != 0); break;
    case SPARTA_U4:
    case SPARTA_I4: WRITE(uint8_t, value & 15); break;
    case SPARTA_U2:
    case SPARTA_I2: WRITE(uint8_t, value & 3); break;
    case SPARTA_F32: WRITE(float, value); break;
    case SPARTA_F64: WRITE(double, value); break;
    case SPARTA_F16:
    case SPARTA_BF16: sp_element_set(dtype, data, at, (double)value); break;
    }
}
