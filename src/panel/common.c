/* What the kernels' files share: checks of operands, and how threads share a panel. */
#include "panel/common.h"
#include <stdio.h>
#include <string.h>

const char *sp_panel_what(int i, char text[32])
{
    snprintf(text, 32, i < 0 ? "the output" : "input %d", i);
    return text;
}

sparta_status sp_panel_want(sparta_ctx *cx, const sp_job *job, int i, int64_t features)
{
    const sp_operand *o = i < 0 ? &job->out[0] : &job->in[i];
    const sparta_tensor *t = &o->tensor;
    char what[32];
    if (i >= 0 && !sp_panel_has(job, i)) return SPARTA_OK;
    if (sp_panel_features(t) != features || sp_panel_tokens(t) != job->tokens)
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %s has %ld tokens of %ld features, expected %ld of %ld",
                       job->node->name, sp_panel_what(i, what), (long)sp_panel_tokens(t),
                       (long)sp_panel_features(t), (long)job->tokens, (long)features);
    if (o->layout == SP_LAYOUT_ROWS && !sp_tensor_contiguous(t))
        return sp_fail(cx, SPARTA_E_INTERNAL, "%s: %s has gaps", job->node->name, sp_panel_what(i, what));
    return SPARTA_OK;
}

sparta_status sp_panel_want_alike(sparta_ctx *cx, const sp_job *job)
{
    for (int i = -1; i < job->n_in; i++)
        SP_TRY(sp_panel_want(cx, job, i, sp_panel_features(&job->out[0].tensor)));
    return SPARTA_OK;
}

sparta_status sp_panel_vector(sparta_ctx *cx, sp_arena *arena, const sp_job *job, int i, int64_t n,
                              const float **out)
{
    float *v = sp_arena_array(arena, (size_t)sp_lane_rows(SPARTA_F32, n), sizeof(float));
    SP_NEED(cx, v);
    if (sp_panel_has(job, i)) {
        const sparta_tensor *t = &job->in[i].tensor;
        if (sparta_tensor_elements(t) != n || !sp_tensor_contiguous(t))
            return sp_fail(cx, SPARTA_E_FORMAT, "%s: a vector of %ld f32 constants is expected",
                           job->node->name, (long)n);
        memcpy(v, t->data, (size_t)n * sizeof(float));
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

bool sp_panel_share_vectors(const sp_job *job, const sp_place *at, long *first, long *vectors)
{
    int64_t from, to;
    sp_panel_share(sp_panel_vectors(job, at->panel), 1, at, &from, &to);
    *first = (long)from;
    *vectors = (long)(to - from);
    return to > from || job->stat;
}

/* The first thing of a part: the first before which its share of the weight lies. */
static long first_of(const sp_job *job, int64_t n, int64_t (*before)(const sp_job *job, int64_t i), int part,
                     int parts)
{
    if (part == 0) return 0;
    if (part == parts) return (long)n;
    const int64_t want = before(job, n) * part / parts;
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (before(job, mid) < want)
            low = mid + 1;
        else
            high = mid;
    }
    return (long)low;
}

void sp_panel_share_by(const sp_job *job, int64_t n, int64_t (*before)(const sp_job *job, int64_t i),
                       const sp_place *at, long *from, long *to)
{
    *from = first_of(job, n, before, at->part, at->parts);
    *to = first_of(job, n, before, at->part + 1, at->parts);
}
