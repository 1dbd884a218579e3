/* NVIDIA's GPUs: the driver, opened when it is there. Nothing is linked: a machine without one runs the same binary.
 *
 * The context is the primary one of a device, which PyTorch and the CUDA runtime use too; it is retained once and kept. sp_gpu_enter makes it
 * current where it is not. GPUs are numbered as the driver does (CUDA_VISIBLE_DEVICES holds). A tensor's `device` is 1 + this number.
 *
 * Errors name the call, the code and what to do: "cuLaunchKernelEx: CUDA_ERROR_ILLEGAL_ADDRESS (700): ...". Out of memory is E_MEMORY, everything else
 * of the driver E_DEVICE. Functions take no context; a complaint (base.h) says where messages go.
 */
#ifndef SP_DEVICE_CUDA_H
#define SP_DEVICE_CUDA_H

#include "device/device.h"

enum { SP_GPUS = 64 };

typedef struct sp_gpu {
    int number;
    char name[96];
    int major, minor; /* compute capability */
    int processors;   /* multiprocessors */
    size_t memory, l2;
    int shared;              /* bytes of shared memory that one block can have */
    int clock, memory_clock; /* kHz at most; 0: not said */
    sp_target target;        /* the best that it runs; SP_TARGETS: it is too old for any */
} sp_gpu;

int sp_gpu_count(void);              /* 0: no GPU, no driver, or one that is too old: sp_gpu_problem says */
const sp_gpu *sp_gpu_at(int number); /* NULL: there is none of that number */
/* "" or why no GPU can be used, with what to do. */
const char *sp_gpu_problem(void);
int sp_gpu_driver(void); /* its CUDA version, 13000; 0: none */

/* Between them the context of this GPU is current for the calling thread; what was current comes back. */
typedef struct sp_gpu_visit {
    int number;
    bool pushed;
} sp_gpu_visit;
sparta_status sp_gpu_enter(const sp_complaint *c, const sp_gpu *gpu, sp_gpu_visit *out) SP_MUST;
void sp_gpu_leave(const sp_gpu_visit *visit);

/* ------------------------------------------------------------------ kernels */
/* Of a module that is loaded on one GPU; jit/gpu.h makes them. */
typedef struct sp_gpu_kernel {
    void *function;
    int number;    /* of the GPU */
    int registers; /* of a thread */
    int local;     /* bytes of a thread that lie in memory: 0 in anything fast */
} sp_gpu_kernel;
/* Loads a cubin or PTX; modules stay as long as the process. Works while a stream is captured. */
sparta_status sp_gpu_load(const sp_complaint *c, const sp_gpu *gpu, const void *image, size_t size,
                          const char *entry, sp_gpu_kernel *out) SP_MUST;

typedef struct sp_grid {
    unsigned x, y, z; /* blocks; 0 counts as 1 */
    unsigned threads; /* of a block */
    unsigned shared;  /* bytes of dynamic shared memory; more than 48 KB is asked for by itself */
    unsigned cluster; /* blocks of a cluster along x; 0 or 1: none */
    bool
        overlap; /* programmatic dependent launch: it may begin before what is ahead of it on the stream has ended */
} sp_grid;
/* `argument`: the address of each. The GPU has been entered. */
sparta_status sp_gpu_launch(const sp_complaint *c, const sp_gpu_kernel *kernel, const sp_grid *grid,
                            void *stream, void **argument) SP_MUST;
/* Blocks (with a cluster: whole clusters' blocks) of this kernel that the whole chip holds at once; 0: it cannot run. Asked once, then remembered by callers. */
int sp_gpu_holds(const sp_gpu *gpu, const sp_gpu_kernel *kernel, const sp_grid *grid);

/* ------------------------------------------------------------------ tensor maps: boxes of a matrix by TMA */
typedef struct sp_tensor_map {
    _Alignas(64) uint64_t opaque[16];
} sp_tensor_map;
typedef struct sp_box {
    sparta_dtype dtype;   /* f16, bf16, f32 */
    const void *base;     /* 16-byte aligned */
    int64_t inner, outer; /* sizes of the matrix; inner is contiguous */
    int64_t step;         /* elements from a line to the next; its bytes are a multiple of 16 */
    int box_inner,
        box_outer; /* at most 256; box_inner of 32, 64 or 128 bytes is swizzled so, others are not */
} sp_box;
/* False: a map cannot say it (alignment, sizes); rows ask before they take a job. */
bool sp_tensor_map_can(const sp_box *box);
sparta_status sp_tensor_map_make(const sp_complaint *c, const sp_box *box, sp_tensor_map *out) SP_MUST;

/* ------------------------------------------------------------------ memory and time, for benchmarks, the program and tests */
/* All of the GPU that has been entered. */
sparta_status sp_gpu_alloc(const sp_complaint *c, size_t bytes, void **out) SP_MUST;
void sp_gpu_free(void *p);
sparta_status sp_gpu_put(const sp_complaint *c, void *to, const void *from,
                         size_t bytes) SP_MUST; /* host to device */
sparta_status sp_gpu_get(const sp_complaint *c, void *to, const void *from,
                         size_t bytes) SP_MUST; /* device to host; waits for all before */
sparta_status sp_gpu_fill(const sp_complaint *c, void *to, uint8_t byte, size_t bytes, void *stream) SP_MUST;
sparta_status sp_gpu_copy(const sp_complaint *c, void *to, const void *from, size_t bytes,
                          void *stream) SP_MUST; /* on the device */
sparta_status sp_gpu_wait(const sp_complaint *c, void *stream) SP_MUST;
sparta_status sp_gpu_stream(const sp_complaint *c, void **out) SP_MUST; /* one of its own, for capture */
void sp_gpu_stream_free(void *stream);
/* Seconds of one call of fn: `calls` of them are captured into a graph that is replayed; the median of `replays`. fn launches on the stream it gets. */
sparta_status sp_gpu_time(const sp_complaint *c, sparta_status (*fn)(void *arg, void *stream), void *arg,
                          int calls, int replays, double *seconds) SP_MUST;

#endif
