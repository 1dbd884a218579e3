/* The functions of sparta.h: look at the arguments, then at the indices, then work. */
#include "sparse/kernels.h"
#include "device/device.h"
#include <stdatomic.h>
#include <string.h>

static _Atomic(const sp_kernels *) chosen; /* by the first call */

const sp_kernels *sp_kernels_here(void)
{
    static const sp_kernels *const tables[] = {[SP_TARGET_AVX512] = &sp_kernels_avx512,
                                               [SP_TARGET_AVX2] = &sp_kernels_avx2,
                                               [SP_TARGET_PORTABLE] = &sp_kernels_portable};
    const sp_kernels *best = atomic_load_explicit(&chosen, memory_order_relaxed);
    for (int t = 0; !best; t++)
        if (tables[t]->outside && sp_target_fits((sp_target)t)) best = tables[t];
    atomic_store_explicit(&chosen, best, memory_order_relaxed);
    return best;
}

void sp_kernels_use(const sp_kernels *kernels)
{
    atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
}

typedef struct engine {
    size_t (*room)(const sp_work *w);
    void (*run)(const sp_work *w, const sparta_launch *how);
} engine;
static const engine plain = {sp_plain_room, sp_plain_run};
static const engine engines[] = {
    [SPARTA_MULTIPLY] = {sp_multiply_room, sp_multiply_run},
    [SPARTA_MULTIPLY_TURNED] = {sp_multiply_room, sp_multiply_run},
    [SPARTA_SAMPLE] = {sp_sample_room, sp_sample_run},
    [SPARTA_SOFTMAX] = {sp_softmax_room, sp_softmax_run},
    [SPARTA_SOFTMAX_GRADIENT] = {sp_softmax_room, sp_softmax_run},
};

static const engine *engine_of(const sp_work *w)
{
    return w->s.dtype == SPARTA_F64 ? &plain : &engines[w->verb];
}

static const char *const verbs[] = {
    [SPARTA_MULTIPLY] = "multiply",
    [SPARTA_MULTIPLY_TURNED] = "multiply",
    [SPARTA_SAMPLE] = "sample",
    [SPARTA_SOFTMAX] = "softmax",
    [SPARTA_SOFTMAX_GRADIENT] = "softmax gradient",
};

double sp_sparse_share_from = 5e5;

/* The team that shares it, and the workspace it then needs. */
static size_t room_for(sp_work *w, const sparta_launch *how)
{
    const double values = (double)w->s.blocks * (double)(w->s.height * w->s.width) *
                          (double)(w->s.patterns == 1 ? w->s.batch : 1);
    const double sides = (double)(w->s.rows + w->s.cols) * (double)w->s.batch;
    if (w->s.device) return sp_gpu_work_room(w, how);
    w->team = (values + 4 * sides) * (double)SP_MAX(w->free, 16) < sp_sparse_share_from ? 1 : how->threads;
    return engine_of(w)->room(w);
}

/* Both operands of a product or a sample. A shared matrix can be multiplied, nothing else. */
static sparta_status read_operands(const sp_complaint *c, sp_work *w, const sparta_tensor *x,
                                   const sparta_tensor *y)
{
    const bool across = w->verb == SPARTA_MULTIPLY;
    const int64_t in = across ? w->s.cols : w->s.rows, out = across ? w->s.rows : w->s.cols;
    w->free = -1;
    SP_TRY(sp_cube_read(c, &w->s, x, sp_is_product(w->verb) ? "x" : "a", in, &w->free, false, &w->x));
    return sp_cube_read(c, &w->s, y, sp_is_product(w->verb) ? "out" : "c", out, &w->free,
                        sp_is_product(w->verb), &w->y);
}

static sparta_status read_matrix(const sp_complaint *c, sp_work *w, const sparta_blocks *s)
{
    SP_TRY(sp_blocks_read(c, s, &w->s));
    if (!sp_is_product(w->verb) && w->s.patterns == 1 && w->s.batch != 1 && w->s.each == 0 && w->s.blocks)
        return sp_refuse(c, SPARTA_E_SHAPE,
                         "values are those of one matrix, expected one for each of the batch of %lld",
                         (long long)w->s.batch);
    return SPARTA_OK;
}

size_t sparta_blocks_workspace(sparta_verb verb, const sparta_blocks *s, const sparta_tensor *x,
                               const sparta_tensor *y, const sparta_launch *launch)
{
    const sp_complaint quiet = {.where = "", .planning = true};
    sparta_launch how;
    sp_work w = {.verb = verb, .free = 16};
    if ((unsigned)verb >= SP_COUNT(verbs) || sp_launch_read(&quiet, launch, &how) != SPARTA_OK ||
        read_matrix(&quiet, &w, s) != SPARTA_OK)
        return 0;
    if ((sp_is_product(verb) || verb == SPARTA_SAMPLE) && read_operands(&quiet, &w, x, y) != SPARTA_OK)
        return 0;
    const size_t bytes = room_for(&w, &how);
    return bytes ? bytes + 64 : 0;
}

