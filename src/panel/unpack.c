/* unpack: panels into row-major tokens. in: panels; out: rows. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_unpack.h"

static sparta_status prepare(sparta_ctx *cx, sparta_arena *arena, sparta_job *job)
{
    (void)cx, (void)arena, (void)job;
    return SPARTA_OK;
}

static sparta_status check(sparta_ctx *cx, const sparta_job *job)
{
    const sparta_operand *y = &job->out[0];
    if (y->kind != SPARTA_OPERAND_ROWS || y->tensor.dtype != SPARTA_F32 ||
        !sparta_tensor_contiguous(&y->tensor) || sparta_panel_tokens(&y->tensor) != job->tokens)
        return sparta_fail(cx, SPARTA_E_INTERNAL, "%s: f32 rows are expected", job->node->name);
    return sparta_panel_want(cx, job, &job->in[0], sparta_panel_features(&y->tensor), "the input");
}

static bool fill(const sparta_job *job, const sparta_place *at, sparta_panel_args *out)
{
    struct sparta_pack_args *a = &out->pack;
    const int64_t features = sparta_panel_features(&job->in[0].tensor), token0 = at->panel * SPARTA_PANEL;
    int64_t from, to;
    sparta_panel_share(features, 16, at, &from, &to);
    a->from = sparta_panel_at(&job->in[0], at);
    a->to = (float *)job->out[0].tensor.data + token0 * features;
    a->stride = (long)features;
    a->count = (long)SPARTA_MIN(job->tokens - token0, SPARTA_PANEL);
    a->f0 = (long)from, a->f1 = (long)to;
    return to > from;
}

const sparta_panel_kernel sparta_panel_unpack = {"unpack", sparta_kernel_unpack, prepare, check, NULL, NULL,
                                                 fill};
