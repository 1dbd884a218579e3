/* sparta_blocks_tune on the fake driver, which runs nothing and says how long it took: what is checked, who wins, what another process knows. */
#include "fake_bed.h"
#include "cuda/cuda.h"
#include "tune/tune.h"
#include <limits.h>

enum { SIDE = 64, WIDE = 256, DOWN = WIDE / SIDE, BLOCKS = 8, TOKENS = 16 };
enum { QUICK = 512, SPOILED = 256 }; /* threads of 16 and of 8 warps; the rule takes 4 */
static char path[PATH_MAX];
static sparta_ctx *cx;
static _Alignas(16) uint16_t memory[BLOCKS * SIDE * SIDE + WIDE * TOKENS]; /* stands for device memory */
static int32_t pattern[64];

static sparta_tensor array(sparta_dtype dtype, int rank, const int64_t *dim, void *data)
{
    sparta_tensor t = sparta_tensor_view(dtype, rank, dim, data);
    t.device = 1;
    return t;
}

static sparta_tensor tokens(void)
{
    sparta_tensor t = array(SPARTA_F16, 3, (int64_t[]){1, WIDE, TOKENS}, memory);
    t.stride[1] = 1;
    t.stride[2] = WIDE;
    return t;
}

static sparta_blocks blocks(void)
{
    return (sparta_blocks){.size = sizeof(sparta_blocks),
                           .rows = WIDE,
                           .cols = WIDE,
                           .height = SIDE,
                           .width = SIDE,
                           .batch = 1,
                           .patterns = 1,
                           .pos = array(SPARTA_I32, 1, (int64_t[]){DOWN + 1}, pattern),
                           .crd = array(SPARTA_I32, 1, (int64_t[]){BLOCKS}, pattern),
                           .values = array(SPARTA_F16, 3, (int64_t[]){BLOCKS, SIDE, SIDE}, memory)};
}

static sparta_status tune(sparta_verb verb, sparta_tuned *out)
{
    const sparta_blocks s = blocks();
    const sparta_tensor x = tokens(), y = tokens();
    const sparta_tune_call call = {.size = sizeof call, .verb = verb, .s = &s, .x = &x, .y = &y, .db = path};
    *out = (sparta_tuned){.size = sizeof *out};
    return sparta_blocks_tune(cx, &call, out);
}

static void begin(void)
{
    cx = sparta_ctx_create(NULL);
    assert_non_null(cx);
    assert_int_equal(sp_gpu_count(), 1);
}

static void need_nvrtc(void)
{
    if (sp_nvrtc_version()) return;
    print_message("%s\n", sp_nvrtc_problem());
    skip();
}

static void end(void)
{
    const fake_state *f = fake();
    assert_true(!f->allocations && !f->streams && !f->graphs && !f->runnables && !f->events);
    sparta_ctx_free(cx);
}

static sp_cuda_job same_job(void)
{
    return (sp_cuda_job){.verb = SPARTA_MULTIPLY,
                         .dtype = SPARTA_F16,
                         .rows = WIDE,
                         .cols = WIDE,
                         .height = SIDE,
                         .width = SIDE,
                         .down = DOWN,
                         .right = DOWN,
                         .blocks = BLOCKS,
                         .values = memory,
                         .x = memory,
                         .y = memory,
                         .x_step = WIDE,
                         .y_step = WIDE,
                         .tokens = TOKENS};
}

static const char *preferred(void)
{
    static char text[SP_POINT_TEXT];
    const sp_cuda_job job = same_job();
    const sp_choice *found = sp_cuda_preferred(&sp_cuda_few, &job, sp_gpu_at(0));
    if (!found) return NULL;
    sp_choice_print(sp_cuda_few.choices, found, text);
    return text;
}

/* ------------------------------------------------------------------ who wins */
static void the_fastest_that_is_right_wins(void **state)
{
    (void)state;
    sparta_tuned t;
    need_nvrtc();
    begin();
    fake()->quick = QUICK;
    fake()->spoil = SPOILED;
    if (tune(SPARTA_MULTIPLY, &t)) fail_msg("%s", sparta_message(cx));
    assert_string_equal(t.implement, "few");
    assert_string_equal(t.point, "ROWS=16 WARPS=16");
    assert_true(t.us > 0 && t.us < .6 * t.rule_us && t.points >= 6 && t.wrong >= 2 && t.failed == 0);
    assert_int_equal(t.measured, t.points - t.wrong);
    assert_non_null(strstr(sparta_notes(cx), "gives another answer"));
    assert_string_equal(preferred(), t.point);
    /* What is known is not measured again, unless it is asked for. */
    const int launches = fake()->launches;
    if (tune(SPARTA_MULTIPLY, &t)) fail_msg("%s", sparta_message(cx));
    assert_true(t.measured == 0 && fake()->launches == launches);
    assert_string_equal(t.point, "ROWS=16 WARPS=16");
    end();
}

