/* NVRTC: found, opened once, and asked to compile. Distinct programs may be compiled by distinct threads. */
#include "jit/gpu.h"
#include "jit/inside.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct {
#define SP_NVRTC(symbol, arguments) int(*symbol) arguments;
#include "jit/nvrtc.def"
#undef SP_NVRTC
    const char *(*nvrtcGetErrorString)(int result);
    int version;
    char problem[512];
} nvrtc;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ------------------------------------------------------------------ where it may be */
static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

static void *open_in(const char *folder)
{
    char path[1024];
    void *library = NULL;
    for (size_t i = 0; i < SP_COUNT(names) && !library; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path)
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static void *open_given(const char *given)
{
    struct stat st;
    const bool folder = stat(given, &st) == 0 && S_ISDIR(st.st_mode);
    void *library = folder ? open_in(given) : dlopen(given, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(nvrtc.problem, sizeof nvrtc.problem,
                 folder ? "SPARTA_NVRTC %.200s: there is no libnvrtc.so.13 or .12 in this folder that can be "
                          "opened; unset it, or name another"
                        : "SPARTA_NVRTC %.200s: it cannot be opened; unset it, or name a libnvrtc.so.13 or "
                          "its folder",
                 given);
    return library;
}

/* PyPI's packages of CUDA 13 share one folder; those of CUDA 12 have one each, beside each other. */
static void *open_near_runtime(void)
{
    static const char *const runtimes[] = {"libcudart.so.13", "libcudart.so.12"};
    char origin[768], folder[800];
    void *library = NULL;
    for (size_t i = 0; i < SP_COUNT(runtimes) && !library; i++) {
        void *runtime = dlopen(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
        Dl_info info;
        void *inside = runtime ? dlsym(runtime, "cudaGetDeviceCount") : NULL;
        if (inside && dladdr(inside, &info) && info.dli_fname && strrchr(info.dli_fname, '/')) {
            snprintf(origin, sizeof origin, "%.*s", (int)(strrchr(info.dli_fname, '/') - info.dli_fname),
                     info.dli_fname);
            library = open_in(origin);
            snprintf(folder, sizeof folder, "%s/../../cuda_nvrtc/lib", origin);
            if (!library) library = open_in(folder);
        }
        if (runtime) dlclose(runtime);
    }
    return library;
}

static void *open_library(void)
{
    const char *given = getenv("SPARTA_NVRTC");
    if (given && *given) return open_given(given);
    void *library = NULL;
    for (size_t i = 0; i < SP_COUNT(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; i < SP_COUNT(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) library = open_near_runtime();
    if (!library)
        snprintf(nvrtc.problem, sizeof nvrtc.problem,
                 "NVRTC, the compiler for GPUs, is not found; pip install nvidia-cuda-nvrtc (or the CUDA "
                 "toolkit), and name the folder of libnvrtc.so.13 by SPARTA_NVRTC");
    return library;
}

/* ------------------------------------------------------------------ opening */
static const char *find_functions(void *library)
{
    const char *missing = NULL;
#define SP_NVRTC(symbol, arguments)                                                                          \
    *(void **)&nvrtc.symbol = dlsym(library, #symbol);                                                       \
    if (!nvrtc.symbol && !missing) missing = #symbol;
#include "jit/nvrtc.def"
#undef SP_NVRTC
    *(void **)&nvrtc.nvrtcGetErrorString = dlsym(library, "nvrtcGetErrorString");
    return missing ? missing : nvrtc.nvrtcGetErrorString ? NULL : "nvrtcGetErrorString";
}

/* The library stays open, like the driver. */
static void open_nvrtc(void)
{
    int major = 0, minor = 0;
    void *library = open_library();
    if (!library) return;
    const char *missing = find_functions(library);
    if (missing)
        snprintf(nvrtc.problem, sizeof nvrtc.problem,
                 "NVRTC has no %s; install one of CUDA 12.0 or newer, or name it by SPARTA_NVRTC", missing);
    else if (nvrtc.nvrtcVersion(&major, &minor) || major <= 0)
        snprintf(nvrtc.problem, sizeof nvrtc.problem, "NVRTC does not say its version; install it again");
    else
        nvrtc.version = major * 1000 + minor;
}

int sp_nvrtc_version(void)
{
    pthread_once(&once, open_nvrtc);
    return nvrtc.version;
}

const char *sp_nvrtc_problem(void)
{
    pthread_once(&once, open_nvrtc);
    return nvrtc.problem;
}

bool sp_nvrtc_knows(int architecture)
{
    enum { MOST = 256 };
    int n = 0, list[MOST];
    if (!sp_nvrtc_version() || nvrtc.nvrtcGetNumSupportedArchs(&n) || n > MOST ||
        nvrtc.nvrtcGetSupportedArchs(list))
        return false;
    for (int i = 0; i < n; i++)
        if (list[i] == architecture) return true;
    return false;
}

/* ------------------------------------------------------------------ compiling */
/* The program's log; the caller frees it. NULL: no memory, or there is none. */
static char *log_of(void *program)
{
    size_t size = 0;
    if (nvrtc.nvrtcGetProgramLogSize(program, &size) || !size) return NULL;
    char *log = calloc(1, size + 1);
    if (log && nvrtc.nvrtcGetProgramLog(program, log)) log[0] = 0;
    return log;
}

/* Its first line that speaks of an error, else its first. */
static sparta_status failed(const sp_complaint *c, int result, const char *log)
{
    char said[400] = "";
    const char *at = log ? strstr(log, "error") : NULL;
    while (at && at > log && at[-1] != '\n') at--;
    if (!at) at = log;
    if (at) snprintf(said, sizeof said, "%.*s", (int)SP_MIN(strcspn(at, "\n"), sizeof said - 1), at);
    sp_clean(said);
    return sp_refuse(c, SPARTA_E_COMPILER,
                     "NVRTC %d.%d: %s: %s; please report it with the text of the kernel",
                     nvrtc.version / 1000, nvrtc.version % 1000, nvrtc.nvrtcGetErrorString(result),
                     *said ? said : "it said nothing more");
}

static sparta_status image_of(const sp_complaint *c, void *program, bool cubin, void **image, size_t *size)
{
    size_t n = 0;
    int result = cubin ? nvrtc.nvrtcGetCUBINSize(program, &n) : nvrtc.nvrtcGetPTXSize(program, &n);
    if (result || !n || n > SP_OBJECT_MOST) return failed(c, result, NULL);
    char *bytes = malloc(n);
    if (!bytes) return sp_refuse(c, SPARTA_E_MEMORY, "no memory for %zu bytes of a kernel", n);
    result = cubin ? nvrtc.nvrtcGetCUBIN(program, bytes) : nvrtc.nvrtcGetPTX(program, bytes);
    if (result) {
        free(bytes);
        return failed(c, result, NULL);
    }
    *image = bytes;
    *size = n;
    return SPARTA_OK;
}

static sparta_status compile(const sp_complaint *c, void *program, const char *architecture, bool verbose,
                             char **log)
{
    /* 177: declared and never used, as much of a shared header is. */
    const char *option[] = {architecture, "--std=c++17", "-default-device", "--diag-suppress=177",
                            "--ptxas-options=-v"};
    const int n = (int)SP_COUNT(option) - (verbose ? 0 : 1);
    const int result = nvrtc.nvrtcCompileProgram(program, n, option);
    *log = log_of(program);
    return result ? failed(c, result, *log) : SPARTA_OK;
}

sparta_status sp_nvrtc_compile_for(const sp_complaint *c, const char *architecture, const char *text,
                                   void **image, size_t *size, char *log, size_t log_size)
{
    void *program = NULL;
    char *said = NULL;
    if (!sp_nvrtc_version()) return sp_refuse(c, SPARTA_E_COMPILER, "%s", sp_nvrtc_problem());
    const int result = nvrtc.nvrtcCreateProgram(&program, text, "kernel.cu", 0, NULL, NULL);
    if (result) return failed(c, result, NULL);
    sparta_status status = compile(c, program, architecture, log != NULL, &said);
    if (log && log_size) snprintf(log, log_size, "%s", said ? said : "");
    free(said);
    if (status == SPARTA_OK) status = image_of(c, program, strstr(architecture, "=sm_"), image, size);
    nvrtc.nvrtcDestroyProgram(&program);
    return status;
}

sparta_status sp_nvrtc_compile(const sp_complaint *c, sp_target target, const char *text, void **image,
                               size_t *size, char *log, size_t log_size)
{
    if (sp_target_device(target) != SP_DEVICE_CUDA)
        return sp_refuse(c, SPARTA_E_USAGE, "target %s is none of a GPU; give sm_90a or sm_80",
                         sp_target_name(target));
    return sp_nvrtc_compile_for(c, sp_target_flags(target), text, image, size, log, log_size);
}
