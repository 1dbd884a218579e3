/* A TensorProto by itself, as node tests have them in .pb files. */
#ifndef ONNX_TENSOR_H
#define ONNX_TENSOR_H

#include "import/onnx.h"
#include <string.h>

/* The tensor is a copy: sp_free(out->data). */
static inline sparta_status onnx_tensor(sparta_ctx *context, const void *data, size_t n, sparta_tensor *out)
{
    sp_arena *arena = sp_arena_create(context);
    SP_NEED(context, arena);
    sparta_tensor t, copy;
    sparta_status status = sp_onnx_read_tensor(context, NULL, arena, (sp_bytes){data, n}, &t, NULL);
    if (status == SPARTA_OK) status = sp_tensor_alloc(context, t.dtype, t.rank, t.dim, &copy);
    if (status == SPARTA_OK) {
        size_t size = (size_t)sparta_tensor_elements(&t) * sparta_dtype_size(t.dtype);
        if (size) memcpy(copy.data, t.data, size);
        *out = copy;
    }
    sp_arena_free(arena);
    return status;
}

#endif
