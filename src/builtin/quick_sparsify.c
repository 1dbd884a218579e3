/* Sparsify of f32 that lies row by row. The smallest magnitude that stays is found without sorting, digit by digit: magnitudes are compared as the
 * numbers that their bits are, in which larger means larger. They are written into the line of the result, which is not needed yet.
 *
 *     bits 30..20    how many have each of 2048 beginnings?    that of the last one that stays; those that begin so move to the front
 *     bits 19..9     of these                                  the same
 *     bits  8..0     of these                                  its bits, and how many of its equals stay: the first ones
 *
 * A short line is in the cache and vectors count it in no time, so there the digits are bits: how many have all bits found so far and this one, or are larger? Where
 * it is as many as stay, it is done, mostly long before the last bit.
 */
#include "builtin/functions.h"
#include "builtin/quick.h"
#include <string.h>

typedef struct lines {
    const float *x;
    float *y;
    int64_t n, keep;
    uint32_t least; /* bits of the smallest magnitude that may stay */
    const sp_quick_kernels *kernels;
    const sp_attrs *attrs;
    int64_t all, wide; /* lines of a matrix, whose bands stay; elements from one to the next */
} lines;

/* What a line keeps: everything above `bits`, and so many that equal it. */
typedef struct cut {
    uint32_t bits;
    int64_t equals;
} cut;

enum { DIGIT = 11, SHORT = 8192 }; /* bits of a digit, at most; elements of a short line, at most */

/* Of n magnitudes: the digit at bit `start` at which `left` are counted, from the largest down. Those that have it stay in front; how many. `left`
 * becomes how many of them are still to be taken. */
static int64_t digit(uint32_t *m, int64_t n, int start, int64_t *left, uint32_t *bits)
{
    uint32_t count[1 << DIGIT] = {0}, d = (1 << DIGIT) - 1;
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++) count[m[i] >> start & ((1 << DIGIT) - 1)]++;
    for (; d > 0 && *left > count[d]; d--) *left -= count[d];
    for (int64_t i = 0; i < n; i++) {
        const uint32_t v = m[i];
        m[same] = v;
        same += (v >> start & ((1 << DIGIT) - 1)) == d;
    }
    *bits |= d << start;
    return same;
}

/* More than `keep` of the magnitudes may stay. */
static cut find_cut(uint32_t *m, int64_t n, int64_t keep)
{
    cut c = {0, keep};
    n = digit(m, n, 20, &c.equals, &c.bits);
    n = digit(m, n, 9, &c.equals, &c.bits);
    for (int64_t i = 0; i < n; i++) m[i] &= (1u << 9) - 1; /* the last digit has no more */
    n = digit(m, n, 0, &c.equals, &c.bits);
    if (c.equals == n) c.equals = 0; /* all of them: nothing to be counted */
    return c;
}

static cut find_cut_short(const lines *l, const uint32_t *m)
{
    const int32_t n = (int32_t)l->n, keep = (int32_t)l->keep;
    uint32_t bits = 0;
    for (int b = 30; b >= 0; b--) {
        const int32_t there = l->kernels->at_least(m, n, bits | 1u << b);
        if (there >= keep) bits |= 1u << b;
        if (there == keep) return (cut){bits, 0};
    }
    const int32_t larger = bits < 0x7fffffff ? l->kernels->at_least(m, n, bits + 1) : 0;
    return (cut){bits, keep - larger};
}

/* Of those that equal the last one that stays only the first do. */
static void drop_equals(const lines *l, const float *x, float *y, const cut *c)
{
    int64_t left = c->equals;
    for (int64_t i = 0; i < l->n && c->equals; i++) {
        uint32_t m;
        memcpy(&m, &x[i], sizeof m);
        m &= 0x7fffffff;
        if ((m > 0x7f800000 ? 0x7fffffff : m) == c->bits && left-- <= 0) y[i] = 0;
    }
}

static void sparsify(void *arg, int64_t from, int64_t to)
{
    lines one = *(const lines *)arg;
    const lines *l = &one;
    for (int64_t i = from; i < to; i++) {
        int64_t first, end;
        sp_sparsify_band(l->attrs, i % l->all, l->all, l->wide, &first, &end);
        one.n = end - first;
        memset(l->y + i * l->wide, 0, (size_t)first * sizeof *l->y);
        memset(l->y + i * l->wide + end, 0, (size_t)(l->wide - end) * sizeof *l->y);
        if (!one.n) continue;
        const float *x = l->x + i * l->wide + first;
        float *y = l->y + i * l->wide + first;
        uint32_t *m = (uint32_t *)(void *)y;
        cut c = {l->least, 0};
        if (l->keep > 0 && l->keep < l->n && l->kernels->magnitudes(m, x, l->n, l->least) > l->keep)
            c = l->n <= SHORT ? find_cut_short(l, m) : find_cut(m, l->n, l->keep);
        l->kernels->thin(y, x, l->n, c.bits);
        drop_equals(l, x, y, &c);
    }
}

sparta_status sp_quick_Sparsify(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    float above = sp_attr_float(args->attrs, "above", 0);
    if (!sp_quick_floats(x) || !sp_quick_floats(y) || !sp_tensor_contiguous(x) || !sp_tensor_contiguous(y) ||
        x->rank < 1 || args->n_in > 1 || !(above >= 0) || *sp_attr_string(args->attrs, "function", "") ||
        x->dim[x->rank - 1] > UINT32_MAX)
        return SPARTA_OK;
    const int64_t n = x->dim[x->rank - 1];
    lines l = {.x = x->data,
               .y = y->data,
               .n = n,
               .wide = n,
               .attrs = args->attrs,
               .all = x->rank > 1 ? SP_MAX(x->dim[x->rank - 2], 1) : 1,
               .keep = sp_attr_int(args->attrs, "keep", 0),
               .kernels = sp_quick_here()};
    above = above == 0 ? 0 : above; /* -0 */
    memcpy(&l.least, &above, sizeof above);
    l.least = SP_MAX(l.least, 1u); /* what is 0 is not there */
    *done = true;
    return sp_ctx_share(cx, sparta_tensor_elements(x) / SP_MAX(n, 1), 4 * n, sparsify, &l);
}
