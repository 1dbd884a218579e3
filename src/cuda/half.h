/* Weights that keep at most 2 of 4 neighbours along the input (2:4), on sm_90a.
 *
 *     weight (rows, cols), masked --compress--> tiles (sp_half_bytes) --product--> y
 *
 * Tiles hold a copy: they are made again when the weight changes, which reads it once. half.cu draws them. A job of a product is as in cuda.h with `values` the
 * tiles; height, width, pos, crd and index are not looked at.
 */
#ifndef SP_CUDA_HALF_H
#define SP_CUDA_HALF_H

#include "cuda/cuda.h"

/* A weight on the device; elements from a row to the next are `step` apart. */
typedef struct sp_half_weight {
    int gpu;
    void *stream;
    sparta_dtype dtype;
    int64_t rows, cols, step;
    const void *from;
    const uint8_t *keep; /* (rows, cols), 0: gone; or NULL: zeros are */
    /* sp_half_bytes, 16-byte aligned. The last word of them gets 1 where four neighbours have more than two elements, of which the two largest were taken, else 0. */
    void *tiles;
} sp_half_weight;

/* Bytes of the tiles and the word after them; 0: there are none of such a matrix. */
size_t sp_half_bytes(int64_t rows, int64_t cols);
sparta_status sp_half_compress(const sp_complaint *c, const sp_half_weight *weight) SP_MUST;
/* Whether this GPU multiplies it: sm_90a, f16 and bf16, x and y that TMA can address. */
bool sp_half_takes(const sp_cuda_job *job, const sp_gpu *gpu);
sparta_status sp_half_multiply(const sp_complaint *c, const sp_cuda_job *job) SP_MUST;
/* The product as a row, which is not in cuda.def. */
extern const sp_cuda_row sp_cuda_half;

#endif
