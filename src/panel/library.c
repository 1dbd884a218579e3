/* library: y = w x and its epilogue, the product by a library where there is one. in: x, w (packed, dense, row by row), bias?,
 * residual? */
#include "panel/library.h"
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_library.h"

/* The one format this kernel reads: (n:dense, k:dense). */
static bool is_rows(const sp_packed *w)
{
    const sp_format *f = &w->format;
    bool rows = w->dtype == SPARTA_F32 && !w->pattern && !f->opaque && !f->sum && f->rank == 2 && f->n == 2;
    for (int i = 0; i < 2 && rows; i++)
        rows = f->level[i].kind == SP_LEVEL_DENSE && f->level[i].dim == i && f->level[i].map == SP_MAP_ALL;
    return rows;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    if (!is_rows(job->in[1].packed))
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: the weight is not stored dense, row by row",
                       job->node->name);
    job->product = sp_library_sgemm();
    if (!job->product)
        sp_note(cx, "oneDNN, for which a layer was compiled, is %s: sparta's own product takes its place",
                sp_library_problem());
    return sp_panel_end_prepare(cx, arena, job);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    const sp_packed *w = job->in[1].packed;
    struct sp_library_args *a = &out->library;
    int64_t from, to;
    sp_panel_share(w->dim[0], 16, at, &from, &to);
    a->row0 = (long)from;
    a->row1 = (long)to;
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    a->w = w->values.data;
    a->product = job->product;
    a->k = (long)w->dim[1];
    a->vectors = sp_panel_vectors(job, at->panel);
    return to > from || job->stat;
}

const sp_panel_kernel sp_panel_library = {.name = "library",
                                          .portable = sp_kernel_library,
                                          .op = SP_OP_Linear,
                                          .prepare = prepare,
                                          .check = sp_panel_product_check,
                                          .fill = fill,
                                          .slots = SP_PRODUCT_SLOTS};
