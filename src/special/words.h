/* Words of specialised kernels that emit/words.h does not have: searches in levels, and shares of threads. Stands in every text; includes nothing. */
#ifndef SP_SPECIAL_WORDS
#define SP_SPECIAL_WORDS

/* A number stays one: gcc 12 would gather several by shuffles into a vector, which takes twice the time. */
#ifdef __x86_64__
#define HOLD(v) __asm__("" : "+x"(v))
#else
#define HOLD(v) (void)0
#endif

/* p[at[i]] in lane i. The instruction keeps lanes that a mask leaves out, so it waits for what was in the register before: 0 here. Told that the mask leaves out
 * none, gcc 12 would take any register, and each gather would wait for the one before it. */
#if defined(__AVX512F__)
INLINE unsigned short all_lanes(void)
{
    unsigned short mask = 0xffff;
    __asm__("" : "+Yk"(mask));
    return mask;
}
#endif
INLINE vec gather_at(const float *p, ints at)
{
#if defined(__AVX512F__)
    return __builtin_ia32_gathersiv16sf(splat(0.f), p, at, (short)all_lanes(), 4);
#else
    vec v;
    UNROLL for (int i = 0; i < LANES; i++) v[i] = p[at[i]];
    return v;
#endif
}

/* One number as f32, and the elements at[i] in lane i, for each type that operands may have. */
INLINE float one_bf16(unsigned short v)
{
    const unsigned u = (unsigned)v << 16;
    float f;
    __builtin_memcpy(&f, &u, sizeof f);
    return f;
}
INLINE float one_f16(unsigned short v)
{
#ifdef __F16C__
    return __builtin_ia32_vcvtph2ps((short __attribute__((vector_size(16)))){(short)v})[0];
#else
    return from_f16(v - (of_f16){0})[0];
#endif
}
/* The aligned word of 32 bits around each of 16 bits, which lies in the same page, and then the half of it. */
INLINE of_u16 halves_at(const unsigned short *p, ints at)
{
#if defined(__AVX512F__)
    const unsigned long odd = (unsigned long)p / sizeof *p % 2;
    const ints i = at + splat_int((int)odd);
    const uints word =
        (uints)__builtin_ia32_gathersiv16si(splat_int(0), p - odd, i >> 1, (short)all_lanes(), 4);
    return to_u16((ints)(word >> (uints)((i & 1) << 4)));
#else
    of_u16 v;
    UNROLL for (int i = 0; i < LANES; i++) v[i] = p[at[i]];
    return v;
#endif
}
#define GATHER_AT(name)                                                                                      \
    INLINE vec gather_at_##name(const unsigned short *p, ints at)                                            \
    {                                                                                                        \
        const of_u16 v = halves_at(p, at);                                                                   \
        return from_##name((of_##name)v);                                                                    \
    }
GATHER_AT(f16)
GATHER_AT(bf16)

/* Where c stands in crd[from, to), which ascends; -1: nowhere. */
#define FIND(name, T)                                                                                        \
    INLINE long find_##name(const T *crd, long from, long to, long c)                                        \
    {                                                                                                        \
        while (from < to) {                                                                                  \
            const long half = from + (to - from) / 2;                                                        \
            if ((long)crd[half] == c) return half;                                                           \
            if ((long)crd[half] < c)                                                                         \
                from = half + 1;                                                                             \
            else                                                                                             \
                to = half;                                                                                   \
        }                                                                                                    \
        return -1;                                                                                           \
    }                                                                                                        \
    /* The first in crd[from, to) that is at least c; to: there is none. */                                  \
    INLINE long find_from_##name(const T *crd, long from, long to, long c)                                   \
    {                                                                                                        \
        while (from < to) {                                                                                  \
            const long half = from + (to - from) / 2;                                                        \
            if ((long)crd[half] < c)                                                                         \
                from = half + 1;                                                                             \
            else                                                                                             \
                to = half;                                                                                   \
        }                                                                                                    \
        return to;                                                                                           \
    }
FIND(u8, unsigned char)
FIND(u16, unsigned short)
FIND(u32, unsigned)
FIND(u64, unsigned long)
FIND(i32, int)
FIND(i64, long)

INLINE long max_of(long a, long b)
{
    return a > b ? a : b;
}
INLINE long min_of(long a, long b)
{
    return a < b ? a : b;
}
/* Which of n rows position p lies in, or the next that has any; pos[i] is where row i begins. */
#define ROW(name, T)                                                                                         \
    INLINE long row_##name(const T *pos, long n, long p)                                                     \
    {                                                                                                        \
        long from = 0;                                                                                       \
        while (from < n) {                                                                                   \
            const long half = from + (n - from) / 2;                                                         \
            if ((long)pos[half + 1] > p)                                                                     \
                n = half;                                                                                    \
            else                                                                                             \
                from = half + 1;                                                                             \
        }                                                                                                    \
        return from;                                                                                         \
    }
ROW(u8, unsigned char)
ROW(u16, unsigned short)
ROW(u32, unsigned)
ROW(u64, unsigned long)
ROW(i32, int)
ROW(i64, long)

