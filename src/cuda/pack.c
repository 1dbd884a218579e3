/* Kernels for a file (jit/gpu.h): those that calls of some sizes run by rule, without a device.
 *
 *     wish --> jobs of it on chips of several sizes --> the row that takes each --> its kernels --> compiled once each
 *
 * Rules ask how many multiprocessors there are, and where that is not known the kernels of all usual numbers are taken: they are few. Operands are aligned to 16 bytes. */
#include "cuda/cuda.h"
#include "cuda/half.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Multiprocessors of chips from Ampere on, small ones and large ones. */
static const int processors[] = {28, 46, 58, 72, 84, 108, 114, 128, 132, 142, 144, 170, 188};
enum {
    SHARED_HOPPER = 227 << 10,
    SHARED_AMPERE = 163 << 10,
    SHARED_ADA = 99 << 10,
    L2 = 50 << 20,
    L2_SMALL = 4 << 20
};

typedef struct plan {
    sparta_ctx *cx;
    sp_gpu_pack *pack;
    sp_target target;
    int architecture; /* 90 for 9.0 */
} plan;

/* ------------------------------------------------------------------ what is wished for */
/* "sm_90a", "sm_89" */
static bool parse_device(const char *text, plan *out)
{
    int end = 0;
    if (!text || sscanf(text, "sm_%3d%n", &out->architecture, &end) != 1 || out->architecture < 80)
        return false;
    out->target = SP_TARGET_SM80;
    if (!strcmp(text, "sm_90a")) out->target = SP_TARGET_SM90A;
    return !text[end] || out->target == SP_TARGET_SM90A;
}

