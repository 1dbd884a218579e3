/* What the tests of tesa share: a context whose leaks fail the group, random masks, and plain loops to compare with. */
#ifndef TESA_BED_H
#define TESA_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tesa/tesa.h"

static sparta_ctx *cx;

static int set_up(void **state)
{
    (void)state;
    cx = sparta_ctx_create(NULL);
    return cx ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    bool keeps =
        sparta_ctx_slot(cx, SPARTA_SLOT_FORMATS); /* sums that were parsed live as long as the context */
    int left = keeps ? 0 : (int)sparta_ctx_memory(cx);
    sparta_ctx_free(cx);
    return left; /* a leak fails the group */
}

#define OK(call) assert_int_equal((call), SPARTA_OK)

static inline sparta_mask mask_of_shape(int64_t rows, int64_t cols)
{
    sparta_mask m;
    OK(sparta_mask_create(cx, rows, cols, &m));
    return m;
}

static inline sparta_mask random_mask(sparta_rng *r, int64_t rows, int64_t cols, double density)
{
    sparta_mask m = mask_of_shape(rows, cols);
    for (int64_t n = 0; n < rows; n++)
        for (int64_t k = 0; k < cols; k++)
            if (sparta_rng_uniform(r) < density) sparta_mask_set(&m, n, k);
    return m;
}

/* Rows of characters, '1' present: "1.1" "..." */
static inline sparta_mask drawn(int64_t rows, const char *const *row)
{
    sparta_mask m = mask_of_shape(rows, (int64_t)strlen(row[0]));
    for (int64_t n = 0; n < rows; n++)
        for (int64_t k = 0; k < m.cols; k++)
            if (row[n][k] == '1') sparta_mask_set(&m, n, k);
    return m;
}

static inline void clear(sparta_mask *m, int64_t n, int64_t k)
{
    m->bits[n * m->words + k / 64] &= ~(UINT64_C(1) << (k % 64));
}

static inline int64_t below(sparta_rng *r, int64_t n)
{
    return (int64_t)(sparta_rng_next(r) >> 20) % n;
}

static inline void free_all(int n, sparta_mask **masks)
{
    for (int i = 0; i < n; i++) sparta_mask_free(cx, masks[i]);
}
#define FREE(...)                                                                                            \
    free_all((int)(sizeof((sparta_mask *[]){__VA_ARGS__}) / sizeof(sparta_mask *)),                          \
             (sparta_mask *[]){__VA_ARGS__})

/* Padding bits of every row are 0. */
static inline void check_padding(const sparta_mask *m)
{
    for (int64_t n = 0; m->words && n < m->rows; n++)
        for (int64_t k = m->cols; k < m->words * 64; k++) assert_false(sparta_mask_get(m, n, k));
}

static const int64_t shapes[][2] = {{0, 0},   {0, 5},   {5, 0},    {1, 1},    {1, 64},
                                    {1, 200}, {200, 1}, {3, 5},    {4, 63},   {63, 65},
                                    {64, 64}, {65, 63}, {130, 70}, {70, 130}, {128, 192}};

#endif
