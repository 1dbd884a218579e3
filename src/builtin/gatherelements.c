/* GatherElements: y[i, j, k] = x[indices[i, j, k], j, k] when attribute axis (0) is 0, and so on. y has the
 * shape of indices. */
#include "builtin/view.h"

enum { SOME = 256 }; /* indices that are looked at before their elements are moved */

typedef struct picker {
    const sparta_tensor *x, *indices, *out;
    int axis;
    bool bad; /* an index was out of range */
} picker;

/* n elements: to[i] = from[at[i] + i * step] */
#define PICK(T)                                                                                              \
    static void pick_##T(const sparta_tensor *x, int64_t from, const int64_t *at, int64_t step, void *to,    \
                         int64_t n)                                                                          \
    {                                                                                                        \
        const char *data = (const char *)x->data + from * (int64_t)sizeof(T);                                \
        for (int64_t i = 0; i < n; i++)                                                                      \
            __builtin_memcpy((T *)to + i, data + (at[i] + i * step) * (int64_t)sizeof(T), sizeof(T));        \
    }
SP_EACH_SIZE(PICK)

static void pick_rows(void *arg, int64_t from, int64_t to)
{
    picker *p = arg;
    const int last = p->out->rank - 1;
    const size_t size = sparta_dtype_size(p->x->dtype);
    const int64_t n = p->out->dim[last], step = p->axis == last ? 0 : p->x->stride[last];
    int64_t at[SOME];
    bool good = true;
    for (int64_t row = from; row < to; row++) {
        const int64_t begin = sp_view_row_but(p->x, p->out, p->axis, row);
        for (int64_t i = 0; i < n; i += SOME) {
            const int64_t some = SP_MIN(n - i, (int64_t)SOME), first = row * n + i;
            good &=
                sp_builtin_offsets(p->indices, first, some, p->x->dim[p->axis], p->x->stride[p->axis], at);
            SP_BY_SIZE(size, pick, p->x, begin + i * step, at, step,
                       (char *)p->out->data + first * (int64_t)size, some);
        }
    }
    if (!good) __atomic_store_n(&p->bad, true, __ATOMIC_RELAXED);
}

static sparta_status gather(sparta_ctx *cx, const sp_op_args *args)
{
    picker p = {.x = &args->in[0], .indices = &args->in[1], .out = &args->out[0]};
    int64_t rows = 1;
    SP_TRY(sp_builtin_axis(cx, "GatherElements", sp_attr_int(args->attrs, "axis", 0), p.x->rank, &p.axis));
    const int last = p.out->rank - 1;
    for (int i = 0; i < p.out->rank; i++)
        if (i != p.axis && p.out->dim[i] > p.x->dim[i])
            return sp_fail(cx, SPARTA_E_RANGE,
                           "GatherElements: dim %d of the indices is %lld, that of x %lld", i,
                           (long long)p.out->dim[i], (long long)p.x->dim[i]);
    if (sparta_tensor_elements(p.out) == 0) return SPARTA_OK;
    if (p.x->dim[p.axis] == 0) return sp_builtin_check_indices(cx, "GatherElements", p.indices, 0);
    for (int i = 0; i < last; i++) rows *= p.out->dim[i];
    SP_TRY(sp_ctx_share(cx, rows, 16 * p.out->dim[last], pick_rows, &p));
    return p.bad ? sp_builtin_check_indices(cx, "GatherElements", p.indices, p.x->dim[p.axis]) : SPARTA_OK;
}

SP_REFERENCE(GatherElements, sp_builtin_dense(cx, args, gather))
