/* Fast conversions: which storage a format is, and the path from one to another. convert.h draws the house.
 *
 *     same orientation (csr -> bsr, csc -> csc, coo -> ell)        rows: read lines, write lines
 *     other orientation, into compressed (csr -> csc, ell -> csc)  turn
 *     other orientation, else (csc -> ell, dia -> bsc)             turn into a temporary, then rows
 *     dense targets take lines of either orientation
 */
#include "store/convert.h"
#include <string.h>

/* ------------------------------------------------------------------ storage */

static bool plain(const sp_level *l, sp_level_kind kind, int dim, unsigned allowed)
{
    return l->kind == kind && l->dim == dim && l->map == SP_MAP_ALL && !(l->properties & ~allowed);
}

enum { ANY_ORDER = SP_PROP_NONUNIQUE | SP_PROP_NONORDERED };

static bool two_levels(const sp_format *f, int x, int y, sp_storage *out)
{
    const sp_level *l = f->level;
    if (f->n != 2) return false;
    if (plain(&l[0], SP_LEVEL_DENSE, x, 0)) {
        out->kind = l[1].kind == SP_LEVEL_DENSE        ? SP_STORAGE_DENSE
                    : l[1].kind == SP_LEVEL_COMPRESSED ? SP_STORAGE_CSR
                    : l[1].kind == SP_LEVEL_PACKED     ? SP_STORAGE_ELL
                                                       : SP_STORAGE_BITMAP;
        out->w = l[1].w;
        return plain(&l[1], SP_LEVEL_DENSE, y, 0) || plain(&l[1], SP_LEVEL_COMPRESSED, y, ANY_ORDER) ||
               (plain(&l[1], SP_LEVEL_PACKED, y, SP_PROP_PAD_ZERO) && !l[1].crd_bits) ||
               plain(&l[1], SP_LEVEL_BITMAP, y, 0);
    }
    if (plain(&l[0], SP_LEVEL_COMPRESSED, x, 0) && plain(&l[1], SP_LEVEL_COMPRESSED, y, ANY_ORDER)) {
        out->kind = SP_STORAGE_DCSR;
        return true;
    }
    out->kind = SP_STORAGE_COO;
    out->unordered = l[0].properties & SP_PROP_NONORDERED;
    return plain(&l[0], SP_LEVEL_COMPRESSED, x, ANY_ORDER) && l[0].properties & SP_PROP_NONUNIQUE &&
           plain(&l[1], SP_LEVEL_SINGLETON, y, ANY_ORDER | SP_PROP_SOA);
}

static bool blocks(const sp_format *f, int x, int y, sp_storage *out)
{
    const sp_level *l = f->level;
    bool over = l[0].kind == SP_LEVEL_DENSE && l[0].dim == x && l[1].kind == SP_LEVEL_COMPRESSED &&
                l[1].dim == y && !(l[1].properties & ~(unsigned)ANY_ORDER);
    if (f->n < 3 || !over) return false;
    if (l[0].map == SP_MAP_DIV) out->a = l[0].c;
    if (l[1].map == SP_MAP_DIV) out->b = l[1].c;
    int64_t stride = 1;
    for (int i = f->n - 1; i >= 2; i--) {
        if (l[i].kind != SP_LEVEL_DENSE || l[i].map != SP_MAP_MOD) return false;
        *(l[i].dim == x ? &out->sa : &out->sb) = stride;
        stride *= l[i].c;
    }
    out->kind = SP_STORAGE_BSR;
    out->unordered = l[1].properties & SP_PROP_NONORDERED;
    return (l[0].map == SP_MAP_ALL || l[0].map == SP_MAP_DIV) &&
           (l[1].map == SP_MAP_ALL || l[1].map == SP_MAP_DIV) && stride == out->a * out->b;
}

static bool groups(const sp_format *f, int x, int y, sp_storage *out)
{
    const sp_level *l = f->level;
    out->kind = SP_STORAGE_NM;
    return f->n == 3 && plain(&l[0], SP_LEVEL_DENSE, x, 0) && l[1].kind == SP_LEVEL_DENSE && l[1].dim == y &&
           l[1].map == SP_MAP_DIV && l[2].kind == SP_LEVEL_STRUCTURED && l[2].dim == y &&
           l[2].map == SP_MAP_MOD && l[2].c == l[2].m && l[1].c == l[2].m &&
           !(l[2].properties & ~(unsigned)SP_PROP_PAD_ZERO);
}

static bool diagonals(const sp_format *f, sp_storage *out)
{
    const sp_level *l = f->level;
    out->kind = SP_STORAGE_DIA;
    return f->n == 2 && l[0].kind == SP_LEVEL_COMPRESSED && l[0].map == SP_MAP_SUB && l[0].dim == 1 &&
           l[0].other == 0 && !l[0].properties && plain(&l[1], SP_LEVEL_RANGE, 0, 0);
}

