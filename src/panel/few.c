/* few: y = w x and its epilogue on rows, for few tokens. in: x in rows, w (packed bitmap, strip(16), rows(16) or csr with 2-byte
 * coordinates), bias?, residual? in rows; out: rows. Its weights are shared out among threads, not its tokens. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_few.h"

static bool plain(const sp_level *l, int dim, sp_level_kind kind)
{
    return l->kind == kind && l->dim == dim && l->map == SP_MAP_ALL;
}
static bool indexed(const sp_level *l, sparta_dtype crd)
{
    return l->pos == SPARTA_I32 && l->crd == crd;
}

/* Which of the four forms a weight is stored in; -1: none. */
static int form_of(const sp_packed *w)
{
    const sp_format *f = &w->format;
    const sp_level *l = f->level;
    if (w->dtype != SPARTA_F32 || w->pattern || f->opaque || f->sum || f->rank != 2) return -1;
    if (f->n == 2 && plain(&l[0], 0, SP_LEVEL_DENSE)) {
        if (plain(&l[1], 1, SP_LEVEL_BITMAP) && l[1].pos == SPARTA_I32) return SP_FEW_BITMAP;
        if (plain(&l[1], 1, SP_LEVEL_COMPRESSED) && indexed(&l[1], SPARTA_U16)) return SP_FEW_CSR;
    }
    if (f->n != 3 || l[0].kind != SP_LEVEL_DENSE || l[0].dim != 0 || l[0].map != SP_MAP_DIV || l[0].c != 16 ||
        l[2].kind != SP_LEVEL_DENSE || l[2].dim != 0 || l[2].map != SP_MAP_MOD)
        return -1;
    if (plain(&l[1], 1, SP_LEVEL_DENSE)) return SP_FEW_DENSE;
    return plain(&l[1], 1, SP_LEVEL_COMPRESSED) && indexed(&l[1], SPARTA_U16) ? SP_FEW_STRIPS : -1;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    if (form_of(job->in[1].packed) < 0)
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "%s: the weight is stored neither as bitmap, nor in strips of 16 rows, nor as csr "
                       "with 2-byte coordinates",
                       job->node->name);
    return sp_panel_end_prepare(cx, arena, job);
}

/* The activations of a tile of tokens, and a vector that the last of them may be written with. */
static size_t work(const sp_job *job)
{
    return ((size_t)(job->in[1].packed->dim[1] + 15) / 16 * 16 * SP_FEW_TOKENS + 16) * sizeof(float);
}

/* Rows, or strips of 16 of them, are shared by equal numbers of weights. */
static long unit_of(int form)
{
    return form == SP_FEW_BITMAP || form == SP_FEW_CSR ? 1 : 16;
}
static int64_t weights_before(const sp_job *job, int64_t i)
{
    const sp_packed *w = job->in[1].packed;
    return w->format.level[1].kind == SP_LEVEL_DENSE ? i : ((const int *)w->pos[1].data)[i];
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    const sp_packed *w = job->in[1].packed;
    struct sp_few_args *a = &out->few;
    a->form = form_of(w);
    const long unit = unit_of(a->form);
    a->n = (long)w->dim[0];
    a->k = (long)w->dim[1];
    sp_panel_share_by(job, (a->n + unit - 1) / unit, weights_before, at, &a->row0, &a->row1);
    a->row0 = SP_MIN(a->row0 * unit, a->n);
    a->row1 = SP_MIN(a->row1 * unit, a->n);
    a->tokens = (long)SP_MIN(job->tokens - at->panel * SP_PANEL, SP_PANEL);
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    a->pos = w->pos[1].data;
    a->crd = w->crd[1].data;
    a->w = w->values.data;
    a->weights = (long)w->values.dim[0];
    a->work = at->work;
    return a->row1 > a->row0;
}

const sp_panel_kernel sp_panel_few = {.name = "few",
                                      .portable = sp_kernel_few,
                                      .op = SP_OP_Linear,
                                      .prepare = prepare,
                                      .check = sp_panel_product_check,
                                      .work = work,
                                      .fill = fill,
                                      .slots = SP_PRODUCT_ROWS_SLOTS};
