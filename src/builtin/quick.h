/* Quick twins of references, for what runs and is no kernel.
 *
 * A reference is written to be read and to be the better answer: it is what everything is checked against. Where a session has nothing better
 * than a builtin, it calls sp_builtin_quick, which takes the quick twin if there is one (quick.def) and the operands are of the kind
 * it is written for (f32, mostly), or else the reference.
 *
 *     sp_builtin_quick(cx, op, args)  -->  sp_quick_<op>  -- declines -->  sp_builtin_run
 *
 * Invariants: a twin looks at everything before it writes anything, so that declining is always possible; it sees the same errors as the reference
 * or declines; its answers are close to the reference's (ops/close.h), NaN and Inf where the reference has them. Loops that earn it are compiled once
 * for each target (kernel_*.h in target_*.c), and the best table that runs here is taken.
 */
#ifndef SP_BUILTIN_QUICK_H
#define SP_BUILTIN_QUICK_H

#include "builtin/builtin.h"

sparta_status sp_builtin_quick(sparta_ctx *cx, sp_op_id id, const sp_op_args *args) SP_MUST;
bool sp_quick_has(sp_op_id id); /* there is a twin */
/* Of the text of all references and twins: what was timed of one is true for this text. */
const char *sp_builtin_digest(void);

/* A twin. *done is false when it declines: then nothing was written, and the status is OK. */
typedef sparta_status (*sp_quick_fn)(sparta_ctx *cx, const sp_op_args *args, bool *done);
#define SP_QUICK(op) sparta_status sp_quick_##op(sparta_ctx *cx, const sp_op_args *args, bool *done);
#include "builtin/quick.def"
#undef SP_QUICK

/* f32, where floats may be read: a file's bytes may stand anywhere. */
static inline bool sp_quick_floats(const sparta_tensor *t)
{
    return t->rank >= 0 && t->dtype == SPARTA_F32 && ((uintptr_t)t->data & 3) == 0;
}

/* ------------------------------------------------------------------ products
 * c[i, j] = sum over k of a[i, k] b[k, j], for every index of the batch; steps and strides in elements, any of them 0. */
#define SP_PRODUCT_DIMS 16 /* of a batch */

typedef struct sp_products {
    int rank; /* of the batch */
    int64_t size[SP_PRODUCT_DIMS], a_step[SP_PRODUCT_DIMS], b_step[SP_PRODUCT_DIMS], c_step[SP_PRODUCT_DIMS];
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
    const float *a, *b;
    float *c;
    bool add; /* to what is in c */
} sp_products;

/* *done: neither the rows nor the columns of c lie side by side, and nothing was done. */
sparta_status sp_quick_products(sparta_ctx *cx, const sp_products *p, bool *done) SP_MUST;

/* ------------------------------------------------------------------ kernels */
typedef struct sp_block { /* of one product: c's columns lie side by side */
    const float *a, *b;
    float *c;
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, c_row;
    bool add; /* to what is in c */
} sp_block;

enum { SP_LINE = 2048, SP_TAPS = 16, SP_COLUMNS = 1024 };

typedef struct sp_quick_kernels {
    void (*multiply)(const sp_block *p);
    /* Of a line: NaN is larger and smaller than all. Sums of the distances from `by` and of their squares. */
    float (*largest)(const float *x, int64_t n, float by);
    float (*smallest)(const float *x, int64_t n, float by);
    float (*sum)(const float *x, int64_t n, float by);
    float (*squares)(const float *x, int64_t n, float by);
    /* Is one larger (smaller) than the limit, or NaN? */
    bool (*beyond)(const float *x, int64_t n, float limit, bool largest);
    /* y = a (x - by) + b */
    void (*scale)(float *y, const float *x, int64_t n, float by, float a, float b);
    /* y is the sum of this and all earlier rows, or only of those: rows of n (at most SP_COLUMNS), `step` apart. */
    void (*running_sum)(const float *x, float *y, int64_t rows, int64_t n, int64_t step, bool exclusive);
    void (*running_sum_ints)(const uint64_t *x, uint64_t *y, int64_t rows, int64_t n, int64_t step,
                             bool exclusive);
    /* y[i] = x[index[i] * step + i * along]; an index below 0 counts from the end of `size`. false: one is outside, and none was
     * followed. */
    bool (*pick)(const int64_t *index, int64_t n, int64_t size, int64_t step, const uint32_t *x,
                 int64_t along, uint32_t *y);
    /* y = the sum of weight[t] x[t], of at least one line. */
    void (*mix)(float *y, const float *const *x, const float *weight, int64_t lines, int64_t n);
    /* y[2 i] = y[2 i + 1] = x[i] */
    void (*twice)(uint32_t *y, const uint32_t *x, int64_t n);
    /* Bools. neither: of two that are the same it is what Not is. */
    void (*both)(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n);
    void (*either)(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n);
    void (*differ)(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n);
    void (*neither)(uint8_t *y, const uint8_t *a, const uint8_t *b, int64_t n);
    /* Bits of magnitudes, in which larger means larger: all NaNs are 0x7fffffff. How many are at least `least`. */
    int64_t (*magnitudes)(uint32_t *y, const float *x, int64_t n, uint32_t least);
    int32_t (*at_least)(const uint32_t *m, int32_t n, uint32_t least); /* how many of them are */
    /* y = x where the magnitude is at least `least`, else 0. */
    void (*thin)(float *y, const float *x, int64_t n, uint32_t least);
    /* y *= a x */
    void (*multiply_by)(float *y, const float *x, int64_t n, float a);
    /* Sums of lines, and the largest of each place. */
    void (*join[2])(float *y, const float *const *x, int64_t lines, int64_t n);
    /* Windows along a line of at most SP_LINE: sums, and the largest. y[i] is made of line[i * stride + t * dilation], t < taps */
    void (*slide[2])(float *y, const float *line, int64_t n, int64_t stride, int64_t taps, int64_t dilation);
} sp_quick_kernels;

extern const sp_quick_kernels sp_quick_avx512, sp_quick_avx2, sp_quick_portable;
const sp_quick_kernels *sp_quick_here(void);        /* the best that runs here */
void sp_quick_use(const sp_quick_kernels *kernels); /* for tests: these from now on; NULL: the best */

#endif
