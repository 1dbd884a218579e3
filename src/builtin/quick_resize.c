/* Resize of elements of 4 bytes (nearest) and of f32 (linear, cubic): rows are copied, or mixed of other rows; what each output
 * is made of is found once for an axis. */
#include "builtin/quick.h"
#include "builtin/resize.h"
#include <string.h>

/* ------------------------------------------------------------------ nearest */
typedef struct copier {
    const sparta_tensor *x, *y;
    int64_t *from[SPARTA_RANK]; /* of each axis: the index in x; -1 is outside */
    bool same, twice;           /* the last axis: as it is, each number twice */
    uint32_t outside;           /* as it lies in memory */
    const sp_quick_kernels *kernels;
} copier;

/* Where in x the matrix `i` of y's last two dims comes from; -1: outside. */
static int64_t source(const copier *c, int64_t i)
{
    int64_t at = 0;
    for (int d = c->y->rank - 3; d >= 0; i /= c->y->dim[d], d--) {
        const int64_t k = c->from[d][i % c->y->dim[d]];
        if (k < 0) return -1;
        at += k * c->x->stride[d];
    }
    return at;
}

static void copy_rows(void *arg, int64_t from, int64_t to)
{
    const copier *c = arg;
    const int last = c->y->rank - 1;
    const int64_t n = c->y->dim[last], *index = c->from[last];
    const int64_t rows = last ? c->y->dim[last - 1] : 1, step = last ? c->x->stride[last - 1] : 0;
    int64_t before = -1, base = 0; /* before: where the row before came from */
    for (int64_t row = from, in = from % rows; row < to; row++, in = in + 1 < rows ? in + 1 : 0) {
        if (row == from || in == 0) base = source(c, row / rows);
        const int64_t k = last ? c->from[last - 1][in] : 0, at = base < 0 || k < 0 ? -1 : base + k * step;
        uint32_t *y = (uint32_t *)c->y->data + row * n;
        const uint32_t *x = (const uint32_t *)c->x->data + at;
        if (at < 0)
            for (int64_t i = 0; i < n; i++) y[i] = c->outside;
        else if (at == before)
            memcpy(y, y - n, (size_t)n * sizeof *y);
        else if (c->same)
            memcpy(y, x, (size_t)n * sizeof *y);
        else if (c->twice)
            c->kernels->twice(y, x, n / 2);
        else
            for (int64_t i = 0; i < n; i++) y[i] = index[i] < 0 ? c->outside : x[index[i]];
        before = at;
    }
}

static sparta_status find_sources(sparta_ctx *cx, copier *c, const sp_resize *r, const sp_resize_axis *axis)
{
    const int last = c->y->rank - 1;
    for (int i = 0; i <= last; i++) {
        c->from[i] = sp_alloc_array(cx, (size_t)axis[i].out, sizeof *c->from[i]);
        SP_NEED(cx, c->from[i]);
        for (int64_t o = 0; o < axis[i].out; o++)
            c->from[i][o] = sp_resize_stays(&axis[i]) ? o : sp_resize_nearest(r, &axis[i], o);
    }
    c->same = axis[last].out == axis[last].in;
    c->twice = axis[last].out == 2 * axis[last].in;
    for (int64_t o = 0; o < axis[last].out; o++) {
        c->same &= c->from[last][o] == o;
        c->twice &= c->from[last][o] == o / 2;
    }
    return SPARTA_OK;
}

static sparta_status nearest(sparta_ctx *cx, const sp_op_args *args, const sp_resize *r,
                             const sp_resize_axis *axis)
{
    const sparta_tensor *y = &args->out[0];
    const int64_t n = y->dim[y->rank - 1];
    copier c = {.x = &args->in[0], .y = y, .kernels = sp_quick_here()};
    sp_element_set(y->dtype, &c.outside, 0, r->outside);
    sparta_status status = find_sources(cx, &c, r, axis);
    if (status == SPARTA_OK) status = sp_ctx_share(cx, sparta_tensor_elements(y) / n, 8 * n, copy_rows, &c);
    for (int i = 0; i < y->rank; i++) sp_free(cx, c.from[i]);
    return status;
}

/* ------------------------------------------------------------------ linear and cubic */
enum { TAPS = 64 }; /* of an output */

typedef struct mixer { /* one axis: (outer, in, inner) to (outer, out, inner) */
    const float *x;
    float *y;
    int64_t in, out, inner;
    int64_t taps;   /* room for so many of each output */
    int64_t *count; /* (out); 0: outside */
    int64_t *index; /* (out, taps) */
    float *weight;  /* (out, taps) */
    float outside;
    const sp_quick_kernels *kernels;
} mixer;

/* Item i is one index of the outer dims: for one output after the other a row, or a number. */
static void mix_rows(void *arg, int64_t from, int64_t to)
{
    const mixer *m = arg;
    for (int64_t i = from; i < to; i++)
        for (int64_t o = 0; o < m->out; o++) {
            const float *x = m->x + i * m->in * m->inner, *row[TAPS], *weight = m->weight + o * m->taps;
            float *y = m->y + (i * m->out + o) * m->inner;
            const int64_t n = m->count[o], *index = m->index + o * m->taps;
            if (n == 0) {
                for (int64_t k = 0; k < m->inner; k++) y[k] = m->outside;
            } else if (m->inner == 1) {
                float sum = 0;
                for (int64_t t = 0; t < n; t++) sum += weight[t] * x[index[t]];
                *y = sum;
            } else {
                for (int64_t t = 0; t < n; t++) row[t] = x + index[t] * m->inner;
                m->kernels->mix(y, row, weight, n, m->inner);
            }
        }
}

