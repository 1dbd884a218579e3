/* Words for kernels: a vector of LANES floats, one token a lane. GCC's vector extensions, so that one text is AVX-512, AVX2 or plain C,
 * whatever the compiler may use. Stands in every generated text after abi.h; includes nothing.
 */
#ifndef SP_PANEL_VECTOR
#define SP_PANEL_VECTOR

#ifndef KERNEL
#define KERNEL static /* a generated text exports it instead */
#ifdef __clang__
/* clang unrolls before it drops dead branches. In the portable kernels, whose parameters are variables, all branches live: it would take minutes. */
#define UNROLL
#endif
#endif
#pragma GCC diagnostic ignored "-Wpsabi" /* everything here is inlined: no vector crosses a call */

/* As wide as the registers: a wider one would live in memory. */
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#define SPLIT                                                                                                \
    (16 / LANES) /* vectors that hold 16 tokens, the unit in which kernels are told how many there are */
typedef float vec __attribute__((vector_size(4 * LANES), may_alias));
typedef int ints __attribute__((vector_size(4 * LANES), may_alias));
typedef float vec_anywhere __attribute__((vector_size(4 * LANES), may_alias, aligned(4)));

#define INLINE static inline __attribute__((always_inline, unused))
#ifndef UNROLL
#define UNROLL _Pragma("GCC unroll 16")
#endif

INLINE vec splat(float f)
{
    return f - (vec){0}; /* f in every lane; -0 and NaN stay */
}
INLINE ints splat_int(int f)
{
    return f - (ints){0};
}
INLINE vec load(const float *p)
{
    return *(const vec *)p;
}
INLINE void store(float *p, vec v)
{
    *(vec *)p = v;
}
/* From and to any address; the first n lanes. */
INLINE vec load_some(const float *p, long n)
{
    if (n >= LANES) return *(const vec_anywhere *)p;
    vec v = {0};
    for (long i = 0; i < n; i++) v[i] = p[i];
    return v;
}
INLINE void store_some(float *p, vec v, long n)
{
    if (n >= LANES)
        *(vec_anywhere *)p = v;
    else
        for (long i = 0; i < n; i++) p[i] = v[i];
}
/* a where the mask is all ones, else b */
INLINE vec pick(ints mask, vec a, vec b)
{
    return (vec)(((ints)a & mask) | ((ints)b & ~mask));
}
/* The larger and the smaller of two; when one is NaN the answer is b. */
#ifdef __AVX__
INLINE vec larger(vec a, vec b)
{
    vec r;
    __asm__("vmaxps %1,%2,%0" : "=v"(r) : "v"(b), "v"(a));
    return r;
}
INLINE vec smaller(vec a, vec b)
{
    vec r;
    __asm__("vminps %1,%2,%0" : "=v"(r) : "v"(b), "v"(a));
    return r;
}
#else
INLINE vec larger(vec a, vec b)
{
    return pick(a > b, a, b);
}
INLINE vec smaller(vec a, vec b)
{
    return pick(a < b, a, b);
}
#endif
INLINE vec at_least(vec x, float low)
{
    return larger(splat(low), x);
} /* NaN stays NaN */
INLINE vec at_most(vec x, float high)
{
    return smaller(splat(high), x);
}
INLINE vec absolute(vec x)
{
    return (vec)((ints)x & splat_int(0x7fffffff));
}

/* Run tile(NV, first vector) over the vectors of `sixteens` times 16 tokens, with a constant NV: as many as the registers have room for
 * with 4 rows of sums. STRIP_TILES where there is nothing else to hold: of 16 registers 12 are sums, 3 a row of tokens, and one a weight. */
#if LANES == 16
#define TILES(sixteens, CALL)                                                                                \
    switch (sixteens) {                                                                                      \
    case 1: CALL(1, 0); break;                                                                               \
    case 2: CALL(2, 0); break;                                                                               \
    case 3: CALL(3, 0); break;                                                                               \
    default: CALL(4, 0); break;                                                                              \
    }
