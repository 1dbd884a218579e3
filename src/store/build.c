/* Builders: formats made call by call, the same objects that texts parse to.
 *
 *     iter(2)                  (i,j)->(i:dense, j:dense)
 *     block(16,16)             (i,j)->(i/16:dense, j/16:dense, i%16:dense, j%16:dense)
 *     set(ell, [0,1])          (i,j)->(i/16:dense, j/16:packed[auto], i%16:dense, j%16:dense)
 *     set(coo, [2,3])          (i,j)->(i/16:dense, j/16:packed[auto], i%16:compressed(nonunique), j%16:singleton(soa))
 *
 * Each works on a copy and looks at the whole before it gives it back: a format in somebody's hands can always be printed
 * and parsed. Messages say "axis" where the number of a level is wrong, as users of set_format(..., axis=[...]) say.
 */
#include "format/text.h"
#include "store/store.h"
#include <stdio.h>
#include <string.h>

static sp_level plain(int dim)
{
    return (sp_level){.kind = SP_LEVEL_DENSE, .dim = dim, .c = 1, .pos = SPARTA_I32, .crd = SPARTA_I32};
}

sp_format sp_format_iter(int rank)
{
    sp_format f = {.rank = rank, .n = rank};
    if (rank < 1 || rank > 6) return (sp_format){0}; /* which nothing accepts */
    for (int d = 0; d < rank; d++) {
        f.dim_name[d][0] = "ijklmn"[d];
        f.level[d] = plain(d);
    }
    return f;
}

/* The result, if it is a format. */
static sparta_status give(sparta_ctx *cx, const sp_format *made, sp_format *f)
{
    SP_TRY(sp_format_structure(cx, made, NULL, NULL));
    *f = *made;
    return SPARTA_OK;
}

static sparta_status has_levels(sparta_ctx *cx, const sp_format *f)
{
    if (f->n) return sp_format_structure(cx, f, NULL, NULL);
    return sp_fail(cx, SPARTA_E_USAGE, "axis: %s has no levels to work on; begin with iter(1) to iter(6)",
                   f->sum      ? "a sum"
                   : f->opaque ? f->opaque->name
                               : "an empty format");
}

static bool is_cut(const sp_format *f)
{
    for (int i = 0; i < f->n; i++)
        if (sp_level_is_blocked(&f->level[i])) return true;
    return false;
}

/* "0,1,7" of the levels that are (or are not) there. */
static const char *show_levels(const int *level, int n, char out[64])
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < n && used < 48; i++)
        used += (size_t)snprintf(out + used, 64 - used, "%s%d", i ? "," : "", level[i]);
    return out;
}

/* Are they levels of f, no one twice? */
static sparta_status levels_there(sparta_ctx *cx, const sp_format *f, const int *level, int n)
{
    int missing[SP_LEVELS], m = 0;
    char list[64];
    SP_TRY(has_levels(cx, f));
    for (int k = 0; k < n; k++) {
        if ((level[k] < 0 || level[k] >= f->n) && m < SP_LEVELS) missing[m++] = level[k];
        for (int o = 0; o < k; o++)
            if (level[o] == level[k]) return sp_fail(cx, SPARTA_E_USAGE, "axis: axis %d twice", level[k]);
    }
    if (!m) return SPARTA_OK;
    show_levels(missing, m, list);
    if (is_cut(f) || missing[0] < 0)
        return sp_fail(cx, SPARTA_E_USAGE, "axis: there is no axis %s; this format has 0 to %d", list,
                       f->n - 1);
    return sp_fail(cx, SPARTA_E_USAGE, "axis: ax%s %s exist%s only after block(); call block() first",
                   m == 1 ? "is" : "es", list, m == 1 ? "s" : "");
}

/* ------------------------------------------------------------------ order, blocks, diagonals */

sparta_status sp_format_order(sparta_ctx *cx, sp_format *f, const int *order)
{
    sp_format made = *f;
    SP_TRY(has_levels(cx, f));
    SP_TRY(levels_there(cx, f, order, f->n));
    for (int k = 0; k < f->n; k++) made.level[k] = f->level[order[k]];
    return give(cx, &made, f);
}

/* The innermost level of a dimension: i or i%c, which a block cuts. -1: a diagonal has it. */
static int innermost(const sp_format *f, int dim)
{
    for (int i = 0; i < f->n; i++) {
        const sp_level *l = &f->level[i];
        if (l->dim == dim && l->kind != SP_LEVEL_RANGE && (l->map == SP_MAP_ALL || l->map == SP_MAP_MOD))
            return i;
    }
    return -1;
}

