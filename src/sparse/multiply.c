/* The products: who does which panel, and where its operands lie.
 *
 *     panels x batch are many     a worker takes a panel and goes down the matrix in bands of rows. The operand with a line for each column of the
 *                                 matrix is packed once; of the other, a band at a time is packed or unpacked while it is in the cache
 *     they are few                all panels are packed; each is multiplied in parts, rows or columns of the matrix; all are unpacked
 */
#include "sparse/share.h"

enum { BAND = 512 }; /* rows of the matrix */
enum { STEP = 16 };  /* rows of a residual that are packed at a time */
enum {
    REUSED = 4
}; /* a line that is read so often is packed where the lines of the caller's memory are far apart */
enum { APART = 1024 }; /* bytes */

typedef struct plan {
    const sp_work *w;
    const sp_kernels *k;
    bool turned;
    int64_t in, out, panels, units, parts;
    int64_t line; /* floats of a packed line */
    int64_t band; /* rows of blocks */
    /* Floats of the room for a panel's columns and for a band's rows; where the workspace has them. */
    int64_t col_each, row_each;
    size_t values_at, bias_at, cursor_at, col_at, row_at;
    const float *values, *bias;
    /* The operands with a line for each column of the matrix and for each row; how often a line of them is touched. */
    sp_cube col, row;
    double col_touch, row_touch;
} plan;

/* Kernels take it as it lies. */
static bool in_place(const plan *p, const sp_cube *c, double touched, int64_t lanes)
{
    const bool near = c->si * 4 <= APART && c->si * 4 >= -APART;
    return p->w->s.dtype == SPARTA_F32 && c->sf == 1 && lanes % 16 == 0 && (near || touched < REUSED);
}

static bool widens(const sp_work *w)
{
    return w->s.dtype != SPARTA_F32 || w->s.masked;
}

static int64_t values_of(const sp_work *w)
{
    return w->s.blocks * w->s.height * w->s.width * (w->s.each ? w->s.batch : 1);
}

static plan plan_of(const sp_work *w)
{
    const sp_blocks *s = &w->s;
    const bool turned = w->verb == SPARTA_MULTIPLY_TURNED;
    plan p = {.w = w,
              .k = sp_kernels_here(),
              .turned = turned,
              .in = turned ? s->rows : s->cols,
              .out = turned ? s->cols : s->rows,
              .panels = (w->free + SP_LANES - 1) / SP_LANES,
              .line = SP_MIN(SP_LANES, (w->free + 15) / 16 * 16),
              .col = turned ? w->y : w->x,
              .row = turned ? w->x : w->y};
    p.units = p.panels * s->batch;
    p.parts = p.units % w->team == 0 || p.units >= 4 * w->team ? 1 : w->team;
    p.band = p.parts > 1 ? s->down : SP_MIN(s->down, SP_MAX(BAND / s->height, 1));
    p.col_touch = (double)s->blocks * (double)s->height * (double)s->width /
                  ((double)SP_MAX(s->patterns, 1) * (double)SP_MAX(s->cols, 1));
    p.row_touch = 1;
    const bool whole = w->free % 16 == 0;
    p.col_each = whole && in_place(&p, &p.col, p.col_touch, 16) ? 0 : s->cols * p.line;
    p.row_each =
        whole && in_place(&p, &p.row, p.row_touch, 16) ? 0 : SP_MIN(p.band * s->height, s->rows) * p.line;
    return p;
}

static size_t place(plan *p)
{
    const int64_t slots = p->parts > 1 ? p->units : SP_MIN(p->units, p->w->team);
    const sp_blocks *s = &p->w->s;
    size_t bytes = 0;
    p->values_at = sp_room(&bytes, widens(p->w) ? values_of(p->w) : 0);
    p->bias_at = sp_room(&bytes, p->out);
    p->cursor_at = sp_room(&bytes, p->turned ? s->down * p->w->team : 0);
    p->col_at = sp_room(&bytes, p->col_each * slots);
    p->row_at = sp_room(&bytes, p->row_each * slots);
    return bytes;
}

size_t sp_multiply_room(const sp_work *w)
{
    plan p = plan_of(w);
    return place(&p);
}

/* ------------------------------------------------------------------ one panel */

typedef struct spot {
    int64_t b, panel, slot, lanes;
} spot;

static spot spot_of(const plan *p, int64_t unit, int64_t slot)
{
    const int64_t panel = unit % p->panels;
    return (spot){unit / p->panels, panel, slot, SP_MIN(SP_LANES, p->w->free - panel * SP_LANES)};
}

static float *room_at(const plan *p, size_t at, int64_t each, const spot *s)
{
    return (float *)(void *)(p->w->room + at) + each * s->slot;
}

