/* The loops of elementwise.h, and the references that the rows of elementwise.def make of them. With two inputs the last dimension is a
 * plain strided loop, so that f32 runs at a tolerable speed; a cursor goes over the others. */
#include "builtin/elementwise.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ one input */
static double get_real(const sparta_tensor *t, int64_t at)
{
    return t->dtype == SPARTA_F32 ? (double)((const float *)t->data)[at]
                                  : sp_element_get(t->dtype, t->data, at);
}

static void set_real(const sparta_tensor *t, int64_t at, double value)
{
    if (t->dtype == SPARTA_F32)
        ((float *)t->data)[at] = (float)value;
    else
        sp_element_set(t->dtype, t->data, at, value);
}

sparta_status sp_builtin_unary(sparta_ctx *cx, const sp_op_args *args, const sp_unary *f)
{
    const sparta_tensor *in = &args->in[0], *out = &args->out[0], *both[] = {in, out};
    bool real = sp_dtype_is_float(in->dtype), natural = in->dtype == SPARTA_U64 && f->natural;
    if (real ? !f->real : !f->integer)
        return sp_fail(cx, SPARTA_E_DTYPE, "this operator has no meaning for %s",
                       sparta_dtype_name(in->dtype));
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 2, both); w.more; sp_cursor_next(&w)) {
        if (real)
            set_real(out, w.at[1], f->real(get_real(in, w.at[0])));
        else {
            int64_t x = sp_element_get_int(in->dtype, in->data, w.at[0]);
            sp_element_set_int(out->dtype, out->data, w.at[1],
                               natural ? (int64_t)f->natural((uint64_t)x) : f->integer(x));
        }
    }
    return SPARTA_OK;
}

sparta_status sp_builtin_unary_with(sparta_ctx *cx, const sp_op_args *args,
                                    double (*f)(double x, const double *p), const double *p)
{
    const sparta_tensor *in = &args->in[0], *out = &args->out[0], *both[] = {in, out};
    if (!sp_dtype_is_float(in->dtype))
        return sp_fail(cx, SPARTA_E_DTYPE, "this operator has no meaning for %s",
                       sparta_dtype_name(in->dtype));
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 2, both); w.more; sp_cursor_next(&w))
        set_real(out, w.at[1], f(get_real(in, w.at[0]), p));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ two inputs */
/* One run of n elements. Offsets and strides: 0 is a, 1 is b, 2 is out. */
typedef struct run {
    const sp_binary *f;
    sparta_tensor t[3];
    int64_t n, at[3], step[3];
} run;

static void run_real(const run *r)
{
    int64_t a = r->at[0], b = r->at[1], c = r->at[2];
    for (int64_t i = 0; i < r->n; i++, a += r->step[0], b += r->step[1], c += r->step[2])
        set_real(&r->t[2], c, r->f->real(get_real(&r->t[0], a), get_real(&r->t[1], b)));
}

static void run_integer(const run *r)
{
    bool natural = r->t[0].dtype == SPARTA_U64 && r->f->natural;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t a = sp_element_get_int(r->t[0].dtype, r->t[0].data, r->at[0] + i * r->step[0]);
        int64_t b = sp_element_get_int(r->t[1].dtype, r->t[1].data, r->at[1] + i * r->step[1]);
        int64_t c = natural ? (int64_t)r->f->natural((uint64_t)a, (uint64_t)b) : r->f->integer(a, b);
        sp_element_set_int(r->t[2].dtype, r->t[2].data, r->at[2] + i * r->step[2], c);
    }
}

static sparta_status combine(sparta_ctx *cx, const sparta_tensor *a, const sparta_tensor *b,
                             const sparta_tensor *out, const sp_binary *f)
{
    run r = {.f = f, .n = 1};
    SP_TRY(sp_tensor_broadcast(cx, a, out->rank, out->dim, &r.t[0]));
    SP_TRY(sp_tensor_broadcast(cx, b, out->rank, out->dim, &r.t[1]));
    r.t[2] = *out;
    bool real = sp_dtype_is_float(a->dtype);
    if (a->dtype != b->dtype || (real ? !f->real : !f->integer))
        return sp_fail(cx, SPARTA_E_DTYPE, "this operator has no meaning for %s and %s",
                       sparta_dtype_name(a->dtype), sparta_dtype_name(b->dtype));
    int outer = out->rank > 0 ? out->rank - 1 : 0;
    if (out->rank > 0) {
        r.n = out->dim[outer];
        for (int i = 0; i < 3; i++) r.step[i] = r.t[i].stride[outer];
    }
    const sparta_tensor *all[] = {&r.t[0], &r.t[1], &r.t[2]};
    for (sp_cursor w = sp_cursor_begin(outer, out->dim, 3, all); w.more; sp_cursor_next(&w)) {
        for (int i = 0; i < 3; i++) r.at[i] = w.at[i];
        if (real)
            run_real(&r);
        else
            run_integer(&r);
    }
    return SPARTA_OK;
}

