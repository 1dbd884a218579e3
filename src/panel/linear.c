/* linear: y = act(w x + bias) + residual. in: x, w (packed strip(4) or rows(4)), bias?, residual? */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_linear.h"

static bool is_sparse(const sparta_packed *w)
{
    return w->format.level[1].kind == SPARTA_LEVEL_COMPRESSED;
}

/* The two formats this kernel reads: (n/4:dense, k:compressed or dense, n%4:dense). */
static bool is_strips(const sparta_packed *w)
{
    const sparta_format *f = &w->format;
    return w->dtype == SPARTA_F32 && f->rank == 2 && f->n == 3 && f->level[0].kind == SPARTA_LEVEL_DENSE &&
           f->level[0].dim == 0 && f->level[0].map == SPARTA_MAP_DIV && f->level[0].c == 4 &&
           f->level[1].dim == 1 && f->level[1].map == SPARTA_MAP_ALL &&
           f->level[2].kind == SPARTA_LEVEL_DENSE && f->level[2].dim == 0 &&
           f->level[2].map == SPARTA_MAP_MOD &&
           (!is_sparse(w) || ((f->level[1].crd == SPARTA_U16 || f->level[1].crd == SPARTA_U32) &&
                              f->level[1].pos == SPARTA_I32));
}

static sparta_status prepare(sparta_ctx *cx, sparta_arena *arena, sparta_job *job)
{
    const sparta_operand *w = &job->in[1];
    if (w->kind != SPARTA_OPERAND_PACKED || !is_strips(w->packed))
        return sparta_fail(cx, SPARTA_E_FORMAT, "%s: the weight is not stored in strips of 4 rows",
                           job->node->name);
    job->act = sparta_act_parse(sparta_attr_string(&job->node->attrs, "activation", ""));
    if (job->act < 0) return sparta_fail(cx, SPARTA_E_FORMAT, "%s: unknown activation", job->node->name);
    return sparta_panel_vector(cx, arena, job, job->n_in > 2 ? &job->in[2] : NULL, w->packed->dim[0],
                               &job->bias);
}

static bool has_residual(const sparta_job *job)
{
    return job->n_in > 3 && job->in[3].kind != SPARTA_OPERAND_ABSENT;
}

static sparta_status check(sparta_ctx *cx, const sparta_job *job)
{
    const sparta_packed *w = job->in[1].packed;
    SPARTA_TRY(sparta_panel_want(cx, job, &job->in[0], w->dim[1], "the input"));
    SPARTA_TRY(sparta_panel_want(cx, job, &job->out[0], w->dim[0], "the output"));
    if (has_residual(job)) SPARTA_TRY(sparta_panel_want(cx, job, &job->in[3], w->dim[0], "the residual"));
    return SPARTA_OK;
}

/* First strip of part `part`: strips are shared by equal numbers of blocks. */
static long first_strip(const sparta_packed *w, long strips, int part, int parts)
{
    if (part == 0) return 0;
    if (part == parts) return strips;
    if (!is_sparse(w)) return strips * part / parts;
    const int *pos = w->pos[1].data;
    const long want = (long)((int64_t)pos[strips] * part / parts);
    long low = 0, high = strips;
    while (low < high) {
        long mid = (low + high) / 2;
        if (pos[mid] < want)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool fill(const sparta_job *job, const sparta_place *at, sparta_panel_args *out)
{
    const sparta_packed *w = job->in[1].packed;
    struct sparta_linear_args *a = &out->linear;
    const long strips = (long)((w->dim[0] + 3) / 4);
    a->strip0 = first_strip(w, strips, at->part, at->parts);
    a->strip1 = first_strip(w, strips, at->part + 1, at->parts);
    a->x = sparta_panel_at(&job->in[0], at);
    a->y = sparta_panel_at(&job->out[0], at);
    a->has_residual = has_residual(job);
    a->residual = a->has_residual ? sparta_panel_at(&job->in[3], at) : a->y;
    a->has_stat = job->stat;
    a->stat = job->stat ? sparta_stat_at(&job->out[0], at) + at->part * 2 * SPARTA_PANEL : a->y;
    a->sparse = is_sparse(w);
    a->pos = a->sparse ? w->pos[1].data : 0;
    a->crd = a->sparse ? w->crd[1].data : 0;
    a->crd_bytes = a->sparse ? (int)sparta_dtype_size(w->format.level[1].crd) : 2;
    a->w = w->values.data;
    a->bias = job->bias;
    a->k = (long)w->dim[1];
    a->vectors = sparta_panel_vectors(job, at->panel);
    a->act = job->act;
    return a->strip1 > a->strip0 || job->stat;
}

static bool takes(sparta_op_id op)
{
    return op == SPARTA_OP_Linear;
}

const sparta_panel_kernel sparta_panel_linear = {
    "linear", sparta_kernel_linear, takes, prepare, check, NULL, NULL, fill};
