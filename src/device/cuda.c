/* GPUs, their contexts, kernels and tensor maps. Memory and time are in cuda_time.c. */
#include "device/driver.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* CUdevice_attribute */
enum {
    CLOCK_RATE = 13,
    PROCESSORS = 16,
    MEMORY_CLOCK_RATE = 36,
    L2_SIZE = 38,
    MAJOR = 75,
    MINOR = 76,
    SHARED_OF_BLOCK = 97
};
/* CUfunction_attribute */
enum { STATIC_SHARED = 1, LOCAL_BYTES = 3, REGISTERS = 4, DYNAMIC_SHARED_MOST = 8 };

static struct {
    int n;
    sp_gpu gpu[SP_GPUS];
    int device[SP_GPUS]; /* CUdevice */
    char problem[512];
} found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ------------------------------------------------------------------ which there are */
/* The best target that it runs and that SPARTA_TARGET allows. */
static sp_target target_of(const sp_gpu *g)
{
    const bool runs[] = {
        [SP_TARGET_SM90A] = g->major == 9 && g->minor == 0, [SP_TARGET_SM80] = g->major >= 8};
    for (int t = SP_CPU_TARGETS; t < SP_TARGETS; t++)
        if (runs[t] && sp_target_allowed((sp_target)t)) return (sp_target)t;
    return SP_TARGETS;
}

/* 0 where the driver does not say. */
static int ask(const sp_driver *d, int attribute, int device)
{
    int value = 0;
    return d->cuDeviceGetAttribute(&value, attribute, device) ? 0 : value;
}

static int examine(const sp_driver *d, int number)
{
    sp_gpu *g = &found.gpu[number];
    const int error = d->cuDeviceGet(&found.device[number], number),
              device = error ? 0 : found.device[number];
    if (error) return error;
    g->number = number;
    if (d->cuDeviceGetName(g->name, sizeof g->name, device)) snprintf(g->name, sizeof g->name, "a GPU");
    g->name[sizeof g->name - 1] = 0;
    sp_clean(g->name);
    g->major = ask(d, MAJOR, device);
    g->minor = ask(d, MINOR, device);
    g->processors = ask(d, PROCESSORS, device);
    if (d->cuDeviceTotalMem_v2(&g->memory, device)) g->memory = 0;
    g->l2 = (size_t)ask(d, L2_SIZE, device);
    g->shared = ask(d, SHARED_OF_BLOCK, device);
    g->clock = ask(d, CLOCK_RATE, device);
    g->memory_clock = ask(d, MEMORY_CLOCK_RATE, device);
    g->target = target_of(g);
    return SP_CUDA_OK;
}

static void find_all(void)
{
    const sp_driver *d = sp_driver_open();
    int n = 0;
    if (!d) {
        snprintf(found.problem, sizeof found.problem, "%s", sp_driver_problem());
        return;
    }
    int error = d->cuDeviceGetCount(&n);
    for (int i = 0; !error && i < SP_MIN(n, (int)SP_GPUS); i++) error = examine(d, i);
    if (error)
        sp_driver_explain("cuDeviceGetCount", error, NULL, found.problem, sizeof found.problem);
    else if (n <= 0)
        snprintf(found.problem, sizeof found.problem,
                 "the CUDA driver sees no GPU; nvidia-smi shows those of this machine, CUDA_VISIBLE_DEVICES "
                 "hides some");
    else
        found.n = SP_MIN(n, (int)SP_GPUS);
}

int sp_gpu_count(void)
{
    pthread_once(&once, find_all);
    return found.n;
}

const sp_gpu *sp_gpu_at(int number)
{
    return number >= 0 && number < sp_gpu_count() ? &found.gpu[number] : NULL;
}

const char *sp_gpu_problem(void)
{
    pthread_once(&once, find_all);
    return found.problem;
}

/* ------------------------------------------------------------------ contexts */
/* The primary context of a GPU, retained by whoever asks first. */
static sparta_status context_of(const sp_complaint *c, int number, void **out)
{
    static _Atomic(void *) context[SP_GPUS];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *made = atomic_load(&context[number]);
    int error = SP_CUDA_OK;
    if (!made) {
        pthread_mutex_lock(&lock);
        made = atomic_load(&context[number]);
        if (!made) error = sp_driver_open()->cuDevicePrimaryCtxRetain(&made, found.device[number]);
        if (!error) atomic_store(&context[number], made);
        pthread_mutex_unlock(&lock);
    }
    if (!error) *out = made;
    return sp_driver_check(c, "cuDevicePrimaryCtxRetain", error, NULL);
}

