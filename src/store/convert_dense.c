/* Rows of dense elements to columns and values: the loops that read most of the memory.
 *
 *     row     0 5 0 0 7 0 0 9       col    1 4 7
 *                                   value  5 7 9
 *
 * An element is there when any of its bits is. Written three times over: with vectors that compress (AVX-512), in
 * plain C for each size, and, for what is left of a row, one by one.
 */
#include "store/convert.h"
#include <string.h>

bool sp_plain_only;

/* ------------------------------------------------------------------ plain C */

/* Eight at a time, so that a run of zeros costs one look. The store is made always and kept when it counts. */
#define DENSE_OF(T)                                                                                          \
    static int64_t count_##T(const T *row, int64_t n)                                                        \
    {                                                                                                        \
        int64_t sum = 0;                                                                                     \
        for (int64_t i = 0; i < n; i++) sum += row[i] != 0;                                                  \
        return sum;                                                                                          \
    }                                                                                                        \
    static int64_t entries_##T(const T *row, int64_t from, int64_t n, int64_t at, int64_t room,              \
                               int32_t *col, T *value)                                                       \
    {                                                                                                        \
        int64_t i = from;                                                                                    \
        while (i < n && at < room) {                                                                         \
            if (i + 8 <= n && at + 8 <= room) {                                                              \
                T any = 0;                                                                                   \
                for (int k = 0; k < 8; k++) any |= row[i + k];                                               \
                for (int k = 0; any && k < 8; k++) {                                                         \
                    col[at] = (int32_t)(i + k);                                                              \
                    value[at] = row[i + k];                                                                  \
                    at += row[i + k] != 0;                                                                   \
                }                                                                                            \
                i += 8;                                                                                      \
            } else {                                                                                         \
                col[at] = (int32_t)i;                                                                        \
                value[at] = row[i];                                                                          \
                at += row[i++] != 0;                                                                         \
            }                                                                                                \
        }                                                                                                    \
        return at;                                                                                           \
    }
SP_EACH_SIZE(DENSE_OF)

/* ------------------------------------------------------------------ AVX-512 */

#if defined(__x86_64__)
#include <immintrin.h>
#define VECTORS __attribute__((target("avx512f,avx512vl,popcnt")))

static bool has_vectors(void)
{
    return !sp_plain_only && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("popcnt");
}

VECTORS static int64_t count_vectors(const uint32_t *row, int64_t n)
{
    int64_t sum = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i a = _mm512_loadu_si512(row + i), b = _mm512_loadu_si512(row + i + 16);
        __m512i c = _mm512_loadu_si512(row + i + 32), d = _mm512_loadu_si512(row + i + 48);
        uint64_t m = _mm512_test_epi32_mask(a, a) | (uint64_t)_mm512_test_epi32_mask(b, b) << 16 |
                     (uint64_t)_mm512_test_epi32_mask(c, c) << 32 |
                     (uint64_t)_mm512_test_epi32_mask(d, d) << 48;
        sum += __builtin_popcountll(m);
    }
    return sum + count_uint32_t(row + i, n - i);
}

/* Whole vectors are stored; what lies behind the entries of one is overwritten by the next. Near the end of the
 * room the plain loop goes on. */
VECTORS static int64_t entries_vectors(const uint32_t *row, int64_t n, int64_t room, int32_t *col,
                                       uint32_t *value)
{
    int64_t at = 0, i = 0;
    __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i step = _mm512_set1_epi32(16);
    for (; i + 16 <= n && at + 16 <= room; i += 16, index = _mm512_add_epi32(index, step)) {
        __m512i v = _mm512_loadu_si512(row + i);
        __mmask16 m = _mm512_test_epi32_mask(v, v);
        _mm512_storeu_si512(col + at, _mm512_maskz_compress_epi32(m, index));
        _mm512_storeu_si512(value + at, _mm512_maskz_compress_epi32(m, v));
        at += __builtin_popcount(m);
    }
    _mm256_zeroupper(); /* gcc leaves it out before a call it knows: every SSE loop from here on would run at a third */
    return entries_uint32_t(row, i, n, at, room, col, value);
}
#endif

/* ------------------------------------------------------------------ the choice */

int64_t sp_dense_count(const char *row, int64_t n, size_t size)
{
#if defined(__x86_64__)
    if (size == 4 && has_vectors()) return count_vectors((const uint32_t *)row, n);
#endif
    return SP_BY_SIZE(size, count, (const void *)row, n);
}

int64_t sp_dense_entries(const char *row, int64_t n, size_t size, int64_t room, int32_t *col, char *value)
{
#if defined(__x86_64__)
    if (size == 4 && has_vectors())
        return entries_vectors((const uint32_t *)row, n, room, col, (uint32_t *)value);
#endif
    return SP_BY_SIZE(size, entries, (const void *)row, 0, n, 0, room, col, (void *)value);
}
