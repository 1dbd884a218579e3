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
 * its target in two passes over the lines: count, then (after a scan and the allocation of the exact arrays) fill.
 * Both passes run over ranges of rows, on as many threads as the pool has. A format of columns (csc) is the
 * same storage of the transposed matrix: "turned".
 *
 * Readers check what they read. Whatever is not as it should be (an entry twice, columns that fall, positions
 * out of range, padding that is not 0) makes them give up, and the generic path, which sorts, adds or explains,
 * does the work. Nothing here needs a message of its own. To measure a target is to stop before the fill
 * (convert_count.c). Fill never trusts what count saw: storage may be a
 * mapped file that somebody changes.
 */
#ifndef SPARTA_FORMAT_ROWS_H
#define SPARTA_FORMAT_ROWS_H

#include "format/level.h"
#include <stdatomic.h>

/* ------------------------------------------------------------------ layouts: which storage a format is */

typedef enum {
    SPARTA_ROWS_DENSE,
    SPARTA_ROWS_CSR,
    SPARTA_ROWS_COO,
    SPARTA_ROWS_DCSR,
    SPARTA_ROWS_BSR,
    SPARTA_ROWS_ELL,
    SPARTA_ROWS_BITMAP,
    SPARTA_ROWS_NM,
    SPARTA_ROWS_DIA,
    SPARTA_ROWS_HYB,
    SPARTA_ROWS_KINDS
} sparta_rows_kind;

typedef struct sparta_rows_layout {
    sparta_rows_kind kind;
    bool turned;    /* rows of the storage are columns of the matrix */
    int64_t a, b;   /* bsr: rows and columns of a block (of the storage) */
    int64_t sa, sb; /* bsr: strides of a row and a column within a block */
    int64_t w, m;   /* ell: width, 0 auto; nm: w of m */
    bool unordered; /* coo: rows in any order; bsr: the blocks of a row */
} sparta_rows_layout;
/* Is it one of those above? */
bool sparta_rows_layout_of(const sparta_format *f, sparta_rows_layout *out);

/* ------------------------------------------------------------------ lines */

typedef struct sparta_line {
    int64_t n;
    const int32_t *col; /* [n] ascending; may be the storage: see sparta_line_in */
    const char *value;  /* [n] of the source's size; NULL: a pattern */
} sparta_line;

/* Where a thread puts a line that does not lie ready. */
typedef struct sparta_scratch {
    int32_t *col;           /* [cols + slots of a row of ell] */
    char *value;            /* [cols], of the source's size */
    int32_t *slot, *listed; /* bsr: [blocks of a row] the place of each, or its last row; the list */
    uint8_t *marks;         /* bsr: [blocks of a row], all 0 between rows of blocks, as are the next two */
    uint64_t *bits, *words; /* bsr: a bit for each block; a bit for each word of bits */
} sparta_scratch;

typedef struct sparta_rows sparta_rows;
struct sparta_rows {
    const sparta_packed *p;
    sparta_rows_layout layout;
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
    bool (*read)(const sparta_rows *s, int64_t row, sparta_scratch *own, sparta_line *out);
    bool (*count)(const sparta_rows *s, int64_t row, int64_t *n); /* NULL: read */
};
/* Look at the source. `can` false: give up. Close it in every case. */
sparta_status sparta_rows_open(sparta_ctx *cx, const sparta_packed *p, sparta_pool *pool, bool *can,
                               sparta_rows *out) SPARTA_MUST;
void sparta_rows_close(sparta_ctx *cx, sparta_rows *s);
/* Entries of coo in any order: counted into rows, then sorted by column. `can` false: one is there twice. */
sparta_status sparta_rows_sort(sparta_ctx *cx, sparta_pool *pool, sparta_rows *s, bool *can) SPARTA_MUST;
/* Blocks of bsr in any order: `blocks` has them. `can` false: one is out of range. */
sparta_status sparta_rows_sort_blocks(sparta_ctx *cx, sparta_rows *s, bool *can) SPARTA_MUST;
/* Do the columns of the rows [r0, r1) ascend within each row, and are they in range? Theirs as they are stored (check), or
 * a copy. Lines of a flat source are not checked one by one: who reads them checks, a few thousand entries at a time
 * while they are in the cache anyway. */
bool sparta_rows_ascend(const sparta_rows *s, int64_t r0, int64_t r1, const int32_t *col);
bool sparta_rows_check(const sparta_rows *s, int64_t r0, int64_t r1);
/* Where such a range that begins with `row` ends: every row of it begins within so many entries of the first. */
enum { SPARTA_ROWS_SOME = 1 << 12 };
int64_t sparta_rows_some(const sparta_rows *s, int64_t row, int64_t end);
/* Before a column is used as a place: storage may change between check and use. */
static inline bool sparta_line_in(int32_t col, int64_t cols)
{
    return (uint32_t)col < (uint32_t)cols;
}

/* The elements of a row of n that are not all bits 0. The fill stops at `room` entries and writes nothing past
 * them; it returns how many there were. */
