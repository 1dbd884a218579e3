/* attention: in: q, k, v in panels, mask? in rows, broadcastable to (items, heads, queries, keys) or to that of a part of the items. Heads of
 * q and k have one size, those of v and of the output another; groups of q's heads share one of k and v. */
#include "panel/common.h"
#include <math.h>
#include <string.h>
#include "panel/vector.h"
#include "panel/kernel_attention.h"

sparta_status sp_attention_prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    (void)cx, (void)arena;
    job->heads = sp_attr_int(&job->node->attrs, "heads", 0);
    job->groups = sp_attr_int(&job->node->attrs, "kv_heads", job->heads);
    return SPARTA_OK;
}

int sp_attention_mask(const sp_node *attention)
{
    const sp_value *m = attention->n_in > 3 ? attention->in[3] : NULL;
    if (!m) return SP_MASK_NONE;
    return m->dims.rank > 1 && !sp_expr_is(m->dims.dim[m->dims.rank - 2], 1) ? SP_MASK_FULL : SP_MASK_KEY;
}

/* Items that the mask is for; others have that of the item so many before them. */
static int64_t mask_items(const sp_job *job)
{
    const sparta_tensor *m = &job->in[3].tensor;
    const int64_t items = job->in[0].tensor.dim[0];
    return m->rank == 4 && m->dim[0] > 0 && items % m->dim[0] == 0 ? m->dim[0] : items;
}

int64_t sp_attention_keys(const sp_job *job)
{
    const sparta_tensor *k = &job->in[1].tensor;
    return k->dim[k->rank == 4 ? 2 : 1];
}

sparta_status sp_attention_check_mask(sparta_ctx *cx, const sp_job *job)
{
    sparta_tensor view;
    if (!sp_panel_has(job, 3)) return SPARTA_OK;
    return sp_tensor_broadcast(
        cx, &job->in[3].tensor, 4,
        (int64_t[]){mask_items(job), job->heads, job->in[0].tensor.dim[1], sp_attention_keys(job)}, &view);
}

/* The list, checked before it is read: it may have been computed by anything. Blocks are no longer than all keys, so that sizes of scratch are those of keys. */
static sparta_status check_list(sparta_ctx *cx, const sp_job *job)
{
    const sparta_tensor *q = &job->in[0].tensor, *list = &job->in[4].tensor;
    const int64_t block = sp_attr_int(&job->node->attrs, "block", 1), queries = q->dim[1];
    if (!sp_panel_has(job, 4)) return SPARTA_OK;
    if (block >= 1 && block <= INT32_MAX && list->rank == 4 && sp_tensor_contiguous(list) &&
        list->dim[0] == q->dim[0] && list->dim[1] == job->heads &&
        list->dim[2] == queries / block + (queries % block != 0))
        return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_SHAPE, "%s: the list is not one of blocks of %lld queries", job->node->name,
                   (long long)block);
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    const sparta_tensor *q = &job->in[0].tensor, *k = &job->in[1].tensor, *v = &job->in[2].tensor;
    const int64_t heads = job->heads, groups = job->groups, rows_q = sp_panel_features(q),
                  rows_v = sp_panel_features(v);
    if (heads < 1 || groups < 1 || heads % groups || rows_q < heads || rows_q % heads || rows_v < groups ||
        rows_v % groups || q->rank != 3 || k->rank != 3 || v->rank != 3)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "%s: %ld features of q and %ld of v do not make %ld heads and %ld of k and v",
                       job->node->name, (long)rows_q, (long)rows_v, (long)heads, (long)groups);
    SP_TRY(sp_panel_want(cx, job, 0, rows_q));
    SP_TRY(sp_panel_want(cx, job, -1, rows_v / groups * heads));
    for (int i = 1; i < 3; i++) {
        const sp_operand *o = &job->in[i];
        if (o->slotted || o->tensor.dim[2] != (i == 1 ? rows_q / heads * groups : rows_v) ||
            o->tensor.dim[0] != q->dim[0] || o->tensor.dim[1] != k->dim[1])
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: %s does not fit q", job->node->name, i == 1 ? "k" : "v");
    }
    SP_TRY(check_list(cx, job));
    return sp_attention_check_mask(cx, job);
}

/* Blocks of keys that may be taken, of which there are so many rows of scores: as many as a list has, or all of them. */
static int64_t most_taken(const sp_job *job, bool skip)
{
    const int64_t keys = sp_attention_keys(job), block = sp_attr_int(&job->node->attrs, "block", 1),
                  all = keys / block + (keys % block != 0);
    return skip ? SP_MIN(all, job->in[4].tensor.dim[3]) : all;
}

static int64_t score_rows(const sp_job *job, bool skip)
{
    if (!sp_panel_has(job, 4)) return sp_attention_keys(job) + 8;
    const int64_t block = SP_MIN(sp_attr_int(&job->node->attrs, "block", 1), sp_attention_keys(job));
    return most_taken(job, skip) * SP_PIECE_ROWS(block);
}

/* Rows of 64 floats: q, scores, and a mask turned, should it be one of queries. The blocks that are taken are numbers behind them. */
static int64_t work_rows(const sp_job *job, bool skip)
{
    const int64_t mask = sp_panel_has(job, 3) ? sp_attention_keys(job) + 16 : 0;
    return score_rows(job, skip) + sp_panel_features(&job->in[0].tensor) / job->heads + mask;
}

