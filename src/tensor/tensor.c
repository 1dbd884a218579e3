/* Strided views: sizes, allocation, broadcasting, cursors. Copying is in copy.c. */
#include "tensor/tensor.h"
#include <string.h>

sparta_tensor sparta_tensor_view(sparta_dtype dtype, int rank, const int64_t *dim, void *data)
{
    sparta_tensor t = {.dtype = dtype, .rank = SP_MAX(0, SP_MIN(rank, SPARTA_RANK)), .data = data};
    uint64_t stride = 1; /* unsigned: what does not fit is for sp_tensor_bytes to refuse */
    for (int i = t.rank - 1; i >= 0; i--) {
        t.dim[i] = dim[i];
        t.stride[i] = (int64_t)stride;
        stride *= (uint64_t)dim[i];
    }
    return t;
}

static bool any_zero(int rank, const int64_t *dim)
{
    for (int i = 0; i < rank; i++)
        if (dim[i] == 0) return true;
    return false;
}

int64_t sparta_tensor_elements(const sparta_tensor *t)
{
    int64_t n = 1;
    if (t->rank < 0 || t->rank > SPARTA_RANK) return -1;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 0) return -1;
    if (any_zero(t->rank, t->dim)) return 0;
    for (int i = 0; i < t->rank; i++)
        if (!sp_int_mul(n, t->dim[i], &n)) return -1;
    return n;
}

sparta_tensor sp_tensor_placed(const sparta_tensor *t)
{
    static _Alignas(64) char nowhere[64];
    sparta_tensor placed = *t;
    if (!t->data && sparta_tensor_elements(t) == 0) placed.data = nowhere;
    return placed;
}

/* Zero dims count as 1 for the limit, so that the strides of an empty tensor fit too. */
sparta_status sp_tensor_bytes(sparta_ctx *cx, sparta_dtype dtype, int rank, const int64_t *dim, size_t *out)
{
    int64_t bytes = (int64_t)sparta_dtype_size(dtype);
    if (!bytes) return sp_fail(cx, SPARTA_E_DTYPE, "tensor: %d is no type", (int)dtype);
    if (rank < 0 || rank > SPARTA_RANK)
        return sp_fail(cx, SPARTA_E_SHAPE, "tensor: rank %d; at most %d dimensions are supported", rank,
                       SPARTA_RANK);
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0)
            return sp_fail(cx, SPARTA_E_SHAPE, "tensor: dimension %d is %lld; sizes are not negative", i,
                           (long long)dim[i]);
        if (!sp_int_mul(bytes, SP_MAX(dim[i], (int64_t)1), &bytes))
            return sp_fail(
                cx, SPARTA_E_LIMIT,
                "tensor: the dimensions up to %d (%lld) multiply to more bytes than fit in 63 bits", i,
                (long long)dim[i]);
    }
    *out = any_zero(rank, dim) ? 0 : (size_t)bytes;
    return SPARTA_OK;
}

sparta_status sp_tensor_alloc(sparta_ctx *cx, sparta_dtype dtype, int rank, const int64_t *dim,
                              sparta_tensor *out)
{
    size_t bytes;
    SP_TRY(sp_tensor_bytes(cx, dtype, rank, dim, &bytes));
    void *data = sp_zalloc(cx, bytes);
    SP_NEED(cx, data);
    *out = sparta_tensor_view(dtype, rank, dim, data);
    return SPARTA_OK;
}

sparta_status sp_tensor_alloc_in(sp_arena *a, sparta_dtype dtype, int rank, const int64_t *dim,
                                 sparta_tensor *out)
{
    sparta_ctx *cx = sp_arena_ctx(a);
    size_t bytes;
    SP_TRY(sp_tensor_bytes(cx, dtype, rank, dim, &bytes));
    void *data = sp_arena_alloc(a, bytes);
    SP_NEED(cx, data);
    *out = sparta_tensor_view(dtype, rank, dim, data);
    return SPARTA_OK;
}

bool sp_tensor_contiguous(const sparta_tensor *t)
{
    int64_t stride = 1;
    if (any_zero(t->rank, t->dim)) return true;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] == 1) continue; /* its stride is never used */
        if (t->stride[i] != stride) return false;
        if (__builtin_mul_overflow(stride, t->dim[i], &stride)) return false; /* dims may be anybody's */
    }
    return true;
}

bool sp_tensor_same_shape(const sparta_tensor *a, const sparta_tensor *b)
{
    return a->rank == b->rank && (a->rank == 0 || !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim));
}

bool sp_tensor_same_bytes(const sparta_tensor *a, const sparta_tensor *b)
{
    if (a->dtype != b->dtype || !sp_tensor_same_shape(a, b) || !a->data != !b->data) return false;
    const size_t bytes = (size_t)sparta_tensor_elements(a) * sparta_dtype_size(a->dtype);
    return a->data == b->data || !a->data || !memcmp(a->data, b->data, bytes);
}

bool sp_tensor_narrow(sparta_tensor *t, sparta_dtype dtype)
{
    const int bits = sp_dtype_bits(dtype);
    const uint8_t *byte = t->data;
    if (sp_dtype_bits(t->dtype) >= 8 || bits >= 8 || !sp_tensor_contiguous(t)) return false;
    for (int64_t i = 0; i < sparta_tensor_elements(t); i++)
        if (byte[i] >> bits) return false;
    t->dtype = dtype;
    return true;
}

void sp_tensor_print_shape(const sparta_tensor *t, sp_text *out)
{
    if (t->rank == 0) sp_text_printf(out, "scalar");
    for (int i = 0; i < t->rank; i++) sp_text_printf(out, i ? "x%lld" : "%lld", (long long)t->dim[i]);
}

