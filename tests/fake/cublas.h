/* What tests ask of the fake cuBLASLt (cublas.c), by dlsym in the library that SPARTA_CUBLAS names. */
#ifndef FAKE_CUBLAS_H
#define FAKE_CUBLAS_H

#include "device/cublas.h"

typedef struct fake_cublas_state {
    int handles, alive; /* descriptors, layouts and preferences that are not destroyed */
    int asked, products;
    uint32_t reductions; /* of the last preference */
    void *stream;
    /* Calls of `symbol` fail with `result` from now on; "": none. `none`: no algorithm is found; `no_bias`: none of those with a bias. */
    char symbol[64];
    int result;
    bool none, no_bias;
} fake_cublas_state;

fake_cublas_state *fake_cublas(void);

#endif
