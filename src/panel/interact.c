/* interact: dot products of vectors, two by two. in: the vectors in panels, or as the Embeds that would look them up; the dots (P, 2) in
 * rows, a constant. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_interact.h"

static int vectors_of(const sp_job *job)
{
    return job->n_in - 1;
}

static int64_t keep_of(const sp_job *job)
{
    return sp_attr_int(&job->node->attrs, "keep", -1);
}

bool sp_panel_dots(const sparta_tensor *dots, int64_t n, int64_t row, int *where)
{
    if (dots->rank != 2 || dots->dim[1] != 2 || !dots->data || dots->dim[0] > n * (n + 1) / 2) return false;
    for (int64_t i = 0; i < n * n; i++) where[i] = -1;
    for (int64_t p = 0; p < dots->dim[0]; p++) {
        int64_t v[2];
        for (int side = 0; side < 2; side++) {
            v[side] =
                sp_element_get_int(dots->dtype, dots->data, p * dots->stride[0] + side * dots->stride[1]);
            if (v[side] < 0) v[side] += n;
            if (v[side] < 0 || v[side] >= n) return false;
        }
        int *at = &where[SP_MAX(v[0], v[1]) * n + SP_MIN(v[0], v[1])];
        if (*at >= 0) return false;
        *at = (int)(row + p);
    }
    return true;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    const int n = vectors_of(job);
    const sp_operand *dots = &job->in[SP_MAX(n, 0)];
    if (n < 1 || keep_of(job) >= n)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: vectors and their dots are expected", job->node->name);
    const sp_dims *dims = &job->node->in[0]->dims; /* sizes are not bound yet: from the plan */
    int64_t row = 0;
    if (keep_of(job) >= 0 &&
        (dims->rank != 2 || !sp_expr_is_const(dims->dim[1], &row) || row < 0 || row > INT32_MAX - n * n))
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: the length of the vectors must be a number",
                       job->node->name);
    int *where = sp_arena_array(arena, (size_t)n * (size_t)n, sizeof *where);
    SP_NEED(cx, where);
    if (!sp_panel_dots(&dots->tensor, n, row, where))
        return sp_fail(cx, SPARTA_E_FORMAT,
                       "%s: each of the dots must be of two of the %d vectors and there once",
                       job->node->name, n);
    job->where = where;
    return SPARTA_OK;
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    const int n = vectors_of(job);
    const int64_t dim = sp_panel_features(&job->in[0].tensor), dots = job->in[n].tensor.dim[0];
    for (int i = 0; i < n; i++) {
        SP_TRY(sp_panel_want(cx, job, i, dim));
        if (job->in[i].lookup) SP_TRY(sp_panel_embed.check(cx, job->in[i].lookup));
    }
    return sp_panel_want(cx, job, -1, dots + (keep_of(job) < 0 ? 0 : dim));
}

/* work: [n] vectors, [n][64] rows, then what is staged, on a line of its own */
static size_t staged_at(int64_t n)
{
    return ((size_t)n * (SP_PANEL + 1) * sizeof(float *) + 63) & ~(size_t)63;
}

static size_t work(const sp_job *job)
{
    const int64_t n = vectors_of(job), dim = sp_panel_features(&job->in[0].tensor);
    return staged_at(n) + (size_t)((n + 3) * (dim + 1) * 16) * sizeof(float);
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_interact_args *a = &out->interact;
    const int64_t n = vectors_of(job);
    const float **v = (const float **)(void *)at->work, **row = v + n;
    int64_t from, to;
    sp_panel_share(sp_panel_vectors(job, at->panel), 1, at, &from, &to);
    if (from == to) return false;
    a->work = (float *)(void *)((char *)at->work + staged_at(n));
    a->count = (long)SP_MIN(job->tokens - at->panel * SP_PANEL, SP_PANEL);
    for (int i = 0; i < n; i++) {
        const sp_operand *o = &job->in[i];
        v[i] = o->lookup ? NULL : sp_panel_at(o, at);
        if (o->lookup) sp_panel_table_rows(o->lookup, 0, at->panel * SP_PANEL, a->count, row + i * SP_PANEL);
    }
    a->v = v, a->row = row;
    a->y = sp_panel_at(&job->out[0], at);
    a->where = job->where;
    a->n = (long)n;
    a->dim = (long)sp_panel_features(&job->in[0].tensor);
    a->keep = (long)keep_of(job);
    a->lane0 = 16 * (long)from, a->lane1 = 16 * (long)to;
    return true;
}

static const sp_slot slots[] = {
    {SP_F32_PANELS}, {.layouts = SP_IN(ROWS), .dtypes = SP_OF(I64) | SP_OF(I32), .constant = true}};

const sp_panel_kernel sp_panel_interact = {.name = "interact",
                                           .portable = sp_kernel_interact,
                                           .op = SP_OP_Interact,
                                           .prepare = prepare,
                                           .check = check,
                                           .work = work,
                                           .fill = fill,
                                           .slots = {slots, SP_COUNT(slots), 1, {SP_F32_PANELS}},
                                           .folds = SP_FOLD_LOOKUPS};
