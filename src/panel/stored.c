/* stored: y = w x and its epilogue for a weight in any format that has levels. in: x, w (packed), bias?, residual?
 *
 * Its code was generated for the format of the weight (room special) and follows positions and coordinates as they are stored, so they are
 * followed here first, when a session is made: every segment lies inside of its array, every coordinate inside of the weight, in padding too. A
 * panel is shared out among threads by its vectors of tokens, because a format may store columns. */
#include "format/walk.h"
#include "panel/common.h"

_Static_assert(SP_STORED_LEVELS == SP_LEVELS, "abi.h has room for every level");

static sparta_status fits(sparta_ctx *cx, const sp_job *job, const sp_packed *w)
{
    bool f32 = w->dtype == SPARTA_F32 && w->rank == 2 && w->dim[0] > 0 && w->dim[1] > 0;
    if (f32 && sp_packed_head_check(cx, w) != SPARTA_OK) return sp_fail_in(cx, "%s", job->node->name);
    for (int i = 0; f32 && i < sp_packed_leaves(w); i++) {
        const sp_packed *leaf = sp_packed_leaf(w, i);
        f32 &= leaf->dtype == SPARTA_F32 && !leaf->pattern && !leaf->format.opaque;
    }
    if (f32) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "%s: the weight is no f32 matrix in levels", job->node->name);
}

static void take(const sp_walker *v, struct sp_stored_leaf *out)
{
    const sp_packed *p = v->p;
    out->w = p->values.data;
    for (int l = 0; l < p->format.n; l++) {
        out->pos[l] = p->pos[l].data;
        out->crd[l] = p->crd[l].data;
        out->size[l] =
            (long)(p->format.level[l].kind == SP_LEVEL_PACKED ? v->view[l].width : v->view[l].extent);
    }
}

sparta_status sp_panel_leaves(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    SP_TRY(fits(cx, job, w));
    struct sp_stored_leaf *leaf = sp_arena_array(arena, (size_t)sp_packed_leaves(w), sizeof *leaf);
    SP_NEED(cx, leaf);
    for (int i = 0; i < sp_packed_leaves(w); i++) {
        sp_walker walker;
        sparta_status s = sp_walker_open(cx, sp_packed_leaf(w, i), &walker);
        if (s == SPARTA_OK) s = sp_walker_run(&walker, NULL, NULL);
        if (s != SPARTA_OK) return sp_fail_in(cx, "%s", job->node->name);
        take(&walker, &leaf[i]);
    }
    job->stored = leaf;
    return SPARTA_OK;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    SP_TRY(sp_panel_leaves(cx, arena, job));
    return sp_panel_end_prepare(cx, arena, job);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_stored_args *a = &out->stored;
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    a->leaf = job->stored;
    a->n = (long)job->in[1].packed->dim[0];
    a->k = (long)job->in[1].packed->dim[1];
    return sp_panel_share_vectors(job, at, &a->vector0, &a->vectors);
}

const sp_panel_kernel sp_panel_stored = {.name = "stored",
                                         .otherwise = &sp_panel_walk,
                                         .op = SP_OP_Linear,
                                         .prepare = prepare,
                                         .check = sp_panel_product_check,
                                         .fill = fill,
                                         .slots = SP_PRODUCT_SLOTS};
