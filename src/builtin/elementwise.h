/* Loops shared by the references that work element by element.
 *
 *     out[i] = f(a[i], b[i])      a and b broadcast to the shape of out, every tensor may be strided
 *
 * The operator brings one small function per family of types: `real` (every float type, computed in double
 * and rounded once), `integer` (every integer type and bool, in int64: a wrap on storing gives the type's own
 * wrap) and, where the unsigned order matters, `natural` for u64, whose values do not fit int64. A NULL
 * function says the operator has no such types.
 */
#ifndef SPARTA_BUILTIN_ELEMENTWISE_H
#define SPARTA_BUILTIN_ELEMENTWISE_H

#include "builtin/builtin.h"

typedef struct sparta_unary {
    double (*real)(double x);
    int64_t (*integer)(int64_t x);
} sparta_unary;

typedef struct sparta_binary {
    double (*real)(double a, double b);
    int64_t (*integer)(int64_t a, int64_t b);
    uint64_t (*natural)(uint64_t a, uint64_t b); /* NULL: integer is right for u64 too */
} sparta_binary;

sparta_status sparta_builtin_unary(sparta_ctx *cx, const sparta_op_args *args,
                                   const sparta_unary *f) SPARTA_MUST;
/* The same for float types alone, with the numbers that attributes give: y = f(x, p). */
sparta_status sparta_builtin_unary_with(sparta_ctx *cx, const sparta_op_args *args,
                                        double (*f)(double x, const double *p), const double *p) SPARTA_MUST;
sparta_status sparta_builtin_binary(sparta_ctx *cx, const sparta_op_args *args,
                                    const sparta_binary *f) SPARTA_MUST;
/* Min, Max: out = f(f(in[0], in[1]), in[2]) ... */
sparta_status sparta_builtin_variadic(sparta_ctx *cx, const sparta_op_args *args,
                                      const sparta_binary *f) SPARTA_MUST;
/* E_RANGE when an integer divisor holds a zero: the hardware would trap. Floats pass. */
sparta_status sparta_builtin_no_zero(sparta_ctx *cx, const char *op,
                                     const sparta_tensor *divisor) SPARTA_MUST;

/* Copy in to out, or convert when the types differ (Cast's rule); shapes are equal up to broadcasting. */
sparta_status sparta_builtin_convert(sparta_ctx *cx, const sparta_tensor *in,
                                     const sparta_tensor *out) SPARTA_MUST;
/* The elements of in, in row-major order, into out, which is row-major of any shape with as many elements. */
sparta_status sparta_builtin_copy_flat(sparta_ctx *cx, const sparta_tensor *in,
                                       const sparta_tensor *out) SPARTA_MUST;
/* Raw copy of one element of `size` bytes between element offsets. */
void sparta_builtin_move(void *to, int64_t at, const void *from, int64_t from_at, size_t size);

#endif