#define STRIP_TILES TILES
#else
#define TILES(sixteens, CALL)                                                                                \
    {                                                                                                        \
        for (long v_ = 0; v_ < (sixteens)*SPLIT; v_ += 2) CALL(2, v_);                                       \
    }
#define STRIP_TILES(sixteens, CALL)                                                                          \
    {                                                                                                        \
        long v_ = 0;                                                                                         \
        const long end_ = (sixteens)*SPLIT;                                                                  \
        for (; end_ - v_ > 4 || end_ - v_ == 3; v_ += 3) CALL(3, v_);                                        \
        for (; v_ < end_; v_ += 2) CALL(2, v_);                                                              \
    }
#endif

/* Keep a value in its register: gcc 12 otherwise folds the load into each of its uses, four loads instead of one. */
#ifdef __AVX__
#define PIN(v) __asm__("" : "+v"(v))
#else
#define PIN(v) (void)0
#endif

/* 2^x; relative error 2e-7; exactly 0 below -127, infinity above 128; NaN stays NaN */
INLINE vec exp2v(vec x)
{
    vec y = at_most(at_least(x, -127.f), 128.f);
    vec t = y + splat(12582912.f); /* 1.5 * 2^23: rounds to an integer in the low bits */
    vec r = y - (t - splat(12582912.f));
    ints n = (ints)t - splat_int(0x4b400000);
    vec p = splat(1.53533619e-4f);
    p = p * r + splat(1.33987747e-3f);
    p = p * r + splat(9.61844016e-3f);
    p = p * r + splat(5.55033255e-2f);
    p = p * r + splat(2.40226485e-1f);
    p = p * r + splat(6.93147182e-1f);
    p = p * r + splat(1.f);
    ints half =
        n >>
        1; /* two factors, so that 2^128 overflows to infinity and 2^-127 underflows to 0 in steps that exist */
    vec a = (vec)((half + splat_int(127)) << 23), b = (vec)((n - half + splat_int(127)) << 23);
    return pick(y <= splat(-127.f), splat(0.f), p * a * b);
}
/* 2^x for x <= 0, as softmax needs it; relative error 2e-7; NaN stays NaN. 0 below 2^-126: products with subnormal numbers take a hundred
 * times as long, and a mask of -100 makes many of them. */
INLINE vec exp2_down(vec x)
{
    vec n, r;
#ifdef __AVX512F__
    __asm__("vrndscaleps $8,%1,%0" : "=v"(n) : "v"(x)); /* to the nearest integer */
    r = x - n;
#else
    const vec y = at_least(x, -127.f);
    n = y + splat(12582912.f);
    r = y - (n - splat(12582912.f));
#endif
    vec p = splat(1.32647366e-3f);
    p = p * r + splat(9.67151672e-3f);
    p = p * r + splat(5.55073358e-2f);
    p = p * r + splat(2.40222424e-1f);
    p = p * r + splat(6.93147004e-1f);
    p = p * r + splat(1.f);
#ifdef __AVX512F__
    /* What is not less than 2^-126, else 0: a scale that underflows costs 150 cycles. */
    __asm__("vcmpps $5,%3,%2,%%k1\n\tvscalefps %1,%0,%0%{%%k1%}%{z%}"
            : "+v"(p)
            : "v"(n), "v"(x), "v"(splat(-126.f))
            : "k1");
    return p;
#else
    p *= (vec)(((ints)n - splat_int(0x4b400000) + splat_int(127)) << 23); /* n = -127: the factor is 0 */
    return pick(x < splat(-126.f), splat(0.f), p);
#endif
}

