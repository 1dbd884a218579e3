/* Reshape: the same elements in row-major order under other dimensions.
 *
 *     [batch, 128, 768]      batch | 128 | 768         axes fall into groups with as many elements on both sides;
 *     [batch, 128, 12, 64]   batch | 128 | 12 64       a symbol is a group of its own
 *
 * Facts that do not differ within a group stay one slice for all of it; others are written out for the group's axes and
 * keep their order, so bits are a stream that is cut into other rows, and the values of constants do not move.
 */
#include "tesa/attribute_inside.h"
#include <string.h>

typedef struct {
    int from, from_end, to, to_end; /* axes */
} axes;

typedef struct {
    const sp_tesa *from;
    int rank;
    const sp_tesa_dim *dim;
    int groups;
    axes group[2 * SP_TESA_RANK];
} reshaping;

/* ------------------------------------------------------------------ groups */

static bool same_dim(const sp_tesa_dim *a, const sp_tesa_dim *b)
{
    return a->min == b->min && a->max == b->max && !strcmp(a->name, b->name);
}

/* The next group, from `g->from` and `g->to` on; false: the shapes do not fit. */
static bool next_group(const reshaping *r, axes *g)
{
    const sp_tesa_dim *a = r->from->dim, *b = r->dim;
    int ra = r->from->rank, rb = r->rank;
    int64_t x = 1, y = 1;
    g->from_end = g->from, g->to_end = g->to;
    bool left = g->from < ra && a[g->from].name[0], right = g->to < rb && b[g->to].name[0];
    if (left != right) { /* only an axis of 1 may stand beside a symbol that is still to come */
        const sp_tesa_dim *other =
            left ? (g->to < rb ? &b[g->to] : NULL) : (g->from < ra ? &a[g->from] : NULL);
        if (left)
            g->to_end++;
        else
            g->from_end++;
        return other && other->max == 1;
    }
    if (left) {
        g->from_end++, g->to_end++;
        return same_dim(&a[g->from], &b[g->to]);
    }
    if (g->from < ra) x = a[g->from_end++].max;
    if (g->to < rb) y = b[g->to_end++].max;
    while (x != y) { /* the smaller side takes one more axis */
        const sp_tesa_dim *next =
            x < y ? (g->from_end < ra ? &a[g->from_end++] : NULL) : (g->to_end < rb ? &b[g->to_end++] : NULL);
        if (!next || next->name[0] || !sp_int_mul(x < y ? x : y, next->max, x < y ? &x : &y)) return false;
    }
    return true;
}

static sparta_status find_groups(sparta_ctx *cx, reshaping *r)
{
    axes g = {0};
    while (g.from < r->from->rank || g.to < r->rank) {
        if (!next_group(r, &g))
            return sp_fail(
                cx, SPARTA_E_SHAPE,
                "reshape: axis %d on does not have the elements of axis %d on; sizes must multiply to the "
                "same, and symbols stay as they are",
                g.from, g.to);
        r->group[r->groups++] = g;
        g.from = g.from_end, g.to = g.to_end;
    }
    return SPARTA_OK;
}

static bool is_single(const axes *g)
{
    return g->from_end - g->from == 1 && g->to_end - g->to == 1;
}

/* The element of the old shape at an index of the new one. */
static void index_before(const reshaping *r, const int64_t *index, int64_t *there)
{
    for (int k = 0; k < r->groups; k++) {
        const axes *g = &r->group[k];
        int64_t flat = 0;
        for (int i = g->to; i < g->to_end; i++)
            flat = is_single(g) ? index[i] : flat * r->dim[i].max + index[i];
        for (int i = g->from_end - 1; i >= g->from; i--) {
            there[i] = is_single(g) ? flat : flat % r->from->dim[i].max;
            flat /= SP_MAX(r->from->dim[i].max, 1);
        }
    }
}

/* ------------------------------------------------------------------ bits */

/* What the extents are before and after, when those of each group that differs are written out. */
static void extents_of(const reshaping *r, const int64_t *extent, int64_t *before, int64_t *after)
{
    for (int k = 0; k < r->groups; k++) {
        const axes *g = &r->group[k];
        bool differs = false;
        for (int i = g->from; i < g->from_end; i++) differs |= extent[i] != 1;
        for (int i = g->from; i < g->from_end; i++) before[i] = differs ? r->from->dim[i].max : 1;
        for (int i = g->to; i < g->to_end; i++) after[i] = differs ? r->dim[i].max : 1;
    }
}

/* The bits in the same order, in rows of another length. */
static sparta_status cut(sparta_ctx *cx, const sp_span *wide, int rank, const int64_t *extent, sp_span *out)
{
    sp_span to;
    SP_TRY(sp_span_create(cx, rank, extent, &to));
    int64_t row = 0, col = 0;
    for (int64_t r = 0; r < wide->mask.rows; r++)
        for (int64_t c = 0, some; c < wide->mask.cols; c += some) {
            some = SP_MIN(wide->mask.cols - c, to.mask.cols - col);
            sp_bits_copy(sp_mask_row(&to.mask, row), col, sp_mask_row(&wide->mask, r), c, some);
            col += some;
            if (col == to.mask.cols) row++, col = 0;
        }
    *out = to;
    return SPARTA_OK;
}

