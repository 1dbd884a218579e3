/* The one loop of reduce.h: every element is combined into an accumulator of 64 bits that belongs to its
 * place in the output. */
#include "builtin/reduce.h"
#include "builtin/view.h"

int64_t sparta_dtype_lowest(sparta_dtype dtype)
{
    if (!sparta_dtype_is_signed(dtype)) return 0;
    return INT64_MIN >> (64 - sparta_dtype_bits(dtype));
}

int64_t sparta_dtype_highest(sparta_dtype dtype)
{
    if (dtype == SPARTA_BOOL) return 1;
    if (!sparta_dtype_is_signed(dtype)) return (int64_t)(UINT64_MAX >> (64 - sparta_dtype_bits(dtype)));
    return INT64_MAX >> (64 - sparta_dtype_bits(dtype));
}

static sparta_status find_axes(sparta_ctx *cx, const sparta_op_args *args, const char *op,
                               bool reduced[SPARTA_RANK])
{
    int64_t n = sparta_op_has(args, 1) ? sparta_tensor_elements(&args->in[1]) : 0;
    bool all = n == 0 && !sparta_attr_int(args->attrs, "noop_with_empty_axes", 0);
    for (int i = 0; i < SPARTA_RANK; i++) reduced[i] = all;
    for (int64_t i = 0; i < n; i++) {
        const sparta_tensor *axes = &args->in[1];
        int axis;
        int64_t at = axes->rank ? i * axes->stride[0] : 0;
        SPARTA_TRY(sparta_builtin_axis(cx, op, sparta_element_get_int(axes->dtype, axes->data, at),
                                       args->in[0].rank, &axis));
        reduced[axis] = true;
    }
    return SPARTA_OK;
}

typedef union cell {
    double real;
    int64_t integer;
} cell;

static void accumulate(const sparta_tensor *x, const sparta_tensor *place, cell *acc, const sparta_binary *f,
                       bool real)
{
    bool natural = x->dtype == SPARTA_U64 && f->natural;
    const sparta_tensor *both[] = {x, place};
    for (sparta_walk w = sparta_walk_begin(x->rank, x->dim, 2, both); w.more; sparta_walk_next(&w)) {
        cell *c = &acc[w.at[1]];
        if (real) {
            c->real = f->real(c->real, sparta_element_get(x->dtype, x->data, w.at[0]));
            continue;
        }
        int64_t v = sparta_element_get_int(x->dtype, x->data, w.at[0]);
        c->integer =
            natural ? (int64_t)f->natural((uint64_t)c->integer, (uint64_t)v) : f->integer(c->integer, v);
    }
}

static int64_t divide(sparta_dtype dtype, int64_t sum, int64_t n)
{
    return dtype == SPARTA_U64 ? (int64_t)((uint64_t)sum / (uint64_t)n) : sum / n;
}

static void store(const sparta_tensor *out, cell *acc, const sparta_reduction *r, int64_t each)
{
    int64_t i = 0;
    for (sparta_walk w = sparta_walk_begin(out->rank, out->dim, 1, &out); w.more; sparta_walk_next(&w), i++) {
        if (r->finish) acc[i].real = r->finish(acc[i].real);
        if (sparta_dtype_is_float(out->dtype) || r->in_double)
            sparta_element_set(out->dtype, out->data, w.at[0],
                               r->mean ? acc[i].real / (double)each : acc[i].real);
        else
            sparta_element_set_int(out->dtype, out->data, w.at[0],
                                   r->mean ? divide(out->dtype, acc[i].integer, each) : acc[i].integer);
    }
}

sparta_status sparta_builtin_reduce(sparta_ctx *cx, const sparta_op_args *args, const sparta_reduction *r)
{
    const sparta_tensor *x = &args->in[0], *out = &args->out[0];
    bool real = sparta_dtype_is_float(x->dtype) || r->in_double, reduced[SPARTA_RANK];
    SPARTA_TRY(find_axes(cx, args, r->op, reduced));
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
        return sparta_fail(cx, SPARTA_E_SHAPE, "%s: %lld results, and room for %lld", r->op,
                           (long long)places, (long long)sparta_tensor_elements(out));
    if (r->mean && !real && each == 0 && places > 0)
        return sparta_fail(cx, SPARTA_E_RANGE, "%s: the mean of no integers has no value", r->op);
    cell *acc = sparta_alloc_array(cx, (size_t)places, sizeof *acc);
    SPARTA_NEED(cx, acc);
    cell start = {.real = r->real_start};
    if (!real) start.integer = r->integer_start(x->dtype);
    for (int64_t i = 0; i < places; i++) acc[i] = start;
    accumulate(x, &place, acc, &r->f, real);
    store(out, acc, r, each);
    sparta_free(cx, acc);
    return SPARTA_OK;
}
