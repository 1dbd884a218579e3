/* All kernels of a target, and its table TABLE. Included once by each target_*.c, which the Makefile gives the flags of the target. */
#include "sparse/kernels.h"
#if defined(__x86_64__) && defined(__AVX2__)
#include <immintrin.h>
#endif
#include "panel/abi.h"
#include "panel/vector.h"
#include "panel/epilogue.h"
#include "sparse/kernel_lines.h"
#include "sparse/kernel_product.h"
#include "sparse/kernel_sample.h"
#include "sparse/kernel_softmax.h"

/* Compilers make vectors of both. */
static bool outside(const int32_t *crd, int64_t n, int64_t right)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) most = (uint32_t)crd[i] > most ? (uint32_t)crd[i] : most;
    return n && most >= (uint64_t)right;
}

static int64_t falls(const int32_t *crd, int64_t n)
{
    int32_t count = 0; /* of 32 bits, as n */
    for (int64_t i = 1; i < n; i++) count += crd[i] <= crd[i - 1];
    return count;
}

const sp_kernels TABLE = {outside, falls,       pack,          unpack,  widen,    narrow,  multiply, turned,
                          finish,  sample_wide, sample_narrow, collect, put_back, softmax, gradient};
