/* Sets of elements: settled spans, in tiles when that is smaller; equal sets are equal and have one digest. */
#include "tesa/span.h"
#include <string.h>

#define LARGE (INT64_C(1) << 20) /* bits from which tiles are considered */

/* ------------------------------------------------------------------ tiles */

static bool in_tiles(const sp_set *s)
{
    return s->words != NULL;
}

/* Words of a tile that is all there, cut to the shape. */
static uint64_t full_word(int64_t rows, int64_t cols, int64_t r, int64_t j)
{
    return r < rows ? sp_low(SP_MIN(WORD, cols - j * WORD)) : 0;
}

static int64_t rows_of(const sp_set *s)
{
    return s->rank > 1 ? s->extent[0] : 1;
}

static int64_t cols_of(const sp_set *s)
{
    int64_t n = 1;
    for (int i = s->rank > 1; i < s->rank; i++) n *= s->extent[i];
    return n;
}

/* Tile (i, j) as 64 words. */
static void tile_at(const sp_set *s, int64_t i, int64_t j, uint64_t *tile)
{
    int64_t rows = rows_of(s), cols = cols_of(s);
    if (in_tiles(s) && sp_mask_get(&s->part, i, j)) {
        int64_t at = s->first[i];
        for (int64_t k = 0; k < j / WORD; k++) at += (int64_t)sp_ones(sp_mask_row(&s->part, i)[k]);
        at += (int64_t)sp_ones(sp_mask_row(&s->part, i)[j / WORD] & sp_low(j % WORD));
        memcpy(tile, s->words + at * WORD, WORD * sizeof *tile);
        return;
    }
    for (int64_t r = 0; r < WORD; r++) {
        if (in_tiles(s))
            tile[r] = sp_mask_get(&s->any, i, j) ? full_word(rows, cols, i * WORD + r, j) : 0;
        else
            tile[r] = i * WORD + r < rows ? sp_mask_row(&s->mask, i * WORD + r)[j] : 0;
    }
}

static void free_tiles(sparta_ctx *cx, sp_set *s)
{
    sp_mask_free(cx, &s->any);
    sp_mask_free(cx, &s->part);
    sp_free(cx, s->first);
    sp_free(cx, s->words);
    s->first = NULL, s->words = NULL;
}

/* Which tiles are there, and which partly. */
static sparta_status look_at_tiles(sparta_ctx *cx, sp_set *s)
{
    const sp_mask *m = &s->mask;
    sp_mask full;
    SP_TRY(sp_mask_coarsen(cx, m, WORD, WORD, SP_COARSEN_ANY, &s->any));
    SP_TRY(sp_mask_coarsen(cx, m, WORD, WORD, SP_COARSEN_ALL, &full));
    sparta_status status = sp_mask_copy(cx, &s->any, &s->part);
    if (!status) status = sp_mask_andnot(cx, &s->part, &full);
    sp_mask_free(cx, &full);
    return status;
}

static sparta_status store_tiles(sparta_ctx *cx, sp_set *s, int64_t parts)
{
    int64_t at = 0, down = s->part.rows;
    sp_set plain = {.rank = s->rank, .mask = s->mask};
    memcpy(plain.extent, s->extent, sizeof plain.extent);
    s->first = sp_alloc_array(cx, (size_t)down, sizeof *s->first);
    SP_NEED(cx, s->first);
    uint64_t *words = sp_alloc_array(cx, (size_t)parts + 1, WORD * sizeof *words);
    SP_NEED(cx, words);
    for (int64_t i = 0; i < down; i++) {
        s->first[i] = at;
        for (int64_t j = sp_bits_next(sp_mask_row(&s->part, i), 0, s->part.cols); j < s->part.cols;
             j = sp_bits_next(sp_mask_row(&s->part, i), j + 1, s->part.cols))
            tile_at(&plain, i, j, words + WORD * at++);
    }
    s->words = words;
    return SPARTA_OK;
}

/* To tiles, when the set is large and they take at most half. */
static sparta_status choose_storage(sparta_ctx *cx, sp_set *s)
{
    if (s->mask.rows * s->mask.words < LARGE / WORD) return SPARTA_OK;
    sparta_status status = look_at_tiles(cx, s);
    int64_t parts = status ? 0 : sp_mask_count(&s->part);
    bool small = !status &&
                 2 * (parts * WORD + 3 * s->part.rows * (s->part.words + 1)) <= s->mask.rows * s->mask.words;
    if (small) status = store_tiles(cx, s, parts);
    if (status || !small)
        free_tiles(cx, s);
    else
        sp_mask_free(cx, &s->mask);
    return status;
}