sparta_status sp_builtin_binary(sparta_ctx *cx, const sp_op_args *args, const sp_binary *f)
{
    return combine(cx, &args->in[0], &args->in[1], &args->out[0], f);
}

sparta_status sp_builtin_variadic(sparta_ctx *cx, const sp_op_args *args, const sp_binary *f)
{
    const sparta_tensor *out = &args->out[0];
    SP_TRY(sp_builtin_convert(cx, &args->in[0], out));
    for (int i = 1; i < args->n_in; i++) SP_TRY(combine(cx, out, &args->in[i], out, f));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ copies */
/* Integers become floats by one rounding from their own type, not by two over double. */
static void convert_element(const sparta_tensor *in, int64_t from, const sparta_tensor *out, int64_t to)
{
    if (sp_dtype_is_float(in->dtype)) {
        sp_element_set(out->dtype, out->data, to, sp_element_get(in->dtype, in->data, from));
        return;
    }
    int64_t v = sp_element_get_int(in->dtype, in->data, from);
    if (out->dtype == SPARTA_F32)
        ((float *)out->data)[to] = in->dtype == SPARTA_U64 ? (float)(uint64_t)v : (float)v;
    else if (sp_dtype_is_float(out->dtype))
        sp_element_set(out->dtype, out->data, to, in->dtype == SPARTA_U64 ? (double)(uint64_t)v : (double)v);
    else
        sp_element_set_int(out->dtype, out->data, to, out->dtype == SPARTA_BOOL ? v != 0 : v);
}

/* f32 and the 16-bit floats, which stand at the edges of models that are computed in f32: without a call for each element. */
static bool convert_floats(const sparta_tensor *in, const sparta_tensor *out)
{
    const int64_t n = sparta_tensor_elements(out);
    if (!sp_tensor_contiguous(in) || !sp_tensor_contiguous(out)) return false;
    if (in->dtype == SPARTA_F32 && out->dtype == SPARTA_F16)
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out->data)[i] = sp_f32_to_f16(((const float *)in->data)[i]);
    else if (in->dtype == SPARTA_F32 && out->dtype == SPARTA_BF16)
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out->data)[i] = sp_f32_to_bf16(((const float *)in->data)[i]);
    else if (in->dtype == SPARTA_F16 && out->dtype == SPARTA_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)out->data)[i] = sp_f16_to_f32(((const uint16_t *)in->data)[i]);
    else if (in->dtype == SPARTA_BF16 && out->dtype == SPARTA_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)out->data)[i] = sp_bf16_to_f32(((const uint16_t *)in->data)[i]);
    else
        return false;
    return true;
}

sparta_status sp_builtin_convert(sparta_ctx *cx, const sparta_tensor *in, const sparta_tensor *out)
{
    sparta_tensor wide;
    SP_TRY(sp_tensor_broadcast(cx, in, out->rank, out->dim, &wide));
    if (in->dtype == out->dtype) return sp_tensor_copy(cx, &wide, out);
    if (convert_floats(&wide, out)) return SPARTA_OK;
    const sparta_tensor *both[] = {&wide, out};
    for (sp_cursor w = sp_cursor_begin(out->rank, out->dim, 2, both); w.more; sp_cursor_next(&w))
        convert_element(&wide, w.at[0], out, w.at[1]);
    return SPARTA_OK;
}

sparta_status sp_builtin_copy_flat(sparta_ctx *cx, const sparta_tensor *in, const sparta_tensor *out)
{
    if (sparta_tensor_elements(in) != sparta_tensor_elements(out))
        return sp_fail(cx, SPARTA_E_SHAPE, "%lld elements in and %lld out; the shape does not fit its data",
                       (long long)sparta_tensor_elements(in), (long long)sparta_tensor_elements(out));
    if (!sp_tensor_contiguous(out))
        return sp_fail(cx, SPARTA_E_INTERNAL, "the output of a reshape must be row-major");
    sparta_tensor same = sparta_tensor_view(out->dtype, in->rank, in->dim, out->data);
    return sp_tensor_copy(cx, in, &same);
}

void sp_builtin_move(void *to, int64_t at, const void *from, int64_t from_at, size_t size)
{
    memcpy((char *)to + at * (int64_t)size, (const char *)from + from_at * (int64_t)size, size);
}

/* ------------------------------------------------------------------ the rows of elementwise.def */
static double unit(double y)
{
    return y < 0 ? 0 : y > 1 ? 1 : y;
}

