/* attention: in: q, k, v in panels, mask? in rows, broadcastable to (items, heads, queries, keys). Heads of q and k have one size,
 * those of v and of the output another. */
#include "panel/common.h"
#include <math.h>
#include <string.h>
#include "panel/vector.h"
#include "panel/kernel_attention.h"

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    (void)cx, (void)arena;
    job->heads = sp_attr_int(&job->node->attrs, "heads", 0);
    return SPARTA_OK;
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    const sparta_tensor *q = &job->in[0].tensor, *k = &job->in[1].tensor, *v = &job->in[2].tensor;
    const int64_t heads = job->heads, rows_k = sp_panel_features(q), rows_v = sp_panel_features(v);
    if (heads < 1 || rows_k < heads || rows_k % heads || rows_v < heads || rows_v % heads || q->rank != 3 ||
        k->rank != 3 || v->rank != 3)
        return sp_fail(cx, SPARTA_E_SHAPE, "%s: %ld features of q and %ld of v do not make %ld heads",
                       job->node->name, (long)rows_k, (long)rows_v, (long)heads);
    SP_TRY(sp_panel_want(cx, job, 0, rows_k));
    SP_TRY(sp_panel_want(cx, job, -1, rows_v));
    for (int i = 1; i < 3; i++) {
        const sp_operand *o = &job->in[i];
        if (o->slotted || o->tensor.dim[2] != (i == 1 ? rows_k : rows_v) || o->tensor.dim[0] != q->dim[0] ||
            o->tensor.dim[1] != k->dim[1])
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: %s does not fit q", job->node->name, i == 1 ? "k" : "v");
    }
    if (!sp_panel_has(job, 3)) return SPARTA_OK;
    sparta_tensor view;
    return sp_tensor_broadcast(cx, &job->in[3].tensor, 4, (int64_t[]){q->dim[0], heads, q->dim[1], k->dim[1]},
                               &view);
}

static size_t work(const sp_job *job)
{
    return (size_t)(job->in[1].tensor.dim[1] + 8 + sp_head_rows(job, 0)) * SP_PANEL * sizeof(float);
}

/* Strides of the mask along (item, head, query, key): 0 where it repeats. */
static void mask_strides(const sparta_tensor *m, struct sp_attention_args *a)
{
    long *stride[4] = {&a->mask_item, &a->mask_head, &a->mask_query, &a->mask_key};
    for (int i = 0; i < 4; i++) {
        int d = m->rank - 4 + i;
        *stride[i] = d >= 0 && m->dim[d] != 1 ? (long)m->stride[d] : 0;
    }
}

/* Without keys the answer is a sum of nothing. Like the kernel it writes whole vectors of 16 tokens. */
static void answer_nothing(const struct sp_attention_args *a)
{
    const long lanes = SP_MIN((a->tokens - a->token0 + 15) / 16 * 16, (long)SP_PANEL);
    for (long row = a->head0 * a->dim_v; row < a->head1 * a->dim_v; row++)
        memset(a->o + row * SP_PANEL, 0, (size_t)lanes * sizeof(float));
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_attention_args *a = &out->attention;
    const int64_t heads = job->heads;
    a->head0 = (long)(heads * at->part / at->parts);
    a->head1 = (long)(heads * (at->part + 1) / at->parts);
    a->q = sp_panel_at(&job->in[0], at);
    a->k = job->in[1].at;
    a->v = job->in[2].at;
    a->o = sp_panel_at(&job->out[0], at);
    a->gap_k = (long)job->in[1].lanes.panel;
    a->gap_v = (long)job->in[2].lanes.panel;
    a->mask = 0;
    a->mask_item = a->mask_head = a->mask_query = a->mask_key = 0;
    if (sp_panel_has(job, 3)) {
        a->mask = job->in[3].tensor.data;
        mask_strides(&job->in[3].tensor, a);
    }
    a->token0 = (long)at->panel * SP_PANEL;
    a->tokens = (long)job->tokens;
    a->queries = (long)job->in[0].tensor.dim[1];
    a->keys = (long)job->in[1].tensor.dim[1];
    a->dim_k = (long)sp_head_rows(job, 0);
    a->dim_v = (long)sp_head_rows(job, 2);
    a->scale = sp_attr_float(&job->node->attrs, "scale", 1 / sqrtf((float)a->dim_k)); /* 0 is a scale too */
    a->nan_to_zero = sp_attr_int(&job->node->attrs, "nan_to_zero", 0) != 0;
    a->work = at->work;
    if (!a->keys) answer_nothing(a);
    return a->keys && a->head1 > a->head0;
}

static const sp_slot slots[] = {{SP_F32_PANELS},
                                {SP_F32_PANELS, .beyond = true},
                                {SP_F32_PANELS, .beyond = true},
                                {SP_F32_ROWS, .maybe = true}};

const sp_panel_kernel sp_panel_attention = {.name = "attention",
                                            .portable = sp_kernel_attention,
                                            .op = SP_OP_Attention,
                                            .prepare = prepare,
                                            .check = check,
                                            .work = work,
                                            .fill = fill,
                                            .slots = {slots, SP_COUNT(slots), 0, {SP_F32_PANELS}}};
