/* Linear: y = x W and then the words of attribute `epilogue` in order (epilogue.h), where W is w (K, N) or, with attribute
 * transposed=1, the transpose of w (N, K). The leading dims of x are rows. bias (N) and residual (the shape of y) may be absent. One
 * rounding at the end. */
#include "builtin/epilogue.h"
#include "builtin/product.h"

typedef struct row_end { /* what happens to a finished row: (N) */
    sp_words words;
    sparta_tensor y, operand[2]; /* the last dim; bias, residual */
} row_end;

static void finish(const row_end *e, const double *acc)
{
    for (int64_t j = 0; j < e->y.dim[0]; j++) {
        double v = acc[j];
        for (int i = 0; i < e->words.n; i++) {
            const sp_word *word = sp_word_row(e->words.word[i]);
            const sparta_tensor *from = &e->operand[word->slot == 3];
            const double operand =
                word->slot ? sp_element_get(from->dtype, from->data, j * from->stride[0]) : 0;
            v = sp_word_apply(word, v, operand);
        }
        sp_element_set(e->y.dtype, e->y.data, j * e->y.stride[0], v);
    }
}

static sparta_tensor last_dim(const sparta_tensor *t, int64_t at)
{
    sparta_tensor v = sp_view_at(t, at);
    return sp_view_tail(&v, v.rank - 1);
}

sparta_status sp_builtin_Linear(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor x = args->in[0], y = args->out[0], residual = y;
    sp_matrix w = sp_matrix_of(&args->in[1], sp_attr_int(args->attrs, "transposed", 0)); /* (K, N) */
    row_end end;
    const char *problem = sp_words_of(args->attrs, sp_op_has(args, 2), sp_op_has(args, 3), &end.words);
    if (problem)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "Linear: %s: \"%.80s\"", problem,
                       sp_attr_string(args->attrs, "epilogue", ""));
    if (sp_op_has(args, 2)) end.operand[0] = last_dim(&args->in[2], 0);
    if (sp_op_has(args, 3)) SP_TRY(sp_tensor_broadcast(cx, &args->in[3], y.rank, y.dim, &residual));
    double *row = sp_alloc_array(cx, (size_t)w.rows + (size_t)w.cols, sizeof *row), *acc = row + w.rows;
    SP_NEED(cx, row);
    sparta_status status = SPARTA_OK;
    const sparta_tensor *all[] = {&x, &y, &residual};
    for (sp_cursor i = sp_cursor_begin(x.rank - 1, x.dim, 3, all); i.more && status == SPARTA_OK;
         sp_cursor_next(&i)) {
        sparta_tensor from = last_dim(&x, i.at[0]);
        sp_matrix_row(&(sp_matrix){from.dtype, from.data, 1, w.rows, 0, from.stride[0]}, 0, row);
        sp_product_row(row, &w, acc);
        end.y = last_dim(&y, i.at[1]);
        end.operand[1] = last_dim(&residual, i.at[2]);
        finish(&end, acc);
        status = sp_check_cancel(cx);
    }
    sp_free(cx, row);
    return status;
}
