/* Every text of room cuda through NVRTC, at the points that its host file names: it compiles, nothing spills, wgmma runs undisturbed. A day takes the first of them and a third of the others (today.h). Needs no GPU. Skipped
 * without NVRTC, and by sanitizers, which would watch NVRTC for minutes. Slow: make test only. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "cuda/cuda.h"
#include "today.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
enum { LOG = 1 << 16, EVERY = 3 };
static char entry_log[LOG];

/* The text at a point as words: "BYTES=2 ...". */
static void say_point(const sp_cuda_point *point, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < point->n && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " %s=%d", point->parameter[i].name,
                              point->parameter[i].value);
}

/* "12 bytes spill stores" of any function; 0: none spills. */
static int spilled(const char *log)
{
    int worst = 0;
    for (const char *at = log; (at = strstr(at, " bytes spill stores")); at++) {
        const char *number = at;
        while (number > log && number[-1] >= '0' && number[-1] <= '9') number--;
        worst = SP_MAX(worst, atoi(number));
    }
    return worst;
}

/* The entry is in the image by this very name: KERNEL is extern "C". */
static bool names_entry(const char *image, size_t size, const char *entry)
{
    return memmem(image, size, entry, strlen(entry)) != NULL;
}

static void compile_at(sp_cuda_text text, const sp_cuda_point *point, const char *entry, sp_target target)
{
    char said[800] = "", where[64], at[512];
    const sp_complaint c = {.where = where, .text = said, .size = sizeof said};
    void *image = NULL;
    size_t size = 0;
    snprintf(where, sizeof where, "%s.cu for %s", sp_cuda_text_name(text), sp_target_name(target));
    say_point(point, at, sizeof at);
    char *whole = sp_cuda_text_at(text, point);
    assert_non_null(whole);
    const sparta_status status =
        sp_nvrtc_compile(&c, target, whole, &image, &size, entry_log, sizeof entry_log);
    free(whole);
    if (status != SPARTA_OK) fail_msg("%s, at%s\n%s", said, at, entry_log);
    if (!names_entry(image, size, entry)) fail_msg("%s: no entry %s, at%s", where, entry, at);
    free(image);
    if (target == SP_TARGET_SM90A && spilled(entry_log))
        fail_msg("%s: registers spill, at%s\n%s", where, at, entry_log);
    if (strstr(entry_log, "serialized")) fail_msg("%s: wgmma is serialised, at%s\n%s", where, at, entry_log);
}

static void texts_compile(void **state)
{
    (void)state;
    if (SANITIZED) skip();
    if (!sp_nvrtc_version()) {
        print_message("%s\n", sp_nvrtc_problem());
        skip();
    }
    for (int text = 0; text < SP_CUDA_TEXTS; text++) {
        sp_cuda_point point;
        const char *entry = "";
        sp_target target;
        int n = 0;
        for (; sp_cuda_sample_point((sp_cuda_text)text, n, &point, &entry, &target); n++)
            if (!n || todays((uint64_t)n, EVERY)) compile_at((sp_cuda_text)text, &point, entry, target);
        print_message("%s.cu: %d points\n", sp_cuda_text_name((sp_cuda_text)text), n);
        assert_true(n > 0);
    }
}

static void spills_are_seen(void **state)
{
    (void)state;
    assert_int_equal(spilled(""), 0);
    assert_int_equal(spilled("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"), 0);
    assert_int_equal(spilled("0 bytes spill stores\n24 bytes stack frame, 16 bytes spill stores\n"), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spills_are_seen), cmocka_unit_test(texts_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
