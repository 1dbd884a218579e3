/* A CUDA driver for tests on machines without one: all of device/driver.def, on the host's memory. It counts what is alive.
 *
 * The environment's FAKE_CUDA says what it is: "version=13000 devices=1 major=9 minor=0 init=0". With -DFAKE_OLD there are no tensor maps, as before CUDA 12. */
#include "fake/cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT                       __attribute__((visibility("default")))
#define SP_DRIVER(symbol, arguments) EXPORT int symbol arguments;
#include "device/driver.def"
#undef SP_DRIVER
EXPORT fake_state *fake_cuda(void);

enum { OK = 0, INVALID = 1, NOT_FOUND = 500, INVALID_IMAGE = 200, DEPTH = 16 };

static fake_state state;
static void *stack[DEPTH];
static char contexts[SP_GPUS],
    modules[64]; /* their addresses are the handles; modules stay for the process */
static int mode;

fake_state *fake_cuda(void)
{
    return &state;
}

static int setting(const char *name, int otherwise)
{
    char key[32];
    const char *all = getenv("FAKE_CUDA");
    snprintf(key, sizeof key, "%s=", name);
    const char *at = all ? strstr(all, key) : NULL;
    return at ? atoi(at + strlen(key)) : otherwise;
}

/* At the head of every call: fails when the test said so. */
#define MAY_FAIL                                                                                             \
    if (!strcmp(state.symbol, __func__)) return state.result

/* A new thing that `count` counts. */
static int make(void **out, int *count)
{
    *out = malloc(1);
    if (!*out) return SP_CUDA_OUT_OF_MEMORY;
    ++*count;
    return OK;
}
static int drop(void *thing, int *count)
{
    free(thing);
    --*count;
    return OK;
}

/* ------------------------------------------------------------------ the driver and its devices */
int cuInit(unsigned flags)
{
    return flags ? INVALID : setting("init", OK);
}
int cuDriverGetVersion(int *version)
{
    *version = setting("version", 13000);
    return OK;
}
int cuGetErrorName(int error, const char **name)
{
    *name = error == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                           : "CUDA_ERROR_FAKE";
    return OK;
}
int cuGetErrorString(int error, const char **text)
{
    *text = error == 2     ? "out of memory"
            : error == 700 ? "an illegal memory access was encountered"
                           : "as the test wants";
    return OK;
}
int cuDeviceGetCount(int *count)
{
    MAY_FAIL;
    *count = setting("devices", 1);
    return OK;
}
int cuDeviceGet(int *device, int number)
{
    *device = number;
    return number < setting("devices", 1) ? OK : INVALID;
}
int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return OK;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = (size_t)(device + 1) << 30;
    return OK;
}
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const struct {
        int attribute, value;
    } known[] = {{13, 1980000}, {16, 132}, {36, 3201000}, {38, 50 << 20}, {97, 232448}};
    (void)device;
    *value = attribute == 75 ? setting("major", 9) : setting("minor", 0);
    if (attribute == 75 || attribute == 76) return OK;
    for (size_t i = 0; i < SP_COUNT(known); i++)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return OK;
        }
    return INVALID;
}

/* ------------------------------------------------------------------ contexts */
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    MAY_FAIL;
    state.retained++;
    *context = &contexts[device];
    return OK;
}
int cuCtxGetCurrent(void **context)
{
    *context = state.depth ? stack[state.depth - 1] : NULL;
    return OK;
}
int cuCtxPushCurrent_v2(void *context)
{
    MAY_FAIL;
    if (state.depth == DEPTH) return INVALID;
    stack[state.depth++] = context;
    return OK;
}
int cuCtxPopCurrent_v2(void **context)
{
    if (!state.depth) return INVALID;
    *context = stack[--state.depth];
    return OK;
}
int cuCtxSynchronize(void)
{
    MAY_FAIL;
    return OK;
}

