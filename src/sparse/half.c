/* 2:4 weights on a GPU: sparta.h's calls, checked, then room cuda. */
#include "cuda/half.h"
#include "sparse/packed.h"

int64_t sparta_half_bytes(sparta_dtype dtype, int64_t rows, int64_t cols)
{
    return dtype == SPARTA_F16 || dtype == SPARTA_BF16 ? (int64_t)sp_half_bytes(rows, cols) : 0;
}

static sparta_status words_of(const sp_complaint *c, sparta_dtype dtype, int64_t rows, int64_t cols,
                              int64_t *out)
{
    *out = sparta_half_bytes(dtype, rows, cols) / (int64_t)sizeof(int32_t);
    if (*out) return SPARTA_OK;
    return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                     "a weight of %lldx%lld in %s is not packed; it takes f16 and bf16, 1 to 2^24 rows "
                     "and cols",
                     (long long)rows, (long long)cols, sparta_dtype_name(dtype));
}

sparta_status sparta_half_pack(const sparta_tensor *weight, const sparta_tensor *packed,
                               const sparta_launch *launch, char *message, size_t message_size)
{
    const sp_complaint c = sp_packed_complaint("half pack", message, message_size);
    sp_packing p = {0};
    int64_t words;
    SP_TRY(sp_packing_begin(&c, weight, packed, launch, &p));
    SP_TRY(words_of(&c, p.dtype, p.rows, p.cols, &words));
    SP_TRY(sp_packing_read(&c, weight, packed, words, &p));
    const sp_half_weight w = {.gpu = p.device - 1,
                              .stream = p.launch.stream,
                              .dtype = p.dtype,
                              .rows = p.rows,
                              .cols = p.cols,
                              .step = p.step,
                              .from = p.from,
                              .tiles = p.packed};
    return sp_half_compress(&c, &w);
}

sparta_status sp_half_read(const sp_complaint *c, const sp_packed_call *call, sp_cuda_job *out)
{
    int64_t words;
    SP_TRY(sp_packed_begin(c, call));
    SP_TRY(words_of(c, call->x->dtype, call->rows, call->cols, &words));
    return sp_packed_read(c, call, words, out);
}

sparta_status sparta_half_multiply(const sparta_tensor *packed, int64_t rows, int64_t cols,
                                   const sparta_tensor *x, const sparta_tensor *out,
                                   const sparta_multiply_options *options, const sparta_launch *launch,
                                   char *message, size_t message_size)
{
    const sp_complaint c = sp_packed_complaint("half multiply", message, message_size);
    const sp_packed_call call = {packed, x, out, rows, cols, options, launch};
    sp_cuda_job job;
    SP_TRY(sp_half_read(&c, &call, &job));
    return job.tokens ? sp_half_multiply(&c, &job) : SPARTA_OK;
}
