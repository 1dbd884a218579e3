/* Conversion by rows: what the files convert_*.c share.
 *
 *     readers (convert_read.c)                                   writers (convert_write.c, convert_blocks.c)
 *
 *     dense csr coo dcsr bsr ell   -- the entries of one row -->   dense csr coo dcsr bsr ell
 *     bitmap nm dia hyb               (columns, values)            bitmap nm dia hyb
 *                                            |
 *                                            v
 *                                     turn (convert_turn.c): csc and whatever else is stored by columns
 *
 * A reader gives any row of a source as a line: ascending columns, no column twice, no padding. A writer makes
 * its target in two passes over the lines: count, then (after a scan and the allocation of the exact arrays) write.
 * Both passes run over ranges of rows, on as many threads as the pool has. A format of columns (csc) is the
 * same storage of the transposed matrix: "turned".
 *
 * Readers check what they read. Whatever is not as it should be (an entry twice, columns that fall, positions
 * out of range, padding that is not 0) makes them give up, and the generic path, which sorts, adds or explains,
 * does the work. Nothing here needs a message of its own. To measure a target is to stop before it writes
 * (convert_count.c). Write never trusts what count saw: storage may be a
 * mapped file that somebody changes.
 */
#ifndef SP_STORE_CONVERT_H
#define SP_STORE_CONVERT_H

#include "store/store_inside.h"
#include <stdatomic.h>

/* ------------------------------------------------------------------ storage: what a format is, as far as rows are concerned */

typedef enum {
    SP_STORAGE_DENSE,
    SP_STORAGE_CSR,
    SP_STORAGE_COO,
    SP_STORAGE_DCSR,
    SP_STORAGE_BSR,
    SP_STORAGE_ELL,
    SP_STORAGE_BITMAP,
    SP_STORAGE_NM,
    SP_STORAGE_DIA,
    SP_STORAGE_HYB,
    SP_STORAGE_KINDS
} sp_storage_kind;

typedef struct sp_storage {
    sp_storage_kind kind;
    bool turned;    /* rows of the storage are columns of the matrix */
    int64_t a, b;   /* bsr: rows and columns of a block (of the storage) */
    int64_t sa, sb; /* bsr: strides of a row and a column within a block */
    int64_t w, m;   /* ell: width, 0 auto; nm: w of m */
    bool unordered; /* coo: rows in any order; bsr: the blocks of a row */
} sp_storage;
/* Is it one of those above? */
bool sp_storage_of(const sp_format *f, sp_storage *out);

/* ------------------------------------------------------------------ lines */

typedef struct sp_line {
    int64_t n;
    const int32_t *col; /* [n] ascending; may be the storage: see sp_line_in */
    const char *value;  /* [n] of the source's size; NULL: a pattern */
} sp_line;

/* Where a thread puts a line that does not lie ready. */
typedef struct sp_scratch {
    int32_t *col;           /* [cols + slots of a row of ell] */
    char *value;            /* [cols], of the source's size */
    int32_t *slot, *listed; /* bsr: [blocks of a row] the place of each, or its last row; the list */
    uint8_t *marks;         /* bsr: [blocks of a row], all 0 between rows of blocks, as are the next two */
    uint64_t *bits, *words; /* bsr: a bit for each block; a bit for each word of bits */
} sp_scratch;

typedef struct sp_source sp_source;
struct sp_source {
    const sp_packed *p;
    sp_storage storage;
    int64_t rows, cols; /* of the storage: those of the matrix, swapped when it is turned */
    size_t size;        /* of a value */
    const char *values; /* NULL: a pattern whose elements the levels say */
    const void *crd;
    sparta_dtype crd_width;
    int64_t n;        /* positions of the last level with coordinates */
    int64_t *start;   /* [rows + 1] where each row begins; NULL: the reader needs none */
    int32_t *part;    /* hyb: [rows] the part of each row */
    int32_t *own_col; /* entries that had to be sorted (convert_sort.c), or NULL */
    char *own_value;
    int32_t *blocks; /* bsr in any order: [n] its blocks, ascending in each row of blocks; else NULL */
    bool flat;       /* lines of neighbouring rows lie one after the other, with columns of 32 bits */
    bool (*read)(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out);
    bool (*count)(const sp_source *s, int64_t row, int64_t *n); /* NULL: read */
};
/* Look at the source. `can` false: give up. Close it in every case. */
sparta_status sp_source_open(sparta_ctx *cx, const sp_packed *p, sp_pool *pool, bool *can,
                             sp_source *out) SP_MUST;
void sp_source_close(sparta_ctx *cx, sp_source *s);
/* Entries of coo in any order: counted into rows, then sorted by column. `can` false: one is there twice. */
sparta_status sp_source_sort(sparta_ctx *cx, sp_pool *pool, sp_source *s, bool *can) SP_MUST;
/* Blocks of bsr in any order: `blocks` has them. `can` false: one is out of range. */
sparta_status sp_source_sort_blocks(sparta_ctx *cx, sp_source *s, bool *can) SP_MUST;
/* Do the columns of the rows [r0, r1) ascend within each row, and are they in range? Theirs as they are stored (check), or
 * a copy. Lines of a flat source are not checked one by one: who reads them checks, a few thousand entries at a time
 * while they are in the cache anyway. */
