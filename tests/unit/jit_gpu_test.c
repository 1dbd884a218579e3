/* jit/gpu.h: NVRTC where it is there (skipped where not), its cache, and what is said where it is not. The driver is the fake one. */
#include "fake_bed.h"
#include "jit/gpu.h"
#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>

static char said[1024];
static const sp_complaint c = {.where = "test", .text = said, .size = sizeof said};
static const char text[] = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n";

static void has(const char *all, const char *part)
{
    if (!strstr(all, part)) fail_msg("no '%s' in: %s", part, all);
}

/* ------------------------------------------------------------------ a cache of its own, for all processes of this program */
static char root[] = "/tmp/sparta-jit-gpu-test-XXXXXX";

static int forget(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int entries(void)
{
    char folder[128];
    int n = 0;
    snprintf(folder, sizeof folder, "%s/sparta/kernels", root);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static void need_nvrtc(void)
{
    if (sp_nvrtc_version()) return;
    print_message("%s\n", sp_nvrtc_problem());
    skip();
}

/* ------------------------------------------------------------------ without NVRTC */
static void missing(const char *path, const char *problem)
{
    void *image = &image;
    size_t size;
    setenv("SPARTA_NVRTC", path, 1);
    assert_int_equal(sp_nvrtc_version(), 0);
    has(sp_nvrtc_problem(), problem);
    assert_int_equal(sp_nvrtc_compile(&c, SP_TARGET_SM90A, text, &image, &size, NULL, 0), SPARTA_E_COMPILER);
    has(said, problem);
    assert_ptr_equal(image, &image);
}
static void no_file(void **state)
{
    (void)state;
    missing("/nowhere/libnvrtc.so.13", "/nowhere/libnvrtc.so.13: it cannot be opened; unset it");
}
static void empty_folder(void **state)
{
    (void)state;
    missing("/proc/self/task", "there is no libnvrtc.so.13 or .12 in this folder");
}
static void another_library(void **state)
{
    (void)state;
    missing("libm.so.6", "NVRTC has no nvrtcVersion; install");
}

/* ------------------------------------------------------------------ compiling */
static void compiles_for_both_targets(void **state)
{
    static const char elf[] = "\177ELF";
    (void)state;
    char log[4096] = "";
    void *image = NULL;
    size_t size = 0;
    need_nvrtc();
    assert_string_equal(sp_nvrtc_problem(), "");
    assert_int_equal(sp_nvrtc_compile(&c, SP_TARGET_SM90A, text, &image, &size, log, sizeof log), SPARTA_OK);
    assert_memory_equal(image, elf, 4);
    has(log, "registers");
    free(image);
    assert_int_equal(sp_nvrtc_compile(&c, SP_TARGET_SM80, text, &image, &size, NULL, 0), SPARTA_OK);
    has(image, ".version");
    assert_int_equal(((char *)image)[size - 1], 0);
    free(image);
    assert_int_equal(sp_nvrtc_compile(&c, SP_TARGET_AVX2, text, &image, &size, NULL, 0), SPARTA_E_USAGE);
}
static void says_the_first_error(void **state)
{
    (void)state;
    void *image = &image;
    size_t size = 1;
    need_nvrtc();
    assert_int_equal(sp_nvrtc_compile(&c, SP_TARGET_SM80, "int a;\nint b = nowhere;\nint d = nothing;\n",
                                      &image, &size, NULL, 0),
                     SPARTA_E_COMPILER);
    has(said, "test: NVRTC ");
    has(said, "kernel.cu(2): error: identifier \"nowhere\" is undefined");
    assert_null(strstr(said, "nothing\""));
    assert_ptr_equal(image, &image);
}

/* ------------------------------------------------------------------ the cache: these run in this order, each in its process */
static sparta_status get(sp_target target, const char *source)
{
    sp_gpu_kernel kernel = {0};
    const sparta_status status = sp_jit_gpu(&c, sp_gpu_at(0), target, source, "twice", &kernel);
    if (status == SPARTA_OK) assert_int_equal(kernel.registers, 168);
    return status;
}
static void keeps_what_it_compiled(void **state)
{
    (void)state;
    need_nvrtc();
    assert_int_equal(get(SP_TARGET_SM90A, text), SPARTA_OK);
    assert_int_equal(entries(), 1);
    assert_int_equal(get(SP_TARGET_SM90A, text), SPARTA_OK);
    assert_int_equal(entries(), 1);
    assert_int_equal(get(SP_TARGET_SM80, text), SPARTA_OK);
    assert_int_equal(entries(), 2);
    assert_int_equal(fake()->modules, 3);
    /* What does not load is not kept. */
    fake_fail("cuModuleLoadDataEx", 209);
    assert_int_equal(get(SP_TARGET_SM80, "extern \"C\" __global__ void twice() {}\n"), SPARTA_E_DEVICE);
    assert_int_equal(entries(), 2);
}
static void serves_without_nvrtc(void **state)
{
    (void)state;
    if (!entries()) skip(); /* no NVRTC made it */
    setenv("SPARTA_NVRTC", "/nowhere/libnvrtc.so.13", 1);
    assert_int_equal(get(SP_TARGET_SM90A, text), SPARTA_OK);
    assert_int_equal(get(SP_TARGET_SM80, text), SPARTA_OK);
    assert_int_equal(sp_nvrtc_version(), 0);
    assert_int_equal(get(SP_TARGET_SM80, "something else"), SPARTA_E_COMPILER);
    has(said, "/nowhere/libnvrtc.so.13");
    fake_fail("cuModuleLoadDataEx", 209);
    assert_int_equal(get(SP_TARGET_SM90A, text), SPARTA_E_DEVICE); /* nobody can do better */
}
static void another_gpu_has_its_own(void **state)
{
    (void)state;
    if (!entries()) skip();
    setenv("SPARTA_NVRTC", "/nowhere/libnvrtc.so.13", 1);
    assert_int_equal(get(SP_TARGET_SM80, text), SPARTA_E_COMPILER);
}
static void unknown_gpu_gets_ptx(void **state)
{
    (void)state;
    need_nvrtc();
    setenv("SPARTA_CACHE", "off", 1);
    assert_int_equal(get(SP_TARGET_SM80, text), SPARTA_OK);
    assert_int_equal(fake()->modules, 1);
}
static void too_old_gpu(void **state)
{
    (void)state;
    assert_int_equal(get(sp_gpu_at(0)->target, text), SPARTA_E_UNSUPPORTED); /* a door runs dense there */
    has(said, "GPU 0, Fake GPU 0: compute capability 7.5 is too old");
}

#define ON(test, settings)                                                                                   \
    {                                                                                                        \
#test, "cuda.so", settings, test                                                                     \
    }
int main(void)
{
    static const fake_test tests[] = {
        ON(no_file, ""),
        ON(empty_folder, ""),
        ON(another_library, ""),
        ON(compiles_for_both_targets, ""),
        ON(says_the_first_error, ""),
        ON(keeps_what_it_compiled, ""),
        ON(serves_without_nvrtc, ""),
        ON(another_gpu_has_its_own, "major=8 minor=6"),
        ON(unknown_gpu_gets_ptx, "major=99 minor=9"),
        ON(too_old_gpu, "major=7 minor=5"),
    };
    if (!mkdtemp(root)) return 1;
    setenv("XDG_CACHE_HOME", root, 1);
    unsetenv("SPARTA_CACHE");
    const int failed = fake_run(tests, SP_COUNT(tests));
    nftw(root, forget, 8, FTW_DEPTH | FTW_PHYS);
    return failed;
}
