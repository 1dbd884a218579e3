/* Checks of operands that the kernels' files share. */
#include "panel/common.h"
#include <string.h>

sparta_status sparta_panel_want(sparta_ctx *cx, const sparta_job *job, const sparta_operand *o,
                                int64_t features, const char *what)
{
    if (o->kind != SPARTA_OPERAND_PANELS || o->tensor.dtype != SPARTA_F32)
        return sparta_fail(cx, SPARTA_E_INTERNAL, "%s: %s must be f32 panels", job->node->name, what);
    if (sparta_panel_features(&o->tensor) != features || sparta_panel_tokens(&o->tensor) != job->tokens)
        return sparta_fail(cx, SPARTA_E_SHAPE, "%s: %s has %ld tokens of %ld features, expected %ld of %ld",
                           job->node->name, what, (long)sparta_panel_tokens(&o->tensor),
                           (long)sparta_panel_features(&o->tensor), (long)job->tokens, (long)features);
    return SPARTA_OK;
}

sparta_status sparta_panel_vector(sparta_ctx *cx, sparta_arena *arena, const sparta_job *job,
                                  const sparta_operand *o, int64_t n, const float **out)
{
    float *v = sparta_arena_array(arena, (size_t)sparta_panel_rows(n), sizeof(float));
    SPARTA_NEED(cx, v);
    if (o && o->kind != SPARTA_OPERAND_ABSENT) {
        if (o->kind != SPARTA_OPERAND_ROWS || o->tensor.dtype != SPARTA_F32 ||
            sparta_tensor_elements(&o->tensor) != n || !o->tensor.data ||
            !sparta_tensor_contiguous(&o->tensor))
            return sparta_fail(cx, SPARTA_E_FORMAT, "%s: a vector of %ld f32 constants is expected",
                               job->node->name, (long)n);
        memcpy(v, o->tensor.data, (size_t)n * sizeof(float));
    }
    *out = v;
    return SPARTA_OK;
}

void sparta_panel_share(int64_t n, int64_t unit, const sparta_place *at, int64_t *from, int64_t *to)
{
    int64_t units = (n + unit - 1) / unit;
    *from = SPARTA_MIN(units * at->part / at->parts * unit, n);
    *to = SPARTA_MIN(units * (at->part + 1) / at->parts * unit, n);
}

sparta_status sparta_panel_unprepared(sparta_ctx *cx, sparta_arena *arena, sparta_job *job)
{
    (void)cx, (void)arena, (void)job;
    return SPARTA_OK;
}

sparta_status sparta_panel_want_rows(sparta_ctx *cx, const sparta_job *job, const sparta_operand *rows,
                                     const sparta_operand *panels)
{
    if (rows->kind != SPARTA_OPERAND_ROWS || rows->tensor.dtype != SPARTA_F32 ||
        !sparta_tensor_contiguous(&rows->tensor) || sparta_panel_tokens(&rows->tensor) != job->tokens)
        return sparta_fail(cx, SPARTA_E_INTERNAL, "%s: f32 rows are expected", job->node->name);
    return sparta_panel_want(cx, job, panels, sparta_panel_features(&rows->tensor),
                             panels == &job->out[0] ? "the output" : "the input");
}

float *sparta_panel_tokens_at(const sparta_job *job, const sparta_place *at, const sparta_operand *rows,
                              struct sparta_pack_args *out)
{
    const int64_t features = sparta_panel_features(&rows->tensor), token0 = at->panel * SPARTA_PANEL;
    int64_t from, to;
    sparta_panel_share(features, 16, at, &from, &to);
    out->stride = (long)features;
    out->count = (long)SPARTA_MIN(job->tokens - token0, SPARTA_PANEL);
    out->f0 = (long)from, out->f1 = (long)to;
    return (float *)rows->tensor.data + token0 * features;
}

sparta_status sparta_panel_product_check(sparta_ctx *cx, const sparta_job *job)
{
    const sparta_packed *w = job->in[1].packed;
    SPARTA_TRY(sparta_panel_want(cx, job, &job->in[0], w->dim[1], "the input"));
    SPARTA_TRY(sparta_panel_want(cx, job, &job->out[0], w->dim[0], "the output"));
    if (sparta_panel_has_residual(job))
        SPARTA_TRY(sparta_panel_want(cx, job, &job->in[3], w->dim[0], "the residual"));
    return SPARTA_OK;
}
