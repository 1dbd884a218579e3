/* Pruning to a time: the exchange against every choice there is, a model with times that are made up, what cannot be reached or is wrong, memory that
 * runs out. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "measure/measure.h"
#include "zoo/zoo.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sparta_ctx *cx;
static sp_arena *arena;
static char folder[64], model[96];

static int enter(void **state)
{
    (void)state;
    sparta_ctx_options o = SPARTA_OPTIONS(sparta_ctx_options);
    snprintf(folder, sizeof folder, "/tmp/sparta-fit-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    o.cache_dir = "";
    o.compiler = "";
    cx = sparta_ctx_create(&o);
    arena = cx ? sp_arena_create(cx) : NULL;
    return arena ? 0 : 1;
}

static int leave(void **state)
{
    (void)state;
    char command[128];
    sp_arena_free(arena);
    const size_t held = sp_ctx_memory(cx);
    sparta_ctx_free(cx);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || held;
}

/* ------------------------------------------------------------------ the exchange */
enum { LAYERS = 4, OPTIONS = 3 };

static double cost_of(const sp_exchange_layer *l, int option)
{
    return option < 0 ? 0 : l->option[option].error * l->option[option].error;
}

static double us_of(const sp_exchange_layer *l, int option)
{
    return option < 0 ? l->dense_us : l->option[option].us;
}

/* The least error of all choices within the budget; INFINITY: there is none. */
static double least(const sp_exchange_layer *layer, int i, double budget)
{
    double best = INFINITY;
    if (i == LAYERS) return budget >= 0 ? 0 : INFINITY;
    for (int c = -1; c < OPTIONS; c++) {
        if (c >= 0 && isnan(layer[i].option[c].us)) continue;
        best = fmin(best, cost_of(&layer[i], c) + least(layer, i + 1, budget - us_of(&layer[i], c)));
    }
    return best;
}

static uint32_t state32 = 7;
static double chance(void)
{
    state32 = state32 * 1664525u + 1013904223u;
    return (state32 >> 8) / 16777216.0;
}

static void as_good_as_every_choice(void **state)
{
    (void)state;
    double worst = 0;
    int met = 0;
    for (int round = 0; round < 2000; round++) {
        sp_exchange_option option[LAYERS][OPTIONS];
        sp_exchange_layer layer[LAYERS];
        double dense = 0, us, lost = 0, step = 0;
        for (int i = 0; i < LAYERS; i++) {
            layer[i] = (sp_exchange_layer){.dense_us = 10 + 90 * chance(), .n = OPTIONS, .option = option[i]};
            for (int c = 0; c < OPTIONS; c++)
                option[i][c] = (sp_exchange_option){layer[i].dense_us * (.1 + chance()), chance()};
            if (chance() < .1) option[i][0].us = NAN;
            dense += layer[i].dense_us;
            for (int c = 0; c < OPTIONS; c++) step = fmax(step, cost_of(&layer[i], c));
        }
        const double budget = dense * (.1 + chance()), best = least(layer, 0, budget);
        assert_int_equal(sp_exchange(cx, layer, LAYERS, budget, &us), SPARTA_OK);
        double sum = 0;
        for (int i = 0; i < LAYERS; i++) {
            lost += cost_of(&layer[i], layer[i].chosen);
            sum += us_of(&layer[i], layer[i].chosen);
        }
        assert_true(fabs(sum - us) < 1e-6);
        assert_int_equal(us <= budget + 1e-9, isfinite(best)); /* met when it can be */
        if (!isfinite(best)) continue;
        assert_true(lost <= best + step + 1e-9); /* of the best but for one layer's step */
        worst += lost - best;
        met++;
    }
    assert_true(met > 1000 && worst / met < .05);
}

static void by_hand(void **state)
{
    (void)state;
    /* The first layer saves 40 us for .01, the second 50 us for .25: each where it is cheapest. */
    const sp_exchange_option a[] = {{60, .1}, {30, .5}, {20, NAN}}, b[] = {{50, .5}, {120, .0}, {NAN, .1}};
    sp_exchange_layer layer[] = {{.dense_us = 100, .n = 3, .option = a},
                                 {.dense_us = 100, .n = 3, .option = b}};
    const double budget[] = {200, 160, 110, 80, 79};
    const int chosen[][2] = {{-1, -1}, {0, -1}, {0, 0}, {1, 0}, {1, 0}};
    const double takes[] = {200, 160, 110, 80, 80};
    for (size_t i = 0; i < SP_COUNT(budget); i++) {
        double us;
        assert_int_equal(sp_exchange(cx, layer, 2, budget[i], &us), SPARTA_OK);
        assert_int_equal(layer[0].chosen, chosen[i][0]);
        assert_int_equal(layer[1].chosen, chosen[i][1]);
        assert_true(us == takes[i]);
    }
}

