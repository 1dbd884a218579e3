/* What the tests of tesa share: random masks, and plain loops to compare with. */
#ifndef TESA_BED_H
#define TESA_BED_H

#include "bed.h"
#include <math.h>
#include "tesa/tesa.h"

static inline sp_mask mask_of_shape(int64_t rows, int64_t cols)
{
    sp_mask m;
    ok(sp_mask_create(cx, rows, cols, &m));
    return m;
}

static inline sp_mask random_mask(sp_rng *r, int64_t rows, int64_t cols, double density)
{
    sp_mask m = mask_of_shape(rows, cols);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t k = 0; k < cols; k++)
            if (sp_rng_uniform(r) < density) sp_mask_set(&m, n, k);
    return m;
}

/* Rows of characters, '1' present: "1.1" "..." */
static inline sp_mask drawn(int64_t rows, const char *const *row)
{
    sp_mask m = mask_of_shape(rows, (int64_t)strlen(row[0]));
    for (int64_t n = 0; n < rows; n++)
        for (int64_t k = 0; k < m.cols; k++)
            if (row[n][k] == '1') sp_mask_set(&m, n, k);
    return m;
}

static inline void clear(sp_mask *m, int64_t n, int64_t k)
{
    m->bits[n * m->words + k / 64] &= ~(UINT64_C(1) << (k % 64));
}

static inline int64_t below(sp_rng *r, int64_t n)
{
    return (int64_t)(sp_rng_next(r) >> 20) % n;
}

static inline void free_all(int n, sp_mask **masks)
{
    for (int i = 0; i < n; i++) sp_mask_free(cx, masks[i]);
}
#define FREE(...)                                                                                            \
    free_all((int)(sizeof((sp_mask *[]){__VA_ARGS__}) / sizeof(sp_mask *)), (sp_mask *[]){__VA_ARGS__})

static inline bool same_mask(const sp_mask *a, const sp_mask *b)
{
    return a->rows == b->rows && a->cols == b->cols &&
           (!a->words || !memcmp(a->bits, b->bits, (size_t)(a->rows * a->words) * sizeof *a->bits));
}

/* Has b all that a has? */
static inline bool mask_within(const sp_mask *a, const sp_mask *b)
{
    uint64_t outside = 0;
    for (int64_t i = 0; i < a->rows * a->words; i++) outside |= a->bits[i] & ~b->bits[i];
    return !outside;
}

static inline void mask_or(sp_mask *a, const sp_mask *b)
{
    for (int64_t i = 0; i < a->rows * a->words; i++) a->bits[i] |= b->bits[i];
}

static inline void mask_not(sp_mask *m)
{
    for (int64_t n = 0; n < m->rows; n++)
        for (int64_t k = 0; k < m->cols; k++) m->bits[n * m->words + k / 64] ^= UINT64_C(1) << (k % 64);
}

/* Padding bits of every row are 0. */
static inline void check_padding(const sp_mask *m)
{
    for (int64_t n = 0; m->words && n < m->rows; n++)
        for (int64_t k = m->cols; k < m->words * 64; k++) assert_false(sp_mask_get(m, n, k));
}

static const int64_t shapes[][2] = {{0, 0},   {0, 5},   {5, 0},    {1, 1},    {1, 64},
                                    {1, 200}, {200, 1}, {3, 5},    {4, 63},   {63, 65},
                                    {64, 64}, {65, 63}, {130, 70}, {70, 130}, {128, 192}};

#endif
