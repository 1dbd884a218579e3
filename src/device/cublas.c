/* cuBLASLt, without a header of NVIDIA's. Constants are those of cublasLt.h of CUDA 12 and 13. */
#include "device/cublas.h"
#include "device/driver.h"
#include "device/nvidia.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* cudaDataType, cublasComputeType_t, cublasOperation_t */
enum { TYPE_F32 = 0, TYPE_F16 = 2, TYPE_BF16 = 14, SUM_F32 = 68, SUM_TF32 = 77, TURNED = 1 };
/* cublasLtMatmulDescAttributes_t, cublasLtEpilogue_t */
enum { TURN_A = 3, TURN_B = 4, EPILOGUE = 7, BIAS_POINTER = 8, EPILOGUE_BIAS = 4 };
/* cublasLtMatmulPreferenceAttributes_t, cublasLtReductionScheme_t */
enum { MOST_ROOM = 1, REDUCTIONS = 3, ALIGN_A = 5, ALIGN_B = 6, ALIGN_C = 7, ALIGN_D = 8 };
enum { IN_F32 = 2, IN_ANY_WAY = 7 };
/* cublasStatus_t, CUstreamCaptureMode */
enum { ALLOC_FAILED = 3, NOT_SUPPORTED = 15, RELAXED = 2 };

static struct {
#define SP_CUBLAS(symbol, arguments) int(*symbol) arguments;
#include "device/cublas.def"
#undef SP_CUBLAS
    char problem[512];
} cublas;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_cublas(void)
{
    static const sp_nvidia_library library = {
        "cuBLASLt", "SPARTA_CUBLAS", {"libcublasLt.so.13", "libcublasLt.so.12"}, "nvidia-cublas"};
    const sp_nvidia_symbol symbols[] = {
#define SP_CUBLAS(symbol, arguments) {#symbol, &cublas.symbol},
#include "device/cublas.def"
#undef SP_CUBLAS
        {NULL, NULL}};
    void *handle = sp_nvidia_open(&library, cublas.problem, sizeof cublas.problem);
    const char *missing = handle ? sp_nvidia_find(handle, symbols) : NULL;
    if (missing)
        snprintf(cublas.problem, sizeof cublas.problem,
                 "cuBLASLt lacks %s of CUDA 12; install a newer one, or name it by SPARTA_CUBLAS", missing);
}

const char *sp_cublas_problem(void)
{
    pthread_once(&once, open_cublas);
    return cublas.problem;
}

static sparta_status check(const sp_complaint *c, const char *call, int result)
{
    const sparta_status status = result == ALLOC_FAILED    ? SPARTA_E_MEMORY
                                 : result == NOT_SUPPORTED ? SPARTA_E_UNSUPPORTED
                                                           : SPARTA_E_DEVICE;
    if (!result) return SPARTA_OK;
    return sp_refuse(c, status, "%s: status %d; %s", call, result,
                     result == ALLOC_FAILED ? "free some of the GPU's memory, or use smaller sizes"
                                            : "SPARTA_CUBLAS names another cuBLASLt");
}
#define CALL(c, symbol, ...) SP_TRY(check(c, #symbol, cublas.symbol(__VA_ARGS__)))

/* ------------------------------------------------------------------ handles */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of handles and plans */

static sparta_status handle_of(const sp_complaint *c, const sp_gpu *gpu, void **out)
{
    static void *handles[SP_GPUS];
    pthread_mutex_lock(&lock);
    void **handle = &handles[gpu->number];
    const int result = *handle ? 0 : cublas.cublasLtCreate(handle);
    if (result) *handle = NULL;
    *out = *handle;
    pthread_mutex_unlock(&lock);
    return check(c, "cublasLtCreate", result);
}

/* ------------------------------------------------------------------ a product, as cuBLASLt has it
 * It counts columns first: what is row-major is turned there, so out' = B' A'. */
typedef struct described {
    void *product, *a, *b, *add, *out; /* layouts: a is our b */
} described;

static int type_of(sparta_dtype dtype)
{
    return dtype == SPARTA_F16 ? TYPE_F16 : dtype == SPARTA_BF16 ? TYPE_BF16 : TYPE_F32;
}

