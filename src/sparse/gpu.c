/* A call whose arrays are on a GPU: as a job of room cuda. */
#include "cuda/cuda.h"
#include "sparse/sparse.h"
#include <string.h>

enum { ALIGN = 256 };

/* A token's features are contiguous, and tokens apart from each other; strides that lead nowhere are 0. */
static bool is_plain(const sp_cube *c, int64_t size, int64_t tokens, bool result, int64_t *step)
{
    *step = tokens > 1 ? c->sf : size;
    if (!tokens || !size) return true;
    return (c->si == 1 || size == 1) && (*step >= size || (*step == 0 && !result));
}

bool sp_gpu_job(const sp_work *w, const sparta_launch *how, sp_cuda_job *out)
{
    const sp_blocks *s = &w->s;
    const bool product = sp_is_product(w->verb), turned = w->verb == SPARTA_MULTIPLY_TURNED;
    const int64_t in = turned || !product ? s->rows : s->cols, made = turned || !product ? s->cols : s->rows;
    *out = (sp_cuda_job){.verb = w->verb,
                         .gpu = s->device - 1,
                         .stream = how ? how->stream : NULL,
                         .dtype = s->dtype,
                         .tf32 = how && how->tf32,
                         .own = how && how->own,
                         .rows = s->rows,
                         .cols = s->cols,
                         .height = s->height,
                         .width = s->width,
                         .down = s->down,
                         .right = s->right,
                         .blocks = s->blocks,
                         .pos = s->pos,
                         .crd = s->crd,
                         .keep = s->keep,
                         .values = s->values,
                         .index = s->index,
                         .tokens = w->free,
                         .x = w->x.data,
                         .y = w->y.data,
                         .words = w->end.words,
                         .bias = w->end.bias,
                         .residual = w->end.residual.data,
                         .scale = w->scale,
                         .room = w->room};
    if ((!product && w->verb != SPARTA_SAMPLE) || s->batch != 1 || s->patterns != 1) return false;
    if (w->end.bias && w->end.bias_step != 1 && made > 1) return false;
    if (w->end.residual.data && !is_plain(&w->end.residual, made, w->free, false, &out->residual_step))
        return false;
    return is_plain(&w->x, in, w->free, false, &out->x_step) &&
           is_plain(&w->y, made, w->free, product, &out->y_step);
}

size_t sp_gpu_work_room(const sp_work *w, const sparta_launch *how)
{
    sp_cuda_job job;
    const size_t bytes = sp_gpu_job(w, how, &job) ? sp_cuda_room(&job) : 0;
    return bytes ? bytes + ALIGN : 0;
}

sparta_status sp_gpu_work_run(const sp_complaint *c, const sp_work *w, const sparta_launch *how)
{
    sp_cuda_job job;
    if (!sp_gpu_job(w, how, &job))
        return sp_refuse(c, SPARTA_E_UNSUPPORTED,
                         "on a GPU there are products and samples of one matrix, with contiguous features");
    job.room = (char *)(((uintptr_t)job.room + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    return sp_cuda_run(c, &job);
}

/* ------------------------------------------------------------------ the index */
/* The pattern alone: values and keep are not looked at, there may be none yet. */
static sparta_status pattern_of(const sp_complaint *c, const sparta_blocks *s, const sparta_tensor *index,
                                sp_blocks *out)
{
    sparta_blocks given = {0};
    if (!s || s->size < sizeof s->size)
        return sp_refuse(c, SPARTA_E_USAGE, "the size of the blocks is not that of their struct");
    memcpy(&given, s, SP_MIN(s->size, sizeof given));
    const int64_t dim[] = {given.crd.rank == 1 ? given.crd.dim[0] : 0, given.height, given.width};
    given.size = sizeof given;
    given.values = sparta_tensor_view(SPARTA_F16, 3, dim, given.pos.data);
    given.values.device = given.pos.device;
    given.keep = (sparta_tensor){0};
    given.index = index ? *index : (sparta_tensor){0};
    SP_TRY(sp_blocks_read(c, &given, out));
    return out->patterns == 1 ? SPARTA_OK
                              : sp_refuse(c, SPARTA_E_UNSUPPORTED, "an index is that of one pattern");
}

int64_t sparta_blocks_index_words(const sparta_blocks *s)
{
    const sp_complaint quiet = {.where = "", .planning = true};
    sp_blocks b;
    return pattern_of(&quiet, s, NULL, &b) == SPARTA_OK ? sp_index_words(b.height, b.width, b.down, b.right)
                                                        : 0;
}

sparta_status sparta_blocks_index(const sparta_blocks *s, const sparta_tensor *index,
                                  const sparta_launch *launch, char *message, size_t message_size)
{
    const sp_complaint c = {.where = "index", .text = message, .size = message ? message_size : 0};
    sparta_launch how;
    sp_work w = {.verb = SPARTA_MULTIPLY};
    sp_cuda_job job;
    SP_TRY(sp_launch_read(&c, launch, &how));
    if (!index) return sp_refuse(&c, SPARTA_E_USAGE, "no index is given");
    SP_TRY(pattern_of(&c, s, index, &w.s));
    if (!w.s.device) return sp_refuse(&c, SPARTA_E_UNSUPPORTED, "the arrays are not on a GPU");
    if (!w.s.index) return sp_refuse(&c, SPARTA_E_UNSUPPORTED, "no kernel follows an index of such blocks");
    (void)sp_gpu_job(&w, &how, &job); /* there are no operands yet to like or dislike */
    return sp_cuda_index(&c, &job, index->data);
}

int sparta_gpus(void)
{
    return sp_gpu_count();
}

const char *sparta_gpu_problem(void)
{
    return sp_gpu_problem();
}
