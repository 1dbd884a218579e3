/* device: what the machine says about itself, against the operating system's own words, and peaks that make
 * sense. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first "key : value" line of /proc/cpuinfo; "" when there is none. */
static void cpuinfo(const char *key, char *out, size_t size)
{
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "r");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) || (line[strlen(key)] != '\t' && line[strlen(key)] != ' '))
            continue;
        snprintf(out, size, "%s", strchr(line, ':') + 2);
        out[strcspn(out, "\n")] = 0;
        break;
    }
    if (f) fclose(f);
}

static void cpu_agrees_with_the_kernel(void **state)
{
    (void)state;
    const sp_cpu *c = sp_cpu_info();
    char value[8192];
    cpuinfo("vendor_id", value, sizeof value);
    if (!value[0]) skip();
    assert_string_equal(c->vendor, value);
    cpuinfo("cpu family", value, sizeof value);
    assert_int_equal(c->family, atoi(value));
    cpuinfo("model", value, sizeof value);
    assert_int_equal(c->model, atoi(value));
    assert_int_equal(c->cores, sp_cores());
    assert_true(c->memory > (size_t)64 << 20);
    assert_true(c->l1d == 0 || (c->l1d >= 8 << 10 && c->l1d <= 1 << 20));
    assert_true(c->l2 == 0 || c->l2 > c->l1d);
}

/* Every word of isa is a flag that the kernel reports too (it names some of them otherwise). */
static void isa_agrees_with_the_kernel(void **state)
{
    (void)state;
    char flags[8192], padded[8200], isa[256], *rest = isa;
    cpuinfo("flags", flags, sizeof flags);
    if (!flags[0]) skip();
    snprintf(padded, sizeof padded, " %s ", flags);
    snprintf(isa, sizeof isa, "%s", sp_cpu_info()->isa);
    assert_true(isa[0] != 0);
    for (char *word; (word = strsep(&rest, " "));) {
        char needle[64];
        snprintf(needle, sizeof needle, " %s ", strcmp(word, "lzcnt") ? word : "abm");
        if (!strstr(padded, needle)) fail_msg("isa has %s and /proc/cpuinfo has not", word);
        assert_true(sp_cpu_has(word));
    }
    assert_int_equal(sp_cpu_has("avx512f"), strstr(padded, " avx512f ") != NULL);
}

static void has_matches_whole_words(void **state)
{
    (void)state;
    assert_false(sp_cpu_has(""));
    assert_false(sp_cpu_has("vx"));
    assert_false(sp_cpu_has("avx51"));
    assert_false(sp_cpu_has("avx2 fma avx512f nonsense"));
}

static void digest_is_stable(void **state)
{
    (void)state;
    assert_true(sp_cpu_digest() != 0);
    assert_true(sp_cpu_digest() == sp_cpu_digest());
}

static void targets_parse_back(void **state)
{
    (void)state;
    sp_target t = SP_TARGET_PORTABLE;
    for (int i = 0; i < SP_TARGETS; i++) {
        assert_true(sp_target_parse(sp_target_name((sp_target)i), &t));
        assert_int_equal(t, i);
        assert_in_range(sp_target_device((sp_target)i), 0, SP_DEVICES - 1);
    }
    assert_false(sp_target_parse("AVX512", &t));
    assert_false(sp_target_parse("", &t));
    assert_false(sp_target_parse(NULL, &t));
    assert_int_equal(t, SP_TARGETS - 1); /* a failure leaves it */
    assert_false(sp_target_fits((sp_target)99));
    assert_false(sp_target_fits((sp_target)-1));
    assert_string_equal(sp_target_name((sp_target)99), "unknown");
    assert_int_equal(sp_target_device((sp_target)99), SP_DEVICES);
    assert_int_equal(sp_target_best(SP_DEVICES), SP_TARGET_PORTABLE); /* of a device that is not there */
    assert_string_equal(sp_target_flags((sp_target)99), "");
}

static void the_environment_lowers_what_fits(void **state)
{
    (void)state;
    bool had = sp_target_fits(SP_TARGET_AVX512);
    assert_true(sp_target_fits(SP_TARGET_PORTABLE));
    setenv("SPARTA_TARGET", "portable", 1);
    assert_false(sp_target_fits(SP_TARGET_AVX512));
    assert_int_equal(sp_target_best(SP_DEVICE_CPU), SP_TARGET_PORTABLE);
    assert_true(sp_peak_flops(SP_TARGET_AVX512, 1, 0.001) == 0);
    setenv("SPARTA_TARGET", "avx512", 1); /* cannot raise */
    assert_int_equal(sp_target_fits(SP_TARGET_AVX512), had);
    assert_true(sp_target_fits(SP_TARGET_PORTABLE));
    setenv("SPARTA_TARGET", "nonsense", 1);
    assert_int_equal(sp_target_fits(SP_TARGET_AVX512), had);
    unsetenv("SPARTA_TARGET");
    if (had) {
        assert_int_equal(sp_target_best(SP_DEVICE_CPU), SP_TARGET_AVX512);
        setenv("SPARTA_TARGET", "avx2", 1);
        assert_int_equal(sp_target_best(SP_DEVICE_CPU), SP_TARGET_AVX2);
        unsetenv("SPARTA_TARGET");
    }
}

static void peaks_make_sense(void **state)
{
    (void)state;
    double plain = sp_peak_flops(SP_TARGET_PORTABLE, 1, 0.02);
    double both = sp_peak_flops(SP_TARGET_PORTABLE, 2, 0.02);
    assert_true(plain > 1e9 && plain < 1e12);
    int most = sp_cores() > 1 ? 2 : 1;
    if (both < plain * 0.8 || both > plain * (most + 1)) fail_msg("1 thread %g, 2 threads %g", plain, both);
    if (sp_target_fits(SP_TARGET_AVX512)) {
        double wide = sp_peak_flops(SP_TARGET_AVX512, 1, 0.02);
        print_message("peak: portable %.1f GF/s, avx512 %.1f GF/s\n", plain / 1e9, wide / 1e9);
        assert_true(wide > 1.5 * plain && wide < 64 * 8e9 * 2);
        double narrow = sp_peak_flops(SP_TARGET_AVX2, 1, 0.02);
        assert_true(narrow > 1.5 * plain && narrow < 1.2 * wide);
    }
    double bytes = sp_peak_bandwidth(1, 0.05);
    print_message("bandwidth: %.1f GB/s\n", bytes / 1e9);
    assert_true(bytes > 1e8 && bytes < 1e12);
}

/* And end: with no end to the time asked for nothing would come back. */
static void odd_requests_are_answered(void **state)
{
    (void)state;
    assert_true(sp_peak_flops(sp_target_best(SP_DEVICE_CPU), 0, -1) > 0);
    assert_true(sp_peak_flops(sp_target_best(SP_DEVICE_CPU), 100000, 0.0 / 0.0) > 0);
    assert_true(sp_peak_flops((sp_target)77, 1, 1) == 0);
    assert_true(sp_peak_bandwidth(-3, 0) > 0);
}

int main(void)
{
    unsetenv("SPARTA_TARGET");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_agrees_with_the_kernel), cmocka_unit_test(isa_agrees_with_the_kernel),
        cmocka_unit_test(has_matches_whole_words),    cmocka_unit_test(digest_is_stable),
        cmocka_unit_test(targets_parse_back),         cmocka_unit_test(the_environment_lowers_what_fits),
        cmocka_unit_test(peaks_make_sense),           cmocka_unit_test(odd_requests_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
