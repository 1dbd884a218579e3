/* Which parts of a sum may stand together: each element must have one place, whatever the tensor. */
#include "format/text.h"

/* ------------------------------------------------------------------ one part */

/* Parts as they are stored, colpart's counted; too many, or -1: too deep. Ends also when somebody made a cycle. */
static int64_t leaves(const sp_format *f, int depth)
{
    int64_t all = 0;
    if (!f->sum) return 1;
    if (depth == SP_FORMAT_DEPTH) return -1;
    if (f->sum->n < 1 || f->sum->n > SP_PARTS) return SP_PARTS + 1;
    for (int i = 0; i < f->sum->n && all <= SP_PARTS; i++) {
        const sp_select *s = &f->sum->part[i].select;
        int64_t n = leaves(&f->sum->part[i].format, depth + 1);
        int64_t times = s->kind == SP_SELECT_COLPART && s->b > 0 ? SP_MIN(s->b, SP_PARTS + 1) : 1;
        if (n < 0) return n;
        all += n * times;
    }
    return all;
}

static bool select_sane(const sp_select *s)
{
    switch (s->kind) {
    case SP_SELECT_ROWNNZ: return s->a >= 0 && s->b > s->a && s->b <= INT32_MAX;
    case SP_SELECT_COLPART: return s->b >= 1 && s->b <= SP_PARTS;
    case SP_SELECT_BLOCKDENSITY: return s->x > 0 && s->x <= 1;
    case SP_SELECT_FIRST: return s->b >= 1 && s->b <= INT32_MAX;
    case SP_SELECT_REST: return true;
    }
    return false;
}

static bool has_blocks(const sp_format *f)
{
    for (int i = 0; i < f->n; i++)
        if (f->level[i].map == SP_MAP_DIV) return true;
    return false;
}

static sparta_status part_fits(sparta_ctx *cx, const sp_sum *sum, int i, const sp_text_place *at)
{
    const struct sp_sum_part *part = &sum->part[i];
    char name[SP_SELECT_TEXT];
    if (!select_sane(&part->select))
        return sp_format_wrong(cx, at, "sum: part %d has no selector that can be", i);
    SP_TRY(sp_format_structure(cx, &part->format, NULL, NULL));
    sp_select_show(&part->select, name);
    if (part->format.rank != sum->part[0].format.rank)
        return sp_format_wrong(
            cx, at, "sum: part '%s' has %d dimension%s, the first part %d; all parts store one tensor", name,
            part->format.rank, part->format.rank == 1 ? "" : "s", sum->part[0].format.rank);
    if (part->select.kind == SP_SELECT_BLOCKDENSITY && !has_blocks(&part->format))
        return sp_format_wrong(cx, at, "sum: '%s' needs a format with blocks (a level i/c), e.g. bsr(4)",
                               name);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ two parts */

static sparta_status overlap(sparta_ctx *cx, const sp_select *a, const sp_select *b, const sp_text_place *at)
{
    char x[SP_SELECT_TEXT], y[SP_SELECT_TEXT];
    bool rows = a->kind == SP_SELECT_ROWNNZ, other = b->kind == SP_SELECT_ROWNNZ;
    int64_t count = !rows ? b->b : !other ? a->b : SP_MIN(a->b, b->b); /* a row that both take */
    sp_select_show(a, x), sp_select_show(b, y);
    if (a->kind == SP_SELECT_COLPART || b->kind == SP_SELECT_COLPART)
        return sp_format_wrong(
            cx, at,
            "sum: parts overlap: colpart takes every entry, '%s' and '%s' cannot stand together; write "
            "colpart(c) -> sum{...} with the others inside",
            x, y);
    if (rows || other)
        return sp_format_wrong(cx, at,
                               "sum: parts overlap: an entry of a row with %lld nonzero%s matches '%s' and "
                               "'%s'; put 'rest' last",
                               (long long)count, count == 1 ? "" : "s", x, y);
    return sp_format_wrong(
        cx, at,
        "sum: parts overlap: an entry may match '%s' and '%s'; put the second into a sum of its own, under "
        "'rest'",
        x, y);
}

/* Two selectors that are not rest: may they take the same entry? */
static bool meet(const sp_select *a, const sp_select *b)
{
    if (a->kind != SP_SELECT_ROWNNZ || b->kind != SP_SELECT_ROWNNZ) return true;
    return SP_MAX(a->a, b->a) < SP_MIN(a->b, b->b);
}

static sparta_status together(sparta_ctx *cx, const sp_sum *sum, int i, const sp_text_place *place)
{
    const sp_select *s = &sum->part[i].select;
    if (s->kind == SP_SELECT_REST) {
        if (i + 1 == sum->n)
            return i && sum->part[0].select.kind == SP_SELECT_COLPART
                       ? sp_format_wrong(cx, place ? &place[i] : NULL,
                                         "sum: colpart takes every entry; remove 'rest'")
                       : SPARTA_OK;
        return sp_format_wrong(
            cx, place ? &place[i] : NULL,
            "sum: parts overlap: 'rest' takes what the others leave; put 'rest' last, once");
    }
    for (int j = 0; j < i; j++)
        if (meet(&sum->part[j].select, s))
            return overlap(cx, &sum->part[j].select, s, place ? &place[i] : NULL);
    return SPARTA_OK;
}

sparta_status sp_sum_structure(sparta_ctx *cx, const sp_format *f, const sp_text_place *place)
{
    const sp_sum *sum = f->sum;
    int64_t n = leaves(f, 0);
    if (n < 0)
        return sp_format_wrong(cx, place, "sum: sums lie more than %d deep inside each other",
                               SP_FORMAT_DEPTH);
    if (n > SP_PARTS)
        return sp_format_wrong(cx, place, "sum: more than %d parts, those of colpart(c) counted c times",
                               SP_PARTS);
    for (int i = 0; i < sum->n; i++) SP_TRY(part_fits(cx, sum, i, place ? &place[i] : NULL));
    for (int i = 0; i < sum->n; i++) SP_TRY(together(cx, sum, i, place));
    if (f->rank != sum->part[0].format.rank)
        return sp_format_wrong(cx, NULL, "sum: it says %d dimensions, its parts have %d", f->rank,
                               sum->part[0].format.rank);
    return SPARTA_OK;
}
