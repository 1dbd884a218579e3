/* Loops shared by the references that work element by element. Most of them are rows of elementwise.def, whose functions are made in
 * elementwise.c.
 *
 *     out[i] = f(a[i], b[i])      a and b broadcast to the shape of out, every tensor may be strided
 *
 * The operator brings one small function per family of types: `real` (every float type, computed in double
 * and rounded once), `integer` (every integer type and bool, in int64: a wrap on storing gives the type's own
 * wrap) and, where the unsigned order matters, `natural` for u64, whose values do not fit int64. Where a
 * function is NULL, the operator has no such types.
 */
#ifndef SP_BUILTIN_ELEMENTWISE_H
#define SP_BUILTIN_ELEMENTWISE_H

#include "builtin/builtin.h"

typedef struct sp_unary {
    double (*real)(double x);
    int64_t (*integer)(int64_t x);
    uint64_t (*natural)(uint64_t x); /* NULL: integer is right for u64 too */
} sp_unary;

typedef struct sp_binary {
    double (*real)(double a, double b);
    int64_t (*integer)(int64_t a, int64_t b);
    uint64_t (*natural)(uint64_t a, uint64_t b); /* NULL: integer is right for u64 too */
} sp_binary;

sparta_status sp_builtin_unary(sparta_ctx *cx, const sp_op_args *args, const sp_unary *f) SP_MUST;
/* The same for float types alone, with the numbers that attributes give: y = f(x, p). */
sparta_status sp_builtin_unary_with(sparta_ctx *cx, const sp_op_args *args,
                                    double (*f)(double x, const double *p), const double *p) SP_MUST;
sparta_status sp_builtin_binary(sparta_ctx *cx, const sp_op_args *args, const sp_binary *f) SP_MUST;
/* Min, Max: out = f(f(in[0], in[1]), in[2]) ... */
sparta_status sp_builtin_variadic(sparta_ctx *cx, const sp_op_args *args, const sp_binary *f) SP_MUST;

/* Copy in to out, or convert when the types differ (Cast's rule); shapes are equal up to broadcasting. */
sparta_status sp_builtin_convert(sparta_ctx *cx, const sparta_tensor *in, const sparta_tensor *out) SP_MUST;
/* The elements of in, in row-major order, into out, which is row-major of any shape with as many elements. */
sparta_status sp_builtin_copy_flat(sparta_ctx *cx, const sparta_tensor *in, const sparta_tensor *out) SP_MUST;
/* Raw copy of one element of `size` bytes between element offsets. */
void sp_builtin_move(void *to, int64_t at, const void *from, int64_t from_at, size_t size);

#endif
