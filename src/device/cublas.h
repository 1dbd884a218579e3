/* Dense products by cuBLASLt, opened when it is there (nvidia.h): libcublasLt.so.13 or .12, or the file that SPARTA_CUBLAS names. A libcublas will do as well: it brings the other.
 *
 * One handle for each GPU, kept. What it finds for a shape (the algorithm) is kept, too, so that a call launches and does nothing else; all memory is the caller's,
 * and calls may be captured into a CUDA graph.
 *
 * Of the ways to add up parts of a sum it may take those that leave the parts in f32 in the workspace and add them in a step of its own, in one order
 * (CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK is COMPUTE_TYPE): none that adds them in the result as they come, rounded. So results are the same bits in every run.
 */
#ifndef SP_DEVICE_CUBLAS_H
#define SP_DEVICE_CUBLAS_H

#include "device/cuda.h"

/* "" or why it cannot be used, with what to do. */
const char *sp_cublas_problem(void);

enum { SP_CUBLAS_ROOM = 32 << 20 }; /* bytes of workspace: what NVIDIA recommends for sm_90 */

/* Row-major: out (rows, cols) = A B + add + bias, with a sum of `depth`. A is (rows, depth), turned (depth, rows); B is (depth, cols), turned (cols, depth). Elements
 * of a line lie side by side, lines a step apart. Sums are f32. All sizes are at least 1 and at most INT32_MAX. */
typedef struct sp_dense {
    int64_t rows, cols, depth;
    bool a_turned, b_turned;
    sparta_dtype dtype, out_dtype; /* f16, bf16 or f32; out: the same, or f32 */
    bool tf32;                     /* f32 may be rounded to it */
    bool any_order;                /* parts may be added in any way that it knows */
    const void *a, *b;
    void *out;
    int64_t a_step, b_step, out_step;
    const void *bias; /* (cols), or NULL */
    const void *add;  /* (rows, cols) as out, or NULL */
    int64_t add_step;
    void *room; /* SP_CUBLAS_ROOM bytes, 256-byte aligned */
} sp_dense;
/* The GPU has been entered. E_UNSUPPORTED: there is no cuBLASLt, or it has no algorithm for this. */
sparta_status sp_cublas_multiply(const sp_complaint *c, const sp_gpu *gpu, const sp_dense *d,
                                 void *stream) SP_MUST;

/* ------------------------------------------------------------------ the inside, for tests' library too */
/* cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t */
typedef struct sp_cublas_algorithm {
    uint64_t opaque[8];
} sp_cublas_algorithm;
typedef struct sp_cublas_found {
    sp_cublas_algorithm algorithm;
    size_t room;
    int state;
    float waves;
    int reserved[4];
} sp_cublas_found;

#endif
