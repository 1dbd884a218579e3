/* Read packed storage: check the arrays level by level, then walk them. Storage may come from a file and be
 * hostile, and a mapped file may even change under us: the walker checks every position and coordinate again
 * when it uses it.
 */
#include "format/level.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ verify */

static sparta_status array_check(sparta_ctx *cx, const sparta_tensor *t, sparta_dtype dtype, int level,
                                 const char *what)
{
    char where[32] = "values";
    if (level >= 0) snprintf(where, sizeof where, "%s of level %d", what, level);
    if (t->rank != 1 || t->dim[0] < 0 || (t->dim[0] > 1 && t->stride[0] != 1))
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: %s are no contiguous array of one dimension", where);
    if (t->dtype != dtype)
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: %s are %s, the format says %s", where,
                           (unsigned)t->dtype < SPARTA_DTYPES ? sparta_dtype_name(t->dtype) : "of no type",
                           sparta_dtype_name(dtype));
    if (t->dim[0] && (!t->data || (uintptr_t)t->data % sparta_dtype_size(dtype)))
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: %s are not aligned to their type", where);
    return SPARTA_OK;
}

static sparta_status no_array(sparta_ctx *cx, const sparta_tensor *t, int level, const char *what)
{
    if (!t->data || (t->rank == 1 && t->dim[0] == 0)) return SPARTA_OK;
    return sparta_fail(cx, SPARTA_E_FORMAT, "packed: level %d has an array %s that its kind does not have",
                       level, what);
}

/* The format and the dims themselves: they may come from the same file as the arrays. */
static sparta_status head_check(sparta_ctx *cx, const sparta_packed *p)
{
    if ((unsigned)p->dtype >= SPARTA_DTYPES)
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: type %d is unknown", (int)p->dtype);
    sparta_status status = sparta_format_check(cx, &p->format, p->rank, p->dim);
    if (!status) return SPARTA_OK;
    char message[400];
    snprintf(message, sizeof message, "%s", sparta_message(cx));
    return sparta_fail(cx, SPARTA_E_FORMAT, "packed: %s", message);
}

/* The coordinates that `k` levels share: [positions][k], or the same as one row (as packages keep them). */
static sparta_status shared_check(sparta_ctx *cx, const sparta_tensor *t, sparta_dtype width, int level,
                                  int k)
{
    int64_t n = t->dim[0];
    bool flat = t->rank == 1 && n >= 0 && n % k == 0 && (n < 2 || t->stride[0] == 1);
    bool table = t->rank == 2 && n >= 0 && t->dim[1] == k && (n < 2 || t->stride[0] == k) &&
                 (!n || t->stride[1] == 1) && sparta_int_mul(n, k, &n);
    if (!flat && !table)
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: crd of level %d are no contiguous array of n by %d",
                           level, k);
    sparta_tensor all = {t->dtype, 1, {n}, {1}, t->data};
    return array_check(cx, &all, width, level, "crd");
}

static sparta_status arrays_check(sparta_ctx *cx, const sparta_packed *p, int l, int head, int shares)
{
    const sparta_level *level = &p->format.level[l];
    const sparta_level_info *info = &sparta_level_table[level->kind];
    SPARTA_TRY(info->has_pos ? array_check(cx, &p->pos[l], level->pos, l, "pos")
                             : no_array(cx, &p->pos[l], l, "pos"));
    if (info->crd_kind == SPARTA_CRD_NONE || head != l) return no_array(cx, &p->crd[l], l, "crd");
    if (info->crd_kind == SPARTA_CRD_BITS) return array_check(cx, &p->crd[l], SPARTA_U8, l, "bits");
    return shares > 1 ? shared_check(cx, &p->crd[l], level->crd, l, shares)
                      : array_check(cx, &p->crd[l], level->crd, l, "crd");
}

static sparta_status verify_level(sparta_ctx *cx, const sparta_packed *p, int l, int64_t parents,
                                  sparta_level_view *v)
{
    const sparta_level *level = &p->format.level[l];
    int head = l;
    while (p->format.level[head].properties & SPARTA_PROP_AOS) head--; /* level 0 is none: it was checked */
    int shares = sparta_level_shares(&p->format, head);
    SPARTA_TRY(arrays_check(cx, p, l, head, shares));
    *v = (sparta_level_view){.level = level,
                             .number = l,
                             .extent = sparta_level_extent(level, p->dim),
                             .origin = sparta_level_origin(level, p->dim),
                             .parents = parents,
                             .pos = &p->pos[l],
                             .crd = &p->crd[head],
                             .crd_n =
                                 p->crd[head].rank == 1 ? p->crd[head].dim[0] / shares : p->crd[head].dim[0],
                             .crd_step = shares,
                             .crd_first = l - head,
                             .seen_parent = -1};
    SPARTA_TRY(sparta_level_table[level->kind].ops->verify(cx, v));
    return sparta_check_cancel(cx);
}

