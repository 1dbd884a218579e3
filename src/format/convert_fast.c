/* Fast conversions: which storage a format is, and the path from one to another. rows.h draws the house.
 *
 *     same orientation (csr -> bsr, csc -> csc, coo -> ell)        rows: read lines, write lines
 *     other orientation, into compressed (csr -> csc, ell -> csc)  turn
 *     other orientation, else (csc -> ell, dia -> bsc)             turn into a temporary, then rows
 *     dense targets take lines of either orientation
 */
#include "format/rows.h"
#include <string.h>

/* ------------------------------------------------------------------ layouts */

static bool plain(const sparta_level *l, sparta_level_kind kind, int dim, unsigned allowed)
{
    return l->kind == kind && l->dim == dim && l->map == SPARTA_MAP_ALL && !(l->properties & ~allowed);
}

enum { ANY_ORDER = SPARTA_PROP_NONUNIQUE | SPARTA_PROP_NONORDERED };

static bool two_levels(const sparta_format *f, int x, int y, sparta_rows_layout *out)
{
    const sparta_level *l = f->level;
    if (f->n != 2) return false;
    if (plain(&l[0], SPARTA_LEVEL_DENSE, x, 0)) {
        out->kind = l[1].kind == SPARTA_LEVEL_DENSE        ? SPARTA_ROWS_DENSE
                    : l[1].kind == SPARTA_LEVEL_COMPRESSED ? SPARTA_ROWS_CSR
                    : l[1].kind == SPARTA_LEVEL_PACKED     ? SPARTA_ROWS_ELL
                                                           : SPARTA_ROWS_BITMAP;
        out->w = l[1].w;
        return plain(&l[1], SPARTA_LEVEL_DENSE, y, 0) ||
               plain(&l[1], SPARTA_LEVEL_COMPRESSED, y, ANY_ORDER) ||
               (plain(&l[1], SPARTA_LEVEL_PACKED, y, SPARTA_PROP_PAD_ZERO) && !l[1].crd_bits) ||
               plain(&l[1], SPARTA_LEVEL_BITMAP, y, 0);
    }
    if (plain(&l[0], SPARTA_LEVEL_COMPRESSED, x, 0) && plain(&l[1], SPARTA_LEVEL_COMPRESSED, y, ANY_ORDER)) {
        out->kind = SPARTA_ROWS_DCSR;
        return true;
    }
    out->kind = SPARTA_ROWS_COO;
    out->unordered = l[0].properties & SPARTA_PROP_NONORDERED;
    return plain(&l[0], SPARTA_LEVEL_COMPRESSED, x, ANY_ORDER) && l[0].properties & SPARTA_PROP_NONUNIQUE &&
           plain(&l[1], SPARTA_LEVEL_SINGLETON, y, ANY_ORDER | SPARTA_PROP_SOA);
}

static bool blocks(const sparta_format *f, int x, int y, sparta_rows_layout *out)
{
    const sparta_level *l = f->level;
    bool over = l[0].kind == SPARTA_LEVEL_DENSE && l[0].dim == x && l[1].kind == SPARTA_LEVEL_COMPRESSED &&
                l[1].dim == y && !(l[1].properties & ~(unsigned)ANY_ORDER);
    if (f->n < 3 || !over) return false;
    if (l[0].map == SPARTA_MAP_DIV) out->a = l[0].c;
    if (l[1].map == SPARTA_MAP_DIV) out->b = l[1].c;
    int64_t stride = 1;
    for (int i = f->n - 1; i >= 2; i--) {
        if (l[i].kind != SPARTA_LEVEL_DENSE || l[i].map != SPARTA_MAP_MOD) return false;
        *(l[i].dim == x ? &out->sa : &out->sb) = stride;
        stride *= l[i].c;
    }
    out->kind = SPARTA_ROWS_BSR;
    out->unordered = l[1].properties & SPARTA_PROP_NONORDERED;
    return (l[0].map == SPARTA_MAP_ALL || l[0].map == SPARTA_MAP_DIV) &&
           (l[1].map == SPARTA_MAP_ALL || l[1].map == SPARTA_MAP_DIV) && stride == out->a * out->b;
}

