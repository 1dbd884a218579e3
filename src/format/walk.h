/* The walker over one leaf (levels or opaque), for the files of this room that read storage more than once. */
#ifndef SP_FORMAT_WALK_H
#define SP_FORMAT_WALK_H

#include "format/entries.h"

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

#endif
