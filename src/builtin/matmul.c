/* MatMul: y[..., i, j] = sum over k of a[..., i, k] b[..., k, j]. The leading dims broadcast; a vector on the
 * left is a row, on the right a column, and its dim does not appear in y. Floats are summed in double,
 * integers wrap. */
#include "builtin/product.h"

/* Put a dim of size 1 at `at`. */
static sparta_tensor widen(const sparta_tensor *t, int at)
{
    sparta_tensor v = *t;
    for (int i = t->rank; i > at; i--) {
        v.dim[i] = t->dim[i - 1];
        v.stride[i] = t->stride[i - 1];
    }
    v.rank++;
    v.dim[at] = 1;
    v.stride[at] = 0;
    return v;
}

sparta_status sp_builtin_MatMul(sparta_ctx *cx, const sp_op_args *args)
{
    sparta_tensor a = args->in[0], b = args->in[1], out = args->out[0];
    if (a.rank == 1) {
        a = widen(&a, 0);
        out = widen(&out, b.rank == 1 ? 0 : out.rank - 1);
    }
    if (b.rank == 1) {
        b = widen(&b, 1);
        out = widen(&out, out.rank);
    }
    int batch = out.rank - 2;
    sparta_tensor a_batch = sp_view_head(&a, a.rank - 2), b_batch = sp_view_head(&b, b.rank - 2);
    SP_TRY(sp_tensor_broadcast(cx, &a_batch, batch, out.dim, &a_batch));
    SP_TRY(sp_tensor_broadcast(cx, &b_batch, batch, out.dim, &b_batch));
    const sparta_tensor *all[] = {&a_batch, &b_batch, &out};
    for (sp_cursor w = sp_cursor_begin(batch, out.dim, 3, all); w.more; sp_cursor_next(&w)) {
        sparta_tensor x = sp_view_at(&a, w.at[0]), y = sp_view_at(&b, w.at[1]), z = sp_view_at(&out, w.at[2]);
        sp_matrix left = sp_matrix_of(&x, false), right = sp_matrix_of(&y, false);
        z = sp_view_tail(&z, batch);
        SP_TRY(sp_product(cx, &left, &right, &z));
    }
    return SPARTA_OK;
}