/* ------------------------------------------------------------------ made and freed */

sparta_status sp_set_take(sparta_ctx *cx, int rank, const int64_t *extent, sp_mask *m, sp_set *out)
{
    sp_span s = {.rank = rank, .mask = *m};
    *m = (sp_mask){0};
    int64_t cols = 1;
    bool fits = rank >= 1 && rank <= SP_TESA_RANK && s.mask.rows == (rank > 1 ? extent[0] : 1);
    for (int i = rank > 1; fits && i < rank; i++) fits = extent[i] >= 0 && sp_int_mul(cols, extent[i], &cols);
    sparta_status status = SPARTA_OK;
    if (!fits || cols != s.mask.cols)
        status = sp_fail(cx, SPARTA_E_SHAPE, "set: a mask of %lldx%lld is not one of these %d axes",
                         (long long)s.mask.rows, (long long)s.mask.cols, rank);
    if (!status) memcpy(s.extent, extent, (size_t)rank * sizeof *extent);
    if (!status) status = sp_span_settle(cx, &s);
    sp_set set = {.rank = rank, .mask = s.mask};
    memcpy(set.extent, s.extent, sizeof set.extent);
    if (!status) status = choose_storage(cx, &set);
    if (status)
        sp_set_free(cx, &set);
    else
        *out = set;
    return status;
}

sparta_status sp_set_of_mask(sparta_ctx *cx, int rank, const int64_t *extent, const sp_mask *m, sp_set *out)
{
    sp_mask copy;
    SP_TRY(sp_mask_copy(cx, m, &copy));
    return sp_set_take(cx, rank, extent, &copy, out);
}

sparta_status sp_set_all(sparta_ctx *cx, int rank, bool present, sp_set *out)
{
    static const int64_t ones[SP_TESA_RANK] = {1, 1, 1, 1, 1, 1};
    sp_span s;
    SP_TRY(sp_span_create(cx, rank, ones, &s));
    s.mask.bits[0] = present;
    return sp_set_take(cx, rank, ones, &s.mask, out);
}

void sp_set_free(sparta_ctx *cx, sp_set *s)
{
    if (!s) return;
    sp_mask_free(cx, &s->mask);
    free_tiles(cx, s);
    *s = (sp_set){0};
}

sparta_status sp_set_span(sparta_ctx *cx, const sp_set *s, sp_span *out, bool *own)
{
    sp_span span = {.rank = s->rank, .mask = s->mask};
    memcpy(span.extent, s->extent, sizeof span.extent);
    if (in_tiles(s)) {
        uint64_t tile[WORD];
        SP_TRY(sp_span_create(cx, s->rank, s->extent, &span));
        for (int64_t i = 0; i < s->any.rows; i++)
            for (int64_t j = sp_bits_next(sp_mask_row(&s->any, i), 0, s->any.cols); j < s->any.cols;
                 j = sp_bits_next(sp_mask_row(&s->any, i), j + 1, s->any.cols)) {
                tile_at(s, i, j, tile);
                for (int64_t r = 0; r < WORD && i * WORD + r < span.mask.rows; r++)
                    sp_mask_row(&span.mask, i * WORD + r)[j] = tile[r];
            }
    }
    *own = in_tiles(s);
    *out = span;
    return SPARTA_OK;
}

sparta_status sp_set_mask(sparta_ctx *cx, const sp_set *s, const int64_t *extent, sp_mask *out)
{
    sp_span span, wide;
    bool own;
    SP_TRY(sp_set_span(cx, s, &span, &own));
    sparta_status status = sp_span_widen(cx, &span, extent, &wide);
    if (own) sp_mask_free(cx, &span.mask);
    if (!status) *out = wide.mask;
    return status;
}

sparta_status sp_set_copy(sparta_ctx *cx, const sp_set *s, sp_set *out)
{
    sp_mask m;
    SP_TRY(sp_set_mask(cx, s, s->extent, &m));
    return sp_set_take(cx, s->rank, s->extent, &m, out);
}

/* ------------------------------------------------------------------ facts */

