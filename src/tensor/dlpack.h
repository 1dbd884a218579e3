/* DLPack: tensors to and from other array libraries of the same process, without a copy.
 *
 *     sparta_tensor --to_dlpack--> sp_dl_versioned --> PyTorch, NumPy, JAX ..     its deleter says when they are done
 *     sparta_tensor <--from_dlpack-- sp_dl_tensor <-- theirs                      a view; they own the memory
 *
 * The structs are DLPack's binary interface (version 1.0 and the one before): names are ours, the layout is not. Memory
 * of the CPU only. Whoever gives a struct may be wrong or hostile: every field is checked before the memory is
 * touched, as far as it can be; that the memory is there at all has to be believed.
 */
#ifndef SP_TENSOR_DLPACK_H
#define SP_TENSOR_DLPACK_H

#include "tensor/tensor.h"

enum { SP_DL_CPU = 1 };
enum { SP_DL_INT, SP_DL_UINT, SP_DL_FLOAT, SP_DL_BFLOAT = 4, SP_DL_BOOL = 6 };
#define SP_DL_READ_ONLY UINT64_C(1)
#define SP_DL_COPIED    UINT64_C(2)
#define SP_DL_MAJOR     1
#define SP_DL_MINOR     0

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

typedef struct sp_dl_managed { /* DLManagedTensor, what was before 1.0 */
    sp_dl_tensor tensor;
    void *manager;
    void (*deleter)(struct sp_dl_managed *self);
} sp_dl_managed;

typedef struct sp_dl_versioned { /* DLManagedTensorVersioned */
    struct {
        uint32_t major, minor;
    } version;
    void *manager;
    void (*deleter)(struct sp_dl_versioned *self);
    uint64_t flags;
    sp_dl_tensor tensor;
} sp_dl_versioned;

typedef struct sp_dl_options {
    bool copy;               /* the struct owns a row-major copy; else it looks at the tensor's memory */
    bool read_only;          /* nobody may write there */
    void (*done)(void *arg); /* called by the deleter; NULL: nothing. Not called when the export fails */
    void *arg;
} sp_dl_options;

/* Free with p->deleter(p), on a thread that may use the context, which must still live. options NULL: a view.
 * Before 1.0 there was no way to say read-only: E_USAGE. */
sparta_status sp_tensor_to_dlpack(sparta_ctx *cx, const sparta_tensor *t, const sp_dl_options *options,
                                  sp_dl_versioned **out) SP_MUST;
sparta_status sp_tensor_to_dlpack_managed(sparta_ctx *cx, const sparta_tensor *t,
                                          const sp_dl_options *options, sp_dl_managed **out) SP_MUST;

/* A view, valid until the owner's deleter is called; calling it stays with the caller, when this fails too. E_FORMAT for
 * fields that cannot be, E_UNSUPPORTED for other devices, types, versions and more than SPARTA_RANK dimensions. */
sparta_status sp_tensor_from_dlpack(sparta_ctx *cx, const sp_dl_tensor *dl, sparta_tensor *out) SP_MUST;
/* The same; `write`: the view will be written to (E_USAGE when it is read-only). */
sparta_status sp_tensor_from_dlpack_versioned(sparta_ctx *cx, const sp_dl_versioned *dl, bool write,
                                              sparta_tensor *out) SP_MUST;

#endif