static bool groups(const sparta_format *f, int x, int y, sparta_rows_layout *out)
{
    const sparta_level *l = f->level;
    out->kind = SPARTA_ROWS_NM;
    return f->n == 3 && plain(&l[0], SPARTA_LEVEL_DENSE, x, 0) && l[1].kind == SPARTA_LEVEL_DENSE &&
           l[1].dim == y && l[1].map == SPARTA_MAP_DIV && l[2].kind == SPARTA_LEVEL_STRUCTURED &&
           l[2].dim == y && l[2].map == SPARTA_MAP_MOD && l[2].c == l[2].m && l[1].c == l[2].m &&
           !(l[2].properties & ~(unsigned)SPARTA_PROP_PAD_ZERO);
}

static bool diagonals(const sparta_format *f, sparta_rows_layout *out)
{
    const sparta_level *l = f->level;
    out->kind = SPARTA_ROWS_DIA;
    return f->n == 2 && l[0].kind == SPARTA_LEVEL_COMPRESSED && l[0].map == SPARTA_MAP_SUB && l[0].dim == 1 &&
           l[0].other == 0 && !l[0].properties && plain(&l[1], SPARTA_LEVEL_RANGE, 0, 0);
}

bool sparta_rows_layout_of(const sparta_format *f, sparta_rows_layout *out)
{
    *out = (sparta_rows_layout){.kind = SPARTA_ROWS_HYB, .a = 1, .b = 1};
    if (f->sum) return sparta_hyb_is(f);
    if (f->opaque || f->rank != 2 || f->n < 2) return false;
    if (diagonals(f, out)) return true;
    int x = f->level[0].dim, y = !x;
    *out = (sparta_rows_layout){.a = 1, .b = 1, .turned = x == 1};
    if (two_levels(f, x, y, out)) return true;
    *out = (sparta_rows_layout){.a = 1, .b = 1, .turned = x == 1};
    if (blocks(f, x, y, out)) return true;
    *out = (sparta_rows_layout){.a = 1, .b = 1, .turned = x == 1};
    return groups(f, x, y, out);
}

/* ------------------------------------------------------------------ threads */

typedef struct {
    sparta_piece work;
    void *arg;
    int64_t n, each;
    atomic_llong next;
    atomic_bool bad;
} team;

static void take_pieces(void *arg, int thread)
{
    team *t = arg;
    while (!atomic_load_explicit(&t->bad, memory_order_relaxed)) {
        int64_t lo = atomic_fetch_add_explicit(&t->next, t->each, memory_order_relaxed);
        if (lo >= t->n) return;
        if (!t->work(t->arg, thread, lo, SPARTA_MIN(t->n, lo + t->each)))
            atomic_store_explicit(&t->bad, true, memory_order_relaxed);
    }
}

int sparta_pieces_threads(sparta_pool *pool)
{
    return pool ? sparta_pool_threads(pool) : 1;
}

bool sparta_pieces(sparta_pool *pool, int64_t n, sparta_piece work, void *arg)
{
    int threads = sparta_pieces_threads(pool);
    team t = {.work = work, .arg = arg, .n = n, .each = SPARTA_MAX(1, n / (8 * threads))};
    if (threads == 1 || n < 2)
        take_pieces(&t, 0);
    else
        sparta_pool_run(pool, take_pieces, &t);
    return !t.bad;
}

/* ------------------------------------------------------------------ one job */

static const sparta_writer *const writers[SPARTA_ROWS_KINDS] = {
    [SPARTA_ROWS_DENSE] = &sparta_writer_dense,   [SPARTA_ROWS_CSR] = &sparta_writer_csr,
    [SPARTA_ROWS_COO] = &sparta_writer_coo,       [SPARTA_ROWS_DCSR] = &sparta_writer_dcsr,
    [SPARTA_ROWS_BSR] = &sparta_writer_bsr,       [SPARTA_ROWS_ELL] = &sparta_writer_ell,
    [SPARTA_ROWS_BITMAP] = &sparta_writer_bitmap, [SPARTA_ROWS_NM] = &sparta_writer_nm,
    [SPARTA_ROWS_DIA] = &sparta_writer_dia,       [SPARTA_ROWS_HYB] = &sparta_writer_hyb,
};

