/* linear: y = w x and its epilogue. in: x, w (packed strip(4), rows(4) or quads), bias?, residual? */
#include "format/opaque.h"
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "panel/kernel_linear.h"

static bool is_sparse(const sp_packed *w)
{
    return w->format.level[1].kind == SP_LEVEL_COMPRESSED;
}

/* The two formats this kernel reads: (n/4:dense, k:compressed or dense, n%4:dense), with values. */
static bool is_strips(const sp_packed *w)
{
    const sp_format *f = &w->format;
    return w->dtype == SPARTA_F32 && !w->pattern && f->rank == 2 && f->n == 3 &&
           f->level[0].kind == SP_LEVEL_DENSE && f->level[0].dim == 0 && f->level[0].map == SP_MAP_DIV &&
           f->level[0].c == 4 && f->level[1].dim == 1 && f->level[1].map == SP_MAP_ALL &&
           (f->level[1].kind == SP_LEVEL_DENSE || is_sparse(w)) && f->level[2].kind == SP_LEVEL_DENSE &&
           f->level[2].dim == 0 && f->level[2].map == SP_MAP_MOD &&
           (!is_sparse(w) || ((f->level[1].crd == SPARTA_U16 || f->level[1].crd == SPARTA_U32) &&
                              f->level[1].pos == SPARTA_I32));
}

static bool is_quads(const sp_packed *w)
{
    return w->format.opaque == &sp_opaque_quads && w->dtype == SPARTA_F32 && !w->pattern;
}

static long strips_of(const sp_packed *w)
{
    return (long)((w->dim[0] + 3) / 4);
}
/* Where the coordinates and the weights of each (range, strip) begin; one more at the end. */
static sparta_status find_starts(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    const uint16_t *count = w->crd[0].data;
    const long n = strips_of(w) * sp_panel_ranges(w);
    long *start = sp_arena_array(arena, (size_t)(n + 1) * 2, sizeof *start);
    SP_NEED(cx, start);
    for (long i = 0; i < n; i++) {
        start[2 * i + 2] = start[2 * i];
        start[2 * i + 3] = start[2 * i + 1];
        for (int set = 1; set < 16; set++) {
            start[2 * i + 2] += count[i * 16 + set];
            start[2 * i + 3] += count[i * 16 + set] * __builtin_popcount((unsigned)set);
        }
    }
    job->start = start;
    return SPARTA_OK;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const sp_packed *w = job->in[1].packed;
    const bool quads = is_quads(w) && w->dim[1] > 0;
    if (!quads && !is_strips(w))
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: the weight is not stored in strips of 4 rows",
                       job->node->name);
    if (quads) SP_TRY(find_starts(cx, arena, job));
    return sp_panel_end_prepare(cx, arena, job);
}

/* Weights before strip s, by which strips are shared: blocks of strips, elements of every range of quads; dense ones are alike. */
static int64_t weights_before(const sp_job *job, int64_t s)
{
    const sp_packed *w = job->in[1].packed;
    int64_t sum = 0;
    if (!job->start) return is_sparse(w) ? ((const int *)w->pos[1].data)[s] : s;
    for (long r = 0, strips = strips_of(w); r < sp_panel_ranges(w); r++)
        sum += job->start[2 * (r * strips + s) + 1] - job->start[2 * r * strips + 1];
    return sum;
}

static void fill_quads(const sp_job *job, struct sp_linear_args *a)
{
    const sp_packed *w = job->in[1].packed;
    a->form = SP_FORM_QUADS;
    a->count = w->crd[0].data;
    a->crd = w->crd[1].data;
    a->crd_bytes = 2;
    a->start = job->start;
    a->range = sp_panel_range(w);
}

static void fill_strips(const sp_packed *w, struct sp_linear_args *a)
{
    a->form = is_sparse(w) ? SP_FORM_STRIPS : SP_FORM_DENSE;
    a->pos = is_sparse(w) ? w->pos[1].data : 0;
    a->crd = is_sparse(w) ? w->crd[1].data : 0;
    a->crd_bytes = is_sparse(w) ? (int)sparta_dtype_size(w->format.level[1].crd) : 2;
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    const sp_packed *w = job->in[1].packed;
    struct sp_linear_args *a = &out->linear;
    a->strips = strips_of(w);
    sp_panel_share_by(job, a->strips, weights_before, at, &a->strip0, &a->strip1);
    a->x = sp_panel_at(&job->in[0], at);
    sp_panel_end(job, at, 3, &a->e);
    if (job->start)
        fill_quads(job, a);
    else
        fill_strips(w, a);
    a->w = w->values.data;
    a->k = (long)w->dim[1];
    a->vectors = sp_panel_vectors(job, at->panel);
    return a->strip1 > a->strip0 || job->stat;
}

const sp_panel_kernel sp_panel_linear = {.name = "linear",
                                         .portable = sp_kernel_linear,
                                         .op = SP_OP_Linear,
                                         .prepare = prepare,
                                         .check = sp_panel_product_check,
                                         .fill = fill,
                                         .slots = SP_PRODUCT_SLOTS,
                                         .folded = SP_FOLD_HEADS};