sparta_status sp_gpu_enter(const sp_complaint *c, const sp_gpu *gpu, sp_gpu_visit *out)
{
    void *ours = NULL, *current = NULL;
    SP_TRY(context_of(c, gpu->number, &ours));
    SP_DRIVE(c, cuCtxGetCurrent, &current);
    if (current != ours) SP_DRIVE(c, cuCtxPushCurrent_v2, ours);
    *out = (sp_gpu_visit){gpu->number,
                          current &&
                              current != ours}; /* where none was, ours stays, as the CUDA runtime does it */
    return SPARTA_OK;
}

void sp_gpu_leave(const sp_gpu_visit *visit)
{
    void *ours;
    if (visit->pushed) sp_driver_open()->cuCtxPopCurrent_v2(&ours);
}

/* ------------------------------------------------------------------ loading */
/* CUjit_option, and CUstreamCaptureMode */
enum { LOG = 5, LOG_SIZE = 6, RELAXED = 2 };

static sparta_status describe(const sp_complaint *c, const sp_gpu *gpu, void *module, const char *entry,
                              sp_gpu_kernel *out)
{
    sp_gpu_kernel k = {.number = gpu->number};
    int fixed = 0;
    SP_DRIVE(c, cuModuleGetFunction, &k.function, module, entry);
    SP_DRIVE(c, cuFuncGetAttribute, &k.registers, REGISTERS, k.function);
    SP_DRIVE(c, cuFuncGetAttribute, &k.local, LOCAL_BYTES, k.function);
    SP_DRIVE(c, cuFuncGetAttribute, &fixed, STATIC_SHARED, k.function);
    /* A limit only: launches say what they use. So launches need not ask for more than 48 KB. */
    if (gpu->shared > fixed)
        SP_DRIVE(c, cuFuncSetAttribute, k.function, DYNAMIC_SHARED_MOST, gpu->shared - fixed);
    *out = k;
    return SPARTA_OK;
}

/* PTX is text: the driver reads it to its final 0, a cubin as long as its head says. */
static sparta_status load(const sp_complaint *c, const sp_gpu *gpu, const void *image, const char *entry,
                          sp_gpu_kernel *out)
{
    char log[512] = "";
    int option[] = {LOG, LOG_SIZE};
    void *value[] = {log, (void *)sizeof log}, *module;
    const int error = sp_driver_open()->cuModuleLoadDataEx(&module, image, SP_COUNT(option), option, value);
    log[sizeof log - 1] = 0;
    sp_clean(log);
    SP_TRY(sp_driver_check(c, "cuModuleLoadDataEx", error, log));
    const sparta_status status = describe(c, gpu, module, entry, out);
    if (status != SPARTA_OK) sp_driver_open()->cuModuleUnload(module);
    return status;
}

sparta_status sp_gpu_load(const sp_complaint *c, const sp_gpu *gpu, const void *image, size_t size,
                          const char *entry, sp_gpu_kernel *out)
{
    static const char elf[4] = "\177ELF";
    sp_gpu_visit visit;
    int mode = RELAXED;
    if (size < sizeof elf || (memcmp(image, elf, sizeof elf) && ((const char *)image)[size - 1]))
        return sp_refuse(c, SPARTA_E_FORMAT, "kernel %s: %zu bytes that are neither a cubin nor PTX", entry,
                         size);
    SP_TRY(sp_gpu_enter(c, gpu, &visit));
    const bool exchanged = sp_driver_open()->cuThreadExchangeStreamCaptureMode(&mode) == SP_CUDA_OK;
    const sparta_status status = load(c, gpu, image, entry, out);
    if (exchanged) (void)sp_driver_open()->cuThreadExchangeStreamCaptureMode(&mode);
    sp_gpu_leave(&visit);
    return status;
}

/* ------------------------------------------------------------------ launching */
enum { ATTRIBUTES = 2 };

static unsigned at_least_1(unsigned n)
{
    return n ? n : 1;
}

static sp_driver_launch launch_of(const sp_grid *grid, void *stream,
                                  sp_driver_attribute attribute[ATTRIBUTES])
{
    sp_driver_launch l = {.grid = {at_least_1(grid->x), at_least_1(grid->y), at_least_1(grid->z)},
                          .block = {grid->threads, 1, 1},
                          .shared = grid->shared,
                          .stream = stream,
                          .attribute = attribute};
    if (grid->cluster > 1)
        attribute[l.n++] =
            (sp_driver_attribute){.id = SP_LAUNCH_CLUSTER, .value.cluster = {grid->cluster, 1, 1}};
    if (grid->overlap) attribute[l.n++] = (sp_driver_attribute){.id = SP_LAUNCH_OVERLAP, .value.on = 1};
    return l;
}

