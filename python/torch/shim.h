/* shim: the part of libtorch's stable C interface that we use.
 *
 * Declared by hand and found by dlsym in the libtorch that the process has loaded: no header of torch, no link to it, and one binary for every
 * torch from 2.10 on (torch keeps these names for years). A name more is a row more in shim.def.
 *
 * Every function returns 0, or 1 for a failure; torch before 2.13 also prints a backtrace then. So we look first, and ask nothing that may fail.
 */
#ifndef SPARTA_TORCH_SHIM_H
#define SPARTA_TORCH_SHIM_H
#include <stdbool.h>
#include <stdint.h>

typedef struct AtenTensorOpaque *torch_tensor; /* a handle: whoever has it deletes it */
typedef struct TorchLibraryOpaque *torch_library;
typedef uint64_t torch_value; /* one argument on the dispatcher's stack */
typedef void (*torch_boxed)(torch_value *stack, uint64_t inputs, uint64_t outputs);
typedef void (*torch_range)(int64_t begin, int64_t end, void *context);

#define TORCH_FLOOR ((2ULL << 56) | (10ULL << 48)) /* 2.10: whose calling convention we speak */

typedef struct sp_torch_shim {
#define SHIM(result, name, arguments) result(*name) arguments;
#include "shim.def"
    void (*operator_delete)(void *); /* C++'s, which frees the cell of an optional argument before 2.13 */
} sp_torch_shim;
extern sp_torch_shim sp_torch;

/* Fills sp_torch. NULL, or what is not there. */
const char *sp_torch_shim_load(void);
#endif