bool sp_storage_of(const sp_format *f, sp_storage *out)
{
    *out = (sp_storage){.kind = SP_STORAGE_HYB, .a = 1, .b = 1};
    if (f->sum) return sp_hyb_is(f);
    if (f->opaque || f->rank != 2 || f->n < 2) return false;
    if (diagonals(f, out)) return true;
    int x = f->level[0].dim, y = !x;
    *out = (sp_storage){.a = 1, .b = 1, .turned = x == 1};
    if (two_levels(f, x, y, out)) return true;
    *out = (sp_storage){.a = 1, .b = 1, .turned = x == 1};
    if (blocks(f, x, y, out)) return true;
    *out = (sp_storage){.a = 1, .b = 1, .turned = x == 1};
    return groups(f, x, y, out);
}

/* ------------------------------------------------------------------ threads */

typedef struct {
    sp_piece work;
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
        if (!t->work(t->arg, thread, lo, SP_MIN(t->n, lo + t->each)))
            atomic_store_explicit(&t->bad, true, memory_order_relaxed);
    }
}

int sp_pieces_threads(sp_pool *pool)
{
    return pool ? sp_pool_threads(pool) : 1;
}

bool sp_pieces(sp_pool *pool, int64_t n, sp_piece work, void *arg)
{
    int threads = sp_pieces_threads(pool);
    team t = {.work = work, .arg = arg, .n = n, .each = SP_MAX(1, n / (8 * threads))};
    if (threads == 1 || n < 2)
        take_pieces(&t, 0);
    else
        sp_pool_run(pool, take_pieces, &t);
    return !t.bad;
}

/* ------------------------------------------------------------------ one job */

static const sp_writer *const writers[SP_STORAGE_KINDS] = {
    [SP_STORAGE_DENSE] = &sp_writer_dense,   [SP_STORAGE_CSR] = &sp_writer_csr,
    [SP_STORAGE_COO] = &sp_writer_coo,       [SP_STORAGE_DCSR] = &sp_writer_dcsr,
    [SP_STORAGE_BSR] = &sp_writer_bsr,       [SP_STORAGE_ELL] = &sp_writer_ell,
    [SP_STORAGE_BITMAP] = &sp_writer_bitmap, [SP_STORAGE_NM] = &sp_writer_nm,
    [SP_STORAGE_DIA] = &sp_writer_dia,       [SP_STORAGE_HYB] = &sp_writer_hyb,
};

/* Columns and values of a line for each thread, and slots for the blocks of a row. */
static sparta_status scratch_make(sp_convert_job *job)
{
    int threads = sp_pieces_threads(job->pool);
    size_t cols = (size_t)job->from->cols, blocks_n = cols / (size_t)job->storage.b + 1;
    job->scratch = sp_alloc_array(job->cx, (size_t)threads, sizeof *job->scratch);
    SP_NEED(job->cx, job->scratch);
    for (int t = 0; t < threads; t++) {
        sp_scratch *s = &job->scratch[t];
        s->col = sp_alloc(job->cx, (cols + (size_t)job->from->storage.w) * sizeof *s->col);
        SP_NEED(job->cx, s->col);
        s->value = sp_alloc(job->cx, cols * job->from->size);
        SP_NEED(job->cx, s->value);
        if (job->storage.kind != SP_STORAGE_BSR) continue;
        s->slot = sp_alloc_array(job->cx, blocks_n, 2 * sizeof *s->slot);
        SP_NEED(job->cx, s->slot);
        s->listed = s->slot + blocks_n;
        s->bits = sp_alloc_array(job->cx, blocks_n / 64 + blocks_n / 4096 + blocks_n / 8 + 10, 8);
        SP_NEED(job->cx, s->bits);
        s->words = s->bits + blocks_n / 64 + 1;
        s->marks = (uint8_t *)(s->words + blocks_n / 4096 + 1);
    }
    return SPARTA_OK;
}

static sparta_status space_make(sp_convert_job *job, bool turns)
{
    const sp_source *s = job->from;
    sp_storage_kind kind = job->storage.kind;
    int64_t slots = kind == SP_STORAGE_DIA ? s->rows + s->cols : 0;
    SP_TRY(scratch_make(job));
    job->units = turns ? s->cols : (s->rows + job->storage.a - 1) / job->storage.a;
    if (kind == SP_STORAGE_HYB) slots = sp_hyb_directory(job->format, s->rows);
    job->count = sp_alloc(job->cx, (size_t)(SP_MAX(job->units, slots) + 1) * sizeof *job->count);
    SP_NEED(job->cx, job->count);
    if (!slots) return SPARTA_OK;
    job->slot = sp_alloc(job->cx, (size_t)slots * sizeof *job->slot);
    SP_NEED(job->cx, job->slot);
    memset(job->slot, kind == SP_STORAGE_DIA ? 0xff : 0, (size_t)slots * sizeof *job->slot);
    return SPARTA_OK;
}

