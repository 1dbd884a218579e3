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

static sparta_status verify_level(sparta_ctx *cx, const sparta_packed *p, int l, int64_t parents,
                                  sparta_level_view *v)
{
    const sparta_level *level = &p->format.level[l];
    const sparta_level_info *info = &sparta_level_table[level->kind];
    if (info->has_pos)
        SPARTA_TRY(array_check(cx, &p->pos[l], level->pos, l, "pos"));
    else
        SPARTA_TRY(no_array(cx, &p->pos[l], l, "pos"));
    if (info->has_crd)
        SPARTA_TRY(array_check(cx, &p->crd[l], level->crd, l, "crd"));
    else
        SPARTA_TRY(no_array(cx, &p->crd[l], l, "crd"));
    *v =
        (sparta_level_view){level, l, sparta_level_extent(level, p->dim), parents, 0, &p->pos[l], &p->crd[l]};
    SPARTA_TRY(info->ops->verify(cx, v, &v->size));
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
};

/* Every position of level `l` below one of its parent's. Depth is the number of levels. */
static sparta_status walk(walker *w, int l, int64_t parent)
{
    const sparta_level_view *v = &w->view[l];
    const sparta_level_ops *ops = sparta_level_table[v->level->kind].ops;
    int64_t scale = v->level->map == SPARTA_MAP_DIV ? v->level->c : 1, *index = &w->index[v->level->dim],
            base = *index, lo, hi;
    bool last = l + 1 == w->p->format.n;
    if (l == 1) SPARTA_TRY(sparta_check_cancel(w->cx));
    ops->segment(v, parent, &lo, &hi);
    for (int64_t q = lo; q < hi; q++) {
        int64_t c = ops->coordinate(v, parent, q);
        if (c < 0)
            return sparta_fail(w->cx, SPARTA_E_FORMAT,
                               "packed: level %d: the coordinate at %lld is out of range", l, (long long)q);
        *index = base + c * scale;
        SPARTA_TRY(last ? w->visit(w, q) : walk(w, l + 1, q));
    }
    *index = base;
    return SPARTA_OK;
}

static bool inside(const walker *w)
{
    for (int d = 0; d < w->p->rank; d++)
        if (w->index[d] >= w->p->dim[d]) return false;
    return true;
}

static sparta_status visit_padding(walker *w, int64_t position)
{
    if (inside(w) || !sparta_element_present(w->p->dtype, w->p->values.data, position)) return SPARTA_OK;
    return sparta_fail(w->cx, SPARTA_E_FORMAT,
                       "packed: value %lld lies outside the tensor, in the padding, and is not 0",
                       (long long)position);
}

static sparta_status visit_copy(walker *w, int64_t position)
{
    if (!inside(w)) return SPARTA_OK;
    int64_t at = 0, size = (int64_t)sparta_dtype_size(w->p->dtype);
    for (int d = 0; d < w->p->rank; d++) at += w->index[d] * w->out->stride[d];
    memcpy((char *)w->out->data + at * size, (const char *)w->p->values.data + position * size, (size_t)size);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ unpack */

static bool padded(const sparta_packed *p)
{
    for (int l = 0; l < p->format.n; l++) {
        const sparta_level *level = &p->format.level[l];
        if (level->map != SPARTA_MAP_ALL && p->dim[level->dim] % level->c) return true;
    }
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
    w.visit = visit_copy;
    return any && elements > 0 ? walk(&w, 0, 0) : SPARTA_OK;
}