bool sp_source_ascend(const sp_source *s, int64_t r0, int64_t r1, const int32_t *col);
bool sp_source_check(const sp_source *s, int64_t r0, int64_t r1);
/* Where such a range that begins with `row` ends: every row of it begins within this many entries of the first. */
enum { SP_SOURCE_SOME = 1 << 12 };
int64_t sp_source_some(const sp_source *s, int64_t row, int64_t end);
/* Before a column is used as a place: storage may change between check and use. */
static inline bool sp_line_in(int32_t col, int64_t cols)
{
    return (uint32_t)col < (uint32_t)cols;
}

/* The elements of a row of n that are not all bits 0. It stops at `room` entries and writes nothing past
 * them; it returns how many there were. */
int64_t sp_dense_count(const char *row, int64_t n, size_t size);
int64_t sp_dense_entries(const char *row, int64_t n, size_t size, int64_t room, int32_t *col, char *value);
extern bool sp_plain_only; /* tests: leave the vectors of the processor alone */

/* ------------------------------------------------------------------ threads */

/* Call work(arg, thread, lo, hi) for pieces of [0, n) on all threads of the pool (NULL: here); false: one of them
 * was, and the others may have been skipped. */
typedef bool (*sp_piece)(void *arg, int thread, int64_t lo, int64_t hi);
bool sp_pieces(sp_pool *pool, int64_t n, sp_piece work, void *arg);
int sp_pieces_threads(sp_pool *pool);

/* ------------------------------------------------------------------ jobs: one source, one target */

typedef struct sp_convert_job {
    sparta_ctx *cx;
    sp_source *from;
    const sp_format *format;
    sp_storage storage; /* of the target */
    sp_packed *out;
    bool valued;               /* the target has values */
    bool ones;                 /* they are all 1: of a pattern */
    const sparta_tensor *into; /* dense: write here, not into an array of our own */
    int64_t units;             /* rows, or rows of blocks */
    int64_t *count;            /* [units + 1] entries (blocks) of each; after the scan where each begins */
    int32_t *slot; /* dia: [rows + cols] the place of each diagonal; hyb: [parts][rows] entries of each row */
    int64_t wide;  /* ell: slots of a row; dcsr: rows that are there */
    bool measure;  /* nothing is written: arrays of `out` have their lengths and no data */
    int64_t elements, longest; /* measure: of the source; the most entries (blocks) of a unit */
    sp_pool *pool;
    sp_scratch *scratch; /* [threads] */
} sp_convert_job;

/* How a target is made: count (NULL: nothing to), plan, write; count and write are pieces of the units, with the job as their argument. */
typedef struct sp_writer {
    sp_piece count;
    sparta_status (*plan)(sp_convert_job *job, bool *can);
    sp_piece write;
} sp_writer;
extern const sp_writer sp_writer_dense, sp_writer_csr, sp_writer_coo, sp_writer_dcsr, sp_writer_bsr,
    sp_writer_ell, sp_writer_bitmap, sp_writer_nm, sp_writer_dia, sp_writer_hyb;

/* Counts become starts; returns their sum. */
int64_t sp_job_scan(sp_convert_job *job);
/* An array for write; `clear`: it writes only some of it. */
sparta_status sp_job_array(sp_convert_job *job, sparta_dtype dtype, int64_t n, bool clear,
                           sparta_tensor *out) SP_MUST;
/* An index of such an array, unless only its length is asked for. */
static inline void sp_job_set(const sparta_tensor *t, int64_t i, int64_t value)
{
    if (t->data) sp_index_set(t->dtype, t->data, i, value);
}
/* n columns as indices of another width, from place `at` on. */
void sp_columns_put(sparta_dtype width, void *to, int64_t at, const int32_t *col, int64_t n);
/* The values of a line (or ones) to n neighbouring places. */
void sp_values_put(const sp_convert_job *job, int64_t at, const sp_line *line);

/* Sums of tables (convert_hyb.c): is it one, how many pairs of column part and row it has, its reader. */
bool sp_hyb_is(const sp_format *f);
int64_t sp_hyb_directory(const sp_format *f, int64_t rows);
sparta_status sp_hyb_open(sparta_ctx *cx, sp_source *s, bool *can) SP_MUST;
bool sp_hyb_read(const sp_source *s, int64_t row, sp_scratch *own, sp_line *out);
/* The longest position of each part, once they were counted. */
void sp_hyb_longest(const sp_convert_job *job, int64_t longest[SP_PARTS]);

/* Rows of the source become columns of the target, which is csr of the transposed (convert_turn.c). */
sparta_status sp_convert_turn(sp_convert_job *job, bool *can) SP_MUST;

/* Statistics of a job that measured (convert_count.c), and the elements it counts for them: a piece of the source's rows. */
bool sp_count_elements(void *arg, int thread, int64_t lo, int64_t hi);
sparta_status sp_count_stats(const sp_convert_job *job, sp_store_stats *stats) SP_MUST;

/* Contiguous, of this type and length? */
static inline bool sp_array_is(const sparta_tensor *t, sparta_dtype dtype, int64_t n)
{
    return t->rank == 1 && t->dim[0] == n && t->dtype == dtype && (n < 2 || t->stride[0] == 1) &&
           (!n || (t->data && (uintptr_t)t->data % sparta_dtype_size(dtype) == 0));
}

#endif
