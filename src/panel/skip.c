/* skip: y = w x and its epilogue on rows, for tokens most of whose inputs are 0. in: x in rows, w (packed rows(64): every input, in strips of
 * 64 rows), bias?, residual? in rows; out: rows. Its strips are shared out among threads, not its tokens; each thread makes the list of
 * inputs that are there itself, which takes less than telling it to others. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_skip.h"

static bool is_strips(const sp_packed *w)
{
    const sp_format *f = &w->format;
    const sp_level *l = f->level;
    return w->dtype == SPARTA_F32 && !w->pattern && !f->opaque && !f->sum && f->rank == 2 && f->n == 3 &&
           l[0].kind == SP_LEVEL_DENSE && l[0].dim == 0 && l[0].map == SP_MAP_DIV && l[0].c == SP_SKIP_WIDE &&
           l[1].kind == SP_LEVEL_DENSE && l[1].dim == 1 && l[1].map == SP_MAP_ALL &&
           l[2].kind == SP_LEVEL_DENSE && l[2].dim == 0 && l[2].map == SP_MAP_MOD;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    if (!is_strips(w))
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "%s: the weight is not stored in strips of %d rows with every input", job->node->name,
                       SP_SKIP_WIDE);
    if (w->dim[1] >= INT32_MAX)
        return sp_fail(cx, SPARTA_E_LIMIT, "%s: a list has no room for the numbers of %ld inputs",
                       job->node->name, (long)w->dim[1]);
    return sp_panel_end_prepare(cx, arena, job);
}

static bool many(const sp_job *job)
{
    return job->tokens > SP_FEW_TOKENS;
}

/* A list of inputs and what they are in the tokens of a tile; or a list for each token of a panel. */
static size_t work(const sp_job *job)
{
    return many(job) ? (size_t)SP_PANEL * SP_SKIP_ROOM * (sizeof(unsigned) + sizeof(float))
                     : SP_SKIP_ROOM * (sizeof(unsigned) + SP_FEW_TOKENS * sizeof(float));
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    const sp_packed *w = job->in[1].packed;
    struct sp_skip_args *a = &out->skip;
    int64_t row0, row1;
    sp_panel_share(w->dim[0], SP_SKIP_WIDE, at, &row0, &row1);
    a->row0 = (long)row0, a->row1 = (long)row1;
    a->n = (long)w->dim[0];
    a->k = (long)w->dim[1];
    a->tokens = (long)SP_MIN(job->tokens - at->panel * SP_PANEL, SP_PANEL);
    a->x = sp_panel_at(&job->in[0], at);
    a->w = w->values.data;
    a->value = at->work;
    a->lists = many(job) ? SP_PANEL : 1;
    a->crd = (unsigned *)(at->work + SP_SKIP_ROOM * (many(job) ? SP_PANEL : SP_FEW_TOKENS));
    sp_panel_end(job, at, 3, &a->e);
    return a->row1 > a->row0;
}

const sp_panel_kernel sp_panel_skip = {.name = "skip",
                                       .portable = sp_kernel_skip,
                                       .op = SP_OP_Linear,
                                       .prepare = prepare,
                                       .check = sp_panel_product_check,
                                       .work = work,
                                       .fill = fill,
                                       .slots = SP_PRODUCT_ROWS_SLOTS};
