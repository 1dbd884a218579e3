/* Libraries of NVIDIA's that products may use: opened when they are there, nothing is linked. */
#ifndef SP_DEVICE_NVIDIA_H
#define SP_DEVICE_NVIDIA_H

#include "base/base.h"

typedef struct sp_nvidia_library {
    const char *what;     /* "cuBLASLt" */
    const char *variable; /* of the environment, which names a file; then no other is used */
    const char *name[2];  /* newest first; NULL: no second one */
    const char *package;  /* of PyPI */
} sp_nvidia_library;

/* Its handle: of the file that the variable names, or by name: the one that this process has loaded, the one that the loader finds, the one beside the NVRTC that SPARTA_NVRTC
 * names (PyPI's packages of CUDA 13 have one folder for all). It is never closed: what it started cannot be unloaded. NULL: `problem` says why, and what to do. */
void *sp_nvidia_open(const sp_nvidia_library *library, char *problem, size_t size);
/* The first of these symbols that it lacks, after filling the others in; NULL: none. Ends with a symbol NULL. */
typedef struct sp_nvidia_symbol {
    const char *name;
    void *to; /* address of a pointer to a function */
} sp_nvidia_symbol;
const char *sp_nvidia_find(void *handle, const sp_nvidia_symbol *symbol);

#endif
