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
#ifndef SPARTA_FORMAT_ENTRIES_H
#define SPARTA_FORMAT_ENTRIES_H

#include "format/level.h"
#include "format/opaque.h"

typedef struct sparta_entry {
    int64_t key;    /* (index[0] * dim[1] + index[1]) * dim[2] + ... */
    int64_t source; /* element offset in values */
} sparta_entry;

typedef struct sparta_entry_list {
    int64_t n;
    sparta_entry *entry;
    int rank;
    int64_t dim[SPARTA_RANK];
    sparta_dtype dtype; /* a pattern's: BOOL */
    const void *values; /* NULL: a pattern */
    void *owned;        /* the values, where they were gathered; NULL: they are the source's */
} sparta_entry_list;

/* Elements of the mask, or those with any bit set. */
sparta_status sparta_entries_of_tensor(sparta_ctx *cx, const sparta_tensor *t, const sparta_mask *mask,
                                       sparta_entry_list *out) SPARTA_MUST;
/* Of any storage, which is verified first; elements that are there twice are added. */
sparta_status sparta_entries_of_packed(sparta_ctx *cx, const sparta_packed *p,
                                       sparta_entry_list *out) SPARTA_MUST;
void sparta_entries_free(sparta_ctx *cx, sparta_entry_list *e);
/* By key; entries of one key stay in their order. *entry may become another block. */
sparta_status sparta_entries_sort(sparta_ctx *cx, int64_t n, sparta_entry **entry) SPARTA_MUST;
void sparta_entries_index(const sparta_entry_list *e, int64_t key, int64_t index[SPARTA_RANK]);

/* Into a format of any kind: `out` has its head (sparta_packed_head) and gets its arrays when `store`; on failure the caller frees
 * what is in it. The list is used up: freed by the caller, but its entries are gone. */
sparta_packed sparta_packed_head(const sparta_format *f, const sparta_entry_list *e);
sparta_status sparta_entries_assemble(sparta_ctx *cx, const sparta_format *f, sparta_entry_list *e,
                                      bool store, sparta_packed *out, sparta_format_stats *stats) SPARTA_MUST;
sparta_status sparta_levels_assemble(sparta_ctx *cx, const sparta_format *f, sparta_entry_list *e, bool store,
                                     sparta_packed *out, sparta_format_stats *stats) SPARTA_MUST;
sparta_status sparta_sum_assemble(sparta_ctx *cx, const sparta_format *f, sparta_entry_list *e, bool store,
                                  sparta_packed *out, sparta_format_stats *stats) SPARTA_MUST;
sparta_status sparta_opaque_assemble(sparta_ctx *cx, const sparta_format *f, const sparta_entry_list *e,
                                     bool store, sparta_packed *out, sparta_format_stats *stats) SPARTA_MUST;
/* fill and bytes from the rest. */
sparta_status sparta_stats_finish(sparta_ctx *cx, sparta_format_stats *stats) SPARTA_MUST;

/* One part more; *largest: slots of the largest so far, -1 at first. */
sparta_status sparta_stats_add(sparta_ctx *cx, sparta_format_stats *all, const sparta_format_stats *part,
                               int64_t *largest) SPARTA_MUST;

/* The formats of the parts that a sum is stored in, in their order; a format that is no sum is its only one. Returns their number,
 * which may be above SPARTA_PARTS: then the first so many are written. */
int sparta_sum_leaves(const sparta_format *f, const sparta_format *leaf[SPARTA_PARTS]);

/* Storage of a leaf (levels or opaque), verified; `view` is filled for levels. */
sparta_status sparta_leaf_verify(sparta_ctx *cx, const sparta_packed *p,
                                 sparta_level_view view[SPARTA_LEVELS]) SPARTA_MUST;
/* Format, type and dims of any storage, the number of its parts, or which arrays its levels have and of which type: nothing of what is in
 * them. E_FORMAT. */
sparta_status sparta_packed_head_check(sparta_ctx *cx, const sparta_packed *p) SPARTA_MUST;
/* The parts of a sum, or the one there is. */
int sparta_packed_leaves(const sparta_packed *p);
const sparta_packed *sparta_packed_leaf(const sparta_packed *p, int i);
/* A contiguous array of one dimension and this type, "counts" say; E_FORMAT when it is not. */
sparta_status sparta_array_check(sparta_ctx *cx, const sparta_tensor *t, sparta_dtype dtype,
                                 const char *what) SPARTA_MUST;
/* The values of an opaque leaf: so many, or none for a pattern that needs none. */
sparta_status sparta_values_check(sparta_ctx *cx, const sparta_packed *p, bool pattern_has_values,
                                  int64_t n) SPARTA_MUST;

#endif
