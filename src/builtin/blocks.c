/* DepthToSpace and SpaceToDepth: squares of blocksize x blocksize positions become channels and back.
 *
 *   deep (N, C b b, H, W)   seen as (N, C, H, by, W, bx), by the strides of the channels   <->   wide (N, C, H b, W b)
 */
#include "builtin/view.h"
#include <string.h>

/* The views of both sides; crd: channels of the deep side are (C, by, bx), otherwise (by, bx, C). */
static sparta_status views(sparta_ctx *cx, const sp_attrs *attrs, const sparta_tensor *deep,
                           const sparta_tensor *wide, bool crd, sparta_tensor view[2])
{
    const int64_t b = sp_attr_int(attrs, "blocksize", 0), channels = wide->dim[1];
    if (b < 1 || b > INT32_MAX || deep->dim[1] != channels * b * b || wide->dim[2] != deep->dim[2] * b ||
        wide->dim[3] != deep->dim[3] * b)
        return sp_fail(cx, SPARTA_E_SHAPE, "blocksize %lld does not fit %lld channels", (long long)b,
                       (long long)deep->dim[1]);
    const int64_t *d = deep->stride, *w = wide->stride;
    const int64_t c = crd ? b * b : 1, y = crd ? b : b * channels, x = crd ? 1 : channels;
    view[0] = (sparta_tensor){deep->dtype,
                              6,
                              {deep->dim[0], channels, deep->dim[2], b, deep->dim[3], b},
                              {d[0], c * d[1], d[2], y * d[1], d[3], x * d[1]},
                              deep->data,
                              0};
    view[1] = view[0];
    view[1].data = wide->data;
    const int64_t stride[6] = {w[0], w[1], b * w[2], w[2], b * w[3], w[3]};
    for (int i = 0; i < 6; i++) view[1].stride[i] = stride[i];
    return SPARTA_OK;
}

/* Attribute mode says whether the block or the channel comes first (DCR, CRD). */
sparta_status sp_builtin_DepthToSpace(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor view[2];
    bool crd = !strcmp(sp_attr_string(args->attrs, "mode", "DCR"), "CRD");
    SP_TRY(views(cx, args->attrs, &args->in[0], &args->out[0], crd, view));
    return sp_tensor_copy(cx, &view[0], &view[1]);
}

sparta_status sp_builtin_SpaceToDepth(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor view[2];
    SP_TRY(views(cx, args->attrs, &args->out[0], &args->in[0], false, view));
    return sp_tensor_copy(cx, &view[1], &view[0]);
}
