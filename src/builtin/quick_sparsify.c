/* Sparsify of f32 that lies row by row. The smallest magnitude that stays is found digit by digit, without sorting: magnitudes are compared as
 * the numbers that their bits are, in which larger means larger.
 *
 *     bits 30..20    how many have each of 2048 beginnings?    the one in which the last that stays is
 *     bits 19..9     of those                                  the same
 *     bits  8..0     of those                                  its bits, and how many of its equals stay: the first ones
 */
#include "builtin/quick.h"
#include <string.h>

typedef struct lines {
    const float *x;
    float *y;
    int64_t n, keep;
    uint32_t least; /* bits of the smallest magnitude that may stay */
} lines;

/* All NaNs are alike, and above Inf. */
static inline uint32_t magnitude(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= 0x7fffffff;
    return bits > 0x7f800000 ? 0x7fffffff : bits;
}

/* What a line keeps: everything above `bits`, and so many that equal it. */
typedef struct cut {
    uint32_t bits;
    int64_t equals;
} cut;

/* Of magnitudes that begin like `bits` (those below bit `end`) and are at least `least`: the digit in [start, end) at which `left` are counted,
 * from the largest down; `left` becomes how many of that digit are still to be taken. */
static uint32_t digit(const float *x, int64_t n, uint32_t least, uint32_t bits, int start, int end,
                      int64_t *left)
{
    uint32_t count[2048] = {0}, d = (1u << (end - start)) - 1;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t m = magnitude(x[i]);
        if (m >= least && (m ^ bits) >> end == 0) count[m >> start & ((1u << (end - start)) - 1)]++;
    }
    for (; d > 0 && *left > count[d]; d--) *left -= count[d];
    return bits | d << start;
}

static cut find_cut(const lines *l, const float *x)
{
    cut c = {0, l->keep};
    c.bits = digit(x, l->n, l->least, 0, 20, 31, &c.equals);
    c.bits = digit(x, l->n, l->least, c.bits, 9, 20, &c.equals);
    c.bits = digit(x, l->n, l->least, c.bits, 0, 9, &c.equals);
    return c;
}

static void sparsify(void *arg, int64_t from, int64_t to)
{
    const lines *l = arg;
    for (int64_t i = from; i < to; i++) {
        const float *x = l->x + i * l->n;
        float *y = l->y + i * l->n;
        int64_t there = 0;
        for (int64_t k = 0; k < l->n; k++) {
            const bool stays = magnitude(x[k]) >= l->least;
            y[k] = stays ? x[k] : 0;
            there += stays;
        }
        if (l->keep <= 0 || there <= l->keep) continue;
        cut c = find_cut(l, x);
        for (int64_t k = 0; k < l->n; k++) {
            const uint32_t m = magnitude(x[k]);
            const bool stays = m > c.bits || (m == c.bits && c.equals > 0);
            c.equals -= m == c.bits;
            y[k] = stays ? x[k] : 0;
        }
    }
}

sparta_status sp_quick_Sparsify(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const float above = sp_attr_float(args->attrs, "above", 0);
    if (!sp_quick_floats(x) || !sp_quick_floats(y) || !sp_tensor_contiguous(x) || !sp_tensor_contiguous(y) ||
        x->rank < 1 || !(above >= 0) || x->dim[x->rank - 1] > UINT32_MAX)
        return SPARTA_OK;
    const int64_t n = x->dim[x->rank - 1];
    lines l = {.x = x->data, .y = y->data, .n = n, .keep = sp_attr_int(args->attrs, "keep", 0)};
    l.least = SP_MAX(magnitude(above), 1u); /* what is 0 is not there */
    *done = true;
    return sp_ctx_share(cx, sparta_tensor_elements(x) / SP_MAX(n, 1), 16 * n, sparsify, &l);
}
