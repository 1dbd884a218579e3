/* unpack: panels into row-major tokens. in: panels; out: rows. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_unpack.h"

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    return sp_panel_want_rows(cx, job, &job->out[0], &job->in[0]);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    out->pack.to = sp_panel_tokens_at(job, at, &job->out[0], &out->pack);
    out->pack.from = sp_panel_at(&job->in[0], at);
    return out->pack.f1 > out->pack.f0;
}

static bool takes(sp_op_id op)
{
    return op == SP_OP_Identity;
}

static const sp_slot slots[] = {SP_F32_PANELS};

const sp_panel_kernel sp_panel_unpack = {"unpack",
                                         sp_kernel_unpack,
                                         takes,
                                         sp_panel_unprepared,
                                         check,
                                         NULL,
                                         NULL,
                                         fill,
                                         {slots, SP_COUNT(slots), 0, SP_F32_ROWS}};