/* i becomes i/size, i%c becomes i%c/size; the new level i%size comes to place `at`, dense. */
static sparta_status cut(sparta_ctx *cx, sp_format *f, int level, int64_t size, int at)
{
    sp_level *l = &f->level[level], inner = plain(l->dim);
    const char *name = f->dim_name[l->dim];
    if (size < 1 || size > INT32_MAX)
        return sp_fail(cx, SPARTA_E_USAGE, "block: size %lld of %s must be between 1 and %d", (long long)size,
                       name, INT32_MAX);
    if (f->n == SP_LEVELS) return sp_fail(cx, SPARTA_E_USAGE, "block: more than %d levels", SP_LEVELS);
    if (l->kind == SP_LEVEL_STRUCTURED)
        return sp_fail(cx, SPARTA_E_USAGE, "block: %s is structured; call block() first", name);
    if (l->map == SP_MAP_MOD && (l->c % size || l->c == size))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "block: %s is cut into blocks of %lld; %lld must be smaller and divide it", name,
                       (long long)l->c, (long long)size);
    if (l->map == SP_MAP_MOD)
        l->map = SP_MAP_NEST, l->inner = size;
    else
        l->map = SP_MAP_DIV, l->c = size;
    inner.map = SP_MAP_MOD;
    inner.c = size;
    memmove(&f->level[at + 1], &f->level[at], (size_t)(f->n - at) * sizeof *l);
    f->level[at] = inner;
    f->n++;
    return SPARTA_OK;
}

sparta_status sp_format_block(sparta_ctx *cx, sp_format *f, const int64_t *size)
{
    sp_format made = *f;
    SP_TRY(has_levels(cx, f));
    for (int d = 0; d < f->rank; d++) {
        int level = innermost(&made, d);
        if (size[d] == 1) continue;
        if (level < 0)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "block: dimension %s is stored by a diagonal; call block() first", f->dim_name[d]);
        SP_TRY(cut(cx, &made, level, size[d], made.n));
    }
    return give(cx, &made, f);
}

sparta_status sp_format_skew(sparta_ctx *cx, sp_format *f)
{
    sp_format made = *f;
    sp_level *outer = &made.level[0], *inner = &made.level[1];
    SP_TRY(has_levels(cx, f));
    if (f->n != 2 || outer->map != SP_MAP_ALL || inner->map != SP_MAP_ALL || outer->kind != SP_LEVEL_DENSE ||
        inner->kind != SP_LEVEL_DENSE)
        return sp_fail(cx, SPARTA_E_USAGE, "skew: it needs two dense levels, as iter(2) gives them");
    int row = outer->dim, column = inner->dim;
    *outer = plain(column);
    outer->kind = SP_LEVEL_COMPRESSED, outer->map = SP_MAP_SUB, outer->other = row;
    *inner = plain(row);
    inner->kind = SP_LEVEL_RANGE;
    return give(cx, &made, f);
}

/* ------------------------------------------------------------------ kinds */

/* Another kind for one level; what it stored before is forgotten. */
static sparta_status change(sparta_ctx *cx, sp_format *f, int level, const sp_level *to)
{
    sp_format made = *f;
    SP_TRY(levels_there(cx, f, &level, 1));
    sp_level *l = &made.level[level];
    const sp_level_info *info = &sp_level_table[to->kind];
    if (to->properties & ~info->properties)
        return sp_fail(cx, SPARTA_E_USAGE, "axis: axis %d: '%s' does not take these properties", level,
                       info->name);
    l->kind = to->kind, l->properties = to->properties, l->w = to->w, l->m = to->m;
    l->pos = to->pos, l->crd = to->crd, l->crd_bits = to->crd_bits;
    return give(cx, &made, f);
}

sparta_status sp_format_compress(sparta_ctx *cx, sp_format *f, int level, bool coordinate,
                                 unsigned properties)
{
    sp_level to = plain(0);
    to.kind = coordinate ? SP_LEVEL_COMPRESSED : SP_LEVEL_RAGGED;
    to.properties = properties;
    return change(cx, f, level, &to);
}

sparta_status sp_format_pack_level(sparta_ctx *cx, sp_format *f, int level, int64_t width)
{
    sp_level to = plain(0);
    to.kind = SP_LEVEL_PACKED;
    to.w = width;
    return change(cx, f, level, &to);
}

