/* Clip: y = min(max(x, low), high); each limit is a scalar input or absent. low > high gives high, NaN stays
 * NaN. */
#include "builtin/elementwise.h"

static sparta_status clip_real(const sparta_op_args *args)
{
    const sparta_tensor *in = &args->in[0], *out = &args->out[0], *both[] = {in, out};
    bool has_low = sparta_op_has(args, 1), has_high = sparta_op_has(args, 2);
    double low = has_low ? sparta_element_get(in->dtype, args->in[1].data, 0) : 0;
    double high = has_high ? sparta_element_get(in->dtype, args->in[2].data, 0) : 0;
    for (sparta_walk w = sparta_walk_begin(out->rank, out->dim, 2, both); w.more; sparta_walk_next(&w)) {
        double x = sparta_element_get(in->dtype, in->data, w.at[0]);
        if (has_low && x == x && !(x >= low)) x = low; /* a NaN limit wins, as in NumPy */
        if (has_high && x == x && !(x <= high)) x = high;
        sparta_element_set(out->dtype, out->data, w.at[1], x);
    }
    return SPARTA_OK;
}

static bool below(sparta_dtype dtype, int64_t a, int64_t b)
{
    return dtype == SPARTA_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static sparta_status clip_integer(const sparta_op_args *args)
{
    const sparta_tensor *in = &args->in[0], *out = &args->out[0], *both[] = {in, out};
    bool has_low = sparta_op_has(args, 1), has_high = sparta_op_has(args, 2);
    int64_t low = has_low ? sparta_element_get_int(in->dtype, args->in[1].data, 0) : 0;
    int64_t high = has_high ? sparta_element_get_int(in->dtype, args->in[2].data, 0) : 0;
    for (sparta_walk w = sparta_walk_begin(out->rank, out->dim, 2, both); w.more; sparta_walk_next(&w)) {
        int64_t x = sparta_element_get_int(in->dtype, in->data, w.at[0]);
        if (has_low && below(in->dtype, x, low)) x = low;
        if (has_high && below(in->dtype, high, x)) x = high;
        sparta_element_set_int(out->dtype, out->data, w.at[1], x);
    }
    return SPARTA_OK;
}

sparta_status sparta_builtin_Clip(sparta_ctx *cx, const sparta_op_args *args)
{
    for (int i = 1; i < 3; i++)
        if (sparta_op_has(args, i) && sparta_tensor_elements(&args->in[i]) != 1)
            return sparta_fail(cx, SPARTA_E_SHAPE, "Clip: a limit has %lld elements; it must be one number",
                               (long long)sparta_tensor_elements(&args->in[i]));
    return sparta_dtype_is_float(args->in[0].dtype) ? clip_real(args) : clip_integer(args);
}
