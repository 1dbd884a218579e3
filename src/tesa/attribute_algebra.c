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
    sparta_tesa t; /* being made */
    sparta_constants c;
} maker;

static sparta_status done(maker *m, sparta_status status, sparta_tesa *out)
{
    if (!status) return sparta_tesa_settle(m->cx, &m->t, &m->c, out);
    sparta_constants_free(m->cx, &m->c);
    sparta_tesa_free(m->cx, &m->t);
    return status;
}

static void set_bound(sparta_tesa *t, sparta_has kind, int64_t most, const int64_t block[2])
{
    t->has = kind, t->most = most;
    t->block[0] = block[0], t->block[1] = block[1];
}

static sparta_status check_axis(sparta_ctx *cx, const char *who, int axis, int rank)
{
    if (axis >= 0 && axis < rank) return SPARTA_OK;
    return sparta_fail(cx, SPARTA_E_USAGE, "%s: axis %d of %d; give 0 to %d", who, axis, rank, rank - 1);
}

/* ------------------------------------------------------------------ and, or */

typedef struct {
    const sparta_tesa *a, *b, *made;
    sparta_constants c[2];
    int64_t *before[2];
    bool both;         /* and */
    bool contradicted; /* two values for one element that exists */
    int64_t at[SPARTA_TESA_RANK];
} pair;

static sparta_status combine_dims(sparta_ctx *cx, const pair *p, sparta_tesa *t)
{
    if (p->a->rank != p->b->rank)
        return sparta_fail(cx, SPARTA_E_SHAPE, "tesa: %d and %d dimensions; they must have one shape",
                           p->a->rank, p->b->rank);
    t->rank = p->a->rank;
    for (int i = 0; i < t->rank; i++) {
        const sparta_tesa_dim *x = &p->a->dim[i], *y = &p->b->dim[i];
        bool number = !x->name[0] || !y->name[0]; /* and: a number says more than a symbol */
        sparta_tesa_dim d = p->both && !y->name[0] ? *y : *x;
        d.min = p->both ? SPARTA_MAX(x->min, y->min) : SPARTA_MIN(x->min, y->min);
        d.max = p->both ? SPARTA_MIN(x->max, y->max) : SPARTA_MAX(x->max, y->max);
        if ((strcmp(x->name, y->name) && !(p->both && number)) || d.min > d.max ||
            (!d.name[0] && d.min != d.max))
            return sparta_fail(cx, SPARTA_E_SHAPE, "tesa: dimension %d is %s %lld..%lld and %s %lld..%lld", i,
                               x->name, (long long)x->min, (long long)x->max, y->name, (long long)y->min,
                               (long long)y->max);
        t->dim[i] = d;
    }
    return SPARTA_OK;
}

static bool same_bound(const sparta_tesa *a, const sparta_tesa *b)
{
    return a->has == b->has && a->block[0] == b->block[0] && a->block[1] == b->block[1];
}

static sparta_status combine_has(sparta_ctx *cx, const pair *p, sparta_tesa *t)
{
    const sparta_tesa *a = p->a, *b = p->b, *set = a->has == SPARTA_HAS_SET ? a : b;
    if (a->has == SPARTA_HAS_SET && b->has == SPARTA_HAS_SET)
        return sparta_set_combine(cx, p->both ? SPARTA_SET_AND : SPARTA_SET_OR, &a->set, &b->set, &t->set);
    if (set->has == SPARTA_HAS_SET && (p->both || sparta_set_is_all(&set->set)))
        return sparta_set_copy(cx, &set->set, &t->set);
    int64_t most;
    if (p->both && same_bound(a, b))
        set_bound(t, a->has, SPARTA_MIN(a->most, b->most), a->block);
    else if (p->both) /* of two kinds the first of sparta_has */
        set_bound(t, SPARTA_MIN(a->has, b->has), a->has < b->has ? a->most : b->most,
                  a->has < b->has ? a->block : b->block);
    else if (same_bound(a, b) && sparta_int_add(a->most, b->most, &most))
        set_bound(t, a->has, most, a->block);
    else
        t->has = SPARTA_HAS_UNKNOWN;
    return SPARTA_OK;
}