sparta_status sp_format_bitmap(sparta_ctx *cx, sp_format *f, int level)
{
    sp_level to = plain(0);
    to.kind = SP_LEVEL_BITMAP;
    return change(cx, f, level, &to);
}

sparta_status sp_format_structure_level(sparta_ctx *cx, sp_format *f, int level, int64_t n, int64_t m)
{
    sp_format made = *f;
    sp_level to = plain(0);
    SP_TRY(levels_there(cx, f, &level, 1));
    const sp_level *l = &f->level[level];
    to.kind = SP_LEVEL_STRUCTURED;
    to.w = n, to.m = m;
    bool whole = l->map == SP_MAP_MOD && l->c == m; /* the groups are there already */
    if (!whole && l->map != SP_MAP_ALL && l->map != SP_MAP_MOD)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "axis: axis %d is no innermost level of its dimension: it has no "
                       "neighbours to group",
                       level);
    if (!whole) SP_TRY(cut(cx, &made, level, m, level + 1));
    SP_TRY(change(cx, &made, whole ? level : level + 1, &to));
    *f = made;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ formats of formats */

sparta_status sp_format_sum(sparta_ctx *cx, const struct sp_sum_part *part, int n, sp_format *out)
{
    if (n < 1 || n > SP_PARTS)
        return sp_fail(cx, SPARTA_E_USAGE, "sum: %d parts; there may be 1 to %d", n, SP_PARTS);
    sp_sum *sum = sp_alloc(cx, sizeof *sum + (size_t)n * sizeof *part);
    SP_NEED(cx, sum);
    sum->n = n;
    memcpy(sum->part, part, (size_t)n * sizeof *part);
    return sp_sum_intern(cx, sum, NULL, out);
}

/* Does `sub` say its levels in the order of its dimensions, i then j? */
static bool in_order(const sp_format *sub)
{
    int seen = 0;
    for (int k = 0; k < sub->n; k++) {
        if (sub->level[k].dim > seen) return false;
        seen += sub->level[k].dim == seen;
    }
    return true;
}

/* Only kinds are taken over: the map of `sub` must be the plain one, or what the levels have already. */
static bool maps_agree(const sp_format *f, const sp_format *sub, const int *level)
{
    bool order = in_order(sub);
    for (int k = 0; k < sub->n; k++) {
        const sp_level *from = &sub->level[k], *to = &f->level[level[k]];
        if (!order && from->dim != to->dim) return false;
        if (from->map == SP_MAP_ALL) continue;
        if (from->map != to->map || from->c != to->c || from->inner != to->inner) return false;
    }
    return true;
}

static sparta_status maps_disagree(sparta_ctx *cx, const sp_format *sub)
{
    sp_text text;
    sp_text_init(&text, cx);
    sp_format_print(sub, &text);
    sparta_status status = text.status;
    if (!status)
        status = sp_fail(cx, SPARTA_E_USAGE,
                         "axis: %.200s has an order or blocks that these axes do not have; call order() and "
                         "block() first",
                         sp_text_str(&text));
    sp_text_free(&text);
    return status;
}

sparta_status sp_format_set(sparta_ctx *cx, sp_format *f, const sp_format *sub, const int *level, int n,
                            bool replace)
{
    sp_format made = *f;
    SP_TRY(has_levels(cx, sub));
    if (n != sub->n)
        return sp_fail(cx, SPARTA_E_USAGE, "axis: %d ax%s for a format of %d level%s", n,
                       n == 1 ? "is" : "es", sub->n, sub->n == 1 ? "" : "s");
    SP_TRY(levels_there(cx, f, level, n));
    for (int k = 0; k < n; k++)
        if (!replace && f->level[level[k]].kind != SP_LEVEL_DENSE)
            return sp_fail(cx, SPARTA_E_USAGE,
                           "axis: axis %d already has a format (%s); pass replace=True to change it",
                           level[k], sp_level_table[f->level[level[k]].kind].name);
    if (!maps_agree(f, sub, level)) return maps_disagree(cx, sub);
    for (int k = 0; k < n; k++) {
        sp_level was = made.level[level[k]], *l = &made.level[level[k]];
        *l = sub->level[k];
        l->dim = was.dim, l->map = was.map, l->c = was.c, l->inner = was.inner, l->other = was.other;
    }
    return give(cx, &made, f);
}
