/* Every element of a source, as the assembler wants it: sorted by its row-major place, none twice.
 *
 *     dense tensor, mask ---\                                     /--> levels  (assemble.c)
 *     packed levels ---------\                                   /
 *     sum, part by part ------+-->  key, source  key, source .. +---> sum     (sum.c: one list a part)
 *     opaque ----------------/                                   \
 *                                                                 \--> opaque  (opaque_*.c)
 *
 * For the files of this room only. Memory: 16 bytes an element, and the values only where they come from several arrays
 * or were added.
 */
#ifndef SP_STORE_ENTRIES_H
#define SP_STORE_ENTRIES_H

#include "store/store_inside.h"

typedef struct sp_entry {
    int64_t key;    /* (index[0] * dim[1] + index[1]) * dim[2] + ... */
    int64_t source; /* element offset in values */
} sp_entry;

typedef struct sp_entry_list {
    int64_t n;
    sp_entry *entry;
    int rank;
    int64_t dim[SPARTA_RANK];
    sparta_dtype dtype; /* a pattern's: BOOL */
    const void *values; /* NULL: a pattern */
    void *owned;        /* the values, where they were gathered; NULL: they are the source's */
} sp_entry_list;

/* Elements of the mask, or those with any bit set. */
sparta_status sp_entries_of_tensor(sparta_ctx *cx, const sparta_tensor *t, const sp_mask *mask,
                                   sp_entry_list *out) SP_MUST;
/* Of any storage, which is verified first; elements that are there twice are added. */
sparta_status sp_entries_of_packed(sparta_ctx *cx, const sp_packed *p, sp_entry_list *out) SP_MUST;
void sp_entries_free(sparta_ctx *cx, sp_entry_list *e);
/* By key; entries of one key stay in their order. *entry may become another block. */
sparta_status sp_entries_sort(sparta_ctx *cx, int64_t n, sp_entry **entry) SP_MUST;
void sp_entries_index(const sp_entry_list *e, int64_t key, int64_t index[SPARTA_RANK]);

/* Into a format of any kind: `out` has its head (sp_packed_head) and gets its arrays when `store`; on failure the caller frees
 * what is in it. The list is used up: freed by the caller, but its entries are gone. */
sp_packed sp_packed_head(const sp_format *f, const sp_entry_list *e);
sparta_status sp_entries_assemble(sparta_ctx *cx, const sp_format *f, sp_entry_list *e, bool store,
                                  sp_packed *out, sp_store_stats *stats) SP_MUST;
sparta_status sp_levels_assemble(sparta_ctx *cx, const sp_format *f, sp_entry_list *e, bool store,
                                 sp_packed *out, sp_store_stats *stats) SP_MUST;
sparta_status sp_sum_assemble(sparta_ctx *cx, const sp_format *f, sp_entry_list *e, bool store,
                              sp_packed *out, sp_store_stats *stats) SP_MUST;
sparta_status sp_opaque_assemble(sparta_ctx *cx, const sp_format *f, const sp_entry_list *e, bool store,
                                 sp_packed *out, sp_store_stats *stats) SP_MUST;
/* fill and bytes from the rest. */
sparta_status sp_stats_finish(sparta_ctx *cx, sp_store_stats *stats) SP_MUST;

/* One part more; *largest: slots of the largest so far, -1 at first. */
sparta_status sp_stats_add(sparta_ctx *cx, sp_store_stats *all, const sp_store_stats *part,
                           int64_t *largest) SP_MUST;

#endif
