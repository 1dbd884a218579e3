/* pairs: y = w x and its epilogue. in: x, w (packed pairs), bias?, residual? A panel is shared out among threads by its vectors of
 * tokens, not by rows. */
#include "format/opaque.h"
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_pairs.h"

static bool is_pairs(const sp_packed *w)
{
    return w->format.opaque == &sp_opaque_pairs && w->dtype == SPARTA_F32 && !w->pattern && w->dim[0] > 0 &&
           w->dim[1] > 0;
}

/* A range ends where every row has had its turn. */
static sparta_status find_ends(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    const struct sp_pairs_job *j = w->crd[0].data;
    const long ranges = sp_panel_ranges(w), jobs = (long)(w->crd[0].dim[0] / 4);
    long *end = sp_arena_array(arena, (size_t)ranges, sizeof *end), at = 0;
    SP_NEED(cx, end);
    for (long r = 0; r < ranges; r++) {
        for (int64_t rows = 0; rows < w->dim[0] && at < jobs; at++)
            rows += j[at].row[0] == j[at].row[1] ? 1 : 2;
        end[r] = at;
    }
    job->end = end;
    return SPARTA_OK;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    if (!is_pairs(job->in[1].packed))
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: the weight is not stored in pairs of rows", job->node->name);
    SP_TRY(find_ends(cx, arena, job));
    return sp_panel_end_prepare(cx, arena, job);
}

static size_t work(const sp_job *job)
{
    return (size_t)SP_MIN(sp_panel_range(job->in[1].packed), SP_PAIRS_NEAR) * SP_PANEL / 2 * sizeof(float);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    const sp_packed *w = job->in[1].packed;
    struct sp_pairs_args *a = &out->pairs;
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    a->job = w->crd[0].data;
    a->end = job->end;
    a->crd = w->crd[1].data;
    a->w = w->values.data;
    a->work = at->work;
    a->n = (long)w->dim[0];
    a->k = (long)w->dim[1];
    a->range = sp_panel_range(w);
    a->ranges = sp_panel_ranges(w);
    return sp_panel_share_vectors(job, at, &a->vector0, &a->vectors);
}

const sp_panel_kernel sp_panel_pairs = {.name = "pairs",
                                        .portable = sp_kernel_pairs,
                                        .op = SP_OP_Linear,
                                        .prepare = prepare,
                                        .check = sp_panel_product_check,
                                        .work = work,
                                        .fill = fill,
                                        .slots = SP_PRODUCT_SLOTS};
