/* The way from entries to the packers of opaque formats. */
#include "store/entries.h"
#include <string.h>

static const struct {
    const sp_opaque *format;
    sp_opaque_packer *pack;
} packers[] = {
#define SP_OPAQUE(id) {&sp_opaque_##id, sp_opaque_pack_##id},
#include "format/opaque.def"
#undef SP_OPAQUE
};

/* One array for each dimension's indices and one for the sources. */
static sparta_status spread(sparta_ctx *cx, const sp_entry_list *e, int64_t *all, sp_entries *out)
{
    int64_t index[SPARTA_RANK];
    *out = (sp_entries){.n = e->n, .rank = e->rank, .dtype = e->dtype, .values = e->values};
    memcpy(out->dim, e->dim, sizeof out->dim);
    for (int d = 0; d < e->rank; d++) out->index[d] = all + (int64_t)d * e->n;
    out->source = all + (int64_t)e->rank * e->n;
    for (int64_t i = 0; i < e->n; i++) {
        sp_entries_index(e, e->entry[i].key, index);
        for (int d = 0; d < e->rank; d++) all[(int64_t)d * e->n + i] = index[d];
        all[(int64_t)e->rank * e->n + i] = e->entry[i].source;
    }
    return sp_check_cancel(cx);
}

static sp_opaque_packer *packer_of(const sp_opaque *o)
{
    size_t i = 0;
    while (packers[i].format != o) i++;
    return packers[i].pack;
}

sparta_status sp_opaque_assemble(sparta_ctx *cx, const sp_format *f, const sp_entry_list *e, bool store,
                                 sp_packed *out, sp_store_stats *stats)
{
    sp_entries entries;
    size_t each = (size_t)(e->rank + 1) * sizeof(int64_t);
    int64_t *all = sp_alloc_array(cx, (size_t)e->n, each);
    SP_NEED(cx, all);
    sparta_status status = spread(cx, e, all, &entries);
    if (!status) status = packer_of(f->opaque)(cx, f, &entries, store, out, stats);
    sp_free(cx, all);
    return status;
}