#if LANES == 16
/* erf(a / sqrt 2) on 16 segments of [0, 6): interpolation of degree 5 at Chebyshev points of each; error below 6e-8 */
static const float gelu_table[6][16] __attribute__((aligned(64), unused)) = {
    {3.489643519e-09f, 2.923395418e-01f, 5.467453019e-01f, 7.394109668e-01f, 8.663855944e-01f,
     9.392072729e-01f, 9.755510528e-01f, 9.913351031e-01f, 9.973002044e-01f, 9.992618436e-01f,
     9.998231657e-01f, 9.999629266e-01f, 9.999932047e-01f, 9.999989119e-01f, 9.999998479e-01f,
     9.999999814e-01f},
    {2.992064602e-01f, 2.788907113e-01f, 2.258525941e-01f, 1.589074091e-01f, 9.713841924e-02f,
     5.158996303e-02f, 2.380487277e-02f, 9.543151873e-03f, 3.323852230e-03f, 1.005805046e-03f,
     2.644272762e-04f, 6.039722165e-05f, 1.198515687e-05f, 2.066256405e-06f, 3.094824545e-07f,
     4.027140276e-08f},
    {2.850733907e-06f, -1.960245683e-02f, -3.175495003e-02f, -3.351862032e-02f, -2.732269200e-02f,
     -1.814000279e-02f, -1.004420321e-02f, -4.697205944e-03f, -1.869291005e-03f, -6.361082908e-04f,
     -1.857100516e-04f, -4.662406338e-05f, -1.008339472e-05f, -1.881026618e-06f, -3.029818443e-07f,
     -4.217175591e-08f},
    {-7.024221330e-03f, -5.647402798e-03f, -2.340264494e-03f, 9.848997900e-04f, 2.856634241e-03f,
     3.054579033e-03f, 2.273451123e-03f, 1.318461727e-03f, 6.215663771e-04f, 2.432368542e-04f,
     7.996812535e-05f, 2.225677662e-05f, 5.271251868e-06f, 1.066293049e-06f, 1.847319791e-07f,
     2.746769891e-08f},
    {2.007316717e-05f, 7.144466395e-04f, 9.554391823e-04f, 6.913656918e-04f, 2.200608131e-04f,
     -1.346051567e-04f, -2.565621520e-04f, -2.162913726e-04f, -1.283481579e-04f, -5.923643418e-05f,
     -2.213263466e-05f, -6.834468356e-06f, -1.765832407e-06f, -3.848164714e-07f, -7.112803982e-08f,
     -1.119635595e-08f},
    {1.343716647e-04f, 5.046378027e-05f, -4.714894950e-05f, -9.042329109e-05f, -7.074357297e-05f,
     -2.615572920e-05f, 6.490332787e-06f, 1.698453872e-05f, 1.385973973e-05f, 7.625137613e-06f,
     3.208351657e-06f, 1.082647618e-06f, 3.000741160e-07f, 6.927717208e-08f, 1.344342501e-08f,
     2.206545035e-09f},
};
/* table[index] of 16 entries, index from 0 to 15 */
INLINE vec look_up(const float *table, ints index)
{
#ifdef __clang__
    return (vec)__builtin_ia32_permvarsf512(load(table), index);
#else
    return __builtin_shuffle(load(table), index);
#endif
}
/* min(|x|, high), and the fraction of x >= 0 */
INLINE vec size_at_most(vec x, float high)
{
    vec r;
    __asm__("vrangeps $10,%1,%2,%0" : "=v"(r) : "v"(splat(high)), "v"(x));
    return r;
}
INLINE vec fraction(vec x)
{
    vec r;
    __asm__("vreduceps $9,%1,%0" : "=v"(r) : "v"(x));
    return r;
}
/* erf(x / sqrt 2) */
INLINE vec erf_of(vec x)
{
    vec s = size_at_most(x * splat(1 / .375f), 15.9999990f);
    ints i = __builtin_convertvector(s, ints);
    vec u = fraction(s);
    vec p = look_up(gelu_table[5], i);
    UNROLL for (int j = 4; j >= 0; j--) p = p * u + look_up(gelu_table[j], i);
    return (vec)((ints)p | ((ints)x & splat_int((int)0x80000000u)));
}
#else
/* erf(x / sqrt 2) = x p(x^2) / q(x^2) up to |x| = 5.36, where these sums round to 1: a fit to 1e-8, all signs plus. Where 16 entries are no
 * single permutation it takes half the time of a table. NaN stays NaN. */
