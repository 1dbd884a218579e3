/* Sparsify: what stays of each line along the last axis (builtin.h). An element is there unless it is 0 or its magnitude is below attribute
 * above; where more are there than attribute keep allows, the largest magnitudes stay. */
#include "builtin/view.h"
#include <math.h>
#include <stdlib.h>

typedef struct entry {
    double size;   /* its magnitude; infinite for a NaN, which `nan` puts before all */
    int64_t index; /* place in the line */
    bool nan;
} entry;

/* Largest first, equals by index. */
static int by_size(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    if (p->nan != q->nan) return p->nan ? -1 : 1;
    if (!p->nan && p->size != q->size) return p->size > q->size ? -1 : 1;
    return (p->index > q->index) - (p->index < q->index);
}

/* Those that are there, by index; how many. */
static int64_t find(const sparta_tensor *x, int64_t start, double above, entry *line)
{
    const int last = x->rank - 1;
    int64_t n = 0;
    for (int64_t i = 0; i < x->dim[last]; i++) {
        const double size = fabs(sp_element_get(x->dtype, x->data, start + i * x->stride[last]));
        if (size != 0 && !(size < above)) line[n++] = (entry){size, i, isnan(size)};
    }
    return n;
}

sparta_status sp_builtin_Sparsify(sparta_ctx *cx, const sp_op_args *args)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    const int64_t keep = sp_attr_int(args->attrs, "keep", 0);
    const double above = (double)sp_attr_float(args->attrs, "above", 0);
    const size_t size = sparta_dtype_size(x->dtype);
    const int last = x->rank - 1;
    if (last < 0) return sp_fail(cx, SPARTA_E_SHAPE, "Sparsify: a number has no line of elements");
    entry *line = sp_alloc_array(cx, (size_t)x->dim[last] + 1, sizeof *line);
    SP_NEED(cx, line);
    sparta_tensor from = sp_view_drop(x, last, 0), to = sp_view_drop(y, last, 0);
    const sparta_tensor *both[] = {&from, &to};
    sparta_status status = SPARTA_OK;
    for (sp_cursor w = sp_cursor_begin(from.rank, from.dim, 2, both); w.more && !status; sp_cursor_next(&w)) {
        int64_t n = find(x, w.at[0], above, line);
        if (keep > 0 && n > keep) {
            qsort(line, (size_t)n, sizeof *line, by_size);
            n = keep;
        }
        for (int64_t i = 0; i < x->dim[last]; i++)
            sp_element_set(y->dtype, y->data, w.at[1] + i * y->stride[last], 0);
        for (int64_t i = 0; i < n; i++)
            sp_builtin_move(y->data, w.at[1] + line[i].index * y->stride[last], x->data,
                            w.at[0] + line[i].index * x->stride[last], size);
        status = sp_check_cancel(cx);
    }
    sp_free(cx, line);
    return status;
}