bool sp_set_get(const sp_set *s, const int64_t *index)
{
    sp_span span = {.rank = s->rank};
    int64_t row, col;
    memcpy(span.extent, s->extent, sizeof span.extent);
    sp_span_place(&span, index, &row, &col);
    if (!in_tiles(s)) return sp_mask_get(&s->mask, row, col);
    if (!sp_mask_get(&s->part, row / WORD, col / WORD)) return sp_mask_get(&s->any, row / WORD, col / WORD);
    uint64_t tile[WORD];
    tile_at(s, row / WORD, col / WORD, tile);
    return tile[row % WORD] >> (col % WORD) & 1;
}

static bool is_single(const sp_set *s, bool present)
{
    for (int i = 0; i < s->rank; i++)
        if (s->extent[i] != 1) return false;
    return sp_mask_get(&s->mask, 0, 0) == present;
}

bool sp_set_is_all(const sp_set *s)
{
    return is_single(s, true);
}

bool sp_set_is_none(const sp_set *s)
{
    return is_single(s, false);
}

static bool same_tiles(const sp_set *a, const sp_set *b, int64_t i, int64_t j)
{
    uint64_t left[WORD], right[WORD];
    tile_at(a, i, j, left);
    tile_at(b, i, j, right);
    return !memcmp(left, right, sizeof left);
}

bool sp_set_equal(const sp_set *a, const sp_set *b)
{
    if (a->rank != b->rank || memcmp(a->extent, b->extent, (size_t)a->rank * sizeof a->extent[0]))
        return false;
    if (!in_tiles(a) && !in_tiles(b)) return sp_mask_equal(&a->mask, &b->mask);
    for (int64_t i = 0; i < sp_ceil_div(rows_of(a), WORD); i++)
        for (int64_t j = 0; j < sp_ceil_div(cols_of(a), WORD); j++)
            if (!same_tiles(a, b, i, j)) return false;
    return true;
}

/* Tiles that have something, with their places: the same for either storage. */
uint64_t sp_set_digest(const sp_set *s)
{
    static const uint64_t empty[WORD];
    uint64_t tile[WORD], h = sp_hash(s->extent, (size_t)s->rank * sizeof s->extent[0], (uint64_t)s->rank);
    for (int64_t i = 0; i < sp_ceil_div(rows_of(s), WORD); i++)
        for (int64_t j = 0; j < sp_ceil_div(cols_of(s), WORD); j++) {
            if (in_tiles(s) && !sp_mask_get(&s->any, i, j)) continue;
            tile_at(s, i, j, tile);
            if (!memcmp(tile, empty, sizeof tile)) continue;
            h = sp_hash((int64_t[2]){i, j}, 2 * sizeof(int64_t), h);
            h = sp_hash(tile, sizeof tile, h);
        }
    return h;
}

int64_t sp_set_count(const sp_set *s, const int64_t *dim)
{
    int64_t count = in_tiles(s) ? 0 : sp_mask_count(&s->mask);
    for (int64_t i = 0; in_tiles(s) && i < s->any.rows; i++)
        for (int64_t j = 0; j < s->any.cols; j++) {
            uint64_t tile[WORD];
            tile_at(s, i, j, tile);
            for (int r = 0; r < WORD; r++) count += (int64_t)sp_ones(tile[r]);
        }
    for (int i = 0; i < s->rank; i++)
        if (s->extent[i] == 1 && !sp_int_mul(count, dim[i], &count)) return -1;
    return count;
}

/* ------------------------------------------------------------------ algebra: on spans, then settled */

static sparta_status check_axis(sparta_ctx *cx, const char *who, int axis, int rank)
{
    if (axis >= 0 && axis < rank) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE, "%s: axis %d of %d; give 0 to %d", who, axis, rank, rank - 1);
}

static sparta_status finish(sparta_ctx *cx, sparta_status status, sp_span *s, sp_set *out)
{
    return status ? status : sp_set_take(cx, s->rank, s->extent, &s->mask, out);
}

sparta_status sp_set_combine(sparta_ctx *cx, sp_set_how how, const sp_set *a, const sp_set *b, sp_set *out)
{
    int64_t extent[SP_TESA_RANK];
    if (a->rank != b->rank || !sp_extents_join(a->rank, a->extent, b->extent, extent))
        return sp_fail(cx, SPARTA_E_SHAPE, "set: %d and %d axes whose sizes differ; sets must have one shape",
                       a->rank, b->rank);
    sp_mask left, right;
    SP_TRY(sp_set_mask(cx, a, extent, &left));
    sparta_status status = sp_set_mask(cx, b, extent, &right);
    if (!status) {
        status = how == SP_SET_AND  ? sp_mask_and(cx, &left, &right)
                 : how == SP_SET_OR ? sp_mask_or(cx, &left, &right)
                                    : sp_mask_andnot(cx, &left, &right);
        sp_mask_free(cx, &right);
    }
    if (!status) return sp_set_take(cx, a->rank, extent, &left, out);
    sp_mask_free(cx, &left);
    return status;
}

