/* Finding oneDNN. Its C functions and the head of its version struct have been the same from 1.0 to 3.x, and the header need not be
 * installed. */
#include "panel/library.h"
#include "panel/panel.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_THREADS = 1, OPENMP = 2 }; /* dnnl_version_t.cpu_runtime */

typedef struct version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} version;

static struct {
    int (*sgemm)(char turn_a, char turn_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
    int (*threads)(void); /* OpenMP's, of the calling thread; NULL: the library has no threads */
    void (*set_threads)(int);
    char name[48];
    const char *problem; /* NULL: usable */
} onednn;

/* C has no cast between functions and data. */
static bool find(void *handle, const char *name, void *function)
{
    void *found = dlsym(handle, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* The OpenMP that the library itself is bound to: one that the program has loaded for everybody comes before its own. */
static bool find_openmp(void *handle)
{
    return (find(RTLD_DEFAULT, "omp_get_max_threads", &onednn.threads) &&
            find(RTLD_DEFAULT, "omp_set_num_threads", &onednn.set_threads)) ||
           (find(handle, "omp_get_max_threads", &onednn.threads) &&
            find(handle, "omp_set_num_threads", &onednn.set_threads));
}

static const char *examine(void *handle)
{
    const version *(*version_of)(void);
    if (!find(handle, "dnnl_sgemm", &onednn.sgemm) || !find(handle, "dnnl_version", &version_of))
        return "found, without dnnl_sgemm";
    const version *v = version_of();
    snprintf(onednn.name, sizeof onednn.name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    onednn.threads = NULL;
    if (v->cpu_runtime == OPENMP)
        return find_openmp(handle) ? NULL : "found, but not the OpenMP that it needs";
    return v->cpu_runtime == NO_THREADS ? NULL
                                        : "found, but with threads that cannot be told to stay on ours";
}

/* It stays loaded: libraries with threads do not survive being unloaded. */
static void look(void)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
    onednn.problem = "not found";
    for (size_t i = 0; i < SP_COUNT(names) && onednn.problem; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (handle) onednn.problem = examine(handle);
    }
}

const char *sp_library_problem(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *wanted = getenv("SPARTA_ONEDNN");
    if (wanted && !strcmp(wanted, "0")) return "switched off by SPARTA_ONEDNN=0";
    pthread_once(&once, look);
    return onednn.problem;
}

const char *sp_library_version(void)
{
    return sp_library_problem() ? NULL : onednn.name;
}

/* All matrices are row-major, the elements of a row side by side. */
static int product(const float *w, const float *x, float *y, long rows, long k, long tokens)
{
    const int threads = onednn.threads ? onednn.threads() : 1;
    if (threads != 1) onednn.set_threads(1);
    const int status = onednn.sgemm('N', 'N', rows, tokens, k, 1, w, k, x, SP_PANEL, 0, y, SP_PANEL);
    if (threads != 1) onednn.set_threads(threads);
    return status;
}

sp_product sp_library_sgemm(void)
{
    return sp_library_problem() ? NULL : product;
}
