/* The algebra of attributes: masks' algebra, lifted to constants, precision, bounds and dims (attribute.h has the
 * rules). Each operation makes the parts of a new attribute and settles it:
 *
 *     dims   has (a set, or a bound)   constants (bits moved, values fetched)   precision (groups, and who is asked)
 *
 * Constants of another type than the first ones are forgotten: knowing less is always true.
 */
#include "tesa/attribute_inside.h"
#include <string.h>

/* ------------------------------------------------------------------ shared */

typedef struct {
    sparta_ctx *cx;
    sp_tesa t; /* being made */
    sp_constants c;
} maker;

static sparta_status done(maker *m, sparta_status status, sp_tesa *out)
{
    if (!status) return sp_tesa_settle(m->cx, &m->t, &m->c, out);
    sp_constants_free(m->cx, &m->c);
    sp_tesa_free(m->cx, &m->t);
    return status;
}

static void set_bound(sp_tesa *t, sp_has kind, int64_t most, const int64_t block[2])
{
    t->has = kind, t->most = most;
    t->block[0] = block[0], t->block[1] = block[1];
}

static sparta_status check_axis(sparta_ctx *cx, const char *who, int axis, int rank)
{
    if (axis >= 0 && axis < rank) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE, "%s: axis %d of %d; give 0 to %d", who, axis, rank, rank - 1);
}

/* ------------------------------------------------------------------ and, or */

typedef struct {
    const sp_tesa *a, *b, *made;
    sp_constants c[2];
    int64_t *before[2];
    bool both;         /* and */
    bool contradicted; /* two values for one element that exists */
    int64_t at[SP_TESA_RANK];
} pair;

static sparta_status combine_dims(sparta_ctx *cx, const pair *p, sp_tesa *t)
{
    if (p->a->rank != p->b->rank)
        return sp_fail(cx, SPARTA_E_SHAPE, "tesa: %d and %d dimensions; they must have one shape", p->a->rank,
                       p->b->rank);
    t->rank = p->a->rank;
    for (int i = 0; i < t->rank; i++) {
        const sp_tesa_dim *x = &p->a->dim[i], *y = &p->b->dim[i];
        bool number = !x->name[0] || !y->name[0]; /* and: a number says more than a symbol */
        sp_tesa_dim d = p->both && !y->name[0] ? *y : *x;
        d.min = p->both ? SP_MAX(x->min, y->min) : SP_MIN(x->min, y->min);
        d.max = p->both ? SP_MIN(x->max, y->max) : SP_MAX(x->max, y->max);
        if ((strcmp(x->name, y->name) && !(p->both && number)) || d.min > d.max ||
            (!d.name[0] && d.min != d.max))
            return sp_fail(cx, SPARTA_E_SHAPE, "tesa: dimension %d is %s %lld..%lld and %s %lld..%lld", i,
                           x->name, (long long)x->min, (long long)x->max, y->name, (long long)y->min,
                           (long long)y->max);
        t->dim[i] = d;
    }
    return SPARTA_OK;
}

static bool same_bound(const sp_tesa *a, const sp_tesa *b)
{
    return a->has == b->has && a->block[0] == b->block[0] && a->block[1] == b->block[1];
}

static sparta_status combine_has(sparta_ctx *cx, const pair *p, sp_tesa *t)
{
    const sp_tesa *a = p->a, *b = p->b, *set = a->has == SP_HAS_SET ? a : b;
    if (a->has == SP_HAS_SET && b->has == SP_HAS_SET)
        return sp_set_combine(cx, p->both ? SP_SET_AND : SP_SET_OR, &a->set, &b->set, &t->set);
    if (set->has == SP_HAS_SET && (p->both || sp_set_is_all(&set->set)))
        return sp_set_copy(cx, &set->set, &t->set);
    int64_t most;
    if (p->both && same_bound(a, b))
        set_bound(t, a->has, SP_MIN(a->most, b->most), a->block);
    else if (p->both) /* of two kinds the first of sp_has */
        set_bound(t, SP_MIN(a->has, b->has), a->has < b->has ? a->most : b->most,
                  a->has < b->has ? a->block : b->block);
    else if (same_bound(a, b) && sp_int_add(a->most, b->most, &most))
        set_bound(t, a->has, most, a->block);
    else
        t->has = SP_HAS_UNKNOWN;
    return SPARTA_OK;
}

