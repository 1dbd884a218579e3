/* Verify: may positions and coordinates be followed? Arrays are checked level by level, parts one by one. Storage may come
 * from a file and be hostile. */
#include "format/walk.h"
#include <stdio.h>
#include <string.h>

sparta_status sp_array_check(sparta_ctx *cx, const sparta_tensor *t, sparta_dtype dtype, const char *what)
{
    if (t->rank != 1 || t->dim[0] < 0 || (t->dim[0] > 1 && t->stride[0] != 1))
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: %s are no contiguous array of one dimension", what);
    if (t->dtype != dtype)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: %s are %s, the format says %s", what,
                       (unsigned)t->dtype < SP_DTYPES ? sparta_dtype_name(t->dtype) : "of no type",
                       sparta_dtype_name(dtype));
    if (t->dim[0] && (!t->data || (uintptr_t)t->data % sparta_dtype_size(dtype)))
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: %s are not aligned to their type", what);
    return SPARTA_OK;
}

static sparta_status array_check(sparta_ctx *cx, const sparta_tensor *t, sparta_dtype dtype, int level,
                                 const char *what)
{
    char where[32];
    snprintf(where, sizeof where, "%s of level %d", what, level);
    return sp_array_check(cx, t, dtype, where);
}

static bool absent(const sparta_tensor *t)
{
    return !t->data || (t->rank == 1 && t->dim[0] == 0);
}

static sparta_status no_array(sparta_ctx *cx, const sparta_tensor *t, int level, const char *what)
{
    if (absent(t)) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "packed: level %d has an array %s that its kind does not have", level,
                   what);
}

/* The format and the dims themselves: they may come from the same file as the arrays. */
static sparta_status head_check(sparta_ctx *cx, const sp_packed *p)
{
    if ((unsigned)p->dtype >= SP_DTYPES)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: type %d is unknown", (int)p->dtype);
    if (p->pattern && p->dtype != SPARTA_BOOL)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: a pattern has no values, its type is bool, not %s",
                       sparta_dtype_name(p->dtype));
    sparta_status status = sp_format_check(cx, &p->format, p->rank, p->dim);
    if (!status) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "packed: %s", sparta_message(cx));
}

/* The coordinates that `k` levels share: [positions][k], or the same as one row (as packages keep them). */
static sparta_status shared_check(sparta_ctx *cx, const sparta_tensor *t, sparta_dtype width, int level,
                                  int k)
{
    int64_t n = t->dim[0];
    bool flat = t->rank == 1 && n >= 0 && n % k == 0 && (n < 2 || t->stride[0] == 1);
    bool table = t->rank == 2 && n >= 0 && t->dim[1] == k && (n < 2 || t->stride[0] == k) &&
                 (!n || t->stride[1] == 1) && sp_int_mul(n, k, &n);
    if (!flat && !table)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: crd of level %d are no contiguous array of n by %d",
                       level, k);
    sparta_tensor all = {t->dtype, 1, {n}, {1}, t->data, 0};
    return array_check(cx, &all, width, level, "crd");
}

/* The first of the levels that share an array with level l; level 0 shares none above it: it was checked. */
static int head_of(const sp_format *f, int l)
{
    while (f->level[l].properties & SP_PROP_AOS) l--;
    return l;
}

static sparta_status arrays_check(sparta_ctx *cx, const sp_packed *p, int l, int head, int shares)
{
    const sp_level *level = &p->format.level[l];
    const sp_level_info *info = &sp_level_table[level->kind];
    SP_TRY(info->has_pos ? array_check(cx, &p->pos[l], level->pos, l, "pos")
                         : no_array(cx, &p->pos[l], l, "pos"));
    if (info->crd_kind == SP_CRD_NONE || head != l) return no_array(cx, &p->crd[l], l, "crd");
    if (info->crd_kind == SP_CRD_BITS) return array_check(cx, &p->crd[l], SPARTA_U8, l, "bits");
    return shares > 1 ? shared_check(cx, &p->crd[l], level->crd, l, shares)
                      : array_check(cx, &p->crd[l], level->crd, l, "crd");
}

static sparta_status values_array(sparta_ctx *cx, const sp_packed *p, bool pattern_has_values)
{
    if (!p->pattern || pattern_has_values) return sp_array_check(cx, &p->values, p->dtype, "values");
    if (absent(&p->values)) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "packed: a pattern in this format has no values");
}

