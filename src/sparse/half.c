/* 2:4 weights on a GPU: what callers may get wrong, then room cuda. */
#include "cuda/half.h"
#include "sparse/sparse.h"
#include <string.h>

enum { ALIGN = 16 }; /* of the packed weight: what one copy moves */

int64_t sparta_half_bytes(sparta_dtype dtype, int64_t rows, int64_t cols)
{
    return dtype == SPARTA_F16 || dtype == SPARTA_BF16 ? (int64_t)sp_half_bytes(rows, cols) : 0;
}

/* The packed weight of these sizes, where `device` is. */
static sparta_status read_packed(const sp_complaint *c, const sparta_tensor *packed, sparta_dtype dtype,
                                 int64_t rows, int64_t cols, int device, void **out)
{
    const int64_t bytes = sparta_half_bytes(dtype, rows, cols), words = bytes / (int64_t)sizeof(int32_t);
    sparta_tensor like = sparta_tensor_view(SPARTA_I32, 1, &words, NULL);
    like.device = device;
    if (!bytes)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "a weight of %lldx%lld in %s is not packed; it takes f16 and bf16, 1 to 2^24 rows "
                         "and cols",
                         (long long)rows, (long long)cols, sparta_dtype_name(dtype));
    SP_TRY(sp_values_read(c, &like, packed, "packed", out));
    if (!device)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED, "the arrays are not on a GPU; move them, or take blocks");
    if ((uintptr_t)*out % ALIGN)
        return sp_refuse(c, SPARTA_E_USAGE, "packed does not begin on %d bytes; allocate it by itself",
                         (int)ALIGN);
    return SPARTA_OK;
}

static sp_complaint complaint_of(const char *where, char *message, size_t size)
{
    if (message && size) *message = 0;
    return (sp_complaint){.where = where, .text = message, .size = message ? size : 0};
}

/* ------------------------------------------------------------------ pack */
sparta_status sparta_half_pack(const sparta_tensor *weight, const sparta_tensor *packed,
                               const sparta_launch *launch, char *message, size_t message_size)
{
    const sp_complaint c = complaint_of("half pack", message, message_size);
    sparta_launch how;
    sp_half_weight w;
    SP_TRY(sp_launch_read(&c, launch, &how));
    if (!weight || !packed)
        return sp_refuse(&c, SPARTA_E_USAGE, "%s is not given", weight ? "packed" : "the weight");
    if (weight->rank != 2)
        return sp_refuse(&c, SPARTA_E_SHAPE, "the weight has %d dims, expected (rows, cols)", weight->rank);
    w = (sp_half_weight){.gpu = weight->device - 1,
                         .stream = how.stream,
                         .dtype = weight->dtype,
                         .rows = weight->dim[0],
                         .cols = weight->dim[1],
                         .step = weight->dim[0] > 1 ? weight->stride[0] : 0,
                         .from = weight->data};
    SP_TRY(read_packed(&c, packed, w.dtype, w.rows, w.cols, weight->device, &w.tiles));
    if (!w.from) return sp_refuse(&c, SPARTA_E_USAGE, "the weight has no data");
    if (w.cols > 1 && weight->stride[1] != 1)
        return sp_refuse(&c, SPARTA_E_UNSUPPORTED,
                         "elements of a row of the weight lie %lld apart; make a row-major copy",
                         (long long)weight->stride[1]);
    return sp_half_compress(&c, &w);
}

/* ------------------------------------------------------------------ multiply */
/* Everything about the call, as of a product with one block that is not there. */
static sparta_status read_call(const sp_complaint *c, const sparta_tensor *packed, const sparta_tensor *x,
                               const sparta_tensor *out, const sparta_multiply_options *options, sp_work *w)
{
    w->free = -1;
    SP_TRY(read_packed(c, packed, w->s.dtype, w->s.rows, w->s.cols, w->s.device, &w->s.values));
    SP_TRY(sp_cube_read(c, &w->s, x, "x", w->s.cols, &w->free, false, &w->x));
    SP_TRY(sp_cube_read(c, &w->s, out, "out", w->s.rows, &w->free, true, &w->y));
    if (options->turned)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED, "a packed 2:4 weight is not turned; take the dense one");
    return sp_ending_read(c, &w->s, options, w->s.rows, &w->free, &w->end);
}

sparta_status sp_half_read(const sp_complaint *c, const sp_half_call *h, const sparta_launch *how,
                           sp_cuda_job *job)
{
    sparta_multiply_options o = {.size = sizeof o};
    if (h->options && h->options->size < sizeof h->options->size)
        return sp_refuse(c, SPARTA_E_USAGE, "options.size is not that of its struct");
    if (h->options) memcpy(&o, h->options, SP_MIN(h->options->size, sizeof o));
    if (!h->packed || !h->x)
        return sp_refuse(c, SPARTA_E_USAGE, "%s is not given", h->packed ? "x" : "packed");
    sp_work w = {.verb = SPARTA_MULTIPLY,
                 .s = {.rows = h->rows,
                       .cols = h->cols,
                       .batch = 1,
                       .patterns = 1,
                       .dtype = h->x->dtype,
                       .device = h->packed->device}};
    SP_TRY(read_call(c, h->packed, h->x, h->out, &o, &w));
    if (!w.free || sp_gpu_job(&w, how, job)) return SPARTA_OK;
    return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                     "features do not lie side by side; make row-major copies of (tokens, features)");
}

sparta_status sparta_half_multiply(const sparta_tensor *packed, int64_t rows, int64_t cols,
                                   const sparta_tensor *x, const sparta_tensor *out,
                                   const sparta_multiply_options *options, const sparta_launch *launch,
                                   char *message, size_t message_size)
{
    const sp_complaint c = complaint_of("half multiply", message, message_size);
    const sp_half_call h = {packed, rows, cols, x, out, options};
    sparta_launch how;
    sp_cuda_job job = {0};
    SP_TRY(sp_launch_read(&c, launch, &how));
    SP_TRY(sp_half_read(&c, &h, &how, &job));
    return job.tokens ? sp_half_multiply(&c, &job) : SPARTA_OK;
}
