/* Checks of operands that the kernels' files share. */
#include "panel/common.h"
#include <string.h>

sparta_status sp_panel_want(sparta_ctx *cx, const sp_job *job, const sp_operand *o, int64_t features,
                            const char *what)
{
    if (o->kind != SP_OPERAND_PANELS || o->tensor.dtype != SPARTA_F32)
        return sp_fail(cx, SPARTA_E_INTERNAL, "%s: %s must be f32 panels", job->node->name, what);
    if (sp_panel_features(&o->tensor) != features || sp_panel_tokens(&o->tensor) != job->tokens)
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %s has %ld tokens of %ld features, expected %ld of %ld",
                       job->node->name, what, (long)sp_panel_tokens(&o->tensor),
                       (long)sp_panel_features(&o->tensor), (long)job->tokens, (long)features);
    return SPARTA_OK;
}

sparta_status sp_panel_vector(sparta_ctx *cx, sp_arena *arena, const sp_job *job, const sp_operand *o,
                              int64_t n, const float **out)
{
    float *v = sp_arena_array(arena, (size_t)sp_panel_rows(n), sizeof(float));
    SP_NEED(cx, v);
    if (o && o->kind != SP_OPERAND_ABSENT) {
        if (o->kind != SP_OPERAND_ROWS || o->tensor.dtype != SPARTA_F32 ||
            sparta_tensor_elements(&o->tensor) != n || !o->tensor.data || !sp_tensor_contiguous(&o->tensor))
            return sp_fail(cx, SPARTA_E_FORMAT, "%s: a vector of %ld f32 constants is expected",
                           job->node->name, (long)n);
        memcpy(v, o->tensor.data, (size_t)n * sizeof(float));
    }
    *out = v;
    return SPARTA_OK;
}

void sp_panel_share(int64_t n, int64_t unit, const sp_place *at, int64_t *from, int64_t *to)
{
    int64_t units = (n + unit - 1) / unit;
    *from = SP_MIN(units * at->part / at->parts * unit, n);
    *to = SP_MIN(units * (at->part + 1) / at->parts * unit, n);
}

sparta_status sp_panel_unprepared(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    (void)cx, (void)arena, (void)job;
    return SPARTA_OK;
}

sparta_status sp_panel_want_rows(sparta_ctx *cx, const sp_job *job, const sp_operand *rows,
                                 const sp_operand *panels)
{
    if (rows->kind != SP_OPERAND_ROWS || rows->tensor.dtype != SPARTA_F32 ||
        !sp_tensor_contiguous(&rows->tensor) || sp_panel_tokens(&rows->tensor) != job->tokens)
        return sp_fail(cx, SPARTA_E_INTERNAL, "%s: f32 rows are expected", job->node->name);
    return sp_panel_want(cx, job, panels, sp_panel_features(&rows->tensor),
                         panels == &job->out[0] ? "the output" : "the input");
}

float *sp_panel_tokens_at(const sp_job *job, const sp_place *at, const sp_operand *rows,
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
