/* rotary: RotaryEmbedding head by head. in: x, cos, sin, all in panels: cos and sin have a row for each pair of a head's rows. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_rotary.h"

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    (void)cx, (void)arena;
    job->heads = sp_attr_int(&job->node->attrs, "num_heads", 0);
    return SPARTA_OK;
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    const int64_t features = sp_panel_features(&job->in[0].tensor),
                  half = sp_panel_features(&job->in[1].tensor),
                  turned = sp_attr_int(&job->node->attrs, "rotary_embedding_dim", 0);
    if (job->in[0].tensor.rank != 3 || job->heads < 1 || features < job->heads || features % job->heads ||
        turned < 0 || half * 2 != (turned ? turned : features / job->heads) ||
        half > features / job->heads / 2)
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %ld pairs of rows do not fit %ld features in %ld heads",
                       job->node->name, (long)half, (long)features, (long)job->heads);
    SP_TRY(sp_panel_want(cx, job, 0, features));
    SP_TRY(sp_panel_want(cx, job, 1, half));
    SP_TRY(sp_panel_want(cx, job, 2, half));
    return sp_panel_want(cx, job, -1, features);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_rotary_args *a = &out->rotary;
    a->head0 = (long)(job->heads * at->part / at->parts);
    a->head1 = (long)(job->heads * (at->part + 1) / at->parts);
    a->x = sp_panel_at(&job->in[0], at);
    a->cos = sp_panel_at(&job->in[1], at);
    a->sin = sp_panel_at(&job->in[2], at);
    a->y = sp_panel_at(&job->out[0], at);
    a->dim = (long)(sp_panel_features(&job->in[0].tensor) / job->heads);
    a->half = (long)sp_panel_features(&job->in[1].tensor);
    a->vectors = sp_panel_vectors(job, at->panel);
    a->interleaved = sp_attr_int(&job->node->attrs, "interleaved", 0) != 0;
    return a->head1 > a->head0;
}

static const sp_slot slots[] = {{SP_F32_PANELS}, {SP_F32_PANELS}, {SP_F32_PANELS}};

const sp_panel_kernel sp_panel_rotary = {.name = "rotary",
                                         .portable = sp_kernel_rotary,
                                         .op = SP_OP_RotaryEmbedding,
                                         .prepare = prepare,
                                         .check = check,
                                         .fill = fill,
                                         .slots = {slots, SP_COUNT(slots), 0, {SP_F32_PANELS}}};
