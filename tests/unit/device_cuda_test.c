/* device/cuda.h on a machine without a GPU: what is said where there is none, and everything else on a fake driver. */
#include "fake_bed.h"

static char said[1024];
static const sp_complaint c = {.where = "test", .text = said, .size = sizeof said};

static void has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("no '%s' in: %s", part, text);
}

/* ------------------------------------------------------------------ none */
static void none_with(const char *problem)
{
    assert_int_equal(sp_gpu_count(), 0);
    assert_null(sp_gpu_at(0));
    has(sp_gpu_problem(), problem);
    has(sp_gpu_problem(), "; "); /* what to do */
}

static void no_driver(void **state)
{
    (void)state;
    none_with("/nowhere/libcuda.so.1: it cannot be opened");
    assert_int_equal(sp_gpu_driver(), 0);
}
static void not_a_driver(void **state)
{
    (void)state;
    none_with("the CUDA driver has no cuInit; install");
}
static void old_version(void **state)
{
    (void)state;
    none_with("the CUDA driver is of CUDA 11.8; install one of CUDA 12.0");
    assert_int_equal(sp_gpu_driver(), 11080);
}
static void missing_symbol(void **state)
{
    (void)state;
    none_with("is of CUDA 12.0 and has no cuTensorMapEncodeTiled; install");
}
static void no_device(void **state)
{
    (void)state;
    none_with("sees no GPU");
}
static void no_device_at_init(void **state)
{
    (void)state;
    none_with("cuInit: CUDA_ERROR_FAKE (100)");
    has(sp_gpu_problem(), "CUDA_VISIBLE_DEVICES");
}
/* Whatever this machine has: the answers agree with each other. */
static void real_machine(void **state)
{
    (void)state;
    assert_int_equal(sp_gpu_count() == 0, *sp_gpu_problem() != 0);
    for (int i = 0; i < sp_gpu_count(); i++) assert_int_equal(sp_gpu_at(i)->number, i);
}

/* ------------------------------------------------------------------ GPUs and their targets */
static void two_gpus(void **state)
{
    (void)state;
    assert_int_equal(sp_gpu_count(), 2);
    assert_string_equal(sp_gpu_problem(), "");
    assert_int_equal(sp_gpu_driver(), 13000);
    const sp_gpu *g = sp_gpu_at(1);
    assert_string_equal(g->name, "Fake GPU 1");
    assert_int_equal(g->number, 1);
    assert_int_equal(g->processors, 132);
    assert_int_equal(g->shared, 232448);
    assert_int_equal(g->memory >> 30, 2);
    assert_int_equal(g->target, SP_TARGET_SM90A);
    assert_null(sp_gpu_at(2));
    assert_null(sp_gpu_at(-1));
    assert_int_equal(fake()->retained, 0); /* looking makes no context */
}
static void too_old_gpu(void **state)
{
    (void)state;
    assert_int_equal(sp_gpu_count(), 1);
    assert_int_equal(sp_gpu_at(0)->target, SP_TARGETS);
}
static void newer_gpu(void **state)
{
    (void)state;
    assert_int_equal(sp_gpu_at(0)->target, SP_TARGET_SM80);
}
static void lowered_target(void **state)
{
    (void)state;
    setenv("SPARTA_TARGET", "sm_80", 1);
    assert_int_equal(sp_gpu_at(0)->target, SP_TARGET_SM80);
}
static void target_of_the_cpu_lowers_no_gpu(void **state)
{
    (void)state;
    setenv("SPARTA_TARGET", "portable", 1);
    assert_int_equal(sp_gpu_at(0)->target, SP_TARGET_SM90A);
}

