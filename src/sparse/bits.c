/* Unstructured weights on a GPU, for few tokens: sparta.h's calls, checked, then room cuda. */
#include "cuda/bits.h"
#include "sparse/packed.h"

int64_t sparta_bits_bytes(sparta_dtype dtype, int64_t rows, int64_t cols, int64_t pairs)
{
    return dtype == SPARTA_F16 || dtype == SPARTA_BF16 ? (int64_t)sp_bits_bytes(rows, cols, pairs) : 0;
}

/* Words of the array, which are the caller's choice. */
static sparta_status words_of(const sp_complaint *c, const sparta_tensor *packed, sparta_dtype dtype,
                              int64_t rows, int64_t cols, int64_t *out)
{
    const int64_t least = sparta_bits_bytes(dtype, rows, cols, 0) / (int64_t)sizeof(int32_t);
    *out = packed->rank == 1 && packed->dim[0] >= 0 ? packed->dim[0] : least;
    if (!least)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "a weight of %lldx%lld in %s is not packed; it takes f16 and bf16, 1 to 2^24 rows "
                         "and cols, 2^22 tiles of 64x64",
                         (long long)rows, (long long)cols, sparta_dtype_name(dtype));
    if (*out < least || *out % 4)
        return sp_refuse(c, SPARTA_E_SHAPE,
                         "packed has %lld words; a weight of %lldx%lld takes a multiple of 4, at least %lld "
                         "(sparta_bits_bytes)",
                         (long long)*out, (long long)rows, (long long)cols, (long long)least);
    return SPARTA_OK;
}

sparta_status sparta_bits_pack(const sparta_tensor *weight, const sparta_tensor *packed,
                               const sparta_launch *launch, char *message, size_t message_size)
{
    const sp_complaint c = sp_packed_complaint("bits pack", message, message_size);
    sp_packing p = {0};
    int64_t words;
    SP_TRY(sp_packing_begin(&c, weight, packed, launch, &p));
    SP_TRY(words_of(&c, packed, p.dtype, p.rows, p.cols, &words));
    SP_TRY(sp_packing_read(&c, weight, packed, words, &p));
    const sp_bits_weight w = {.gpu = p.device - 1,
                              .stream = p.launch.stream,
                              .dtype = p.dtype,
                              .rows = p.rows,
                              .cols = p.cols,
                              .step = p.step,
                              .from = p.from,
                              .packed = p.packed,
                              .bytes = words * (int64_t)sizeof(int32_t)};
    return sp_bits_pack(&c, &w);
}

sparta_status sparta_bits_multiply(const sparta_tensor *packed, int64_t rows, int64_t cols,
                                   const sparta_tensor *x, const sparta_tensor *out,
                                   const sparta_multiply_options *options, const sparta_launch *launch,
                                   char *message, size_t message_size)
{
    const sp_complaint c = sp_packed_complaint("bits multiply", message, message_size);
    const sp_packed_call call = {packed, x, out, rows, cols, options, launch};
    sp_cuda_job job;
    int64_t words;
    SP_TRY(sp_packed_begin(&c, &call));
    SP_TRY(words_of(&c, packed, x->dtype, rows, cols, &words));
    SP_TRY(sp_packed_read(&c, &call, words, &job));
    job.bytes = words * (int64_t)sizeof(int32_t);
    return job.tokens ? sp_bits_multiply(&c, &job) : SPARTA_OK;
}
