/* Opaque formats: storage that needs more than coordinate maps, each a row of opaque.def and one file.
 *
 * They join every test and every conversion: pack takes sorted entries, walk gives them back, and the rest (verify,
 * unpack, convert, files, statistics) follows. They have no generated kernel; templates are written for them.
 */
#ifndef SPARTA_FORMAT_OPAQUE_H
#define SPARTA_FORMAT_OPAQUE_H

#include "format/format.h"

#define SPARTA_OPAQUE_ARRAYS 4

/* What pack gets: the elements in row-major order, no coordinate twice. */
typedef struct sparta_entries {
    int64_t n;
    int rank;
    int64_t dim[SPARTA_RANK];
    const int64_t *index[SPARTA_RANK]; /* (n) each */
    const int64_t *source;             /* (n) element offset in values */
    sparta_dtype dtype;
    const void *values; /* NULL: a pattern */
} sparta_entries;

struct sparta_opaque {
    const char *name;
    int arguments;                           /* in ( ), at most; 0 where left out; checked by `check` */
    int most;                                /* that an argument may be */
    const char *usage;                       /* "quads(K): ..." for messages */
    const char *array[SPARTA_OPAQUE_ARRAYS]; /* names of its arrays, in crd[0..]; NULL ends */
    sparta_status (*check)(sparta_ctx *cx, const sparta_format *f, int rank, const int64_t *dim);
    /* store false: fill the statistics only. */
    sparta_status (*pack)(sparta_ctx *cx, const sparta_format *f, const sparta_entries *e, bool store,
                          sparta_packed *out, sparta_format_stats *stats);
    /* Arrays of the right types and lengths, coordinates in range: afterwards walk and kernels may follow them. */
    sparta_status (*verify)(sparta_ctx *cx, const sparta_packed *p);
    sparta_status (*walk)(sparta_ctx *cx, const sparta_packed *p, sparta_visit visit, void *arg);
};

#define SPARTA_OPAQUE(id) extern const sparta_opaque sparta_opaque_##id;
#include "format/opaque.def"
#undef SPARTA_OPAQUE
int sparta_opaque_count(void);
const sparta_opaque *sparta_opaque_row(int i);

#endif