/* ------------------------------------------------------------------ kernels */
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *option, void **value)
{
    const int result = !strcmp(state.symbol, __func__)     ? state.result
                       : memcmp(image, "\177ELF", 4) == 0  ? OK
                       : strstr(image, ".version") != NULL ? OK
                                                           : INVALID_IMAGE;
    for (unsigned i = 0; result && i + 1 < n; i++)
        if (option[i] == 5 && option[i + 1] == 6)
            snprintf(value[i], (size_t)(uintptr_t)value[i + 1], "ptxas\nsaid no");
    if (result) return result;
    if (state.modules == SP_COUNT(modules)) return SP_CUDA_OUT_OF_MEMORY;
    state.relaxed += mode == 2;
    *module = &modules[state.modules++];
    return OK;
}
int cuModuleUnload(void *module)
{
    (void)module;
    state.modules--;
    return OK;
}
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    if (!strcmp(name, "missing")) return NOT_FOUND;
    *function = module;
    return OK;
}
int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    (void)function;
    *value = attribute == 1 ? 1024 : attribute == 4 ? 168 : 0;
    return OK;
}
int cuFuncSetAttribute(void *function, int attribute, int value)
{
    (void)function;
    if (attribute != 8) return INVALID;
    state.shared_most = value;
    return OK;
}
int cuLaunchKernelEx(const sp_driver_launch *launch, void *function, void **argument, void **extra)
{
    MAY_FAIL;
    if (!function || !argument || extra || launch->n > SP_COUNT(state.attribute)) return INVALID;
    state.launches++;
    state.launch = *launch;
    memcpy(state.attribute, launch->attribute, launch->n * sizeof *launch->attribute);
    if (state.filled && state.spoil && launch->block[0] == state.spoil) memset(state.filled, 0, 4);
    return OK;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared)
{
    (void)function, (void)shared;
    *blocks = 2048 / threads;
    return OK;
}
int cuOccupancyMaxActiveClusters(int *clusters, void *function, const sp_driver_launch *launch)
{
    (void)function;
    if (launch->n != 1 || launch->attribute[0].id != 4 ||
        launch->grid[0] % launch->attribute[0].value.cluster[0])
        return INVALID;
    *clusters = 60;
    return OK;
}
#ifndef FAKE_OLD
int cuTensorMapEncodeTiled(void *map, int dtype, uint32_t rank, void *base, const uint64_t *sizes,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                           int interleave, int swizzle, int promotion, int fill)
{
    MAY_FAIL;
    if (rank != 2 || !base || element_strides[0] != 1 || interleave || promotion != 2 || fill) return INVALID;
    memset(map, 7, 128);
    state.map_type = dtype;
    state.map_swizzle = swizzle;
    memcpy(state.map_size, sizes, sizeof state.map_size);
    state.map_stride = strides[0];
    memcpy(state.map_box, box, sizeof state.map_box);
    return OK;
}
#endif

/* ------------------------------------------------------------------ memory */
int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    MAY_FAIL;
    void *p = malloc(bytes);
    if (!p) return SP_CUDA_OUT_OF_MEMORY;
    state.allocations++;
    *address = (uint64_t)(uintptr_t)p;
    return OK;
}
int cuMemFree_v2(uint64_t address)
{
    return drop((void *)(uintptr_t)address, &state.allocations);
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    MAY_FAIL;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return OK;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    MAY_FAIL;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return OK;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    MAY_FAIL;
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return OK;
}
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream)
{
    MAY_FAIL;
    (void)stream;
    memset((void *)(uintptr_t)to, byte, bytes);
    state.filled = (void *)(uintptr_t)to;
    return OK;
}

/* ------------------------------------------------------------------ streams, graphs, events */
int cuStreamCreate(void **stream, unsigned flags)
{
    MAY_FAIL;
    (void)flags;
    return make(stream, &state.streams);
}
int cuStreamDestroy_v2(void *stream)
{
    return drop(stream, &state.streams);
}
int cuStreamSynchronize(void *stream)
{
    MAY_FAIL;
    (void)stream;
    return OK;
}
int cuStreamBeginCapture_v2(void *stream, int how)
{
    MAY_FAIL;
    return stream && how == 2 ? OK : INVALID;
}
int cuStreamEndCapture(void *stream, void **graph)
{
    MAY_FAIL;
    return stream ? make(graph, &state.graphs) : INVALID;
}
int cuThreadExchangeStreamCaptureMode(int *now)
{
    const int before = mode;
    mode = *now;
    *now = before;
    return OK;
}
int cuGraphInstantiateWithFlags(void **runnable, void *graph, unsigned long long flags)
{
    MAY_FAIL;
    return graph && !flags ? make(runnable, &state.runnables) : INVALID;
}
int cuGraphLaunch(void *runnable, void *stream)
{
    MAY_FAIL;
    return runnable && stream ? OK : INVALID;
}
int cuGraphExecDestroy(void *runnable)
{
    return drop(runnable, &state.runnables);
}
int cuGraphDestroy(void *graph)
{
    return drop(graph, &state.graphs);
}
int cuEventCreate(void **event, unsigned flags)
{
    MAY_FAIL;
    (void)flags;
    return make(event, &state.events);
}
int cuEventRecord(void *event, void *stream)
{
    MAY_FAIL;
    return event && stream ? OK : INVALID;
}
int cuEventSynchronize(void *event)
{
    MAY_FAIL;
    return event ? OK : INVALID;
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to)
{
    MAY_FAIL;
    *milliseconds = state.quick && state.launch.block[0] == state.quick ? 10 : 20;
    return from && to ? OK : INVALID;
}
int cuEventDestroy_v2(void *event)
{
    return drop(event, &state.events);
}