/* Rows [from, to) of an operand and their room. */
static sp_lines lines_of(const plan *p, const sp_cube *c, int64_t from, int64_t to, const spot *s,
                         float *lines)
{
    const int64_t at = s->b * c->sb + from * c->si + s->panel * SP_LANES * c->sf;
    return (sp_lines){.memory = (char *)c->data + at * (int64_t)sparta_dtype_size(p->w->s.dtype),
                      .row = c->si,
                      .lane = c->sf,
                      .lines = lines,
                      .line = p->line,
                      .rows = to - from,
                      .lanes = s->lanes,
                      .dtype = p->w->s.dtype};
}

static float *col_lines(const plan *p, const spot *s, bool pack, int64_t *line)
{
    const sp_lines l = lines_of(p, &p->col, 0, p->w->s.cols, s, room_at(p, p->col_at, p->col_each, s));
    const bool stays = in_place(p, &p->col, p->col_touch, s->lanes);
    if (pack && !stays) p->k->pack(&l);
    *line = stays ? p->col.si : p->line;
    return stays ? (float *)l.memory : l.lines;
}

static float *row_lines(const plan *p, const spot *s, int64_t from, int64_t to, bool pack, int64_t *line)
{
    const sp_lines l = lines_of(p, &p->row, from, to, s, room_at(p, p->row_at, p->row_each, s));
    const bool stays = in_place(p, &p->row, p->row_touch, s->lanes);
    if (pack && !stays) p->k->pack(&l);
    *line = stays ? p->row.si : p->line;
    return stays ? (float *)l.memory : l.lines;
}

static sp_multiplying product_of(const plan *p, const spot *s, int worker)
{
    const sp_blocks *m = &p->w->s;
    return (sp_multiplying){.pos = sp_lines_of(m, s->b),
                            .crd = m->crd,
                            .values = p->values + s->b * m->each,
                            .rows = m->rows,
                            .cols = m->cols,
                            .height = m->height,
                            .width = m->width,
                            .last = m->down,
                            .to = m->right,
                            .begin = true,
                            .end = true,
                            .groups = (int)((s->lanes + 15) / 16),
                            .cursor = (int32_t *)(void *)(p->w->room + p->cursor_at) + m->down * worker,
                            .bias = p->bias};
}

/* The words but the bias, on rows [from, to) of the result, which lie at y. A residual that kernels cannot read as it lies is packed a few rows
 * at a time. */
static void finish_rows(const plan *p, const spot *s, int64_t from, int64_t to, float *y, int64_t y_line)
{
    const sp_cube *residual = &p->w->end.residual;
    const bool near = in_place(p, residual, 1, s->lanes);
    const int64_t step = residual->data && !near ? STEP : to - from;
    float packed[STEP * SP_LANES];
    for (int64_t row = from; row < to; row += step) {
        sp_finishing f = {.y = y + (row - from) * y_line,
                          .rows = SP_MIN(step, to - row),
                          .y_line = y_line,
                          .groups = (int)((s->lanes + 15) / 16),
                          .words = &p->w->end.words};
        if (residual->data) {
            const sp_lines l = lines_of(p, residual, row, row + f.rows, s, packed);
            if (!near) p->k->pack(&l);
            f.residual = near ? l.memory : l.lines;
            f.residual_line = near ? residual->si : p->line;
        }
        p->k->finish(&f);
    }
}

/* Rows [from, to) of the result, which lie at y: the words but the bias, and the way out. */
static void end_rows(const plan *p, const spot *s, int64_t from, int64_t to, float *y, int64_t y_line,
                     bool stays)
{
    const sp_ending *e = &p->w->end;
    if (e->words.n > (e->bias != NULL)) finish_rows(p, s, from, to, y, y_line);
    if (stays) return;
    const sp_lines l = lines_of(p, &p->w->y, from, to, s, y);
    p->k->unpack(&l);
}

/* All of a panel, band after band. */
static void whole_panel(const plan *p, const spot *s, int worker)
{
    const sp_blocks *b = &p->w->s;
    sp_multiplying m = product_of(p, s, worker);
    if (p->turned)
        m.y = col_lines(p, s, false, &m.y_line);
    else
        m.x = col_lines(p, s, true, &m.x_line);
    for (m.first = 0; m.first < b->down || m.first == 0; m.first = m.last) {
        m.last = SP_MIN(m.first + p->band, b->down);
        m.top = m.first * b->height;
        const int64_t past = SP_MIN(m.last * b->height, b->rows);
        if (p->turned) {
            m.x = row_lines(p, s, m.top, past, true, &m.x_line);
            m.end = m.last == b->down;
            p->k->turned(&m);
            m.begin = false;
        } else {
            m.y = row_lines(p, s, m.top, past, false, &m.y_line);
            p->k->multiply(&m);
            end_rows(p, s, m.top, past, m.y, m.y_line, in_place(p, &p->row, p->row_touch, s->lanes));
        }
        if (m.last == b->down) break;
    }
    if (p->turned) end_rows(p, s, 0, b->cols, m.y, m.y_line, in_place(p, &p->col, p->col_touch, s->lanes));
}

