/* pack: row-major tokens into panels. in: x in rows; out: panels. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_pack.h"

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    return sp_panel_want_rows(cx, job, &job->in[0], &job->out[0]);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    out->pack.from = sp_panel_tokens_at(job, at, &job->in[0], &out->pack);
    out->pack.to = sp_panel_at(&job->out[0], at);
    return out->pack.f1 > out->pack.f0;
}

static bool takes(sp_op_id op)
{
    return op == SP_OP_Identity;
}

static const sp_slot slots[] = {SP_F32_ROWS};

const sp_panel_kernel sp_panel_pack = {"pack",
                                       sp_kernel_pack,
                                       takes,
                                       sp_panel_unprepared,
                                       check,
                                       NULL,
                                       NULL,
                                       fill,
                                       {slots, SP_COUNT(slots), 0, SP_F32_PANELS}};
