/* Reading storage: its checks, and the walker over one leaf (levels or opaque). For the files of this room and of room store. */
#ifndef SP_FORMAT_WALK_H
#define SP_FORMAT_WALK_H

#include "format/level.h"
#include "format/opaque.h"

typedef struct sp_walker {
    sparta_ctx *cx;
    const sp_packed *p;
    sp_visit visit;
    void *arg;
    sp_level_view view[SP_LEVELS];
    bool may_be_empty[SP_LEVELS];
    bool zero_absent, valued; /* zeros are absent elements; there are values at all */
    bool any;                 /* positions of the last level */
    int64_t index[SPARTA_RANK];
    int64_t diagonal; /* j-i or i+j, for the range below */
    int padding;      /* levels above us that are in a slot without an entry */
    int doubtful;     /* levels above us whose segment only a value can tell from an empty one */
} sp_walker;

sparta_status sp_walker_open(sparta_ctx *cx, const sp_packed *leaf, sp_walker *w) SP_MUST; /* verifies */
sparta_status sp_walker_run(sp_walker *w, sp_visit visit, void *arg) SP_MUST; /* visit NULL: checks only */

/* The formats of the parts that a sum is stored in, in their order; a format that is no sum is its only one. Returns their number,
 * which may be above SP_PARTS: then the first SP_PARTS are written. */
/* How many pieces a part makes: colpart's columns, else one. */
int64_t sp_sum_pieces(const struct sp_sum_part *part);
int sp_sum_leaves(const sp_format *f, const sp_format *leaf[SP_PARTS]);

/* Storage of a leaf (levels or opaque), verified; `view` is filled for levels. */
sparta_status sp_leaf_verify(sparta_ctx *cx, const sp_packed *p, sp_level_view view[SP_LEVELS]) SP_MUST;
/* The parts of a sum, or the one there is. */
int sp_packed_leaves(const sp_packed *p);
const sp_packed *sp_packed_leaf(const sp_packed *p, int i);
/* A contiguous array of one dimension and this type, "counts" say; E_FORMAT when it is not. */
sparta_status sp_array_check(sparta_ctx *cx, const sparta_tensor *t, sparta_dtype dtype,
                             const char *what) SP_MUST;
/* The values of an opaque leaf: n of them, or none for a pattern that needs none. */
sparta_status sp_values_check(sparta_ctx *cx, const sp_packed *p, bool pattern_has_values, int64_t n) SP_MUST;

#endif
