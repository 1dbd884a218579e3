/* Walk: every element of packed storage and where its value lies. Positions and coordinates were verified, and are checked
 * again when they are used: a mapped file may change under us.
 *
 * What lies in a slot that nobody asked for (the rest of a block, padding of a segment) must be 0 and is no element.
 */
#include "format/walk.h"

static sparta_status nothing(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
{
    (void)arg, (void)index, (void)part, (void)position;
    return SPARTA_OK;
}

static bool inside(const sp_walker *w)
{
    for (int d = 0; d < w->p->rank; d++)
        if (w->index[d] < 0 || w->index[d] >= w->p->dim[d]) return false;
    return true;
}

/* At a position of the last level. */
static sparta_status arrive(sp_walker *w, int64_t position)
{
    const sparta_tensor *values = &w->p->values;
    bool zero = w->valued && !sp_element_stored(values->dtype, values->data, position);
    if (w->padding || !inside(w)) {
        if (zero || (w->padding && !w->valued)) return SPARTA_OK;
        return sp_fail(w->cx, SPARTA_E_FORMAT,
                       "packed: value %lld lies outside the tensor, in the padding, and is not 0",
                       (long long)position);
    }
    if (zero && (w->zero_absent || w->doubtful)) return SPARTA_OK;
    return w->visit(w->arg, w->index, w->p, position);
}

/* Both coordinates of a slot of a range. */
static void locate(sp_walker *w, const sp_level *range, const sp_level *diagonal, int64_t c)
{
    bool first = range->dim == diagonal->dim; /* of `dim - other` */
    int64_t d = w->diagonal;
    w->index[range->dim] = c;
    w->index[first ? diagonal->other : diagonal->dim] = diagonal->map == SP_MAP_ADD ? d - c
                                                        : first                     ? c - d
                                                                                    : c + d;
}

static void place(sp_walker *w, int l, int64_t base, int64_t c)
{
    const sp_level *level = w->view[l].level;
    int64_t scale = level->map == SP_MAP_DIV ? level->c : level->map == SP_MAP_NEST ? level->inner : 1;
    if (level->kind == SP_LEVEL_RANGE)
        locate(w, level, w->view[l - 1].level, c);
    else if (level->map == SP_MAP_SUB || level->map == SP_MAP_ADD)
        w->diagonal = c + w->view[l].origin;
    else
        w->index[level->dim] = base + c * scale;
}

/* Every position of level `l` below one of its parent's. Depth is the number of levels. */
static sparta_status descend(sp_walker *w, int l, int64_t parent)
{
    sp_level_view *v = &w->view[l];
    const sp_level_ops *ops = sp_level_table[v->level->kind].ops;
    int64_t base = w->index[v->level->dim], lo, hi;
    bool last = l + 1 == w->p->format.n;
    if (l == 1) SP_TRY(sp_check_cancel(w->cx));
    ops->segment(v, parent, &lo, &hi);
    for (int64_t q = lo; q < hi; q++) {
        int64_t c = ops->coordinate(v, parent, q);
        if (c < 0)
            return sp_fail(w->cx, SPARTA_E_FORMAT, "packed: level %d: the coordinate at %lld is out of range",
                           l, (long long)q);
        bool padding = ops->padding && ops->padding(v, parent, q);
        bool doubtful = w->may_be_empty[l] && ops->doubtful(v, parent, q);
        place(w, l, base, c);
        w->padding += padding;
        w->doubtful += doubtful;
        SP_TRY(last ? arrive(w, q) : descend(w, l + 1, q));
        w->padding -= padding;
        w->doubtful -= doubtful;
    }
    w->index[v->level->dim] = base;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ a leaf, then all of them */

sparta_status sp_walker_open(sparta_ctx *cx, const sp_packed *leaf, sp_walker *w)
{
    *w = (sp_walker){.cx = cx, .p = leaf};
    SP_TRY(sp_leaf_verify(cx, leaf, w->view));
    const sp_format *f = &leaf->format;
    if (f->opaque) return SPARTA_OK;
    w->zero_absent = sp_levels_zero_absent(f);
    w->valued = !leaf->pattern || sp_levels_pattern_has_values(f);
    w->any = w->view[f->n - 1].size > 0;
    for (int l = 0; l < f->n; l++) w->may_be_empty[l] = sp_level_may_be_empty(f, l);
    return SPARTA_OK;
}

sparta_status sp_walker_run(sp_walker *w, sp_visit visit, void *arg)
{
    w->visit = visit ? visit : nothing;
    w->arg = arg;
    if (w->p->format.opaque) return w->p->format.opaque->walk(w->cx, w->p, w->visit, arg);
    /* A walk over nothing would still go through levels that a size of 0 further down allows to be huge. */
    return w->any ? descend(w, 0, 0) : SPARTA_OK;
}

sparta_status sp_packed_walk(sparta_ctx *cx, const sp_packed *p, sp_visit visit, void *arg)
{
    sp_walker w;
    SP_TRY(sp_packed_head_check(cx, p));
    for (int i = 0; i < sp_packed_leaves(p); i++) {
        SP_TRY(sp_walker_open(cx, sp_packed_leaf(p, i), &w));
        SP_TRY(sp_walker_run(&w, visit, arg));
    }
    return SPARTA_OK;
}
