/* What a GPU does at most, measured: the fastest dense product with large sides (cuBLASLt, where it is there), the fastest copy from memory to memory, and the clock of its multiprocessors
 * right after. */
#ifndef SP_MEASURE_GPU_PEAKS_H
#define SP_MEASURE_GPU_PEAKS_H

#include "device/cublas.h"

enum { SP_PEAK_CHUNK = 1 << 20 }; /* random elements that fill the operands */

typedef struct sp_peaks {
    const sp_complaint *c;
    const sp_gpu *gpu; /* has been entered */
    sp_dense large;    /* no rows: there is no cuBLASLt, and no product */
    void *from, *to;
    int n_held;
    void *held[6];
    /* The best so far: operations and bytes a second; MHz. 0: not known. */
    double flops, bandwidth, clock;
} sp_peaks;

/* `chunk`: SP_PEAK_CHUNK random elements of the type. What it holds is freed by sp_peaks_free, also after a failure. */
sparta_status sp_peaks_prepare(sp_peaks *p, sparta_dtype dtype, bool tf32, const void *chunk) SP_MUST;
/* So many bytes of the device, with the chunk again and again. */
sparta_status sp_peaks_fill(const sp_complaint *c, void *to, size_t bytes, sparta_dtype dtype,
                            const void *chunk) SP_MUST;
/* Once more; the best of all times stays. */
sparta_status sp_peaks_measure(sp_peaks *p) SP_MUST;
void sp_peaks_free(sp_peaks *p);

#endif
