/* The table of quick kernels of one target, TABLE: included once by each target_*.c. */
#include "builtin/kernel_product.h"
#include "builtin/kernel_lines.h"

const sp_quick_kernels TABLE = {
    .multiply = multiply,
    .largest = largest,
    .smallest = smallest,
    .sum = sum,
    .squares = squares,
    .beyond = beyond,
    .scale = scale,
    .running_sum = running_sum,
    .running_sum_ints = running_sum_ints,
    .pick = pick,
    .mix = mix,
    .twice = twice,
    .both = both,
    .either = either,
    .differ = differ,
    .neither = neither,
    .magnitudes = magnitudes,
    .at_least = at_least,
    .thin = thin,
    .multiply_by = multiply_by,
    .join = {join_sum, join_largest},
    .slide = {slide_sum, slide_largest},
};
