/* Opaque formats: storage that needs more than coordinate maps, each a row of opaque.def and one file.
 *
 * They join every test and every conversion: pack takes sorted entries, walk gives them back, and the rest (verify,
 * unpack, convert, files, statistics) follows. They have no generated kernel; templates are written for them.
 */
#ifndef SP_FORMAT_OPAQUE_H
#define SP_FORMAT_OPAQUE_H

#include "format/format.h"

#define SP_OPAQUE_ARRAYS 4

/* What pack gets: the elements in row-major order, no coordinate twice. */
typedef struct sp_entries {
    int64_t n;
    int rank;
    int64_t dim[SPARTA_RANK];
    const int64_t *index[SPARTA_RANK]; /* (n) each */
    const int64_t *source;             /* (n) element offset in values */
    sparta_dtype dtype;
    const void *values; /* NULL: a pattern */
} sp_entries;

struct sp_opaque {
    const char *name;
    int arguments;                       /* in ( ), at most; 0 where left out; checked by `check` */
    int most;                            /* that an argument may be */
    const char *usage;                   /* "quads(K): ..." for messages */
    const char *array[SP_OPAQUE_ARRAYS]; /* names of its arrays, in crd[0..]; NULL ends */
    sparta_status (*check)(sparta_ctx *cx, const sp_format *f, int rank, const int64_t *dim);
    /* store false: fill the statistics only. */
    sparta_status (*pack)(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store, sp_packed *out,
                          sp_format_stats *stats);
    /* Arrays of the right types and lengths, coordinates in range: afterwards walk and kernels may follow them. */
    sparta_status (*verify)(sparta_ctx *cx, const sp_packed *p);
    sparta_status (*walk)(sparta_ctx *cx, const sp_packed *p, sp_visit visit, void *arg);
};

#define SP_OPAQUE(id) extern const sp_opaque sp_opaque_##id;
#include "format/opaque.def"
#undef SP_OPAQUE
int sp_opaque_count(void);
const sp_opaque *sp_opaque_row(int i);

#endif