sparta_status sp_set_not(sparta_ctx *cx, const sp_set *s, sp_set *out)
{
    sp_mask m;
    SP_TRY(sp_set_mask(cx, s, s->extent, &m));
    sp_mask_not(&m);
    return sp_set_take(cx, s->rank, s->extent, &m, out);
}

sparta_status sp_set_slice(sparta_ctx *cx, const sp_set *s, int axis, int64_t from, int64_t end, sp_set *out)
{
    SP_TRY(check_axis(cx, "slice", axis, s->rank));
    if (s->extent[axis] == 1) return sp_set_copy(cx, s, out);
    sp_span span, part;
    bool own;
    SP_TRY(sp_set_span(cx, s, &span, &own));
    sparta_status status = sp_span_slice(cx, &span, axis, from, end, &part);
    if (own) sp_mask_free(cx, &span.mask);
    return finish(cx, status, &part, out);
}

sparta_status sp_set_concat(sparta_ctx *cx, int axis, const sp_set *const *part, const int64_t *size,
                            int parts, sp_set *out)
{
    if (parts < 1) return sp_fail(cx, SPARTA_E_USAGE, "concat: no sets; give at least one");
    SP_TRY(check_axis(cx, "concat", axis, part[0]->rank));
    int64_t extent[SP_TESA_RANK] = {1, 1, 1, 1, 1, 1};
    for (int p = 0; p < parts; p++) {
        int64_t e[SP_TESA_RANK];
        memcpy(e, part[p]->extent, sizeof e);
        bool fits = part[p]->rank == part[0]->rank && (e[axis] == 1 || e[axis] == size[p]);
        e[axis] = 1;
        if (!fits || !sp_extents_join(part[0]->rank, extent, e, extent))
            return sp_fail(cx, SPARTA_E_SHAPE, "concat: part %d differs from the others in more than axis %d",
                           p, axis);
    }
    sp_span *wide = sp_alloc_array(cx, (size_t)parts, sizeof *wide), whole;
    SP_NEED(cx, wide);
    sparta_status status = SPARTA_OK;
    for (int p = 0; p < parts && !status; p++) {
        extent[axis] = size[p];
        wide[p] = (sp_span){.rank = part[p]->rank};
        memcpy(wide[p].extent, extent, sizeof extent);
        status = sp_set_mask(cx, part[p], extent, &wide[p].mask);
    }
    if (!status) status = sp_span_concat(cx, axis, wide, parts, &whole);
    for (int p = 0; p < parts; p++) sp_mask_free(cx, &wide[p].mask);
    sp_free(cx, wide);
    return finish(cx, status, &whole, out);
}

sparta_status sp_set_transpose(sparta_ctx *cx, const sp_set *s, const int *order, sp_set *out)
{
    sp_span span, moved;
    bool own;
    SP_TRY(sp_set_span(cx, s, &span, &own));
    sparta_status status = sp_span_permute(cx, &span, order, &moved);
    if (own) sp_mask_free(cx, &span.mask);
    return finish(cx, status, &moved, out);
}

sparta_status sp_set_broadcast(sparta_ctx *cx, const sp_set *s, int rank, sp_set *out)
{
    if (rank < s->rank || rank > SP_TESA_RANK)
        return sp_fail(cx, SPARTA_E_SHAPE,
                       "broadcast: from %d axes to %d; they can only become more, up to %d", s->rank, rank,
                       SP_TESA_RANK);
    sp_span span, wide;
    bool own;
    SP_TRY(sp_set_span(cx, s, &span, &own));
    sparta_status status = sp_span_raise(cx, &span, rank, &wide);
    if (own) sp_mask_free(cx, &span.mask);
    return finish(cx, status, &wide, out);
}

sparta_status sp_set_reduce(sparta_ctx *cx, const sp_set *s, int axis, sp_set *out)
{
    sp_span span, any;
    bool own;
    SP_TRY(check_axis(cx, "reduce", axis, s->rank));
    SP_TRY(sp_set_span(cx, s, &span, &own));
    sparta_status status = sp_span_reduce(cx, &span, axis, &any);
    if (own) sp_mask_free(cx, &span.mask);
    return finish(cx, status, &any, out);
}
