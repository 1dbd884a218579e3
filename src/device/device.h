/* device: the machine. Which targets (targets.def) it can run, its caches and cores, and its measured peaks.
 *
 * A device is what runs kernels: the CPU, or a GPU of NVIDIA's (cuda.h). A target is what a kernel is compiled for, and belongs to one device: to compare two targets
 * by which is better makes sense only where they have the same. `portable` is plain C and fits everywhere; its kernels are
 * inside the library. Peaks are measured, never looked up: a share of peak is a share of what this machine
 * did in the same run.
 */
#ifndef SP_DEVICE_H
#define SP_DEVICE_H

#include "base/base.h"

typedef enum { SP_DEVICE_CPU, SP_DEVICE_CUDA, SP_DEVICES } sp_device;

typedef enum {
#define SP_TARGET(id, name, device, flags, probe) SP_TARGET_##id,
#include "device/targets.def"
#undef SP_TARGET
    SP_TARGETS,
    SP_CPU_TARGETS = SP_TARGET_PORTABLE + 1 /* they come first */
} sp_target;

const char *sp_target_name(sp_target t);
sp_device sp_target_device(sp_target t); /* SP_DEVICES: there is no such target */
const char *sp_target_flags(sp_target t);
/* This CPU can run it, and the kernel keeps its registers. SPARTA_TARGET=name in the environment lowers what fits of its device. */
bool sp_target_fits(sp_target t);
/* The half of it that is about SPARTA_TARGET: of GPUs too, which say themselves what they run (cuda.h). */
bool sp_target_allowed(sp_target t);
/* E_USAGE when SPARTA_TARGET names no target: whoever sets it wants something. */
sparta_status sp_target_check(sparta_ctx *cx) SP_MUST;
sp_target sp_target_best(sp_device device);
bool sp_target_parse(const char *name, sp_target *out);

typedef struct sp_cpu {
    char vendor[16], brand[64];
    int family, model, cores;
    size_t l1d, l2, l3; /* bytes; 0: not known */
    char isa[256];      /* "avx2 fma avx512f avx512bw ...": what CPU and kernel both offer (features.def) */
    size_t memory;      /* bytes of RAM */
} sp_cpu;
const sp_cpu *sp_cpu_info(void);
bool sp_cpu_has(const char *feature); /* a word of isa */
/* 64 bits that tell machines apart for tuning records: vendor, family, model, isa, caches. */
uint64_t sp_cpu_digest(void);
/* The same with what else times hang on: its name, the cores and memory there are. A virtual machine that was moved or resized is another. */
uint64_t sp_machine_digest(void);

/* Best of many short windows (about `seconds` in all): fp32 operations (multiply and add are two) a second
 * that `threads` threads reach with register operands on this target; bytes a second read from memory. At
 * most as many threads as cores are used; 0: all. The answer is 0 when the target does not fit or memory is
 * short. */
double sp_peak_flops(sp_target t, int threads, double seconds);
double sp_peak_bandwidth(int threads, double seconds);

#endif