/* The bytes of an element's value in one of the two, NULL when it has none. */
static const char *value_of(const pair *p, int which, const int64_t *index)
{
    const sp_constants *c = &p->c[which];
    int64_t place = c->where.rank ? sp_constants_place(&c->where, p->before[which], index) : -1;
    return place < 0 ? NULL : (const char *)c->value.data + (size_t)place * sparta_dtype_size(c->value.dtype);
}

/* Which of two has an element's value. */
static bool either(const void *arg, const int64_t *index, int *which, int64_t *there)
{
    pair *p = (pair *)arg;
    const char *left = value_of(p, 0, index), *right = value_of(p, 1, index);
    bool differ = left && right && memcmp(left, right, sparta_dtype_size(p->c[0].value.dtype));
    memcpy(there, index, (size_t)p->a->rank * sizeof *index);
    *which = !left;
    if (!p->both) return left && right && !differ;
    if (differ && sp_tesa_present(p->made, index)) {
        p->contradicted = true;
        memcpy(p->at, index, sizeof p->at);
    }
    return left || right;
}

/* The bits of both, united or intersected, with the extents of both. */
static sparta_status combine_where(sparta_ctx *cx, const pair *p, sp_span *out)
{
    const sp_span *a = &p->c[0].where, *b = &p->c[1].where;
    if (!a->rank || !b->rank) return sp_span_widen(cx, a->rank ? a : b, a->rank ? a->extent : b->extent, out);
    int64_t extent[SP_TESA_RANK];
    sp_span left, right;
    if (!sp_extents_join(a->rank, a->extent, b->extent, extent))
        return sp_fail(cx, SPARTA_E_SHAPE, "tesa: constants of different sizes");
    SP_TRY(sp_span_widen(cx, a, extent, &left));
    sparta_status status = sp_span_widen(cx, b, extent, &right);
    if (!status) {
        status = p->both ? sp_mask_or(cx, &left.mask, &right.mask) : sp_mask_and(cx, &left.mask, &right.mask);
        sp_mask_free(cx, &right.mask);
    }
    if (status)
        sp_mask_free(cx, &left.mask);
    else
        *out = left;
    return status;
}

static sparta_status combine_constants(sparta_ctx *cx, pair *p, maker *m)
{
    p->c[0] = sp_constants_of(p->a), p->c[1] = sp_constants_of(p->b);
    if (p->a->constants && p->b->constants && p->a->value.dtype != p->b->value.dtype)
        p->c[1] = (sp_constants){0}; /* the left ones are kept */
    bool left = p->c[0].where.rank, right = p->c[1].where.rank;
    if (p->both ? !left && !right : !left || !right) return SPARTA_OK;
    sp_span where;
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < 2 && !status; i++)
        if (p->c[i].where.rank) status = sp_constants_rank(cx, &p->c[i].where, &p->before[i]);
    if (!status) status = combine_where(cx, p, &where);
    if (!left) p->c[0].value.dtype = p->c[1].value.dtype; /* gather takes the type of its first source */
    if (!status) status = sp_constants_gather(cx, p->c, 2, &where, either, p, &m->c);
    sp_free(cx, p->before[0]);
    sp_free(cx, p->before[1]);
    SP_TRY(status);
    if (!p->contradicted) return SPARTA_OK;
    return sp_fail(cx, SPARTA_E_USAGE,
                   "tesa: two constants contradict each other at (%lld, %lld, ..); one of the facts is wrong",
                   (long long)p->at[0], (long long)p->at[1]);
}

static sp_precision meet_or_join(const void *arg, const int64_t *index)
{
    const pair *p = arg;
    sp_precision a = sp_tesa_precision_at(p->a, index), b = sp_tesa_precision_at(p->b, index);
    return p->both ? SP_MIN(a, b) : sp_precision_join(a, b);
}