static size_t work_of(const sp_job *job, bool skip)
{
    const int64_t taken = sp_panel_has(job, 4) ? most_taken(job, skip) : 0;
    return (size_t)work_rows(job, skip) * SP_PANEL * sizeof(float) + (size_t)taken * sizeof(int);
}

static size_t work(const sp_job *job)
{
    return work_of(job, false);
}

static size_t work_skip(const sp_job *job)
{
    return work_of(job, true);
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

enum { FAR = 1 << 29 }; /* more than there are keys */

static long sees(const sp_job *job, const char *side)
{
    const int64_t n = sp_attr_int(&job->node->attrs, side, -1);
    return n < 0 || n > FAR ? FAR : (long)n;
}

void sp_attention_fill(const sp_job *job, const sp_place *at, struct sp_attention_args *a)
{
    const int64_t heads = job->heads;
    a->head0 = (long)(heads * at->part / at->parts);
    a->head1 = (long)(heads * (at->part + 1) / at->parts);
    a->q = sp_panel_at(&job->in[0], at);
    a->o = sp_panel_at(&job->out[0], at);
    a->mask = 0;
    a->mask_item = a->mask_head = a->mask_query = a->mask_key = 0;
    a->mask_items = 1;
    a->mask_kind = sp_attention_mask(job->node);
    if (sp_panel_has(job, 3)) {
        a->mask = job->in[3].tensor.data;
        a->mask_items = SP_MAX((long)mask_items(job), 1);
        mask_strides(&job->in[3].tensor, a);
    }
    a->token0 = (long)at->panel * SP_PANEL;
    a->tokens = (long)job->tokens;
    a->queries = (long)job->in[0].tensor.dim[1];
    a->keys = (long)sp_attention_keys(job);
    a->heads = (long)heads;
    a->share = (long)(heads / job->groups);
    a->dim_k = (long)(sp_panel_features(&job->in[0].tensor) / heads);
    a->left = sees(job, "left");
    a->right = sees(job, "right");
    a->window = a->left < FAR || a->right < FAR;
    a->hidden = sp_attr_float(&job->node->attrs, "hidden", -INFINITY);
    a->cap = sp_attr_float(&job->node->attrs, "softcap", 0);
    a->capped = a->cap > 0;
    a->scale = sp_attr_float(&job->node->attrs, "scale", 1 / sqrtf((float)a->dim_k)); /* 0 is a scale too */
    a->nan_to_zero = (int)sp_attr_int(&job->node->attrs, "nan_to_zero", 0);
    a->list = 0, a->taken = 0;
    a->listed = SP_LIST_NONE;
    a->block = a->room = 1;
    a->rows = 0;
    a->work = at->work;
}

static bool fill_some(const sp_job *job, const sp_place *at, bool skip, sp_panel_args *out)
{
    struct sp_attention_args *a = &out->attention;
    sp_attention_fill(job, at, a);
    a->rows = (long)score_rows(job, skip);
    if (sp_panel_has(job, 4)) {
        a->list = job->in[4].tensor.data;
        a->room = (long)job->in[4].tensor.dim[3];
        a->block = (long)sp_attr_int(&job->node->attrs, "block", 1);
        a->taken = (int *)(void *)(at->work + work_rows(job, skip) * SP_PANEL);
        a->listed = skip ? SP_LIST_SKIP : SP_LIST_HIDE;
    }
    a->k = job->in[1].at;
    a->v = job->in[2].at;
    a->gap_k = (long)job->in[1].lanes.panel;
    a->gap_v = (long)job->in[2].lanes.panel;
    a->dim_v = (long)(sp_panel_features(&job->in[2].tensor) / job->groups);
    if (!a->keys) answer_nothing(a);
    return a->keys && a->head1 > a->head0;
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    return fill_some(job, at, false, out);
}

static bool fill_skip(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    return fill_some(job, at, true, out);
}

#define I32_ROWS .layouts = SP_IN(ROWS), .dtypes = SP_OF(I32)
static const sp_slot slots[] = {{SP_F32_PANELS},
                                {SP_F32_PANELS, .beyond = true},
                                {SP_F32_PANELS, .beyond = true},
                                {SP_F32_ROWS, .maybe = true},
                                {I32_ROWS, .maybe = true, .beyond = true}},
                     slots_skip[] = {{SP_F32_PANELS},
                                     {SP_F32_PANELS, .beyond = true},
                                     {SP_F32_PANELS, .beyond = true},
                                     {SP_F32_ROWS, .maybe = true},
                                     {I32_ROWS, .beyond = true}};

const sp_panel_kernel sp_panel_attention = {.name = "attention",
                                            .portable = sp_kernel_attention,
                                            .op = SP_OP_Attention,
                                            .prepare = sp_attention_prepare,
                                            .check = check,
                                            .work = work,
                                            .fill = fill,
                                            .slots = {slots, SP_COUNT(slots), 0, {SP_F32_PANELS}},
                                            .folds = SP_FOLD_HEADS};

/* Keys of blocks that are not listed are not looked at. */
const sp_panel_kernel sp_panel_attention_skip = {
    .name = "attention_skip",
    .portable = sp_kernel_attention_skip,
    .op = SP_OP_Attention,
    .prepare = sp_attention_prepare,
    .check = check,
    .work = work_skip,
    .fill = fill_skip,
    .slots = {slots_skip, SP_COUNT(slots_skip), 0, {SP_F32_PANELS}}};
