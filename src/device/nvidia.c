/* Finding libraries by dlopen. */
#include "device/nvidia.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_by_name(const sp_nvidia_library *l, int more)
{
    void *handle = NULL;
    for (size_t i = 0; i < SP_COUNT(l->name) && !handle; i++)
        if (l->name[i]) handle = dlopen(l->name[i], RTLD_NOW | RTLD_LOCAL | more);
    return handle;
}

/* `length` bytes of a folder's name. */
static void *open_in(const sp_nvidia_library *l, const char *folder, int length)
{
    char path[1024];
    void *handle = NULL;
    for (size_t i = 0; i < SP_COUNT(l->name) && !handle; i++)
        if (l->name[i] &&
            snprintf(path, sizeof path, "%.*s/%s", length, folder, l->name[i]) < (int)sizeof path)
            handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return handle;
}

/* SPARTA_NVRTC is a folder, or a file in one. */
static void *open_beside_nvrtc(const sp_nvidia_library *l)
{
    const char *nvrtc = getenv("SPARTA_NVRTC"), *slash = nvrtc ? strrchr(nvrtc, '/') : NULL;
    if (!nvrtc || !*nvrtc || strlen(nvrtc) > 1000) return NULL;
    void *handle = open_in(l, nvrtc, (int)strlen(nvrtc));
    return handle || !slash ? handle : open_in(l, nvrtc, (int)(slash - nvrtc));
}

void *sp_nvidia_open(const sp_nvidia_library *l, char *problem, size_t size)
{
    const char *given = getenv(l->variable);
    void *handle;
    if (given && *given) {
        handle = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            snprintf(problem, size, "%s %.200s: it cannot be opened; unset it, or name a %s", l->variable,
                     given, l->name[0]);
        return handle;
    }
    handle = open_by_name(l, RTLD_NOLOAD);
    if (!handle) handle = open_by_name(l, 0);
    if (!handle) handle = open_beside_nvrtc(l);
    if (!handle)
        snprintf(problem, size, "%s is not found; pip install %s (or the CUDA toolkit), and name %s by %s",
                 l->what, l->package, l->name[0], l->variable);
    return handle;
}

const char *sp_nvidia_find(void *handle, const sp_nvidia_symbol *symbol)
{
    const char *missing = NULL;
    for (; symbol->name; symbol++) {
        void *found = dlsym(handle, symbol->name);
        memcpy(symbol->to, &found, sizeof found);
        if (!found && !missing) missing = symbol->name;
    }
    return missing;
}