INLINE vec erf_of(vec x)
{
    vec y = at_least(at_most(x, 5.36f), -5.36f), t = y * y;
    vec p = splat(4.810674788e-08f), q = splat(1.237175835e-06f);
    p = p * t + splat(1.275591224e-05f);
    q = q * t + splat(7.132184687e-05f);
    p = p * t + splat(3.204961448e-04f);
    q = q * t + splat(1.836087472e-03f);
    p = p * t + splat(9.254934377e-03f);
    q = q * t + splat(2.813418009e-02f);
    p = p * t + splat(6.585571101e-02f);
    q = q * t + splat(2.492041317e-01f);
    p = p * t + splat(7.978845095e-01f);
    q = q * t + splat(1.f);
    return p * y / q;
}
#endif
INLINE vec gelu(vec x) /* x/2 (1 + erf(x / sqrt 2)); error below 2.5e-7 max(1, |x|) */
{
    vec h = x * splat(.5f);
    return h * erf_of(x) + h;
}
INLINE vec sigmoid(vec x)
{
    return splat(1.f) / (splat(1.f) + exp2v(x * splat(-1.44269504f)));
}
INLINE vec swish(vec x, const float alpha) /* x sigmoid(alpha x) */
{
    return x / (splat(1.f) + exp2v(x * splat(-1.44269504f * alpha)));
}
INLINE vec gelu_tanh(vec x)
{
    vec u = x * (splat(1.59576912f) + splat(.0713548163f) * x * x); /* 2 sqrt(2/pi) (x + 0.044715 x^3) */
    return x * sigmoid(u);
}
INLINE vec tanhv(vec x)
{
    vec a = absolute(x), q = x * x;
    vec small = splat(-8.86323553e-3f);
    small = small * q + splat(2.18694885e-2f);
    small = small * q + splat(-5.39682540e-2f);
    small = small * q + splat(1.33333333e-1f);
    small = small * q + splat(-3.33333333e-1f);
    small = small * q * x + x; /* the series, for |x| < 0.3 */
    vec big = splat(1.f) - splat(2.f) / (exp2v(a * splat(2.88539008f)) + splat(1.f));
    big = (vec)((ints)big | ((ints)x & splat_int((int)0x80000000u)));
    return pick(a < splat(.3f), small, big);
}

/* The one micro-kernel: one row of NV vectors times a scalar for each of the 4 rows that are in the set: NV loads, a broadcast and
 * NV multiply-adds a row of the set. The scalar of the i-th of them lies at w[i * step]. */
INLINE void mac_set(vec (*acc)[4], const int set, const float *w, long step, const float *x, const int NV)
{
    /* Four names, not an array: gcc 12 would store an array to the stack in every round. */
    vec q0 = load(x), q1 = q0, q2 = q0, q3 = q0;
    PIN(q0);
    if (NV > 1) {
        q1 = load(x + LANES);
        PIN(q1);
    }
    if (NV > 2) {
        q2 = load(x + 2 * LANES);
        PIN(q2);
    }
    if (NV > 3) {
        q3 = load(x + 3 * LANES);
        PIN(q3);
    }
    UNROLL for (int r = 0; r < 4; r++)
    {
        if (!(set >> r & 1)) continue;
        vec b = splat(*w);
        w += step;
        acc[r][0] += b * q0;
        if (NV > 1) acc[r][1] += b * q1;
        if (NV > 2) acc[r][2] += b * q2;
        if (NV > 3) acc[r][3] += b * q3;
    }
}
INLINE void mac(vec (*acc)[4], const float *w, long step, const float *x, const int NV)
{
    mac_set(acc, 15, w, step, x, NV);
}

/* LANES x LANES in registers: rounds of interleaving row i with the row half of them further on */
#if LANES == 16
#define LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define LOW  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW  0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#endif
INLINE void transpose(vec r[LANES])
{
    UNROLL for (int round = 1; round < LANES; round *= 2)
    {
        vec t[LANES];
        UNROLL for (int i = 0; i < LANES / 2; i++)
        {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + LANES / 2], LOW);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + LANES / 2], HIGH);
        }
        UNROLL for (int i = 0; i < LANES; i++) r[i] = t[i];
    }
}

#endif