/* ------------------------------------------------------------------ contexts */
static void visits_nest(void **state)
{
    (void)state;
    sp_gpu_visit a, b, again;
    assert_int_equal(sp_gpu_enter(&c, sp_gpu_at(0), &a), SPARTA_OK);
    assert_int_equal(fake()->depth, 1);
    assert_int_equal(sp_gpu_enter(&c, sp_gpu_at(0), &again), SPARTA_OK);
    assert_false(again.pushed); /* it is current */
    assert_int_equal(sp_gpu_enter(&c, sp_gpu_at(1), &b), SPARTA_OK);
    assert_int_equal(fake()->depth, 2);
    sp_gpu_leave(&b);
    sp_gpu_leave(&again);
    assert_int_equal(fake()->depth, 1);
    sp_gpu_leave(&a);
    assert_int_equal(fake()->depth, 1); /* none was current before, so that it stays */
    assert_int_equal(fake()->retained, 2);
}
static void lost_context(void **state)
{
    (void)state;
    sp_gpu_visit visit;
    assert_int_equal(sp_gpu_count(), 1);
    fake_fail("cuDevicePrimaryCtxRetain", 700);
    assert_int_equal(sp_gpu_enter(&c, sp_gpu_at(0), &visit), SPARTA_E_DEVICE);
    has(said, "test: cuDevicePrimaryCtxRetain: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access");
    has(said, "start the process again");
    fake_fail("", 0); /* the failure is not kept */
    assert_int_equal(sp_gpu_enter(&c, sp_gpu_at(0), &visit), SPARTA_OK);
    sp_gpu_leave(&visit);
}

/* ------------------------------------------------------------------ kernels */
static const char ptx[] = ".version 8.0\n.target sm_80\n";

static sp_gpu_kernel loaded(void)
{
    sp_gpu_kernel kernel = {0};
    assert_int_equal(sp_gpu_load(&c, sp_gpu_at(0), ptx, sizeof ptx, "entry", &kernel), SPARTA_OK);
    return kernel;
}

static void kernels_load(void **state)
{
    (void)state;
    const sp_gpu_kernel kernel = loaded();
    assert_int_equal(kernel.registers, 168);
    assert_int_equal(kernel.local, 0);
    assert_int_equal(fake()->modules, 1);
    assert_int_equal(fake()->relaxed, 1); /* a stream may be captured meanwhile */
    assert_int_equal(fake()->shared_most, 232448 - 1024);
    assert_int_equal(fake()->depth, 1); /* entered once: where no context was current, it stays */
}
static void what_does_not_load(void **state)
{
    (void)state;
    sp_gpu_kernel kernel = {.registers = -1};
    const sp_gpu *g = sp_gpu_at(0);
    assert_int_equal(sp_gpu_load(&c, g, ptx, sizeof ptx, "missing", &kernel), SPARTA_E_DEVICE);
    assert_int_equal(fake()->modules, 0);
    assert_int_equal(sp_gpu_load(&c, g, ptx, 3, "entry", &kernel), SPARTA_E_FORMAT);
    assert_int_equal(sp_gpu_load(&c, g, ptx, sizeof ptx - 1, "entry", &kernel),
                     SPARTA_E_FORMAT); /* no final 0 */
    assert_int_equal(sp_gpu_load(&c, g, "nonsense", 9, "entry", &kernel), SPARTA_E_DEVICE);
    has(said, "ptxas?said no"); /* the driver's log, as one line */
    fake_fail("cuModuleLoadDataEx", 222);
    assert_int_equal(sp_gpu_load(&c, g, ptx, sizeof ptx, "entry", &kernel), SPARTA_E_DEVICE);
    has(said, "SPARTA_NVRTC");
    fake_fail("cuModuleLoadDataEx", 2);
    assert_int_equal(sp_gpu_load(&c, g, ptx, sizeof ptx, "entry", &kernel), SPARTA_E_MEMORY);
    assert_int_equal(kernel.registers, -1); /* outputs are untouched */
    assert_int_equal(fake()->depth, 1);     /* entered once: where no context was current, it stays */
}

static void launches(void **state)
{
    (void)state;
    const sp_gpu_kernel kernel = loaded();
    int number = 1;
    void *argument[] = {&number};
    const sp_grid plain = {.x = 7, .threads = 128},
                  all = {.x = 8, .y = 2, .threads = 384, .shared = 200000, .cluster = 2, .overlap = true};
    assert_int_equal(sp_gpu_launch(&c, &kernel, &plain, NULL, argument), SPARTA_OK);
    assert_int_equal(fake()->launch.n, 0);
    assert_int_equal(fake()->launch.grid[0], 7);
    assert_int_equal(fake()->launch.grid[2], 1);
    assert_int_equal(sp_gpu_launch(&c, &kernel, &all, argument, argument), SPARTA_OK);
    assert_int_equal(fake()->launch.n, 2);
    assert_int_equal(fake()->attribute[0].id, 4);
    assert_int_equal(fake()->attribute[0].value.cluster[0], 2);
    assert_int_equal(fake()->attribute[0].value.cluster[2], 1);
    assert_int_equal(fake()->attribute[1].id, 6);
    assert_int_equal(fake()->attribute[1].value.on, 1);
    assert_int_equal(fake()->launch.shared, 200000);
    assert_ptr_equal(fake()->launch.stream, argument);
    assert_int_equal(sp_gpu_holds(sp_gpu_at(0), &kernel, &plain), 16 * 132);
    assert_int_equal(sp_gpu_holds(sp_gpu_at(0), &kernel, &all), 120);
    fake_fail("cuLaunchKernelEx", 701);
    assert_int_equal(sp_gpu_launch(&c, &kernel, &plain, NULL, argument), SPARTA_E_DEVICE);
    has(said, "cuLaunchKernelEx: CUDA_ERROR_FAKE (701)");
    has(said, "please report it");
    /* What cuda.h of CUDA 12 and 13 says. */
    assert_int_equal(sizeof(sp_driver_attribute), 72);
    assert_int_equal(offsetof(sp_driver_attribute, value), 8);
    assert_int_equal(offsetof(sp_driver_launch, stream), 32);
    assert_int_equal(sizeof(sp_driver_launch), 56);
}

