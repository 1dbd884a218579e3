/* A trial: one product with a random block-sparse weight, on the host: what kernel bench puts on a GPU, and what it checks the answer with. */
#ifndef SP_MEASURE_TRIAL_H
#define SP_MEASURE_TRIAL_H

#include "measure/measure.h"

/* Matrices are row-major and lie without gaps. x is the operand of a product: (m, k), turned (m, n). Of a sample it is (m, n), and `other` (m, k). */
typedef struct sp_trial {
    const sp_gpu_bench_request *r;
    int64_t height, width, down, right, blocks;
    int64_t in, out;    /* features of x; of the result, or of `other` */
    int64_t nnz;        /* elements that exist */
    int32_t *pos, *crd; /* (down + 1), (blocks) */
    void *values;       /* (blocks, height, width) */
    void *x, *other;
} sp_trial;

/* Checks the request, and says the sizes that follow from it; then makes the arrays, in the arena. */
sparta_status sp_trial_plan(sparta_ctx *cx, const sp_gpu_bench_request *r, sp_trial *out) SP_MUST;
sparta_status sp_trial_make(sparta_ctx *cx, sp_arena *arena, sp_trial *p) SP_MUST;
/* Of the result: how many elements, and what element `at` is: its value in f64, and what it may differ by. */
int64_t sp_trial_elements(const sp_trial *p);
typedef struct sp_expected {
    double value, allowed;
} sp_expected;
sp_expected sp_trial_expect(const sp_trial *p, int64_t at);
/* n elements between -1 and 1. */
void sp_trial_fill(sparta_dtype dtype, uint64_t seed, void *data, int64_t n);

#endif