static sparta_status verify(sparta_ctx *cx, const sparta_packed *p, sparta_level_view view[SPARTA_LEVELS])
{
    SPARTA_TRY(head_check(cx, p));
    int64_t size = 1;
    for (int l = 0; l < p->format.n; l++) {
        SPARTA_TRY(verify_level(cx, p, l, size, &view[l]));
        size = view[l].size;
    }
    SPARTA_TRY(array_check(cx, &p->values, p->dtype, -1, ""));
    if (p->values.dim[0] != size)
        return sparta_fail(cx, SPARTA_E_FORMAT, "packed: %lld values, the levels have %lld positions",
                           (long long)p->values.dim[0], (long long)size);
    return SPARTA_OK;
}

sparta_status sparta_packed_verify(sparta_ctx *cx, const sparta_packed *p)
{
    sparta_level_view view[SPARTA_LEVELS];
    return verify(cx, p, view);
}

/* ------------------------------------------------------------------ walk */

typedef struct walker walker;
struct walker {
    sparta_ctx *cx;
    const sparta_packed *p;
    const sparta_tensor *out;
    sparta_status (*visit)(walker *w, int64_t position); /* at w->index, which may lie in the padding */
    sparta_level_view view[SPARTA_LEVELS];
    int64_t index[SPARTA_RANK];
    int64_t diagonal; /* j-i or i+j, for the range below */
    int padding;      /* levels above us that are in a slot without an entry */
};

/* Both coordinates of a slot of a range. */
static void locate(walker *w, const sparta_level *range, const sparta_level *diagonal, int64_t c)
{
    bool first = range->dim == diagonal->dim; /* of `dim - other` */
    int64_t d = w->diagonal;
    w->index[range->dim] = c;
    w->index[first ? diagonal->other : diagonal->dim] = diagonal->map == SPARTA_MAP_ADD ? d - c
                                                        : first                         ? c - d
                                                                                        : c + d;
}

static void place(walker *w, int l, int64_t base, int64_t c)
{
    const sparta_level *level = w->view[l].level;
    int64_t scale = level->map == SPARTA_MAP_DIV    ? level->c
                    : level->map == SPARTA_MAP_NEST ? level->inner
                                                    : 1;
    if (level->kind == SPARTA_LEVEL_RANGE)
        locate(w, level, w->view[l - 1].level, c);
    else if (level->map == SPARTA_MAP_SUB || level->map == SPARTA_MAP_ADD)
        w->diagonal = c + w->view[l].origin;
    else
        w->index[level->dim] = base + c * scale;
}

/* Every position of level `l` below one of its parent's. Depth is the number of levels. */
static sparta_status walk(walker *w, int l, int64_t parent)
{
    sparta_level_view *v = &w->view[l];
    const sparta_level_ops *ops = sparta_level_table[v->level->kind].ops;
    int64_t base = w->index[v->level->dim], lo, hi;
    bool last = l + 1 == w->p->format.n;
    if (l == 1) SPARTA_TRY(sparta_check_cancel(w->cx));
    ops->segment(v, parent, &lo, &hi);
    for (int64_t q = lo; q < hi; q++) {
        int64_t c = ops->coordinate(v, parent, q);
        if (c < 0)
            return sparta_fail(w->cx, SPARTA_E_FORMAT,
                               "packed: level %d: the coordinate at %lld is out of range", l, (long long)q);
        bool padding = ops->padding && ops->padding(v, parent, q);
        place(w, l, base, c);
        w->padding += padding;
        SPARTA_TRY(last ? w->visit(w, q) : walk(w, l + 1, q));
        w->padding -= padding;
    }
    w->index[v->level->dim] = base;
    return SPARTA_OK;
}

static bool inside(const walker *w)
{
    if (w->padding) return false;
    for (int d = 0; d < w->p->rank; d++)
        if (w->index[d] < 0 || w->index[d] >= w->p->dim[d]) return false;
    return true;
}

