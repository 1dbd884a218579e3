/* Advice: which formats fit a tensor, by the bytes they would store.
 *
 *   entries --mask--> report (room tesa): the patterns that hold --+
 *                     cover: blocks of several sizes as a sum    --+--> measured, one by one --> fewest bytes first
 *   csr coo dcsr ell dia bitmap ranges hyb, quads and pairs as implements keep them, the best bsr, the caller's --+
 *
 * A matrix whose bitset would be too large is not looked at bit by bit: a fixed list of blocks is measured on its entries
 * instead. Nothing is packed and nothing is made dense.
 */
#include "measure/measure.h"
#include "implement/implement.h"
#include "schedule/schedule.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ROWS = 48,           /* candidates, at most */
    FINDINGS = 8,        /* of the report: those with the fewest bytes */
    BUCKETS = 10,        /* of hyb, at most */
    BITSET = 1 << 28,    /* bytes in which patterns are looked for */
    COVERABLE = 1 << 25, /* bytes of a bitset that is cut into parts: each is a bitset again */
};

typedef struct adviser {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_advise_request *r;
    const sp_packed *from;
    double value;    /* bytes of a value where only elements are stored; of one in a block */
    double in_block; /* a pattern has no values, but bools in blocks */
    sp_mask mask;
    sp_mask_facts *facts;
    sp_advice *a;
} adviser;

/* ------------------------------------------------------------------ one candidate */

/* Failures that say "not this format", as opposed to "stop". */
static bool unfit(sparta_status s)
{
    return s == SPARTA_E_USAGE || s == SPARTA_E_SHAPE || s == SPARTA_E_RANGE || s == SPARTA_E_LIMIT ||
           s == SPARTA_E_UNSUPPORTED;
}

/* *fits false: it does not store this tensor. */
static sparta_status measure(const adviser *v, const char *text, sp_advice_row *out, bool *fits)
{
    *fits = false;
    SP_TRY(sp_check_cancel(v->cx));
    sparta_status s = sp_format_parse(v->cx, text, &out->parsed);
    if (!s) s = sp_format_check(v->cx, &out->parsed, v->from->rank, v->from->dim);
    if (!s) s = sp_store_measure_converted(v->cx, v->from, &out->parsed, &out->stats);
    if (unfit(s)) {
        sp_ctx_clear(v->cx);
        return SPARTA_OK;
    }
    *fits = s == SPARTA_OK;
    return s;
}

static bool known(const adviser *v, const char *text)
{
    sp_format f;
    if (sp_format_parse(v->cx, text, &f)) return false;
    for (int i = 0; i < v->a->n; i++)
        if (sp_format_equal(&f, &v->a->row[i].parsed)) return true;
    return false;
}

static sparta_status keep(adviser *v, sp_advice_row row, const char *text, const sp_finding *found)
{
    sp_advice *a = v->a;
    if (a->n == ROWS) return SPARTA_OK;
    row.format = sp_arena_string(v->arena, text);
    row.pattern = found ? sp_arena_string(v->arena, found->name) : "";
    if (!row.format || !row.pattern) return sp_ctx_status(v->cx);
    row.exact = found && found->exact;
    row.share = a->dense_bytes > 0 ? (double)row.stats.bytes / a->dense_bytes : 0;
    if (v->from->rank == 2 && (v->from->dtype == SPARTA_F32 || v->from->pattern)) /* what kernels multiply */
        SP_TRY(sp_implement_for_format(v->cx, &row.parsed, sp_schedule_says_widths(text), v->from->dim[0],
                                       v->from->dim[1], &row.implement));
    int at = a->n++;
    for (; at > 0 && a->row[at - 1].stats.bytes > row.stats.bytes; at--) a->row[at] = a->row[at - 1];
    a->row[at] = row;
    return SPARTA_OK;
}

static sparta_status try_format(adviser *v, const char *text, const sp_finding *found)
{
    sp_advice_row row = {0};
    bool fits = false;
    if (known(v, text)) return SPARTA_OK;
    SP_TRY(measure(v, text, &row, &fits));
    return fits ? keep(v, row, text, found) : SPARTA_OK;
}

/* The caller's own: why it does not fit is the answer. */
static sparta_status try_also(adviser *v, const char *text)
{
    sp_advice_row row = {0};
    SP_TRY(sp_format_parse(v->cx, text, &row.parsed));
    SP_TRY(sp_format_check(v->cx, &row.parsed, v->from->rank, v->from->dim));
    SP_TRY(sp_store_measure_converted(v->cx, v->from, &row.parsed, &row.stats));
    return keep(v, row, text, NULL);
}

/* ------------------------------------------------------------------ what the mask says */

