/* tensor: types, and strided views of memory that somebody else owns.
 *
 *     sparta_tensor t = {SPARTA_F32, 2, {3, 4}, {4, 1}, data, 0};  dims, strides in elements, data, device
 *
 * The struct is public (sparta.h). A stride of 0 repeats: broadcasting needs no copy. Element (i,j) is at
 * data + (i*stride[0] + j*stride[1]) * size of the dtype. The types are the rows of dtypes.def.
 *
 * Two ways to touch elements: sp_element_get, sp_element_set (any type, through double or int64: the slow, readable
 * way that references use), and casting data when sp_tensor_contiguous says so.
 */
#ifndef SP_TENSOR_H
#define SP_TENSOR_H

#include "base/base.h"

#define SP_DTYPES 17
bool sp_dtype_parse(const char *name, sparta_dtype *out);
bool sp_dtype_from_onnx(int64_t code, sparta_dtype *out);
int sp_dtype_to_onnx(sparta_dtype dtype);
const char *sp_dtype_descr(sparta_dtype dtype); /* NumPy's */
bool sp_dtype_is_float(sparta_dtype dtype);
bool sp_dtype_is_signed(sparta_dtype dtype);
int sp_dtype_bits(sparta_dtype dtype); /* that count: 4 of u4, though it takes a byte in memory */
/* The range of an integer type or bool; u64 as int64 bits. */
int64_t sp_dtype_lowest(sparta_dtype dtype);
int64_t sp_dtype_highest(sparta_dtype dtype);

/* Loops that move elements without looking into them, one for each size: SP_EACH_SIZE(MAKE) makes f_uint8_t to f_uint64_t, where MAKE(T)
 * defines f_##T, and SP_BY_SIZE calls the one for elements of that size. */
