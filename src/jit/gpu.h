/* Texts for a GPU: NVRTC, opened when it is there, and the ladder of jit.h: memory (the caller's), cache, compile.
 *
 * NVRTC is what SPARTA_NVRTC names (a file, or a folder that has it; then no other is used), the one that this process has loaded, libnvrtc.so.13 or .12 where
 * the loader finds them, or the one that PyPI puts near a CUDA runtime that this process has loaded (PyTorch's), in this order.
 *
 * A target sm_90a becomes a cubin. A target sm_80 becomes a cubin for the very GPU where NVRTC knows it, else PTX, which the driver finishes. An entry of the cache
 * says which NVRTC made it, and serves unless a newer one is there; so it serves without any.
 */
#ifndef SP_JIT_GPU_H
#define SP_JIT_GPU_H

#include "device/cuda.h"
#include "jit/jit.h"

/* The entry of a text, for this GPU and the target given: compiled or out of the cache, loaded. Its caller remembers it. */
sparta_status sp_jit_gpu(const sp_complaint *c, const sp_gpu *gpu, sp_target target, const char *text,
                         const char *entry, sp_gpu_kernel *out) SP_MUST;
/* Compiles and does not load: needs no GPU; a cubin, of sm_80 PTX with its final 0. *image is malloc'ed. `log` (may be NULL, of `log_size`): what the compiler said, warnings of ptxas too. */
sparta_status sp_nvrtc_compile(const sp_complaint *c, sp_target target, const char *text, void **image,
                               size_t *size, char *log, size_t log_size) SP_MUST;
/* Kernels in files, compiled ahead (gpu_pack.c draws them). One that is open serves every kernel that it has, before the cache, for as long as the process lives; the one that
 * SPARTA_GPU_KERNELS names is opened with the first kernel. */
sparta_status sp_gpu_pack_open(sparta_ctx *cx, const char *path, int *kernels) SP_MUST;
typedef struct sp_gpu_pack sp_gpu_pack; /* one that is made */
sp_gpu_pack *sp_gpu_pack_create(sparta_ctx *cx);
void sp_gpu_pack_free(sp_gpu_pack *p); /* NULL is fine */
/* Compiles a text for a target on a chip (90 for 9.0), unless it is there. Needs NVRTC and no GPU. */
sparta_status sp_gpu_pack_add(sp_gpu_pack *p, sp_target target, int architecture, const char *text) SP_MUST;
int sp_gpu_pack_count(const sp_gpu_pack *p);
sparta_status sp_gpu_pack_save(const sp_gpu_pack *p, const char *path) SP_MUST;

/* Its version, 13002 for 13.2; 0: there is none, and sp_nvrtc_problem says why. */
int sp_nvrtc_version(void);
const char *sp_nvrtc_problem(void);

#endif