/* ------------------------------------------------------------------ a model, with times by a table */
static void write_model(void)
{
    static const char *const name[] = {"inputs", "hidden1", "hidden2"};
    const int64_t value[] = {64, 96, 32};
    sp_graph *g;
    sp_zoo_request r = {.name = "mlp", .seed = 3, .dims = {3, name, value}};
    assert_int_equal(sp_zoo_build(cx, &r, &g), SPARTA_OK);
    snprintf(model, sizeof model, "%s/m.onnx", folder);
    assert_int_equal(sp_onnx_write(cx, g, model), SPARTA_OK);
    sp_graph_free(g);
}

/* fc1 1000 us, fc2 500, fc3 100; a pattern takes what it leaves. */
static double table(void *user, const char *weight, const char *pattern)
{
    (void)user;
    const double dense = strstr(weight, "fc1") ? 1000 : strstr(weight, "fc2") ? 500 : 100;
    if (!pattern) return dense;
    const char *sparsity = strchr(pattern, ':');
    return !strcmp(pattern, "2:4") ? dense * .6 : dense * (1 - atof(sparsity + 1));
}

static double but_fc1(void *user, const char *weight, const char *pattern)
{
    (void)user;
    return strstr(weight, "fc1") ? NAN : 1 - table(NULL, weight, pattern) / table(NULL, weight, NULL);
}

static sp_fit_request ask(void)
{
    write_model();
    return (sp_fit_request){.model = model, .speedup = 2, .time = table};
}

static void by_a_table(void **state)
{
    (void)state;
    sp_fit f;
    sp_fit_request r = ask();
    assert_int_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_OK);
    assert_int_equal(f.n, 3);
    assert_true(f.dense_ms == 1.6 && f.target_ms == .8 && f.expected_ms <= .8 && isnan(f.measured_ms));
    double us = 0;
    for (int i = 0; i < f.n; i++) {
        const sp_fit_row *row = &f.row[i];
        us += row->us;
        assert_int_equal(f.each[i] != NULL, *row->pattern != 0);
        assert_true(*row->pattern ? row->error > 0 && row->error < 1 && row->us < row->dense_us
                                  : row->error == 0 && row->us == row->dense_us);
        assert_int_equal(row->tokens, 1);
    }
    assert_true(fabs(us * 1e-3 - f.expected_ms) < 1e-9);
    /* Again: the same. */
    sp_fit g;
    assert_int_equal(sp_fit_run(cx, arena, &r, &g), SPARTA_OK);
    for (int i = 0; i < f.n; i++) assert_string_equal(f.row[i].pattern, g.row[i].pattern);
    /* A layer that is left: the others do it. */
    r = (sp_fit_request){.model = model, .ms = 1.1, .time = table, .error = but_fc1};
    assert_int_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_OK);
    assert_string_equal(f.row[0].pattern, "");
    assert_true(*f.row[1].pattern && f.expected_ms <= 1.1);
    /* Nothing to do. */
    r.ms = 2;
    assert_int_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_OK);
    for (int i = 0; i < f.n; i++) assert_string_equal(f.row[i].pattern, "");
}

/* Of a weight of 4 x 8 nothing is left at 4x1:0.95, and it has no row of 8: the others have these options, it has none. */
static void left_out(void **state)
{
    (void)state;
    static const char *const name[] = {"inputs", "hidden1", "hidden2", "classes"};
    static const char *const few[] = {"8x1:0.5", "4x1:0.95"}, *const none[] = {"256x1:0.5"};
    const int64_t value[] = {64, 64, 8, 4};
    sp_graph *g;
    sp_fit f;
    sp_zoo_request z = {.name = "mlp", .seed = 3, .dims = {4, name, value}};
    sp_fit_request r = ask();
    assert_int_equal(sp_zoo_build(cx, &z, &g), SPARTA_OK);
    assert_int_equal(sp_onnx_write(cx, g, model), SPARTA_OK);
    sp_graph_free(g);
    r.pattern = few, r.n_patterns = 2;
    assert_int_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_OK);
    assert_true(*f.row[0].pattern && !f.row[0].why && !*f.row[2].pattern);
    assert_string_equal(f.row[2].why, "nothing would be left of it");
    r.pattern = none, r.n_patterns = 1;
    assert_int_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "none of the 3 weights can take any of these patterns"));
}

