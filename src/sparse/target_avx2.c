/* The kernels for AVX2 (x86-64-v3). */
#include "sparse/kernels.h"
#ifdef __AVX2__
#define TABLE sp_kernels_avx2
#include "sparse/kernel_table.h"
#else
const sp_kernels sp_kernels_avx2 = {.outside = NULL};
#endif
