/* Points that can be chosen: as text, which of them a job can run at, and what is preferred; on the CPU. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "cuda/cuda.h"
#include "cuda/half.h"
#include <stdlib.h>
#include <string.h>

static const sp_gpu h200 = {.name = "H200",
                            .processors = 132,
                            .l2 = 50 << 20,
                            .shared = 227 << 10,
                            .target = SP_TARGET_SM90A,
                            .major = 9};
static const sp_cuda_row *const rows[] = {&sp_cuda_few, &sp_cuda_strips, &sp_cuda_sampled, &sp_cuda_half};
static _Alignas(16) char memory[16];

static sp_cuda_job job_of(const sp_cuda_row *row, int side, int64_t tokens)
{
    enum { WIDE = 3840 };
    return (sp_cuda_job){.verb = row == &sp_cuda_sampled ? SPARTA_SAMPLE : SPARTA_MULTIPLY,
                         .dtype = SPARTA_F16,
                         .rows = WIDE,
                         .cols = WIDE,
                         .height = side,
                         .width = side,
                         .down = WIDE / side,
                         .right = WIDE / side,
                         .blocks = (int64_t)(WIDE / side) * (WIDE / side) / 10,
                         .values = memory,
                         .x = memory,
                         .y = memory,
                         .x_step = WIDE,
                         .y_step = WIDE,
                         .tokens = tokens};
}

/* ------------------------------------------------------------------ texts */
static void every_text_of_a_space_is_a_point(void **state)
{
    (void)state;
    char text[SP_POINT_TEXT];
    sp_choice choice;
    for (size_t i = 0; i < SP_COUNT(rows); i++) {
        const sp_choices *of = rows[i]->choices;
        assert_ptr_equal(sp_cuda_row_named(rows[i]->name), rows[i]);
        for (int k = 0; k < SP_SPACE && of->space[k]; k++) {
            assert_true(sp_choice_parse(of, of->space[k], &choice));
            sp_choice_print(of, &choice, text);
            assert_string_equal(text, of->space[k]); /* names in their order: one text for one point */
        }
    }
    assert_null(sp_cuda_row_named("tiles"));
}

static void other_texts_are_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {"TOK",   "TOK=",   "=4",      "TOK=-1",          "TOK=1x",
                                        "KT=32", "tok=64", "TOK=64,", "TOK=99999999999", "TOK=64 ST",
                                        "TOKK=1"};
    sp_choice choice;
    for (size_t i = 0; i < SP_COUNT(wrong); i++)
        if (sp_choice_parse(sp_cuda_strips.choices, wrong[i], &choice)) fail_msg("%s", wrong[i]);
    assert_true(sp_choice_parse(sp_cuda_strips.choices, "", &choice));
    assert_true(sp_choice_parse(sp_cuda_strips.choices, "  TOK=64   NWG=1 ", &choice));
    assert_true(choice.value[0] == SP_BY_RULE && choice.value[1] == 64 && choice.value[2] == 1);
}

/* ------------------------------------------------------------------ spaces */
static void spaces_begin_with_the_rule_and_differ(void **state)
{
    (void)state;
    static const int sides[] = {128, 64, 32, 16};
    static const int64_t tokens[] = {16, 512, 8192};
    for (size_t i = 0; i < SP_COUNT(rows) * SP_COUNT(sides) * SP_COUNT(tokens); i++) {
        const sp_cuda_row *row = rows[i % 4];
        const sp_cuda_job job = job_of(row, sides[i / 4 % 4], tokens[i / 16]);
        sp_choice space[SP_SPACE], point[SP_SPACE];
        if (!row->takes(&job, &h200)) continue;
        const int n = sp_choice_space(row->choices, &job, &h200, space);
        print_message("%s, blocks of %lld, %lld tokens: %d points\n", row->name, (long long)job.height,
                      (long long)job.tokens, n);
        assert_in_range(n, 4, 20);
        for (int k = 0; k < n; k++) {
            assert_true(sp_choice_allowed(row->choices, &job, &h200, &space[k]));
            point[k] = space[k];
            assert_true(row->choices->settle(&job, &h200, &point[k]));
            for (int other = 0; other < k; other++)
                assert_memory_not_equal(&point[k], &point[other], sizeof *point);
        }
        for (int k = 0; k < SP_CHOICES; k++) assert_int_equal(space[0].value[k], SP_BY_RULE);
    }
}

/* Whatever is wanted, what is settled is a point that the row would choose itself: it stands when it is wanted whole. */
static void rubbish_is_settled_or_refused(void **state)
{
    (void)state;
    static const int values[] = {-1, -1, -1, 0, 1, 2, 3, 7, 16, 32, 64, 128, 256, 1000, 1 << 30};
    sp_rng rng = sp_rng_seed(7);
    for (int i = 0; i < 20000; i++) {
        const sp_cuda_row *row = rows[i % 4];
        const sp_cuda_job job = job_of(row, 16 << i / 4 % 4, i % 3 ? 40 : 2000);
        sp_choice wanted;
        if (!row->takes(&job, &h200)) continue;
        for (int k = 0; k < SP_CHOICES; k++) wanted.value[k] = values[sp_rng_next(&rng) % SP_COUNT(values)];
        const bool allowed = sp_choice_allowed(row->choices, &job, &h200, &wanted);
        sp_choice point = wanted;
        if (!row->choices->settle(&job, &h200, &point)) {
            assert_false(allowed);
            continue;
        }
        sp_choice whole = point;
        for (int k = 0; k < SP_CHOICES && row->choices->name[k]; k++) assert_true(point.value[k] >= 0);
        assert_true(sp_choice_allowed(row->choices, &job, &h200, &whole));
    }
}