static sparta_status combine(sparta_ctx *cx, const sp_tesa *a, const sp_tesa *b, bool both, sp_tesa *out)
{
    maker m = {.cx = cx};
    pair p = {.a = a, .b = b, .both = both, .made = &m.t};
    int64_t group[SP_TESA_RANK] = {0};
    SP_TRY(combine_dims(cx, &p, &m.t));
    for (int i = 0; i < a->rank; i++) group[i] = sp_gcd(a->group[i], b->group[i]);
    sparta_status status = combine_has(cx, &p, &m.t);
    if (!status) status = combine_constants(cx, &p, &m);
    if (!status) status = sp_precision_build(cx, &m.t, group, meet_or_join, &p);
    return done(&m, status, out);
}

sparta_status sp_tesa_and(sparta_ctx *cx, const sp_tesa *a, const sp_tesa *b, sp_tesa *out)
{
    return combine(cx, a, b, true, out);
}

sparta_status sp_tesa_or(sparta_ctx *cx, const sp_tesa *a, const sp_tesa *b, sp_tesa *out)
{
    return combine(cx, a, b, false, out);
}

/* ------------------------------------------------------------------ moves: slice, transpose, broadcast */

/* Where an element of the new attribute came from. */
typedef struct {
    const sp_tesa *from;
    int rank; /* the new one's */
    int axis; /* slice */
    int64_t start;
    const int *order; /* transpose: axis i is order[i] */
} move;

static bool came_from(const void *arg, const int64_t *index, int *which, int64_t *there)
{
    const move *m = arg;
    int more = m->rank - m->from->rank;
    (void)which;
    for (int i = 0; i < m->from->rank; i++) {
        int to = m->order ? m->order[i] : i;
        there[to] = index[i + more] + (m->axis == i ? m->start : 0);
        if (m->from->dim[to].max == 1) there[to] = 0; /* a repeated axis */
    }
    return true;
}

static sp_precision precision_before(const void *arg, const int64_t *index)
{
    int64_t there[SP_TESA_RANK];
    int which;
    came_from(arg, index, &which, there);
    return sp_tesa_precision_at(((const move *)arg)->from, there);
}

/* Constants whose bits were moved already. */
static sparta_status fetch_constants(maker *m, const move *v, sp_span *where)
{
    sp_constants from = sp_constants_of(v->from);
    return sp_constants_gather(m->cx, &from, 1, where, came_from, v, &m->c);
}

sparta_status sp_tesa_slice(sparta_ctx *cx, const sp_tesa *t, int axis, int64_t from, int64_t end,
                            sp_tesa *out)
{
    SP_TRY(check_axis(cx, "slice", axis, t->rank));
    if (from < 0 || end < from || end > t->dim[axis].min)
        return sp_fail(cx, SPARTA_E_SHAPE, "slice: %lld..%lld is not inside axis %d of at least %lld",
                       (long long)from, (long long)end, axis, (long long)t->dim[axis].min);
    maker m = {.cx = cx, .t = {.rank = t->rank}};
    move v = {t, t->rank, axis, from, NULL};
    sp_constants c = sp_constants_of(t);
    sp_span where;
    int64_t group[SP_TESA_RANK];
    memcpy(group, t->group, sizeof group);
    if (group[axis]) group[axis] = sp_gcd(group[axis], from);
    memcpy(m.t.dim, t->dim, sizeof t->dim);
    m.t.dim[axis] = sp_tesa_size(end - from);
    set_bound(&m.t, t->has, t->most, t->block);
    int side = axis - (t->rank - 2);
    if (t->has == SP_HAS_BLOCKS && side >= 0 && from % t->block[side]) m.t.has = SP_HAS_UNKNOWN;
    sparta_status status =
        t->has == SP_HAS_SET ? sp_set_slice(cx, &t->set, axis, from, end, &m.t.set) : SPARTA_OK;
    if (!status && c.where.rank && end > from) {
        status = t->extent[axis] == 1 ? sp_span_widen(cx, &c.where, t->extent, &where)
                                      : sp_span_slice(cx, &c.where, axis, from, end, &where);
        if (!status) status = fetch_constants(&m, &v, &where);
    }
    if (!status) status = sp_precision_build(cx, &m.t, group, precision_before, &v);
    return done(&m, status, out);
}

