/* The table of targets. A target fits when the CPU has every instruction its compiler flags may produce. */
#include "device/device.h"
#include <stdlib.h>
#include <string.h>

/* All of x86-64-v3, all of v4: the flags allow the compiler any of it. */
static bool cpu_has_avx2(void)
{
    static const char *const v3[] = {"sse4_2", "popcnt", "movbe", "lzcnt", "bmi1",
                                     "bmi2",   "avx",    "f16c",  "fma",   "avx2"};
    for (size_t i = 0; i < SPARTA_COUNT(v3); i++)
        if (!sparta_cpu_has(v3[i])) return false;
    return true;
}
static bool cpu_has_avx512(void)
{
    static const char *const more[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
    for (size_t i = 0; i < SPARTA_COUNT(more); i++)
        if (!sparta_cpu_has(more[i])) return false;
    return cpu_has_avx2();
}

static bool cpu_any(void)
{
    return true;
}

static const struct {
    const char *name, *flags;
    int bytes;
    bool (*probe)(void);
} targets[] = {
#define SPARTA_TARGET(id, name, flags, bytes, probe) {name, flags, bytes, probe},
#include "device/targets.def"
#undef SPARTA_TARGET
};

static bool known(sparta_target t)
{
    return (unsigned)t < SPARTA_TARGETS;
}

const char *sparta_target_name(sparta_target t)
{
    return known(t) ? targets[t].name : "unknown";
}
const char *sparta_target_flags(sparta_target t)
{
    return known(t) ? targets[t].flags : "";
}
int sparta_target_bytes(sparta_target t)
{
    return known(t) ? targets[t].bytes : 0;
}

bool sparta_target_parse(const char *name, sparta_target *out)
{
    for (int t = 0; name && t < SPARTA_TARGETS; t++) {
        if (strcmp(targets[t].name, name)) continue;
        *out = (sparta_target)t;
        return true;
    }
    return false;
}

/* SPARTA_TARGET, or NULL when it is not set or empty. */
static const char *wanted(void)
{
    const char *name = getenv("SPARTA_TARGET");
    return name && *name ? name : NULL;
}

sparta_status sparta_target_check(sparta_ctx *cx)
{
    sparta_target t;
    if (!wanted() || sparta_target_parse(wanted(), &t)) return SPARTA_OK;
    return sparta_fail(cx, SPARTA_E_USAGE,
                       "SPARTA_TARGET: there is no target \"%s\"; it is avx512, avx2 or portable, or not set",
                       wanted());
}

bool sparta_target_fits(sparta_target t)
{
    sparta_target best;
    if (!known(t) || !targets[t].probe()) return false;
    return !sparta_target_parse(wanted(), &best) || t >= best;
}

sparta_target sparta_target_best(void)
{
    int t = 0;
    while (t < SPARTA_TARGETS - 1 && !sparta_target_fits((sparta_target)t)) t++;
    return (sparta_target)t;
}