/* ------------------------------------------------------------------ what is preferred */
static void tasks_are_alike_or_not(void **state)
{
    (void)state;
    const sp_cuda_job job = job_of(&sp_cuda_strips, 64, 4000);
    const uint64_t task = sp_cuda_task(&sp_cuda_strips, &job, &h200);
    char text[512];
    uint64_t read;
    sp_cuda_job other = job;
    other.tokens = 4096;
    assert_true(sp_cuda_task(&sp_cuda_strips, &other, &h200) == task);
    other.tokens = 4097;
    assert_true(sp_cuda_task(&sp_cuda_strips, &other, &h200) != task);
    other = job, other.words = (sp_words){1, {SP_WORD_BIAS}};
    assert_true(sp_cuda_task(&sp_cuda_strips, &other, &h200) != task);
    other = job, other.blocks /= 2;
    assert_true(sp_cuda_task(&sp_cuda_strips, &other, &h200) != task);
    other = job, other.keep = (const uint8_t *)memory; /* rows get clean values */
    assert_true(sp_cuda_task(&sp_cuda_strips, &other, &h200) == task);
    other.verb = SPARTA_SAMPLE;
    const uint64_t masked = sp_cuda_task(&sp_cuda_sampled, &other, &h200);
    other.keep = NULL;
    assert_true(sp_cuda_task(&sp_cuda_sampled, &other, &h200) != masked);
    sp_gpu gpu = h200;
    memcpy(gpu.name, "H100", 5);
    assert_true(sp_cuda_task(&sp_cuda_strips, &job, &gpu) != task);
    other = job, other.words = (sp_words){2, {SP_WORD_BIAS, SP_WORD_GELU}};
    sp_cuda_task_print(&sp_cuda_strips, &other, &h200, text, sizeof text);
    assert_non_null(strstr(text,
                           "gpu H200, sm_90a, driver 0; strips multiply f16 3840x3840 in 64x64, 10 % there, "
                           "4096 tokens bias gelu #"));
    assert_true(sp_cuda_task_parse(text, &read));
    assert_true(read == sp_cuda_task(&sp_cuda_strips, &other, &h200));
    static const char *const wrong[] = {"",
                                        "gpu ",
                                        "gpu #",
                                        "gpu #0123",
                                        "Linear 4x4 #0123456789abcdef",
                                        "gpu #0123456789abcdeg",
                                        "gpu #00123456789abcdef"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) assert_false(sp_cuda_task_parse(wrong[i], &read));
}

static sp_choice choice_of(const char *text)
{
    sp_choice choice;
    assert_true(sp_choice_parse(sp_cuda_strips.choices, text, &choice));
    return choice;
}

static void the_last_that_can_be_had_is_preferred(void **state)
{
    (void)state;
    const sp_cuda_job job = job_of(&sp_cuda_strips, 64, 4096);
    const uint64_t task = sp_cuda_task(&sp_cuda_strips, &job, &h200);
    sp_choice choice = choice_of("TOK=128 NWG=1 OCC=2");
    assert_null(sp_cuda_preferred(&sp_cuda_strips, &job, &h200));
    assert_true(sp_cuda_prefer(task, &choice));
    const sp_choice *found = sp_cuda_preferred(&sp_cuda_strips, &job, &h200);
    assert_non_null(found);
    assert_memory_equal(found, &choice, sizeof choice);
    choice = choice_of("TOK=7"); /* as a damaged database may have it */
    assert_true(sp_cuda_prefer(task, &choice));
    assert_null(sp_cuda_preferred(&sp_cuda_strips, &job, &h200));
    choice = choice_of("NWG=2"); /* 64 rows are not 128 */
    assert_true(sp_cuda_prefer(task, &choice));
    assert_null(sp_cuda_preferred(&sp_cuda_strips, &job, &h200));
    choice = choice_of("TOK=128");
    assert_true(sp_cuda_prefer(task, &choice));
    found = sp_cuda_preferred(&sp_cuda_strips, &job, &h200);
    assert_non_null(found);
    sp_cuda_forget(found);
    assert_null(sp_cuda_preferred(&sp_cuda_strips, &job, &h200));
    for (int i = 0; i < 1 << 15; i++)
        assert_true(sp_cuda_prefer(task, &choice)); /* more than there is room for */
    assert_ptr_equal(sp_cuda_preferred(&sp_cuda_strips, &job, &h200), found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_of_a_space_is_a_point),
        cmocka_unit_test(other_texts_are_none),
        cmocka_unit_test(spaces_begin_with_the_rule_and_differ),
        cmocka_unit_test(rubbish_is_settled_or_refused),
        cmocka_unit_test(tasks_are_alike_or_not),
        cmocka_unit_test(the_last_that_can_be_had_is_preferred),
    };
    setenv("SPARTA_CUDA_DRIVER", "/nowhere.so.1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
