/* Sampled products: operands are brought into the order that the kernels read, then rows of blocks are shared out. Of c everything is packed before;
 * of a the rows that come next, by the worker who needs them. */
#include "sparse/share.h"
#include <string.h>

enum { CHUNK = 256 }; /* rows of c that are packed at a time */
enum { BAND = 128 };  /* rows of a */
enum { FAR = 256 };   /* floats: lines further apart are packed together */

typedef struct plan {
    const sp_work *w;
    const sp_kernels *k;
    bool wide;
    /* Whether they are packed, and floats from one row to the next there, or for c of wide blocks from one column of blocks to the next. */
    bool pack_a, pack_c;
    int64_t a_line, c_line;
    int64_t band;      /* rows of a that a worker has room for: whole blocks */
    int64_t line_each; /* a row of blocks in f32, one a worker; 0: the values are f32 */
    size_t a_at, c_at, line_at;
} plan;

/* Lines of n floats that lie 4096 bytes apart would fall into the same places of the cache. */
static int64_t apart(int64_t n)
{
    n = (n + 15) / 16 * 16;
    return n % 1024 ? n : n + 16;
}

static plan plan_of(const sp_work *w)
{
    const sp_blocks *s = &w->s;
    const bool f32 = s->dtype == SPARTA_F32, any = w->free > 0;
    plan p = {.w = w, .k = sp_kernels_here(), .wide = s->width % 16 == 0, .a_line = apart(w->free)};
    if (p.wide) {
        p.pack_a = any && (!f32 || w->x.sf > FAR || w->x.sf < -FAR);
        p.pack_c = any && (!f32 || w->y.si != 1 || s->cols % s->width || w->y.sf > FAR || w->y.sf < -FAR);
        p.c_line = w->free * s->width;
    } else {
        p.pack_a = any && (!f32 || w->x.sf != 1);
        p.pack_c = any && (!f32 || w->y.sf != 1);
        p.c_line = apart(w->free);
    }
    p.band = SP_MIN(SP_MAX(BAND / s->height, 1) * s->height, s->rows);
    p.line_each = f32 ? 0 : SP_MIN(s->right, s->blocks) * s->height * s->width;
    return p;
}

static int64_t c_lines(const plan *p)
{
    return !p->pack_c ? 0 : p->wide ? p->w->s.right : p->w->s.cols;
}

static size_t place(plan *p)
{
    size_t bytes = 0;
    p->a_at = sp_room(&bytes, p->pack_a ? p->band * p->a_line * p->w->team : 0);
    p->c_at = sp_room(&bytes, c_lines(p) * p->c_line * p->w->s.batch);
    p->line_at = sp_room(&bytes, p->line_each * p->w->team);
    return bytes;
}

size_t sp_sample_room(const sp_work *w)
{
    plan p = plan_of(w);
    return place(&p);
}

/* ------------------------------------------------------------------ packing */

static float *room_at(const plan *p, size_t at, int64_t floats)
{
    return (float *)(void *)(p->w->room + at) + floats;
}

/* Rows [from, to), f side by side. */
static void pack_rows(const plan *p, const sp_cube *c, int64_t b, int64_t from, int64_t to, float *lines,
                      int64_t line)
{
    const int64_t at = (b * c->sb + from * c->si) * (int64_t)sparta_dtype_size(p->w->s.dtype);
    const sp_lines l = {.memory = (char *)c->data + at,
                        .row = c->si,
                        .lane = c->sf,
                        .lines = lines,
                        .line = line,
                        .rows = to - from,
                        .lanes = p->w->free,
                        .dtype = p->w->s.dtype};
    p->k->pack(&l);
}

/* One column of blocks of c, for wide blocks: f after f, lanes along its columns. */
static void pack_columns(const plan *p, int64_t b, int64_t column, float *lines)
{
    const sp_blocks *s = &p->w->s;
    const sp_cube *c = &p->w->y;
    const int64_t first = column * s->width,
                  at = (b * c->sb + first * c->si) * (int64_t)sparta_dtype_size(s->dtype);
    const sp_lines l = {.memory = (char *)c->data + at,
                        .row = c->sf,
                        .lane = c->si,
                        .lines = lines,
                        .line = s->width,
                        .rows = p->w->free,
                        .lanes = SP_MIN(s->width, s->cols - first),
                        .dtype = s->dtype};
    p->k->pack(&l);
}

static void pack_share(void *arg, int worker)
{
    const plan *p = arg;
    const sp_work *w = p->w;
    const int64_t each = p->wide ? 1 : CHUNK, chunks = (c_lines(p) + each - 1) / each;
    for (int64_t u = worker; u < chunks * w->s.batch; u += w->team) {
        const int64_t b = u / chunks, from = u % chunks * each;
        float *lines = room_at(p, p->c_at, (b * c_lines(p) + from) * p->c_line);
        if (p->wide)
            pack_columns(p, b, from, lines);
        else
            pack_rows(p, &w->y, b, from, SP_MIN(from + each, w->s.cols), lines, p->c_line);
    }
}