sparta_status sp_gpu_launch(const sp_complaint *c, const sp_gpu_kernel *kernel, const sp_grid *grid,
                            void *stream, void **argument)
{
    sp_driver_attribute attribute[ATTRIBUTES];
    const sp_driver_launch launch = launch_of(grid, stream, attribute);
    SP_DRIVE(c, cuLaunchKernelEx, &launch, kernel->function, argument, NULL);
    return SPARTA_OK;
}

int sp_gpu_holds(const sp_gpu *gpu, const sp_gpu_kernel *kernel, const sp_grid *grid)
{
    const sp_complaint nobody = {.where = ""};
    const sp_driver *d = sp_driver_open();
    sp_driver_attribute attribute[ATTRIBUTES];
    sp_gpu_visit visit;
    sp_grid one = *grid;
    int n = 0, error;
    if (sp_gpu_enter(&nobody, gpu, &visit) != SPARTA_OK) return 0;
    one.overlap = false;
    one.x = at_least_1(one.cluster); /* whatever grid will be launched, whole clusters */
    one.y = one.z = 1;
    const sp_driver_launch launch = launch_of(&one, NULL, attribute);
    if (grid->cluster > 1)
        error = d->cuOccupancyMaxActiveClusters(&n, kernel->function, &launch);
    else
        error = d->cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel->function, (int)grid->threads,
                                                               grid->shared);
    sp_gpu_leave(&visit);
    if (error || n < 0) return 0;
    return grid->cluster > 1 ? n * (int)grid->cluster : n * gpu->processors;
}

/* ------------------------------------------------------------------ tensor maps */
enum { BOX_MOST = 256, UNIT = 16 /* bytes */ };
/* CUtensorMapDataType, Interleave, Swizzle, L2promotion, FloatOOBfill */
enum { MAP_F16 = 6, MAP_F32 = 7, MAP_BF16 = 9 };
enum { PLAIN = 0, PROMOTE_128 = 2, ZEROS = 0 };
enum { SWIZZLE_NONE, SWIZZLE_32, SWIZZLE_64, SWIZZLE_128 };

/* -1: none. */
static int map_type(sparta_dtype dtype)
{
    return dtype == SPARTA_F16    ? MAP_F16
           : dtype == SPARTA_BF16 ? MAP_BF16
           : dtype == SPARTA_F32  ? MAP_F32
                                  : -1;
}

static int swizzle_of(int64_t bytes)
{
    return bytes == 32 ? SWIZZLE_32 : bytes == 64 ? SWIZZLE_64 : bytes == 128 ? SWIZZLE_128 : SWIZZLE_NONE;
}

bool sp_tensor_map_can(const sp_box *box)
{
    const int64_t most = INT64_C(1) << 32, stride_most = INT64_C(1) << 40;
    if (map_type(box->dtype) < 0) return false;
    const int64_t bytes = (int64_t)sparta_dtype_size(box->dtype);
    return (uintptr_t)box->base % UNIT == 0 && box->inner > 0 && box->inner <= most && box->outer > 0 &&
           box->outer <= most && box->step >= box->inner && box->step < stride_most / bytes &&
           box->step * bytes % UNIT == 0 && box->box_inner > 0 && box->box_inner <= BOX_MOST &&
           box->box_inner * bytes % UNIT == 0 && box->box_outer > 0 && box->box_outer <= BOX_MOST;
}

sparta_status sp_tensor_map_make(const sp_complaint *c, const sp_box *box, sp_tensor_map *out)
{
    if (!sp_tensor_map_can(box))
        return sp_refuse(
            c, SPARTA_E_UNSUPPORTED,
            "a matrix of %lldx%lld with %lld elements from a row to the next cannot be copied by "
            "boxes of %dx%d; align it to 16 bytes",
            (long long)box->outer, (long long)box->inner, (long long)box->step, box->box_outer,
            box->box_inner);
    const size_t bytes = sparta_dtype_size(box->dtype);
    const uint64_t size[] = {(uint64_t)box->inner, (uint64_t)box->outer},
                   stride[] = {(uint64_t)box->step * bytes};
    const uint32_t side[] = {(uint32_t)box->box_inner, (uint32_t)box->box_outer}, every[] = {1, 1};
    sp_tensor_map map;
    SP_DRIVE(c, cuTensorMapEncodeTiled, &map, map_type(box->dtype), SP_COUNT(size),
             (void *)(uintptr_t)box->base, size, stride, side, every, PLAIN,
             swizzle_of((int64_t)(side[0] * bytes)), PROMOTE_128, ZEROS);
    *out = map;
    return SPARTA_OK;
}