/* Which arrays there are, of which type; nothing of what is in them. */
static sparta_status levels_arrays(sparta_ctx *cx, const sp_packed *p)
{
    for (int l = 0; l < p->format.n; l++) {
        int head = head_of(&p->format, l);
        SP_TRY(arrays_check(cx, p, l, head, sp_level_shares(&p->format, head)));
    }
    return values_array(cx, p, sp_levels_pattern_has_values(&p->format));
}

static sparta_status verify_level(sparta_ctx *cx, const sp_packed *p, int l, int64_t parents,
                                  sp_level_view *v)
{
    const sp_level *level = &p->format.level[l];
    int head = head_of(&p->format, l);
    int shares = sp_level_shares(&p->format, head);
    *v = (sp_level_view){.level = level,
                         .number = l,
                         .extent = sp_level_extent(level, p->dim),
                         .origin = sp_level_origin(level, p->dim),
                         .parents = parents,
                         .pos = &p->pos[l],
                         .crd = &p->crd[head],
                         .crd_n = p->crd[head].rank == 1 ? p->crd[head].dim[0] / shares : p->crd[head].dim[0],
                         .crd_step = shares,
                         .crd_first = l - head,
                         .seen_parent = -1};
    SP_TRY(sp_level_table[level->kind].ops->verify(cx, v));
    return sp_check_cancel(cx);
}

/* ------------------------------------------------------------------ leaves */

sparta_status sp_values_check(sparta_ctx *cx, const sp_packed *p, bool pattern_has_values, int64_t n)
{
    SP_TRY(values_array(cx, p, pattern_has_values));
    if ((p->pattern && !pattern_has_values) || p->values.dim[0] == n) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_FORMAT, "packed: %lld values, the levels have %lld positions",
                   (long long)p->values.dim[0], (long long)n);
}

static sparta_status levels_verify(sparta_ctx *cx, const sp_packed *p, sp_level_view view[SP_LEVELS])
{
    int64_t size = 1;
    for (int l = 0; l < p->format.n; l++) {
        SP_TRY(verify_level(cx, p, l, size, &view[l]));
        size = view[l].size;
    }
    return sp_values_check(cx, p, sp_levels_pattern_has_values(&p->format), size);
}

sparta_status sp_leaf_verify(sparta_ctx *cx, const sp_packed *p, sp_level_view view[SP_LEVELS])
{
    SP_TRY(head_check(cx, p));
    if (p->format.sum || p->parts)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: a part of a sum has parts of its own");
    if (p->format.opaque) return p->format.opaque->verify(cx, p);
    SP_TRY(levels_arrays(cx, p));
    return levels_verify(cx, p, view);
}

/* ------------------------------------------------------------------ sums */

static bool same_tensor(const sp_packed *a, const sp_packed *b)
{
    bool same = a->dtype == b->dtype && a->pattern == b->pattern && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = a->dim[d] == b->dim[d];
    return same;
}

static sparta_status parts_check(sparta_ctx *cx, const sp_packed *p)
{
    const sp_format *leaf[SP_PARTS];
    int n = sp_sum_leaves(&p->format, leaf);
    if (n > SP_PARTS || p->parts != n || !p->part)
        return sp_fail(cx, SPARTA_E_FORMAT, "packed: %d parts, the sum has %d", p->parts, n);
    for (int i = 0; i < n; i++)
        if (!same_tensor(p, &p->part[i]) || !sp_format_equal(&p->part[i].format, leaf[i]))
            return sp_fail(cx, SPARTA_E_FORMAT,
                           "packed: part %d has another format, type or shape than the sum says", i);
    return SPARTA_OK;
}

int sp_packed_leaves(const sp_packed *p)
{
    return p->format.sum ? p->parts : 1;
}

const sp_packed *sp_packed_leaf(const sp_packed *p, int i)
{
    return p->format.sum ? &p->part[i] : p;
}

sparta_status sp_packed_head_check(sparta_ctx *cx, const sp_packed *p)
{
    SP_TRY(head_check(cx, p));
    if (p->format.sum) return parts_check(cx, p);
    if (p->parts) return sp_fail(cx, SPARTA_E_FORMAT, "packed: parts, but the format is no sum");
    return p->format.opaque ? SPARTA_OK : levels_arrays(cx, p);
}

sparta_status sp_packed_verify(sparta_ctx *cx, const sp_packed *p)
{
    sp_level_view view[SP_LEVELS];
    SP_TRY(sp_packed_head_check(cx, p));
    for (int i = 0; i < sp_packed_leaves(p); i++) {
        if (!sp_leaf_verify(cx, sp_packed_leaf(p, i), view)) continue;
        return p->format.sum ? sp_fail_in(cx, "part %d", i) : sp_ctx_status(cx);
    }
    return SPARTA_OK;
}
