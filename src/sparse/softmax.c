/* The softmax and its gradient: the elements of a row are collected, worked on and put back. Rows of blocks are shared out. */
#include "sparse/share.h"
#include <math.h>

typedef struct bench { /* a worker's */
    const sp_work *w;
    const sp_kernels *k;
    float *row, *other;
} bench;

/* The longest row. */
static int64_t room_of_row(const sp_work *w)
{
    return (w->s.right * w->s.width + 15) / 16 * 16;
}

size_t sp_softmax_room(const sp_work *w)
{
    size_t bytes = 0;
    sp_room(&bytes, 2 * room_of_row(w) * w->team);
    return bytes;
}

/* Elements that are not there are -infinity, and become 0. A scale below 0 turns the order around; one of 0 makes all equal,
 * and one that is NaN makes all NaN. */
static void softmax_row(const bench *m, const sp_row *row, void *out)
{
    const float scale = (float)m->w->scale, sign = scale > 0 ? 1.f : scale < 0 ? -1.f : scale;
    const int64_t n = m->k->collect(row, m->row, sign, -INFINITY);
    m->k->softmax(m->row, n, sign != 0 ? fabsf(scale) * 1.44269504f : 1.f);
    m->k->put_back(row, m->row, out);
}

static void gradient_row(const bench *m, const sp_row *row, const void *gradient, void *out)
{
    sp_row other = *row;
    other.values = gradient;
    const int64_t n = m->k->collect(row, m->row, 1.f, 0.f);
    m->k->collect(&other, m->other, 1.f, 0.f);
    m->k->gradient(m->row, m->other, n, (float)m->w->scale);
    m->k->put_back(row, m->other, out);
}

static void one_line(void *arg, int64_t b, int64_t line)
{
    const bench *m = arg;
    const sp_work *w = m->w;
    const sp_blocks *s = &w->s;
    const int32_t *pos = sp_lines_of(s, b) + line;
    const int64_t size = s->height * s->width, bytes = (int64_t)sparta_dtype_size(s->dtype),
                  at = (b * s->each + pos[0] * size) * bytes, high = s->rows - line * s->height;
    sp_row row = {.values = (const char *)s->values + at,
                  .keep = s->keep ? s->keep + pos[0] * size : NULL,
                  .crd = s->crd + pos[0],
                  .blocks = pos[1] - pos[0],
                  .height = s->height,
                  .width = s->width,
                  .cols = s->cols,
                  .dtype = s->dtype};
    for (row.r = 0; row.r < s->height; row.r++) {
        char *out = (char *)w->out + at;
        if (row.r >= high) row.cols = 0; /* nothing of it exists */
        if (w->verb == SPARTA_SOFTMAX)
            softmax_row(m, &row, out);
        else
            gradient_row(m, &row, (const char *)w->gradient + at, out);
    }
}

typedef struct shift {
    const sp_work *w;
    const sp_kernels *k;
} shift;

static void softmax_share(void *arg, int worker)
{
    const shift *all = arg;
    float *row = (float *)(void *)all->w->room + 2 * room_of_row(all->w) * worker;
    bench mine = {all->w, all->k, row, row + room_of_row(all->w)};
    sp_each_line(all->w, worker, one_line, &mine);
}

void sp_softmax_run(const sp_work *w, const sparta_launch *how)
{
    shift all = {w, sp_kernels_here()};
    sp_share(how, w->team, softmax_share, &all);
}
