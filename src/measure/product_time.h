/* How long one product takes with a random weight of a pattern, beside the fastest dense one; remembered in the tuning database under all that the
 * times depend on. For break-even and fit. One thread. */
#ifndef SP_MEASURE_PRODUCT_TIME_H
#define SP_MEASURE_PRODUCT_TIME_H

#include "measure/measure.h"

struct sp_tune_db;
typedef struct sp_product_timer {
    struct sp_tune_db *db;
    const char *target; /* NULL: the best */
    uint64_t code;      /* sp_break_even_code's */
} sp_product_timer;
typedef struct sp_product_time {
    int64_t n, k, tokens;
    const char *pattern; /* "4x1", "2:4" */
    double sparsity;
    double us, dense_us;
    char implement[48];
    bool measured; /* just now */
} sp_product_time;

/* The target and the database (path; NULL: beside the kernel cache), which is closed with sp_tune_close. */
sparta_status sp_product_timer_open(sparta_ctx *cx, const char *db, const char *target,
                                    sp_product_timer *out) SP_MUST;
/* Fills the times; E_UNSUPPORTED when no sparse row takes it. */
sparta_status sp_product_time_find(sparta_ctx *cx, const sp_product_timer *t, sp_product_time *p) SP_MUST;

#endif