static sparta_status find_taps(sparta_ctx *cx, mixer *m, const sp_resize *r, const sp_resize_axis *a)
{
    double weight[TAPS];
    m->count = sp_alloc_array(cx, (size_t)a->out, sizeof *m->count);
    m->index = sp_alloc_array(cx, (size_t)a->out, (size_t)m->taps * sizeof *m->index);
    m->weight = sp_alloc_array(cx, (size_t)a->out, (size_t)m->taps * sizeof *m->weight);
    if (!m->count || !m->index || !m->weight) return sp_ctx_status(cx);
    for (int64_t o = 0; o < a->out; o++) {
        bool outside;
        int64_t first = 0;
        const double x = sp_resize_at(r, a, o, &outside);
        m->count[o] = outside ? 0 : sp_resize_neighbours(r, a, x, &first, weight);
        for (int64_t t = 0; t < m->count[o]; t++) {
            m->index[o * m->taps + t] = SP_MAX(SP_MIN(first + t, a->in - 1), (int64_t)0);
            m->weight[o * m->taps + t] = (float)weight[t];
        }
    }
    return SPARTA_OK;
}

/* One axis of x, whose sizes are `dim`, into y. */
static sparta_status mix_axis(sparta_ctx *cx, const sp_resize *r, const sp_resize_axis *a, const int64_t *dim,
                              int rank, int axis, const float *x, float *y)
{
    int64_t outer = 1;
    mixer m = {.x = x,
               .y = y,
               .in = a->in,
               .out = a->out,
               .inner = 1,
               .taps = (int64_t)sp_resize_most(r, a),
               .outside = (float)r->outside,
               .kernels = sp_quick_here()};
    for (int i = 0; i < axis; i++) outer *= dim[i];
    for (int i = axis + 1; i < rank; i++) m.inner *= dim[i];
    sparta_status status = find_taps(cx, &m, r, a);
    if (status == SPARTA_OK) status = sp_ctx_share(cx, outer, 16 * a->out * m.inner, mix_rows, &m);
    sp_free(cx, m.count);
    sp_free(cx, m.index);
    sp_free(cx, m.weight);
    return status;
}

/* From the last axis to the first; the last one of these that changes is written to y. */
static sparta_status smooth(sparta_ctx *cx, const sp_op_args *args, const sp_resize *r,
                            const sp_resize_axis *axis, int last)
{
    const sparta_tensor *x = &args->in[0];
    int64_t dim[SPARTA_RANK];
    const float *from = x->data;
    float *own = NULL; /* what `from` is, after the first axis */
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < x->rank; i++) dim[i] = x->dim[i];
    for (int i = x->rank - 1; i >= 0 && status == SPARTA_OK; i--) {
        if (sp_resize_stays(&axis[i])) continue;
        sparta_tensor to = args->out[0];
        dim[i] = axis[i].out;
        if (i != last) status = sp_tensor_alloc(cx, SPARTA_F32, x->rank, dim, &to);
        if (status == SPARTA_OK) status = mix_axis(cx, r, &axis[i], dim, x->rank, i, from, to.data);
        sp_free(cx, own);
        own = i == last ? NULL : to.data;
        from = own;
    }
    sp_free(cx, own);
    return status;
}

sparta_status sp_quick_Resize(sparta_ctx *cx, const sp_op_args *args, bool *done)
{
    const sparta_tensor *x = &args->in[0], *y = &args->out[0];
    sp_resize r;
    sp_resize_axis axis[SPARTA_RANK];
    int last = -1; /* the first axis that changes is the last that is done */
    if (sparta_dtype_size(x->dtype) != 4 || x->dtype != y->dtype ||
        (((uintptr_t)x->data | (uintptr_t)y->data) & 3) || !sp_tensor_contiguous(x) ||
        !sp_tensor_contiguous(y) || x->rank < 1 || sparta_tensor_elements(x) == 0)
        return SPARTA_OK;
    SP_TRY(sp_resize_read(cx, args->attrs, x->rank, &r));
    SP_TRY(sp_resize_axes(cx, args, &r, axis));
    for (int i = x->rank - 1; i >= 0; i--) {
        if (sp_resize_stays(&axis[i])) continue;
        last = i;
        const size_t taps = r.mode == SP_NEAREST ? 1 : sp_resize_most(&r, &axis[i]);
        if (taps < 1 || taps > TAPS) return SPARTA_OK;
    }
    if (last < 0 || (r.mode != SP_NEAREST && x->dtype != SPARTA_F32)) return SPARTA_OK;
    *done = true;
    return r.mode == SP_NEAREST ? nearest(cx, args, &r, axis) : smooth(cx, args, &r, axis, last);
}