static sparta_status set_bit(void *mask, const int64_t *index, const sp_packed *part, int64_t position)
{
    (void)part, (void)position;
    sp_mask_set(mask, index[0], index[1]);
    return SPARTA_OK;
}

static sparta_status look(adviser *v)
{
    const int64_t *dim = v->from->dim;
    const int64_t most = v->r->bitset ? (int64_t)v->r->bitset : BITSET;
    int64_t bytes;
    if (v->from->rank != 2 || !sp_int_mul(dim[0], (dim[1] / 64 + 1) * 8, &bytes) || bytes > most)
        return SPARTA_OK;
    SP_TRY(sp_mask_create(v->cx, dim[0], dim[1], &v->mask));
    SP_TRY(sp_packed_walk(v->cx, v->from, set_bit, &v->mask));
    v->facts = sp_arena_alloc(v->arena, sizeof *v->facts);
    SP_NEED(v->cx, v->facts);
    const sp_report_options o = {.slack = v->r->slack >= 1 ? v->r->slack : SP_ADVISE_SLACK,
                                 .element = (size_t)v->in_block};
    SP_TRY(sp_mask_report(v->cx, &v->mask, &o, v->facts));
    v->a->looked = true;
    return SPARTA_OK;
}

/* A block inside a block that holds too and takes fewer bytes says nothing new; 1x1 is csr, which is always tried. */
static bool told(const sp_mask_facts *facts, int64_t i)
{
    const sp_finding *f = &facts->finding[i];
    if (f->kind != SP_FIND_BLOCK) return false;
    for (int64_t k = 0; k < i; k++) {
        const sp_finding *g = &facts->finding[k];
        if (g->kind == SP_FIND_BLOCK && g->n % f->n == 0 && g->m % f->m == 0) return true;
    }
    return f->n * f->m == 1;
}

static sparta_status try_findings(adviser *v)
{
    int tried = 0;
    for (int64_t i = 0; i < v->facts->finding_count && tried < FINDINGS; i++) {
        const sp_finding *f = &v->facts->finding[i];
        if (told(v->facts, i) || known(v, f->format)) continue;
        SP_TRY(try_format(v, f->format, f));
        tried++;
    }
    return SPARTA_OK;
}

/* The block that takes the fewest bytes, whether it holds or not. */
static sparta_status try_best_block(adviser *v)
{
    const sp_mask_facts *f = v->facts;
    double least = INFINITY;
    int best_n = 0, best_m = 0;
    for (int h = 0; h < SP_BLOCK_SIZES; h++)
        for (int w = 0; w < SP_BLOCK_SIZES; w++) {
            const double blocks = (double)f->blocks[h][w], area = ldexp(1, h + w);
            const double bytes = blocks * (area * v->in_block + 4) + ldexp((double)f->rows, -h) * 4;
            if (h + w == 0 || bytes >= least) continue;
            least = bytes, best_n = 1 << h, best_m = 1 << w;
        }
    if (!best_n) return SPARTA_OK;
    const char *text = sp_arena_printf(v->arena, "bsr(%d,%d)", best_n, best_m);
    SP_NEED(v->cx, text);
    return try_format(v, text, NULL);
}

/* ------------------------------------------------------------------ covers: blocks of several sizes, as sums in sums */

static const int cover_size[][2] = {{32, 32}, {8, 8}, {4, 4}, {4, 1}, {1, 1}};
enum { COVER = (int)SP_COUNT(cover_size) };

/* A block is worth its slots when at least this share of it is there: its bytes against those of single elements. */
static double worth(const adviser *v, int n, int m)
{
    const double area = n * m;
    return fmin(1, (4 + area * v->in_block) / (area * (4 + v->value)));
}

/* sum{blockdensity>=0.5 -> bsr(32,32); rest -> sum{blockdensity>=0.53 -> bsr(4,4); rest -> csr}} of the sizes that take
 * something worth a part. */
static sparta_status cover_text(const adviser *v, const sp_cover *cover, sp_text *out, int *sizes)
{
    *sizes = 0;
    for (int i = 0; i + 1 < COVER; i++) {
        const int n = cover_size[i][0], m = cover_size[i][1];
        if (sp_mask_count(&cover->part[i].mask) * 50 < v->facts->present) continue;
        sp_text_printf(out, "sum{blockdensity>=%.4f -> ", worth(v, n, m));
        if (m == 1)
            sp_text_printf(out, "cv(%d); rest -> ", n);
        else
            sp_text_printf(out, "bsr(%d,%d); rest -> ", n, m);
        ++*sizes;
    }
    sp_text_printf(out, "csr");
    for (int i = 0; i < *sizes; i++) sp_text_printf(out, "}");
    return out->status;
}

