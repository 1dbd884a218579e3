/* pack: row-major tokens into panels. in: x in rows; out: panels. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_pack.h"

static sparta_status prepare(sparta_ctx *cx, sparta_arena *arena, sparta_job *job)
{
    (void)cx, (void)arena, (void)job;
    return SPARTA_OK;
}

static sparta_status check(sparta_ctx *cx, const sparta_job *job)
{
    const sparta_operand *x = &job->in[0];
    if (x->kind != SPARTA_OPERAND_ROWS || x->tensor.dtype != SPARTA_F32 ||
        !sparta_tensor_contiguous(&x->tensor) || sparta_panel_tokens(&x->tensor) != job->tokens)
        return sparta_fail(cx, SPARTA_E_INTERNAL, "%s: f32 rows are expected", job->node->name);
    return sparta_panel_want(cx, job, &job->out[0], sparta_panel_features(&x->tensor), "the output");
}

static bool fill(const sparta_job *job, const sparta_place *at, sparta_panel_args *out)
{
    struct sparta_pack_args *a = &out->pack;
    const int64_t features = sparta_panel_features(&job->in[0].tensor), token0 = at->panel * SPARTA_PANEL;
    int64_t from, to;
    sparta_panel_share(features, 16, at, &from, &to);
    a->from = (const float *)job->in[0].tensor.data + token0 * features;
    a->to = sparta_panel_at(&job->out[0], at);
    a->stride = (long)features;
    a->count = (long)SPARTA_MIN(job->tokens - token0, SPARTA_PANEL);
    a->f0 = (long)from, a->f1 = (long)to;
    return to > from;
}

const sparta_panel_kernel sparta_panel_pack = {"pack", sparta_kernel_pack, prepare, check, NULL, NULL, fill};
