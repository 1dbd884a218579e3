/* Range: y[i] = start + i delta, as many as stay before limit: max(ceil((limit - start) / delta), 0). All
 * three are scalars. */
#include "builtin/range.h"
#include <math.h>

static int64_t count_integer(int64_t start, int64_t limit, int64_t delta)
{
    uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t by = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    bool none = delta > 0 ? start >= limit : start <= limit;
    uint64_t n = none ? 0 : (span - 1) / by + 1;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

sparta_status sp_range_count(sparta_ctx *cx, const sparta_tensor *in, int64_t *out)
{
    sparta_dtype t = in[0].dtype;
    if (!sp_dtype_is_float(t)) {
        int64_t delta = sp_element_get_int(t, in[2].data, 0);
        if (delta == 0) return sp_fail(cx, SPARTA_E_RANGE, "Range: delta is 0");
        *out =
            count_integer(sp_element_get_int(t, in[0].data, 0), sp_element_get_int(t, in[1].data, 0), delta);
        return SPARTA_OK;
    }
    double start = sp_element_get(t, in[0].data, 0), limit = sp_element_get(t, in[1].data, 0);
    double n = ceil((limit - start) / sp_element_get(t, in[2].data, 0));
    if (n != n || n > 1e15)
        return sp_fail(cx, SPARTA_E_RANGE, "Range: from %g to %g by delta never ends", start, limit);
    *out = n > 0 ? (int64_t)n : 0;
    return SPARTA_OK;
}

sparta_status sp_builtin_Range(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0], *in = args->in;
    sparta_dtype t = out->dtype;
    int64_t n = 0;
    SP_TRY(sp_range_count(cx, in, &n));
    if (n != out->dim[0])
        return sp_fail(cx, SPARTA_E_SHAPE, "Range: %lld elements, and room for %lld", (long long)n,
                       (long long)out->dim[0]);
    double first = sp_element_get(t, in[0].data, 0), by = sp_element_get(t, in[2].data, 0);
    for (int64_t i = 0; i < n; i++) {
        if (sp_dtype_is_float(t)) {
            sp_element_set(t, out->data, i * out->stride[0], first + (double)i * by);
            continue;
        }
        uint64_t start = (uint64_t)sp_element_get_int(t, in[0].data, 0),
                 delta = (uint64_t)sp_element_get_int(t, in[2].data, 0);
        sp_element_set_int(t, out->data, i * out->stride[0], (int64_t)(start + (uint64_t)i * delta));
    }
    return SPARTA_OK;
}
