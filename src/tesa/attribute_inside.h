/* What the files of the attribute share: groups of precision, and constants as bits with values. */
#ifndef SPARTA_TESA_ATTRIBUTE_INSIDE_H
#define SPARTA_TESA_ATTRIBUTE_INSIDE_H

#include "tesa/attribute.h"
#include "tesa/span.h"

/* Bits and a value for each: constants before they are an attribute's. */
typedef struct sparta_constants {
    sparta_span where;   /* where.rank 0: none */
    sparta_tensor value; /* (count) */
} sparta_constants;

/* A view of an attribute's. */
sparta_constants sparta_constants_of(const sparta_tesa *t);
void sparta_constants_free(sparta_ctx *cx, sparta_constants *c);
/* Ranks of bits: how many are before each word. Free with sparta_free. */
sparta_status sparta_constants_rank(sparta_ctx *cx, const sparta_span *where, int64_t **before) SPARTA_MUST;
/* The place of an index's value, -1 when it is no constant. */
int64_t sparta_constants_place(const sparta_span *where, const int64_t *before, const int64_t *index);

/* For each bit of `where` the value that `source` names: which of n constants, and the index there. False leaves
 * the constant out. */
typedef bool (*sparta_constants_source)(const void *arg, const int64_t *index, int *which, int64_t *there);
sparta_status sparta_constants_gather(sparta_ctx *cx, const sparta_constants *from, int n, sparta_span *where,
                                      sparta_constants_source source, const void *arg,
                                      sparta_constants *out) SPARTA_MUST; /* takes `where` over */

/* Groups along an axis: how many there are. */
int64_t sparta_groups_of(const sparta_tesa_dim *dim, int64_t group);
/* How many groups altogether; false when too many. */
bool sparta_groups_count(int rank, const sparta_tesa_dim *dim, const int64_t *group, int64_t *out);
/* A map with these groups; the precision of each comes from `at` (asked at the first element of the group). */
typedef sparta_precision (*sparta_precision_source)(const void *arg, const int64_t *index);
sparta_status sparta_precision_build(sparta_ctx *cx, sparta_tesa *t, const int64_t *group,
                                     sparta_precision_source at, const void *arg) SPARTA_MUST;

sparta_precision sparta_precision_same(const void *tesa,
                                       const int64_t *index); /* a source: an attribute's own */

/* A dimension is 0. */
bool sparta_tesa_empty(const sparta_tesa *t);
/* Puts a new attribute, whose dims are checked, in normal form: takes has, constants and precision as they are. The
 * constants are taken over; on failure everything is freed. */
sparta_status sparta_tesa_settle(sparta_ctx *cx, sparta_tesa *t, sparta_constants *c,
                                 sparta_tesa *out) SPARTA_MUST;
sparta_status sparta_tesa_check_dims(sparta_ctx *cx, int rank, const sparta_tesa_dim *dim) SPARTA_MUST;
/* Extents of a set or of constants fit the dims. */
sparta_status sparta_tesa_check_extent(sparta_ctx *cx, const sparta_tesa *t, const int64_t *extent,
                                       const char *what) SPARTA_MUST;

/* What a file keeps beside the text, instead of masks, values and precisions in it. */
typedef struct sparta_tesa_arrays {
    const sparta_tensor *has,
        *constants;                 /* bits: u8 (rows, bytes a row), bit k of a row is bit k%8 of byte k/8 */
    const sparta_tensor *values;    /* (constants) */
    const sparta_tensor *precision; /* u8, a dim for each axis: places in the list of names in the text */
} sparta_tesa_arrays;
/* The text; `arrays`: that of a file. */
void sparta_tesa_print_as(const sparta_tesa *t, bool arrays, sparta_text *out);
sparta_status sparta_tesa_parse_as(sparta_ctx *cx, const char *text, const sparta_tesa_arrays *arrays,
                                   sparta_tesa *out) SPARTA_MUST;
/* Which precisions occur, in the order of the table; how many. */
int sparta_tesa_palette(const sparta_tesa *t, sparta_precision *palette);

#endif
