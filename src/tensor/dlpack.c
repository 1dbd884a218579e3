/* DLPack in and out: one block of memory for each export (the struct, shape, strides), nothing for an import. */
#include "tensor/dlpack.h"
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(sp_dl_tensor) == 48 && offsetof(sp_dl_tensor, ndim) == 16 &&
                   offsetof(sp_dl_tensor, dtype) == 20 && offsetof(sp_dl_tensor, shape) == 24 &&
                   offsetof(sp_dl_tensor, byte_offset) == 40,
               "DLTensor is an ABI");
_Static_assert(sizeof(sp_dl_versioned) == 80 && offsetof(sp_dl_versioned, flags) == 24 &&
                   offsetof(sp_dl_versioned, tensor) == 32,
               "DLManagedTensorVersioned is an ABI");

/* Code and bits of every type; 0 bits: it has none, as those narrower than a byte are packed in DLPack and not here. */
static const struct {
    uint8_t code, bits;
} types[SP_DTYPES] = {
    [SPARTA_F32] = {SP_DL_FLOAT, 32}, [SPARTA_F16] = {SP_DL_FLOAT, 16}, [SPARTA_BF16] = {SP_DL_BFLOAT, 16},
    [SPARTA_F64] = {SP_DL_FLOAT, 64}, [SPARTA_I8] = {SP_DL_INT, 8},     [SPARTA_U8] = {SP_DL_UINT, 8},
    [SPARTA_I16] = {SP_DL_INT, 16},   [SPARTA_U16] = {SP_DL_UINT, 16},  [SPARTA_I32] = {SP_DL_INT, 32},
    [SPARTA_U32] = {SP_DL_UINT, 32},  [SPARTA_I64] = {SP_DL_INT, 64},   [SPARTA_U64] = {SP_DL_UINT, 64},
    [SPARTA_BOOL] = {SP_DL_BOOL, 8}};

/* ------------------------------------------------------------------ out */

/* One allocation; the struct that is handed out is its first member. */
typedef struct {
    sp_dl_versioned dl;
    sparta_ctx *cx;
    int64_t shape[SPARTA_RANK], strides[SPARTA_RANK];
} export;

static void delete_export(sp_dl_versioned *self)
{
    if (self) sp_free(((export *)self->manager)->cx, self->manager);
}

sparta_status sparta_tensor_to_dlpack(sparta_ctx *cx, const sparta_tensor *t, void **out)
{
    SP_TRY(sp_tensor_on_cpu(cx, t, "dlpack", "tensor"));
    if (!types[t->dtype].bits)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "dlpack: %s has no form there; convert it to i8 or u8",
                       sparta_dtype_name(t->dtype));
    export *e = sp_zalloc(cx, sizeof *e);
    SP_NEED(cx, e);
    e->cx = cx;
    memcpy(e->shape, t->dim, (size_t)t->rank * sizeof *e->shape);
    memcpy(e->strides, t->stride, (size_t)t->rank * sizeof *e->strides);
    e->dl = (sp_dl_versioned){.version = {SP_DL_MAJOR, 0},
                              .manager = e,
                              .deleter = delete_export,
                              .tensor = {.data = sparta_tensor_elements(t) ? t->data : NULL,
                                         .device = {SP_DL_CPU, 0},
                                         .ndim = t->rank,
                                         .dtype = {types[t->dtype].code, types[t->dtype].bits, 1},
                                         .shape = e->shape,
                                         .strides = e->strides}};
    *out = &e->dl;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ in */

static sparta_status read_type(sparta_ctx *cx, const sp_dl_tensor *dl, sparta_dtype *out)
{
    for (int i = 0; dl->dtype.lanes == 1 && i < SP_DTYPES; i++)
        if (types[i].bits && types[i].code == dl->dtype.code && types[i].bits == dl->dtype.bits) {
            *out = (sparta_dtype)i;
            return SPARTA_OK;
        }
    return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                   "dlpack: type code %d of %d bits in %d lanes; convert it to one of ours, such as f32",
                   dl->dtype.code, dl->dtype.bits, dl->dtype.lanes);
}

/* Shape and strides, and how many elements the view reaches before and after its first one. */
static sparta_status read_shape(sparta_ctx *cx, const sp_dl_tensor *dl, sparta_tensor *t, int64_t reach[2])
{
    int64_t all = 1, last;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        t->dim[i] = dl->shape[i];
        empty |= !t->dim[i];
        if (t->dim[i] < 0)
            return sp_fail(cx, SPARTA_E_FORMAT, "dlpack: dimension %d is %lld", i, (long long)t->dim[i]);
    }
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = dl->strides ? dl->strides[i] : all;
        bool fits = sp_int_mul(all, SP_MAX(t->dim[i], 1), &all) &&
                    sp_int_mul(SP_MAX(t->dim[i] - 1, 0), t->stride[i], &last) &&
                    sp_int_add(reach[last > 0], last, &reach[last > 0]);
        if (!fits)
            return sp_fail(cx, SPARTA_E_FORMAT, "dlpack: dimension %d of %lld with stride %lld is too large",
                           i, (long long)t->dim[i], (long long)t->stride[i]);
    }
    if (empty) reach[0] = reach[1] = 0;
    return SPARTA_OK;
}

/* The first element's address, when all that the view reaches is inside the address space. */
static sparta_status read_address(sparta_ctx *cx, const sp_dl_tensor *dl, sparta_tensor *t,
                                  const int64_t reach[2])
{
    size_t size = sparta_dtype_size(t->dtype), at = (uintptr_t)dl->data, before, after;
    bool fits = dl->byte_offset <= SIZE_MAX && sp_size_add(at, (size_t)dl->byte_offset, &at) &&
                sp_size_mul((size_t)0 - (size_t)reach[0], size, &before) && before <= at &&
                sp_size_mul((size_t)reach[1] + 1, size, &after) && sp_size_add(at, after, &after);
    if (!fits || at % size)
        return sp_fail(cx, SPARTA_E_FORMAT, "dlpack: the data at offset %llu is %s; copy it",
                       (unsigned long long)dl->byte_offset,
                       fits ? "not aligned for its type" : "outside of the address space");
    t->data = (char *)dl->data + dl->byte_offset;
    return SPARTA_OK;
}

sparta_status sparta_tensor_from_dlpack(sparta_ctx *cx, const void *theirs, sparta_tensor *out)
{
    const sp_dl_tensor *dl = theirs;
    sparta_tensor t = {0};
    int64_t reach[2] = {0, 0};
    if (dl->device.type != SP_DL_CPU)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, SP_OFF_CPU, "dlpack", "tensor", dl->device.type);
    if (dl->ndim < 0 || dl->ndim > SPARTA_RANK)
        return sp_fail(cx, dl->ndim < 0 ? SPARTA_E_FORMAT : SPARTA_E_UNSUPPORTED,
                       "dlpack: %d dimensions; 0 to %d are possible", dl->ndim, SPARTA_RANK);
    if (dl->ndim && !dl->shape)
        return sp_fail(cx, SPARTA_E_FORMAT, "dlpack: %d dimensions without a shape", dl->ndim);
    t.rank = dl->ndim;
    SP_TRY(read_type(cx, dl, &t.dtype));
    SP_TRY(read_shape(cx, dl, &t, reach));
    int64_t all = sparta_tensor_elements(&t);
    if (all > 0 && !dl->data)
        return sp_fail(cx, SPARTA_E_FORMAT, "dlpack: %lld elements without data", (long long)all);
    if (all) SP_TRY(read_address(cx, dl, &t, reach));
    *out = t;
    return SPARTA_OK;
}
