/* embed: sums of table rows. in: table0, ids0, table1, ids1, ...: tables (V, H) in rows, ids broadcastable to the output's leading dims. */
#include "panel/common.h"
#include "panel/vector.h"
#include "panel/kernel_embed.h"

static int tables_of(const sparta_job *job)
{
    return job->n_in / 2;
}

static sparta_status prepare(sparta_ctx *cx, sparta_arena *arena, sparta_job *job)
{
    (void)arena;
    if (job->n_in < 2 || job->n_in % 2)
        return sparta_fail(cx, SPARTA_E_FORMAT, "%s: tables and ids must come in pairs", job->node->name);
    return SPARTA_OK;
}

static sparta_status check(sparta_ctx *cx, const sparta_job *job)
{
    const sparta_tensor *y = &job->out[0].tensor;
    const int64_t features = sparta_panel_features(y);
    SPARTA_TRY(sparta_panel_want(cx, job, &job->out[0], features, "the output"));
    for (int i = 0; i < tables_of(job); i++) {
        const sparta_operand *t = &job->in[2 * i], *ids = &job->in[2 * i + 1];
        sparta_tensor view;
        if (t->kind != SPARTA_OPERAND_ROWS || t->tensor.rank != 2 || t->tensor.dim[1] != features ||
            t->tensor.dtype != SPARTA_F32 || !sparta_tensor_contiguous(&t->tensor) || !t->tensor.data)
            return sparta_fail(cx, SPARTA_E_SHAPE, "%s: table %d does not fit", job->node->name, i);
        if (ids->kind != SPARTA_OPERAND_ROWS ||
            (ids->tensor.dtype != SPARTA_I64 && ids->tensor.dtype != SPARTA_I32))
            return sparta_fail(cx, SPARTA_E_DTYPE, "%s: ids %d must be i32 or i64", job->node->name, i);
        SPARTA_TRY(sparta_tensor_broadcast(cx, &ids->tensor, y->rank - 1, y->dim, &view));
    }
    return SPARTA_OK;
}

static sparta_status ready(sparta_ctx *cx, const sparta_job *job)
{
    for (int i = 0; i < tables_of(job); i++) {
        const sparta_tensor *ids = &job->in[2 * i + 1].tensor;
        const int64_t rows = job->in[2 * i].tensor.dim[0];
        const sparta_tensor *one[1] = {ids};
        for (sparta_walk w = sparta_walk_begin(ids->rank, ids->dim, 1, one); w.more; sparta_walk_next(&w)) {
            int64_t id = sparta_element_get_int(ids->dtype, ids->data, w.at[0]);
            if (id < -rows || id >= rows)
                return sparta_fail(
                    cx, SPARTA_E_RANGE,
                    "%s: id %ld is outside of the table's %ld rows; check the input that holds it",
                    job->node->name, (long)id, (long)rows);
        }
    }
    return SPARTA_OK;
}

static size_t work(const sparta_job *job)
{
    return (size_t)tables_of(job) * SPARTA_PANEL * sizeof(float *);
}

/* Element offset of token t in ids broadcast to the output's leading dims. */
static int64_t id_at(const sparta_tensor *ids, const sparta_tensor *y, int64_t t)
{
    int64_t at = 0;
    for (int d = y->rank - 2, i = ids->rank - 1; d >= 0; d--, i--) {
        if (i >= 0 && ids->dim[i] != 1) at += t % y->dim[d] * ids->stride[i];
        t /= y->dim[d];
    }
    return at;
}

static bool fill(const sparta_job *job, const sparta_place *at, sparta_panel_args *out)
{
    struct sparta_embed_args *a = &out->embed;
    const float **row = (const float **)(void *)at->work;
    const int64_t features = sparta_panel_features(&job->out[0].tensor), token0 = at->panel * SPARTA_PANEL;
    int64_t from, to;
    sparta_panel_share(features, 16, at, &from, &to);
    a->tables = tables_of(job);
    a->count = (long)SPARTA_MIN(job->tokens - token0, SPARTA_PANEL);
    for (int i = 0; i < a->tables; i++) {
        const sparta_tensor *t = &job->in[2 * i].tensor, *ids = &job->in[2 * i + 1].tensor;
        for (long l = 0; l < a->count; l++) {
            int64_t id =
                sparta_element_get_int(ids->dtype, ids->data, id_at(ids, &job->out[0].tensor, token0 + l));
            if (id < 0) id += t->dim[0];
            row[i * SPARTA_PANEL + l] = (const float *)t->data + id * features;
        }
    }
    a->row = row;
    a->y = sparta_panel_at(&job->out[0], at);
    a->f0 = (long)from, a->f1 = (long)to;
    return to > from;
}

static bool takes(sparta_op_id op)
{
    return op == SPARTA_OP_Embed;
}

const sparta_panel_kernel sparta_panel_embed = {
    "embed", sparta_kernel_embed, takes, prepare, check, ready, work, fill};
