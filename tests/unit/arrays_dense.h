/* A matrix of entries as a row-major tensor, element by element; a pattern as bools. Free its data with sp_free. */
#ifndef SP_TESTS_ARRAYS_DENSE_H
#define SP_TESTS_ARRAYS_DENSE_H

#include "arrays/arrays.h"
#include <string.h>

static inline sparta_tensor dense_of(sparta_ctx *cx, const sp_coo *c)
{
    const bool pattern = !c->dense && !c->values.data;
    sparta_tensor t;
    assert_int_equal(sp_tensor_alloc(cx, pattern ? SPARTA_BOOL : c->values.dtype, c->rank, c->dim, &t),
                     SPARTA_OK);
    const size_t size = sparta_dtype_size(t.dtype);
    if (c->dense) assert_int_equal(sp_tensor_copy(cx, &c->values, &t), SPARTA_OK);
    for (int64_t i = 0; i < c->n && !c->dense; i++) {
        int64_t at = 0;
        for (int d = 0; d < c->rank; d++) at += c->index[d][i] * t.stride[d];
        if (pattern)
            ((uint8_t *)t.data)[at] = 1;
        else
            memcpy((char *)t.data + (size_t)at * size, (char *)c->values.data + (size_t)i * size, size);
    }
    return t;
}

#endif
