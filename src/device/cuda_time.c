/* Memory of a GPU, streams, and honest times: calls captured into a graph, so that nothing of the host is in them. */
#include "device/driver.h"
#include <stdlib.h>

enum { NON_BLOCKING = 1, RELAXED = 2 }; /* CUstream_flags, CUstreamCaptureMode */

/* ------------------------------------------------------------------ memory */
static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

sparta_status sp_gpu_alloc(const sp_complaint *c, size_t bytes, void **out)
{
    uint64_t at = 0;
    SP_DRIVE(c, cuMemAlloc_v2, &at, bytes ? bytes : 1);
    *out = (void *)(uintptr_t)at;
    return SPARTA_OK;
}

void sp_gpu_free(void *p)
{
    if (p) sp_driver_open()->cuMemFree_v2(address(p));
}

sparta_status sp_gpu_put(const sp_complaint *c, void *to, const void *from, size_t bytes)
{
    if (bytes) SP_DRIVE(c, cuMemcpyHtoD_v2, address(to), from, bytes);
    return SPARTA_OK;
}

/* Streams of their own do not wait for the default one, so all of them are waited for. */
sparta_status sp_gpu_get(const sp_complaint *c, void *to, const void *from, size_t bytes)
{
    SP_DRIVE(c, cuCtxSynchronize);
    if (bytes) SP_DRIVE(c, cuMemcpyDtoH_v2, to, address(from), bytes);
    return SPARTA_OK;
}

sparta_status sp_gpu_fill(const sp_complaint *c, void *to, uint8_t byte, size_t bytes, void *stream)
{
    if (bytes) SP_DRIVE(c, cuMemsetD8Async, address(to), byte, bytes, stream);
    return SPARTA_OK;
}

sparta_status sp_gpu_copy(const sp_complaint *c, void *to, const void *from, size_t bytes, void *stream)
{
    if (bytes) SP_DRIVE(c, cuMemcpyDtoDAsync_v2, address(to), address(from), bytes, stream);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ streams */
sparta_status sp_gpu_wait(const sp_complaint *c, void *stream)
{
    SP_DRIVE(c, cuStreamSynchronize, stream);
    return SPARTA_OK;
}

sparta_status sp_gpu_stream(const sp_complaint *c, void **out)
{
    SP_DRIVE(c, cuStreamCreate, out, NON_BLOCKING);
    return SPARTA_OK;
}

void sp_gpu_stream_free(void *stream)
{
    if (stream) sp_driver_open()->cuStreamDestroy_v2(stream);
}

/* ------------------------------------------------------------------ time */
typedef struct watch {
    void *stream, *graph, *runnable, *begin, *end;
} watch;

static void put_away(const watch *w)
{
    const sp_driver *d = sp_driver_open();
    if (w->begin) d->cuEventDestroy_v2(w->begin);
    if (w->end) d->cuEventDestroy_v2(w->end);
    if (w->runnable) d->cuGraphExecDestroy(w->runnable);
    if (w->graph) d->cuGraphDestroy(w->graph);
    sp_gpu_stream_free(w->stream);
}

/* A capture is ended whatever happens in it: else its stream could not be put away. */
static sparta_status capture(const sp_complaint *c, sparta_status (*fn)(void *arg, void *stream), void *arg,
                             int calls, watch *w)
{
    sparta_status status = SPARTA_OK;
    SP_DRIVE(c, cuStreamBeginCapture_v2, w->stream, RELAXED);
    for (int i = 0; i < calls && status == SPARTA_OK; i++) status = fn(arg, w->stream);
    const int error = sp_driver_open()->cuStreamEndCapture(w->stream, &w->graph);
    SP_TRY(status);
    return sp_driver_check(c, "cuStreamEndCapture", error, NULL);
}

static sparta_status prepare(const sp_complaint *c, sparta_status (*fn)(void *arg, void *stream), void *arg,
                             int calls, watch *w)
{
    SP_TRY(sp_gpu_stream(c, &w->stream));
    SP_TRY(fn(arg, w->stream)); /* kernels are compiled and loaded, caches are warm */
    SP_TRY(sp_gpu_wait(c, w->stream));
    SP_TRY(capture(c, fn, arg, calls, w));
    SP_DRIVE(c, cuGraphInstantiateWithFlags, &w->runnable, w->graph, 0);
    SP_DRIVE(c, cuEventCreate, &w->begin, 0);
    SP_DRIVE(c, cuEventCreate, &w->end, 0);
    SP_DRIVE(c, cuGraphLaunch, w->runnable, w->stream);
    return sp_gpu_wait(c, w->stream);
}

static sparta_status replay(const sp_complaint *c, const watch *w, float *milliseconds)
{
    SP_DRIVE(c, cuEventRecord, w->begin, w->stream);
    SP_DRIVE(c, cuGraphLaunch, w->runnable, w->stream);
    SP_DRIVE(c, cuEventRecord, w->end, w->stream);
    SP_DRIVE(c, cuEventSynchronize, w->end);
    SP_DRIVE(c, cuEventElapsedTime, milliseconds, w->begin, w->end);
    return SPARTA_OK;
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

enum { REPLAYS_MOST = 1000 };

sparta_status sp_gpu_time(const sp_complaint *c, sparta_status (*fn)(void *arg, void *stream), void *arg,
                          int calls, int replays, double *seconds)
{
    float took[REPLAYS_MOST];
    watch w = {0};
    calls = SP_MAX(calls, 1);
    replays = SP_MIN(SP_MAX(replays, 1), (int)REPLAYS_MOST);
    sparta_status status = prepare(c, fn, arg, calls, &w);
    for (int i = 0; i < replays && status == SPARTA_OK; i++) status = replay(c, &w, &took[i]);
    put_away(&w);
    SP_TRY(status);
    qsort(took, (size_t)replays, sizeof *took, ascending);
    *seconds = (double)took[replays / 2] * 1e-3 / calls;
    return SPARTA_OK;
}
