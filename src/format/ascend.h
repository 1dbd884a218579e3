/* ascend: do indices ascend, and are they below a bound?
 *
 *      index   1 4 7 | 0 2 | 2 3        most 7, falls 2: where each bucket but the first begins; so each of the buckets ascends
 *
 * What falls elsewhere than where a bucket begins does not ascend; who it is, is asked one by one. */
#ifndef SP_FORMAT_ASCEND_H
#define SP_FORMAT_ASCEND_H

#include <stdint.h>

typedef struct sp_ascent {
    uint16_t most; /* the largest; 0: there is none */
    int64_t falls; /* how many are not above the one before them */
} sp_ascent;
sp_ascent sp_ascent_of(const uint16_t *index, int64_t n);

#endif
