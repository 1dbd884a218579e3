/* Words of generated kernels: loads and stores of every type, and what words.def names that panel/vector.h does not have. Stands in every
 * generated text after vector.h; includes nothing. Floats are vec, f16 and bf16 too; i8 to i32 are ints; bools are masks, ints of all ones or 0.
 */
#ifndef SP_EMIT_WORDS
#define SP_EMIT_WORDS

typedef long long longs __attribute__((vector_size(8 * LANES), may_alias));
typedef double doubles __attribute__((vector_size(8 * LANES), may_alias));
typedef unsigned uints __attribute__((vector_size(4 * LANES), may_alias));
typedef unsigned long long ulongs __attribute__((vector_size(8 * LANES), may_alias));
/* As elements lie in memory. */
typedef float of_f32 __attribute__((vector_size(4 * LANES), may_alias, aligned(4)));
typedef double of_f64 __attribute__((vector_size(8 * LANES), may_alias, aligned(8)));
typedef unsigned short of_f16 __attribute__((vector_size(2 * LANES), may_alias, aligned(2)));
typedef unsigned short of_bf16 __attribute__((vector_size(2 * LANES), may_alias, aligned(2)));
typedef signed char of_i8 __attribute__((vector_size(LANES), may_alias, aligned(1)));
typedef unsigned char of_u8 __attribute__((vector_size(LANES), may_alias, aligned(1)));
typedef short of_i16 __attribute__((vector_size(2 * LANES), may_alias, aligned(2)));
typedef unsigned short of_u16 __attribute__((vector_size(2 * LANES), may_alias, aligned(2)));
typedef int of_i32 __attribute__((vector_size(4 * LANES), may_alias, aligned(4)));
typedef int of_u32 __attribute__((vector_size(4 * LANES), may_alias, aligned(4)));
typedef long long of_i64 __attribute__((vector_size(8 * LANES), may_alias, aligned(8)));
typedef long long of_u64 __attribute__((vector_size(8 * LANES), may_alias, aligned(8)));
typedef unsigned char of_bool __attribute__((vector_size(LANES), may_alias, aligned(1)));

INLINE ints iota(void)
{
    ints r;
    UNROLL for (int i = 0; i < LANES; i++) r[i] = i;
    return r;
}
INLINE longs splat_long(long long f)
{
    return f - (longs){0};
}
INLINE doubles splat_double(double f)
{
    return f - (doubles){0};
}
/* The first n lanes of v, `rest` in the others. */
INLINE vec first_vec(long n, vec v, float rest)
{
    return pick(iota() < splat_int((int)n), v, splat(rest));
}
INLINE ints first_ints(long n, ints v, int rest)
{
    const ints m = iota() < splat_int((int)n);
    return (v & m) | (splat_int(rest) & ~m);
}
INLINE longs wide_mask(ints m)
{
    return __builtin_convertvector(m, longs);
}
INLINE longs first_longs(long n, longs v, long long rest)
{
    const longs m = wide_mask(iota() < splat_int((int)n));
    return (v & m) | (splat_long(rest) & ~m);
}
INLINE doubles first_doubles(long n, doubles v, double rest)
{
    return (doubles)first_longs(n, (longs)v, (long long)((longs)splat_double(rest))[0]);
}

/* ------------------------------------------------------------------ types: as they lie to what is computed with, and back */
INLINE vec from_f32(of_f32 v)
{
    return (vec)v;
}
INLINE of_f32 to_f32(vec v)
{
    return (of_f32)v;
}
INLINE doubles from_f64(of_f64 v)
{
    return (doubles)v;
}
INLINE of_f64 to_f64(doubles v)
{
    return (of_f64)v;
}
/* By the one instruction there is: gcc 12 takes the long way. */
#ifdef __AVX2__
#define WIDEN(name, how)                                                                                     \
    INLINE ints from_##name(of_##name v)                                                                     \
    {                                                                                                        \
        ints r;                                                                                              \
        __asm__(how " %1,%0" : "=v"(r) : "v"(v));                                                            \
        return r;                                                                                            \
    }
