/* sparse: products with one sparse matrix, and its softmax, on arrays that are given with each call (ADR 8).
 *
 *        f ->                          S: rows of blocks of height x width       4x1, two rows of blocks:
 *      j0 |................|                                                      pos  0     2        5
 *      j1 |................| --->      out(i,f) += S(i,j1) x(j1,f)                crd  1  7  0  4  9
 *      j2 |................|                                                      val  ....  ....   (blocks, 4, 1)
 *
 * Of the free index f 64 lanes run at a time: a panel. Kernels read and write f32 in place where f is contiguous, whole groups of 16 and lines
 * that are close to each other or seldom read; everything else (the tokens of a linear layer, which are strided; other types) is brought into
 * the workspace a panel at a time, transposed if need be, and out of it. So a linear layer and attention are one kernel.
 *
 *   multiply    a register tile of 4 rows x 64 lanes runs along a row of blocks
 *   turned      4 rows of x stay in registers and are added into the result by column of the pattern: there is no transposed index
 *   sample      blocks whose width is a multiple of 16: lanes are columns, scalars are rows; others: lanes are f, summed up at the end
 *   softmax     the elements of a row are collected, worked on, and put back
 *
 * The kernels are one text (kernels.h) that is compiled once for each CPU target (target_*.c); which runs is asked of room device. f64 runs as
 * plain loops (plain.c). Nothing here allocates or knows a context; all that is kept from call to call is which target was chosen. Every index
 * is checked before anything is written.
 */
#ifndef SP_SPARSE_H
#define SP_SPARSE_H

#include "builtin/epilogue.h"
#include "tensor/tensor.h"

/* A batch of sparse matrices, checked. Blocks are counted through all patterns. */
typedef struct sp_blocks {
    int64_t rows, cols, height, width, batch, patterns;
    /* Rows and columns of blocks of one matrix; blocks of all. */
    int64_t down, right, blocks;
    const int32_t *pos, *crd;
    const uint8_t *keep;
    bool masked; /* keep is given; it has no data while the workspace is asked for, or without blocks */
    sparta_dtype dtype;
    void *values;
    /* Elements from the values of one matrix to those of the next; 0: it is one that all share, or each has blocks of its own. */
    int64_t each;
    int device; /* all arrays of a call are there */
    const int32_t *index;
} sp_blocks;

/* One of three dims: element (b,i,f) is at data[b * sb + i * si + f * sf]. Strides that lead nowhere are 0. */
typedef struct sp_cube {
    void *data;
    int64_t sb, si, sf;
} sp_cube;

/* What happens to the sums of a product. */
typedef struct sp_ending {
    sp_words words;
    const void *bias; /* one a row of the result */
    int64_t bias_step;
    sp_cube residual;
} sp_ending;

/* Everything about a call, checked: x and out of multiply, a and c of sample; the softmax has two more arrays of values. */
typedef struct sp_work {
    sp_blocks s;
    sparta_verb verb;
    sp_cube x, y;
    int64_t free; /* the size of f */
    sp_ending end;
    double scale;
    const void *gradient;
    void *out;
    /* Threads that share it, and memory. */
    int team;
    char *room;
} sp_work;

/* ------------------------------------------------------------------ checks (check.c) */
/* The struct, its sizes and types; of indices nothing yet. */
sparta_status sp_blocks_read(const sp_complaint *c, const sparta_blocks *given, sp_blocks *out) SP_MUST;
/* pos and crd. */
sparta_status sp_blocks_check(const sp_complaint *c, const sp_blocks *s) SP_MUST;
/* (batch, size, free) of the type of the values; `free` -1: any, which is set. A result has no stride of 0. */
sparta_status sp_cube_read(const sp_complaint *c, const sp_blocks *s, const sparta_tensor *t,
                           const char *name, int64_t size, int64_t *free, bool result, sp_cube *out) SP_MUST;
/* Like the values. */
sparta_status sp_values_read(const sp_complaint *c, const sparta_tensor *values, const sparta_tensor *t,
                             const char *name, void **out) SP_MUST;
sparta_status sp_ending_read(const sp_complaint *c, const sp_blocks *s,
                             const sparta_multiply_options *options, int64_t rows, int64_t *free,
                             sp_ending *out) SP_MUST;
/* A whole call, but for indices and workspace. */
sparta_status sp_product_read(const sp_complaint *c, const sparta_blocks *s, const sparta_tensor *x,
                              const sparta_tensor *out, const sparta_multiply_options *options,
                              sp_work *w) SP_MUST;
sparta_status sp_sample_read(const sp_complaint *c, const sparta_blocks *s, const sparta_tensor *a,
                             const sparta_tensor *other, double scale, sp_work *w) SP_MUST;
/* What the caller's header knows of it; `threads` is 1 to SP_TEAM. */
sparta_status sp_launch_read(const sp_complaint *c, const sparta_launch *launch, sparta_launch *out) SP_MUST;

/* ------------------------------------------------------------------ work */
static inline bool sp_is_product(sparta_verb verb)
{
    return verb == SPARTA_MULTIPLY || verb == SPARTA_MULTIPLY_TURNED;
}
enum { SP_TEAM = 64 }; /* threads that share a call at most */
/* A call of fewer multiply-adds is one thread's: to wake others takes longer than they save. Tests lower it. */
extern double sp_sparse_share_from;
/* fn(arg, i) for each i in [0, n). */
void sp_share(const sparta_launch *how, int n, void (*fn)(void *arg, int i), void *arg);

/* Of each kind: bytes of workspace, and the work. The plain loops are for f64. */
size_t sp_multiply_room(const sp_work *w);
void sp_multiply_run(const sp_work *w, const sparta_launch *how);
size_t sp_sample_room(const sp_work *w);
void sp_sample_run(const sp_work *w, const sparta_launch *how);
size_t sp_softmax_room(const sp_work *w);
void sp_softmax_run(const sp_work *w, const sparta_launch *how);
size_t sp_plain_room(const sp_work *w);
void sp_plain_run(const sp_work *w, const sparta_launch *how);

/* On a GPU (gpu.c): the same, but that it may fail. */
size_t sp_gpu_work_room(const sp_work *w, const sparta_launch *how);
sparta_status sp_gpu_work_run(const sp_complaint *c, const sp_work *w, const sparta_launch *how) SP_MUST;
/* The call as room cuda takes it; false: it takes no such batches or strides. */
struct sp_cuda_job;
bool sp_gpu_job(const sp_work *w, const sparta_launch *how, struct sp_cuda_job *out);

#endif
