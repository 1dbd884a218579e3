/* Gemm: y = alpha A B + beta C, where A is a or, with transA=1, its transpose, B likewise; C broadcasts to
 * (M, N) or is absent. */
#include "builtin/product.h"

sparta_status sp_builtin_Gemm(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *out = &args->out[0];
    double alpha = sp_attr_float(args->attrs, "alpha", 1), beta = sp_attr_float(args->attrs, "beta", 1);
    sp_matrix a = sp_matrix_of(&args->in[0], sp_attr_int(args->attrs, "transA", 0));
    sp_matrix b = sp_matrix_of(&args->in[1], sp_attr_int(args->attrs, "transB", 0));
    sparta_tensor c = {.rank = -1}, sum;
    if (sp_op_has(args, 2)) SP_TRY(sp_tensor_broadcast(cx, &args->in[2], 2, out->dim, &c));
    /* The product is kept wide until C is added: one rounding at the end. Integers stay integers. */
    bool real = sp_dtype_is_float(out->dtype);
    SP_TRY(sp_tensor_alloc(cx, real ? SPARTA_F64 : SPARTA_I64, 2, out->dim, &sum));
    sparta_status status = sp_product(cx, &a, &b, &sum);
    const sparta_tensor *all[] = {&sum, out, c.rank >= 0 ? &c : &sum};
    for (sp_cursor w = sp_cursor_begin(2, out->dim, 3, all); status == SPARTA_OK && w.more;
         sp_cursor_next(&w)) {
        if (real || alpha != 1 || beta != 1) {
            double v = alpha * sp_element_get(sum.dtype, sum.data, w.at[0]);
            if (c.rank >= 0) v += beta * sp_element_get(c.dtype, c.data, w.at[2]);
            sp_element_set(out->dtype, out->data, w.at[1], v);
        } else {
            uint64_t v = (uint64_t)sp_element_get_int(sum.dtype, sum.data, w.at[0]);
            if (c.rank >= 0) v += (uint64_t)sp_element_get_int(c.dtype, c.data, w.at[2]);
            sp_element_set_int(out->dtype, out->data, w.at[1], (int64_t)v);
        }
    }
    sp_free(cx, sum.data);
    return status;
}
