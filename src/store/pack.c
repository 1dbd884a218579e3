/* Pack and measure: which way a source takes into a format.
 *
 *     dense tensor, mask --> a fast path, the blocks of pack_blocks.c, pack_quads.c, or entries and the assembler
 *     packed             --> convert.c
 */
#include "store/entries.h"
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ any format from entries */

sp_packed sp_packed_head(const sp_format *f, const sp_entry_list *e)
{
    sp_packed p = {.format = *f, .dtype = e->dtype, .pattern = !e->values, .rank = e->rank};
    memcpy(p.dim, e->dim, (size_t)e->rank * sizeof p.dim[0]);
    return p;
}

sparta_status sp_stats_finish(sparta_ctx *cx, sp_store_stats *stats)
{
    stats->fill = (double)stats->slots / (double)SP_MAX(stats->elements, 1);
    if (!sp_size_add(stats->pos_bytes, stats->crd_bytes, &stats->bytes) ||
        !sp_size_add(stats->bytes, stats->value_bytes, &stats->bytes))
        return sp_fail(cx, SPARTA_E_LIMIT, "format: the arrays are too large");
    return SPARTA_OK;
}

sparta_status sp_entries_assemble(sparta_ctx *cx, const sp_format *f, sp_entry_list *e, bool store,
                                  sp_packed *out, sp_store_stats *stats)
{
    SP_TRY(f->sum      ? sp_sum_assemble(cx, f, e, store, out, stats)
           : f->opaque ? sp_opaque_assemble(cx, f, e, store, out, stats)
                       : sp_levels_assemble(cx, f, e, store, out, stats));
    return sp_stats_finish(cx, stats);
}

/* ------------------------------------------------------------------ from a dense tensor */

sparta_status sp_pack_generic(sparta_ctx *cx, const sp_pack_job *job, sp_packed *out, sp_store_stats *stats)
{
    sp_entry_list e = {0};
    SP_TRY(sp_entries_of_tensor(cx, job->t, job->mask, &e));
    sparta_status status = sp_entries_assemble(cx, job->format, &e, job->store, out, stats);
    sp_entries_free(cx, &e);
    return status;
}

static sparta_status job_check(sparta_ctx *cx, const sp_pack_job *job)
{
    const sparta_tensor *t = job->t;
    const sp_mask *m = job->mask;
    SP_TRY(sp_format_check(cx, job->format, t->rank, t->dim));
    if ((unsigned)t->dtype >= SP_DTYPES)
        return sp_fail(cx, SPARTA_E_DTYPE, "pack: type %d is unknown", (int)t->dtype);
    if (!m || (t->rank == 2 && m->rows == t->dim[0] && m->cols == t->dim[1])) return SPARTA_OK;
    if (t->rank != 2)
        return sp_fail(cx, SPARTA_E_SHAPE, "pack: a mask goes with 2 dimensions, the tensor has %d", t->rank);
    return sp_fail(cx, SPARTA_E_SHAPE, "pack: the mask is %lldx%lld, the tensor %lldx%lld",
                   (long long)m->rows, (long long)m->cols, (long long)t->dim[0], (long long)t->dim[1]);
}

static sparta_status work_on(sparta_ctx *cx, const sp_pack_job *job, sp_packed *out, sp_store_stats *stats)
{
    SP_TRY(job_check(cx, job));
    const bool quads = sp_pack_quads_can(job->format, job->t);
    if (!quads && !sp_pack_blocks_can(job->format, job->t)) return sp_pack_generic(cx, job, out, stats);
    SP_TRY(quads ? sp_pack_quads(cx, job, out, stats) : sp_pack_blocks(cx, job, out, stats));
    return sp_stats_finish(cx, stats);
}

/* Without a mask the values say what is there. */
static sparta_status source_of(sparta_ctx *cx, const sp_mask *mask, const sparta_tensor **t,
                               sparta_tensor *own)
{
    own->data = NULL;
    return mask ? SPARTA_OK : sp_tensor_plain_zeros(cx, *t, own, t);
}

sparta_status sp_store_measure(sparta_ctx *cx, const sp_format *f, const sparta_tensor *t,
                               const sp_mask *mask, sp_store_stats *out)
{
    sp_packed none = {0};
    sp_store_stats stats = {0};
    sparta_tensor own;
    SP_TRY(source_of(cx, mask, &t, &own));
    sparta_status status = work_on(cx, &(sp_pack_job){f, t, mask, false}, &none, &stats);
    sp_free(cx, own.data);
    if (!status) *out = stats;
    return status;
}

static sparta_status pack(sparta_ctx *cx, const sp_format *f, const sparta_tensor *t, const sp_mask *mask,
                          sp_packed *out)
{
    const sp_pack_job job = {f, t, mask, true};
    sp_packed p = {.format = *f, .dtype = t->dtype, .rank = t->rank};
    sp_store_stats stats = {0};
    bool done = false;
    SP_TRY(job_check(cx, &job));
    SP_TRY(sp_pack_fast(cx, &job, NULL, &done, out));
    if (done) return SPARTA_OK;
    memcpy(p.dim, t->dim, (size_t)t->rank * sizeof p.dim[0]);
    sparta_status status = work_on(cx, &job, &p, &stats);
    if (status)
        sp_packed_free(cx, &p);
    else
        *out = p;
    return status;
}

sparta_status sp_store_pack(sparta_ctx *cx, const sp_format *f, const sparta_tensor *t, const sp_mask *mask,
                            sp_packed *out)
{
    sparta_tensor own;
    SP_TRY(source_of(cx, mask, &t, &own));
    sparta_status status = pack(cx, f, t, mask, out);
    sp_free(cx, own.data);
    return status;
}

/* ------------------------------------------------------------------ the limit */

static bool all_dense(const sp_format *f)
{
    if (f->opaque) return false;
    for (int i = 0; f->sum && i < f->sum->n; i++)
        if (!all_dense(&f->sum->part[i].format)) return false;
    for (int l = 0; l < f->n; l++)
        if (f->level[l].kind != SP_LEVEL_DENSE) return false;
    return true;
}

/* What stores less, and the numbers that say why. */
static const char *instead_of(const sp_format *f, const sp_store_stats *stats, char detail[96])
{
    const char *instead = "use smaller blocks, or compressed levels of single elements";
    if (f->sum) return "let fewer elements go to its padded parts";
    if (f->opaque) return "use compressed levels";
    for (int l = 0; l < f->n; l++) {
        if (f->level[l].kind == SP_LEVEL_RANGE)
            instead = "few of its diagonals are full: use compressed levels of i and j";
        if (f->level[l].kind == SP_LEVEL_RAGGED) instead = "use compressed in place of ragged";
        if (f->level[l].kind != SP_LEVEL_PACKED || l + 1 < f->n) continue;
        instead =
            "use compressed in place of packed, or a sum of packed levels with the long segments in its rest";
        snprintf(detail, 96, "; longest segment %lld, mean %.1f", (long long)stats->longest[l],
                 (double)stats->elements / (double)SP_MAX(stats->segments[l], 1));
    }
    return instead;
}

sparta_status sp_store_within(sparta_ctx *cx, const sp_format *f, const sp_store_stats *stats, double limit)
{
    char detail[96] = "";
    if (!(limit > 0)) limit = SP_STORE_LIMIT;
    if (stats->fill <= limit || all_dense(f)) return SPARTA_OK;
    const char *instead = instead_of(f, stats, detail);
    return sp_fail(cx, SPARTA_E_LIMIT,
                   "pack: the format would store %.1fx the nonzeros (limit %.1fx%s); %s, or raise the limit",
                   stats->fill, limit, detail, instead);
}
