/* multiply: what is asked of every operator that multiplies (multiply.def). */
#include "builtin/builtin.h"
#include <math.h>

/* Of the dims from `first` on; as a double, which does not overflow. */
static double elements(const sparta_tensor *t, int first)
{
    double n = 1;
    for (int d = first; d < t->rank; d++) n *= (double)t->dim[d];
    return n;
}
/* One dim, counted from the end where it is negative. */
static double dim(const sparta_tensor *t, int d)
{
    if (d < 0) d += t->rank;
    return d >= 0 && d < t->rank ? (double)t->dim[d] : 1;
}

/* ------------------------------------------------------------------ multiply-adds of a (with b) that become y */

static double matrix(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                     const sparta_tensor *y)
{
    (void)attrs, (void)b;
    return elements(y, 0) * dim(a, -1);
}
static double gemm(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                   const sparta_tensor *y)
{
    (void)b;
    return elements(y, 0) * dim(a, sp_attr_int(attrs, "transA", 0) == 0);
}
static double convolution(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                          const sparta_tensor *y)
{
    (void)attrs, (void)a;
    return elements(y, 0) * elements(b, 1);
}
static double spread(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                     const sparta_tensor *y)
{
    (void)attrs, (void)y;
    return elements(a, 0) * elements(b, 1);
}
/* Scores, and the rows of v that they weigh; b is k, (..., T, E). */
static double attention(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                        const sparta_tensor *y)
{
    (void)attrs;
    return (elements(a, 0) + elements(y, 0)) * dim(b, -2);
}
/* The vector that stands before the dots is copied. */
static double interact(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                       const sparta_tensor *y)
{
    (void)b;
    const double kept = sp_attr_int(attrs, "keep", -1) >= 0 ? elements(a, 0) : 0;
    return (elements(y, 0) - kept) * dim(a, -1);
}
/* Right for a product of matrices, whichever the axes. */
static double einsum(const sp_attrs *attrs, const sparta_tensor *a, const sparta_tensor *b,
                     const sparta_tensor *y)
{
    (void)attrs;
    return sqrt(elements(a, 0) * elements(b, 0) * elements(y, 0));
}

/* ------------------------------------------------------------------ the table */

static const sp_multiply table[SP_OPS] = {
#define SP_MULTIPLY(id, layer, fused, lies, count) [SP_OP_##id] = {layer, fused, lies, count},
#include "builtin/multiply.def"
#undef SP_MULTIPLY
};

const sp_multiply *sp_multiply_of(sp_op_id op)
{
    return table[op].multiplies ? &table[op] : NULL;
}