static sparta_status make_layout(const sp_complaint *c, sparta_dtype dtype, int64_t lines, int64_t length,
                                 int64_t step, void **out)
{
    CALL(c, cublasLtMatrixLayoutCreate, out, type_of(dtype), (uint64_t)length, (uint64_t)lines, step);
    return SPARTA_OK;
}

static sparta_status set(const sp_complaint *c, const described *all, int attribute, const void *value,
                         size_t bytes)
{
    CALL(c, cublasLtMatmulDescSetAttribute, all->product, attribute, value, bytes);
    return SPARTA_OK;
}

static sparta_status describe(const sp_complaint *c, const sp_dense *d, described *all)
{
    const int turned = TURNED, epilogue = EPILOGUE_BIAS;
    CALL(c, cublasLtMatmulDescCreate, &all->product, d->tf32 ? SUM_TF32 : SUM_F32, TYPE_F32);
    if (d->b_turned) SP_TRY(set(c, all, TURN_A, &turned, sizeof turned));
    if (d->a_turned) SP_TRY(set(c, all, TURN_B, &turned, sizeof turned));
    if (d->bias) {
        SP_TRY(set(c, all, EPILOGUE, &epilogue, sizeof epilogue));
        SP_TRY(set(c, all, BIAS_POINTER, &d->bias, sizeof d->bias));
    }
    SP_TRY(make_layout(c, d->dtype, d->b_turned ? d->cols : d->depth, d->b_turned ? d->depth : d->cols,
                       d->b_step, &all->a));
    SP_TRY(make_layout(c, d->dtype, d->a_turned ? d->depth : d->rows, d->a_turned ? d->rows : d->depth,
                       d->a_step, &all->b));
    SP_TRY(make_layout(c, d->out_dtype, d->rows, d->cols, d->add ? d->add_step : d->out_step, &all->add));
    return make_layout(c, d->out_dtype, d->rows, d->cols, d->out_step, &all->out);
}

static void forget(described *all)
{
    void *const layouts[] = {all->a, all->b, all->add, all->out};
    for (size_t i = 0; i < SP_COUNT(layouts); i++)
        if (layouts[i]) cublas.cublasLtMatrixLayoutDestroy(layouts[i]);
    if (all->product) cublas.cublasLtMatmulDescDestroy(all->product);
}

/* ------------------------------------------------------------------ plans: which algorithm, once for a shape */
/* Without gaps: compared byte by byte. */
typedef struct key {
    int64_t gpu, rows, cols, depth, a_step, b_step, out_step, add_step;
    int64_t flags;                /* types, turns, what is added */
    int64_t a, b, out, add, bias; /* bytes they are aligned to */
} key;
typedef struct plan {
    key key;
    sp_cublas_found found;
} plan;
enum { PLANS = 64, MOST_ALIGNED = 256 };
static plan plans[PLANS];

static int64_t align_of(const void *p)
{
    const uintptr_t all = (uintptr_t)p | MOST_ALIGNED;
    return (int64_t)(all & -all);
}

static key key_of(const sp_gpu *gpu, const sp_dense *d)
{
    const bool bits[] = {d->a_turned, d->b_turned, d->tf32, d->any_order, d->bias, d->add};
    key k = {.gpu = gpu->number + 1,
             .rows = d->rows,
             .cols = d->cols,
             .depth = d->depth,
             .a_step = d->a_step,
             .b_step = d->b_step,
             .out_step = d->out_step,
             .add_step = d->add ? d->add_step : 0,
             .flags = (int64_t)d->dtype << 16 | (int64_t)d->out_dtype << 8,
             .a = align_of(d->a),
             .b = align_of(d->b),
             .out = align_of(d->out),
             .add = align_of(d->add),
             .bias = align_of(d->bias)};
    for (size_t i = 0; i < SP_COUNT(bits); i++) k.flags |= (int64_t)bits[i] << i;
    return k;
}

static plan *slot_of(const key *k)
{
    uint64_t mixed = 0;
    int64_t all[sizeof *k / sizeof(int64_t)];
    memcpy(all, k, sizeof all);
    for (size_t i = 0; i < SP_COUNT(all); i++) mixed = (mixed ^ (uint64_t)all[i]) * 0x9e3779b97f4a7c15u;
    return &plans[(mixed >> 32) % PLANS];
}

