/* cuBLAS, without a header of NVIDIA's: found, opened once, and asked for one product. */
#include "measure/cublas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 32 << 20 }; /* bytes: what NVIDIA recommends for sm_90 */
/* cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t */
enum {
    PLAIN = 0,
    TURNED = 1,
    TYPE_F32 = 0,
    TYPE_F16 = 2,
    TYPE_BF16 = 14,
    SUM_F32 = 68,
    SUM_TF32 = 77,
    ALGO = -1
};

static struct {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*set_workspace)(void *handle, void *room, size_t bytes);
    int (*gemm)(void *handle, int a_op, int b_op, int m, int n, int k, const void *alpha, const void *a,
                int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c,
                int c_type, int ldc, int compute, int algo);
    char problem[512];
} cublas;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ------------------------------------------------------------------ opening */
static const char *const names[] = {"libcublas.so.13", "libcublas.so.12"};

/* PyPI's packages of CUDA 13 have one folder for all libraries. */
static void *open_beside_nvrtc(void)
{
    const char *nvrtc = getenv("SPARTA_NVRTC"), *slash = nvrtc ? strrchr(nvrtc, '/') : NULL;
    char path[1024];
    void *library = NULL;
    for (size_t i = 0; nvrtc && i < SP_COUNT(names) && !library; i++) {
        if (snprintf(path, sizeof path, "%s/%s", nvrtc, names[i]) < (int)sizeof path)
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library && slash &&
            snprintf(path, sizeof path, "%.*s/%s", (int)(slash - nvrtc), nvrtc, names[i]) < (int)sizeof path)
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static void *open_library(void)
{
    const char *given = getenv("SPARTA_CUBLAS");
    void *library = NULL;
    if (given && *given) {
        library = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            snprintf(cublas.problem, sizeof cublas.problem,
                     "SPARTA_CUBLAS %.200s: it cannot be opened; unset it, or name a libcublas.so.13", given);
        return library;
    }
    for (size_t i = 0; i < SP_COUNT(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; i < SP_COUNT(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) library = open_beside_nvrtc();
    if (!library)
        snprintf(cublas.problem, sizeof cublas.problem,
                 "cuBLAS is not found; pip install nvidia-cublas (or the CUDA toolkit), and name "
                 "libcublas.so.13 by SPARTA_CUBLAS");
    return library;
}

/* The library stays open: what it started cannot be unloaded. */
static void open_cublas(void)
{
    void *library = open_library();
    if (!library) return;
    *(void **)&cublas.create = dlsym(library, "cublasCreate_v2");
    *(void **)&cublas.destroy = dlsym(library, "cublasDestroy_v2");
    *(void **)&cublas.set_stream = dlsym(library, "cublasSetStream_v2");
    *(void **)&cublas.set_workspace = dlsym(library, "cublasSetWorkspace_v2");
    *(void **)&cublas.gemm = dlsym(library, "cublasGemmEx");
    if (!cublas.create || !cublas.destroy || !cublas.set_stream || !cublas.set_workspace || !cublas.gemm)
        snprintf(cublas.problem, sizeof cublas.problem,
                 "cuBLAS lacks functions of CUDA 12; install a newer one, or name it by SPARTA_CUBLAS");
}

const char *sp_cublas_problem(void)
{
    pthread_once(&once, open_cublas);
    return cublas.problem;
}

/* ------------------------------------------------------------------ a product */
static sparta_status check(const sp_complaint *c, const char *call, int result)
{
    if (!result) return SPARTA_OK;
    return sp_refuse(c, SPARTA_E_DEVICE, "%s: status %d; SPARTA_CUBLAS names another cuBLAS", call, result);
}

sparta_status sp_cublas_create(const sp_complaint *c, sp_cublas *out)
{
    if (*sp_cublas_problem()) return sp_refuse(c, SPARTA_E_UNSUPPORTED, "%s", sp_cublas_problem());
    SP_TRY(sp_gpu_alloc(c, ROOM, &out->room));
    return check(c, "cublasCreate", cublas.create(&out->handle));
}

void sp_cublas_free(sp_cublas *b)
{
    if (b->handle) cublas.destroy(b->handle);
    sp_gpu_free(b->room);
    *b = (sp_cublas){0};
}

static int type_of(sparta_dtype dtype)
{
    return dtype == SPARTA_F16 ? TYPE_F16 : dtype == SPARTA_BF16 ? TYPE_BF16 : TYPE_F32;
}

/* cuBLAS counts columns first: what is row-major is turned there, so out' = B' A'. */
sparta_status sp_cublas_multiply(const sp_complaint *c, const sp_cublas *b, const sp_dense *d, void *stream)
{
    static const float one = 1, zero = 0;
    const int type = type_of(d->dtype);
    SP_TRY(check(c, "cublasSetStream", cublas.set_stream(b->handle, stream)));
    SP_TRY(check(c, "cublasSetWorkspace", cublas.set_workspace(b->handle, b->room, ROOM)));
    return check(c, "cublasGemmEx",
                 cublas.gemm(b->handle, d->b_turned ? TURNED : PLAIN, d->a_turned ? TURNED : PLAIN,
                             (int)d->cols, (int)d->rows, (int)d->depth, &one, d->b, type,
                             (int)(d->b_turned ? d->depth : d->cols), d->a, type,
                             (int)(d->a_turned ? d->rows : d->depth), &zero, d->out, type, (int)d->cols,
                             d->tf32 ? SUM_TF32 : SUM_F32, ALGO));
}
