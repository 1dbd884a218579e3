/* norm: layer normalisation over the features; rms: the same without a mean and a shift. in: x in panels, gain, shift? */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_norm.h"
#include "panel/kernel_rms.h"

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const int64_t n = sparta_tensor_elements(&job->in[1].tensor);
    job->scale = sp_attr_float(&job->node->attrs, "epsilon", 1e-5f);
    SP_TRY(sp_panel_vector(cx, arena, job, 1, n, &job->gain));
    return sp_panel_vector(cx, arena, job, 2, n, &job->shift);
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    const int64_t n = sparta_tensor_elements(&job->in[1].tensor);
    SP_TRY(sp_panel_want(cx, job, 0, n));
    return sp_panel_want(cx, job, -1, n);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_norm_args *a = &out->norm;
    int64_t from, to;
    a->n = (long)sp_panel_features(&job->in[0].tensor);
    sp_panel_share(a->n, 4, at, &from, &to);
    a->row0 = (long)from, a->row1 = (long)to;
    a->x = sp_panel_at(&job->in[0], at);
    a->y = sp_panel_at(&job->out[0], at);
    a->has_stat = job->stat && a->n % 4 == 0; /* else the product counted rows that only pad */
    a->stat = a->has_stat ? sp_stat_at(&job->in[0], at) : 0;
    a->parts = at->parts;
    a->gain = job->gain;
    a->shift = job->shift;
    a->vectors = sp_panel_vectors(job, at->panel);
    a->eps = job->scale;
    return to > from;
}

static const sp_slot slots[] = {{SP_F32_PANELS}, {SP_F32_VECTOR}, {SP_F32_VECTOR, .maybe = true}};

const sp_panel_kernel sp_panel_norm = {.name = "norm",
                                       .portable = sp_kernel_norm,
                                       .op = SP_OP_LayerNormalization,
                                       .prepare = prepare,
                                       .check = check,
                                       .fill = fill,
                                       .slots = {slots, SP_COUNT(slots), 0, {SP_F32_PANELS}}};

const sp_panel_kernel sp_panel_rms = {.name = "rms",
                                      .portable = sp_kernel_rms,
                                      .op = SP_OP_RMSNormalization,
                                      .prepare = prepare,
                                      .check = check,
                                      .fill = fill,
                                      .slots = {slots, 2, 0, {SP_F32_PANELS}}};