static void maps(void **state)
{
    (void)state;
    sp_tensor_map map;
    sp_box box = {.dtype = SPARTA_BF16,
                  .base = (void *)4096,
                  .inner = 300,
                  .outer = 50,
                  .step = 304,
                  .box_inner = 64,
                  .box_outer = 128};
    assert_int_equal(sp_gpu_count(), 1);
    assert_int_equal(sizeof map, 128);
    assert_true(sp_tensor_map_can(&box));
    assert_int_equal(sp_tensor_map_make(&c, &box, &map), SPARTA_OK);
    assert_int_equal(fake()->map_type, 9);
    assert_int_equal(fake()->map_swizzle, 3);
    assert_int_equal(fake()->map_size[0], 300);
    assert_int_equal(fake()->map_stride, 608);
    assert_int_equal(fake()->map_box[1], 128);
    box.box_inner = 16;
    assert_int_equal(sp_tensor_map_make(&c, &box, &map), SPARTA_OK);
    assert_int_equal(fake()->map_swizzle, 1);
    box.box_inner = 8; /* 16 bytes: not swizzled */
    assert_int_equal(sp_tensor_map_make(&c, &box, &map), SPARTA_OK);
    assert_int_equal(fake()->map_swizzle, 0);
    box.dtype = SPARTA_F32;
    box.box_inner = 16;
    assert_int_equal(sp_tensor_map_make(&c, &box, &map), SPARTA_OK);
    assert_int_equal(fake()->map_swizzle, 2);
    assert_int_equal(fake()->map_type, 7);
}
static void impossible_maps(void **state)
{
    (void)state;
    const sp_box good = {.dtype = SPARTA_F16,
                         .base = (void *)4096,
                         .inner = 64,
                         .outer = 5,
                         .step = 64,
                         .box_inner = 64,
                         .box_outer = 64};
    sp_box bad[10];
    sp_tensor_map map;
    for (size_t i = 0; i < SP_COUNT(bad); i++) bad[i] = good;
    bad[0].base = (void *)4100;
    bad[1].step = 65;
    bad[2].step = 56;
    bad[3].box_inner = 257;
    bad[4].box_outer = 0;
    bad[5].box_inner = 4;
    bad[6].inner = 0;
    bad[7].outer = (INT64_C(1) << 32) + 1;
    bad[8].dtype = SPARTA_F64;
    bad[9].step = INT64_MAX / 8 * 8;
    assert_true(sp_tensor_map_can(&good));
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        if (sp_tensor_map_can(&bad[i])) fail_msg("box %zu", i);
        assert_int_equal(sp_tensor_map_make(&c, &bad[i], &map), SPARTA_E_UNSUPPORTED);
    }
}

