/* attention_rows: attention on rows. in: q (B, S, heads*E), k and v (B, T, groups*E) or as a cache has them, (B, groups, T, E), in which keys may have
 * any room behind the last; mask? as attention takes it; out: rows. */
#include "panel/common.h"
#include <string.h>
#include "panel/vector.h"
#include "panel/kernel_attention_rows.h"

typedef struct strides {
    int64_t item, group, key, features;
} strides;

/* k or v: (B, T, groups*D) or (B, groups, T, D). */
static strides strides_of(const sp_job *job, int i)
{
    const sparta_tensor *t = &job->in[i].tensor;
    if (t->rank == 4) return (strides){t->stride[0], t->stride[1], t->stride[2], t->dim[3]};
    const int64_t each = t->dim[2] / job->groups;
    return (strides){t->stride[0], each, t->stride[1], each};
}

static sparta_status fits(sparta_ctx *cx, const sp_job *job, int i)
{
    const sparta_tensor *q = &job->in[0].tensor, *t = &job->in[i].tensor;
    const bool whole = t->rank == 4   ? t->dim[1] == job->groups
                       : t->rank == 3 ? t->dim[2] % job->groups == 0
                                      : false;
    if (whole && t->dim[0] == q->dim[0] && t->dim[t->rank - 2] == sp_attention_keys(job) &&
        (t->stride[t->rank - 1] == 1 || t->dim[t->rank - 1] <= 1) && strides_of(job, i).features > 0)
        return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_SHAPE, "%s: %s does not fit q", job->node->name, i == 1 ? "k" : "v");
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    const sparta_tensor *q = &job->in[0].tensor;
    const int64_t heads = job->heads, groups = job->groups, columns = sp_panel_features(q);
    if (q->rank != 3 || heads < 1 || groups < 1 || heads % groups || columns < heads || columns % heads)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "%s: %ld features of q do not make %ld heads, nor those %ld groups", job->node->name,
                       (long)columns, (long)heads, (long)groups);
    for (int i = 1; i < 3; i++) SP_TRY(fits(cx, job, i));
    if (strides_of(job, 1).features != columns / heads)
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: k does not fit q", job->node->name);
    SP_TRY(sp_panel_want(cx, job, 0, columns));
    SP_TRY(sp_panel_want(cx, job, -1, strides_of(job, 2).features * heads));
    return sp_attention_check_mask(cx, job);
}

/* A block of keys, turned, and the scores of ROWS queries. */
static size_t work(const sp_job *job)
{
    const int64_t dim = sp_panel_features(&job->in[0].tensor) / job->heads;
    return (size_t)(dim * 16 + ROWS * (sp_attention_keys(job) + 32)) * sizeof(float);
}

/* Without keys the answer is a sum of nothing. */
static void answer_nothing(const struct sp_attention_args *a)
{
    const long count = SP_MIN(a->tokens - a->token0, (long)SP_PANEL);
    for (long t = 0; t < count; t++)
        memset(a->o + (t * a->heads + a->head0) * a->dim_v, 0,
               (size_t)((a->head1 - a->head0) * a->dim_v) * sizeof(float));
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_attention_args *a = &out->attention;
    const strides k = strides_of(job, 1), v = strides_of(job, 2);
    sp_attention_fill(job, at, a);
    a->k = job->in[1].tensor.data;
    a->v = job->in[2].tensor.data;
    a->k_item = (long)k.item, a->k_group = (long)k.group, a->k_key = (long)k.key;
    a->v_item = (long)v.item, a->v_group = (long)v.group, a->v_key = (long)v.key;
    a->dim_v = (long)v.features;
    if (!a->keys) answer_nothing(a);
    return a->keys && a->head1 > a->head0;
}

static const sp_slot slots[] = {{SP_F32_ROWS},
                                {SP_F32_ROWS, .beyond = true, .gaps = true},
                                {SP_F32_ROWS, .beyond = true, .gaps = true},
                                {SP_F32_ROWS, .maybe = true}};

const sp_panel_kernel sp_panel_attention_rows = {.name = "attention_rows",
                                                 .portable = sp_kernel_attention_rows,
                                                 .op = SP_OP_Attention,
                                                 .prepare = sp_attention_prepare,
                                                 .check = check,
                                                 .work = work,
                                                 .fill = fill,
                                                 .slots = {slots, SP_COUNT(slots), 0, {SP_F32_ROWS}}};