int64_t sparta_dense_count(const char *row, int64_t n, size_t size);
int64_t sparta_dense_fill(const char *row, int64_t n, size_t size, int64_t room, int32_t *col, char *value);
extern bool sparta_plain_only; /* tests: leave the vectors of the processor alone */

/* ------------------------------------------------------------------ threads */

/* Call work(arg, thread, lo, hi) for pieces of [0, n) on all threads of the pool (NULL: here); false: one of them
 * was, and the others may have been skipped. */
typedef bool (*sparta_piece)(void *arg, int thread, int64_t lo, int64_t hi);
bool sparta_pieces(sparta_pool *pool, int64_t n, sparta_piece work, void *arg);
int sparta_pieces_threads(sparta_pool *pool);

/* ------------------------------------------------------------------ jobs: one source, one target */

typedef struct sparta_job {
    sparta_ctx *cx;
    sparta_rows *from;
    const sparta_format *format;
    sparta_rows_layout layout; /* of the target */
    sparta_packed *out;
    bool valued;               /* the target has values */
    bool ones;                 /* they are all 1: of a pattern */
    const sparta_tensor *into; /* dense: write here, not into an array of our own */
    int64_t units;             /* rows, or rows of blocks */
    int64_t *count;            /* [units + 1] entries (blocks) of each; after the scan where each begins */
    int32_t *slot; /* dia: [rows + cols] the place of each diagonal; hyb: [parts][rows] entries of each row */
    int64_t wide;  /* ell: slots of a row; dcsr: rows that are there */
    bool measure;  /* no fill: arrays of `out` have their lengths and no data */
    int64_t elements, longest; /* measure: of the source; the most entries (blocks) of a unit */
    sparta_pool *pool;
    sparta_scratch *scratch; /* [threads] */
} sparta_job;

/* How a target is made: count (NULL: nothing to), plan, fill; count and fill are pieces of the units, with the job as
 * their argument. */
typedef struct sparta_writer {
    sparta_piece count;
    sparta_status (*plan)(sparta_job *job, bool *can);
    sparta_piece fill;
} sparta_writer;
extern const sparta_writer sparta_writer_dense, sparta_writer_csr, sparta_writer_coo, sparta_writer_dcsr,
    sparta_writer_bsr, sparta_writer_ell, sparta_writer_bitmap, sparta_writer_nm, sparta_writer_dia,
    sparta_writer_hyb;

/* Counts become starts; returns their sum. */
int64_t sparta_job_scan(sparta_job *job);
/* An array for fill; `clear`: fill writes only some of it. */
sparta_status sparta_job_array(sparta_job *job, sparta_dtype dtype, int64_t n, bool clear,
                               sparta_tensor *out) SPARTA_MUST;
/* An index of such an array, unless only its length is asked for. */
static inline void sparta_job_set(const sparta_tensor *t, int64_t i, int64_t value)
{
    if (t->data) sparta_index_set(t->dtype, t->data, i, value);
}
/* n columns as indices of another width, from place `at` on. */
void sparta_columns_put(sparta_dtype width, void *to, int64_t at, const int32_t *col, int64_t n);
/* The values of a line (or ones) to n neighbouring places. */
void sparta_values_put(const sparta_job *job, int64_t at, const sparta_line *line);

/* Sums of tables (convert_hyb.c): is it one, how many pairs of column part and row it has, its reader. */
bool sparta_hyb_is(const sparta_format *f);
int64_t sparta_hyb_directory(const sparta_format *f, int64_t rows);
sparta_status sparta_hyb_open(sparta_ctx *cx, sparta_rows *s, bool *can) SPARTA_MUST;
bool sparta_hyb_read(const sparta_rows *s, int64_t row, sparta_scratch *own, sparta_line *out);
/* The longest position of each part, once they were counted. */
void sparta_hyb_longest(const sparta_job *job, int64_t longest[SPARTA_PARTS]);

/* Rows of the source become columns of the target, which is csr of the transposed (convert_turn.c). */
sparta_status sparta_rows_turn(sparta_job *job, bool *can) SPARTA_MUST;

/* Statistics of a job that measured (convert_count.c), and the elements it counts for them: a piece of the source's rows. */
bool sparta_count_elements(void *arg, int thread, int64_t lo, int64_t hi);
sparta_status sparta_count_stats(const sparta_job *job, sparta_format_stats *stats) SPARTA_MUST;

/* The path from one format to another, for tests and documents: "rows", "turn", "turn, then rows", or "generic" where there is
 * none of ours. */
const char *sparta_convert_path(const sparta_format *from, const sparta_format *to);

/* Contiguous, of this type and length? */
static inline bool sparta_array_is(const sparta_tensor *t, sparta_dtype dtype, int64_t n)
{
    return t->rank == 1 && t->dim[0] == n && t->dtype == dtype && (n < 2 || t->stride[0] == 1) &&
           (!n || (t->data && (uintptr_t)t->data % sparta_dtype_size(dtype) == 0));
}

#endif