/* ------------------------------------------------------------------ memory and time */
static void memory(void **state)
{
    (void)state;
    sp_gpu_visit visit;
    void *p = NULL, *none;
    char back[4] = "";
    assert_int_equal(sp_gpu_enter(&c, sp_gpu_at(0), &visit), SPARTA_OK);
    assert_int_equal(sp_gpu_alloc(&c, 0, &none), SPARTA_OK);
    assert_int_equal(sp_gpu_alloc(&c, 4, &p), SPARTA_OK);
    assert_int_equal(sp_gpu_put(&c, p, "abc", 4), SPARTA_OK);
    assert_int_equal(sp_gpu_fill(&c, p, 'x', 1, NULL), SPARTA_OK);
    assert_int_equal(sp_gpu_get(&c, back, p, 4), SPARTA_OK);
    assert_string_equal(back, "xbc");
    assert_int_equal(sp_gpu_copy(&c, (char *)p + 1, p, 1, NULL), SPARTA_OK);
    assert_int_equal(sp_gpu_copy(&c, p, NULL, 0, NULL), SPARTA_OK);
    assert_int_equal(sp_gpu_get(&c, back, p, 4), SPARTA_OK);
    assert_string_equal(back, "xxc");
    sp_gpu_free(p);
    sp_gpu_free(none);
    sp_gpu_free(NULL);
    assert_int_equal(fake()->allocations, 0);
    p = &p;
    fake_fail("cuMemAlloc_v2", 2);
    assert_int_equal(sp_gpu_alloc(&c, 1, &p), SPARTA_E_MEMORY);
    has(said, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; free some");
    assert_ptr_equal(p, &p);
    sp_gpu_leave(&visit);
}

static int calls, stop_at;
static sparta_status count_calls(void *arg, void *stream)
{
    (void)arg;
    assert_non_null(stream);
    return ++calls == stop_at ? SPARTA_E_SHAPE : SPARTA_OK;
}
static void nothing_is_left(void)
{
    const fake_state *s = fake();
    assert_int_equal(s->streams, 0);
    assert_int_equal(s->graphs, 0);
    assert_int_equal(s->runnables, 0);
    assert_int_equal(s->events, 0);
}
static void times(void **state)
{
    static const char *const fragile[] = {"cuStreamCreate",
                                          "cuStreamSynchronize",
                                          "cuStreamBeginCapture_v2",
                                          "cuStreamEndCapture",
                                          "cuGraphInstantiateWithFlags",
                                          "cuGraphLaunch",
                                          "cuEventCreate",
                                          "cuEventRecord",
                                          "cuEventSynchronize",
                                          "cuEventElapsedTime"};
    (void)state;
    sp_gpu_visit visit;
    double seconds = 0;
    assert_int_equal(sp_gpu_enter(&c, sp_gpu_at(0), &visit), SPARTA_OK);
    assert_int_equal(sp_gpu_time(&c, count_calls, NULL, 10, 5, &seconds), SPARTA_OK);
    assert_true(seconds > 1.99e-3 && seconds < 2.01e-3); /* 20 ms for 10 */
    assert_int_equal(calls, 11);
    nothing_is_left();
    for (size_t i = 0; i < SP_COUNT(fragile); i++) {
        seconds = -1;
        fake_fail(fragile[i], 700);
        assert_int_equal(sp_gpu_time(&c, count_calls, NULL, 2, 3, &seconds), SPARTA_E_DEVICE);
        has(said, fragile[i]);
        assert_true(seconds == -1);
        nothing_is_left();
    }
    fake_fail("", 0);
    for (int when = 1; when <= 3; when++) {
        calls = 0;
        stop_at = when;
        assert_int_equal(sp_gpu_time(&c, count_calls, NULL, 2, 3, &seconds), SPARTA_E_SHAPE);
        nothing_is_left();
    }
    sp_gpu_leave(&visit);
}

#define ON(test, settings)                                                                                   \
    {                                                                                                        \
#test, "cuda.so", settings, test                                                                     \
    }
int main(void)
{
    static const fake_test tests[] = {
        {"no_driver", "/nowhere/libcuda.so.1", "", no_driver},
        {"not_a_driver", "libm.so.6", "", not_a_driver},
        {"missing_symbol", "cuda-old.so", "version=12000", missing_symbol},
        {"real_machine", NULL, "", real_machine},
        ON(old_version, "version=11080"),
        ON(no_device, "devices=0"),
        ON(no_device_at_init, "init=100"),
        ON(two_gpus, "devices=2"),
        ON(too_old_gpu, "major=7 minor=5"),
        ON(newer_gpu, "major=10 minor=0"),
        ON(lowered_target, ""),
        ON(target_of_the_cpu_lowers_no_gpu, ""),
        ON(visits_nest, "devices=2"),
        ON(lost_context, ""),
        ON(kernels_load, ""),
        ON(what_does_not_load, ""),
        ON(launches, ""),
        ON(maps, ""),
        ON(impossible_maps, ""),
        ON(memory, ""),
        ON(times, ""),
    };
    return fake_run(tests, SP_COUNT(tests));
}
