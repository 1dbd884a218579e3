/* A random weight in blocks, exactly as many as asked for; operands; and single elements of the answer, in f64. */
#include "measure/trial.h"
#include "cuda/cuda.h"
#include "device/cublas.h"
#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------------ the request */
/* "64x32": height, then width. */
static bool parse(const char *text, int64_t *height, int64_t *width)
{
    int h, w, end = 0;
    if (sscanf(text, "%5dx%5d%n", &h, &w, &end) != 2 || text[end] || h < 1 || w < 1) return false;
    *height = h;
    *width = w;
    return true;
}

static sparta_status check(sparta_ctx *cx, sp_trial *p)
{
    const sp_gpu_bench_request *r = p->r;
    if (r->m < 1 || r->n < 1 || r->k < 1)
        return sp_fail(cx, SPARTA_E_USAGE, "kernel bench: m, n and k must be at least 1");
    if (!(r->sparsity >= 0 && r->sparsity <= 1))
        return sp_fail(cx, SPARTA_E_USAGE, "kernel bench: the sparsity must be between 0 and 1");
    if (!parse(r->pattern, &p->height, &p->width))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "kernel bench: on a GPU a pattern is the sides of a block, 64x64; not \"%.40s\"",
                       r->pattern);
    p->down = (r->n + p->height - 1) / p->height;
    p->right = (r->k + p->width - 1) / p->width;
    const bool ours = sp_index_takes((int)p->height) && sp_index_takes((int)p->width);
    if (!ours && *sp_cublas_problem())
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "kernel bench: no GPU kernel takes blocks of %lldx%lld; give sides of 16, 32 or a "
                       "multiple of 64; others need cuBLASLt: %s",
                       (long long)p->height, (long long)p->width, sp_cublas_problem());
    if (ours ? !sp_index_words(p->height, p->width, p->down, p->right) : p->down > INT32_MAX / p->right)
        return sp_fail(cx, SPARTA_E_LIMIT,
                       "kernel bench: %lldx%lld has too many blocks of %s for a GPU; make them larger",
                       (long long)r->n, (long long)r->k, r->pattern);
    return SPARTA_OK;
}

sparta_status sp_trial_plan(sparta_ctx *cx, const sp_gpu_bench_request *r, sp_trial *out)
{
    sp_trial p = {.r = r};
    const bool across = r->verb == SPARTA_MULTIPLY;
    SP_TRY(check(cx, &p));
    p.blocks = llround((double)(p.down * p.right) * (1 - r->sparsity));
    p.in = across ? r->k : r->n;
    p.out = across ? r->n : r->k;
    *out = p;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what is random */
void sp_trial_fill(sparta_dtype dtype, uint64_t seed, void *data, int64_t n)
{
    sp_rng rng = sp_rng_seed(seed);
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)(int32_t)(sp_rng_next(&rng) >> 32) * 0x1p-31f;
        if (dtype == SPARTA_F16)
            ((uint16_t *)data)[i] = sp_f32_to_f16(v);
        else if (dtype == SPARTA_BF16)
            ((uint16_t *)data)[i] = sp_f32_to_bf16(v);
        else
            ((float *)data)[i] = v;
    }
}

static sparta_status fill(sparta_ctx *cx, sp_arena *arena, const sp_trial *p, uint64_t seed, int64_t n,
                          void **out)
{
    *out = sp_arena_array(arena, (size_t)SP_MAX(n, 1), sparta_dtype_size(p->r->dtype));
    SP_NEED(cx, *out);
    sp_trial_fill(p->r->dtype, seed, *out, n);
    return SPARTA_OK;
}

static int64_t inside(int64_t line, int64_t side, int64_t all) /* lines of a block that are of the matrix */
{
    return SP_MIN(side, all - line * side);
}

/* Each place is taken with the chance that makes it come out: so many of the places that are left. */
static void scatter(sp_trial *p)
{
    sp_rng rng = sp_rng_seed(p->r->seed);
    int64_t left = p->down * p->right, wanted = p->blocks, n = 0;
    for (int64_t i = 0; i < p->down; i++) {
        for (int64_t j = 0; j < p->right; j++, left--) {
            if (sp_rng_uniform(&rng) * (double)left >= (double)wanted) continue;
            wanted--;
            p->crd[n++] = (int32_t)j;
            p->nnz += inside(i, p->height, p->r->n) * inside(j, p->width, p->r->k);
        }
        p->pos[i + 1] = (int32_t)n;
    }
}

