/* common.cuh: what the texts of room cuda share; no header of NVIDIA's is needed.
 *
 *   types     ELEMENT, the element of this kernel (DTYPE 0 f16, 1 bf16, 2 f32) as bits; wide() and narrow() convert to f32 and back, rounding to nearest
 *   epilogue  WORD0 to WORD7: what happens to a sum, as builtin/epilogue.def says it
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef long long i64;
#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void

/* ------------------------------------------------------------------ elements */
#if defined DTYPE && DTYPE == 2
typedef float ELEMENT;
DEVICE float wide(float x)
{
    return x;
}
DEVICE float narrow(float x)
{
    return x;
}
#elif defined DTYPE
typedef u16 ELEMENT;
#if DTYPE == 0
#define ETYPE "f16"
DEVICE float wide(u16 x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
#else
#define ETYPE "bf16"
DEVICE float wide(u16 x)
{
    return __uint_as_float((u32)x << 16);
}
#endif
DEVICE u16 narrow(float x)
{
    u16 y;
    asm("cvt.rn." ETYPE ".f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
/* Two floats as two elements, the first in the low half. */
DEVICE u32 narrow2(float low, float high)
{
    u32 y;
    asm("cvt.rn." ETYPE "x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
#endif

/* ------------------------------------------------------------------ epilogue */
#if defined WORDS
DEVICE float sigmoid(float x)
{
#if DTYPE == 2
    return 1.f / (1.f + expf(-x));
#else
    return 1.f / (1.f + __expf(-x)); /* closer than the element is */
#endif
}
DEVICE float word(int w, float v, float bias, float residual)
{
    switch (w) {
    case SP_WORD_BIAS: return v + bias;
    case SP_WORD_ADD: return v + residual;
    case SP_WORD_MUL: return v * residual;
    case SP_WORD_RELU: return v < 0.f ? 0.f : v; /* NaN stays */
    case SP_WORD_GELU: return .5f * v * (1.f + erff(v * .70710678f));
    case SP_WORD_GELU_TANH: return .5f * v * (1.f + tanhf(.79788456f * (v + .044715f * v * v * v)));
    case SP_WORD_TANH: return tanhf(v);
    case SP_WORD_SIGMOID: return sigmoid(v);
    case SP_WORD_SILU: return v * sigmoid(v);
    case SP_WORD_QUICK_GELU: return v * sigmoid(1.702f * v);
    }
    return v;
}
DEVICE float epilogue(float v, float bias, float residual)
{
#if WORDS > 0
    v = word(WORD0, v, bias, residual);
#endif
#if WORDS > 1
    v = word(WORD1, v, bias, residual);
#endif
#if WORDS > 2
    v = word(WORD2, v, bias, residual);
#endif
#if WORDS > 3
    v = word(WORD3, v, bias, residual);
#endif
#if WORDS > 4
    v = word(WORD4, v, bias, residual);
#endif
#if WORDS > 5
    v = word(WORD5, v, bias, residual);
#endif
#if WORDS > 6
    v = word(WORD6, v, bias, residual);
#endif
#if WORDS > 7
    v = word(WORD7, v, bias, residual);
#endif
    return v;
}
#endif