static sparta_status reshape_span(sparta_ctx *cx, const reshaping *r, const sp_span *s, sp_span *wide,
                                  sp_span *out)
{
    int64_t before[SP_TESA_RANK], after[SP_TESA_RANK];
    extents_of(r, s->extent, before, after);
    SP_TRY(sp_span_widen(cx, s, before, wide));
    sparta_status status = cut(cx, wide, r->rank, after, out);
    if (status) sp_mask_free(cx, &wide->mask);
    return status;
}

static sparta_status reshape_set(sparta_ctx *cx, const reshaping *r, sp_set *out)
{
    sp_span span, wide, cuts;
    bool own;
    SP_TRY(sp_set_span(cx, &r->from->set, &span, &own));
    sparta_status status = reshape_span(cx, r, &span, &wide, &cuts);
    if (own) sp_mask_free(cx, &span.mask);
    SP_TRY(status);
    sp_mask_free(cx, &wide.mask);
    return sp_set_take(cx, r->rank, cuts.extent, &cuts.mask, out);
}

static bool same_index(const void *arg, const int64_t *index, int *which, int64_t *there)
{
    (void)which;
    memcpy(there, index, (size_t)((const reshaping *)arg)->from->rank * sizeof *index);
    return true;
}

/* Values come in the order of the bits, which stays. */
static sparta_status reshape_constants(sparta_ctx *cx, const reshaping *r, sp_constants *out)
{
    sp_constants from = sp_constants_of(r->from), written;
    sp_span wide, cuts;
    SP_TRY(reshape_span(cx, r, &from.where, &wide, &cuts));
    sparta_status status = sp_constants_gather(cx, &from, 1, &wide, same_index, r, &written);
    if (status) {
        sp_mask_free(cx, &cuts.mask);
        return status;
    }
    sp_mask_free(cx, &written.where.mask);
    *out = (sp_constants){cuts, written.value};
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the rest */

static sp_precision precision_before(const void *arg, const int64_t *index)
{
    int64_t there[SP_TESA_RANK] = {0};
    index_before(arg, index, there);
    return sp_tesa_precision_at(((const reshaping *)arg)->from, there);
}

static sparta_status reshape_precision(sparta_ctx *cx, const reshaping *r, sp_tesa *t)
{
    int64_t group[SP_TESA_RANK] = {0};
    for (int k = 0; k < r->groups; k++) {
        const axes *g = &r->group[k];
        bool differs = false;
        for (int i = g->from; i < g->from_end; i++) differs |= r->from->group[i] != 0;
        for (int i = g->to; i < g->to_end; i++)
            group[i] = is_single(g) ? r->from->group[g->from] : differs; /* settling finds larger ones */
    }
    return sp_precision_build(cx, t, group, precision_before, r);
}

/* A bound speaks of the last axis, or of the last two: they must be what they were. */
static bool keeps_bound(const reshaping *r)
{
    int last = r->from->has == SP_HAS_BLOCKS ? 2 : 1;
    for (int k = r->groups - 1; k >= 0 && last; k--, last--)
        if (!is_single(&r->group[k])) return false;
    return !last;
}

sparta_status sp_tesa_reshape(sparta_ctx *cx, const sp_tesa *t, int rank, const sp_tesa_dim *dim,
                              sp_tesa *out)
{
    reshaping r = {.from = t, .rank = rank, .dim = dim};
    sp_tesa n = {.rank = rank, .has = t->has};
    sp_constants c = {0};
    SP_TRY(sp_tesa_check_dims(cx, rank, dim));
    memcpy(n.dim, dim, (size_t)rank * sizeof *dim);
    if (sp_tesa_empty(t) && sp_tesa_empty(&n)) /* no elements on either side */
        return sp_tesa_create(cx, rank, dim, (sp_precision)t->precision[0], out);
    if (sp_tesa_empty(t) || sp_tesa_empty(&n))
        return sp_fail(cx, SPARTA_E_SHAPE, "reshape: one shape has no elements, the other has");
    SP_TRY(find_groups(cx, &r));
    n.most = t->most;
    memcpy(n.block, t->block, sizeof n.block);
    if (t->has != SP_HAS_SET && !keeps_bound(&r)) n.has = SP_HAS_UNKNOWN;
    sparta_status status = t->has == SP_HAS_SET ? reshape_set(cx, &r, &n.set) : SPARTA_OK;
    if (!status && t->constants) status = reshape_constants(cx, &r, &c);
    if (!status) status = reshape_precision(cx, &r, &n);
    if (!status) return sp_tesa_settle(cx, &n, &c, out);
    sp_constants_free(cx, &c);
    sp_tesa_free(cx, &n);
    return status;
}
