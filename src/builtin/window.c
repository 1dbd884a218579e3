/* Attributes, padding and bounds of window.h. */
#include "builtin/window.h"
#include <string.h>

#define D SP_WINDOW_DIMS

/* ------------------------------------------------------------------ attributes */
/* The last n of `to` from a list of ints; absent leaves them as they are. */
static sparta_status read_list(sparta_ctx *cx, const sp_attrs *attrs, const char *name, int n, int64_t least,
                               int64_t *to)
{
    const sp_attr *a = sp_attr_find(attrs, name);
    if (!a || a->kind != SP_ATTR_INTS || a->n == 0) return SPARTA_OK;
    if (a->n != n) return sp_fail(cx, SPARTA_E_SHAPE, "%s has %d numbers; %d are needed", name, a->n, n);
    for (int i = 0; i < n; i++) {
        if (a->ints[i] < least || a->ints[i] > INT32_MAX)
            return sp_fail(cx, SPARTA_E_SHAPE, "%s[%d] is %lld; it must be from %lld to %d", name, i,
                           (long long)a->ints[i], (long long)least, INT32_MAX);
        to[i] = a->ints[i];
    }
    return SPARTA_OK;
}

static sparta_status read_padding(sparta_ctx *cx, const sp_attrs *attrs, sp_window *w)
{
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    const char *said = sp_attr_string(attrs, "auto_pad", "NOTSET");
    int64_t pads[2 * D] = {0};
    w->padding = SP_PAD_GIVEN;
    while (strcmp(said, names[w->padding]) != 0)
        if (++w->padding > SP_PAD_NONE)
            return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                           "auto_pad is \"%.40s\"; it must be NOTSET, SAME_UPPER, SAME_LOWER or VALID", said);
    SP_TRY(read_list(cx, attrs, "pads", 2 * w->n, 0, pads));
    for (int i = 0; i < w->n && w->padding == SP_PAD_GIVEN; i++) {
        w->before[D - w->n + i] = pads[i];
        w->after[D - w->n + i] = pads[w->n + i];
    }
    return SPARTA_OK;
}

static sparta_status read_kernel(sparta_ctx *cx, const sp_attrs *attrs, const int64_t *kernel, int n,
                                 int64_t *to)
{
    const sp_attr *a = sp_attr_find(attrs, "kernel_shape");
    if (!kernel && (!a || a->n == 0))
        return sp_fail(cx, SPARTA_E_FORMAT, "attribute kernel_shape is missing");
    SP_TRY(read_list(cx, attrs, "kernel_shape", n, 1, to));
    for (int i = 0; kernel && i < n; i++) {
        if (a && a->n == n && to[i] != kernel[i])
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "kernel_shape[%d] is %lld and the weights have %lld; they must be one size", i,
                           (long long)to[i], (long long)kernel[i]);
        if (kernel[i] < 1 || kernel[i] > INT32_MAX)
            return sp_fail(cx, SPARTA_E_SHAPE, "the kernel has size %lld in spatial dim %d; at least 1",
                           (long long)kernel[i], i);
        to[i] = kernel[i];
    }
    return SPARTA_OK;
}

sparta_status sp_window_read(sparta_ctx *cx, const sp_attrs *attrs, int n, const int64_t *kernel,
                             sp_window *out)
{
    sp_window w = {.n = n, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    if (n < 1 || n > D)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "%d spatial dims; 1 to %d are supported, after batch and channels", n, D);
    int at = D - n;
    SP_TRY(read_kernel(cx, attrs, kernel, n, w.kernel + at));
    SP_TRY(read_list(cx, attrs, "strides", n, 1, w.stride + at));
    SP_TRY(read_list(cx, attrs, "dilations", n, 1, w.dilation + at));
    SP_TRY(read_list(cx, attrs, "output_padding", n, 0, w.extra + at));
    SP_TRY(read_padding(cx, attrs, &w));
    w.group = sp_attr_int(attrs, "group", 1);
    if (w.group < 1 || w.group > INT32_MAX)
        return sp_fail(cx, SPARTA_E_SHAPE, "group is %lld; it must be from 1 to %d", (long long)w.group,
                       INT32_MAX);
    w.ceil = w.padding == SP_PAD_GIVEN && sp_attr_int(attrs, "ceil_mode", 0);
    *out = w;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ places */
void sp_window_sizes(const sp_window *w, const sparta_tensor *t, int64_t size[D])
{
    for (int i = 0; i < D; i++) size[i] = i < D - w->n ? 1 : t->dim[t->rank - D + i];
}

bool sp_window_fits(const sp_window *w, int i, int64_t size)
{
    const int64_t beyond = w->ceil ? w->stride[i] - 1 : 0;
    return sp_window_effective(w, i) - w->before[i] - w->after[i] - beyond <= size;
}

sparta_status sp_window_place(sparta_ctx *cx, sp_window *w, const int64_t in[D], const int64_t out[D])
{
    for (int i = D - w->n; i < D; i++) {
        int64_t size = sp_window_effective(w, i);
        if (w->padding == SP_PAD_UPPER || w->padding == SP_PAD_LOWER) {
            int64_t total = SP_MAX((out[i] - 1) * w->stride[i] + size - in[i], 0);
            w->before[i] = w->padding == SP_PAD_UPPER ? total / 2 : total - total / 2;
            w->after[i] = total - w->before[i];
        }
        if (!sp_window_fits(w, i, in[i]))
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "the kernel spans %lld in spatial dim %d, where the padded input has only %lld",
                           (long long)size, i - (D - w->n), (long long)(in[i] + w->before[i] + w->after[i]));
    }
    return SPARTA_OK;
}

void sp_window_range(int64_t first, int64_t step, int64_t limit, int64_t count, int64_t *from, int64_t *to)
{
    *from = first < 0 ? (-first - 1) / step + 1 : 0;
    *to = first < limit ? (limit - 1 - first) / step + 1 : 0;
    if (*to > count) *to = count;
    if (*from > *to) *from = *to;
}

int64_t sp_window_taps(const sp_window *w, const int64_t in[D], int i, int64_t o, bool count_padding,
                       int64_t *first, int64_t *from, int64_t *to)
{
    *first = o * w->stride[i] - w->before[i];
    sp_window_range(*first, w->dilation[i], in[i], w->kernel[i], from, to);
    if (!count_padding) return *to - *from;
    int64_t low, end; /* places in front of the padding there are none; beyond it ceil_mode may go */
    sp_window_range(*first, w->dilation[i], in[i] + w->after[i], w->kernel[i], &low, &end);
    return end;
}

void sp_window_load(const sparta_tensor *t, double *to)
{
    int64_t n = sparta_tensor_elements(t);
    if (t->dtype == SPARTA_F32 && sp_tensor_contiguous(t)) {
        for (int64_t i = 0; i < n; i++) to[i] = ((const float *)t->data)[i];
        return;
    }
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, &t); w.more; sp_cursor_next(&w))
        *to++ = sp_element_get(t->dtype, t->data, w.at[0]);
}