static void space_free(sp_convert_job *job)
{
    for (int t = 0; job->scratch && t < sp_pieces_threads(job->pool); t++) {
        sp_free(job->cx, job->scratch[t].col);
        sp_free(job->cx, job->scratch[t].value);
        sp_free(job->cx, job->scratch[t].slot);
        sp_free(job->cx, job->scratch[t].bits);
    }
    sp_free(job->cx, job->scratch);
    sp_free(job->cx, job->count);
    sp_free(job->cx, job->slot);
    job->scratch = NULL, job->count = NULL, job->slot = NULL;
}

/* dense has no counts; dia and hyb have theirs elsewhere. */
static void find_longest(sp_convert_job *job)
{
    sp_storage_kind kind = job->storage.kind;
    if (kind == SP_STORAGE_DENSE || kind == SP_STORAGE_DIA || kind == SP_STORAGE_HYB) return;
    for (int64_t u = 0; u < job->units; u++) job->longest = SP_MAX(job->longest, job->count[u]);
}

static sparta_status count_plan_write(sp_convert_job *job, bool *can)
{
    const sp_writer *w = writers[job->storage.kind];
    *can = !w->count || sp_pieces(job->pool, job->units, w->count, job);
    if (!*can) return SPARTA_OK;
    SP_TRY(sp_check_cancel(job->cx));
    if (job->measure) find_longest(job);
    SP_TRY(w->plan(job, can));
    if (!*can || job->measure) return SPARTA_OK;
    SP_TRY(sp_check_cancel(job->cx));
    *can = sp_pieces(job->pool, job->units, w->write, job);
    return SPARTA_OK;
}

static bool turns(const sp_storage *from, const sp_storage *to)
{
    return from->turned != to->turned && to->kind != SP_STORAGE_DENSE;
}

/* From an open source; `out` gets its head and arrays. */
static sparta_status run_job(sp_convert_job *job, bool *can)
{
    const sp_packed *p = job->from->p;
    bool turn = turns(&job->from->storage, &job->storage);
    *job->out = (sp_packed){.format = *job->format, .dtype = p->dtype, .pattern = p->pattern, .rank = 2};
    memcpy(job->out->dim, p->dim, sizeof p->dim);
    job->valued = !p->pattern || (!job->format->sum && sp_levels_pattern_has_values(job->format));
    job->ones = p->pattern;
    SP_TRY(space_make(job, turn));
    SP_TRY(turn ? sp_convert_turn(job, can) : count_plan_write(job, can));
    return sp_check_cancel(job->cx);
}

/* ------------------------------------------------------------------ source to target, by way of a temporary where it must be */

/* csr, or csc when turned. */
static const sp_format *temporary(bool turned, sp_format *f)
{
    *f = (sp_format){.rank = 2, .n = 2, .dim_name = {"i", "j"}};
    for (int i = 0; i < 2; i++)
        f->level[i] = (sp_level){.kind = i ? SP_LEVEL_COMPRESSED : SP_LEVEL_DENSE,
                                 .dim = i ^ turned,
                                 .c = 1,
                                 .pos = SPARTA_I32,
                                 .crd = SPARTA_I32};
    return f;
}

static bool direct(const sp_storage *from, const sp_storage *to)
{
    return !turns(from, to) || to->kind == SP_STORAGE_CSR;
}

/* `out` is all 0, or whole when `can`. */
static sparta_status convert(sparta_ctx *cx, const sp_packed *from, const sp_format *to, sp_pool *pool,
                             const sparta_tensor *into, bool *can, sp_packed *out)
{
    sp_source s;
    sp_format between;
    sp_packed step = {0};
    sp_convert_job job = {.cx = cx, .from = &s, .format = to, .out = out, .pool = pool, .into = into};
    sparta_status status = sp_source_open(cx, from, pool, can, &s);
    bool is = !status && *can && sp_storage_of(to, &job.storage);
    bool steps = is && !direct(&s.storage, &job.storage);
    if (steps) {
        job.format = temporary(job.storage.turned, &between);
        job.storage = (sp_storage){.kind = SP_STORAGE_CSR, .turned = job.storage.turned, .a = 1, .b = 1};
        job.out = &step;
    }
    *can = is;
    if (is) status = run_job(&job, can);
    if (is && !status && !*can && s.storage.kind == SP_STORAGE_COO && !s.own_col) {
        sp_packed_free(cx, job.out); /* columns that fall? */
        space_free(&job);
        status = sp_source_sort(cx, pool, &s, can);
        if (!status && *can) status = run_job(&job, can);
    }
    space_free(&job);
    sp_source_close(cx, &s);
    if (status || !*can) sp_packed_free(cx, job.out);
    if (!steps || status || !*can) return status;
    status = convert(cx, &step, to, pool, into, can, out); /* of its own orientation: no further step */
    sp_packed_free(cx, &step);
    return status;
}

