/* Trilu: y = x where column - row >= k (attribute upper=1) or <= k (upper=0), else zero, in the last two
 * dims. */
#include "builtin/view.h"
#include <string.h>

typedef struct triangle {
    const char *x;
    char *y;
    int64_t rows, columns, size, k;
    bool upper;
} triangle;

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i > n ? n : i;
}

/* Columns [first, end) of a row stay. */
static void keep_rows(void *arg, int64_t from, int64_t to)
{
    const triangle *t = arg;
    const int64_t size = t->size, n = t->columns;
    for (int64_t i = from; i < to; i++) {
        const int64_t row = i % t->rows; /* row + k of a hostile k does not overflow when k is clamped */
        const int64_t first = t->upper ? clamp(row + t->k, n) : 0,
                      end = t->upper ? n : clamp(row + t->k + 1, n);
        char *y = t->y + i * n * size;
        memset(y, 0, (size_t)(first * size));
        memcpy(y + first * size, t->x + (i * n + first) * size, (size_t)((end - first) * size));
        memset(y + end * size, 0, (size_t)((n - end) * size));
    }
}

static sparta_status trilu(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t far = INT64_MAX / 4,
                  k = sp_op_has(args, 1) ? sp_element_get_int(args->in[1].dtype, args->in[1].data, 0) : 0;
    if (sparta_tensor_elements(out) == 0) return SPARTA_OK;
    triangle t = {.x = x->data,
                  .y = out->data,
                  .rows = out->dim[out->rank - 2],
                  .columns = out->dim[out->rank - 1],
                  .size = (int64_t)sparta_dtype_size(x->dtype),
                  .k = SP_MAX(-far, SP_MIN(k, far)),
                  .upper = sp_attr_int(args->attrs, "upper", 1)};
    return sp_ctx_share(cx, sparta_tensor_elements(out) / t.columns, t.columns * t.size, keep_rows, &t);
}

SP_REFERENCE(Trilu, sp_builtin_dense(cx, args, trilu))