static void another_process_knows(void **state)
{
    (void)state;
    need_nvrtc();
    begin();
    assert_null(preferred());
    assert_int_equal(sparta_blocks_recall(cx, path), 1);
    assert_string_equal(preferred(), "ROWS=16 WARPS=16");
    /* A call launches 512 threads now. */
    const sparta_blocks s = blocks();
    const sparta_tensor x = tokens(), y = tokens();
    static _Alignas(256) char room[1 << 20];
    const sparta_launch how = {.size = sizeof how, .workspace = room, .workspace_bytes = sizeof room};
    char said[200];
    assert_int_equal(sparta_blocks_multiply(&s, &x, &y, NULL, &how, said, sizeof said), SPARTA_OK);
    assert_int_equal(fake()->launch.block[0], QUICK);
    end();
}

/* A preferred point whose kernel does not launch: the rule's does, and it is not tried again. */
static void one_that_fails_is_forgotten(void **state)
{
    (void)state;
    need_nvrtc();
    begin();
    assert_int_equal(sparta_blocks_recall(cx, path), 1);
    assert_non_null(preferred());
    const sp_cuda_job job = same_job();
    char said[200];
    const sp_complaint c = {.where = "test", .text = said, .size = sizeof said};
    fake_fail("cuLaunchKernelEx", 701);
    assert_int_equal(sp_cuda_run_row(&c, &sp_cuda_few, &job, sp_gpu_at(0)), SPARTA_E_DEVICE);
    assert_null(preferred());
    fake_fail("", 0);
    assert_int_equal(sp_cuda_run_row(&c, &sp_cuda_few, &job, sp_gpu_at(0)), SPARTA_OK);
    end();
}

/* Nothing is faster by 2 %: the rule's point stays. */
static void a_draw_is_the_rules(void **state)
{
    (void)state;
    sparta_tuned t;
    need_nvrtc();
    begin();
    if (tune(SPARTA_SAMPLE, &t)) fail_msg("%s", sparta_message(cx));
    assert_string_equal(t.implement, "sampled");
    assert_string_equal(t.point, "");
    assert_true(t.us == t.rule_us && t.points > 4 && t.wrong == 0);
    end();
}

/* ------------------------------------------------------------------ what is refused, and what is harmless */
static void refused(const sparta_tune_call *call, sparta_status status, const char *words)
{
    sparta_tuned t = {.size = sizeof t};
    const sparta_status is = sparta_blocks_tune(cx, call, &t);
    if (is != status || !strstr(sparta_message(cx), words))
        fail_msg("%s: '%s', expected '%s'", sparta_status_name(is), sparta_message(cx), words);
    assert_int_equal(t.points, 0);
}

static void what_is_no_call(void **state)
{
    (void)state;
    begin();
    sparta_blocks s = blocks();
    const sparta_tensor x = tokens();
    sparta_tune_call call = {
        .size = sizeof call, .verb = SPARTA_SOFTMAX, .s = &s, .x = &x, .y = &x, .db = path};
    refused(&call, SPARTA_E_USAGE, "products and samples");
    call.verb = SPARTA_MULTIPLY;
    s.height = 4;
    refused(&call, SPARTA_E_SHAPE, "");
    s = blocks();
    s.pos.device = s.crd.device = s.values.device = 0;
    refused(&call, SPARTA_E_UNSUPPORTED, "");
    s = blocks();
    call.s = NULL;
    refused(&call, SPARTA_E_USAGE, "no blocks");
    call = (sparta_tune_call){0};
    refused(&call, SPARTA_E_USAGE, "size");
    end();
}

static void a_driver_that_fails(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemAlloc_v2",   "cuMemsetD8Async",     "cuCtxSynchronize",
                                        "cuMemcpyDtoH_v2", "cuStreamCreate",      "cuGraphLaunch",
                                        "cuEventCreate",   "cuMemcpyDtoDAsync_v2"};
    need_nvrtc();
    snprintf(path, sizeof path, ":memory:");
    begin();
    for (size_t i = 0; i < SP_COUNT(calls); i++) {
        sparta_tuned t;
        fake_fail(calls[i], 700);
        assert_int_equal(tune(SPARTA_MULTIPLY, &t), SPARTA_E_DEVICE);
        assert_non_null(strstr(sparta_message(cx), calls[i]));
        assert_null(preferred());
        const fake_state *f = fake();
        assert_true(!f->allocations && !f->streams && !f->graphs && !f->runnables && !f->events);
    }
    end();
}

static void put(sp_tune_db *db, const char *key, const char *implement, const char *point, const char *code,
                double us)
{
    sp_trial t = {.us = us, .threads = 1};
    snprintf(t.implement, sizeof t.implement, "%s", implement);
    snprintf(t.point, sizeof t.point, "%s", point);
    snprintf(t.code, sizeof t.code, "%s", code);
    sp_tune_add(db, key, &t);
}

