/* Statistics by rows: a job that stopped before it wrote knows the length of every array, how many entries (or blocks) each row has,
 * and how many elements there are. What the levels have follows from the storage; the numbers are those of the generic assembler. */
#include "store/entries.h"
#include "store/convert.h"

/* Rows that the count of a target did not read are checked here. */
bool sp_count_elements(void *arg, int thread, int64_t lo, int64_t hi)
{
    sp_convert_job *job = arg;
    const sp_source *s = job->from;
    int64_t all = 0;
    if (s->flat) {
        if (!sp_source_check(s, lo, hi)) return false;
        all = s->start[hi] - s->start[lo];
    }
    for (int64_t row = lo; !s->flat && row < hi; row++) {
        sp_line line = {0};
        bool dense = s->storage.kind == SP_STORAGE_DENSE;
        if (!(dense ? s->count(s, row, &line.n) : s->read(s, row, &job->scratch[thread], &line)))
            return false;
        all += line.n;
    }
    job->elements += all;
    return true;
}

static void level(sp_store_stats *stats, int l, int64_t segments, int64_t longest)
{
    stats->segments[l] = segments;
    stats->longest[l] = segments ? longest : 0;
}

/* All of them dense, from level `l` on, below this many positions. */
static sparta_status dense_levels(const sp_convert_job *job, int l, int64_t parents, sp_store_stats *stats)
{
    const sp_format *f = job->format;
    for (; l < f->n; l++) {
        int64_t extent = sp_level_extent(&f->level[l], job->out->dim);
        level(stats, l, parents, extent);
        SP_TRY(sp_level_product(job->cx, l, parents, extent, &parents));
    }
    stats->slots = parents;
    return SPARTA_OK;
}

static size_t bytes_of(const sparta_tensor *t)
{
    return t->rank ? (size_t)t->dim[0] * sparta_dtype_size(t->dtype) : 0; /* the array was planned: it fits */
}

static void count_bytes(const sp_packed *p, sp_store_stats *stats)
{
    for (int l = 0; l < p->format.n; l++) {
        stats->pos_bytes += bytes_of(&p->pos[l]);
        stats->crd_bytes += bytes_of(&p->crd[l]);
    }
    stats->value_bytes = bytes_of(&p->values);
}

/* A sum of tables: (i:compressed, j:packed[w]) each. */
static sparta_status count_parts(const sp_convert_job *job, sp_store_stats *stats)
{
    int64_t longest[SP_PARTS], largest = -1;
    sp_hyb_longest(job, longest);
    for (int i = 0; i < job->out->parts; i++) {
        const sp_packed *p = &job->out->part[i];
        sp_store_stats part = {.slots = p->crd[1].dim[0]};
        count_bytes(p, &part);
        level(&part, 0, 1, p->crd[0].dim[0]);
        level(&part, 1, p->crd[0].dim[0], longest[i]);
        SP_TRY(sp_stats_add(job->cx, stats, &part, &largest));
    }
    return SPARTA_OK;
}

sparta_status sp_count_stats(const sp_convert_job *job, sp_store_stats *out)
{
    const sp_packed *p = job->out;
    int64_t n = p->crd[1].dim[0]; /* of most kinds, the positions of level 1 */
    sp_store_stats stats = {.slots = n};
    count_bytes(p, &stats);
    level(&stats, 0, 1, job->units);
    level(&stats, 1, job->units, job->longest);
    switch (job->storage.kind) {
    case SP_STORAGE_DENSE: SP_TRY(dense_levels(job, 0, 1, &stats)); break;
    case SP_STORAGE_BSR: SP_TRY(dense_levels(job, 2, n, &stats)); break;
    case SP_STORAGE_BITMAP: stats.slots = job->elements; break;
    case SP_STORAGE_COO: level(&stats, 0, 1, n), level(&stats, 1, n, 1); break;
    case SP_STORAGE_DCSR:
        level(&stats, 0, 1, p->crd[0].dim[0]), level(&stats, 1, p->crd[0].dim[0], job->longest);
        break;
    case SP_STORAGE_DIA:
        level(&stats, 0, 1, p->crd[0].dim[0]);
        SP_TRY(dense_levels(job, 1, p->crd[0].dim[0], &stats)); /* a range is as long */
        break;
    case SP_STORAGE_HYB: SP_TRY(count_parts(job, &stats)); break;
    default: break;
    }
    stats.elements = job->elements;
    if (job->storage.kind == SP_STORAGE_DENSE) /* nothing was planned */
        SP_TRY(sp_tensor_bytes(job->cx, p->dtype, 1, &stats.slots, &stats.value_bytes));
    SP_TRY(sp_stats_finish(job->cx, &stats));
    *out = stats;
    return SPARTA_OK;
}
