/* f64, as plain loops: what the other types' kernels are understood by. */
#include "sparse/share.h"
#include <math.h>

/* Element i; what may not be written is const where it comes from. */
static double *at_of(const void *p, int64_t i)
{
    return (double *)(uintptr_t)p + i;
}

/* The part of a block that is inside the matrix. */
typedef struct tile {
    int64_t row, col, high, wide; /* its first row and column, and how many of them exist */
    int64_t at;                   /* of its first element among the values of a pattern */
} tile;

static tile tile_of(const sp_blocks *s, int64_t line, int64_t block)
{
    const int64_t row = line * s->height, col = s->crd[block] * s->width;
    return (tile){row, col, SP_MIN(s->height, s->rows - row), SP_MIN(s->width, s->cols - col),
                  block * s->height * s->width};
}

static bool kept(const sp_blocks *s, int64_t at)
{
    return !s->keep || s->keep[at];
}

/* ------------------------------------------------------------------ products: one b and one f after the other */

static void finish(const sp_work *w, int64_t b, int64_t f, const double *sum, int64_t rows)
{
    const sp_ending *e = &w->end;
    for (int64_t i = 0; i < rows; i++) {
        double v = sum[i];
        for (int k = 0; k < e->words.n; k++) {
            const sp_word *word = sp_word_row(e->words.word[k]);
            const sp_cube *r = &e->residual;
            const double *operand = word->slot == 2   ? at_of(e->bias, i * e->bias_step)
                                    : word->slot == 3 ? at_of(r->data, b * r->sb + i * r->si + f * r->sf)
                                                      : NULL;
            v = sp_word_apply(word, v, operand ? *operand : 0);
        }
        *at_of(w->y.data, b * w->y.sb + i * w->y.si + f * w->y.sf) = v;
    }
}

static void multiply_tile(const sp_work *w, const tile *t, int64_t b, int64_t f, double *sum)
{
    const bool turned = w->verb == SPARTA_MULTIPLY_TURNED;
    for (int64_t i = 0; i < t->high; i++)
        for (int64_t j = 0; j < t->wide; j++) {
            const int64_t at = t->at + i * w->s.width + j;
            const int64_t from = turned ? t->row + i : t->col + j, to = turned ? t->col + j : t->row + i;
            const double v = kept(&w->s, at) ? *at_of(w->s.values, b * w->s.each + at) : 0;
            sum[to] += v * *at_of(w->x.data, b * w->x.sb + from * w->x.si + f * w->x.sf);
        }
}

static void multiply(const sp_work *w, int64_t b, int64_t f, double *sum)
{
    const int32_t *pos = sp_lines_of(&w->s, b);
    const int64_t rows = w->verb == SPARTA_MULTIPLY ? w->s.rows : w->s.cols;
    for (int64_t i = 0; i < rows; i++) sum[i] = 0;
    for (int64_t line = 0; line < w->s.down; line++)
        for (int64_t i = pos[line]; i < pos[line + 1]; i++) {
            const tile t = tile_of(&w->s, line, i);
            multiply_tile(w, &t, b, f, sum);
        }
    finish(w, b, f, sum, rows);
}

/* ------------------------------------------------------------------ the others: one row of blocks after the other */

static void sample_tile(const sp_work *w, const tile *t, int64_t b)
{
    const sp_cube *x = &w->x, *y = &w->y;
    for (int64_t i = 0; i < w->s.height; i++)
        for (int64_t j = 0; j < w->s.width; j++) {
            const int64_t at = t->at + i * w->s.width + j;
            double sum = 0;
            if (i < t->high && j < t->wide && kept(&w->s, at))
                for (int64_t f = 0; f < w->free; f++)
                    sum += *at_of(x->data, b * x->sb + (t->row + i) * x->si + f * x->sf) *
                           *at_of(y->data, b * y->sb + (t->col + j) * y->si + f * y->sf);
            *at_of(w->s.values, b * w->s.each + at) = sum * w->scale;
        }
}

