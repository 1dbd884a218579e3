/* pack: row-major tokens into lanes; unpack: lanes into row-major tokens. One input, one output, of the same tokens and features. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_pack.h"
#include "panel/kernel_unpack.h"

static bool fill(const sp_job *job, const sp_place *at, const sp_operand *rows, const sp_operand *lanes,
                 struct sp_pack_args *out)
{
    const int64_t features = sp_panel_features(&rows->tensor);
    int64_t from, to;
    sp_panel_share(features, 16, at, &from, &to);
    out->tokens = sp_panel_at(rows, at);
    out->lanes = sp_panel_at(lanes, at);
    out->stride = (long)features;
    out->row = (long)lanes->lanes.row;
    out->count = (long)SP_MIN(job->tokens - at->panel * SP_PANEL, SP_PANEL);
    out->f0 = (long)from, out->f1 = (long)to;
    return to > from;
}

static bool fill_pack(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    return fill(job, at, &job->in[0], &job->out[0], &out->pack);
}
static bool fill_unpack(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    return fill(job, at, &job->out[0], &job->in[0], &out->pack);
}

#define F32_LANES .layouts = SP_IN_LANES, .dtypes = SP_OF(F32)
static const sp_slot rows[] = {{SP_F32_ROWS}}, lanes[] = {{F32_LANES}};

const sp_panel_kernel sp_panel_pack = {.name = "pack",
                                       .portable = sp_kernel_pack,
                                       .op = SP_OP_Identity,
                                       .check = sp_panel_want_alike,
                                       .fill = fill_pack,
                                       .slots = {rows, 1, 0, {F32_LANES}}};
const sp_panel_kernel sp_panel_unpack = {.name = "unpack",
                                         .portable = sp_kernel_unpack,
                                         .op = SP_OP_Identity,
                                         .check = sp_panel_want_alike,
                                         .fill = fill_unpack,
                                         .slots = {lanes, 1, 0, {SP_F32_ROWS}}};