/* The bytes of an element's value in one of the two, NULL when it has none. */
static const char *value_of(const pair *p, int which, const int64_t *index)
{
    const sparta_constants *c = &p->c[which];
    int64_t place = c->where.rank ? sparta_constants_place(&c->where, p->before[which], index) : -1;
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
    if (differ && sparta_tesa_present(p->made, index)) {
        p->contradicted = true;
        memcpy(p->at, index, sizeof p->at);
    }
    return left || right;
}

/* The bits of both, united or intersected, with the extents of both. */
static sparta_status combine_where(sparta_ctx *cx, const pair *p, sparta_span *out)
{
    const sparta_span *a = &p->c[0].where, *b = &p->c[1].where;
    if (!a->rank || !b->rank)
        return sparta_span_widen(cx, a->rank ? a : b, a->rank ? a->extent : b->extent, out);
    int64_t extent[SPARTA_TESA_RANK];
    sparta_span left, right;
    if (!sparta_extents_join(a->rank, a->extent, b->extent, extent))
        return sparta_fail(cx, SPARTA_E_SHAPE, "tesa: constants of different sizes");
    SPARTA_TRY(sparta_span_widen(cx, a, extent, &left));
    sparta_status status = sparta_span_widen(cx, b, extent, &right);
    if (!status) {
        status = p->both ? sparta_mask_or(cx, &left.mask, &right.mask)
                         : sparta_mask_and(cx, &left.mask, &right.mask);
        sparta_mask_free(cx, &right.mask);
    }
    if (status)
        sparta_mask_free(cx, &left.mask);
    else
        *out = left;
    return status;
}

static sparta_status combine_constants(sparta_ctx *cx, pair *p, maker *m)
{
    p->c[0] = sparta_constants_of(p->a), p->c[1] = sparta_constants_of(p->b);
    if (p->a->constants && p->b->constants && p->a->value.dtype != p->b->value.dtype)
        p->c[1] = (sparta_constants){0}; /* the left ones are kept */
    bool left = p->c[0].where.rank, right = p->c[1].where.rank;
    if (p->both ? !left && !right : !left || !right) return SPARTA_OK;
    sparta_span where;
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < 2 && !status; i++)
        if (p->c[i].where.rank) status = sparta_constants_rank(cx, &p->c[i].where, &p->before[i]);
    if (!status) status = combine_where(cx, p, &where);
    if (!left) p->c[0].value.dtype = p->c[1].value.dtype; /* gather takes the type of its first source */
    if (!status) status = sparta_constants_gather(cx, p->c, 2, &where, either, p, &m->c);
    sparta_free(cx, p->before[0]);
    sparta_free(cx, p->before[1]);
    SPARTA_TRY(status);
    if (!p->contradicted) return SPARTA_OK;
    return sparta_fail(
        cx, SPARTA_E_USAGE,
        "tesa: two constants contradict each other at (%lld, %lld, ..); one of the facts is wrong",
        (long long)p->at[0], (long long)p->at[1]);
}

static sparta_precision meet_or_join(const void *arg, const int64_t *index)
{
    const pair *p = arg;
    sparta_precision a = sparta_tesa_precision_at(p->a, index), b = sparta_tesa_precision_at(p->b, index);
    return p->both ? SPARTA_MIN(a, b) : sparta_precision_join(a, b);
}