static bool says(const char *epilogue, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = epilogue; at && (at = strstr(at, word)); at += n)
        if ((at == epilogue || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

static bool is_side(int64_t n)
{
    return n > 0 && n <= INT32_MAX;
}

/* Of our kernels alone: which library will be there, nobody knows here, and row dense has no kernel without one. */
static sparta_status read_job(sparta_ctx *cx, const sparta_gpu_wish *w, sp_cuda_job *job)
{
    static _Alignas(256) char somewhere[256]; /* an address of no matter: nothing is run */
    const bool half = !w->height && !w->width, bias = says(w->epilogue, "bias"),
               residual = says(w->epilogue, "add") || says(w->epilogue, "mul");
    const double density = w->density > 0 ? w->density : .1;
    if (!is_side(w->rows) || !is_side(w->cols) || !is_side(w->tokens) || density > 1 ||
        (!half && (!is_side(w->height) || !is_side(w->width))) ||
        (w->verb != SPARTA_MULTIPLY && w->verb != SPARTA_MULTIPLY_TURNED && w->verb != SPARTA_SAMPLE))
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "gpu pack: %lldx%lld, %lld tokens, blocks of %lldx%lld, density %g are no product or sample",
            (long long)w->rows, (long long)w->cols, (long long)w->tokens, (long long)w->height,
            (long long)w->width, density);
    *job = (sp_cuda_job){.verb = w->verb,
                         .dtype = w->dtype,
                         .tf32 = w->tf32 != 0,
                         .own = true,
                         .rows = w->rows,
                         .cols = w->cols,
                         .height = w->height,
                         .width = w->width,
                         .values = somewhere,
                         .x = somewhere,
                         .y = somewhere,
                         .bias = bias ? somewhere : NULL,
                         .residual = residual ? somewhere : NULL,
                         .index = (const int32_t *)(const void *)somewhere,
                         .tokens = w->tokens};
    const bool turned = w->verb != SPARTA_MULTIPLY;
    job->x_step = turned ? w->rows : w->cols;
    job->y_step = job->residual_step = turned ? w->cols : w->rows;
    if (!half) {
        job->down = (w->rows + w->height - 1) / w->height;
        job->right = (w->cols + w->width - 1) / w->width;
        job->blocks = SP_MAX((int64_t)(density * (double)job->down * (double)job->right + .5), 1);
    }
    const char *wrong =
        w->verb == SPARTA_SAMPLE ? NULL : sp_words_parse(w->epilogue, bias, residual, &job->words);
    return wrong ? sp_fail(cx, SPARTA_E_USAGE, "gpu pack: epilogue \"%s\": %s",
                           w->epilogue ? w->epilogue : "", wrong)
                 : SPARTA_OK;
}

static sp_gpu chip(const plan *p, int multiprocessors)
{
    const bool hopper = p->architecture == 90,
               small = p->architecture == 86 || p->architecture == 89 || p->architecture >= 120;
    return (sp_gpu){.major = p->architecture / 10,
                    .minor = p->architecture % 10,
                    .processors = multiprocessors,
                    .shared = hopper  ? SHARED_HOPPER
                              : small ? SHARED_ADA
                                      : SHARED_AMPERE,
                    .target = p->target};
}

/* ------------------------------------------------------------------ its kernels */
static sparta_status add(const plan *p, sp_cuda_text text, const sp_cuda_point *point)
{
    char *whole = sp_cuda_text_at(text, point);
    if (!whole) return sp_fail(p->cx, SPARTA_E_MEMORY, "gpu pack: no memory for the text of a kernel");
    const sparta_status status = sp_gpu_pack_add(p->pack, p->target, p->architecture, whole);
    free(whole);
    return status;
}

/* What every product needs: the index, and clean values. */
static sparta_status add_common(const plan *p)
{
    static const sp_cuda_text texts[] = {SP_CUDA_TEXT_index, SP_CUDA_TEXT_clean};
    sp_cuda_point point;
    const char *entry;
    sp_target target;
    for (size_t t = 0; t < SP_COUNT(texts); t++)
        for (int i = 0; sp_cuda_sample_point(texts[t], i, &point, &entry, &target); i++)
            if (target == p->target) SP_TRY(add(p, texts[t], &point));
    return SPARTA_OK;
}

static sparta_status add_job(const plan *p, const sp_cuda_job *job, const sp_gpu *gpu, int *found)
{
    const sp_cuda_row *row = job->height               ? sp_cuda_find_on(job, gpu)
                             : sp_half_takes(job, gpu) ? &sp_cuda_half
                                                       : NULL;
    sp_cuda_asked asked;
    for (int i = 0; row && row->kernel(job, gpu, i, &asked); i++, ++*found)
        SP_TRY(add(p, asked.text, &asked.point));
    return SPARTA_OK;
}

/* On a small chip and on a large one, of each size of cache: whether kernels overlap depends on it. A sample with elements that do not exist, too. */
static sparta_status add_wish(const plan *p, const sparta_gpu_wish *w)
{
    static const size_t caches[] = {L2, L2_SMALL};
    sp_cuda_job job;
    int found = 0;
    SP_TRY(read_job(p->cx, w, &job));
    for (size_t i = 0; i < SP_COUNT(processors) * SP_COUNT(caches); i++) {
        sp_gpu gpu = chip(p, processors[i / SP_COUNT(caches)]);
        gpu.l2 = caches[i % SP_COUNT(caches)];
        SP_TRY(add_job(p, &job, &gpu, &found));
        sp_cuda_job masked = job;
        masked.keep = job.values;
        if (job.verb == SPARTA_SAMPLE) SP_TRY(add_job(p, &masked, &gpu, &found));
    }
    if (found) return SPARTA_OK;
    return sp_fail(p->cx, SPARTA_E_UNSUPPORTED,
                   "gpu pack: no kernel of %s takes blocks of %lldx%lld in %s; blocks have sides of 16, 32 "
                   "or a multiple of 64",
                   w->device, (long long)w->height, (long long)w->width, sparta_dtype_name(w->dtype));
}

static sparta_status add_all(plan *p, const sparta_gpu_wish *wish, int n)
{
    const char *at = (const char *)wish;
    for (int i = 0; i < n; i++, at += wish->size) {
        sparta_gpu_wish w = {0};
        memcpy(&w, at, SP_MIN(wish->size, sizeof w));
        if (!parse_device(w.device, p))
            return sp_fail(p->cx, SPARTA_E_USAGE,
                           "gpu pack: \"%s\" is no chip that has kernels; give sm_90a, or sm_80 and newer",
                           w.device ? w.device : "");
        if (!sparta_dtype_size(w.dtype))
            return sp_fail(p->cx, SPARTA_E_DTYPE, "gpu pack: there is no such type");
        SP_TRY(add_common(p));
        SP_TRY(add_wish(p, &w));
    }
    return SPARTA_OK;
}

sparta_status sparta_gpu_pack(sparta_ctx *cx, const sparta_gpu_wish *wish, int n, const char *path)
{
    plan p = {.cx = cx};
    if (!wish || n < 1 || wish->size < sizeof wish->size || !path)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "gpu pack: nothing is wished for, or the size of a wish is not that of its struct");
    p.pack = sp_gpu_pack_create(cx);
    SP_NEED(cx, p.pack);
    sparta_status status = add_all(&p, wish, n);
    if (!status) status = sp_gpu_pack_save(p.pack, path);
    if (!status) sp_note(cx, "%s: %d kernels", path, sp_gpu_pack_count(p.pack));
    sp_gpu_pack_free(p.pack);
    return status;
}

sparta_status sparta_gpu_load(sparta_ctx *cx, const char *path)
{
    int kernels = 0;
    return path ? sp_gpu_pack_open(cx, path, &kernels)
                : sp_fail(cx, SPARTA_E_USAGE, "gpu load: no file is given");
}
