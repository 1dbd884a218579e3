/* Finding libtorch's functions. It is imported with RTLD_LOCAL, so that RTLD_DEFAULT does not see it; RTLD_NOLOAD finds the library that is there
 * and never loads a second one. */
#include "shim.h"
#include <dlfcn.h>
#include <stddef.h>

sp_torch_shim sp_torch;

const char *sp_torch_shim_load(void)
{
    void *library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    if (!library) return "libtorch_cpu.so: import torch first";
    void *cuda = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
#define LATER(result, name, arguments) *(void **)&sp_torch.name = dlsym(library, #name);
#define CUDA(result, name, arguments)  *(void **)&sp_torch.name = cuda ? dlsym(cuda, #name) : NULL;
#define SHIM(result, name, arguments)                                                                        \
    LATER(result, name, arguments)                                                                           \
    if (!sp_torch.name) return #name;
#include "shim.def"
    /* dlsym looks into what the library needs, too: libstdc++ is there. */
    *(void **)&sp_torch.operator_delete = dlsym(library, "_ZdlPv");
    return sp_torch.torch_delete_stable_ivalue || sp_torch.operator_delete ? NULL : "operator delete";
}
