/* Reductions over some of the dims: the references of the rows of reductions.def. Every element is combined into an accumulator of 64 bits
 * that belongs to its place in the output.
 *
 * Which dims: the second input of the operator; without it (or when it is empty) all, or none when
 * noop_with_empty_axes=1. */
#include "builtin/view.h"
#include <math.h>

typedef struct reduction {
    const char *op;
    sp_binary f;
    double real_start;
    int64_t (*integer_start)(sparta_dtype dtype);
    double (*finish)(double x); /* of the result in double; NULL: as it is */
    bool mean;
    bool in_double; /* integers too, and the result is cut off: roots and logarithms; f.real serves all */
} reduction;

static sparta_status find_axes(sparta_ctx *cx, const sp_op_args *args, const char *op,
                               bool reduced[SPARTA_RANK])
{
    int64_t n = sp_op_has(args, 1) ? sparta_tensor_elements(&args->in[1]) : 0;
    bool all = n == 0 && !sp_attr_int(args->attrs, "noop_with_empty_axes", 0);
    for (int i = 0; i < SPARTA_RANK; i++) reduced[i] = all;
    for (int64_t i = 0; i < n; i++) {
        const sparta_tensor *axes = &args->in[1];
        int axis;
        int64_t at = axes->rank ? i * axes->stride[0] : 0;
        SP_TRY(sp_builtin_axis(cx, op, sp_element_get_int(axes->dtype, axes->data, at), args->in[0].rank,
                               &axis));
        reduced[axis] = true;
    }
    return SPARTA_OK;
}

typedef union cell {
    double real;
    int64_t integer;
} cell;

static void accumulate(const sparta_tensor *x, const sparta_tensor *place, cell *acc, const sp_binary *f,
                       bool real)
{
    bool natural = x->dtype == SPARTA_U64 && f->natural;
    const sparta_tensor *both[] = {x, place};
    for (sp_cursor w = sp_cursor_begin(x->rank, x->dim, 2, both); w.more; sp_cursor_next(&w)) {
        cell *c = &acc[w.at[1]];
        if (real) {
            c->real = f->real(c->real, sp_element_get(x->dtype, x->data, w.at[0]));
            continue;
        }
        int64_t v = sp_element_get_int(x->dtype, x->data, w.at[0]);
        c->integer =
            natural ? (int64_t)f->natural((uint64_t)c->integer, (uint64_t)v) : f->integer(c->integer, v);
    }
}

static int64_t divide(sparta_dtype dtype, int64_t sum, int64_t n)
{
    return dtype == SPARTA_U64 ? (int64_t)((uint64_t)sum / (uint64_t)n) : sum / n;
}

static void store(const sparta_tensor *out, cell *acc, const reduction *r, int64_t each)
{
    int64_t i = 0;
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 1, &out); w.more; sp_cursor_next(&w), i++) {
        if (r->finish) acc[i].real = r->finish(acc[i].real);
        if (sp_dtype_is_float(out->dtype) || r->in_double)
            sp_element_set(out->dtype, out->data, w.at[0],
                           r->mean ? acc[i].real / (double)each : acc[i].real);
        else
            sp_element_set_int(out->dtype, out->data, w.at[0],
                               r->mean ? divide(out->dtype, acc[i].integer, each) : acc[i].integer);
    }
}

static sparta_status reduce(sparta_ctx *cx, const sp_op_args *args, const reduction *r)
{
    const sparta_tensor *x = &args->in[0], *out = &args->out[0];
    bool real = sp_dtype_is_float(x->dtype) || r->in_double, reduced[SPARTA_RANK];
    SP_TRY(find_axes(cx, args, r->op, reduced));
    sparta_tensor place = *x; /* row-major over the dims that stay; stride 0 over those that go */
    int64_t places = 1, each = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        place.stride[i] = reduced[i] ? 0 : places;
        if (reduced[i])
            each *= x->dim[i];
        else
            places *= x->dim[i];
    }
    if (places != sparta_tensor_elements(out))
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %lld results, and room for %lld", r->op, (long long)places,
                       (long long)sparta_tensor_elements(out));
    if (r->mean && !real && each == 0 && places > 0)
        return sp_fail(cx, SPARTA_E_RANGE, "%s: the mean of no integers has no value", r->op);
    cell *acc = sp_alloc_array(cx, (size_t)places, sizeof *acc);
    SP_NEED(cx, acc);
    cell start = {.real = r->real_start};
    if (!real) start.integer = r->integer_start(x->dtype);
    for (int64_t i = 0; i < places; i++) acc[i] = start;
    accumulate(x, &place, acc, &r->f, real);
    store(out, acc, r, each);
    sp_free(cx, acc);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the rows of reductions.def */
/* log(e^a + e^x) = a + log(1 + e^(x - a)), a >= x: one more x is added without leaving the logarithm, so that nothing overflows. */
static double log_add(double a, double x)
{
    if (a != a || x != x) return NAN;
    double large = a > x ? a : x, small = a > x ? x : a;
    return isinf(large) ? large : large + log1p(exp(small - large));
}

#define REFERENCE(id, ...)                                                                                   \
    SP_REFERENCE(id, reduce(cx, args, &(reduction){.op = #id, .f.real = id##_real, __VA_ARGS__}))
#define SP_REDUCE(id, types, follow, how, kind, why, says, start, first, y_real, y_integer, y_natural)       \
    static double id##_real(double a, double x)                                                              \
    {                                                                                                        \
        return y_real;                                                                                       \
    }                                                                                                        \
    static uint64_t id##_natural(uint64_t a, uint64_t x)                                                     \
    {                                                                                                        \
        return y_natural;                                                                                    \
    }                                                                                                        \
    static int64_t id##_integer(int64_t signed_a, int64_t signed_x)                                          \
    {                                                                                                        \
        uint64_t a = (uint64_t)signed_a, x = (uint64_t)signed_x;                                             \
        return (int64_t)(y_integer);                                                                         \
    }                                                                                                        \
    static int64_t id##_first(sparta_dtype dtype)                                                            \
    {                                                                                                        \
        (void)dtype;                                                                                         \
        return first;                                                                                        \
    }                                                                                                        \
    REFERENCE(id, .f.integer = id##_integer, .f.natural = id##_natural, .real_start = start,                 \
              .integer_start = id##_first, .mean = SP_OP_##id == SP_OP_ReduceMean)
#define SP_REDUCE_REAL(id, why, start, y_real, finish_a)                                                     \
    static double id##_real(double a, double x)                                                              \
    {                                                                                                        \
        return y_real;                                                                                       \
    }                                                                                                        \
    static double id##_finish(double a)                                                                      \
    {                                                                                                        \
        return finish_a;                                                                                     \
    }                                                                                                        \
    REFERENCE(id, .real_start = start, .finish = id##_finish, .in_double = true)
#include "builtin/reductions.def"