static sparta_status visit_padding(walker *w, int64_t position)
{
    if (inside(w) || !sparta_element_present(w->p->dtype, w->p->values.data, position)) return SPARTA_OK;
    return sparta_fail(w->cx, SPARTA_E_FORMAT,
                       "packed: value %lld lies outside the tensor, in the padding, and is not 0",
                       (long long)position);
}

static int64_t target(const walker *w)
{
    int64_t at = 0;
    for (int d = 0; d < w->p->rank; d++) at += w->index[d] * w->out->stride[d];
    return at;
}

static sparta_status visit_copy(walker *w, int64_t position)
{
    if (!inside(w)) return SPARTA_OK;
    int64_t at = target(w), size = (int64_t)sparta_dtype_size(w->p->dtype);
    memcpy((char *)w->out->data + at * size, (const char *)w->p->values.data + position * size, (size_t)size);
    return SPARTA_OK;
}

/* Where an element may be stored more than once. */
static sparta_status visit_add(walker *w, int64_t position)
{
    if (!inside(w)) return SPARTA_OK;
    sparta_dtype dtype = w->p->dtype;
    int64_t at = target(w);
    const void *values = w->p->values.data;
    void *out = w->out->data;
    if (!sparta_element_present(dtype, out, at)) return visit_copy(w, position);
    if (sparta_dtype_is_float(dtype))
        sparta_element_set(dtype, out, at,
                           sparta_element_get(dtype, out, at) + sparta_element_get(dtype, values, position));
    else
        sparta_element_set_int(dtype, out, at,
                               (int64_t)((uint64_t)sparta_element_get_int(dtype, out, at) +
                                         (uint64_t)sparta_element_get_int(dtype, values, position)));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ unpack */

static bool padded(const sparta_packed *p)
{
    for (int l = 0; l < p->format.n; l++) {
        const sparta_level *level = &p->format.level[l];
        if (level->map == SPARTA_MAP_DIV && p->dim[level->dim] % level->c) return true;
        if (level->kind == SPARTA_LEVEL_RANGE || sparta_level_table[level->kind].ops->padding) return true;
    }
    return false;
}

static bool repeats(const sparta_format *f)
{
    for (int l = 0; l < f->n; l++)
        if (f->level[l].properties & (SPARTA_PROP_NONUNIQUE | SPARTA_PROP_NONORDERED)) return true;
    return false;
}

static void clear(const sparta_tensor *t)
{
    size_t size = sparta_dtype_size(t->dtype);
    if (sparta_tensor_contiguous(t)) {
        memset(t->data, 0, (size_t)sparta_tensor_elements(t) * size);
        return;
    }
    for (sparta_walk w = sparta_walk_begin(t->rank, t->dim, 1, &t); w.more; sparta_walk_next(&w))
        memset((char *)t->data + w.at[0] * (int64_t)size, 0, size);
}

static sparta_status target_check(sparta_ctx *cx, const sparta_packed *p, const sparta_tensor *out)
{
    if (out->dtype != p->dtype)
        return sparta_fail(cx, SPARTA_E_DTYPE, "unpack: into %s, the values are %s",
                           sparta_dtype_name(out->dtype), sparta_dtype_name(p->dtype));
    bool same = out->rank == p->rank;
    for (int d = 0; same && d < p->rank; d++) same = out->dim[d] == p->dim[d];
    if (!same)
        return sparta_fail(cx, SPARTA_E_SHAPE, "unpack: the target's shape is not that of the packed tensor");
    return SPARTA_OK;
}

sparta_status sparta_format_unpack(sparta_ctx *cx, const sparta_packed *p, const sparta_tensor *out)
{
    walker w = {.cx = cx, .p = p, .out = out, .visit = visit_padding};
    SPARTA_TRY(verify(cx, p, w.view));
    SPARTA_TRY(target_check(cx, p, out));
    int64_t elements = sparta_tensor_elements(out);
    /* A walk over nothing would still go through levels that a size of 0 further down allows to be huge. */
    bool any = p->values.dim[0] > 0;
    if (any && padded(p)) SPARTA_TRY(walk(&w, 0, 0));
    if (elements > 0) clear(out);
    w.visit = repeats(&p->format) ? visit_add : visit_copy;
    return any && elements > 0 ? walk(&w, 0, 0) : SPARTA_OK;
}