/* The sums of all lanes of four vectors: of every four lanes first, one sum of each vector side by side, then of these. */
typedef float four __attribute__((vector_size(16)));
#if LANES == 16
#define IN_FOURS(a, b, c, d)                                                                                 \
    a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, d + 8, a + 12, b + 12, c + 12, d + 12
#elif LANES == 8
#define IN_FOURS(a, b, c, d) a, b, c, d, a + 4, b + 4, c + 4, d + 4
#else
#define IN_FOURS(a, b, c, d) a, b, c, d
#endif
INLINE vec sum_pairs(vec a, vec b)
{
    return __builtin_shufflevector(a, b, IN_FOURS(0, LANES, 1, LANES + 1)) +
           __builtin_shufflevector(a, b, IN_FOURS(2, LANES + 2, 3, LANES + 3));
}
INLINE four sum_four(vec a, vec b, vec c, vec d)
{
    const vec p = sum_pairs(a, b), q = sum_pairs(c, d);
    vec v = __builtin_shufflevector(p, q, IN_FOURS(0, 1, LANES, LANES + 1)) +
            __builtin_shufflevector(p, q, IN_FOURS(2, 3, LANES + 2, LANES + 3));
#if LANES == 16
    v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
#elif LANES == 8
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
#endif
    return (four){v[0], v[1], v[2], v[3]};
}
/* NaN where a or b is, as most and least of vectors. */
INLINE float most_one(float a, float b)
{
    return a != a || a > b ? a : b;
}
INLINE float least_one(float a, float b)
{
    return a != a || a < b ? a : b;
}
/* How many bits of a byte, or of LANES lanes, are set. Where there is no instruction for it, gcc would call a function that nobody has. */
INLINE long set_bits(unsigned byte)
{
#ifdef __POPCNT__
    return __builtin_popcount(byte);
#else
    byte -= byte >> 1 & 0x55;
    byte = (byte & 0x33) + (byte >> 2 & 0x33);
    return (byte + (byte >> 4)) & 15;
#endif
}
/* The position of bit c, when the first that is set has position `first`; -1: it is not set. */
INLINE long find_bit(const unsigned char *bits, long c, long first)
{
    if (!(bits[c / 8] >> c % 8 & 1)) return -1;
    for (long i = 0; i < c / 8; i++) first += set_bits(bits[i]);
    return first + set_bits(bits[c / 8] & ((1u << c % 8) - 1));
}
/* Up to 64 bits, of n bytes. */
INLINE unsigned long bits_at(const unsigned char *bits, long n)
{
    unsigned long v = 0;
    if (n >= 8)
        __builtin_memcpy(&v, bits, 8);
    else
        for (long i = 0; i < n; i++) v |= (unsigned long)bits[i] << 8 * i;
    return v;
}
/* Of n bytes of bits, those of LANES lanes from bit `at` on. */
INLINE unsigned lane_bits(const unsigned char *bits, long at, long n)
{
#if LANES == 16
    unsigned short v = bits[at / 8];
    if (at / 8 + 1 < n) __builtin_memcpy(&v, bits + at / 8, 2);
    return v;
#else
    (void)n;
    return bits[at / 8] >> at % 8 & ((1u << LANES) - 1);
#endif
}
/* Lanes whose bit is set: those of v; p[0], p[1], ... one after the other; p[lane]. The others are 0, and nothing is read for them. */
#if defined(__AVX512F__)
#define AT_BITS(name, how, argument, operand)                                                                \
    INLINE vec name(argument, unsigned bits)                                                                 \
    {                                                                                                        \
        vec r;                                                                                               \
        __asm__(how " %1,%0%{%2%}%{z%}" : "=v"(r) : operand, "Yk"((unsigned short)bits));                    \
        return r;                                                                                            \
    }
AT_BITS(where, "vmovaps", vec v, "v"(v))
AT_BITS(expand_at, "vexpandps", const float *p, "m"(*(const float (*)[LANES])p))
AT_BITS(get_where, "vmovups", const float *p, "m"(*(const float (*)[LANES])p))
#else
INLINE vec where(vec v, unsigned bits)
{
    UNROLL for (int i = 0; i < LANES; i++) v[i] = bits >> i & 1 ? v[i] : 0;
    return v;
}
INLINE vec expand_at(const float *p, unsigned bits)
{
    vec v = {0};
    UNROLL for (int i = 0; i < LANES; i++) if (bits >> i & 1) v[i] = *p++;
    return v;
}
INLINE vec get_where(const float *p, unsigned bits)
{
    vec v = {0};
    UNROLL for (int i = 0; i < LANES; i++) if (bits >> i & 1) v[i] = p[i];
    return v;
}
#endif
/* Coordinate q of segments of w, each of whole bytes, in 2 or 4 bits. */
INLINE long narrow(const unsigned char *crd, long q, long w, int bits)
{
    const long each = 8 / bits, p = q / w, slot = q % w;
    return crd[p * ((w + each - 1) / each) + slot / each] >> slot % each * bits & ((1 << bits) - 1);
}
/* Where part `part` of n steps begins, in whole units. */
INLINE long share(long n, long part, long parts, long unit)
{
    const long units = (n + unit - 1) / unit, at = units * part / parts * unit;
    return at < n ? at : n;
}

#endif