static void sample(const sp_work *w, int64_t b, int64_t line)
{
    const int32_t *pos = sp_lines_of(&w->s, b);
    for (int64_t i = pos[line]; i < pos[line + 1]; i++) {
        const tile t = tile_of(&w->s, line, i);
        sample_tile(w, &t, b);
    }
}

/* Calls do(at) for each element of row i of a row of blocks that exists, and otherwise(at) for each that does not. */
#define EACH_ELEMENT(DO, OTHERWISE)                                                                          \
    for (int64_t k_ = pos[0]; k_ < pos[1]; k_++) {                                                           \
        const tile t_ = tile_of(s, line, k_);                                                                \
        for (int64_t j_ = 0; j_ < s->width; j_++) {                                                          \
            const int64_t at = t_.at + i * s->width + j_;                                                    \
            if (i < t_.high && j_ < t_.wide && kept(s, at)) {                                                \
                DO;                                                                                          \
            } else {                                                                                         \
                OTHERWISE;                                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }

static void softmax_row(const sp_work *w, int64_t b, int64_t line, int64_t i)
{
    const sp_blocks *s = &w->s;
    const int32_t *pos = sp_lines_of(s, b) + line;
    const int64_t base = b * s->each;
    double most = -INFINITY, sum = 0;
    EACH_ELEMENT(most = fmax(most, w->scale * *at_of(s->values, base + at)), )
    EACH_ELEMENT(sum += exp(w->scale * *at_of(s->values, base + at) - most), )
    EACH_ELEMENT(*at_of(w->out, base + at) = exp(w->scale * *at_of(s->values, base + at) - most) / sum,
                 *at_of(w->out, base + at) = 0)
}

static void gradient_row(const sp_work *w, int64_t b, int64_t line, int64_t i)
{
    const sp_blocks *s = &w->s;
    const int32_t *pos = sp_lines_of(s, b) + line;
    const int64_t base = b * s->each;
    double sum = 0;
    EACH_ELEMENT(sum += *at_of(s->values, base + at) * *at_of(w->gradient, base + at), )
    EACH_ELEMENT(*at_of(w->out, base + at) =
                     w->scale * *at_of(s->values, base + at) * (*at_of(w->gradient, base + at) - sum),
                 *at_of(w->out, base + at) = 0)
}

/* ------------------------------------------------------------------ shares */

typedef struct shift {
    const sp_work *w;
    int64_t units;
} shift;

/* A worker's room: the sums of a product. */
static int64_t sums(const sp_work *w)
{
    return w->verb == SPARTA_MULTIPLY ? w->s.rows : w->verb == SPARTA_MULTIPLY_TURNED ? w->s.cols : 0;
}

static void one_share(void *arg, int worker)
{
    const shift *all = arg;
    const sp_work *w = all->w;
    double *sum = (double *)(void *)w->room + worker * sums(w);
    const int64_t first = all->units * worker / w->team, last = all->units * (worker + 1) / w->team;
    for (int64_t u = first; u < last; u++) {
        if (sp_is_product(w->verb)) {
            multiply(w, u / w->free, u % w->free, sum);
            continue;
        }
        const int64_t b = u / w->s.down, line = u % w->s.down;
        if (w->verb == SPARTA_SAMPLE)
            sample(w, b, line);
        else
            for (int64_t i = 0; i < w->s.height; i++)
                (w->verb == SPARTA_SOFTMAX ? softmax_row : gradient_row)(w, b, line, i);
    }
}

size_t sp_plain_room(const sp_work *w)
{
    return (size_t)sums(w) * sizeof(double) * (size_t)w->team;
}

void sp_plain_run(const sp_work *w, const sparta_launch *how)
{
    shift all = {w, w->s.batch * (sp_is_product(w->verb) ? w->free : w->s.down)};
    sp_share(how, w->team, one_share, &all);
}
