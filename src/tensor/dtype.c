/* The types: the rows of dtypes.def, and the two 16-bit floats. */
#include "tensor/tensor.h"
#include <string.h>

/* The public enum is written out for readers; these rows prove that it says the same as the table. */
enum {
#define SP_DTYPE(id, name, bytes, descr, onnx) ROW_##id,
#include "tensor/dtypes.def"
#undef SP_DTYPE
    ROWS
};
#define SP_DTYPE(id, name, bytes, descr, onnx)                                                               \
    _Static_assert((int)SPARTA_##id == (int)ROW_##id, "sparta.h and dtypes.def differ at " #id);
#include "tensor/dtypes.def"
#undef SP_DTYPE
_Static_assert(ROWS == SP_DTYPES, "SP_DTYPES counts the rows");

static const struct {
    const char *name;
    size_t bytes;
    const char *descr;
    int onnx;
} types[] = {
#define SP_DTYPE(id, name, bytes, descr, onnx) {name, bytes, descr, onnx},
#include "tensor/dtypes.def"
#undef SP_DTYPE
};

size_t sparta_dtype_size(sparta_dtype dtype)
{
    return (unsigned)dtype < ROWS ? types[dtype].bytes : 0;
}

const char *sparta_dtype_name(sparta_dtype dtype)
{
    return (unsigned)dtype < ROWS ? types[dtype].name : "unknown";
}

const char *sp_dtype_descr(sparta_dtype dtype)
{
    return (unsigned)dtype < ROWS ? types[dtype].descr : "";
}

int sp_dtype_to_onnx(sparta_dtype dtype)
{
    return (unsigned)dtype < ROWS ? types[dtype].onnx : 0;
}

bool sp_dtype_parse(const char *name, sparta_dtype *out)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(types[i].name, name)) {
            *out = (sparta_dtype)i;
            return true;
        }
    return false;
}

bool sp_dtype_from_onnx(int64_t code, sparta_dtype *out)
{
    for (int i = 0; i < ROWS; i++)
        if (types[i].onnx == code) {
            *out = (sparta_dtype)i;
            return true;
        }
    return false;
}

bool sp_dtype_is_float(sparta_dtype dtype)
{
    return dtype == SPARTA_F32 || dtype == SPARTA_F16 || dtype == SPARTA_BF16 || dtype == SPARTA_F64;
}

bool sp_dtype_is_signed(sparta_dtype dtype)
{
    return sp_dtype_is_float(dtype) || dtype == SPARTA_I8 || dtype == SPARTA_I16 || dtype == SPARTA_I32 ||
           dtype == SPARTA_I64 || dtype == SPARTA_I4 || dtype == SPARTA_I2;
}

int sp_dtype_bits(sparta_dtype dtype)
{
    if (dtype == SPARTA_U4 || dtype == SPARTA_I4) return 4;
    if (dtype == SPARTA_U2 || dtype == SPARTA_I2) return 2;
    return 8 * (int)sparta_dtype_size(dtype);
}

/* ------------------------------------------------------------------ 16-bit floats
 *
 *     f16   s eeeee mmmmmmmmmm             bias 15       bf16   the upper half of an f32
 */

static float as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t as_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

float sp_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31) return as_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return as_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = (float)mantissa * 0x1p-24f; /* exact */
    return sign ? -tiny : tiny;
}

/* v >> shift, to nearest, ties to even. */
static uint32_t shift_round(uint32_t v, int shift)
{
    uint32_t half = 1u << (shift - 1), rest = v & (2 * half - 1), whole = v >> shift;
    return whole + (rest > half || (rest == half && (whole & 1)));
}

uint16_t sp_f32_to_f16(float f)
{
    uint32_t bits = as_bits(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x1ff));
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 65536 and more */
    if (size >= 0x38800000) /* normal: a carry out of the mantissa goes into the exponent, up to infinity */
        return (uint16_t)(sign | shift_round(size - (112u << 23), 13));
    int exponent = (int)(size >> 23);
    if (exponent < 102) return (uint16_t)sign; /* below half of the smallest */
    return (uint16_t)(sign | shift_round((size & 0x7fffff) | 0x800000, 126 - exponent));
}

float sp_bf16_to_f32(uint16_t h)
{
    return as_float((uint32_t)h << 16);
}

uint16_t sp_f32_to_bf16(float f)
{
    uint32_t bits = as_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits & 0x80000000) >> 16 | shift_round(bits & 0x7fffffff, 16));
}

int64_t sp_dtype_lowest(sparta_dtype dtype)
{
    if (!sp_dtype_is_signed(dtype)) return 0;
    return INT64_MIN >> (64 - sp_dtype_bits(dtype));
}

int64_t sp_dtype_highest(sparta_dtype dtype)
{
    if (dtype == SPARTA_BOOL) return 1;
    if (!sp_dtype_is_signed(dtype)) return (int64_t)(UINT64_MAX >> (64 - sp_dtype_bits(dtype)));
    return INT64_MAX >> (64 - sp_dtype_bits(dtype));
}
