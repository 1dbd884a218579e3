/* Embed: y = table0[ids0] + table1[ids1] + ...: a row of each table for each place, summed in double. The ids
 * broadcast against each other; a negative id counts from the end, one outside of its table is an error. With attribute
 * column only that element of the last dim of the ids counts. */
#include "builtin/view.h"

/* acc (H) += the row of `table` that `id` names */
static sparta_status add_row(sparta_ctx *cx, const sparta_tensor *table, int64_t id, double *acc)
{
    int64_t row;
    SP_TRY(sp_builtin_index(cx, "Embed", id, table->dim[0], &row));
    for (int64_t j = 0; j < table->dim[1]; j++)
        acc[j] += sp_element_get(table->dtype, table->data, row * table->stride[0] + j * table->stride[1]);
    return SPARTA_OK;
}

/* The sum for the place at `index` of the ids' common dims. */
static sparta_status add_rows(sparta_ctx *cx, const sp_op_args *args, const sparta_tensor *ids,
                              const int64_t *index, double *acc)
{
    for (int64_t j = 0; j < args->in[0].dim[1]; j++) acc[j] = 0;
    for (int i = 0; i < args->n_in / 2; i++) {
        int64_t at = 0;
        for (int axis = 0; axis < ids[i].rank; axis++) at += index[axis] * ids[i].stride[axis];
        SP_TRY(add_row(cx, &args->in[2 * i], sp_element_get_int(ids[i].dtype, ids[i].data, at), acc));
    }
    return SPARTA_OK;
}

sparta_status sp_builtin_Embed(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0];
    int places = out->rank - 1, n = args->n_in / 2;
    sparta_tensor ids[4];
    if (args->n_in % 2 || n > (int)SP_COUNT(ids))
        return sp_fail(cx, SPARTA_E_USAGE, "Embed: %d inputs; it takes pairs, up to 4", args->n_in);
    const sp_attr *column = sp_attr_find(args->attrs, "column");
    for (int i = 0; i < n; i++) {
        sparta_tensor used = args->in[2 * i + 1];
        if (column && (used.rank < 1 || column->i < 0 || column->i >= used.dim[used.rank - 1]))
            return sp_fail(cx, SPARTA_E_RANGE, "Embed: the ids have no column %lld", (long long)column->i);
        if (column) used = sp_view_drop(&used, used.rank - 1, column->i);
        SP_TRY(sp_tensor_broadcast(cx, &used, places, out->dim, &ids[i]));
    }
    double *acc = sp_alloc_array(cx, (size_t)out->dim[places], sizeof *acc);
    SP_NEED(cx, acc);
    sparta_status status = SPARTA_OK;
    for (sp_cursor w = sp_cursor_begin(places, out->dim, 1, &out); w.more && status == SPARTA_OK;
         sp_cursor_next(&w)) {
        status = add_rows(cx, args, ids, w.index, acc);
        for (int64_t j = 0; status == SPARTA_OK && j < out->dim[places]; j++)
            sp_element_set(out->dtype, out->data, w.at[0] + j * out->stride[places], acc[j]);
    }
    sp_free(cx, acc);
    return status;
}
