/* Calls with a packed weight: what callers may get wrong. */
#include "sparse/packed.h"
#include <string.h>

enum { ALIGN = 16 }; /* of the packed weight: what one copy moves */

sp_complaint sp_packed_complaint(const char *where, char *message, size_t size)
{
    if (message && size) *message = 0;
    return (sp_complaint){.where = where, .text = message, .size = message ? size : 0};
}

/* The array, where `device` is. */
static sparta_status read_array(const sp_complaint *c, const sparta_tensor *packed, int64_t words, int device,
                                void **out)
{
    sparta_tensor like = sparta_tensor_view(SPARTA_I32, 1, &words, NULL);
    like.device = device;
    SP_TRY(sp_values_read(c, &like, packed, "packed", out));
    if (!device)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED, "the arrays are not on a GPU; move them, or take blocks");
    if ((uintptr_t)*out % ALIGN)
        return sp_refuse(c, SPARTA_E_USAGE, "packed does not begin on %d bytes; allocate it by itself",
                         (int)ALIGN);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ packing */
sparta_status sp_packing_begin(const sp_complaint *c, const sparta_tensor *weight,
                               const sparta_tensor *packed, const sparta_launch *launch, sp_packing *out)
{
    SP_TRY(sp_launch_read(c, launch, &out->launch));
    if (!weight || !packed)
        return sp_refuse(c, SPARTA_E_USAGE, "%s is not given", weight ? "packed" : "the weight");
    if (weight->rank != 2)
        return sp_refuse(c, SPARTA_E_SHAPE, "the weight has %d dims, expected (rows, cols)", weight->rank);
    out->dtype = weight->dtype;
    out->device = weight->device;
    out->rows = weight->dim[0];
    out->cols = weight->dim[1];
    out->step = weight->dim[0] > 1 ? weight->stride[0] : 0;
    out->from = weight->data;
    return SPARTA_OK;
}

sparta_status sp_packing_read(const sp_complaint *c, const sparta_tensor *weight, const sparta_tensor *packed,
                              int64_t words, sp_packing *p)
{
    SP_TRY(read_array(c, packed, words, p->device, &p->packed));
    if (!p->from) return sp_refuse(c, SPARTA_E_USAGE, "the weight has no data");
    if (p->cols > 1 && weight->stride[1] != 1)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "elements of a row of the weight lie %lld apart; make a row-major copy",
                         (long long)weight->stride[1]);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ products */
sparta_status sp_packed_begin(const sp_complaint *c, const sp_packed_call *call)
{
    if (call->options && call->options->size < sizeof call->options->size)
        return sp_refuse(c, SPARTA_E_USAGE, "options.size is not that of its struct");
    if (!call->packed || !call->x)
        return sp_refuse(c, SPARTA_E_USAGE, "%s is not given", call->packed ? "x" : "packed");
    return SPARTA_OK;
}

sparta_status sp_packed_read(const sp_complaint *c, const sp_packed_call *call, int64_t words,
                             sp_cuda_job *out)
{
    sparta_multiply_options o = {.size = sizeof o};
    sparta_launch how;
    sp_work w = {.verb = SPARTA_MULTIPLY,
                 .free = -1,
                 .s = {.rows = call->rows,
                       .cols = call->cols,
                       .batch = 1,
                       .patterns = 1,
                       .dtype = call->x->dtype,
                       .device = call->packed->device}};
    if (call->options) memcpy(&o, call->options, SP_MIN(call->options->size, sizeof o));
    SP_TRY(sp_launch_read(c, call->launch, &how));
    SP_TRY(read_array(c, call->packed, words, w.s.device, &w.s.values));
    SP_TRY(sp_cube_read(c, &w.s, call->x, "x", w.s.cols, &w.free, false, &w.x));
    SP_TRY(sp_cube_read(c, &w.s, call->out, "out", w.s.rows, &w.free, true, &w.y));
    if (o.turned)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED, "a packed weight is not turned; take the dense one");
    SP_TRY(sp_ending_read(c, &w.s, &o, w.s.rows, &w.free, &w.end));
    if (!sp_gpu_job(&w, &how, out) && w.free)
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "features do not lie side by side; make row-major copies of (tokens, features)");
    return SPARTA_OK;
}