static sparta_status prefer(const sp_complaint *c, const key *k, bool any_order, void *preference)
{
    const size_t most = SP_CUBLAS_ROOM;
    const uint32_t reductions = any_order ? IN_ANY_WAY : IN_F32;
    const struct {
        int attribute;
        uint32_t bytes;
    } aligned[] = {{ALIGN_A, (uint32_t)k->b},
                   {ALIGN_B, (uint32_t)k->a},
                   {ALIGN_C, (uint32_t)k->add},
                   {ALIGN_D, (uint32_t)k->out}};
    CALL(c, cublasLtMatmulPreferenceSetAttribute, preference, MOST_ROOM, &most, sizeof most);
    CALL(c, cublasLtMatmulPreferenceSetAttribute, preference, REDUCTIONS, &reductions, sizeof reductions);
    for (size_t i = 0; i < SP_COUNT(aligned); i++)
        CALL(c, cublasLtMatmulPreferenceSetAttribute, preference, aligned[i].attribute, &aligned[i].bytes,
             sizeof aligned[i].bytes);
    return SPARTA_OK;
}

static sparta_status ask(const sp_complaint *c, void *handle, const described *all, const sp_dense *d,
                         void *preference, sp_cublas_found *out)
{
    int n = 0;
    CALL(c, cublasLtMatmulAlgoGetHeuristic, handle, all->product, all->a, all->b, all->add, all->out,
         preference, 1, out, &n);
    if (n < 1 || out->state || out->room > SP_CUBLAS_ROOM)
        return sp_refuse(
            c, SPARTA_E_UNSUPPORTED,
            "cuBLASLt has no algorithm for %lldx%lldx%lld in %s; SPARTA_CUBLAS names another one",
            (long long)d->rows, (long long)d->cols, (long long)d->depth, sparta_dtype_name(d->dtype));
    return SPARTA_OK;
}

/* Under the lock. */
static sparta_status plan_anew(const sp_complaint *c, void *handle, const described *all, const sp_dense *d,
                               const key *k, sp_cublas_found *out)
{
    void *preference = NULL;
    CALL(c, cublasLtMatmulPreferenceCreate, &preference);
    sparta_status status = prefer(c, k, d->any_order, preference);
    if (!status) status = ask(c, handle, all, d, preference, out);
    cublas.cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static sparta_status plan_of(const sp_complaint *c, const sp_gpu *gpu, void *handle, const described *all,
                             const sp_dense *d, sp_cublas_found *out)
{
    const key k = key_of(gpu, d);
    plan *slot = slot_of(&k);
    sparta_status status = SPARTA_OK;
    pthread_mutex_lock(&lock);
    if (memcmp(&slot->key, &k, sizeof k) == 0)
        *out = slot->found;
    else
        status = plan_anew(c, handle, all, d, &k, out);
    if (!status) *slot = (plan){k, *out};
    pthread_mutex_unlock(&lock);
    return status;
}

/* ------------------------------------------------------------------ running */
static sparta_status multiply(const sp_complaint *c, const sp_gpu *gpu, const sp_dense *d, void *stream,
                              described *all)
{
    static const float one = 1, zero = 0;
    sp_cublas_found found = {0};
    void *handle = NULL;
    SP_TRY(handle_of(c, gpu, &handle));
    SP_TRY(describe(c, d, all));
    SP_TRY(plan_of(c, gpu, handle, all, d, &found));
    CALL(c, cublasLtMatmul, handle, all->product, &one, d->b, all->a, d->a, all->b, d->add ? &one : &zero,
         d->add ? d->add : d->out, all->add, d->out, all->out, &found.algorithm, d->room, found.room, stream);
    return SPARTA_OK;
}

/* It may load a kernel, which a capture would refuse. */
sparta_status sp_cublas_multiply(const sp_complaint *c, const sp_gpu *gpu, const sp_dense *d, void *stream)
{
    described all = {0};
    int mode = RELAXED;
    if (*sp_cublas_problem()) return sp_refuse(c, SPARTA_E_UNSUPPORTED, "%s", sp_cublas_problem());
    const bool exchanged = sp_driver_open()->cuThreadExchangeStreamCaptureMode(&mode) == SP_CUDA_OK;
    const sparta_status status = multiply(c, gpu, d, stream, &all);
    forget(&all);
    if (exchanged) (void)sp_driver_open()->cuThreadExchangeStreamCaptureMode(&mode);
    return status;
}
