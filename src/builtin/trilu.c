/* Trilu: y = x where column - row >= k (attribute upper=1) or <= k (upper=0), else zero, in the last two
 * dims. */
#include "builtin/elementwise.h"

sparta_status sparta_builtin_Trilu(sparta_ctx *cx, const sparta_op_args *args)
{
    (void)cx;
    const sparta_tensor *x = &args->in[0], *out = &args->out[0], *both[] = {x, out};
    bool upper = sparta_attr_int(args->attrs, "upper", 1);
    int64_t k = sparta_op_has(args, 1) ? sparta_element_get_int(args->in[1].dtype, args->in[1].data, 0) : 0;
    size_t size = sparta_dtype_size(x->dtype);
    static const char zero[8];
    for (sparta_walk w = sparta_walk_begin(out->rank, out->dim, 2, both); w.more; sparta_walk_next(&w)) {
        int64_t diagonal = w.index[w.rank - 1] - w.index[w.rank - 2];
        bool keep = upper ? diagonal >= k : diagonal <= k;
        sparta_builtin_move(out->data, w.at[1], keep ? x->data : zero, keep ? w.at[0] : 0, size);
    }
    return SPARTA_OK;
}
