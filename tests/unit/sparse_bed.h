/* A bed for room sparse: random batches of sparse matrices with a dense twin in double, arrays with random strides, a host's threads.
 *
 * Every array is as long as it must be and not a byte longer (a sanitizer sees what reads past it); gaps between strided elements, and
 * values that do not exist, are NaN: what reads one into an answer is found by the comparison.
 */
#ifndef SP_SPARSE_BED_H
#define SP_SPARSE_BED_H

#include "bed.h"
#include <math.h>
#include "sparse/kernels.h"

static sp_rng rng;

HELPER int64_t below(int64_t n)
{
    return (int64_t)(sp_rng_next(&rng) % (uint64_t)n);
}
HELPER double number(void)
{
    return sp_rng_uniform(&rng) * 2 - 1;
}

HELPER double element(const sparta_tensor *t, int64_t at)
{
    switch (t->dtype) {
    case SPARTA_F32: return ((const float *)t->data)[at];
    case SPARTA_F16: return sp_f16_to_f32(((const uint16_t *)t->data)[at]);
    case SPARTA_BF16: return sp_bf16_to_f32(((const uint16_t *)t->data)[at]);
    default: return ((const double *)t->data)[at];
    }
}
HELPER void set_element(const sparta_tensor *t, int64_t at, double v)
{
    switch (t->dtype) {
    case SPARTA_F32: ((float *)t->data)[at] = (float)v; break;
    case SPARTA_F16: ((uint16_t *)t->data)[at] = sp_f32_to_f16((float)v); break;
    case SPARTA_BF16: ((uint16_t *)t->data)[at] = sp_f32_to_bf16((float)v); break;
    default: ((double *)t->data)[at] = v; break;
    }
}

/* What an answer of this type may differ by from one in double. */
HELPER double tolerance(sparta_dtype t, double size)
{
    const double one = t == SPARTA_F64 ? 1e-13 : t == SPARTA_F32 ? 4e-6 : t == SPARTA_F16 ? 2e-3 : 1.2e-2;
    return one * (1 + fabs(size));
}

/* ------------------------------------------------------------------ arrays */

/* (batch, size, free) with the dims in any order in memory and gaps between them; filled with numbers, gaps with NaN. */
HELPER sparta_tensor cube(sparta_dtype dtype, int64_t batch, int64_t size, int64_t free, bool shared)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}};
    const int *order = orders[below(SP_COUNT(orders))];
    sparta_tensor t = {.dtype = dtype, .rank = 3, .dim = {batch, size, free}};
    int64_t step = below(5) ? 1 : 2, last = 0;
    for (int i = 2; i >= 0; i--) {
        const int d = order[i];
        t.stride[d] = shared && d == 0 ? 0 : step;
        if (!(shared && d == 0)) step *= SP_MAX(t.dim[d], 1) + (below(3) ? 0 : 1);
    }
    for (int d = 0; d < 3; d++) last += SP_MAX(t.dim[d] - 1, 0) * t.stride[d];
    const int64_t n = batch * size * free > 0 ? last + 1 : 0;
    t.data = malloc((size_t)n * sparta_dtype_size(dtype) + !n);
    assert_non_null(t.data);
    for (int64_t i = 0; i < n; i++) set_element(&t, i, NAN);
    for (int64_t i = 0; i < batch * size * free; i++)
        set_element(&t,
                    i / (size * free) * t.stride[0] + i / free % size * t.stride[1] + i % free * t.stride[2],
                    number());
    return t;
}
HELPER double at3(const sparta_tensor *t, int64_t b, int64_t i, int64_t f)
{
    return element(t, b * t->stride[0] + i * t->stride[1] + f * t->stride[2]);
}

/* ------------------------------------------------------------------ matrices */

typedef struct matrix {
    sparta_blocks s;
    int64_t down, right, blocks;
    double *dense; /* (batch, rows, cols), 0 where nothing is */
    bool *there;   /* the same: which exist */
} matrix;

typedef struct shape {
    int64_t rows, cols, height, width, batch;
    bool own; /* a pattern each */
    bool shared;
    bool keep;
    double density;
    sparta_dtype dtype;
} shape;

HELPER sparta_tensor plain(sparta_dtype dtype, int rank, const int64_t *dim)
{
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, NULL);
    t.data = malloc((size_t)sparta_tensor_elements(&t) * sparta_dtype_size(dtype) + 1);
    assert_non_null(t.data);
    if (sparta_tensor_elements(&t)) {
        free(t.data);
        t.data = malloc((size_t)sparta_tensor_elements(&t) * sparta_dtype_size(dtype));
    }
    return t;
}

HELPER void free_matrix(matrix *m)
{
    free(m->s.pos.data);
    free(m->s.crd.data);
    free(m->s.keep.data);
    free(m->s.values.data);
    free(m->dense);
    free(m->there);
}

/* Where an element lies among the values of matrix b; -1: it does not exist. */
HELPER int64_t place_of(const matrix *m, int64_t b, int64_t i, int64_t j)
{
    const sparta_blocks *s = &m->s;
    const int32_t *pos = (const int32_t *)s->pos.data + (s->patterns > 1 ? b * m->down : 0) + i / s->height;
    for (int64_t k = pos[0]; k < pos[1]; k++) {
        if (((const int32_t *)s->crd.data)[k] != j / s->width) continue;
        const int64_t at = (k * s->height + i % s->height) * s->width + j % s->width;
        return s->keep.data && !((const uint8_t *)s->keep.data)[at] ? -1 : at;
    }
    return -1;
}
HELPER int64_t matrix_step(const matrix *m)
{
    return m->s.values.rank == 4 ? m->blocks * m->s.height * m->s.width : 0;
}
HELPER double value_at(const matrix *m, const sparta_tensor *values, int64_t b, int64_t at)
{
    return element(values, b * matrix_step(m) + at);
}

