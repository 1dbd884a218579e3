/* unpack: panels into row-major tokens. in: panels; out: rows. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_unpack.h"

static sparta_status check(sparta_ctx *cx, const sparta_job *job)
{
    return sparta_panel_want_rows(cx, job, &job->out[0], &job->in[0]);
}

static bool fill(const sparta_job *job, const sparta_place *at, sparta_panel_args *out)
{
    out->pack.to = sparta_panel_tokens_at(job, at, &job->out[0], &out->pack);
    out->pack.from = sparta_panel_at(&job->in[0], at);
    return out->pack.f1 > out->pack.f0;
}

static bool takes(sparta_op_id op)
{
    return op == SPARTA_OP_Identity;
}

const sparta_panel_kernel sparta_panel_unpack = {
    "unpack", sparta_kernel_unpack, takes, sparta_panel_unprepared, check, NULL, NULL, fill};
