/* The quick kernels for AVX2 (x86-64-v3). */
#include "builtin/quick.h"
#ifdef __AVX2__
#define TABLE sp_quick_avx2
#include "builtin/kernel_table.h"
#else
const sp_quick_kernels sp_quick_avx2 = {.multiply = NULL};
#endif
