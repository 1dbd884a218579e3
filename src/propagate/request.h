/* request.h: what request.c and heads.c share of a request, "LEFT=INDICES". */
#ifndef SPARTA_PROPAGATE_REQUEST_H
#define SPARTA_PROPAGATE_REQUEST_H

#include "propagate/facts.h"

typedef struct sparta_wish {
    sparta_graph *g;
    sparta_arena *arena; /* for as long as the request is looked at */
    const char *text;    /* the whole request */
    const char *left;    /* of the =, in the arena */
    const char *indices; /* right of it */
} sparta_wish;

/* gone[i] is 1 for each index of the list; `size` of them are there, of something that messages call `of`. */
sparta_status sparta_wish_indices(const sparta_wish *w, int64_t size, const char *of,
                                  uint8_t *gone) SPARTA_MUST;
/* Heads of every attention whose path has the words of `path`. */
sparta_status sparta_wish_heads(const sparta_wish *w, const char *path) SPARTA_MUST;

#endif
