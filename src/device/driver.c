/* libcuda.so.1: opened once, all of driver.def or nothing. */
#include "device/driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 12000 }; /* cuLaunchKernelEx and tensor maps came with CUDA 12.0 */

static struct {
    sp_driver function;
    bool good;
    int version;
    char problem[512];
} driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ------------------------------------------------------------------ errors */
/* What to do about a CUresult, by ranges; the first that holds it. */
static const struct {
    int from, to;
    const char *hint;
} hints[] = {
    {2, 2, "free some of the GPU's memory, or use smaller sizes"},
    {3, 3, "a process that was made by fork() after CUDA was used cannot use it; start processes by spawn"},
    {4, 4, "the process is ending; use the GPU before"},
    {100, 101, "nvidia-smi shows the GPUs of this machine, CUDA_VISIBLE_DEVICES hides some"},
    {209, 209, "the code is for another GPU; empty sparta's cache"},
    {222, 222,
     "NVRTC is newer than the driver; install a newer driver, or name an older NVRTC by SPARTA_NVRTC"},
    {701, 701, "the kernel asks for more than a multiprocessor has; please report it"},
    {700, 719, "the GPU's context is lost; start the process again"},
    {802, 802, "the GPUs' links are not up; start nvidia-fabricmanager"},
    {803, 804, "libcuda.so.1 and the kernel's module differ; start the machine again"},
    {900, 909, "do this while no stream is captured into a graph"},
};

static const char *hint_of(int result)
{
    for (size_t i = 0; i < SP_COUNT(hints); i++)
        if (result >= hints[i].from && result <= hints[i].to) return hints[i].hint;
    return "nvidia-smi shows the state of the GPU";
}

void sp_driver_explain(const char *call, int result, const char *more, char *out, size_t size)
{
    const char *name = NULL, *text = NULL;
    if (driver.function.cuGetErrorName) driver.function.cuGetErrorName(result, &name);
    if (driver.function.cuGetErrorString) driver.function.cuGetErrorString(result, &text);
    snprintf(out, size, "%s: %s (%d): %s%s%s; %s", call, name ? name : "an error without a name", result,
             text ? text : "no more is known", more && *more ? ": " : "", more ? more : "", hint_of(result));
}

sparta_status sp_driver_check(const sp_complaint *c, const char *call, int result, const char *more)
{
    char text[1024];
    if (result == SP_CUDA_OK) return SPARTA_OK;
    sp_driver_explain(call, result, more, text, sizeof text);
    return sp_refuse(c, result == SP_CUDA_OUT_OF_MEMORY ? SPARTA_E_MEMORY : SPARTA_E_DEVICE, "%s", text);
}

/* ------------------------------------------------------------------ opening */
/* SPARTA_CUDA_DRIVER names another file: a driver in an unusual place, or that of tests. */
static void *open_library(void)
{
    const char *given = getenv("SPARTA_CUDA_DRIVER");
    if (given && *given) {
        void *handle = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            snprintf(driver.problem, sizeof driver.problem,
                     "SPARTA_CUDA_DRIVER %.200s: it cannot be opened; unset it, or name a libcuda.so.1",
                     given);
        return handle;
    }
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(driver.problem, sizeof driver.problem,
                 "there is no CUDA driver (libcuda.so.1); install NVIDIA's driver to use a GPU");
    return handle;
}

/* The first symbol that is not there, or NULL. */
static const char *find_functions(void *library)
{
    const char *missing = NULL;
#define SP_DRIVER(symbol, arguments)                                                                         \
    *(void **)&driver.function.symbol = dlsym(library, #symbol);                                             \
    if (!driver.function.symbol && !missing) missing = #symbol;
#include "device/driver.def"
#undef SP_DRIVER
    return missing;
}

static void too_old(const char *missing)
{
    char version[64] = "";
    if (driver.version)
        snprintf(version, sizeof version, " is of CUDA %d.%d", driver.version / 1000,
                 driver.version % 1000 / 10);
    snprintf(driver.problem, sizeof driver.problem,
             "the CUDA driver%s%s%s; install one of CUDA %d.0 (525) or newer", version,
             missing ? (driver.version ? " and has no " : " has no ") : "", missing ? missing : "",
             OLDEST / 1000);
}

/* The library stays open: what it started cannot be unloaded. */
static void open_driver(void)
{
    void *library = open_library();
    if (!library) return;
    const char *missing = find_functions(library);
    if (driver.function.cuDriverGetVersion && driver.function.cuDriverGetVersion(&driver.version))
        driver.version = 0;
    if (missing || driver.version < OLDEST) {
        too_old(missing);
        return;
    }
    const int result = driver.function.cuInit(0);
    if (result)
        sp_driver_explain("cuInit", result, NULL, driver.problem, sizeof driver.problem);
    else
        driver.good = true;
}

const sp_driver *sp_driver_open(void)
{
    pthread_once(&once, open_driver);
    return driver.good ? &driver.function : NULL;
}

const char *sp_driver_problem(void)
{
    pthread_once(&once, open_driver);
    return driver.problem;
}

int sp_gpu_driver(void)
{
    pthread_once(&once, open_driver);
    return driver.version;
}
