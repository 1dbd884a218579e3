/* The table of targets. A target fits when the CPU has every instruction its compiler flags may produce. */
#include "device/device.h"
#include <stdlib.h>
#include <string.h>

/* All of x86-64-v3, all of v4: the flags allow the compiler any of it. */
static bool cpu_has_avx2(void)
{
    static const char *const v3[] = {"sse4_2", "popcnt", "movbe", "lzcnt", "bmi1",
                                     "bmi2",   "avx",    "f16c",  "fma",   "avx2"};
    for (size_t i = 0; i < SP_COUNT(v3); i++)
        if (!sp_cpu_has(v3[i])) return false;
    return true;
}
static bool cpu_has_avx512(void)
{
    static const char *const more[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
    for (size_t i = 0; i < SP_COUNT(more); i++)
        if (!sp_cpu_has(more[i])) return false;
    return cpu_has_avx2();
}

static bool cpu_any(void)
{
    return true;
}

/* Which targets a GPU runs is asked of the GPU (cuda.h). */
static bool no_cpu(void)
{
    return false;
}

static const struct {
    const char *name, *flags;
    sp_device device;
    bool (*probe)(void);
} targets[] = {
#define SP_TARGET(id, name, device, flags, probe) {name, flags, SP_DEVICE_##device, probe},
#include "device/targets.def"
#undef SP_TARGET
};

static bool known(sp_target t)
{
    return (unsigned)t < SP_TARGETS;
}

const char *sp_target_name(sp_target t)
{
    return known(t) ? targets[t].name : "unknown";
}
sp_device sp_target_device(sp_target t)
{
    return known(t) ? targets[t].device : SP_DEVICES;
}
const char *sp_target_flags(sp_target t)
{
    return known(t) ? targets[t].flags : "";
}
bool sp_target_parse(const char *name, sp_target *out)
{
    for (int t = 0; name && t < SP_TARGETS; t++) {
        if (strcmp(targets[t].name, name)) continue;
        *out = (sp_target)t;
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

sparta_status sp_target_check(sparta_ctx *cx)
{
    sp_target t;
    if (!wanted() || sp_target_parse(wanted(), &t)) return SPARTA_OK;
    return sp_fail(
        cx, SPARTA_E_USAGE,
        "SPARTA_TARGET: there is no target \"%s\"; it is avx512, avx2 or portable, of a GPU sm_90a "
        "or sm_80, or not set",
        wanted());
}

bool sp_target_allowed(sp_target t)
{
    sp_target best;
    if (!known(t)) return false;
    return !sp_target_parse(wanted(), &best) || targets[best].device != targets[t].device || t >= best;
}

bool sp_target_fits(sp_target t)
{
    return known(t) && targets[t].probe() && sp_target_allowed(t);
}

sp_target sp_target_best(sp_device device)
{
    for (int t = 0; t < SP_TARGETS; t++)
        if (targets[t].device == device && sp_target_fits((sp_target)t)) return (sp_target)t;
    return SP_TARGET_PORTABLE;
}
