/* ScatterND: y = x, then y[indices[t, 0], indices[t, 1], ...] = updates[t] for each tuple t along the last
 * dim of indices, in order. Attribute reduction ("none", "add", "mul", "max", "min") combines with what is
 * there, also for repeated tuples. */
#include "builtin/view.h"
#include <string.h>

/* to = to `reduction` from, by the operator of that meaning. It reads each element of `to` before it writes
 * it. */
static sparta_status put(sparta_ctx *cx, const char *reduction, const sparta_tensor *from,
                         const sparta_tensor *to)
{
    static const struct {
        const char *name;
        sp_builtin_fn fn;
    } table[] = {
        {"add", sp_builtin_Add}, {"mul", sp_builtin_Mul}, {"max", sp_builtin_Max}, {"min", sp_builtin_Min}};
    sparta_tensor in[] = {*to, *from};
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (!strcmp(table[i].name, reduction))
            return table[i].fn(cx, &(sp_op_args){.n_in = 2, .n_out = 1, .in = in, .out = to});
    return sp_tensor_copy(cx, from, to);
}

/* One after the other, on one thread: of equal tuples the last counts. */
static sparta_status scatter(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *indices = &args->in[1], *updates = &args->in[2], *out = &args->out[0];
    const char *reduction = sp_attr_string(args->attrs, "reduction", "none");
    const bool plain = !strcmp(reduction, "none"),
               sums = !strcmp(reduction, "add") && out->dtype == SPARTA_F32; /* as bags of embeddings are */
    int64_t *offset, n = 1;
    size_t bytes;
    SP_TRY(sp_builtin_tuples(cx, "ScatterND", out, indices, 0, &offset, &bytes));
    for (int i = 0; i < indices->rank - 1; i++) n *= indices->dim[i];
    const int64_t size = (int64_t)sparta_dtype_size(out->dtype), each = (int64_t)bytes / size;
    sparta_status status = sp_tensor_copy(cx, &args->in[0], out);
    for (int64_t i = 0; i < n && status == SPARTA_OK; i++) {
        const char *from = (const char *)updates->data + i * (int64_t)bytes;
        char *to = (char *)out->data + offset[i];
        if (plain) {
            sp_move(to, from, bytes);
            continue;
        }
        if (sums) {
            for (int64_t k = 0; k < each; k++) ((float *)to)[k] += ((const float *)from)[k];
            continue;
        }
        const sparta_tensor a = sparta_tensor_view(out->dtype, 1, &each, (void *)from),
                            b = sparta_tensor_view(out->dtype, 1, &each, to);
        status = put(cx, reduction, &a, &b);
    }
    sp_free(cx, offset);
    return status;
}

SP_REFERENCE(ScatterND, sp_builtin_dense(cx, args, scatter))
