/* Between the caller's memory and lines of f32: transposed a square of lanes at a time where the rows are contiguous, copied where the lanes are. */

/* n lanes from element i on, and into it; the type is a constant where this is used. */
INLINE vec take(const void *p, long i, long n, const int type)
{
    if (type == SPARTA_F32) return load_some((const float *)p + i, n);
    const unsigned short *from = (const unsigned short *)p + i;
    if (n < LANES) {
        vec v = {0};
        for (long l = 0; l < n; l++)
            v[l] = type == SPARTA_BF16 ? sp_bf16_to_f32(from[l]) : sp_f16_to_f32(from[l]);
        return v;
    }
    typedef unsigned short halves __attribute__((vector_size(2 * LANES), may_alias, aligned(2)));
    if (type == SPARTA_BF16) return (vec)(__builtin_convertvector(*(const halves *)from, ints) << 16);
#if LANES == 16
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
#elif LANES == 8
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)from));
#else
    vec v = {0};
    for (long l = 0; l < LANES; l++) v[l] = sp_f16_to_f32(from[l]);
    return v;
#endif
}

INLINE void give(void *p, long i, vec v, long n, const int type)
{
    unsigned short *to = (unsigned short *)p + i;
    if (type == SPARTA_F32) store_some((float *)p + i, v, n);
#if LANES > 4
    else if (n >= LANES && type == SPARTA_F16)
#if LANES == 16
        _mm256_storeu_si256((void *)to, _mm512_cvtps_ph((__m512)v, 0));
#else
        _mm_storeu_si128((void *)to, _mm256_cvtps_ph((__m256)v, 0));
#endif
    else if (n >= LANES) { /* to nearest even; NaN stays NaN */
        typedef unsigned short halves __attribute__((vector_size(2 * LANES), may_alias, aligned(2)));
        const ints bits = (ints)v, up = (bits + splat_int(0x7fff) + ((bits >> 16) & 1)) >> 16;
        const ints quiet = (bits >> 16) | splat_int(0x40), nan = v != v;
        *(halves *)to = __builtin_convertvector((up & ~nan) | (quiet & nan), halves);
    }
#endif
    else
        for (long l = 0; l < n && l < LANES; l++)
            to[l] = type == SPARTA_BF16 ? sp_f32_to_bf16(v[l]) : sp_f32_to_f16(v[l]);
}

/* LANES lanes from l0 on, of up to LANES rows from r on. */
INLINE void pack_square(const sp_lines *a, long l0, long r, long high, long wide, const int type)
{
    vec t[LANES];
    UNROLL for (int l = 0; l < LANES; l++) t[l] =
        l < high ? take(a->memory, (l0 + l) * a->lane + r, wide, type) : splat(0.f);
    transpose(t);
    UNROLL for (int i = 0; i < LANES; i++) if (i < wide) *
        (vec_anywhere *)(a->lines + (r + i) * a->line + l0) = t[i];
}
INLINE void unpack_square(const sp_lines *a, long l0, long r, long high, long wide, const int type)
{
    vec t[LANES];
    UNROLL for (int i = 0; i < LANES; i++) t[i] =
        i < wide ? *(const vec_anywhere *)(a->lines + (r + i) * a->line + l0) : splat(0.f);
    transpose(t);
    UNROLL for (int l = 0; l < LANES; l++) if (l < high)
        give(a->memory, (l0 + l) * a->lane + r, t[l], wide, type);
}

#define EACH_SQUARE(SQUARE)                                                                                  \
    for (long l0 = 0; l0 < a->lanes; l0 += LANES) {                                                          \
        const long high = a->lanes - l0;                                                                     \
        long r = 0;                                                                                          \
        if (high >= LANES)                                                                                   \
            for (; r + LANES <= a->rows; r += LANES) SQUARE(a, l0, r, LANES, LANES, type);                   \
        for (; r < a->rows; r += LANES) SQUARE(a, l0, r, high, a->rows - r, type);                           \
    }

INLINE void pack_as(const sp_lines *a, const int type)
{
    const long whole = (a->lanes + 15) & ~15L;
    if (a->lane == 1)
        for (long r = 0; r < a->rows; r++)
            for (long l = 0; l < a->lanes; l += LANES)
                *(vec_anywhere *)(a->lines + r * a->line + l) =
                    take(a->memory, r * a->row + l, a->lanes - l, type);
    else if (a->row == 1)
        EACH_SQUARE(pack_square)
    else
        for (long l = 0; l < a->lanes; l++)
            for (long r = 0; r < a->rows; r++)
                a->lines[r * a->line + l] = take(a->memory, r * a->row + l * a->lane, 1, type)[0];
    /* The squares and vectors end at a multiple of LANES, or there are none. */
    const long done = a->lane == 1 || a->row == 1 ? (a->lanes + LANES - 1) / LANES * LANES : a->lanes;
    for (long r = 0; r < a->rows && done < whole; r++)
        for (long l = done; l < whole; l++) a->lines[r * a->line + l] = 0;
}

INLINE void unpack_as(const sp_lines *a, const int type)
{
    if (a->lane == 1)
        for (long r = 0; r < a->rows; r++)
            for (long l = 0; l < a->lanes; l += LANES)
                give(a->memory, r * a->row + l, *(const vec_anywhere *)(a->lines + r * a->line + l),
                     a->lanes - l, type);
    else if (a->row == 1)
        EACH_SQUARE(unpack_square)
    else
        for (long l = 0; l < a->lanes; l++)
            for (long r = 0; r < a->rows; r++)
                give(a->memory, r * a->row + l * a->lane, splat(a->lines[r * a->line + l]), 1, type);
}

#define BY_TYPE(dtype, CALL)                                                                                 \
    switch (dtype) {                                                                                         \
    case SPARTA_F32: CALL(SPARTA_F32); break;                                                                \
    case SPARTA_F16: CALL(SPARTA_F16); break;                                                                \
    default: CALL(SPARTA_BF16); break;                                                                       \
    }

static void pack(const sp_lines *a)
{
#define CALL(type) pack_as(a, type)
    BY_TYPE(a->dtype, CALL)
#undef CALL
}

static void unpack(const sp_lines *a){
#define CALL(type) unpack_as(a, type)
    BY_TYPE(a->dtype, CALL)
#undef CALL
}

INLINE void widen_as(const void *from, const uint8_t *keep, float *to, int64_t n, const int type)
{
    for (long i = 0; i < n; i += LANES) {
        vec v = take(from, i, n - i, type);
        if (keep)
            for (long l = 0; l < LANES && l < n - i; l++) v[l] = keep[i + l] ? v[l] : 0.f;
        store_some(to + i, v, n - i);
    }
}

static void widen(const void *from, const uint8_t *keep, float *to, int64_t n, sparta_dtype dtype)
{
#define CALL(type) widen_as(from, keep, to, n, type)
    if (dtype == SPARTA_F32) /* the compiler makes vectors of it */
        for (long i = 0; i < n; i++) to[i] = !keep || keep[i] ? ((const float *)from)[i] : 0.f;
    else if (dtype == SPARTA_F16)
        CALL(SPARTA_F16);
    else
        CALL(SPARTA_BF16);
#undef CALL
}

static void narrow(const float *from, void *to, int64_t n, sparta_dtype dtype)
{
#define CALL(type)                                                                                           \
    for (long i = 0; i < n; i += LANES) give(to, i, load_some(from + i, n - i), n - i, type)
    BY_TYPE(dtype, CALL)
#undef CALL
}
