/* cuBLAS, opened when it is there: the dense product that a sparse one is compared with. Nothing is linked.
 *
 * It is what SPARTA_CUBLAS names (a file), or libcublas.so.13 or .12: the one that this process has loaded, the one that the loader finds, or the one beside
 * the NVRTC that SPARTA_NVRTC names. */
#ifndef SP_MEASURE_CUBLAS_H
#define SP_MEASURE_CUBLAS_H

#include "device/cuda.h"

/* "" or why it cannot be used, with what to do. */
const char *sp_cublas_problem(void);

typedef struct sp_cublas {
    void *handle;
    void *room; /* its workspace: a captured call may not allocate */
} sp_cublas;
/* Of the GPU that has been entered; freed while it still is. `out` is {NULL} until then. */
sparta_status sp_cublas_create(const sp_complaint *c, sp_cublas *out) SP_MUST;
void sp_cublas_free(sp_cublas *b);

/* Row-major: out (rows, cols) = A B with a sum of `depth`; all three lie without gaps. A is (rows, depth), turned (depth, rows);
 * B is (depth, cols), turned (cols, depth). Sums are f32. */
typedef struct sp_dense {
    int64_t rows, cols, depth;
    bool a_turned, b_turned;
    sparta_dtype dtype;
    bool tf32;
    const void *a, *b;
    void *out;
} sp_dense;
sparta_status sp_cublas_multiply(const sp_complaint *c, const sp_cublas *b, const sp_dense *d,
                                 void *stream) SP_MUST;

#endif
