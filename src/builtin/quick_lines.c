/* Along one axis: running sums, places of extremes, the k largest. Tensors are row-major and seen as (outer, n, inner); where inner is more than 1,
 * some columns go along the axis together. */
#include "builtin/quick.h"
#include "builtin/view.h"
#include <math.h>

enum { COLUMNS = SP_COLUMNS }; /* that go together */

typedef struct along {
    int64_t outer, n, inner, chunks; /* chunks of columns */
    const void *x;
    void *y;
    bool real, reverse, exclusive, largest, last;
    const sp_quick_kernels *kernels;
} along;

static along along_of(const sp_op_args *args, int axis)
{
    const sparta_tensor *x = &args->in[0];
    along a = {.outer = 1,
               .n = x->dim[axis],
               .inner = 1,
               .x = x->data,
               .y = args->out[0].data,
               .kernels = sp_quick_here()};
    for (int i = 0; i < axis; i++) a.outer *= x->dim[i];
    for (int i = axis + 1; i < x->rank; i++) a.inner *= x->dim[i];
    a.chunks = (a.inner - 1) / COLUMNS + 1;
    return a;
}

static sparta_status share(sparta_ctx *cx, along *a, int64_t each, void (*fn)(void *, int64_t, int64_t))
{
    return sp_ctx_share(cx, a->outer * a->chunks, each * a->n * SP_MIN(a->inner, (int64_t)COLUMNS), fn, a);
}

/* Item `i`: where its first column begins; *columns of them. */
static int64_t chunk_of(const along *a, int64_t i, int64_t *columns)
{
    const int64_t first = i % a->chunks * COLUMNS;
    *columns = SP_MIN(a->inner - first, (int64_t)COLUMNS);
    return i / a->chunks * a->n * a->inner + first;
}

static bool row_major(const sp_op_args *args, sparta_dtype in, sparta_dtype out)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    return x->dtype == in && y->dtype == out && sp_tensor_contiguous(x) && sp_tensor_contiguous(y) &&
           x->rank > 0 && (((uintptr_t)x->data | (uintptr_t)y->data) & 7) == 0;
}

/* ------------------------------------------------------------------ CumSum */
static void sum_columns(void *arg, int64_t from, int64_t to)
{
    const along *a = arg;
    for (int64_t i = from; i < to; i++) {
        int64_t columns;
        const int64_t first = chunk_of(a, i, &columns) + (a->reverse ? a->n - 1 : 0) * a->inner,
                      step = a->reverse ? -a->inner : a->inner;
        if (a->real)
            a->kernels->running_sum((const float *)a->x + first, (float *)a->y + first, a->n, columns, step,
                                    a->exclusive);
        else
            a->kernels->running_sum_ints((const uint64_t *)a->x + first, (uint64_t *)a->y + first, a->n,
                                         columns, step, a->exclusive);
    }
}

/* One column: the sum is in a register. */
#define SUM_LINES(name, type, sum_type)                                                                      \
    static void name(void *arg, int64_t from, int64_t to)                                                    \
    {                                                                                                        \
        const along *a = arg;                                                                                \
        const int64_t step = a->reverse ? -1 : 1;                                                            \
        for (int64_t i = from; i < to; i++) {                                                                \
            const int64_t at = i * a->n + (a->reverse ? a->n - 1 : 0);                                       \
            const type *x = (const type *)a->x + at;                                                         \
            type *y = (type *)a->y + at;                                                                     \
            sum_type sum = 0;                                                                                \
            for (int64_t k = 0; k < a->n; k++) {                                                             \
                const sum_type before = sum;                                                                 \
                sum += x[k * step];                                                                          \
                y[k * step] = (type)(a->exclusive ? before : sum);                                           \
            }                                                                                                \
        }                                                                                                    \
    }
SUM_LINES(sum_float_lines, float, double)
SUM_LINES(sum_int_lines, uint64_t, uint64_t)

sparta_status sp_quick_CumSum(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const bool real = row_major(args, SPARTA_F32, SPARTA_F32);
    int axis;
    if (!real && !row_major(args, SPARTA_I64, SPARTA_I64)) return SPARTA_OK;
    const int64_t which = sp_element_get_int(args->in[1].dtype, args->in[1].data, 0);
    SP_TRY(sp_builtin_axis(cx, "CumSum", which, args->in[0].rank, &axis));
    along a = along_of(args, axis);
    a.reverse = sp_attr_int(args->attrs, "reverse", 0);
    a.exclusive = sp_attr_int(args->attrs, "exclusive", 0);
    *done = true;
    a.real = real;
    return share(cx, &a, 8, a.inner > 1 ? sum_columns : real ? sum_float_lines : sum_int_lines);
}

/* ------------------------------------------------------------------ ArgMax, ArgMin */
/* Is x, which stands later, beyond y? */
static inline bool beats(const along *a, float x, float y)
{
    if (isnan(x)) return a->last || !isnan(y);
    if (isnan(y)) return false;
    return (a->largest ? x > y : x < y) || (a->last && x == y);
}

static void find_columns(void *arg, int64_t from, int64_t to)
{
    const along *a = arg;
    for (int64_t i = from; i < to; i++) {
        float best[COLUMNS];
        int64_t columns, *y = (int64_t *)a->y + i / a->chunks * a->inner + i % a->chunks * COLUMNS;
        const float *x = (const float *)a->x + chunk_of(a, i, &columns);
        for (int64_t j = 0; j < columns; j++) {
            best[j] = x[j];
            y[j] = 0;
        }
        for (int64_t k = 1; k < a->n; k++) {
            x += a->inner;
            for (int64_t j = 0; j < columns; j++)
                if (beats(a, x[j], best[j])) {
                    best[j] = x[j];
                    y[j] = k;
                }
        }
    }
}