sparta_status sp_tesa_transpose(sparta_ctx *cx, const sp_tesa *t, const int *order, sp_tesa *out)
{
    maker m = {.cx = cx, .t = {.rank = t->rank}};
    move v = {t, t->rank, -1, 0, order};
    sp_constants c = sp_constants_of(t);
    sp_span where;
    int64_t group[SP_TESA_RANK];
    sp_set probe; /* checks the order whatever `has` is */
    SP_TRY(sp_set_all(cx, t->rank, true, &probe));
    sparta_status status = sp_set_transpose(cx, t->has == SP_HAS_SET ? &t->set : &probe, order, &m.t.set);
    sp_set_free(cx, &probe);
    if (!status && t->has != SP_HAS_SET) sp_set_free(cx, &m.t.set);
    SP_TRY(status);
    for (int i = 0; i < t->rank; i++) m.t.dim[i] = t->dim[order[i]], group[i] = t->group[order[i]];
    int last = t->rank - 1;
    bool kept = order[last] == last && (t->has != SP_HAS_BLOCKS || order[last - 1] == last - 1);
    set_bound(&m.t, t->has == SP_HAS_SET || kept ? t->has : SP_HAS_UNKNOWN, t->most, t->block);
    if (c.where.rank) status = sp_span_permute(cx, &c.where, order, &where);
    if (!status && c.where.rank) status = fetch_constants(&m, &v, &where);
    if (!status) status = sp_precision_build(cx, &m.t, group, precision_before, &v);
    return done(&m, status, out);
}

static sparta_status check_broadcast(sparta_ctx *cx, const sp_tesa *t, int rank, const sp_tesa_dim *dim)
{
    SP_TRY(sp_tesa_check_dims(cx, rank, dim));
    if (rank < t->rank)
        return sp_fail(cx, SPARTA_E_SHAPE, "broadcast: from %d dimensions to %d; they can only become more",
                       t->rank, rank);
    for (int i = 0; i < t->rank; i++) {
        const sp_tesa_dim *x = &t->dim[i], *y = &dim[i + rank - t->rank];
        bool one = x->max == 1 && !x->name[0]; /* a symbol of 0..1 may have no elements to repeat */
        if (!one && (x->min != y->min || x->max != y->max || strcmp(x->name, y->name)))
            return sp_fail(
                cx, SPARTA_E_SHAPE,
                "broadcast: dimension %d of %s%lld does not become %s%lld; only a size of 1 repeats", i,
                x->name, (long long)x->max, y->name, (long long)y->max);
    }
    return SPARTA_OK;
}

sparta_status sp_tesa_broadcast(sparta_ctx *cx, const sp_tesa *t, int rank, const sp_tesa_dim *dim,
                                sp_tesa *out)
{
    SP_TRY(check_broadcast(cx, t, rank, dim));
    maker m = {.cx = cx, .t = {.rank = rank}};
    move v = {t, rank, -1, 0, NULL};
    sp_constants c = sp_constants_of(t);
    sp_span where;
    int64_t group[SP_TESA_RANK] = {0};
    int more = rank - t->rank, last = rank - 1;
    memcpy(m.t.dim, dim, (size_t)rank * sizeof *dim);
    for (int i = 0; i < t->rank; i++) group[i + more] = t->dim[i].max == 1 ? 0 : t->group[i];
    bool kept = t->dim[t->rank - 1].max == dim[last].max &&
                (t->has != SP_HAS_BLOCKS || t->dim[t->rank - 2].max == dim[last - 1].max);
    set_bound(&m.t, t->has == SP_HAS_SET || kept ? t->has : SP_HAS_UNKNOWN, t->most, t->block);
    sparta_status status = t->has == SP_HAS_SET ? sp_set_broadcast(cx, &t->set, rank, &m.t.set) : SPARTA_OK;
    if (!status && c.where.rank) {
        status = sp_span_raise(cx, &c.where, rank, &where);
        if (!status) status = fetch_constants(&m, &v, &where);
    }
    if (!status) status = sp_precision_build(cx, &m.t, group, precision_before, &v);
    return done(&m, status, out);
}
