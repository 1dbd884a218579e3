/* Opaque formats: storage that needs more than coordinate maps, each a row of opaque.def and one file.
 *
 * They join every test and every conversion: pack (store/opaque_*.c) takes sorted entries, walk gives them back, and the rest (verify,
 * unpack, convert, files, statistics) follows. They have no generated kernel; templates are written for them.
 */
#ifndef SP_FORMAT_OPAQUE_H
#define SP_FORMAT_OPAQUE_H

#include "format/format.h"

#define SP_OPAQUE_ARRAYS 4

struct sp_opaque {
    const char *name;
    int arguments;                       /* in ( ), at most; 0 where left out; checked by `check` */
    int most;                            /* that an argument may be */
    const char *usage;                   /* "quads(K): ..." for messages */
    const char *array[SP_OPAQUE_ARRAYS]; /* names of its arrays, in crd[0..]; NULL ends */
    sparta_status (*check)(sparta_ctx *cx, const sp_format *f, int rank, const int64_t *dim);
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
