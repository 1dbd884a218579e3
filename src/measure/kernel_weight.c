/* The weight that kernel bench times.
 *
 *   random from the seed, or the request's own --+--> pruned by its magnitude to a pattern ("4x1", "2:4")
 *                                                +--> cut by a mask file (.npy, .npz, .safetensors)
 *                                                +--> as it is
 */
#include "measure/kernel_weight.h"
#include "arrays/arrays.h"
#include "prune/prune.h"
#include "tesa/tesa.h"
#include <string.h>

typedef struct maker {
    sparta_ctx *cx;
    sp_arena *arena;
    const sp_kernel_request *r;
    sparta_tensor w;
} maker;

static void fill_random(maker *m)
{
    sp_rng rng = sp_rng_seed(m->r->seed);
    float *w = m->w.data;
    for (int64_t i = 0; i < m->r->n * m->r->k; i++) /* odd numerators: never 0 */
        w[i] = (float)((int32_t)(sp_rng_next(&rng) >> 40) * 2 + 1 - (1 << 24)) * 0x1p-26f;
}

/* Kernels multiply f32, whatever the file has. */
static void fill_given(maker *m)
{
    const sparta_tensor *t = m->r->weight;
    float *w = m->w.data;
    for (int64_t n = 0; n < m->r->n; n++)
        for (int64_t k = 0; k < m->r->k; k++)
            w[n * m->r->k + k] =
                (float)sp_element_get(t->dtype, t->data, n * t->stride[0] + k * t->stride[1]);
}

/* ------------------------------------------------------------------ a mask file says what stays */

static sparta_status check_mask(const maker *m, const sparta_tensor *t)
{
    if (t && t->rank == 2 && t->dim[0] == m->r->n && t->dim[1] == m->r->k) return SPARTA_OK;
    return sp_fail(m->cx, SPARTA_E_SHAPE,
                   "kernel bench: %s must hold one array of %lldx%lld, the mask of the weight, and no other",
                   m->r->pattern, (long long)m->r->n, (long long)m->r->k);
}

static sparta_status cut(maker *m, const sparta_tensor *t)
{
    sp_mask mask;
    float *w = m->w.data;
    SP_TRY(check_mask(m, t));
    SP_TRY(sp_mask_of(m->cx, t, &mask));
    for (int64_t n = 0; n < m->r->n; n++)
        for (int64_t k = 0; k < m->r->k; k++)
            if (!sp_mask_get(&mask, n, k)) w[n * m->r->k + k] = 0;
    sp_mask_free(m->cx, &mask);
    return SPARTA_OK;
}

static sparta_status apply_mask(maker *m)
{
    sparta_file_kind kind;
    sp_arrays arrays;
    sparta_tensor one;
    SP_TRY(sparta_file_kind_of(m->cx, m->r->pattern, &kind));
    if (kind == SPARTA_FILE_NPY) {
        SP_TRY(sp_npy_read(m->cx, m->r->pattern, &one));
        sparta_status status = cut(m, &one);
        sp_free(m->cx, one.data);
        return status;
    }
    SP_TRY(sp_arrays_open(m->cx, m->r->pattern, &arrays));
    sparta_status status = cut(m, arrays.n == 1 ? &arrays.entry[0].tensor : NULL);
    sp_arrays_close(&arrays);
    return status;
}

/* ------------------------------------------------------------------ or a pattern does */

static sparta_status prune(maker *m)
{
    const sp_kernel_request *r = m->r;
    sp_prune_spec spec;
    const char *text =
        strchr(r->pattern, ':') ? r->pattern : sp_arena_printf(m->arena, "%s:%.9g", r->pattern, r->sparsity);
    SP_NEED(m->cx, text);
    SP_TRY(sp_prune_parse(m->cx, text, &spec));
    return sp_prune(m->cx, &spec, &m->w, NULL);
}

sparta_status sp_kernel_weight(sparta_ctx *cx, sp_arena *arena, const sp_kernel_request *r,
                               sparta_tensor *out)
{
    maker m = {.cx = cx, .arena = arena, .r = r};
    SP_TRY(sp_tensor_alloc_in(arena, SPARTA_F32, 2, (int64_t[]){r->n, r->k}, &m.w));
    if (r->weight)
        fill_given(&m);
    else
        fill_random(&m);
    if (r->pattern && strchr(r->pattern, '.'))
        SP_TRY(apply_mask(&m));
    else if (r->pattern && strcmp(r->pattern, "dense") && (strchr(r->pattern, ':') || r->sparsity > 0))
        SP_TRY(prune(&m));
    *out = m.w;
    return SPARTA_OK;
}
