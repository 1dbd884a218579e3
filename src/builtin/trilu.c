/* Trilu: y = x where column - row >= k (attribute upper=1) or <= k (upper=0), else zero, in the last two
 * dims. */
#include "builtin/elementwise.h"

sparta_status sp_builtin_Trilu(sparta_ctx *cx, const sp_op_args *args)
{
    (void)cx;
    const sparta_tensor *x = &args->in[0], *out = &args->out[0], *both[] = {x, out};
    bool upper = sp_attr_int(args->attrs, "upper", 1);
    int64_t k = sp_op_has(args, 1) ? sp_element_get_int(args->in[1].dtype, args->in[1].data, 0) : 0;
    size_t size = sparta_dtype_size(x->dtype);
    static const char zero[8];
    for (sp_walk w = sp_walk_begin(out->rank, out->dim, 2, both); w.more; sp_walk_next(&w)) {
        int64_t diagonal = w.index[w.rank - 1] - w.index[w.rank - 2];
        bool keep = upper ? diagonal >= k : diagonal <= k;
        sp_builtin_move(out->data, w.at[1], keep ? x->data : zero, keep ? w.at[0] : 0, size);
    }
    return SPARTA_OK;
}