/* One column: the extreme, then where it stands. */
static void find_lines(void *arg, int64_t from, int64_t to)
{
    const along *a = arg;
    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)a->x + i * a->n;
        const float best = a->largest ? a->kernels->largest(x, a->n, 0) : a->kernels->smallest(x, a->n, 0);
        int64_t k = a->last ? a->n - 1 : 0;
        const int64_t step = a->last ? -1 : 1;
        if (isnan(best))
            while (!isnan(x[k])) k += step;
        else
            while (x[k] != best) k += step;
        ((int64_t *)a->y)[i] = k;
    }
}

static sparta_status extreme(sparta_ctx *cx, const sp_op_args *args, const char *op, bool largest, bool *done)
{
    int axis;
    if (!row_major(args, SPARTA_F32, SPARTA_I64)) return SPARTA_OK;
    SP_TRY(sp_builtin_axis(cx, op, sp_attr_int(args->attrs, "axis", 0), args->in[0].rank, &axis));
    along a = along_of(args, axis);
    a.largest = largest;
    a.last = sp_attr_int(args->attrs, "select_last_index", 0);
    if (a.n == 0 || a.outer * a.inner != sparta_tensor_elements(&args->out[0])) return SPARTA_OK;
    *done = true;
    return share(cx, &a, 6, a.inner == 1 ? find_lines : find_columns);
}

sparta_status sp_quick_ArgMax(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return extreme(cx, args, "ArgMax", true, done);
}

sparta_status sp_quick_ArgMin(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    return extreme(cx, args, "ArgMin", false, done);
}

/* ------------------------------------------------------------------ TopK
 * The best so far are a heap in the outputs, whose root is the worst of them: most elements lose against it at once. */
typedef struct top {
    const float *x;
    float *value;
    int64_t *index;
    int64_t n, k;
    bool largest;
    const sp_quick_kernels *kernels;
} top;

enum { SOME = 64 }; /* elements that are looked at together */

/* Does (x, i) come before (y, j)? NaN is larger than every number, equals stand as they did. */
static inline bool before(bool largest, float x, int64_t i, float y, int64_t j)
{
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? i < j : isnan(largest ? x : y);
    return x == y ? i < j : largest ? x > y : x < y;
}

/* (x, i) goes to place `at` of a heap of n, or below it. */
static void sink(const top *t, float *value, int64_t *index, int64_t n, int64_t at, float x, int64_t i)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n &&
            before(t->largest, value[child], index[child], value[child + 1], index[child + 1]))
            child++;
        if (!before(t->largest, x, i, value[child], index[child])) break;
        value[at] = value[child];
        index[at] = index[child];
    }
    value[at] = x;
    index[at] = i;
}

/* Elements [from, to) against the worst so far: most often all of them lose. */
static void replace(const top *t, const float *x, int64_t from, int64_t to, float *value, int64_t *index)
{
    if (!t->kernels->beyond(x + from, to - from, value[0], t->largest) && !isnan(value[0])) return;
    for (int64_t i = from; i < to; i++) {
        if (t->largest ? x[i] <= value[0] : x[i] >= value[0]) continue;
        if (before(t->largest, x[i], i, value[0], index[0])) sink(t, value, index, t->k, 0, x[i], i);
    }
}

static void find_top(void *arg, int64_t from, int64_t to)
{
    const top *t = arg;
    for (int64_t line = from; line < to; line++) {
        const float *x = t->x + line * t->n;
        float *value = t->value + line * t->k;
        int64_t *index = t->index + line * t->k;
        for (int64_t i = 0; i < t->k; i++) {
            value[i] = x[i];
            index[i] = i;
        }
        for (int64_t i = t->k / 2 - 1; i >= 0; i--) sink(t, value, index, t->k, i, value[i], index[i]);
        for (int64_t i = t->k; i < t->n; i += SOME) replace(t, x, i, SP_MIN(i + SOME, t->n), value, index);
        for (int64_t n = t->k - 1; n > 0; n--) { /* the worst goes to the end */
            const float x_last = value[n];
            const int64_t i_last = index[n];
            value[n] = value[0];
            index[n] = index[0];
            sink(t, value, index, n, 0, x_last, i_last);
        }
    }
}

sparta_status sp_quick_TopK(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *x = &args->in[0], *k = &args->in[1];
    int axis;
    if (!row_major(args, SPARTA_F32, SPARTA_F32) || args->n_out < 2 || args->out[1].dtype != SPARTA_I64 ||
        !sp_tensor_contiguous(&args->out[1]) || !args->out[1].data)
        return SPARTA_OK;
    SP_TRY(sp_builtin_axis(cx, "TopK", sp_attr_int(args->attrs, "axis", -1), x->rank, &axis));
    top t = {.x = x->data,
             .value = args->out[0].data,
             .index = args->out[1].data,
             .n = x->dim[axis],
             .k = args->out[0].dim[axis],
             .largest = sp_attr_int(args->attrs, "largest", 1),
             .kernels = sp_quick_here()};
    /* What does not fit is the reference's to report. */
    if (axis != x->rank - 1 || t.k < 1 || t.k > t.n || sp_element_get_int(k->dtype, k->data, 0) != t.k)
        return SPARTA_OK;
    *done = true;
    return sp_ctx_share(cx, sparta_tensor_elements(x) / t.n, 8 * t.n, find_top, &t);
}
