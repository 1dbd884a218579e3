/* Measure what is there: the numbers that pack told before, read from the storage. (A zero that a mask asked for is no
 * element any more once it lies in a block.) */
#include "format/walk.h"
#include <string.h>

static sparta_status count(void *arg, const int64_t *index, const sparta_packed *part, int64_t position)
{
    (void)index, (void)part, (void)position;
    ++*(int64_t *)arg;
    return SPARTA_OK;
}

static size_t bytes_of(const sparta_tensor *t)
{
    return t->rank ? (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype) : 0;
}

/* Positions of the longest segment that have an entry. */
static int64_t longest_of(sparta_level_view *v, bool empty)
{
    const sparta_level_ops *ops = sparta_level_table[v->level->kind].ops;
    int64_t most = 0, lo, hi;
    if (ops->padding && empty) return 0;
    if (!sparta_level_table[v->level->kind].has_pos && !ops->padding) return v->parents ? v->width : 0;
    for (int64_t p = 0; v->size && p < v->parents; p++) {
        ops->segment(v, p, &lo, &hi);
        while (ops->padding && hi > lo && ops->padding(v, p, hi - 1)) hi--;
        most = SPARTA_MAX(most, hi - lo);
    }
    return most;
}

static sparta_status measure_levels(sparta_ctx *cx, const sparta_packed *p, sparta_format_stats *stats)
{
    sparta_walker w;
    SPARTA_TRY(sparta_walker_open(cx, p, &w));
    SPARTA_TRY(sparta_walker_run(&w, count, &stats->elements));
    for (int l = 0; l < p->format.n; l++) {
        stats->segments[l] = w.view[l].parents;
        stats->longest[l] = longest_of(&w.view[l], !stats->elements);
        stats->pos_bytes += bytes_of(&p->pos[l]);
        stats->crd_bytes += bytes_of(&p->crd[l]);
    }
    stats->slots = w.view[p->format.n - 1].size;
    stats->value_bytes = bytes_of(&p->values);
    return sparta_stats_finish(cx, stats);
}

static sparta_status measure_leaf(sparta_ctx *cx, const sparta_packed *p, sparta_format_stats *out)
{
    sparta_format_stats stats = {0};
    SPARTA_TRY(p->format.opaque ? sparta_format_measure_packed(cx, p, &p->format, &stats)
                                : measure_levels(cx, p, &stats));
    *out = stats;
    return SPARTA_OK;
}

sparta_status sparta_packed_measure(sparta_ctx *cx, const sparta_packed *p, sparta_format_stats *out)
{
    SPARTA_TRY(sparta_packed_head_check(cx, p));
    if (!p->format.sum) return measure_leaf(cx, p, out);
    sparta_format_stats all = {0}, part;
    int64_t largest = -1;
    for (int i = 0; i < p->parts; i++) {
        SPARTA_TRY(measure_leaf(cx, &p->part[i], &part));
        SPARTA_TRY(sparta_stats_add(cx, &all, &part, &largest));
    }
    SPARTA_TRY(sparta_stats_finish(cx, &all));
    *out = all;
    return SPARTA_OK;
}