sparta_status sp_trial_make(sparta_ctx *cx, sp_arena *arena, sp_trial *p)
{
    const sp_gpu_bench_request *r = p->r;
    p->pos = sp_arena_array(arena, (size_t)p->down + 1, sizeof *p->pos);
    SP_NEED(cx, p->pos);
    p->crd = sp_arena_array(arena, (size_t)SP_MAX(p->blocks, 1), sizeof *p->crd);
    SP_NEED(cx, p->crd);
    scatter(p);
    SP_TRY(fill(cx, arena, p, r->seed + 1, p->blocks * p->height * p->width, &p->values));
    SP_TRY(fill(cx, arena, p, r->seed + 2, r->m * p->in, &p->x));
    if (r->verb == SPARTA_SAMPLE) SP_TRY(fill(cx, arena, p, r->seed + 3, r->m * p->out, &p->other));
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ what is expected */
typedef struct sum {
    double value, size; /* size: of the absolute terms */
} sum;

static double get(const sp_trial *p, const void *data, int64_t at)
{
    return sp_element_get(p->r->dtype, data, at);
}

static void add(sum *s, double a, double b)
{
    s->value += a * b;
    s->size += fabs(a * b);
}

/* Adds token t of x times row `line` of the matrix, turned: column `line`; of block b, which is at (i, j). */
static void add_block(const sp_trial *p, int64_t b, int64_t i, int64_t j, int64_t t, int64_t line, sum *s)
{
    const bool across = p->r->verb == SPARTA_MULTIPLY;
    const int64_t terms = across ? inside(j, p->width, p->r->k) : inside(i, p->height, p->r->n),
                  first = across ? j * p->width : i * p->height;
    for (int64_t e = 0; e < terms; e++) {
        const int64_t row = across ? line % p->height : e, column = across ? e : line % p->width;
        add(s, get(p, p->values, (b * p->height + row) * p->width + column),
            get(p, p->x, t * p->in + first + e));
    }
}

static sum product(const sp_trial *p, int64_t t, int64_t line)
{
    const bool across = p->r->verb == SPARTA_MULTIPLY;
    const int64_t first = across ? line / p->height : 0, end = across ? first + 1 : p->down;
    sum s = {0};
    for (int64_t i = first; i < end; i++)
        for (int64_t b = p->pos[i]; b < p->pos[i + 1]; b++)
            if (across || p->crd[b] == line / p->width) add_block(p, b, i, p->crd[b], t, line, &s);
    return s;
}

/* Past the edge of the matrix it is 0. */
static sum sample(const sp_trial *p, int64_t at)
{
    const int64_t b = at / (p->height * p->width), row = at / p->width % p->height, column = at % p->width;
    int64_t i = 0;
    sum s = {0};
    while (p->pos[i + 1] <= b) i++;
    const int64_t r = i * p->height + row, c = p->crd[b] * p->width + column;
    for (int64_t t = 0; r < p->r->n && c < p->r->k && t < p->r->m; t++)
        add(&s, get(p, p->x, t * p->in + r), get(p, p->other, t * p->out + c));
    return s;
}

int64_t sp_trial_elements(const sp_trial *p)
{
    return p->r->verb == SPARTA_SAMPLE ? p->blocks * p->height * p->width : p->r->m * p->out;
}

/* The result is rounded to its type; sums are f32, in any order; tf32 rounds both factors of a term. */
sp_expected sp_trial_expect(const sp_trial *p, int64_t at)
{
    const double rounding = p->r->dtype == SPARTA_F16    ? 0x1p-10
                            : p->r->dtype == SPARTA_BF16 ? 0x1p-7
                                                         : 0x1p-22,
                 terms = p->r->tf32 ? 0x1p-9 : 0x1p-16;
    const sum s = p->r->verb == SPARTA_SAMPLE ? sample(p, at) : product(p, at / p->out, at % p->out);
    return (sp_expected){s.value, rounding * fabs(s.value) + terms * s.size};
}
