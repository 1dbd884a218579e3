/* DLPack: tensors to and from other array libraries of the same process, without a copy (sparta_tensor_to_dlpack, sparta_tensor_from_dlpack).
 *
 *     sparta_tensor --to_dlpack--> sp_dl_versioned --> PyTorch, NumPy, JAX ..     its deleter says when they are done
 *     sparta_tensor <--from_dlpack-- sp_dl_tensor <-- theirs                      a view; they own the memory
 *
 * The structs are DLPack's binary interface, version 1.0: names are ours, the layout is not. Memory
 * of the CPU only. Whoever gives a struct may be wrong or hostile: every field is checked before the memory is
 * touched, as far as it can be; that the memory is there at all has to be believed. E_FORMAT for fields that cannot be, E_UNSUPPORTED for
 * other devices, types and more than SPARTA_RANK dimensions.
 */
#ifndef SP_TENSOR_DLPACK_H
#define SP_TENSOR_DLPACK_H

#include "tensor/tensor.h"

enum { SP_DL_CPU = 1, SP_DL_MAJOR = 1 };
enum { SP_DL_INT, SP_DL_UINT, SP_DL_FLOAT, SP_DL_BFLOAT = 4, SP_DL_BOOL = 6 };

typedef struct sp_dl_tensor { /* DLTensor */
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides count elements; NULL: row-major */
    uint64_t byte_offset;
} sp_dl_tensor;

typedef struct sp_dl_versioned { /* DLManagedTensorVersioned */
    struct {
        uint32_t major, minor;
    } version;
    void *manager;
    void (*deleter)(struct sp_dl_versioned *self);
    uint64_t flags;
    sp_dl_tensor tensor;
} sp_dl_versioned;

#endif
