/* What the files of the attribute share: groups of precision, and constants as bits with values. */
#ifndef SP_TESA_ATTRIBUTE_INSIDE_H
#define SP_TESA_ATTRIBUTE_INSIDE_H

#include "tesa/attribute.h"
#include "tesa/span.h"

/* Bits and a value for each: constants before they are an attribute's. */
typedef struct sp_constants {
    sp_span where;       /* where.rank 0: none */
    sparta_tensor value; /* (count) */
} sp_constants;

/* A view of an attribute's. */
sp_constants sp_constants_of(const sp_tesa *t);
void sp_constants_free(sparta_ctx *cx, sp_constants *c);
/* Ranks of bits: how many are before each word. Free with sp_free. */
sparta_status sp_constants_rank(sparta_ctx *cx, const sp_span *where, int64_t **before) SP_MUST;
/* The place of an index's value, -1 when it is no constant. */
int64_t sp_constants_place(const sp_span *where, const int64_t *before, const int64_t *index);

/* For each bit of `where` the value that `source` names: which of n constants, and the index there. False leaves
 * the constant out. */
typedef bool (*sp_constants_source)(const void *arg, const int64_t *index, int *which, int64_t *there);
sparta_status sp_constants_gather(sparta_ctx *cx, const sp_constants *from, int n, sp_span *where,
                                  sp_constants_source source, const void *arg,
                                  sp_constants *out) SP_MUST; /* takes `where` over */

/* Groups along an axis: how many there are. */
int64_t sp_groups_of(const sp_tesa_dim *dim, int64_t group);
/* How many groups altogether; false when too many. */
bool sp_groups_count(int rank, const sp_tesa_dim *dim, const int64_t *group, int64_t *out);
/* A map with these groups; the precision of each comes from `at` (asked at the first element of the group). */
typedef sp_precision (*sp_precision_source)(const void *arg, const int64_t *index);
sparta_status sp_precision_build(sparta_ctx *cx, sp_tesa *t, const int64_t *group, sp_precision_source at,
                                 const void *arg) SP_MUST;

sp_precision sp_precision_same(const void *tesa, const int64_t *index); /* a source: an attribute's own */

/* A dimension is 0. */
bool sp_tesa_empty(const sp_tesa *t);
/* Puts a new attribute, whose dims are checked, in normal form: takes has, constants and precision as they are. The
 * constants are taken over; on failure everything is freed. */
sparta_status sp_tesa_settle(sparta_ctx *cx, sp_tesa *t, sp_constants *c, sp_tesa *out) SP_MUST;
sparta_status sp_tesa_check_dims(sparta_ctx *cx, int rank, const sp_tesa_dim *dim) SP_MUST;
/* Extents of a set or of constants fit the dims. */
sparta_status sp_tesa_check_extent(sparta_ctx *cx, const sp_tesa *t, const int64_t *extent,
                                   const char *what) SP_MUST;

/* What a file keeps beside the text, instead of masks, values and precisions in it. */
typedef struct sp_tesa_arrays {
    const sparta_tensor *has,
        *constants;                 /* bits: u8 (rows, bytes a row), bit k of a row is bit k%8 of byte k/8 */
    const sparta_tensor *values;    /* (constants) */
    const sparta_tensor *precision; /* u8, a dim for each axis: places in the list of names in the text */
} sp_tesa_arrays;
/* The text; `arrays`: that of a file. */
void sp_tesa_print_as(const sp_tesa *t, bool arrays, sp_text *out);
sparta_status sp_tesa_parse_as(sparta_ctx *cx, const char *text, const sp_tesa_arrays *arrays,
                               sp_tesa *out) SP_MUST;
/* Which precisions occur, in the order of the table; how many. */
int sp_tesa_palette(const sp_tesa *t, sp_precision *palette);

#endif
