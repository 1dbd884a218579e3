/* Unstructured weights for 1 to 64 tokens: a bit for each pair of neighbours along the input, and the pairs that are there.
 *
 *     weight (rows, cols), masked --pack--> records (sp_bits_bytes) --product--> y
 *
 * The sister of half.h: a copy that callers keep, and make again when the weight changes. bits.cu draws it. A job of a product is as in cuda.h with `values` the packed
 * weight, `bytes` how long that is; height, width, pos, crd and index are not looked at.
 *
 * How large the copy is depends on what is there, and nothing goes to the host. So callers say how many pairs there may be, which they know from the mask, and that
 * decides the bytes; a mask that stays is enough for every weight under it, and packing can be captured into a graph. Where more is there after all the last word says so.
 */
#ifndef SP_CUDA_BITS_H
#define SP_CUDA_BITS_H

#include "cuda/cuda.h"

/* A weight on the device; elements from a row to the next are `step` apart. */
typedef struct sp_bits_weight {
    int gpu;
    void *stream;
    sparta_dtype dtype;
    int64_t rows, cols, step;
    const void *from;
    /* 16-byte aligned; a multiple of 16 bytes, at least sp_bits_bytes of no pairs. The last word of them gets 1 where the records did not fit, else 0. */
    void *packed;
    int64_t bytes;
} sp_bits_weight;

/* Bytes that hold any weight with so many pairs (elements 2 j, 2 j + 1 of a row) of which one is not 0; 0: there is no packed form of such a matrix. */
size_t sp_bits_bytes(int64_t rows, int64_t cols, int64_t pairs);
sparta_status sp_bits_pack(const sp_complaint *c, const sp_bits_weight *weight) SP_MUST;
/* Takes f16 and bf16, 1 to 64 tokens (56 that do not begin on 16 bytes), sm_80 and newer. */
sparta_status sp_bits_multiply(const sp_complaint *c, const sp_cuda_job *job) SP_MUST;
/* Its choice of points; it is not in cuda.def. */
extern const sp_cuda_row sp_cuda_bits;

#endif