/* ------------------------------------------------------------------ broadcasting */

sparta_status sp_tensor_broadcast(sparta_ctx *cx, const sparta_tensor *t, int rank, const int64_t *dim,
                                  sparta_tensor *out)
{
    sparta_tensor view = {.dtype = t->dtype, .rank = rank, .data = t->data};
    if (rank < t->rank || rank > SPARTA_RANK)
        return sp_fail(cx, SPARTA_E_SHAPE, "broadcast: rank %d does not fit into rank %d", t->rank, rank);
    for (int i = 0; i < rank; i++) {
        int from = i - (rank - t->rank);
        view.dim[i] = dim[i];
        if (from < 0 || (t->dim[from] == 1 && dim[i] != 1)) continue; /* repeats: stride 0 */
        if (t->dim[from] != dim[i])
            return sp_fail(cx, SPARTA_E_SHAPE,
                           "broadcast: dimension %d is %lld and must become %lld; only 1 can be repeated", i,
                           (long long)t->dim[from], (long long)dim[i]);
        view.stride[i] = t->stride[from];
    }
    *out = view;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ cursors */

sp_cursor sp_cursor_begin(int rank, const int64_t *dim, int n, const sparta_tensor *const *tensors)
{
    sp_cursor w = {.more = !any_zero(rank, dim), .rank = rank, .n = n};
    for (int i = 0; i < rank; i++) w.dim[i] = dim[i];
    for (int k = 0; k < n; k++)
        for (int i = 0; i < rank; i++) w.stride[k][i] = tensors[k]->stride[i];
    return w;
}

void sp_cursor_next(sp_cursor *w)
{
    for (int i = w->rank - 1; i >= 0; i--) {
        if (++w->index[i] < w->dim[i]) {
            for (int k = 0; k < w->n; k++) w->at[k] += w->stride[k][i];
            return;
        }
        for (int k = 0; k < w->n; k++) w->at[k] -= (w->dim[i] - 1) * w->stride[k][i];
        w->index[i] = 0;
    }
    w->more = false;
}

/* ------------------------------------------------------------------ copies */
static sparta_status copy_of(sparta_ctx *cx, const sparta_tensor *t, sparta_tensor *out)
{
    SP_TRY(sp_tensor_alloc(cx, t->dtype, t->rank, t->dim, out));
    sparta_status status = sp_tensor_copy(cx, t, out);
    if (status) {
        sp_free(cx, out->data);
        out->data = NULL;
    }
    return status;
}

sparta_status sp_tensor_row_major(sparta_ctx *cx, const sparta_tensor *t, sparta_tensor *own,
                                  const sparta_tensor **out)
{
    own->data = NULL;
    *out = t;
    if (sp_tensor_contiguous(t)) return SPARTA_OK;
    *out = own;
    return copy_of(cx, t, own);
}

void sp_tensor_clear(const sparta_tensor *t)
{
    size_t size = sparta_dtype_size(t->dtype);
    if (sp_tensor_contiguous(t)) {
        memset(t->data, 0, (size_t)sparta_tensor_elements(t) * size);
        return;
    }
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, &t); w.more; sp_cursor_next(&w))
        memset((char *)t->data + w.at[0] * (int64_t)size, 0, size);
}

/* ------------------------------------------------------------------ zeros */

/* The bits of -0.0; false: the type has none. */
static bool negative_zero(sparta_dtype dtype, uint64_t *bits)
{
    switch (dtype) {
    case SPARTA_F64: *bits = 1ull << 63; return true;
    case SPARTA_F32: *bits = 1ull << 31; return true;
    case SPARTA_F16:
    case SPARTA_BF16: *bits = 1ull << 15; return true;
    default: return false;
    }
}

/* Is one of n elements -0.0? With `clear` all that are become 0.0 instead. */
#define SCAN(type)                                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                          \
        if (((type *)data)[i] == (type)bits) {                                                               \
            if (!clear) return true;                                                                         \
            ((type *)data)[i] = 0;                                                                           \
        }
static bool scan(void *data, size_t size, int64_t n, uint64_t bits, bool clear)
{
    if (size == 8) {
        SCAN(uint64_t)
    } else if (size == 4) {
        SCAN(uint32_t)
    } else {
        SCAN(uint16_t)
    }
    return false;
}

static bool has_negative_zero(const sparta_tensor *t, uint64_t bits)
{
    const size_t size = sparta_dtype_size(t->dtype);
    if (sp_tensor_contiguous(t)) return scan(t->data, size, sparta_tensor_elements(t), bits, false);
    const sparta_tensor *one[] = {t};
    for (sp_cursor w = sp_cursor_begin(t->rank, t->dim, 1, one); w.more; sp_cursor_next(&w))
        if (scan((char *)t->data + w.at[0] * (int64_t)size, size, 1, bits, false)) return true;
    return false;
}

sparta_status sp_tensor_on_cpu(sparta_ctx *cx, const sparta_tensor *t, const char *what, const char *name)
{
    return t->device == 0 ? SPARTA_OK : sp_fail(cx, SPARTA_E_UNSUPPORTED, SP_OFF_CPU, what, name, t->device);
}

sparta_status sp_tensor_plain_zeros(sparta_ctx *cx, const sparta_tensor *t, sparta_tensor *own,
                                    const sparta_tensor **out)
{
    uint64_t bits;
    own->data = NULL;
    *out = t;
    if (sp_ctx_strict(cx) || !t->data || !negative_zero(t->dtype, &bits) || !has_negative_zero(t, bits))
        return SPARTA_OK;
    SP_TRY(copy_of(cx, t, own));
    scan(own->data, sparta_dtype_size(t->dtype), sparta_tensor_elements(t), bits, true);
    *out = own;
    return SPARTA_OK;
}
