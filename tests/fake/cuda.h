/* What tests ask of the fake driver (cuda.c), by dlsym in the library that SPARTA_CUDA_DRIVER names. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "device/driver.h"

typedef struct fake_state {
    /* What is alive. */
    int allocations, modules, streams, graphs, runnables, events;
    int retained; /* contexts */
    int depth;    /* of the stack of contexts */
    int relaxed;  /* modules that were loaded while captures were relaxed */
    int launches;
    int shared_most; /* the last DYNAMIC_SHARED_MOST of a function */
    sp_driver_launch launch;
    sp_driver_attribute attribute[4];
    /* Of the last tensor map. */
    int map_type, map_swizzle;
    uint64_t map_size[2], map_stride;
    uint32_t map_box[2];
    /* After a launch with so many threads in a block time runs twice as fast, or the first word of what was filled last is 0; 0: after none. */
    unsigned quick, spoil;
    void *filled;
    /* Calls of `symbol` fail with `result` from now on; "": none. */
    char symbol[64];
    int result;
} fake_state;

fake_state *fake_cuda(void);

#endif
