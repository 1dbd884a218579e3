/* What the files of this room share: one level while it is assembled, and the generic paths beside the fast ones. */
#ifndef SP_STORE_INSIDE_H
#define SP_STORE_INSIDE_H

#include "format/walk.h"
#include "store/store.h"

/* One level while it is assembled. Entries are the stored elements in level order: by the coordinate of level
 * 0, then 1, ...
 *
 *      at         position at the level above       0 0 0 2
 *      coord      coordinate at this level          1 1 3 0
 *      at, after  position at this level            0 0 1 2   compressed: one per distinct (at, coord)
 */
typedef struct sp_assembly {
    const sp_level *level;
    int number;           /* of the level */
    int64_t extent;       /* coordinates are below */
    int64_t origin;       /* crd holds coordinate + origin: negative for j-i, else 0 */
    int64_t n;            /* entries */
    const int64_t *coord; /* [n] */
    const bool *opens; /* [n] does the entry begin a position, where the level has one for each coordinate? */
    int64_t *at;       /* [n] in and out */
    int64_t parents;   /* positions of the level above */
    int64_t size;      /* out: positions of this level */
    int64_t longest;   /* out: most positions below one parent */
    size_t pos_bytes, crd_bytes; /* out: of the arrays of this level */
    bool store;                  /* false: count only, no arrays */
    sparta_tensor pos, crd;      /* out when store; freed by the caller, also after a failure */
    int64_t crowded;             /* out, -1: none; an entry of the segment that does not fit, on failure */
} sp_assembly;

/* One for each kind of level. */
typedef sparta_status sp_assembler(sparta_ctx *cx, sp_assembly *a);
#define SP_LEVEL(id, name, pos, crd, arguments, properties, begin, end, coordinate)                          \
    sp_assembler sp_assemble_##id;
#include "format/levels.def"
#undef SP_LEVEL

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

/* Into an opaque format; store false: fill the statistics only. One for each row of opaque.def, in opaque_<name>.c. */
typedef sparta_status sp_opaque_packer(sparta_ctx *cx, const sp_format *f, const sp_entries *e, bool store,
                                       sp_packed *out, sp_store_stats *stats);
#define SP_OPAQUE(id) sp_opaque_packer sp_opaque_pack_##id;
#include "format/opaque.def"
#undef SP_OPAQUE

/* ------------------------------------------------------------------ pack: the oracle, and the fast paths */

typedef struct sp_pack_job {
    const sp_format *format;
    const sparta_tensor *t;
    const sp_mask *mask; /* may be NULL */
    bool store;          /* false: statistics only */
} sp_pack_job;

/* Any format: sort the stored elements, one pass per level. `out` is filled when storing; on failure the
 * caller frees what is in it. */
sparta_status sp_pack_generic(sparta_ctx *cx, const sp_pack_job *job, sp_packed *out,
                              sp_store_stats *stats) SP_MUST;
/* Two dimensions, x/a dense, y/b dense or compressed, then dense remainders: csr, csc, bsr, strips, panels. */
bool sp_pack_blocks_can(const sp_format *f, const sparta_tensor *t);
sparta_status sp_pack_blocks(sparta_ctx *cx, const sp_pack_job *job, sp_packed *out,
                             sp_store_stats *stats) SP_MUST;
/* quads, with blocks of a multiple of 64 columns. */
bool sp_pack_quads_can(const sp_format *f, const sparta_tensor *t);
sparta_status sp_pack_quads(sparta_ctx *cx, const sp_pack_job *job, sp_packed *out,
                            sp_store_stats *stats) SP_MUST;

/* Any format from any other without fast paths: their oracle. */
sparta_status sp_convert_generic(sparta_ctx *cx, const sp_packed *from, const sp_format *to,
                                 sp_packed *out) SP_MUST;
sparta_status sp_measure_generic(sparta_ctx *cx, const sp_packed *from, const sp_format *to,
                                 sp_store_stats *out) SP_MUST;

/* Fast paths (convert_fast.c and convert_*.c). Each gives what the generic path gives, array for array, or leaves *done
 * false and everything else alone: then the generic path runs.
 *
 *   what they may rely on   formats, dims and types were checked, and which arrays the levels have: each contiguous,
 *                           aligned, of the type the format says; nothing of their lengths or of what is in them
 *   what they must do       a path that fits calls sp_packed_verify, or checks as it reads and refuses what verify
 *                           refuses (and values in the padding): storage is hostile. Nothing partial in `out` on failure
 *   *out                    whole: format, dtype, pattern, rank, dim, arrays from sp_tensor_alloc (absent: all 0)
 *
 * pool NULL: one thread. */
sparta_status sp_convert_fast(sparta_ctx *cx, const sp_packed *from, const sp_format *to, sp_pool *pool,
                              bool *done, sp_packed *out) SP_MUST;
/* What it would store, counted: the numbers of the generic path. */
sparta_status sp_measure_fast(sparta_ctx *cx, const sp_packed *from, const sp_format *to, bool *done,
                              sp_store_stats *stats) SP_MUST;
/* The same from a dense tensor of any strides and its mask; job->store is true. */
sparta_status sp_pack_fast(sparta_ctx *cx, const sp_pack_job *job, sp_pool *pool, bool *done,
                           sp_packed *out) SP_MUST;
/* Into a tensor of any strides, whose type and dims were checked; untouched on failure. */
sparta_status sp_unpack_fast(sparta_ctx *cx, const sp_packed *p, const sparta_tensor *out, sp_pool *pool,
                             bool *done) SP_MUST;

#endif
