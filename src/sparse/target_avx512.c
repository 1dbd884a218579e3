/* The kernels for AVX-512 (x86-64-v4). */
#include "sparse/kernels.h"
#ifdef __AVX512F__
#define TABLE sp_kernels_avx512
#include "sparse/kernel_table.h"
#else
const sp_kernels sp_kernels_avx512 = {.outside = NULL};
#endif
