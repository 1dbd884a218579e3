/* Attributes one after the other along an axis. */
#include "tesa/attribute_inside.h"
#include <string.h>

typedef struct {
    sparta_ctx *cx;
    int axis, parts;
    const sp_tesa *const *part;
    int64_t *size; /* of each part along the axis */
    const sp_set **set;
    sp_constants *c; /* views; of the type of the first */
    sp_span *wide;   /* their bits, with common extents */
} joiner;

/* Which part an index lies in; it becomes the part's. */
static int part_at(const joiner *j, int64_t *index)
{
    int p = 0;
    while (p < j->parts - 1 && index[j->axis] >= j->size[p]) index[j->axis] -= j->size[p++];
    return p;
}

static bool came_from(const void *arg, const int64_t *index, int *which, int64_t *there)
{
    const joiner *j = arg;
    memcpy(there, index, (size_t)j->part[0]->rank * sizeof *index);
    *which = part_at(j, there);
    return j->c[*which].where.rank != 0;
}

static sp_precision precision_before(const void *arg, const int64_t *index)
{
    int64_t there[SP_TESA_RANK];
    memcpy(there, index, sizeof there);
    int p = part_at(arg, there);
    return sp_tesa_precision_at(((const joiner *)arg)->part[p], there);
}

static sparta_status check_parts(const joiner *j, sp_tesa *t)
{
    const sp_tesa *first = j->part[0];
    int64_t all = 0;
    t->rank = first->rank;
    memcpy(t->dim, first->dim, sizeof t->dim);
    for (int p = 0; p < j->parts; p++) {
        const sp_tesa *x = j->part[p];
        for (int i = 0; i < first->rank; i++) {
            const sp_tesa_dim *a = &first->dim[i], *b = x->rank == first->rank ? &x->dim[i] : NULL;
            bool fits =
                b && (i == j->axis ? !b->name[0]
                                   : a->min == b->min && a->max == b->max && !strcmp(a->name, b->name));
            if (!fits)
                return sp_fail(
                    j->cx, SPARTA_E_SHAPE,
                    "concat: part %d has another dimension %d than part 0; only axis %d may differ, and "
                    "its sizes must be numbers",
                    p, i, j->axis);
        }
        j->size[p] = x->dim[j->axis].max;
        if (!sp_int_add(all, j->size[p], &all))
            return sp_fail(j->cx, SPARTA_E_SHAPE, "concat: %d parts have too many elements together",
                           j->parts);
    }
    t->dim[j->axis] = sp_tesa_size(all);
    return SPARTA_OK;
}

/* A bound of all parts: along the last axis counts add up, along others the largest holds. */
static void join_bounds(const joiner *j, sp_tesa *t)
{
    const sp_tesa *first = j->part[0];
    int64_t most = first->most;
    t->has = first->has;
    memcpy(t->block, first->block, sizeof t->block);
    int side = j->axis - (t->rank - 2);
    for (int p = 1; p < j->parts; p++) {
        const sp_tesa *x = j->part[p];
        bool same = x->has == t->has && !memcmp(x->block, t->block, sizeof t->block);
        if (!same || (t->has == SP_HAS_BLOCKS && side >= 0 && j->size[p - 1] % t->block[side])) {
            t->has = SP_HAS_UNKNOWN;
            return;
        }
        if (j->axis != t->rank - 1)
            most = SP_MAX(most, x->most);
        else if (!sp_int_add(most, x->most, &most))
            t->has = SP_HAS_UNKNOWN;
    }
    t->most = most;
}

static sparta_status join_has(const joiner *j, sp_tesa *t)
{
    bool sets = true;
    for (int p = 0; p < j->parts; p++) {
        sets &= j->part[p]->has == SP_HAS_SET;
        j->set[p] = &j->part[p]->set;
    }
    if (sets) return sp_set_concat(j->cx, j->axis, j->set, j->size, j->parts, &t->set);
    join_bounds(j, t);
    return SPARTA_OK;
}

/* Views of the constants of one type, and the extents they need. Returns whether there are any. */
static bool look_at_constants(const joiner *j, int64_t *extent)
{
    const sp_tesa *typed = NULL;
    for (int i = 0; i < SP_TESA_RANK; i++) extent[i] = 1;
    for (int p = 0; p < j->parts; p++) {
        const sp_tesa *x = j->part[p];
        if (!x->constants || (typed && typed->value.dtype != x->value.dtype)) continue;
        typed = x;
        j->c[p] = sp_constants_of(x);
        for (int i = 0; i < x->rank; i++)
            if (i != j->axis && x->extent[i] != 1) extent[i] = x->extent[i];
    }
    for (int p = 0; typed && p < j->parts; p++) j->c[p].value.dtype = typed->value.dtype;
    return typed;
}

static sparta_status join_constants(const joiner *j, sp_constants *out)
{
    int64_t extent[SP_TESA_RANK];
    sp_span whole;
    if (!look_at_constants(j, extent)) return SPARTA_OK;
    for (int p = 0; p < j->parts; p++) {
        extent[j->axis] = j->size[p];
        if (j->c[p].where.rank)
            SP_TRY(sp_span_widen(j->cx, &j->c[p].where, extent, &j->wide[p]));
        else
            SP_TRY(sp_span_create(j->cx, j->part[0]->rank, extent, &j->wide[p]));
    }
    SP_TRY(sp_span_concat(j->cx, j->axis, j->wide, j->parts, &whole));
    return sp_constants_gather(j->cx, j->c, j->parts, &whole, came_from, j, out);
}

static sparta_status join_precision(const joiner *j, sp_tesa *t)
{
    int64_t group[SP_TESA_RANK] = {0}, at = 0;
    for (int p = 0; p < j->parts; p++) {
        for (int i = 0; i < t->rank; i++) group[i] = sp_gcd(group[i], j->part[p]->group[i]);
        group[j->axis] = sp_gcd(group[j->axis], at); /* a part begins here */
        at += j->size[p];
    }
    return sp_precision_build(j->cx, t, group, precision_before, j);
}

static sparta_status join(joiner *j, sp_arena *arena, sp_tesa *out)
{
    size_t n = (size_t)j->parts;
    sp_tesa t = {0};
    sp_constants c = {0};
    j->size = sp_arena_array(arena, n, sizeof *j->size);
    j->set = sp_arena_array(arena, n, sizeof *j->set);
    j->c = sp_arena_array(arena, n, sizeof *j->c);
    j->wide = sp_arena_array(arena, n, sizeof *j->wide);
    SP_NEED(j->cx, j->size && j->set && j->c && j->wide ? j : NULL);
    SP_TRY(check_parts(j, &t));
    sparta_status status = join_has(j, &t);
    if (!status) status = join_constants(j, &c);
    for (int p = 0; p < j->parts; p++) sp_mask_free(j->cx, &j->wide[p].mask);
    if (!status) status = join_precision(j, &t);
    if (!status) return sp_tesa_settle(j->cx, &t, &c, out);
    sp_constants_free(j->cx, &c);
    sp_tesa_free(j->cx, &t);
    return status;
}

sparta_status sp_tesa_concat(sparta_ctx *cx, int axis, const sp_tesa *const *part, int parts, sp_tesa *out)
{
    if (parts < 1 || axis < 0 || axis >= part[0]->rank)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "concat: %d parts along axis %d; give at least one, and an axis it has", parts, axis);
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    joiner j = {.cx = cx, .axis = axis, .parts = parts, .part = part};
    sparta_status status = join(&j, arena, out);
    sp_arena_free(arena);
    return status;
}