#else
#define WIDEN(name, how)                                                                                     \
    INLINE ints from_##name(of_##name v)                                                                     \
    {                                                                                                        \
        return __builtin_convertvector(v, ints);                                                             \
    }
#endif
#if LANES == 16
#define CUT(name, how)                                                                                       \
    INLINE of_##name to_##name(ints v)                                                                       \
    {                                                                                                        \
        of_##name r;                                                                                         \
        __asm__(how " %1,%0" : "=v"(r) : "v"(v));                                                            \
        return r;                                                                                            \
    }
#else
#define CUT(name, how)                                                                                       \
    INLINE of_##name to_##name(ints v)                                                                       \
    {                                                                                                        \
        return __builtin_convertvector(v, of_##name);                                                        \
    }
#endif
WIDEN(i8, "vpmovsxbd")
WIDEN(u8, "vpmovzxbd")
WIDEN(i16, "vpmovsxwd")
WIDEN(u16, "vpmovzxwd")
CUT(i8, "vpmovdb")
CUT(u8, "vpmovdb")
CUT(i16, "vpmovdw")
CUT(u16, "vpmovdw")
INLINE vec from_bf16(of_bf16 v)
{
    return (vec)((uints)from_u16((of_u16)v) << 16);
}
INLINE of_bf16 to_bf16(vec v) /* halves to even; NaN stays NaN */
{
    uints u = (uints)v;
    uints r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    r = (uints)(((ints)r & (v == v)) | ((ints)((u >> 16) | 64) & ~(v == v)));
    return (of_bf16)to_u16((ints)r);
}
/* By arithmetic of f32 where there is no instruction, whose exponents hold those of f16: one multiplication puts subnormals and the rest in place. */
INLINE vec from_f16(of_f16 h)
{
#if defined(__AVX512F__)
    typedef short shorts __attribute__((vector_size(32)));
    return __builtin_ia32_vcvtph2ps512_mask((shorts)h, splat(0.f), -1, 4);
#elif defined(__F16C__)
    typedef short shorts __attribute__((vector_size(16)));
    return __builtin_ia32_vcvtph2ps256((shorts)h);
#else
    const uints u = (uints)from_u16((of_u16)h), sign = (u & 0x8000) << 16, body = (u & 0x7fff) << 13;
    const vec small = (vec)body * splat(5.192296858534828e33f); /* 2^112 */
    const ints special = (ints)((u & 0x7c00) == 0x7c00);
    return (vec)((uints)pick(special, (vec)(body | 0x7f800000), small) | sign);
#endif
}
INLINE of_f16 to_f16(vec v) /* halves to even, infinity when too large, NaN stays NaN */
{
    const uints u = (uints)v, sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
    const uints normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    const uints small = (uints)((vec)a + splat(.5f)) - 0x3f000000u; /* the sum rounds to multiples of 2^-24 */
    uints r = (uints)(((ints)small & (ints)(a < (113u << 23))) | ((ints)normal & ~(ints)(a < (113u << 23))));
    const ints large = (ints)(a >= 0x477ff000u), nan = (ints)(a > 0x7f800000u);
    r = (r & ~(uints)large) | ((uints)large & 0x7c00);
    r = (r & ~(uints)nan) | ((uints)nan & 0x7e00);
    return (of_f16)to_u16((ints)(r | sign));
}
#define PLAIN(name, type)                                                                                    \
    INLINE type from_##name(of_##name v)                                                                     \
    {                                                                                                        \
        return (type)v;                                                                                      \
    }                                                                                                        \
    INLINE of_##name to_##name(type v)                                                                       \
    {                                                                                                        \
        return (of_##name)v;                                                                                 \
    }
PLAIN(i32, ints)
PLAIN(u32, ints)
PLAIN(i64, longs)
PLAIN(u64, longs)
INLINE ints from_bool(of_bool v)
{
    return from_u8((of_u8)v) != 0;
}
INLINE of_bool to_bool(ints v)
{
    return (of_bool)to_u8(v & 1);
}

/* get: n of LANES neighbours; all: one for every lane; gather: n that lie `step` apart; and the same the other way. With a constant n of LANES
 * there is no branch. */
#define ACCESS(name, T, type)                                                                                \
    INLINE type get_##name(const T *p, long n)                                                               \
    {                                                                                                        \
        if (n >= LANES) return from_##name(*(const of_##name *)p);                                           \
        of_##name v = {0};                                                                                   \
        for (long i = 0; i < n; i++) v[i] = p[i];                                                            \
        return from_##name(v);                                                                               \
    }                                                                                                        \
    INLINE type all_##name(const T *p)                                                                       \
    {                                                                                                        \
        return from_##name(*p - (of_##name){0});                                                             \
    }                                                                                                        \
    INLINE type gather_##name(const T *p, long step, long n)                                                 \
    {                                                                                                        \
        of_##name v = {0};                                                                                   \
        if (n >= LANES)                                                                                      \
            UNROLL for (int i = 0; i < LANES; i++) v[i] = p[i * step];                                       \
        else                                                                                                 \
            for (long i = 0; i < n; i++) v[i] = p[i * step];                                                 \
        return from_##name(v);                                                                               \
    }                                                                                                        \
    INLINE void put_##name(T *p, type v, long n)                                                             \
    {                                                                                                        \
        const of_##name w = to_##name(v);                                                                    \
        if (n >= LANES)                                                                                      \
            *(of_##name *)p = w;                                                                             \
        else                                                                                                 \
            for (long i = 0; i < n; i++) p[i] = w[i];                                                        \
    }                                                                                                        \
    INLINE void scatter_##name(T *p, type v, long step, long n)                                              \
    {                                                                                                        \
        const of_##name w = to_##name(v);                                                                    \
        for (long i = 0; i < (n < LANES ? n : LANES); i++) p[i * step] = w[i];                               \
    }
ACCESS(f64, double, doubles)
ACCESS(f16, unsigned short, vec)
ACCESS(bf16, unsigned short, vec)
ACCESS(i8, signed char, ints)
ACCESS(u8, unsigned char, ints)
ACCESS(i16, short, ints)
ACCESS(u16, unsigned short, ints)
ACCESS(i32, int, ints)
ACCESS(u32, int, ints)
ACCESS(i64, long long, longs)
ACCESS(u64, long long, longs)
ACCESS(bool, unsigned char, ints)
/* Most of all f32: tails by masks where there are instructions for it. */
#define get_f32 get_plain_f32
#define put_f32 put_plain_f32
ACCESS(f32, float, vec)
#undef get_f32
#undef put_f32
INLINE vec get_f32(const float *p, long n)
{
    if (n >= LANES) return (vec) * (const of_f32 *)p;
#if defined(__AVX512F__)
    vec r;
    const unsigned short mask = (unsigned short)((1u << n) - 1);
    __asm__("vmovups %1,%0%{%2%}%{z%}" : "=v"(r) : "m"(*(const float(*)[LANES])p), "Yk"(mask));
    return r;
#elif defined(__AVX2__)
    vec r;
    __asm__("vmaskmovps %1,%2,%0"
            : "=x"(r)
            : "m"(*(const float(*)[LANES])p), "x"(iota() < splat_int((int)n)));
    return r;
#else
    return get_plain_f32(p, n);
#endif
}
INLINE void put_f32(float *p, vec v, long n)
{
    if (n >= LANES)
        *(of_f32 *)p = (of_f32)v;
    else {
#if defined(__AVX512F__)
        const unsigned short mask = (unsigned short)((1u << n) - 1);
        __asm__("vmovups %1,%0%{%2%}" : "+m"(*(float(*)[LANES])p) : "v"(v), "Yk"(mask));
#elif defined(__AVX2__)
        __asm__("vmaskmovps %1,%2,%0" : "+m"(*(float(*)[LANES])p) : "x"(v), "x"(iota() < splat_int((int)n)));
#else
        put_plain_f32(p, v, n);
#endif
    }
}

/* ------------------------------------------------------------------ numbers */
/* NaN where a or b is. */
INLINE vec least(vec a, vec b)
{
    return pick(a != a, a, smaller(a, b));
}
INLINE vec most(vec a, vec b)
{
    return pick(a != a, a, larger(a, b));
}
INLINE vec relu(vec x)
{
    return at_least(x, 0.f);
}
INLINE vec sign(vec x)
{
    return pick(x > splat(0.f), splat(1.f), pick(x < splat(0.f), splat(-1.f), pick(x == x, splat(0.f), x)));
}
/* Integers wrap: unsigned arithmetic does. */
INLINE ints add_ints(ints a, ints b)
{
    return (ints)((uints)a + (uints)b);
}
INLINE ints sub_ints(ints a, ints b)
{
    return (ints)((uints)a - (uints)b);
}
INLINE ints mul_ints(ints a, ints b)
{
    return (ints)((uints)a * (uints)b);
}
INLINE ints pick_ints(ints m, ints a, ints b)
{
    return (a & m) | (b & ~m);
}
INLINE ints least_ints(ints a, ints b)
{
    return pick_ints(a < b, a, b);
}
INLINE ints most_ints(ints a, ints b)
{
    return pick_ints(a > b, a, b);
}
INLINE ints abs_ints(ints a)
{
    return pick_ints(a < 0, sub_ints(splat_int(0), a), a);
}
INLINE ints sign_ints(ints a)
{
    return (a < 0) - (a > 0);
}
INLINE longs add_longs(longs a, longs b)
{
    return (longs)((ulongs)a + (ulongs)b);
}
INLINE longs sub_longs(longs a, longs b)
{
    return (longs)((ulongs)a - (ulongs)b);
}
INLINE longs mul_longs(longs a, longs b)
{
    return (longs)((ulongs)a * (ulongs)b);
}
INLINE longs pick_longs(ints mask, longs a, longs b)
{
    const longs m = wide_mask(mask);
    return (a & m) | (b & ~m);
}
/* a op b, two registers of longs, as a mask of ints: gcc 12 compares vectors of several registers element by element. */
typedef long long half_longs __attribute__((vector_size(4 * LANES), may_alias));
typedef int half_ints __attribute__((vector_size(2 * LANES), may_alias));
INLINE half_longs half_of(longs v, const int k)
{
    half_longs r;
    __builtin_memcpy(&r, (const char *)&v + 4 * LANES * k, sizeof r);
    return r;
}
INLINE ints both(half_ints a, half_ints b)
{
    ints r;
#if LANES == 16
    __asm__("vinserti64x4 $1,%2,%g1,%0"
            : "=v"(r)
            : "v"(a), "v"(b)); /* by memory, the loads would wait for both stores */
#elif LANES == 8
    __asm__("vinserti128 $1,%2,%t1,%0" : "=x"(r) : "x"(a), "x"(b));
#else
    __builtin_memcpy(&r, &a, sizeof a);
    __builtin_memcpy((char *)&r + sizeof a, &b, sizeof b);
#endif
    return r;
}
#define TEST_LONGS(a, op, b)                                                                                 \
    both(__builtin_convertvector(half_of(a, 0) op half_of(b, 0), half_ints),                                 \
         __builtin_convertvector(half_of(a, 1) op half_of(b, 1), half_ints))
INLINE ints narrow_mask(longs m)
{
    return __builtin_convertvector(m, ints);
}
INLINE longs least_longs(longs a, longs b)
{
    return pick_longs(narrow_mask(a < b), a, b);
}
INLINE longs most_longs(longs a, longs b)
{
    return pick_longs(narrow_mask(a > b), a, b);
}
INLINE longs abs_longs(longs a)
{
    return pick_longs(narrow_mask(a < 0), sub_longs(splat_long(0), a), a);
}
INLINE longs sign_longs(longs a)
{
    return (a < 0) - (a > 0);
}
INLINE doubles pick_doubles(ints mask, doubles a, doubles b)
{
    return (doubles)pick_longs(mask, (longs)a, (longs)b);
}
INLINE doubles least_doubles(doubles a, doubles b)
{
    return pick_doubles(narrow_mask((longs)((a < b) | (a != a))), a, b);
}
INLINE doubles most_doubles(doubles a, doubles b)
{
    return pick_doubles(narrow_mask((longs)((a > b) | (a != a))), a, b);
}
INLINE doubles abs_doubles(doubles a)
{
    return (doubles)((longs)a & splat_long(0x7fffffffffffffffll));
}
INLINE doubles sign_doubles(doubles x)
{
    const doubles zero = splat_double(0);
    return pick_doubles(narrow_mask((longs)(x > zero)), splat_double(1),
                        pick_doubles(narrow_mask((longs)(x < zero)), splat_double(-1), x * zero));
}
/* What does not fit the integer is the least one, as the instruction has it; C leaves it open. */
INLINE ints ints_of_vec(vec v)
{
    return __builtin_convertvector(v, ints);
}
INLINE longs longs_of_vec(vec v)
{
    return __builtin_convertvector(v, longs);
}

/* ------------------------------------------------------------------ roots and rounding */
#ifdef __AVX__
INLINE vec root(vec x)
{
    vec r;
    __asm__("vsqrtps %1,%0" : "=v"(r) : "v"(x));
    return r;
}
#ifdef __AVX512F__
#define ROUND(name, how)                                                                                     \
    INLINE vec name(vec x)                                                                                   \
    {                                                                                                        \
        vec r;                                                                                               \
        __asm__("vrndscaleps $" #how ",%1,%0" : "=v"(r) : "v"(x));                                           \
        return r;                                                                                            \
    }
#else
#define ROUND(name, how)                                                                                     \
    INLINE vec name(vec x)                                                                                   \
    {                                                                                                        \
        vec r;                                                                                               \
        __asm__("vroundps $" #how ",%1,%0" : "=x"(r) : "x"(x));                                              \
        return r;                                                                                            \
    }
#endif
ROUND(nearest, 8)
ROUND(down, 9)
ROUND(up, 10)
#else
INLINE vec root(vec x)
{
    vec r;
    for (int i = 0; i < LANES; i++) r[i] = __builtin_sqrtf(x[i]);
    return r;
}
INLINE vec with_sign(vec a, vec x)
{
    return (vec)((ints)a | ((ints)x & splat_int((int)0x80000000u)));
}
INLINE vec nearest(vec x)
{
    const vec magic = with_sign(splat(8388608.f), x); /* 2^23: the sum has no fraction */
    return pick(absolute(x) < splat(8388608.f), with_sign(x + magic - magic, x), x);
}
INLINE vec down(vec x)
{
    const vec r = nearest(x);
    return pick(r > x, r - splat(1.f), r);
}
INLINE vec up(vec x)
{
    const vec r = nearest(x);
    return pick(r < x, with_sign(r + splat(1.f), x), r);
}
#endif
INLINE ints whole(vec x) /* the nearest whole number, halves to even, of what fits */
{
#ifdef __AVX__
    ints r;
    __asm__("vcvtps2dq %1,%0" : "=v"(r) : "v"(x));
    return r;
#else
    return __builtin_convertvector(nearest(x), ints);
#endif
}
/* x / s as a whole number, inside of low and high, which are such; NaN is low. */
INLINE ints steps(vec x, vec s, vec low, vec high)
{
    return whole(smaller(larger(x / s, low), high));
}
INLINE vec rsqrt(vec x) /* 1 / sqrt x; relative error 1.2e-7 */
{
    return splat(1.f) / root(x);
}

/* ------------------------------------------------------------------ functions; the largest errors are measured by emit_words_test.c */
/* p 2^n, where t = n + 1.5 * 2^23 has n in its low bits, -151 <= n <= 129 */
INLINE vec scaled(vec p, vec t)
{
#ifdef __AVX512F__
    vec r;
    __asm__("vscalefps %2,%1,%0" : "=v"(r) : "v"(p), "v"(t - splat(12582912.f)));
    return r;
#else
    const ints n = (ints)t - splat_int(0x4b400000),
               half = n >> 1; /* two factors: one alone has no room for 2^n */
    return p * (vec)((half + splat_int(127)) << 23) * (vec)((n - half + splat_int(127)) << 23);
#endif
}
/* e^x; relative error 2e-7, 0 below -104, infinity above 88.8; NaN stays NaN */
INLINE vec expv(vec x)
{
    const vec y = at_most(at_least(x, -104.f), 89.f);
    const vec t =
        y * splat(1.44269504f) + splat(12582912.f); /* 1.5 * 2^23: the low bits are the nearest integer */
    const vec n = t - splat(12582912.f);
    const vec r = (y - n * splat(.693359375f)) - n * splat(-2.12194440e-4f);
    vec p = splat(.00831243f); /* the polynomial of this degree whose largest relative error is least */
    p = p * r + splat(.041890986f);
    p = p * r + splat(.16667119f);
    p = p * r + splat(.49999225f);
    p = p * r + splat(1.f);
    p = p * r + splat(1.f);
    return scaled(p, t);
}
/* e^x - 1 where |x| is at most .5: the series, which loses nothing near 0 */
INLINE vec expm1_near(vec x)
{
    vec p = splat(1.98412698e-4f);
    p = p * x + splat(1.38888889e-3f);
    p = p * x + splat(8.33333333e-3f);
    p = p * x + splat(4.16666667e-2f);
    p = p * x + splat(1.66666667e-1f);
    p = p * x + splat(.5f);
    return p * x * x + x;
}
/* e^x - 1; relative error 4e-7 */
INLINE vec expm1v(vec x)
{
    return pick(absolute(x) < splat(.5f), expm1_near(x), expv(x) - splat(1.f));
}
/* ln x; relative error 2e-7, near 1 as well; -infinity of 0, NaN below */
INLINE vec logv(vec x)
{
    const ints tiny = x < splat(1.17549435e-38f);
    const vec y = pick(tiny, x * splat(8388608.f), x); /* subnormals: times 2^23 */
    /* so that the rest is in [sqrt 1/2, sqrt 2); unsigned, since negative x, which are NaN in the end, wrap */
    const ints e = (ints)((uints)y - 0x3f3504f3u) >> 23;
    const vec m = (vec)((uints)y - ((uints)e << 23)) - splat(1.f);
    const vec s = m / (m + splat(2.f)), q = s * s; /* ln(1 + m) = 2 artanh s */
    vec p = splat(2.f / 11);
    p = p * q + splat(2.f / 9);
    p = p * q + splat(2.f / 7);
    p = p * q + splat(2.f / 5);
    p = p * q + splat(2.f / 3);
    const vec n = __builtin_convertvector(e - (tiny & splat_int(23)), vec);
    const vec h = m * m * splat(.5f);
    /* 2 s = m - s m, and s m = m^2/2 - s m^2/2: nothing cancels */
    vec r = m - (h - (s * (h + q * p)) - n * splat(-2.12194440e-4f)) + n * splat(.693359375f);
    r = pick(x < splat(__builtin_inff()), r, x);
    return pick(x > splat(0.f), r,
                pick(x == splat(0.f), splat(-__builtin_inff()), splat(__builtin_nanf(""))));
}
/* 1 / x for 2^-100 < x < 2^120; relative error 2e-7 */
INLINE vec inverse(vec x)
{
#if LANES == 16
    vec r;
    __asm__("vrcp14ps %1,%0" : "=v"(r) : "v"(x));
    return r * (splat(2.f) - x * r);
#else
    return splat(1.f) / x;
#endif
}
/* 1 / (1 + e^-x); relative error 5e-7 where it is more than 1e-34, which is what it is at least */
INLINE vec sigmoidv(vec x)
{
    return inverse(splat(1.f) + expv(at_most(-x, 80.f)));
}
/* tanh x; relative error 5e-7: x p(x^2) / q(x^2) up to 8.9, from where on it is 1 */
INLINE vec tangent(vec x)
{
    const vec a = at_most(absolute(x), 8.9f), t = a * a;
    vec p = splat(1.33547982e-8f), q = splat(7.77661739e-7f);
    p = p * t + splat(2.06091918e-5f);
    q = q * t + splat(3.28564609e-4f);
    p = p * t + splat(3.49559519e-3f);
    q = q * t + splat(2.58770101e-2f);
    p = p * t + splat(.133810312f);
    q = q * t + splat(.467143476f);
    p = p * t + splat(1.f);
    q = q * t + splat(1.f);
    const vec h = at_most(a * p / q, 1.f);
    return (vec)((ints)h | ((ints)x & splat_int((int)0x80000000u)));
}
INLINE vec softplus(vec x) /* ln(1 + e^x); relative error 5e-7 */
{
    const vec u = expv(-absolute(x)), w = splat(1.f) + u, d = w - splat(1.f);
    const vec r = pick(d == splat(0.f), u, logv(w) * (u / d)); /* what the sum w lost comes back by u / d */
    return relu(x) + r;
}
/* erf x; relative error 5e-7: the series near 0, and elsewhere 1 - e^-x^2 p(1 / (1 + c x)) (Abramowitz and Stegun 7.1.26) */
INLINE vec erfv(vec x)
{
    const vec a = absolute(x), q = x * x;
    vec small = splat(-8.54832702e-4f);
    small = small * q + splat(5.22397762e-3f);
    small = small * q + splat(-2.68661706e-2f);
    small = small * q + splat(1.12837917e-1f);
    small = small * q + splat(-3.76126389e-1f);
    small = small * q + splat(1.12837917f);
    const vec t = splat(1.f) / (splat(1.f) + splat(.3275911f) * a);
    vec p = splat(1.061405429f);
    p = p * t + splat(-1.453152027f);
    p = p * t + splat(1.421413741f);
    p = p * t + splat(-.284496736f);
    p = p * t + splat(.254829592f);
    vec large = splat(1.f) - p * t * expv(-q);
    large = (vec)((ints)large | ((ints)x & splat_int((int)0x80000000u)));
    return pick(a < splat(.55f), small * x, large);
}
/* Quarter turns in x and what is left of it, in f64: exact to 2^-26 for |x| < 2^30, and no better than a guess beyond. */
INLINE vec quarter(vec x, ints *turn)
{
    const doubles d = __builtin_convertvector(x, doubles);
    const doubles t = d * splat_double(.63661977236758134) + splat_double(6755399441055744.); /* 1.5 * 2^52 */
    const doubles n = t - splat_double(6755399441055744.);
    *turn = __builtin_convertvector((longs)t & splat_long(3), ints);
    return __builtin_convertvector(
        d - n * splat_double(1.5707963267948966) - n * splat_double(6.123233995736766e-17), vec);
}
INLINE vec sine(vec r)
{
    const vec q = r * r;
    vec p = splat(2.75573192e-6f);
    p = p * q + splat(-1.98412698e-4f);
    p = p * q + splat(8.33333333e-3f);
    p = p * q + splat(-1.66666667e-1f);
    return p * q * r + r;
}
INLINE vec cosine(vec r)
{
    const vec q = r * r;
    vec p = splat(-2.75573192e-7f);
    p = p * q + splat(2.48015873e-5f);
    p = p * q + splat(-1.38888889e-3f);
    p = p * q + splat(4.16666667e-2f);
    return (p * q + splat(-.5f)) * q + splat(1.f);
}
INLINE vec turned(vec r, ints turn)
{
    const vec v = pick((turn & 1) != 0, cosine(r), sine(r));
    return (vec)((ints)v ^ ((turn & 2) << 30));
}
/* sin x, cos x; error 2e-7 for |x| < 2^30 */
INLINE vec sinv(vec x)
{
    ints turn;
    const vec r = quarter(x, &turn);
    return turned(r, turn);
}
INLINE vec cosv(vec x)
{
    ints turn;
    const vec r = quarter(x, &turn);
    return turned(r, turn + 1);
}
/* a^b as C's pow; relative error 3e-7 + 1.5e-7 |b ln a| */
INLINE vec power(vec a, vec b)
{
    const vec r = expv(logv(absolute(a)) * b);
    const vec whole = down(b), half = b * splat(.5f);
    const ints is_whole = whole == b, odd = is_whole & (down(half) != half);
    vec s = pick((a < splat(0.f)) & ~is_whole & (absolute(a) < splat(__builtin_inff())),
                 splat(__builtin_nanf("")), r);
    s = (vec)((ints)s | ((ints)a & odd & splat_int((int)0x80000000u)));
    s = pick((a != a) | (b != b), a + b, s);
    return pick((b == splat(0.f)) | (a == splat(1.f)) |
                    ((a == splat(-1.f)) & (absolute(b) == splat(__builtin_inff()))),
                splat(1.f), s);
}

/* ------------------------------------------------------------------ across the lanes */
/* Lanes change places with those n further on, by halves, so that all end with the same. */
#if LANES == 16
#define HALVES(STEP)                                                                                         \
    STEP(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)                                               \
    STEP(4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)                                               \
    STEP(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)                                               \
    STEP(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif LANES == 8
#define HALVES(STEP)                                                                                         \
    STEP(4, 5, 6, 7, 0, 1, 2, 3)                                                                             \
    STEP(2, 3, 0, 1, 6, 7, 4, 5)                                                                             \
    STEP(1, 0, 3, 2, 5, 4, 7, 6)
#else
#define HALVES(STEP)                                                                                         \
    STEP(2, 3, 0, 1)                                                                                         \
    STEP(1, 0, 3, 2)
#endif
#define ADD_HALF(...)   v = v + __builtin_shufflevector(v, v, __VA_ARGS__);
#define TIMES_HALF(...) v = v * __builtin_shufflevector(v, v, __VA_ARGS__);
#define LEAST_HALF(...) v = least(v, __builtin_shufflevector(v, v, __VA_ARGS__));
#define MOST_HALF(...)  v = most(v, __builtin_shufflevector(v, v, __VA_ARGS__));
#define FOLD_VEC(name, STEP)                                                                                 \
    INLINE float name(vec v)                                                                                 \
    {                                                                                                        \
        HALVES(STEP)                                                                                         \
        return v[0];                                                                                         \
    }
FOLD_VEC(sum_vec, ADD_HALF)
FOLD_VEC(product_vec, TIMES_HALF)
FOLD_VEC(smallest_vec, LEAST_HALF)
FOLD_VEC(largest_vec, MOST_HALF)
#define FOLD(name, type, T, step)                                                                            \
    INLINE T name(type v)                                                                                    \
    {                                                                                                        \
        T t[LANES];                                                                                          \
        UNROLL for (int i = 0; i < LANES; i++) t[i] = v[i];                                                  \
        UNROLL for (int n = LANES / 2; n; n /= 2) UNROLL for (int i = 0; i < n; i++)                         \
        {                                                                                                    \
            const T a = t[i], b = t[i + n];                                                                  \
            t[i] = step;                                                                                     \
        }                                                                                                    \
        return t[0];                                                                                         \
    }
#define FOLDS(end, type, T, U)                                                                               \
    FOLD(sum_##end, type, T, (T)((U)a + (U)b))                                                               \
    FOLD(product_##end, type, T, (T)((U)a * (U)b))                                                           \
    FOLD(smallest_##end, type, T, a != a || a < b ? a : b)                                                   \
    FOLD(largest_##end, type, T, a != a || a > b ? a : b)
FOLDS(ints, ints, int, unsigned)
FOLDS(longs, longs, long long, unsigned long long)
FOLDS(doubles, doubles, double, double)

#endif
