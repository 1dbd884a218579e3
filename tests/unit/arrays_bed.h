/* What the tests of matrices in files share: texts of Matrix Market read, and entries looked at. */
#ifndef SP_TESTS_ARRAYS_BED_H
#define SP_TESTS_ARRAYS_BED_H

#include "bed.h"
#include "arrays/arrays.h"

#define MM "%%MatrixMarket matrix "

HELPER sp_coo parse(const char *text)
{
    sp_coo c = {0};
    if (sp_mtx_parse(cx, text, strlen(text), &c)) fail_msg("%s: %s", text, sparta_message(cx));
    return c;
}

HELPER void entries(const sp_coo *c, int64_t n, const int64_t *rows, const int64_t *cols)
{
    assert_int_equal(c->n, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(c->index[0][i], rows[i]);
        assert_int_equal(c->index[1][i], cols[i]);
    }
}

/* A matrix of entries as a row-major tensor, element by element; a pattern as bools. Free its data with sp_free. */
HELPER sparta_tensor dense_of(const sp_coo *c)
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
