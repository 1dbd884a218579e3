/* packed: what calls with a packed weight on a GPU share, whatever packs it: a copy of a weight (rows, cols) in an i32 array that the caller keeps. */
#ifndef SP_SPARSE_PACKED_H
#define SP_SPARSE_PACKED_H

#include "cuda/cuda.h"
#include "sparse/sparse.h"

/* Messages go where a call wants them; there is none yet. */
sp_complaint sp_packed_complaint(const char *where, char *message, size_t size);

/* A weight to pack and its array, with so many words; `words` of them, on one GPU. */
typedef struct sp_packing {
    sparta_dtype dtype;
    int device;
    int64_t rows, cols, step; /* elements of a row lie side by side, rows `step` apart */
    const void *from;
    void *packed;
    sparta_launch launch;
} sp_packing;
/* In two steps, because what the array must be depends on what the first has read. */
sparta_status sp_packing_begin(const sp_complaint *c, const sparta_tensor *weight,
                               const sparta_tensor *packed, const sparta_launch *launch,
                               sp_packing *out) SP_MUST;
sparta_status sp_packing_read(const sp_complaint *c, const sparta_tensor *weight, const sparta_tensor *packed,
                              int64_t words, sp_packing *p) SP_MUST;

/* A product, as it was called. */
typedef struct sp_packed_call {
    const sparta_tensor *packed, *x, *out;
    int64_t rows, cols;
    const sparta_multiply_options *options;
    const sparta_launch *launch;
} sp_packed_call;
sparta_status sp_packed_begin(const sp_complaint *c, const sp_packed_call *call) SP_MUST;
/* As a job of room cuda whose values are the packed weight. There may be no tokens, and nothing to do. */
sparta_status sp_packed_read(const sp_complaint *c, const sp_packed_call *call, int64_t words,
                             sp_cuda_job *out) SP_MUST;
/* All of it for a packed 2:4 weight (half.c). */
sparta_status sp_half_read(const sp_complaint *c, const sp_packed_call *call, sp_cuda_job *out) SP_MUST;

#endif