/* ln(1 + e^x), said so that no exponential overflows. */
static double softplus(double x)
{
    return log1p(exp(-fabs(x))) + (x < 0 ? 0 : x);
}

#define FUNCTIONS(id, y_real, y_integer, y_natural)                                                          \
    static double id##_real(double a, double b)                                                              \
    {                                                                                                        \
        return y_real;                                                                                       \
    }                                                                                                        \
    static int64_t id##_integer(int64_t a, int64_t b)                                                        \
    {                                                                                                        \
        return y_integer;                                                                                    \
    }                                                                                                        \
    static uint64_t id##_natural(uint64_t a, uint64_t b)                                                     \
    {                                                                                                        \
        (void)b;                                                                                             \
        return y_natural;                                                                                    \
    }                                                                                                        \
    static const sp_binary id##_of = {id##_real, id##_integer, id##_natural};
#define BINARY(id, y_real, y_integer, y_natural, loop)                                                       \
    FUNCTIONS(id, y_real, y_integer, y_natural)                                                              \
    SP_REFERENCE(id, loop(cx, args, &id##_of))

#define SP_REAL(id, since, y)                                                                                \
    static double id##_real(double x)                                                                        \
    {                                                                                                        \
        return y;                                                                                            \
    }                                                                                                        \
    SP_REFERENCE(id, sp_builtin_unary(cx, args, &(sp_unary){.real = id##_real}))
#define SP_REAL_WITH(id, since, of_alpha, other, of_other, y)                                                \
    static double id##_real(double x, const double *p)                                                       \
    {                                                                                                        \
        const double alpha = p[0], other = p[1];                                                             \
        (void)other;                                                                                         \
        return y;                                                                                            \
    }                                                                                                        \
    SP_REFERENCE(id, sp_builtin_unary_with(cx, args, id##_real,                                              \
                                           (double[]){sp_attr_float(args->attrs, "alpha", of_alpha),         \
                                                      sp_attr_float(args->attrs, #other, of_other)}))
#define SP_NUMBER(id, since, types, follow, y_real, y_integer, y_natural)                                    \
    static double id##_real(double x)                                                                        \
    {                                                                                                        \
        return y_real;                                                                                       \
    }                                                                                                        \
    static int64_t id##_integer(int64_t x)                                                                   \
    {                                                                                                        \
        return y_integer;                                                                                    \
    }                                                                                                        \
    static uint64_t id##_natural(uint64_t x)                                                                 \
    {                                                                                                        \
        return y_natural;                                                                                    \
    }                                                                                                        \
    SP_REFERENCE(id, sp_builtin_unary(cx, args, &(sp_unary){id##_real, id##_integer, id##_natural}))
#define SP_ARITHMETIC(id, since, follow, flow, op)                                                           \
    BINARY(id, a op b, (int64_t)((uint64_t)a op(uint64_t) b), a op b, sp_builtin_binary)
#define SP_COMPARE(id, since, types, follow, op) BINARY(id, a op b, a op b, a op b, sp_builtin_binary)
#define SP_LOGIC(id, since, flow, y)             BINARY(id, y, y, y, sp_builtin_binary)
#define SP_EXTREME(id, since, follow, op)                                                                    \
    BINARY(id, a != a || a op b ? a : b, a op b ? a : b, a op b ? a : b, sp_builtin_variadic)
#define SP_BINARY(id, since, types, shape, y_real, y_integer, y_natural)                                     \
    BINARY(id, y_real, y_integer, y_natural, sp_builtin_binary)
#define SP_OWN(id, since, least, most, types, shape, follow)
#include "builtin/elementwise.def"

/* ------------------------------------------------------------------ Clip */
/* NaN stays NaN, and a NaN limit wins, as in NumPy. */
FUNCTIONS(raised, a != a || a >= b ? a : b, a >= b ? a : b, a >= b ? a : b)
FUNCTIONS(lowered, a != a || a <= b ? a : b, a <= b ? a : b, a <= b ? a : b)

/* y = min(max(x, low), high); each limit is a scalar input or absent. low > high gives high. */
sparta_status sp_builtin_Clip(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0];
    SP_TRY(sp_builtin_convert(cx, &args->in[0], out));
    for (int i = 1; i < 3; i++) {
        if (!sp_op_has(args, i)) continue;
        sparta_tensor limit = args->in[i];
        if (sparta_tensor_elements(&limit) != 1)
            return sp_fail(cx, SPARTA_E_SHAPE, "Clip: a limit has %lld elements; it must be one number",
                           (long long)sparta_tensor_elements(&limit));
        limit.rank = 0;
        SP_TRY(combine(cx, out, &limit, out, i == 1 ? &raised_of : &lowered_of));
    }
    return SPARTA_OK;
}
