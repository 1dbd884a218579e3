/* embed: sums of table rows. in: table0, ids0, table1, ids1, ...: tables (V, H) in rows, ids broadcastable to the output's leading dims; with
 * attribute column, what broadcasts is that column of the ids' last dim. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_embed.h"

static int tables_of(const sp_job *job)
{
    return job->n_in / 2;
}

static sparta_status prepare(sparta_ctx *cx, sp_arena *arena, sp_job *job)
{
    (void)arena;
    if (job->n_in < 2 || job->n_in % 2)
        return sp_fail(cx, SPARTA_E_FORMAT, "%s: tables and ids must come in pairs", job->node->name);
    return SPARTA_OK;
}

/* The ids of table i that are used: all of them, or one column of the last dim. False: there is no such column. */
static bool ids_of(const sp_job *job, int i, sparta_tensor *out)
{
    const sp_attr *column = sp_attr_find(&job->node->attrs, "column");
    *out = job->in[2 * i + 1].tensor;
    if (!column) return true;
    if (out->rank < 1 || column->i < 0 || column->i >= out->dim[out->rank - 1]) return false;
    out->rank--;
    if (out->data) out->data = (char *)out->data + (size_t)column->i * sparta_dtype_size(out->dtype);
    return true;
}

static sparta_status check(sparta_ctx *cx, const sp_job *job)
{
    const sparta_tensor *y = &job->out[0].tensor;
    const int64_t features = sp_panel_features(y);
    SP_TRY(sp_panel_want(cx, job, -1, features));
    for (int i = 0; i < tables_of(job); i++) {
        const sparta_tensor *t = &job->in[2 * i].tensor, *ids = &job->in[2 * i + 1].tensor;
        sparta_tensor used, view;
        if (t->rank != 2 || t->dim[1] != features || !sp_tensor_contiguous(t))
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: table %d does not fit", job->node->name, i);
        if (!sp_tensor_contiguous(ids) || !ids_of(job, i, &used))
            return sp_fail(cx, SPARTA_E_SHAPE, "%s: ids %d have gaps, or not the column that is asked for",
                           job->node->name, i);
        SP_TRY(sp_tensor_broadcast(cx, &used, y->rank - 1, y->dim, &view));
    }
    return SPARTA_OK;
}

static int64_t id_at(const sparta_tensor *ids, int64_t at)
{
    return ids->dtype == SPARTA_I64 ? ((const int64_t *)ids->data)[at] : ((const int32_t *)ids->data)[at];
}

/* Elements between one id and the next: ids lie without gaps, or are one column of such. */
static int64_t step_of(const sparta_tensor *ids)
{
    return ids->rank ? ids->stride[ids->rank - 1] : 1;
}

static sparta_status ready(sparta_ctx *cx, const sp_job *job)
{
    for (int i = 0; i < tables_of(job); i++) {
        const int64_t rows = job->in[2 * i].tensor.dim[0];
        sparta_tensor ids;
        if (!ids_of(job, i, &ids)) return sp_fail(cx, SPARTA_E_INTERNAL, "%s: ids", job->node->name);
        const int64_t n = sparta_tensor_elements(&ids), step = step_of(&ids);
        for (int64_t k = 0; k < n; k++) {
            const int64_t id = id_at(&ids, k * step);
            if (id < -rows || id >= rows)
                return sp_fail(cx, SPARTA_E_RANGE,
                               "%s: id %ld is outside of the table's %ld rows; check the input that holds it",
                               job->node->name, (long)id, (long)rows);
        }
    }
    return SPARTA_OK;
}

static size_t work(const sp_job *job)
{
    return (size_t)tables_of(job) * SP_PANEL * sizeof(float *);
}

/* Element offset of token t in ids broadcast to the output's leading dims. */
static int64_t offset_of(const sparta_tensor *ids, const sparta_tensor *y, int64_t t)
{
    int64_t at = 0;
    for (int d = y->rank - 2, i = ids->rank - 1; d >= 0; d--, i--) {
        if (i >= 0 && ids->dim[i] != 1) at += t % y->dim[d] * ids->stride[i];
        t /= y->dim[d];
    }
    return at;
}

void sp_panel_table_rows(const sp_job *job, int i, int64_t token0, long count, const float **row)
{
    const sparta_tensor *t = &job->in[2 * i].tensor, *y = &job->out[0].tensor;
    const int64_t features = t->dim[1];
    sparta_tensor ids;
    ids_of(job, i, &ids);
    for (long l = 0; l < count; l++) {
        int64_t id = id_at(&ids, offset_of(&ids, y, token0 + l));
        if (id < 0) id += t->dim[0];
        row[l] = (const float *)t->data + id * features;
    }
}

static bool fill(const sp_job *job, const sp_place *at, sp_panel_args *out)
{
    struct sp_embed_args *a = &out->embed;
    const float **row = (const float **)(void *)at->work;
    const int64_t features = sp_panel_features(&job->out[0].tensor), token0 = at->panel * SP_PANEL;
    int64_t from, to;
    sp_panel_share(features, 16, at, &from, &to);
    a->tables = tables_of(job);
    a->count = (long)SP_MIN(job->tokens - token0, SP_PANEL);
    for (int i = 0; i < a->tables; i++) sp_panel_table_rows(job, i, token0, a->count, row + i * SP_PANEL);
    for (long l = 0; l < a->tables * SP_PANEL;
         l++) /* rows lie anywhere: asked for now, they arrive together */
        for (int64_t f = from; f < to && l % SP_PANEL < a->count; f += 16) __builtin_prefetch(row[l] + f);
    a->row = row;
    a->y = sp_panel_at(&job->out[0], at);
    a->f0 = (long)from, a->f1 = (long)to;
    return to > from;
}

static const sp_slot slots[] = {{SP_F32_VECTOR}, {.layouts = SP_IN(ROWS), .dtypes = SP_OF(I64) | SP_OF(I32)}};

const sp_panel_kernel sp_panel_embed = {.name = "embed",
                                        .portable = sp_kernel_embed,
                                        .op = SP_OP_Embed,
                                        .prepare = prepare,
                                        .check = check,
                                        .ready = ready,
                                        .work = work,
                                        .fill = fill,
                                        .slots = {slots, SP_COUNT(slots), 2, {SP_F32_PANELS}},
                                        .folded = SP_FOLD_LOOKUPS};
