/* store: the writing half of formats: elements into storage, storage into other storage, and what it takes.
 *
 *     dense tensor, mask --pack-->  sp_packed  --convert-->  sp_packed  --unpack-->  dense tensor
 *     sp_coo       --of_coo-->       |
 *                                    file (npz)
 *
 * Room format says what a format is, checks storage and walks over it: that is all a package needs to run. What makes storage is here,
 * right of the runtime. Movement never goes through a dense copy. One generic assembler, driven by the table of levels, serves every format,
 * and is the oracle that faster paths are tested against.
 *
 *     assemble.c assemblers.c sum.c opaque*.c   from sorted entries (entries.c) to storage, whatever the format
 *     pack*.c                                   dense tensors, with fast paths for blocks and quads
 *     convert*.c convert.h                      from one storage to another, row by row; measured without being stored
 *     unpack.c views.c                          back to tensors and entries; entries and tensors as storage
 *     file.c names_file.c                       .npz of packed tensors, files of formats
 */
#ifndef SP_STORE_H
#define SP_STORE_H

#include "arrays/arrays.h"
#include "format/format.h"
#include "tesa/tesa.h"

/* A file of names: lines "format NAME = TEXT", with comments from '#' to the end of the line; lines that begin with a blank go on with the one
 * above. All names of a file are defined, or, on failure, none. */
sparta_status sp_store_define_file(sparta_ctx *cx, const char *path) SP_MUST;

/* ------------------------------------------------------------------ pack, unpack, convert */

typedef struct sp_store_stats {
    int64_t elements;                         /* that the mask has (no mask: non-zero) */
    int64_t slots;                            /* values stored */
    size_t bytes;                             /* of all arrays */
    double fill;                              /* slots / max(elements, 1) */
    size_t pos_bytes, crd_bytes, value_bytes; /* what bytes is made of; bits count as crd */
    int64_t longest[SP_LEVELS];               /* positions in the longest segment of each level */
    int64_t segments[SP_LEVELS];              /* of each level: positions of the one above */
    int parts; /* of a sum; longest and segments are then those of the largest part */
} sp_store_stats;

/* Known before anything is allocated. */
sparta_status sp_store_measure(sparta_ctx *cx, const sp_format *f, const sparta_tensor *t,
                               const sp_mask *mask, sp_store_stats *out) SP_MUST;
#define SP_STORE_LIMIT 4.0
/* E_LIMIT, with the numbers and what to use instead, when the fill is above the limit (0: the default). Formats
 * of dense levels only are exempt. Pack does not ask by itself: its caller may have reasons. */
sparta_status sp_store_within(sparta_ctx *cx, const sp_format *f, const sp_store_stats *stats,
                              double limit) SP_MUST;
/* mask may be NULL; for 2-D tensors only (the mask's rows, cols are the tensor's). Free with sp_packed_free. */
sparta_status sp_store_pack(sparta_ctx *cx, const sp_format *f, const sparta_tensor *t, const sp_mask *mask,
                            sp_packed *out) SP_MUST;
/* Into a tensor of the right dtype and dims (any strides); absent elements become 0. Storage may be hostile:
 * every position and coordinate is checked (E_FORMAT), and padding must be 0. On failure the output is
 * untouched (unless somebody changed the storage meanwhile). */
sparta_status sp_store_unpack(sparta_ctx *cx, const sp_packed *p, const sparta_tensor *out) SP_MUST;

/* Of what is there: the same numbers that measure told before. */
sparta_status sp_store_measure_packed(sparta_ctx *cx, const sp_packed *p, sp_store_stats *out) SP_MUST;

/* Views, without a copy: entries as coo with i64 coordinates (canonical ones), a contiguous tensor as dense levels. Valid as long
 * as what they look at; not to be freed. */
sp_packed sp_store_of_coo(const sp_coo *c, int64_t pos[2]);
sp_packed sp_store_of_dense(const sparta_tensor *t);

/* The same elements in another format; both storages of what was asked live in the budget, a dense copy never does. `from` is
 * verified as it is read. pool NULL: one thread. Fast paths (convert_*.c) give what the generic one gives, array for
 * array. */
sparta_status sp_store_convert(sparta_ctx *cx, const sp_packed *from, const sp_format *to, sp_pool *pool,
                               sp_packed *out) SP_MUST;
/* What convert would store. */
sparta_status sp_store_measure_converted(sparta_ctx *cx, const sp_packed *from, const sp_format *to,
                                         sp_store_stats *out) SP_MUST;
/* Entries in row-major order, no coordinate twice. Free with sp_coo_free. */
sparta_status sp_store_to_coo(sparta_ctx *cx, const sp_packed *p, sp_coo *out) SP_MUST;

/* ------------------------------------------------------------------ files: npz that NumPy opens (file.c; docs/files.md)
 * format, shape, sparta (the mark), then p{part}_l{level}_pos, _crd or _bits, and p{part}_values. */
typedef struct sp_store_file {
    sp_packed packed;
    sp_npz npz; /* owns the arrays */
} sp_store_file;
sparta_status sp_store_write(sparta_ctx *cx, const char *path, const sp_packed *p) SP_MUST;
bool sp_store_is_packed(const sp_npz *z);
/* Verified. */
sparta_status sp_store_read(sparta_ctx *cx, const char *path, sp_store_file *out) SP_MUST;
void sp_store_file_free(sparta_ctx *cx, sp_store_file *f);
/* given.c: arrays of somebody else, verified; their values stay where they are (out->values.data is none of the packed tensor's
 * to free). */
sparta_status sp_store_arrays(sparta_ctx *cx, const sparta_arrays *given, sp_packed *out) SP_MUST;

#endif