/* Columns and values of a line for each thread, and slots for the blocks of a row. */
static sparta_status scratch_make(sparta_job *job)
{
    int threads = sparta_pieces_threads(job->pool);
    size_t cols = (size_t)job->from->cols, blocks_n = cols / (size_t)job->layout.b + 1;
    job->scratch = sparta_alloc_array(job->cx, (size_t)threads, sizeof *job->scratch);
    SPARTA_NEED(job->cx, job->scratch);
    for (int t = 0; t < threads; t++) {
        sparta_scratch *s = &job->scratch[t];
        s->col = sparta_alloc(job->cx, (cols + (size_t)job->from->layout.w) * sizeof *s->col);
        SPARTA_NEED(job->cx, s->col);
        s->value = sparta_alloc(job->cx, cols * job->from->size);
        SPARTA_NEED(job->cx, s->value);
        if (job->layout.kind != SPARTA_ROWS_BSR) continue;
        s->slot = sparta_alloc_array(job->cx, blocks_n, 2 * sizeof *s->slot);
        SPARTA_NEED(job->cx, s->slot);
        s->listed = s->slot + blocks_n;
        s->bits = sparta_alloc_array(job->cx, blocks_n / 64 + blocks_n / 4096 + blocks_n / 8 + 10, 8);
        SPARTA_NEED(job->cx, s->bits);
        s->words = s->bits + blocks_n / 64 + 1;
        s->marks = (uint8_t *)(s->words + blocks_n / 4096 + 1);
    }
    return SPARTA_OK;
}

static sparta_status space_make(sparta_job *job, bool turns)
{
    const sparta_rows *s = job->from;
    sparta_rows_kind kind = job->layout.kind;
    int64_t slots = kind == SPARTA_ROWS_DIA ? s->rows + s->cols : 0;
    SPARTA_TRY(scratch_make(job));
    job->units = turns ? s->cols : (s->rows + job->layout.a - 1) / job->layout.a;
    if (kind == SPARTA_ROWS_HYB) slots = sparta_hyb_directory(job->format, s->rows);
    job->count = sparta_alloc(job->cx, (size_t)(SPARTA_MAX(job->units, slots) + 1) * sizeof *job->count);
    SPARTA_NEED(job->cx, job->count);
    if (!slots) return SPARTA_OK;
    job->slot = sparta_alloc(job->cx, (size_t)slots * sizeof *job->slot);
    SPARTA_NEED(job->cx, job->slot);
    memset(job->slot, kind == SPARTA_ROWS_DIA ? 0xff : 0, (size_t)slots * sizeof *job->slot);
    return SPARTA_OK;
}

static void space_free(sparta_job *job)
{
    for (int t = 0; job->scratch && t < sparta_pieces_threads(job->pool); t++) {
        sparta_free(job->cx, job->scratch[t].col);
        sparta_free(job->cx, job->scratch[t].value);
        sparta_free(job->cx, job->scratch[t].slot);
        sparta_free(job->cx, job->scratch[t].bits);
    }
    sparta_free(job->cx, job->scratch);
    sparta_free(job->cx, job->count);
    sparta_free(job->cx, job->slot);
    job->scratch = NULL, job->count = NULL, job->slot = NULL;
}

/* dense has no counts; dia and hyb have theirs elsewhere. */
static void find_longest(sparta_job *job)
{
    sparta_rows_kind kind = job->layout.kind;
    if (kind == SPARTA_ROWS_DENSE || kind == SPARTA_ROWS_DIA || kind == SPARTA_ROWS_HYB) return;
    for (int64_t u = 0; u < job->units; u++) job->longest = SPARTA_MAX(job->longest, job->count[u]);
}