/* ------------------------------------------------------------------ shares */

static void widen_share(void *arg, int worker)
{
    const plan *p = arg;
    const sp_work *w = p->w;
    const int64_t each = w->s.blocks * w->s.height * w->s.width, times = w->s.each ? w->s.batch : 1;
    const int64_t from = each * worker / w->team, to = each * (worker + 1) / w->team;
    const size_t size = sparta_dtype_size(w->s.dtype);
    for (int64_t b = 0; b < times; b++)
        p->k->widen((const char *)w->s.values + (size_t)(b * each + from) * size,
                    w->s.keep ? w->s.keep + from : NULL,
                    (float *)(void *)(w->room + p->values_at) + b * each + from, to - from, w->s.dtype);
}

static void whole_share(void *arg, int worker)
{
    const plan *p = arg;
    const int team = p->w->team;
    for (int64_t u = p->units * worker / team; u < p->units * (worker + 1) / team; u++) {
        const spot s = spot_of(p, u, worker);
        whole_panel(p, &s, worker);
    }
}

/* Both operands of a panel, packed if they must be and `pack` says so. */
static sp_multiplying part_of(const plan *p, const spot *s, bool pack, int worker)
{
    const int64_t rows = p->w->s.rows;
    sp_multiplying m = product_of(p, s, worker);
    if (p->turned) {
        m.x = row_lines(p, s, 0, rows, pack, &m.x_line);
        m.y = col_lines(p, s, false, &m.y_line);
    } else {
        m.x = col_lines(p, s, pack, &m.x_line);
        m.y = row_lines(p, s, 0, rows, false, &m.y_line);
    }
    return m;
}

static void pack_share(void *arg, int worker)
{
    const plan *p = arg;
    for (int64_t u = worker; u < p->units; u += p->w->team) {
        const spot s = spot_of(p, u, u);
        part_of(p, &s, true, worker);
    }
}

/* A part of a panel: rows of blocks with equally many blocks; turned: columns of blocks. */
static void part_share(void *arg, int worker)
{
    const plan *p = arg;
    const sp_blocks *b = &p->w->s;
    for (int64_t u = worker; u < p->units * p->parts; u += p->w->team) {
        const spot s = spot_of(p, u / p->parts, u / p->parts);
        sp_multiplying m = part_of(p, &s, false, worker);
        const int64_t part = u % p->parts;
        if (p->turned) {
            m.from = b->right * part / p->parts;
            m.to = b->right * (part + 1) / p->parts;
            p->k->turned(&m);
        } else {
            const int64_t from = m.pos[0], n = m.pos[b->down] - from;
            if (part) m.first = sp_line_at(m.pos, b->down, from + n * part / p->parts);
            if (part + 1 < p->parts) m.last = sp_line_at(m.pos, b->down, from + n * (part + 1) / p->parts);
            p->k->multiply(&m);
        }
    }
}

static void end_share(void *arg, int worker)
{
    const plan *p = arg;
    for (int64_t u = worker; u < p->units; u += p->w->team) {
        const spot s = spot_of(p, u, u);
        const sp_multiplying m = part_of(p, &s, false, worker);
        end_rows(p, &s, 0, p->out, m.y, m.y_line,
                 in_place(p, &p->w->y, p->turned ? p->col_touch : p->row_touch, s.lanes));
    }
}

/* The bias as f32, side by side. */
static const float *bias_of(const plan *p)
{
    const sp_ending *e = &p->w->end;
    if (!e->bias) return NULL;
    if (p->w->s.dtype == SPARTA_F32 && e->bias_step == 1) return e->bias;
    sp_lines l = {.memory = (void *)(uintptr_t)e->bias,
                  .row = 0,
                  .lane = e->bias_step,
                  .lines = (float *)(void *)(p->w->room + p->bias_at),
                  .rows = 1,
                  .lanes = p->out,
                  .dtype = p->w->s.dtype};
    p->k->pack(&l);
    return l.lines;
}

void sp_multiply_run(const sp_work *w, const sparta_launch *how)
{
    plan p = plan_of(w);
    place(&p);
    if (!p.units || !p.out) return;
    p.values = w->s.values;
    if (widens(w)) {
        sp_share(how, w->team, widen_share, &p);
        p.values = (const float *)(const void *)(w->room + p.values_at);
    }
    p.bias = bias_of(&p);
    if (p.parts == 1) {
        sp_share(how, w->team, whole_share, &p);
        return;
    }
    if (p.turned ? p.row_each : p.col_each) sp_share(how, w->team, pack_share, &p);
    sp_share(how, w->team, part_share, &p);
    if ((p.turned ? p.col_each : p.row_each) || w->end.words.n > (w->end.bias != NULL))
        sp_share(how, w->team, end_share, &p);
}
