/* request.h: what request.c and heads.c share of a request, "LEFT=INDICES". */
#ifndef SP_PROPAGATE_REQUEST_H
#define SP_PROPAGATE_REQUEST_H

#include "propagate/facts.h"

typedef struct sp_wish {
    sp_graph *g;
    sp_arena *arena;     /* for as long as the request is looked at */
    const char *text;    /* the whole request */
    const char *left;    /* of the =, in the arena */
    const char *indices; /* right of it */
} sp_wish;

/* gone[i] is 1 for each index of the list; `size` of them are there, of something that messages call `of`. */
sparta_status sp_wish_indices(const sp_wish *w, int64_t size, const char *of, uint8_t *gone) SP_MUST;
/* Heads of every attention whose path has the words of `path`. */
sparta_status sp_wish_heads(const sp_wish *w, const char *path) SP_MUST;

#endif
