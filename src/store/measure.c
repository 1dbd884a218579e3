/* Measure what is there: the numbers that pack told before, read from the storage. (A zero that a mask asked for is no
 * element any more once it lies in a block.) */
#include "store/entries.h"
#include <string.h>

static sparta_status count(void *arg, const int64_t *index, const sp_packed *part, int64_t position)
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
static int64_t longest_of(sp_level_view *v, bool empty)
{
    const sp_level_ops *ops = sp_level_table[v->level->kind].ops;
    int64_t most = 0, lo, hi;
    if (ops->padding && empty) return 0;
    if (!sp_level_table[v->level->kind].has_pos && !ops->padding) return v->parents ? v->width : 0;
    for (int64_t p = 0; v->size && p < v->parents; p++) {
        ops->segment(v, p, &lo, &hi);
        while (ops->padding && hi > lo && ops->padding(v, p, hi - 1)) hi--;
        most = SP_MAX(most, hi - lo);
    }
    return most;
}

static sparta_status measure_levels(sparta_ctx *cx, const sp_packed *p, sp_store_stats *stats)
{
    sp_walker w;
    SP_TRY(sp_walker_open(cx, p, &w));
    SP_TRY(sp_walker_run(&w, count, &stats->elements));
    for (int l = 0; l < p->format.n; l++) {
        stats->segments[l] = w.view[l].parents;
        stats->longest[l] = longest_of(&w.view[l], !stats->elements);
        stats->pos_bytes += bytes_of(&p->pos[l]);
        stats->crd_bytes += bytes_of(&p->crd[l]);
    }
    stats->slots = w.view[p->format.n - 1].size;
    stats->value_bytes = bytes_of(&p->values);
    return sp_stats_finish(cx, stats);
}

static sparta_status measure_leaf(sparta_ctx *cx, const sp_packed *p, sp_store_stats *out)
{
    sp_store_stats stats = {0};
    SP_TRY(p->format.opaque ? sp_store_measure_converted(cx, p, &p->format, &stats)
                            : measure_levels(cx, p, &stats));
    *out = stats;
    return SPARTA_OK;
}

sparta_status sp_store_measure_packed(sparta_ctx *cx, const sp_packed *p, sp_store_stats *out)
{
    SP_TRY(sp_packed_head_check(cx, p));
    if (!p->format.sum) return measure_leaf(cx, p, out);
    sp_store_stats all = {0}, part;
    int64_t largest = -1;
    for (int i = 0; i < p->parts; i++) {
        SP_TRY(measure_leaf(cx, &p->part[i], &part));
        SP_TRY(sp_stats_add(cx, &all, &part, &largest));
    }
    SP_TRY(sp_stats_finish(cx, &all));
    *out = all;
    return SPARTA_OK;
}