static sparta_status combine(sparta_ctx *cx, const sparta_tesa *a, const sparta_tesa *b, bool both,
                             sparta_tesa *out)
{
    maker m = {.cx = cx};
    pair p = {.a = a, .b = b, .both = both, .made = &m.t};
    int64_t group[SPARTA_TESA_RANK] = {0};
    SPARTA_TRY(combine_dims(cx, &p, &m.t));
    for (int i = 0; i < a->rank; i++) group[i] = sparta_gcd(a->group[i], b->group[i]);
    sparta_status status = combine_has(cx, &p, &m.t);
    if (!status) status = combine_constants(cx, &p, &m);
    if (!status) status = sparta_precision_build(cx, &m.t, group, meet_or_join, &p);
    return done(&m, status, out);
}

sparta_status sparta_tesa_and(sparta_ctx *cx, const sparta_tesa *a, const sparta_tesa *b, sparta_tesa *out)
{
    return combine(cx, a, b, true, out);
}

sparta_status sparta_tesa_or(sparta_ctx *cx, const sparta_tesa *a, const sparta_tesa *b, sparta_tesa *out)
{
    return combine(cx, a, b, false, out);
}

/* ------------------------------------------------------------------ moves: slice, transpose, broadcast */

/* Where an element of the new attribute came from. */
typedef struct {
    const sparta_tesa *from;
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

static sparta_precision precision_before(const void *arg, const int64_t *index)
{
    int64_t there[SPARTA_TESA_RANK];
    int which;
    came_from(arg, index, &which, there);
    return sparta_tesa_precision_at(((const move *)arg)->from, there);
}

/* Constants whose bits were moved already. */
static sparta_status fetch_constants(maker *m, const move *v, sparta_span *where)
{
    sparta_constants from = sparta_constants_of(v->from);
    return sparta_constants_gather(m->cx, &from, 1, where, came_from, v, &m->c);
}

sparta_status sparta_tesa_slice(sparta_ctx *cx, const sparta_tesa *t, int axis, int64_t from, int64_t end,
                                sparta_tesa *out)
{
    SPARTA_TRY(check_axis(cx, "slice", axis, t->rank));
    if (from < 0 || end < from || end > t->dim[axis].min)
        return sparta_fail(cx, SPARTA_E_SHAPE, "slice: %lld..%lld is not inside axis %d of at least %lld",
                           (long long)from, (long long)end, axis, (long long)t->dim[axis].min);
    maker m = {.cx = cx, .t = {.rank = t->rank}};
    move v = {t, t->rank, axis, from, NULL};
    sparta_constants c = sparta_constants_of(t);
    sparta_span where;
    int64_t group[SPARTA_TESA_RANK];
    memcpy(group, t->group, sizeof group);
    if (group[axis]) group[axis] = sparta_gcd(group[axis], from);
    memcpy(m.t.dim, t->dim, sizeof t->dim);
    m.t.dim[axis] = sparta_tesa_size(end - from);
    set_bound(&m.t, t->has, t->most, t->block);
    int side = axis - (t->rank - 2);
    if (t->has == SPARTA_HAS_BLOCKS && side >= 0 && from % t->block[side]) m.t.has = SPARTA_HAS_UNKNOWN;
    sparta_status status =
        t->has == SPARTA_HAS_SET ? sparta_set_slice(cx, &t->set, axis, from, end, &m.t.set) : SPARTA_OK;
    if (!status && c.where.rank && end > from) {
        status = t->extent[axis] == 1 ? sparta_span_widen(cx, &c.where, t->extent, &where)
                                      : sparta_span_slice(cx, &c.where, axis, from, end, &where);
        if (!status) status = fetch_constants(&m, &v, &where);
    }
    if (!status) status = sparta_precision_build(cx, &m.t, group, precision_before, &v);
    return done(&m, status, out);
}

sparta_status sparta_tesa_transpose(sparta_ctx *cx, const sparta_tesa *t, const int *order, sparta_tesa *out)
{
    maker m = {.cx = cx, .t = {.rank = t->rank}};
    move v = {t, t->rank, -1, 0, order};
    sparta_constants c = sparta_constants_of(t);
    sparta_span where;
    int64_t group[SPARTA_TESA_RANK];
    sparta_set probe; /* checks the order whatever `has` is */
    SPARTA_TRY(sparta_set_all(cx, t->rank, true, &probe));
    sparta_status status =
        sparta_set_transpose(cx, t->has == SPARTA_HAS_SET ? &t->set : &probe, order, &m.t.set);
    sparta_set_free(cx, &probe);
    if (!status && t->has != SPARTA_HAS_SET) sparta_set_free(cx, &m.t.set);
    SPARTA_TRY(status);
    for (int i = 0; i < t->rank; i++) m.t.dim[i] = t->dim[order[i]], group[i] = t->group[order[i]];
    int last = t->rank - 1;
    bool kept = order[last] == last && (t->has != SPARTA_HAS_BLOCKS || order[last - 1] == last - 1);
    set_bound(&m.t, t->has == SPARTA_HAS_SET || kept ? t->has : SPARTA_HAS_UNKNOWN, t->most, t->block);
    if (c.where.rank) status = sparta_span_permute(cx, &c.where, order, &where);
    if (!status && c.where.rank) status = fetch_constants(&m, &v, &where);
    if (!status) status = sparta_precision_build(cx, &m.t, group, precision_before, &v);
    return done(&m, status, out);
}

static sparta_status check_broadcast(sparta_ctx *cx, const sparta_tesa *t, int rank,
                                     const sparta_tesa_dim *dim)
{
    SPARTA_TRY(sparta_tesa_check_dims(cx, rank, dim));
    if (rank < t->rank)
        return sparta_fail(cx, SPARTA_E_SHAPE,
                           "broadcast: from %d dimensions to %d; they can only become more", t->rank, rank);
    for (int i = 0; i < t->rank; i++) {
        const sparta_tesa_dim *x = &t->dim[i], *y = &dim[i + rank - t->rank];
        bool one = x->max == 1 && !x->name[0]; /* a symbol of 0..1 may have no elements to repeat */
        if (!one && (x->min != y->min || x->max != y->max || strcmp(x->name, y->name)))
            return sparta_fail(
                cx, SPARTA_E_SHAPE,
                "broadcast: dimension %d of %s%lld does not become %s%lld; only a size of 1 repeats", i,
                x->name, (long long)x->max, y->name, (long long)y->max);
    }
    return SPARTA_OK;
}

sparta_status sparta_tesa_broadcast(sparta_ctx *cx, const sparta_tesa *t, int rank,
                                    const sparta_tesa_dim *dim, sparta_tesa *out)
{
    SPARTA_TRY(check_broadcast(cx, t, rank, dim));
    maker m = {.cx = cx, .t = {.rank = rank}};
    move v = {t, rank, -1, 0, NULL};
    sparta_constants c = sparta_constants_of(t);
    sparta_span where;
    int64_t group[SPARTA_TESA_RANK] = {0};
    int more = rank - t->rank, last = rank - 1;
    memcpy(m.t.dim, dim, (size_t)rank * sizeof *dim);
    for (int i = 0; i < t->rank; i++) group[i + more] = t->dim[i].max == 1 ? 0 : t->group[i];
    bool kept = t->dim[t->rank - 1].max == dim[last].max &&
                (t->has != SPARTA_HAS_BLOCKS || t->dim[t->rank - 2].max == dim[last - 1].max);
    set_bound(&m.t, t->has == SPARTA_HAS_SET || kept ? t->has : SPARTA_HAS_UNKNOWN, t->most, t->block);
    sparta_status status =
        t->has == SPARTA_HAS_SET ? sparta_set_broadcast(cx, &t->set, rank, &m.t.set) : SPARTA_OK;
    if (!status && c.where.rank) {
        status = sparta_span_raise(cx, &c.where, rank, &where);
        if (!status) status = fetch_constants(&m, &v, &where);
    }
    if (!status) status = sparta_precision_build(cx, &m.t, group, precision_before, &v);
    return done(&m, status, out);
}