static sparta_status count_plan_fill(sparta_job *job, bool *can)
{
    const sparta_writer *w = writers[job->layout.kind];
    *can = !w->count || sparta_pieces(job->pool, job->units, w->count, job);
    if (!*can) return SPARTA_OK;
    SPARTA_TRY(sparta_check_cancel(job->cx));
    if (job->measure) find_longest(job);
    SPARTA_TRY(w->plan(job, can));
    if (!*can || job->measure) return SPARTA_OK;
    SPARTA_TRY(sparta_check_cancel(job->cx));
    *can = sparta_pieces(job->pool, job->units, w->fill, job);
    return SPARTA_OK;
}

static bool turns(const sparta_rows_layout *from, const sparta_rows_layout *to)
{
    return from->turned != to->turned && to->kind != SPARTA_ROWS_DENSE;
}

/* From an open source; `out` gets its head and arrays. */
static sparta_status run_job(sparta_job *job, bool *can)
{
    const sparta_packed *p = job->from->p;
    bool turn = turns(&job->from->layout, &job->layout);
    *job->out = (sparta_packed){.format = *job->format, .dtype = p->dtype, .pattern = p->pattern, .rank = 2};
    memcpy(job->out->dim, p->dim, sizeof p->dim);
    job->valued = !p->pattern || (!job->format->sum && sparta_levels_pattern_has_values(job->format));
    job->ones = p->pattern;
    SPARTA_TRY(space_make(job, turn));
    SPARTA_TRY(turn ? sparta_rows_turn(job, can) : count_plan_fill(job, can));
    return sparta_check_cancel(job->cx);
}

/* ------------------------------------------------------------------ source to target, by way of a temporary where it must be */

static const sparta_format *temporary(bool turned, sparta_format *f)
{
    *f = sparta_format_iter(2);
    f->level[0].dim = turned, f->level[1].dim = !turned;
    f->level[1].kind = SPARTA_LEVEL_COMPRESSED;
    return f;
}

static bool direct(const sparta_rows_layout *from, const sparta_rows_layout *to)
{
    return !turns(from, to) || to->kind == SPARTA_ROWS_CSR;
}

/* `out` is all 0, or whole when `can`. */
static sparta_status convert(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to,
                             sparta_pool *pool, const sparta_tensor *into, bool *can, sparta_packed *out)
{
    sparta_rows s;
    sparta_format between;
    sparta_packed step = {0};
    sparta_job job = {.cx = cx, .from = &s, .format = to, .out = out, .pool = pool, .into = into};
    sparta_status status = sparta_rows_open(cx, from, pool, can, &s);
    bool is = !status && *can && sparta_rows_layout_of(to, &job.layout);
    bool steps = is && !direct(&s.layout, &job.layout);
    if (steps) {
        job.format = temporary(job.layout.turned, &between);
        job.layout =
            (sparta_rows_layout){.kind = SPARTA_ROWS_CSR, .turned = job.layout.turned, .a = 1, .b = 1};
        job.out = &step;
    }
    *can = is;
    if (is) status = run_job(&job, can);
    if (is && !status && !*can && s.layout.kind == SPARTA_ROWS_COO && !s.own_col) {
        sparta_packed_free(cx, job.out); /* columns that fall? */
        space_free(&job);
        status = sparta_rows_sort(cx, pool, &s, can);
        if (!status && *can) status = run_job(&job, can);
    }
    space_free(&job);
    sparta_rows_close(cx, &s);
    if (status || !*can) sparta_packed_free(cx, job.out);
    if (!steps || status || !*can) return status;
    status = convert(cx, &step, to, pool, into, can, out); /* of its own orientation: no further step */
    sparta_packed_free(cx, &step);
    return status;
}

sparta_status sparta_convert_fast(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to,
                                  sparta_pool *pool, bool *done, sparta_packed *out)
{
    sparta_packed p = {0};
    *done = false;
    sparta_status status = convert(cx, from, to, pool, NULL, done, &p);
    if (status) *done = false;
    if (*done) *out = p;
    return status;
}

/* ------------------------------------------------------------------ statistics: all but the fill */

static bool all_dense(const sparta_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].kind != SPARTA_LEVEL_DENSE) return false;
    return f->n && f->rank == 2;
}

