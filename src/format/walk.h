/* The walker over one leaf (levels or opaque), for the files of this room that read storage more than once. */
#ifndef SPARTA_FORMAT_WALK_H
#define SPARTA_FORMAT_WALK_H

#include "format/entries.h"

typedef struct sparta_walker {
    sparta_ctx *cx;
    const sparta_packed *p;
    sparta_visit visit;
    void *arg;
    sparta_level_view view[SPARTA_LEVELS];
    bool may_be_empty[SPARTA_LEVELS];
    bool zero_absent, valued; /* zeros are absent elements; there are values at all */
    bool any;                 /* positions of the last level */
    int64_t index[SPARTA_RANK];
    int64_t diagonal; /* j-i or i+j, for the range below */
    int padding;      /* levels above us that are in a slot without an entry */
    int doubtful;     /* levels above us whose segment only a value can tell from an empty one */
} sparta_walker;

sparta_status sparta_walker_open(sparta_ctx *cx, const sparta_packed *leaf,
                                 sparta_walker *w) SPARTA_MUST; /* verifies */
sparta_status sparta_walker_run(sparta_walker *w, sparta_visit visit,
                                void *arg) SPARTA_MUST; /* visit NULL: checks only */

#endif
