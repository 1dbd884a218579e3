/* Tests with the fake CUDA driver (tests/fake/cuda.c). A process opens a driver once, so every test has a process of its own. */
#ifndef SP_FAKE_BED_H
#define SP_FAKE_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "fake/cublas.h"
#include "fake/cuda.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* `driver`: a file of build/.../tests/fake, or another library (name.so.number); NULL: the variable is not set. */
typedef struct fake_test {
    const char *name, *driver, *settings;
    void (*run)(void **state);
} fake_test;

static char fake_path[4096];

/* The path of a file of build/.../tests/fake. */
static inline void fake_find(const char *file, char *out, size_t size)
{
    char self[3000] = "";
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL;
    if (slash) *slash = 0;
    snprintf(out, size, "%s/../fake/%s", self, file);
}

static inline void fake_set(const char *driver, const char *settings)
{
    if (!driver)
        unsetenv("SPARTA_CUDA_DRIVER");
    else {
        if (strstr(driver, ".so."))
            snprintf(fake_path, sizeof fake_path, "%s", driver);
        else
            fake_find(driver, fake_path, sizeof fake_path);
        setenv("SPARTA_CUDA_DRIVER", fake_path, 1);
    }
    setenv("FAKE_CUDA", settings, 1);
}

/* The driver's state; only after it was opened. */
static inline fake_state *fake(void)
{
    void *library = dlopen(fake_path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    fake_state *(*get)(void);
    *(void **)&get = dlsym(library, "fake_cuda");
    assert_non_null(get);
    return get();
}

static inline void fake_fail(const char *symbol, int result)
{
    snprintf(fake()->symbol, sizeof fake()->symbol, "%s", symbol);
    fake()->result = result;
}

/* SPARTA_CUBLAS names the fake cuBLASLt, whose state this is. */
static inline fake_cublas_state *fake_library(void)
{
    static char path[4096];
    fake_cublas_state *(*get)(void);
    fake_find("cublas.so", path, sizeof path);
    setenv("SPARTA_CUBLAS", path, 1);
    void *library = dlopen(path, RTLD_NOW);
    assert_non_null(library);
    *(void **)&get = dlsym(library, "fake_cublas");
    assert_non_null(get);
    return get();
}

static inline int fake_run(const fake_test *tests, size_t n)
{
    int failed = 0, status;
    for (size_t i = 0; i < n; i++) {
        const pid_t child = fork();
        if (child == 0) {
            const struct CMUnitTest one[] = {{tests[i].name, tests[i].run, NULL, NULL, NULL}};
            unsetenv("SPARTA_TARGET");
            fake_set(tests[i].driver, tests[i].settings);
            exit(cmocka_run_group_tests(one, NULL, NULL));
        }
        failed += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    if (failed) print_error("%d of %zu FAILED\n", failed, n);
    return failed;
}

#endif