/* The dense twin of values. */
HELPER void twin(const matrix *m, const sparta_tensor *values, double *dense)
{
    const sparta_blocks *s = &m->s;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t j = 0; j < s->cols; j++) {
                const int64_t at = place_of(m, b, i, j);
                dense[(b * s->rows + i) * s->cols + j] = at < 0 ? 0 : value_at(m, values, b, at);
            }
}

HELPER sparta_tensor new_values(const matrix *m, const shape *h)
{
    const int64_t dim[] = {h->batch, m->blocks, h->height, h->width};
    const bool three = m->s.patterns != 1 || h->shared;
    return plain(h->dtype, three ? 3 : 4, three ? dim + 1 : dim);
}

/* Numbers where elements exist, NaN elsewhere. */
HELPER void fill_values(const matrix *m, const sparta_tensor *values)
{
    const sparta_blocks *s = &m->s;
    for (int64_t i = 0; i < sparta_tensor_elements(values); i++) set_element(values, i, NAN);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t j = 0; j < s->cols; j++) {
                const int64_t at = place_of(m, b, i, j);
                if (at >= 0) set_element(values, b * matrix_step(m) + at, number());
            }
}

HELPER matrix make_matrix(const shape *h)
{
    matrix m = {.down = (h->rows + h->height - 1) / h->height, .right = (h->cols + h->width - 1) / h->width};
    const int64_t patterns = h->own ? h->batch : 1, lines = m.down * patterns,
                  all = h->batch * h->rows * h->cols;
    const int64_t ends = lines + 1;
    sparta_tensor pos = plain(SPARTA_I32, 1, &ends);
    int32_t *p = pos.data, *crd = malloc((size_t)(lines * m.right) * 4 + 1);
    p[0] = 0;
    for (int64_t r = 0; r < lines; r++) {
        const double density = below(6) ? h->density : below(2); /* empty and full rows too */
        for (int64_t c = 0; c < m.right; c++)
            if (sp_rng_uniform(&rng) < density) crd[m.blocks++] = (int32_t)c;
        p[r + 1] = (int32_t)m.blocks;
    }
    m.s = (sparta_blocks){.size = sizeof m.s,
                          .rows = h->rows,
                          .cols = h->cols,
                          .height = h->height,
                          .width = h->width,
                          .batch = h->batch,
                          .patterns = patterns,
                          .pos = pos,
                          .crd = plain(SPARTA_I32, 1, &m.blocks)};
    if (m.blocks) memcpy(m.s.crd.data, crd, (size_t)m.blocks * 4);
    free(crd);
    if (h->keep) {
        m.s.keep = plain(SPARTA_BOOL, 3, (int64_t[]){m.blocks, h->height, h->width});
        for (int64_t i = 0; i < sparta_tensor_elements(&m.s.keep); i++)
            ((uint8_t *)m.s.keep.data)[i] = below(3) != 0;
    }
    m.s.values = new_values(&m, h);
    fill_values(&m, &m.s.values);
    m.dense = malloc((size_t)all * sizeof(double) + 1);
    m.there = malloc((size_t)all + 1);
    twin(&m, &m.s.values, m.dense);
    for (int64_t i = 0; i < all; i++)
        m.there[i] = place_of(&m, i / (h->rows * h->cols), i / h->cols % h->rows, i % h->cols) >= 0;
    return m;
}

/* ------------------------------------------------------------------ a launch */

/* Threads of a host that does things in an unexpected order. */
static void backwards(void *host, int n, void (*fn)(void *arg, int i), void *arg)
{
    ++*(int *)host;
    for (int i = n - 1; i >= 0; i--) fn(arg, i);
}

static char message[300];
static int shared_out; /* times that work was given to the host */

HELPER size_t room_without_data(sparta_verb verb, const matrix *m, const sparta_tensor *x,
                                const sparta_tensor *y, const sparta_launch *l)
{
    sparta_blocks s = m->s;
    sparta_tensor in = {0}, out = {0};
    if (x) in = *x, out = *y;
    s.pos.data = s.crd.data = s.keep.data = s.values.data = in.data = out.data = NULL;
    return sparta_blocks_workspace(verb, &s, x ? &in : NULL, y ? &out : NULL, l);
}

HELPER sparta_launch launch_of(sparta_verb verb, const matrix *m, const sparta_tensor *x,
                               const sparta_tensor *y, int threads)
{
    sparta_launch l = {.size = sizeof l, .threads = threads};
    if (threads != 1) l.parallel_for = backwards, l.host = &shared_out; /* 0: as many as the library likes */
    const size_t bytes = l.workspace_bytes = sparta_blocks_workspace(verb, &m->s, x, y, &l);
    l.workspace = bytes ? malloc(bytes) : NULL;
    assert_int_equal(room_without_data(verb, m, x, y, &l), bytes);
    if (bytes) memset(l.workspace, 0xff, bytes); /* NaN */
    return l;
}

#define works(call)                                                                                          \
    do {                                                                                                     \
        const sparta_status s_ = (call);                                                                     \
        if (s_ != SPARTA_OK) fail_msg("%s: %s", sparta_status_name(s_), message);                            \
    } while (0)

#endif
