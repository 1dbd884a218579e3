/* A cuBLASLt for tests on machines without a GPU: all of device/cublas.def. It counts what is alive, and multiplies f32 on the host, columns first as the real one. */
#include "fake/cublas.h"
#include <stdlib.h>
#include <string.h>

#define EXPORT                       __attribute__((visibility("default")))
#define SP_CUBLAS(symbol, arguments) EXPORT int symbol arguments;
#include "device/cublas.def"
#undef SP_CUBLAS
EXPORT fake_cublas_state *fake_cublas(void);

enum { OK = 0, INVALID = 7 };
static fake_cublas_state state;

fake_cublas_state *fake_cublas(void)
{
    return &state;
}

#define MAY_FAIL                                                                                             \
    if (!strcmp(state.symbol, __func__)) return state.result

typedef struct layout {
    int type;
    uint64_t rows, cols;
    int64_t step;
} layout;
typedef struct product {
    int turn_a, turn_b, epilogue;
    const float *bias;
} product;

static int make(void **out, size_t size)
{
    *out = calloc(1, size);
    if (!*out) return 3;
    state.alive++;
    return OK;
}
static int drop(void *thing)
{
    free(thing);
    state.alive--;
    return OK;
}

int cublasLtCreate(void **handle)
{
    MAY_FAIL;
    state.handles++;
    *handle = &state;
    return OK;
}
int cublasLtMatmulDescCreate(void **out, int compute, int scale_type)
{
    MAY_FAIL;
    if ((compute != 68 && compute != 77) || scale_type) return INVALID;
    return make(out, sizeof(product));
}
int cublasLtMatmulDescDestroy(void *p)
{
    return drop(p);
}
int cublasLtMatmulDescSetAttribute(void *p, int attribute, const void *value, size_t bytes)
{
    MAY_FAIL;
    product *d = p;
    if (attribute == 3 && bytes == 4) return memcpy(&d->turn_a, value, 4), OK;
    if (attribute == 4 && bytes == 4) return memcpy(&d->turn_b, value, 4), OK;
    if (attribute == 7 && bytes == 4) return memcpy(&d->epilogue, value, 4), OK;
    if (attribute == 8 && bytes == 8) return memcpy(&d->bias, value, 8), OK;
    return INVALID;
}
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t step)
{
    MAY_FAIL;
    if (step < (int64_t)rows) return INVALID;
    const int result = make(out, sizeof(layout));
    if (!result) *(layout *)*out = (layout){type, rows, cols, step};
    return result;
}
int cublasLtMatrixLayoutDestroy(void *l)
{
    return drop(l);
}
int cublasLtMatmulPreferenceCreate(void **out)
{
    MAY_FAIL;
    return make(out, 1);
}
int cublasLtMatmulPreferenceDestroy(void *p)
{
    return drop(p);
}
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t bytes)
{
    MAY_FAIL;
    (void)p;
    if (attribute == 3) memcpy(&state.reductions, value, sizeof state.reductions);
    return bytes == (attribute == 1 ? 8 : 4) ? OK : INVALID;
}
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *p, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, sp_cublas_found *found, int *n)
{
    MAY_FAIL;
    if (!handle || !p || !a || !b || !c || !d || !preference || wanted != 1) return INVALID;
    state.asked++;
    *n = state.none || (state.no_bias && ((const product *)p)->epilogue) ? 0 : 1;
    *found = (sp_cublas_found){.algorithm.opaque = {42}, .room = 1024};
    return OK;
}

/* Element (i, k) of op(M). */
static float at(const float *m, const layout *l, int turned, uint64_t i, uint64_t k)
{
    return turned ? m[(int64_t)i * l->step + (int64_t)k] : m[(int64_t)k * l->step + (int64_t)i];
}

int cublasLtMatmul(void *handle, void *p, const void *alpha, const void *a, void *a_layout, const void *b,
                   void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                   const sp_cublas_algorithm *algorithm, void *room, size_t room_bytes, void *stream)
{
    MAY_FAIL;
    const product *how = p;
    const layout *la = a_layout, *lb = b_layout, *lc = c_layout, *ld = d_layout;
    const uint64_t depth = how->turn_a ? la->rows : la->cols;
    if (!handle || algorithm->opaque[0] != 42 || !room || room_bytes != 1024 ||
        ld->rows != (how->turn_a ? la->cols : la->rows) || ld->cols != (how->turn_b ? lb->rows : lb->cols) ||
        depth != (how->turn_b ? lb->cols : lb->rows) || lc->rows != ld->rows || lc->cols != ld->cols)
        return INVALID;
    state.products++;
    state.stream = stream;
    if (la->type || lb->type || ld->type) return OK; /* others than f32 are not computed */
    for (uint64_t j = 0; j < ld->cols; j++)
        for (uint64_t i = 0; i < ld->rows; i++) {
            float sum = 0;
            for (uint64_t k = 0; k < depth; k++)
                sum += at(a, la, how->turn_a, i, k) * at(b, lb, !how->turn_b, j, k);
            sum = *(const float *)alpha * sum;
            if (*(const float *)beta != 0)
                sum += *(const float *)beta * ((const float *)c)[(int64_t)j * lc->step + (int64_t)i];
            if (how->epilogue == 4) sum += how->bias[i];
            ((float *)d)[(int64_t)j * ld->step + (int64_t)i] = sum;
        }
    return OK;
}