static sparta_status try_cover(adviser *v)
{
    sp_cover_size size[COVER];
    sp_cover cover;
    sp_text text;
    int sizes = 0;
    if (v->mask.rows * v->mask.words * 8 > COVERABLE || !v->facts->present) return SPARTA_OK;
    for (int i = 0; i < COVER; i++)
        size[i] = (sp_cover_size){.n = cover_size[i][0],
                                  .m = cover_size[i][1],
                                  .block = 4,
                                  .slot = i + 1 < COVER ? v->in_block : v->value};
    SP_TRY(sp_mask_cover(v->cx, &v->mask, size, COVER, &cover));
    sp_text_init(&text, v->cx);
    sparta_status s = cover_text(v, &cover, &text, &sizes);
    sp_cover_free(v->cx, &cover);
    if (!s && sizes) s = try_format(v, sp_text_str(&text), NULL);
    sp_text_free(&text);
    return s;
}

/* ------------------------------------------------------------------ formats that are always tried */

/* What implements keep weights in that have several ways to: quads and pairs, in ranges of columns, each with a few numbers a row: not for
 * matrices of millions of rows and columns. The others' are among those that are always tried. */
static sparta_status try_implement(adviser *v, const sp_implement *im)
{
    for (int p = 0; im->space && p < sp_implement_points(im); p++) {
        sp_task task = {.n = v->from->dim[0], .k = v->from->dim[1]};
        sp_text text;
        if (!sp_implement_point(im, p, &task)) continue;
        sp_text_init(&text, v->cx);
        sp_implement_print_format(im, &task, &text);
        sparta_status s = text.status;
        if (!s) s = try_format(v, sp_text_str(&text), NULL);
        sp_text_free(&text);
        SP_TRY(s);
    }
    return SPARTA_OK;
}

static sparta_status try_implements(adviser *v)
{
    for (int i = 0; i < sp_implement_count(); i++)
        if (sp_implement_row(i)->format) SP_TRY(try_implement(v, sp_implement_row(i)));
    return SPARTA_OK;
}

/* Bytes that buckets of 1 2 4 .. 2^k take for a row with n elements: the next power of two, or whole pieces of 2^k; each
 * has the row's number, and each slot a column. */
static double bucket_bytes(const adviser *v, int64_t n, int k)
{
    int64_t width = 1, pieces = 1;
    while (width < n && width < INT64_C(1) << k) width *= 2;
    if (n > width) pieces = (n + width - 1) / width;
    return n ? (double)pieces * (4 + (double)width * (4 + v->value)) : 0;
}

/* hyb with as many buckets as take the fewest bytes. */
static sparta_status try_hyb(adviser *v)
{
    double bytes[BUCKETS + 1] = {0};
    char text[24];
    int best = 1;
    for (int64_t row = 0; row < v->mask.rows; row++) {
        int64_t n = 0;
        for (int64_t w = 0; w < v->mask.words; w++)
            n += __builtin_popcountll(v->mask.bits[row * v->mask.words + w]);
        for (int k = 1; k <= BUCKETS; k++) bytes[k] += bucket_bytes(v, n, k);
    }
    for (int k = 2; k <= BUCKETS; k++)
        if (bytes[k] < bytes[best]) best = k;
    snprintf(text, sizeof text, "hyb(1,%d)", v->a->looked ? best : 2);
    return try_format(v, text, NULL);
}

static sparta_status try_matrix(adviser *v)
{
    static const char *const always[] = {"csr",   "coo",      "dcsr",        "bitmap",  "ell",   "dia",
                                         "dense", "strip(4)", "ranges(128)", "rows(4)", "groups"};
    static const char *const unseen[] = {"cv(4)",    "bsr(2,2)",   "bsr(4,4)",
                                         "bsr(8,8)", "bsr(16,16)", "bsr(32,32)"};
    static const sp_finding none = {.name = "unstructured", .exact = true};
    if (v->a->looked) SP_TRY(try_findings(v));
    for (size_t i = 0; i < SP_COUNT(always); i++)
        SP_TRY(try_format(v, always[i], i == 0 && v->a->elements ? &none : NULL));
    if (v->a->looked) SP_TRY(try_implements(v));
    SP_TRY(try_hyb(v));
    for (size_t i = 0; !v->a->looked && i < SP_COUNT(unseen); i++) SP_TRY(try_format(v, unseen[i], NULL));
    if (!v->a->looked) return SPARTA_OK;
    SP_TRY(try_best_block(v));
    return try_cover(v);
}

