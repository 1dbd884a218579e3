/* to_lanes: row-major tokens into lanes; to_rows: lanes into row-major tokens. One input, one output, of the same tokens and features. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_to_lanes.h"
#include "panel/kernel_to_rows.h"

static bool fill(const sp_job *job, const sp_place *at, const sp_operand *rows, const sp_operand *lanes,
                 struct sp_conversion_args *out)
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

static bool fill_lanes(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    return fill(job, at, &job->in[0], &job->out[0], &out->conversion);
}
static bool fill_rows(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    return fill(job, at, &job->out[0], &job->in[0], &out->conversion);
}

#define F32_LANES .layouts = SP_IN_LANES, .dtypes = SP_OF(F32)
static const sp_slot rows[] = {{SP_F32_ROWS}}, lanes[] = {{F32_LANES}};

const sp_panel_kernel sp_panel_to_lanes = {.name = "to_lanes",
                                           .portable = sp_kernel_to_lanes,
                                           .op = SP_OP_Identity,
                                           .check = sp_panel_want_alike,
                                           .fill = fill_lanes,
                                           .slots = {rows, 1, 0, {F32_LANES}}};
const sp_panel_kernel sp_panel_to_rows = {.name = "to_rows",
                                          .portable = sp_kernel_to_rows,
                                          .op = SP_OP_Identity,
                                          .check = sp_panel_want_alike,
                                          .fill = fill_rows,
                                          .slots = {lanes, 1, 0, {SP_F32_ROWS}}};
