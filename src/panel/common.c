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
