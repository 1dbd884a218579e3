/* library: y = act(w x + bias) + residual, the product by a library where there is one. in: x, w (packed, dense, row by row), bias?,
 * residual? */
#include "panel/library.h"
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_library.h"

/* The one format this kernel reads: (n:dense, k:dense). */
static bool is_rows(const sparta_packed *w)
{
    const sparta_format *f = &w->format;
    bool rows = w->dtype == SPARTA_F32 && !w->pattern && !f->opaque && !f->sum && f->rank == 2 && f->n == 2;
    for (int i = 0; i < 2 && rows; i++)
        rows = f->level[i].kind == SPARTA_LEVEL_DENSE && f->level[i].dim == i &&
               f->level[i].map == SPARTA_MAP_ALL;
    return rows;
}

static sparta_status prepare(sparta_ctx *cx, sparta_arena *arena, sparta_job *job)
{
    const sparta_operand *w = &job->in[1];
    if (job->n_in < 2 || w->kind != SPARTA_OPERAND_PACKED || !is_rows(w->packed))
        return sparta_fail(cx, SPARTA_E_FORMAT, "%s: the weight is not stored dense, row by row",
                           job->node->name);
    job->act = sparta_act_parse(sparta_attr_string(&job->node->attrs, "activation", ""));
    if (job->act < 0) return sparta_fail(cx, SPARTA_E_FORMAT, "%s: unknown activation", job->node->name);
    job->product = sparta_library_sgemm();
    if (!job->product)
        sparta_note(cx, "oneDNN, for which a layer was compiled, is %s: sparta's own product takes its place",
                    sparta_library_problem());
    return sparta_panel_vector(cx, arena, job, job->n_in > 2 ? &job->in[2] : NULL, w->packed->dim[0],
                               &job->bias);
}

static bool fill(const sparta_job *job, const sparta_place *at, sparta_panel_args *out)
{
    const sparta_packed *w = job->in[1].packed;
    struct sparta_library_args *a = &out->library;
    int64_t from, to;
    sparta_panel_share(w->dim[0], 16, at, &from, &to);
    a->row0 = (long)from;
    a->row1 = (long)to;
    a->x = sparta_panel_at(&job->in[0], at);
    a->y = sparta_panel_at(&job->out[0], at);
    a->has_residual = sparta_panel_has_residual(job);
    a->residual = a->has_residual ? sparta_panel_at(&job->in[3], at) : a->y;
    a->has_stat = job->stat;
    a->stat = job->stat ? sparta_stat_at(&job->out[0], at) + at->part * 2 * SPARTA_PANEL : a->y;
    a->w = w->values.data;
    a->bias = job->bias;
    a->product = job->product;
    a->k = (long)w->dim[1];
    a->vectors = sparta_panel_vectors(job, at->panel);
    a->act = job->act;
    return to > from || job->stat;
}

static bool takes(sparta_op_id op)
{
    return op == SPARTA_OP_Linear;
}

const sparta_panel_kernel sparta_panel_library = {
    "library", sparta_kernel_library, takes, prepare, sparta_panel_product_check, NULL, NULL, fill};