/* Is it counted by rows? nm is not, its groups may be too small; of formats that are dense only the elements are counted. */
static bool counts(const sparta_rows *s, const sparta_format *to, sparta_rows_layout *out)
{
    if (all_dense(to)) {
        *out = (sparta_rows_layout){.kind = SPARTA_ROWS_DENSE, .a = 1, .b = 1};
        return true;
    }
    return sparta_rows_layout_of(to, out) && !turns(&s->layout, out) && out->kind != SPARTA_ROWS_NM;
}

sparta_status sparta_measure_fast(sparta_ctx *cx, const sparta_packed *from, const sparta_format *to,
                                  bool *done, sparta_format_stats *stats)
{
    sparta_rows s;
    sparta_packed lengths = {0};
    sparta_job job = {.cx = cx, .from = &s, .format = to, .out = &lengths, .measure = true};
    sparta_status status = sparta_rows_open(cx, from, NULL, done, &s);
    *done = !status && *done && counts(&s, to, &job.layout);
    if (*done) status = run_job(&job, done);
    if (!status && *done) *done = sparta_pieces(NULL, s.rows, sparta_count_elements, &job);
    if (!status && *done) status = sparta_count_stats(&job, stats);
    space_free(&job);
    sparta_rows_close(cx, &s);
    sparta_packed_free(cx, &lengths);
    return status;
}

const char *sparta_convert_path(const sparta_format *from, const sparta_format *to)
{
    sparta_rows_layout f, t;
    if (!sparta_rows_layout_of(from, &f) || !sparta_rows_layout_of(to, &t)) return "generic";
    if (!turns(&f, &t)) return "rows";
    return direct(&f, &t) ? "turn" : "turn, then rows";
}

/* ------------------------------------------------------------------ dense tensors */

sparta_status sparta_pack_fast(sparta_ctx *cx, const sparta_pack_job *job, sparta_pool *pool, bool *done,
                               sparta_packed *out)
{
    *done = false;
    if (job->mask || job->t->rank != 2 || !sparta_tensor_contiguous(job->t)) return SPARTA_OK;
    sparta_packed from = sparta_packed_of_dense(job->t);
    return sparta_convert_fast(cx, &from, job->format, pool, done, out);
}

/* Read everything once before a first byte is written. */
static bool look(void *arg, int thread, int64_t lo, int64_t hi)
{
    const sparta_job *job = arg;
    if (!sparta_rows_check(job->from, lo, hi)) return false;
    for (int64_t row = lo; !job->from->flat && row < hi; row++) {
        sparta_line line;
        if (!job->from->read(job->from, row, &job->scratch[thread], &line)) return false;
    }
    return true;
}

static sparta_status unpack_job(sparta_job *job, bool *can)
{
    SPARTA_TRY(space_make(job, false));
    *can = sparta_pieces(job->pool, job->units, look, job);
    if (!*can || !sparta_tensor_elements(job->into)) return SPARTA_OK;
    SPARTA_TRY(sparta_check_cancel(job->cx));
    sparta_tensor_clear(job->into);
    *can = sparta_pieces(job->pool, job->units, sparta_writer_dense.fill, job);
    return SPARTA_OK;
}

sparta_status sparta_unpack_fast(sparta_ctx *cx, const sparta_packed *p, const sparta_tensor *out,
                                 sparta_pool *pool, bool *done)
{
    sparta_rows s;
    sparta_job job = {.cx = cx,
                      .from = &s,
                      .layout = {.kind = SPARTA_ROWS_DENSE, .a = 1, .b = 1},
                      .pool = pool,
                      .ones = p->pattern,
                      .into = out};
    sparta_status status = sparta_rows_open(cx, p, pool, done, &s);
    const bool is = !status && *done;
    if (is) status = unpack_job(&job, done);
    if (is && !status && !*done && s.layout.kind == SPARTA_ROWS_COO && !s.own_col) { /* columns that fall? */
        space_free(&job);
        status = sparta_rows_sort(cx, pool, &s, done);
        if (!status && *done) status = unpack_job(&job, done);
    }
    space_free(&job);
    sparta_rows_close(cx, &s);
    if (status) *done = false;
    return status;
}
