/* measure: several sessions at the same time, and a peer that is stopped by another thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "import/import.h"
#include "measure/load.h"
#include "zoo/zoo.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sparta_ctx *cx;
static sp_arena *arena;
static char folder[64], model[96];

static int setup(void **state)
{
    (void)state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    o.cache_dir = "";
    o.compiler = "";
    snprintf(folder, sizeof folder, "/tmp/sparta-load-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(model, sizeof model, "%s/mlp.onnx", folder);
    cx = sparta_ctx_create(&o);
    arena = cx ? sp_arena_create(cx) : NULL;
    const sp_zoo_request r = {.name = "mlp", .seed = 1};
    sp_graph *g = NULL;
    if (!arena || sp_zoo_build(cx, &r, &g)) return 1;
    sparta_status status = sp_onnx_write(cx, g, model);
    sp_graph_free(g);
    return status != SPARTA_OK;
}

static int teardown(void **state)
{
    (void)state;
    sp_arena_free(arena);
    size_t held = sp_ctx_memory(cx);
    sparta_ctx_free(cx);
    unlink(model);
    return rmdir(folder) || held;
}

static sp_bench_request request(int concurrency, double seconds)
{
    sp_bench_request r = {.subject = model,
                          .concurrency = concurrency,
                          .threads = 1,
                          .warmup = 1,
                          .seconds = seconds,
                          .seed = 1};
    r.compile.options = SPARTA_OPTIONS(sparta_compile_options);
    r.compile.options.no_measure = 1;
    return r;
}

static void several_at_a_time(void **state)
{
    (void)state;
    const sp_bench_request r = request(3, 0.05);
    sp_bench_result out;
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_OK);
    assert_int_equal(out.concurrency, 3);
    assert_true(out.subject.runs >= 15 &&
                out.baseline.runs >= 15); /* five windows, a run of each thread in each */
    assert_true(out.subject.best > 0 && out.subject.best <= out.subject.median &&
                out.subject.median <= out.subject.p90 && out.subject.p90 <= out.subject.p99);
    assert_true(out.subject.items_per_s > 0 && out.ratio_lo <= out.ratio && out.ratio <= out.ratio_hi);
    /* three sessions together do no less than the slowest of them would alone, three times */
    double slowest = 0;
    for (int64_t i = 0; i < out.subject.runs; i++) slowest = SP_MAX(slowest, out.subject.times[i]);
    assert_true(out.subject.items_per_s > 0.9 / slowest);
    sp_bench_request wrong = r;
    wrong.iterations = 3;
    assert_int_equal(sp_bench(cx, arena, &wrong, &out), SPARTA_E_USAGE);
    wrong = r;
    wrong.against = "onnxruntime";
    assert_int_equal(sp_bench(cx, arena, &wrong, &out), SPARTA_E_USAGE);
}

static void *cancel_soon(void *arg)
{
    usleep(100000);
    sparta_ctx_cancel(arg);
    return NULL;
}

static void cancelled(void **state)
{
    (void)state;
    pthread_t thread;
    const sp_bench_request r = request(2, 3600);
    sp_bench_result out;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, cx), 0);
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_E_CANCELLED);
    pthread_join(thread, NULL);
}

/* Cancels when it was told `left` times that runs are measured. */
typedef struct patience {
    int left;
} patience;

static void run_out(void *arg, int done, int all, const char *what)
{
    patience *p = arg;
    (void)done, (void)all;
    if (!strcmp(what, "measuring") && --p->left == 0) sparta_ctx_cancel(cx);
}

/* Who interrupts is told what was measured: pairs, or the subject alone where they are too few. */
static void interrupted(void **state)
{
    (void)state;
    for (int concurrency = 1; concurrency <= 2; concurrency++)
        for (int told = 1; told <= 20; told += 19) {
            patience p = {told};
            sp_bench_request r = request(concurrency, 3600);
            sp_bench_result out = {.complete = true};
            r.compile.options.progress = run_out;
            r.compile.options.progress_user = &p;
            assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_E_CANCELLED);
            assert_false(out.complete);
            assert_true(out.subject.runs >= told && out.subject.best > 0 && out.threads == 1);
            assert_true(out.sparse_flop_share == 0 && out.n_layers == 0); /* the model is dense */
            assert_true(told == 1 ? out.baseline.runs == 0
                                  : out.baseline.runs >= told && out.ratio_lo <= out.ratio &&
                                        out.ratio <= out.ratio_hi && out.ratio_lo > 0);
            sparta_ctx_reset(cx);
        }
    /* nothing was measured */
    const sp_bench_request r = request(1, 3600);
    sp_bench_result out = {.complete = true, .subject.runs = 1};
    sparta_ctx_cancel(cx);
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_E_CANCELLED);
    assert_true(!out.complete && !out.subject.runs);
}