sparta_status sp_convert_fast(sparta_ctx *cx, const sp_packed *from, const sp_format *to, sp_pool *pool,
                              bool *done, sp_packed *out)
{
    sp_packed p = {0};
    *done = false;
    sparta_status status = convert(cx, from, to, pool, NULL, done, &p);
    if (status) *done = false;
    if (*done) *out = p;
    return status;
}

/* ------------------------------------------------------------------ statistics: all but the fill */

static bool all_dense(const sp_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].kind != SP_LEVEL_DENSE) return false;
    return f->n && f->rank == 2;
}

/* Is it counted by rows? nm is not, its groups may be too small; of formats that are dense only the elements are counted. */
static bool counts(const sp_source *s, const sp_format *to, sp_storage *out)
{
    if (all_dense(to)) {
        *out = (sp_storage){.kind = SP_STORAGE_DENSE, .a = 1, .b = 1};
        return true;
    }
    return sp_storage_of(to, out) && !turns(&s->storage, out) && out->kind != SP_STORAGE_NM;
}

sparta_status sp_measure_fast(sparta_ctx *cx, const sp_packed *from, const sp_format *to, bool *done,
                              sp_store_stats *stats)
{
    sp_source s;
    sp_packed lengths = {0};
    sp_convert_job job = {.cx = cx, .from = &s, .format = to, .out = &lengths, .measure = true};
    sparta_status status = sp_source_open(cx, from, NULL, done, &s);
    *done = !status && *done && counts(&s, to, &job.storage);
    if (*done) status = run_job(&job, done);
    if (!status && *done) *done = sp_pieces(NULL, s.rows, sp_count_elements, &job);
    if (!status && *done) status = sp_count_stats(&job, stats);
    space_free(&job);
    sp_source_close(cx, &s);
    sp_packed_free(cx, &lengths);
    return status;
}

/* ------------------------------------------------------------------ dense tensors */

sparta_status sp_pack_fast(sparta_ctx *cx, const sp_pack_job *job, sp_pool *pool, bool *done, sp_packed *out)
{
    *done = false;
    if (job->mask || job->t->rank != 2 || !sp_tensor_contiguous(job->t)) return SPARTA_OK;
    sp_packed from = sp_store_of_dense(job->t);
    return sp_convert_fast(cx, &from, job->format, pool, done, out);
}

/* Read everything once before a first byte is written. */
static bool look(void *arg, int thread, int64_t lo, int64_t hi)
{
    const sp_convert_job *job = arg;
    if (!sp_source_check(job->from, lo, hi)) return false;
    for (int64_t row = lo; !job->from->flat && row < hi; row++) {
        sp_line line;
        if (!job->from->read(job->from, row, &job->scratch[thread], &line)) return false;
    }
    return true;
}

static sparta_status unpack_job(sp_convert_job *job, bool *can)
{
    SP_TRY(space_make(job, false));
    *can = sp_pieces(job->pool, job->units, look, job);
    if (!*can || !sparta_tensor_elements(job->into)) return SPARTA_OK;
    SP_TRY(sp_check_cancel(job->cx));
    sp_tensor_clear(job->into);
    *can = sp_pieces(job->pool, job->units, sp_writer_dense.write, job);
    return SPARTA_OK;
}

sparta_status sp_unpack_fast(sparta_ctx *cx, const sp_packed *p, const sparta_tensor *out, sp_pool *pool,
                             bool *done)
{
    sp_source s;
    sp_convert_job job = {.cx = cx,
                          .from = &s,
                          .storage = {.kind = SP_STORAGE_DENSE, .a = 1, .b = 1},
                          .pool = pool,
                          .ones = p->pattern,
                          .into = out};
    sparta_status status = sp_source_open(cx, p, pool, done, &s);
    const bool is = !status && *done;
    if (is) status = unpack_job(&job, done);
    if (is && !status && !*done && s.storage.kind == SP_STORAGE_COO && !s.own_col) { /* columns that fall? */
        space_free(&job);
        status = sp_source_sort(cx, pool, &s, done);
        if (!status && *done) status = unpack_job(&job, done);
    }
    space_free(&job);
    sp_source_close(cx, &s);
    if (status) *done = false;
    return status;
}