/* Of any rank: all dense, a tree of compressed levels, coordinates. */
static sparta_status try_tensor(adviser *v)
{
    static const char *const kind[3][2] = {
        {"dense", "dense"}, {"compressed", "compressed"}, {"compressed(nonunique)", "singleton(soa)"}};
    for (int f = 0; f < (v->from->rank > 1 ? 3 : 2); f++) {
        sp_text t;
        sp_text_init(&t, v->cx);
        for (int d = 0; d < v->from->rank; d++) sp_text_printf(&t, "%s%c", d ? "," : "(", 'i' + d);
        for (int d = 0; d < v->from->rank; d++)
            sp_text_printf(&t, "%s%c:%s", d ? ", " : ")->(", 'i' + d,
                           f == 2 && d && d + 1 < v->from->rank ? "singleton(nonunique,soa)"
                                                                : kind[f][d > 0]);
        sp_text_printf(&t, ")");
        sparta_status s = t.status;
        if (!s) s = try_format(v, sp_text_str(&t), NULL);
        sp_text_free(&t);
        SP_TRY(s);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ another order of the rows */

static double grouped_bytes(const adviser *v, int n, int m, double fill)
{
    const double slots = fill * (double)v->facts->present;
    return slots * v->in_block + slots / (n * m) * 4 + ((double)v->mask.rows / n + 1) * 4;
}

static sparta_status keep_order(adviser *v, const int64_t *order)
{
    v->a->order = sp_arena_array(v->arena, (size_t)v->mask.rows + 1, sizeof *order);
    SP_NEED(v->cx, v->a->order);
    if (v->mask.rows) memcpy(v->a->order, order, (size_t)v->mask.rows * sizeof *order);
    return SPARTA_OK;
}

/* The order and the block that would take the fewest bytes. */
static sparta_status group(adviser *v)
{
    static const int block[][2] = {{4, 1}, {16, 1}, {4, 4}, {32, 32}};
    for (size_t i = 0; i < SP_COUNT(block); i++) {
        const int n = block[i][0], m = block[i][1];
        sp_row_order g;
        SP_TRY(sp_check_cancel(v->cx));
        SP_TRY(sp_mask_order_rows(v->cx, &v->mask, n, m, &g));
        const double bytes = grouped_bytes(v, n, m, g.fill_after);
        sparta_status s = SPARTA_OK;
        if (g.fill_after < g.fill_before && (!v->a->order || bytes < v->a->group_bytes)) {
            v->a->group_n = n, v->a->group_m = m;
            v->a->fill_before = g.fill_before, v->a->fill_after = g.fill_after;
            v->a->group_bytes = bytes;
            s = keep_order(v, g.order);
        }
        sp_free(v->cx, g.order);
        SP_TRY(s);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the whole */

static sparta_status advise(adviser *v)
{
    SP_TRY(look(v));
    if (v->r->also) SP_TRY(try_also(v, v->r->also));
    SP_TRY(v->from->rank == 2 ? try_matrix(v) : try_tensor(v));
    return v->r->group && v->a->looked && v->facts->present ? group(v) : SPARTA_OK;
}

/* A dense source is read once into its elements: every candidate is then measured on those. */
static sparta_status condense(sparta_ctx *cx, const sp_packed *p, sp_packed *own, bool *made)
{
    sp_format csr;
    for (int l = 0; l < p->format.n; l++)
        if (p->format.level[l].kind != SP_LEVEL_DENSE) return SPARTA_OK;
    if (p->rank != 2 || !p->format.n) return SPARTA_OK;
    SP_TRY(sp_format_parse(cx, "csr", &csr));
    sparta_status s = sp_store_convert(cx, p, &csr, NULL, own);
    *made = s == SPARTA_OK;
    if (unfit(s) || s == SPARTA_E_MEMORY) { /* then each reads the array itself */
        sp_ctx_clear(cx);
        return SPARTA_OK;
    }
    return s;
}

sparta_status sp_advise(sparta_ctx *cx, sp_arena *arena, const sp_packed *p, const sp_advise_request *r,
                        sp_advice *out)
{
    sp_advice a = {0};
    sp_packed own = {0};
    bool made = false;
    sp_store_stats stats = {0};
    const double element = (double)sparta_dtype_size(p->dtype);
    double all = 1;
    for (int d = 0; d < p->rank; d++) all *= (double)p->dim[d];
    a.dense_bytes = all * element;
    a.row = sp_arena_array(arena, ROWS, sizeof *a.row);
    SP_NEED(cx, a.row);
    SP_TRY(condense(cx, p, &own, &made));
    adviser v = {.cx = cx,
                 .arena = arena,
                 .r = r,
                 .from = made ? &own : p,
                 .value = p->pattern ? 0 : element,
                 .in_block = element,
                 .a = &a};
    sparta_status s = sp_store_measure_packed(cx, v.from, &stats);
    a.elements = stats.elements;
    a.density = all > 0 ? (double)stats.elements / all : 0;
    if (!s) s = advise(&v);
    sp_mask_free(cx, &v.mask);
    if (made) sp_packed_free(cx, &own);
    if (!s) *out = a;
    return s;
}