static bool runs_few(const sp_runner *r)
{
    const sp_graph *g = r->package->plan;
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_attr *im = sp_attr_find(&g->node[i]->attrs, "implement");
        if (im && !strncmp(im->s, "few_", 4)) return true;
    }
    return false;
}

/* A plan for few tokens is no gain of sparsity: where one runs, the dense baseline is for as few. */
static void dense_for_as_few(void **state)
{
    (void)state;
    static const struct {
        const char *tokens;
        int64_t batch;
        bool few;
    } cases[] = {{"1,8", 1, true},   {"1,8", 5, true},  {"1,8", 9, false},
                 {"1024", 1, false}, {"128", 1, false}, {NULL, 1, true}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_runner of = {0}, dense = {0};
        sp_bench_request r = request(1, 0.001);
        const char *name = "batch";
        const sp_bindings sizes = {1, &name, &cases[i].batch};
        r.compile.options.tokens = cases[i].tokens;
        assert_int_equal(sp_runner_open(cx, model, &r.compile, &of), SPARTA_OK);
        assert_int_equal(sp_runner_dense(cx, &of, &sizes, &r.compile, 1, &dense), SPARTA_OK);
        assert_int_equal(runs_few(&dense), cases[i].few);
        sp_runner_close(&dense);
        sp_runner_close(&of);
    }
}

/* Inputs that are given are those that run, and they say the sizes. */
static void given_inputs(void **state)
{
    (void)state;
    float x[3 * 784];
    int64_t dim[] = {3, 784};
    sparta_named_tensor in = {.name = "x", .tensor = sparta_tensor_view(SPARTA_F32, 2, dim, x)};
    sp_bench_request r = request(1, 0.001);
    sp_bench_result out;
    sp_runner of = {0};
    sp_bindings said, sizes;
    for (size_t i = 0; i < SP_COUNT(x); i++) x[i] = (float)i;
    r.inputs = &in;
    r.n_inputs = 1;
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_OK);
    assert_true(out.sizes.n == 1 && out.sizes.value[0] == 3);

    assert_int_equal(sp_runner_open(cx, model, &r.compile, &of), SPARTA_OK);
    const sp_graph *g = of.package->plan;
    assert_int_equal(sp_runner_sizes(cx, arena, g, &r.sizes, &in, 1, &said), SPARTA_OK);
    assert_int_equal(sp_sizes_fill(cx, arena, g, &said, &sizes), SPARTA_OK);
    const sp_runner_start how = {.threads = 1, .sizes = &sizes, .inputs = &in, .n_inputs = 1};
    assert_int_equal(sp_runner_start_session(&of, &how), SPARTA_OK);
    assert_memory_equal(of.in[0].tensor.data, x, sizeof x);
    sp_runner_close(&of);

    in.name = "y"; /* of another model */
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_E_USAGE);
    in.name = "x";
    in.tensor.dtype = SPARTA_I32;
    assert_int_equal(sp_bench(cx, arena, &r, &out), SPARTA_E_SHAPE);
}

static void without_memory(void **state)
{
    (void)state;
    sp_runner of = {0};
    sp_bench_request r = request(2, 0.001);
    sp_bindings sizes;
    assert_int_equal(sp_runner_open(cx, model, &r.compile, &of), SPARTA_OK);
    assert_int_equal(sp_sizes_fill(cx, arena, of.package->plan, &r.sizes, &sizes), SPARTA_OK);
    const sp_runner_start how = {.threads = 1, .seed = 1, .sizes = &sizes};
    sparta_status s = SPARTA_E_MEMORY;
    for (uint64_t n = 1; s && n < 200; n++) {
        sp_load *l = NULL;
        sp_samples latency = {0}, rate = {0};
        sp_ctx_fail_alloc(cx, n, true);
        s = sp_load_open(cx, &of, 2, &how, &l);
        if (!s) s = sp_load_alternate(arena, l, NULL, &r, &latency, NULL, &rate, NULL);
        sp_ctx_fail_alloc(cx, 0, false);
        assert_true(s == SPARTA_OK || s == SPARTA_E_MEMORY);
        sp_load_close(l);
    }
    assert_int_equal(s, SPARTA_OK);
    sp_runner_close(&of);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(several_at_a_time), TEST(cancelled),    TEST(interrupted),
                                       TEST(dense_for_as_few),  TEST(given_inputs), TEST(without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