/* Everything is known but the indices and the workspace. */
static sparta_status run(const sp_complaint *c, sp_work *w, const sparta_launch *how)
{
    const size_t bytes = room_for(w, how);
    if (!w->s.device) {
        if (how->stream) return sp_refuse(c, SPARTA_E_UNSUPPORTED, "the CPU has no streams");
        SP_TRY(sp_blocks_check(c, &w->s));
    }
    if (bytes && (!how->workspace || how->workspace_bytes < bytes + 64))
        return sp_refuse(c, SPARTA_E_MEMORY, "a workspace of %zu bytes, %zu are needed",
                         how->workspace ? how->workspace_bytes : 0, bytes + 64);
    w->room = (char *)(((uintptr_t)how->workspace + 63) & ~(uintptr_t)63);
    if (w->s.device) return sp_gpu_work_run(c, w, how);
    engine_of(w)->run(w, how);
    return SPARTA_OK;
}

static sp_complaint complaint_of(sparta_verb verb, char *message, size_t size)
{
    if (message && size) *message = 0;
    return (sp_complaint){.where = verbs[verb], .text = message, .size = message ? size : 0};
}

sparta_status sp_product_read(const sp_complaint *c, const sparta_blocks *s, const sparta_tensor *x,
                              const sparta_tensor *out, const sparta_multiply_options *options, sp_work *w)
{
    sparta_multiply_options o = {.size = sizeof o};
    if (options && options->size < sizeof options->size)
        return sp_refuse(c, SPARTA_E_USAGE, "options.size is not that of its struct");
    if (options) memcpy(&o, options, SP_MIN(options->size, sizeof o));
    *w = (sp_work){.verb = o.turned ? SPARTA_MULTIPLY_TURNED : SPARTA_MULTIPLY};
    SP_TRY(read_matrix(c, w, s));
    SP_TRY(read_operands(c, w, x, out));
    return sp_ending_read(c, &w->s, &o, o.turned ? w->s.cols : w->s.rows, &w->free, &w->end);
}

sparta_status sp_sample_read(const sp_complaint *c, const sparta_blocks *s, const sparta_tensor *a,
                             const sparta_tensor *other, double scale, sp_work *w)
{
    *w = (sp_work){.verb = SPARTA_SAMPLE, .scale = scale};
    SP_TRY(read_matrix(c, w, s));
    return read_operands(c, w, a, other);
}

sparta_status sparta_blocks_multiply(const sparta_blocks *s, const sparta_tensor *x, const sparta_tensor *out,
                                     const sparta_multiply_options *options, const sparta_launch *launch,
                                     char *message, size_t message_size)
{
    const sp_complaint c = complaint_of(SPARTA_MULTIPLY, message, message_size);
    sparta_launch how;
    sp_work w;
    SP_TRY(sp_launch_read(&c, launch, &how));
    SP_TRY(sp_product_read(&c, s, x, out, options, &w));
    return run(&c, &w, &how);
}

sparta_status sparta_blocks_sample(const sparta_blocks *s, const sparta_tensor *a, const sparta_tensor *c,
                                   double scale, const sparta_launch *launch, char *message,
                                   size_t message_size)
{
    const sp_complaint complaint = complaint_of(SPARTA_SAMPLE, message, message_size);
    sparta_launch how;
    sp_work w;
    SP_TRY(sp_launch_read(&complaint, launch, &how));
    SP_TRY(sp_sample_read(&complaint, s, a, c, scale, &w));
    return run(&complaint, &w, &how);
}

sparta_status sparta_blocks_softmax(const sparta_blocks *s, double scale, const sparta_tensor *out,
                                    const sparta_launch *launch, char *message, size_t message_size)
{
    const sp_complaint c = complaint_of(SPARTA_SOFTMAX, message, message_size);
    sp_work w = {.verb = SPARTA_SOFTMAX, .free = 16, .scale = scale};
    sparta_launch how;
    SP_TRY(sp_launch_read(&c, launch, &how));
    SP_TRY(read_matrix(&c, &w, s));
    SP_TRY(sp_values_read(&c, &s->values, out, "out", &w.out));
    return run(&c, &w, &how);
}

sparta_status sparta_blocks_softmax_gradient(const sparta_blocks *s, double scale,
                                             const sparta_tensor *gradient, const sparta_tensor *out,
                                             const sparta_launch *launch, char *message, size_t message_size)
{
    const sp_complaint c = complaint_of(SPARTA_SOFTMAX_GRADIENT, message, message_size);
    sp_work w = {.verb = SPARTA_SOFTMAX_GRADIENT, .free = 16, .scale = scale};
    void *given = NULL;
    sparta_launch how;
    SP_TRY(sp_launch_read(&c, launch, &how));
    SP_TRY(read_matrix(&c, &w, s));
    SP_TRY(sp_values_read(&c, &s->values, gradient, "gradient", &given));
    SP_TRY(sp_values_read(&c, &s->values, out, "out", &w.out));
    w.gradient = given;
    return run(&c, &w, &how);
}
