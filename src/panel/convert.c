/* pack: row-major tokens into panels; unpack: panels into row-major tokens. One input, one output, of the same tokens and features. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_pack.h"
#include "panel/kernel_unpack.h"

static sparta_status check(sparta_ctx *cx, const sp_job *job, const sp_operand *rows,
                           const sp_operand *panels)
{
    const int64_t features = sp_panel_features(&rows->tensor);
    SP_TRY(sp_panel_want_rows(cx, job, rows, features, rows == job->in ? "the input" : "the output"));
    return sp_panel_want(cx, job, panels, features, panels == job->in ? "the input" : "the output");
}

/* The share of a place; where its tokens lie in the rows. */
static float *tokens_at(const sp_job *job, const sp_place *at, const sp_operand *rows,
                        struct sp_pack_args *out)
{
    const int64_t features = sp_panel_features(&rows->tensor), token0 = at->panel * SP_PANEL;
    int64_t from, to;
    sp_panel_share(features, 16, at, &from, &to);
    out->stride = (long)features;
    out->count = (long)SP_MIN(job->tokens - token0, SP_PANEL);
    out->f0 = (long)from, out->f1 = (long)to;
    return (float *)rows->tensor.data + token0 * features;
}

static sparta_status check_pack(sparta_ctx *cx, const sp_job *job)
{
    return check(cx, job, &job->in[0], &job->out[0]);
}

static bool fill_pack(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    out->pack.from = tokens_at(job, at, &job->in[0], &out->pack);
    out->pack.to = sp_panel_at(&job->out[0], at);
    return out->pack.f1 > out->pack.f0;
}

static sparta_status check_unpack(sparta_ctx *cx, const sp_job *job)
{
    return check(cx, job, &job->out[0], &job->in[0]);
}

static bool fill_unpack(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    out->pack.to = tokens_at(job, at, &job->out[0], &out->pack);
    out->pack.from = sp_panel_at(&job->in[0], at);
    return out->pack.f1 > out->pack.f0;
}

static const sp_slot rows[] = {SP_F32_ROWS}, panels[] = {SP_F32_PANELS};

const sp_panel_kernel sp_panel_pack = {.name = "pack",
                                       .portable = sp_kernel_pack,
                                       .op = SP_OP_Identity,
                                       .check = check_pack,
                                       .fill = fill_pack,
                                       .slots = {rows, 1, 0, SP_F32_PANELS}};
const sp_panel_kernel sp_panel_unpack = {.name = "unpack",
                                         .portable = sp_kernel_unpack,
                                         .op = SP_OP_Identity,
                                         .check = check_unpack,
                                         .fill = fill_unpack,
                                         .slots = {panels, 1, 0, SP_F32_ROWS}};
