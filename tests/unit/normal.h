/* Numbers that look like weights: mean 0, deviation 1, the same on every machine. */
#ifndef SP_TESTS_NORMAL_H
#define SP_TESTS_NORMAL_H

#include "base/base.h"

/* The sum of twelve uniforms has deviation 1 and is close to normal up to 3 deviations (it never passes 6).
 * Chosen over Box-Muller because it is exact integer arithmetic: log and cos differ in the last bit between
 * machines. The fourth draw fills the low bits, so that exact zeros do not occur in weights by accident. */
static inline double normal(sp_rng *r)
{
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t x = sp_rng_next(r);
        sum += (int64_t)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));
    }
    int64_t low = (int64_t)(sp_rng_next(r) >> 32); /* 2^-32 of a step of sum; + 1/2 keeps it off zero */
    return ((double)(sum - 12 * 65535 / 2) + ((double)(2 * low + 1) * 0x1p-33 - 0.5)) * 0x1p-16;
}

#endif
