/* Clip: y = min(max(x, low), high); each limit is a scalar input or absent. low > high gives high, NaN stays
 * NaN. */
#include "builtin/elementwise.h"

static sparta_status clip_real(const sp_op_args *args)
{
    const sparta_tensor *in = &args->in[0], *out = &args->out[0], *both[] = {in, out};
    bool has_low = sp_op_has(args, 1), has_high = sp_op_has(args, 2);
    double low = has_low ? sp_element_get(in->dtype, args->in[1].data, 0) : 0;
    double high = has_high ? sp_element_get(in->dtype, args->in[2].data, 0) : 0;
    for (sp_walk w = sp_walk_begin(out->rank, out->dim, 2, both); w.more; sp_walk_next(&w)) {
        double x = sp_element_get(in->dtype, in->data, w.at[0]);
        if (has_low && x == x && !(x >= low)) x = low; /* a NaN limit wins, as in NumPy */
        if (has_high && x == x && !(x <= high)) x = high;
        sp_element_set(out->dtype, out->data, w.at[1], x);
    }
    return SPARTA_OK;
}

static bool below(sparta_dtype dtype, int64_t a, int64_t b)
{
    return dtype == SPARTA_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static sparta_status clip_integer(const sp_op_args *args)
{
    const sparta_tensor *in = &args->in[0], *out = &args->out[0], *both[] = {in, out};
    bool has_low = sp_op_has(args, 1), has_high = sp_op_has(args, 2);
    int64_t low = has_low ? sp_element_get_int(in->dtype, args->in[1].data, 0) : 0;
    int64_t high = has_high ? sp_element_get_int(in->dtype, args->in[2].data, 0) : 0;
    for (sp_walk w = sp_walk_begin(out->rank, out->dim, 2, both); w.more; sp_walk_next(&w)) {
        int64_t x = sp_element_get_int(in->dtype, in->data, w.at[0]);
        if (has_low && below(in->dtype, x, low)) x = low;
        if (has_high && below(in->dtype, high, x)) x = high;
        sp_element_set_int(out->dtype, out->data, w.at[1], x);
    }
    return SPARTA_OK;
}

sparta_status sp_builtin_Clip(sparta_ctx *cx, const sp_op_args *args)
{
    for (int i = 1; i < 3; i++)
        if (sp_op_has(args, i) && sparta_tensor_elements(&args->in[i]) != 1)
            return sp_fail(cx, SPARTA_E_SHAPE, "Clip: a limit has %lld elements; it must be one number",
                           (long long)sparta_tensor_elements(&args->in[i]));
    return sp_dtype_is_float(args->in[0].dtype) ? clip_real(args) : clip_integer(args);
}