static void refused(void **state)
{
    (void)state;
    sp_fit f = {.n = 77};
    sp_fit_request r = ask();
    r.speedup = 100; /* 4x1:0.95 everywhere is 20 times as fast */
    assert_int_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_E_RANGE);
    assert_non_null(strstr(sparta_message(cx), "a speed-up of 100 cannot be reached"));
    assert_non_null(strstr(sparta_message(cx), "0.08 ms (20.00 times as fast)"));
    static const char *const none[] = {"4y1"}, *const twice[] = {"4x1", "4x1:0.5"}, *const wide[] = {"heads"};
    const char *const *const bad[] = {none, twice, wide};
    const int n[] = {1, 2, 1};
    for (int i = 0; i < 3; i++) {
        r = ask();
        r.pattern = bad[i], r.n_patterns = n[i];
        assert_int_not_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_OK);
        sp_ctx_clear(cx);
    }
    const double times[][2] = {{0, 0}, {1, 2}, {-1, 0}, {NAN, 0}, {0, INFINITY}};
    for (size_t i = 0; i < SP_COUNT(times); i++) {
        r = ask();
        r.ms = times[i][0], r.speedup = times[i][1];
        assert_int_equal(sp_fit_run(cx, arena, &r, &f), SPARTA_E_USAGE);
    }
    assert_int_equal(f.n, 77);
    const sparta_fit_options no_size = {.target_speedup = 2};
    sparta_fit *none_made = NULL;
    assert_int_equal(sparta_fit_model(cx, model, &no_size, NULL, &none_made), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "fit: the size of its options is 0"));
}

/* No compiler, no cache: portable kernels, timed; the package that came of it is as fast as it was measured, about. */
static void measured(void **state)
{
    (void)state;
    sp_fit f;
    sp_fit_request r = ask();
    static const char *const pattern[] = {"4x1:0.95"};
    const char *const dims[] = {"batch=64", NULL};
    r.time = NULL;
    r.speedup = 1.01;
    r.seconds = .05;
    r.pattern = pattern, r.n_patterns = 1;
    r.compile.options.threads = 1;
    r.compile.options.dims = dims;
    const sparta_status status = sp_fit_run(cx, arena, &r, &f);
    if (status == SPARTA_E_RANGE) { /* a busy machine */
        assert_non_null(strstr(sparta_message(cx), "measured"));
        return;
    }
    assert_int_equal(status, SPARTA_OK);
    assert_int_equal(f.row[0].tokens, 64);
    assert_true(f.rounds >= 1 && f.measured_ms <= f.target_ms * (1 + SP_FIT_TOLERANCE));
}

static void memory_may_fail(void **state)
{
    (void)state;
    static const char *const pattern[] = {"4x1:0.9"};
    sp_fit_request r = ask();
    r.pattern = pattern, r.n_patterns = 1;
    const size_t before = sp_ctx_memory(cx);
    sparta_status status = SPARTA_E_MEMORY;
    int failed = 0;
    for (uint64_t n = 1; status; n += 1 + n / 40) {
        sp_fit out = {.n = 77};
        sp_arena *a = sp_arena_create(cx);
        assert_non_null(a);
        sp_ctx_fail_alloc(cx, n, false);
        status = sp_fit_run(cx, a, &r, &out);
        sp_ctx_fail_alloc(cx, 0, false);
        if (status) assert_int_equal(status, SPARTA_E_MEMORY);
        if (status) assert_int_equal(out.n, 77);
        failed += status != SPARTA_OK;
        sp_arena_free(a);
        assert_int_equal(sp_ctx_memory(cx), before);
        assert_true(n < 1000000);
    }
    assert_true(failed > 20);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {WITH(as_good_as_every_choice),
                                       WITH(by_hand),
                                       WITH(by_a_table),
                                       WITH(left_out),
                                       WITH(refused),
                                       WITH(measured),
                                       WITH(memory_may_fail)};
    return cmocka_run_group_tests_name("measure/fit", tests, NULL, NULL);
}