/* ------------------------------------------------------------------ rows of blocks */

typedef struct bench { /* a worker's */
    const plan *p;
    float *line;    /* a row of blocks in f32; NULL: they are written where they belong */
    float *rows;    /* of a: a band of them */
    int64_t b, top; /* of which matrix, and from which row on; -1: none yet */
} bench;

/* What does not exist in a row of blocks is 0. */
static void clear_absent(const plan *p, const sp_sampling *s, int64_t first)
{
    const int64_t size = s->height * s->width;
    if (p->w->s.keep)
        p->k->widen(s->values, p->w->s.keep + first * size, s->values, s->blocks * size, SPARTA_F32);
    for (int64_t i = 0; s->high < s->height && i < s->blocks; i++)
        memset(s->values + i * size + s->high * s->width, 0,
               (size_t)((s->height - s->high) * s->width) * sizeof(float));
    /* Columns ascend: only the last block can reach over the edge. */
    const int64_t i = s->blocks - 1, wide = s->cols - s->crd[i] * s->width;
    for (int64_t r = 0; wide < s->width && r < s->height; r++)
        memset(s->values + i * size + r * s->width + wide, 0, (size_t)(s->width - wide) * sizeof(float));
}

static void place_a(bench *mine, int64_t b, int64_t row, sp_sampling *m)
{
    const plan *p = mine->p;
    const sp_work *w = p->w;
    if (!p->pack_a) {
        m->a = (const float *)w->x.data + b * w->x.sb + row * w->x.si;
        m->a_row = w->x.si, m->a_free = w->x.sf;
        return;
    }
    const int64_t top = row / p->band * p->band;
    if (mine->b != b || mine->top != top)
        pack_rows(p, &w->x, b, top, SP_MIN(top + p->band, w->s.rows), mine->rows, p->a_line);
    mine->b = b, mine->top = top;
    m->a = mine->rows + (row - top) * p->a_line;
    m->a_row = p->a_line, m->a_free = 1;
}

static void place_c(const plan *p, int64_t b, sp_sampling *m)
{
    const sp_cube *c = &p->w->y;
    if (!p->pack_c) {
        /* Without features nothing is read, and there may be no memory. */
        m->c = m->free ? (const float *)c->data + b * c->sb : m->values;
        m->c_block = m->width * c->si, m->c_column = c->si, m->c_free = c->sf;
        return;
    }
    m->c = room_at(p, p->c_at, b * c_lines(p) * p->c_line);
    m->c_block = m->c_column = p->c_line;
    m->c_free = p->wide ? m->width : 1;
}

static void one_line(void *arg, int64_t b, int64_t line)
{
    bench *mine = arg;
    const plan *p = mine->p;
    const sp_blocks *s = &p->w->s;
    const int32_t *pos = sp_lines_of(s, b) + line;
    const int64_t row = line * s->height, at = b * s->each + pos[0] * s->height * s->width;
    sp_sampling m = {.crd = s->crd + pos[0],
                     .values = mine->line ? mine->line : (float *)s->values + at,
                     .blocks = pos[1] - pos[0],
                     .height = s->height,
                     .width = s->width,
                     .free = p->w->free,
                     .high = SP_MIN(s->height, s->rows - row),
                     .cols = s->cols,
                     .scale = (float)p->w->scale};
    place_a(mine, b, row, &m);
    place_c(p, b, &m);
    if (p->pack_a && p->pack_c && !p->wide)
        m.free = (m.free + 15) / 16 * 16; /* what was packed ends with zeros */
    (p->wide ? p->k->sample_wide : p->k->sample_narrow)(&m);
    clear_absent(p, &m, pos[0]);
    if (mine->line)
        p->k->narrow(m.values, (uint16_t *)s->values + at, m.blocks * s->height * s->width, s->dtype);
}

static void sample_share(void *arg, int worker)
{
    const plan *p = arg;
    bench mine = {.p = p, .b = -1};
    if (p->line_each) mine.line = room_at(p, p->line_at, worker * p->line_each);
    if (p->pack_a) mine.rows = room_at(p, p->a_at, worker * p->band * p->a_line);
    sp_each_line(p->w, worker, one_line, &mine);
}

void sp_sample_run(const sp_work *w, const sparta_launch *how)
{
    plan p = plan_of(w);
    place(&p);
    if (c_lines(&p)) sp_share(how, w->team, pack_share, &p);
    sp_share(how, w->team, sample_share, &p);
}
