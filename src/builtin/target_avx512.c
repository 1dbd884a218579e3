/* The quick kernels for AVX-512 (x86-64-v4). */
#include "builtin/quick.h"
#ifdef __AVX512F__
#define TABLE sp_quick_avx512
#include "builtin/kernel_table.h"
#else
const sp_quick_kernels sp_quick_avx512 = {.multiply = NULL};
#endif