#define SP_EACH_SIZE(MAKE) MAKE(uint8_t) MAKE(uint16_t) MAKE(uint32_t) MAKE(uint64_t)
#define SP_BY_SIZE(size, f, ...)                                                                             \
    ((size) == 1   ? f##_uint8_t(__VA_ARGS__)                                                                \
     : (size) == 2 ? f##_uint16_t(__VA_ARGS__)                                                               \
     : (size) == 4 ? f##_uint32_t(__VA_ARGS__)                                                               \
                   : f##_uint64_t(__VA_ARGS__))

float sp_f16_to_f32(uint16_t h);
uint16_t sp_f32_to_f16(float f); /* round to nearest even, overflow to infinity, NaN stays NaN */
float sp_bf16_to_f32(uint16_t h);
uint16_t sp_f32_to_bf16(float f);

/* Bytes of a row-major tensor of these dims; E_SHAPE when negative or too large, E_MEMORY never (it only counts). */
sparta_status sp_tensor_bytes(sparta_ctx *cx, sparta_dtype dtype, int rank, const int64_t *dim,
                              size_t *out) SP_MUST;
/* Allocate a cleared row-major tensor; free t.data with sp_free. */
sparta_status sp_tensor_alloc(sparta_ctx *cx, sparta_dtype dtype, int rank, const int64_t *dim,
                              sparta_tensor *out) SP_MUST;
sparta_status sp_tensor_alloc_in(sp_arena *a, sparta_dtype dtype, int rank, const int64_t *dim,
                                 sparta_tensor *out) SP_MUST;
bool sp_tensor_contiguous(const sparta_tensor *t); /* row-major without gaps */
/* What a caller gave, as it may go on: callers may leave the data of a tensor without elements NULL, and inside it is some address, so that
 * no reader adds an offset to NULL. */
sparta_tensor sp_tensor_placed(const sparta_tensor *t);
/* E_UNSUPPORTED when the data lies on another device; the message begins with what it is, "input", and its name. */
sparta_status sp_tensor_on_cpu(sparta_ctx *cx, const sparta_tensor *t, const char *what,
                               const char *name) SP_MUST;
#define SP_OFF_CPU "%s '%s': it is on device %d; copy it to the CPU, device 0"
void sp_tensor_clear(const sparta_tensor *t); /* every element 0, any strides */
bool sp_tensor_same_shape(const sparta_tensor *a, const sparta_tensor *b);
/* Of one type and shape, with the same numbers, bit by bit; both contiguous. */
bool sp_tensor_same_bytes(const sparta_tensor *a, const sparta_tensor *b);
/* View `t` as if it had the dims of `rank, dim`, repeating dims of size 1 (NumPy's rule). E_SHAPE when it cannot. */
sparta_status sp_tensor_broadcast(sparta_ctx *cx, const sparta_tensor *t, int rank, const int64_t *dim,
                                  sparta_tensor *out) SP_MUST;
/* Copy with any strides on both sides; same shape and dtype. */
sparta_status sp_tensor_copy(sparta_ctx *cx, const sparta_tensor *from, const sparta_tensor *to) SP_MUST;
/* The same without tensors: n dims (2 * SPARTA_RANK at most), strides in bytes, elements of `size` bytes. No two elements of the target
 * may be the same, and it does not overlap the source. */
typedef struct sp_strides {
    int rank;
    int64_t dim[2 * SPARTA_RANK], from[2 * SPARTA_RANK], to[2 * SPARTA_RANK];
} sp_strides;
sparta_status sp_strided_copy(sparta_ctx *cx, const sp_strides *dims, size_t size, const void *from,
                              void *to) SP_MUST;
/* A run of bytes; a short one without a call, as two words that may overlap. */
static inline void sp_move(void *to, const void *from, size_t n)
{
#define SP_MOVE(type)                                                                                        \
    do {                                                                                                     \
        type first, last;                                                                                    \
        __builtin_memcpy(&first, from, sizeof first);                                                        \
        __builtin_memcpy(&last, (const char *)from + n - sizeof last, sizeof last);                          \
        __builtin_memcpy(to, &first, sizeof first);                                                          \
        __builtin_memcpy((char *)to + n - sizeof last, &last, sizeof last);                                  \
    } while (0)
    typedef uint64_t sixteen __attribute__((vector_size(16)));
    if (n > 32)
        __builtin_memcpy(to, from, n);
    else if (n >= 16)
        SP_MOVE(sixteen);
    else if (n >= 8)
        SP_MOVE(uint64_t);
    else if (n >= 4)
        SP_MOVE(uint32_t);
    else
        for (size_t i = 0; i < n; i++) ((char *)to)[i] = ((const char *)from)[i];
#undef SP_MOVE
}
/* Runs of `bytes` bytes that lie anywhere in the source, one after the other in the target: to[i] = from + offset[i], n of them, `times`
 * times, with from_step bytes between in the source. */
typedef struct sp_picked {
    int64_t n, times, from_step;
    size_t bytes;
    const int64_t *offset; /* in bytes */
    const void *from;
    void *to;
} sp_picked;
sparta_status sp_picked_copy(sparta_ctx *cx, const sp_picked *p) SP_MUST;
/* *out is t where that is row-major, else a copy that is; own->data is the copy's, to be freed, or NULL. */
sparta_status sp_tensor_row_major(sparta_ctx *cx, const sparta_tensor *t, sparta_tensor *own,
                                  const sparta_tensor **out) SP_MUST;
/* Gives a tensor of a type narrower than a byte another such type: NumPy's V1, read as u4, may be any of them. false, and
 * unchanged, when either type is wider or an element has more bits than `dtype`. */
bool sp_tensor_narrow(sparta_tensor *t, sparta_dtype dtype);
void sp_tensor_print_shape(const sparta_tensor *t, sp_text *out); /* 3x4, "scalar" for rank 0 */

/* What a dense tensor has, as a source of storage: -0.0 is a zero like 0.0, since masking a negative weight makes it, but in a strict
 * context. *out is t, or where that has -0.0 a row-major copy without; own->data is the copy's, to be freed, or NULL. */
sparta_status sp_tensor_plain_zeros(sparta_ctx *cx, const sparta_tensor *t, sparta_tensor *own,
                                    const sparta_tensor **out) SP_MUST;

/* The element at element offset `at` (already multiplied by strides), as double or as int64 (bool: 0 or 1). */
double sp_element_get(sparta_dtype dtype, const void *data, int64_t at);
/* Rounds as a C cast does; ints wrap. */
void sp_element_set(sparta_dtype dtype, void *data, int64_t at, double value);
int64_t sp_element_get_int(sparta_dtype dtype, const void *data, int64_t at);
void sp_element_set_int(sparta_dtype dtype, void *data, int64_t at, int64_t value);

/* A cursor goes over the indices of a shape in row-major order and keeps the element offsets of up to 4 tensors of that
 * shape: for (sp_cursor w = sp_cursor_begin(rank, dim, n, tensors); w.more; sp_cursor_next(&w))
 * use(w.at[0], w.at[1]);   */
typedef struct sp_cursor {
    bool more;
    int rank, n;
    int64_t dim[SPARTA_RANK], index[SPARTA_RANK], stride[4][SPARTA_RANK], at[4];
} sp_cursor;
sp_cursor sp_cursor_begin(int rank, const int64_t *dim, int n, const sparta_tensor *const *tensors);
void sp_cursor_next(sp_cursor *w);

#endif