static void rubbish_in_the_database_is_harmless(void **state)
{
    (void)state;
    char key[512], code[40];
    const sp_cuda_job job = same_job();
    sp_tune_db *db;
    begin();
    sp_cuda_task_print(&sp_cuda_few, &job, sp_gpu_at(0), key, sizeof key);
    sp_cuda_code(&sp_cuda_few, code);
    assert_int_equal(sp_tune_open(cx, path, &db), SPARTA_OK);
    put(db, "gpu ", "few", "", code, 9);
    put(db, "gpu ", "few", "WARPS=16", code, 1); /* a key without a number */
    put(db, "gpu #0123456789abcdef", "nothing", "WARPS=16", code, 1);
    put(db, "gpu x #0123456789abcdef", "few", "", code, 9);
    put(db, "gpu x #0123456789abcdef", "few", "WARPS=16 of", code, 1);
    put(db, "gpu y #0123456789abcdef", "few", "WARPS=16", "other code", 1);
    put(db, "gpu z #0123456789abcdef", "few", "WARPS=16", code, 1); /* nobody timed the rule */
    assert_int_equal(sparta_blocks_recall(cx, path), 0);
    put(db, key, "few", "", code, 9);
    put(db, key, "few", "WARPS=999", code,
        1); /* a point that is none of this job's: it is there and never used */
    assert_int_equal(sparta_blocks_recall(cx, path), 1);
    assert_null(preferred());
    sp_tune_close(db);
    end();
}

/* What was faster with other code does not stand before what is fastest now. */
static void points_of_older_code_are_passed_over(void **state)
{
    (void)state;
    char key[512], code[40];
    const sp_cuda_job job = same_job();
    sp_tune_db *db;
    begin();
    sp_cuda_task_print(&sp_cuda_few, &job, sp_gpu_at(0), key, sizeof key);
    sp_cuda_code(&sp_cuda_few, code);
    assert_int_equal(sp_tune_open(cx, path, &db), SPARTA_OK);
    put(db, key, "few", "", code, 9);
    put(db, key, "few", "ROWS=16 WARPS=4", "other code", 1);
    put(db, key, "few", "ROWS=16 WARPS=16", code, 5);
    assert_int_equal(sparta_blocks_recall(cx, path), 1);
    assert_string_equal(preferred(), "ROWS=16 WARPS=16");
    sp_tune_close(db);
    end();
}

static void the_environment_says_what_runs(void **state)
{
    (void)state;
    sparta_tuned t;
    setenv("SPARTA_CUDA_FEW_POINT", "WARPS=8", 1);
    begin();
    assert_int_equal(tune(SPARTA_MULTIPLY, &t), SPARTA_E_USAGE);
    assert_non_null(strstr(sparta_message(cx), "SPARTA_CUDA_FEW_POINT says what runs"));
    end();
}

static void an_environment_that_is_wrong(void **state)
{
    (void)state;
    setenv("SPARTA_CUDA_FEW_POINT", "WARPS=many", 1);
    begin();
    const sparta_blocks s = blocks();
    const sparta_tensor x = tokens(), y = tokens();
    const int64_t words = sparta_blocks_index_words(&s);
    sparta_blocks indexed = s;
    indexed.index = array(SPARTA_I32, 1, &words, memory);
    char said[300];
    assert_int_equal(sparta_blocks_multiply(&indexed, &x, &y, NULL, NULL, said, sizeof said), SPARTA_E_USAGE);
    assert_non_null(strstr(said, "SPARTA_CUDA_FEW_POINT=WARPS=many: it is NAME=number"));
    end();
}

#define ON(test)                                                                                             \
    {                                                                                                        \
#test, "cuda.so", "", test                                                                           \
    }
int main(void)
{
    static const fake_test tests[] = {
        ON(the_fastest_that_is_right_wins), /* the next two read what it wrote */
        ON(another_process_knows),
        ON(one_that_fails_is_forgotten),
        ON(a_draw_is_the_rules),
        ON(what_is_no_call),
        ON(a_driver_that_fails),
        ON(the_environment_says_what_runs),
        ON(an_environment_that_is_wrong),
    };
    static const fake_test alone[] = {ON(rubbish_in_the_database_is_harmless)},
                           older[] = {ON(points_of_older_code_are_passed_over)};
    char folder[] = "/tmp/sparta-tune-gpu-XXXXXX";
    setenv("SPARTA_CACHE", "off", 1);
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/tune.db", folder);
    int failed = fake_run(tests, SP_COUNT(tests));
    snprintf(path, sizeof path, "%s/rubbish.db", folder);
    failed += fake_run(alone, SP_COUNT(alone));
    snprintf(path, sizeof path, "%s/older.db", folder);
    failed += fake_run(older, SP_COUNT(older));
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return failed + (system(command) != 0);
}
