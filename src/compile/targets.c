/* Targets of one package. The plan and the weights are the same for all of them; only machine code differs. The best target that runs here is the
 * one that choices are timed on. Code for the others is compiled from the same texts; what runs here is checked, what does not is marked. */
#include "compile/lower.h"
#include <string.h>

static bool is_gpus(const char *name, size_t n)
{
    bool is = false;
    for (int t = SP_CPU_TARGETS; t < SP_TARGETS; t++) {
        const char *known = sp_target_name((sp_target)t);
        is |= strlen(known) == n && !strncmp(known, name, n);
    }
    return is;
}

static sparta_status unknown(sparta_ctx *cx, const char *name, size_t n)
{
    sp_text known;
    sp_text_init(&known, cx);
    for (int t = 0; t < SP_CPU_TARGETS; t++)
        sp_text_printf(&known, "%s%s", t ? ", " : "", sp_target_name((sp_target)t));
    sp_fail(cx, SPARTA_E_USAGE, "options.target %.*s: %s; give %s", (int)SP_MIN(n, (size_t)60), name,
            is_gpus(name, n) ? "packages run on the CPU" : "there is no such target", sp_text_str(&known));
    sp_text_free(&known);
    return SPARTA_E_USAGE;
}

static sparta_status mark(sparta_ctx *cx, const char *name, size_t n, bool *wanted)
{
    for (int t = 0; t < SP_CPU_TARGETS; t++) {
        const char *known = sp_target_name((sp_target)t);
        if (strlen(known) != n || strncmp(known, name, n)) continue;
        wanted[t] = true;
        return SPARTA_OK;
    }
    return unknown(cx, name, n);
}

sparta_status sp_lower_targets(sparta_ctx *cx, const char *list, lower_targets *out)
{
    bool wanted[SP_CPU_TARGETS] = {false};
    lower_targets all = {.foreign = true};
    bool found[SP_DEVICES] = {false};
    SP_TRY(sp_target_check(cx));
    for (int d = 0; d < SP_DEVICES; d++) all.main[d] = SP_TARGET_PORTABLE;
    if (!list) wanted[sp_target_best(SP_DEVICE_CPU)] = true;
    for (const char *p = list; p; p = *p ? p + 1 : NULL) {
        const size_t n = strcspn(p, ",");
        SP_TRY(mark(cx, p, n, wanted));
        p += n;
    }
    for (int t = 0; t < SP_CPU_TARGETS; t++) { /* best first */
        if (!wanted[t]) continue;
        all.target[all.n++] = (sp_target)t;
        const sp_device device = sp_target_device((sp_target)t);
        if (found[device] || !sp_target_fits((sp_target)t)) continue;
        all.main[device] = (sp_target)t;
        all.foreign = false;
        found[device] = true;
    }
    *out = all;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ code */

static sparta_status put(lowering *l, sp_kernel *out, sp_target target, const sp_object *object)
{
    char *bytes = sp_arena_bytes(l->package->arena, (const char *)object->bytes, object->size);
    SP_NEED(l->cx, bytes);
    out->code[out->n_code++] = (sp_kernel_code){target, sp_panel_abi(), (const uint8_t *)bytes, object->size,
                                                !sp_target_fits(target)};
    return SPARTA_OK;
}

/* The kernel compiled once more, for a target beside the main one. */
static sparta_status compile_for(lowering *l, const lower_kernel *k, sp_target target, sp_kernel *out)
{
    const sp_object *object;
    SP_TRY(sp_implement_code(l->cx, k->kernel, k->parameters, target, &object));
    if (!object) return SPARTA_OK;
    const sparta_status s = put(l, out, target, object);
    sp_jit_close(object);
    return s;
}

sparta_status sp_lower_code(lowering *l, const lower_kernel *k, sp_kernel *out)
{
    out->code = sp_arena_array(l->package->arena, (size_t)l->targets.n + 1, sizeof *out->code);
    SP_NEED(l->cx, out->code);
    for (int i = 0; i < l->targets.n; i++) {
        const sp_target t = l->targets.target[i];
        if (t == SP_TARGET_PORTABLE) continue; /* is in the library */
        if (t != l->target[sp_target_device(t)])
            SP_TRY(compile_for(l, k, t, out));
        else if (k->object)
            SP_TRY(put(l, out, t, k->object));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ check */

/* The package as a machine sees it that runs nothing better than `only`. */
static sparta_status view_for(sp_arena *arena, const sparta_package *p, sp_target only, sparta_package *out)
{
    *out = *p;
    out->kernel = sp_arena_array(arena, (size_t)p->n_kernels + 1, sizeof *out->kernel);
    SP_NEED(p->cx, out->kernel);
    for (int k = 0; k < p->n_kernels; k++) {
        sp_kernel *to = &out->kernel[k];
        *to = p->kernel[k];
        to->n_code = 0;
        to->code = sp_arena_array(arena, (size_t)p->kernel[k].n_code + 1, sizeof *to->code);
        SP_NEED(p->cx, to->code);
        for (int c = 0; c < p->kernel[k].n_code; c++)
            if (p->kernel[k].code[c].target == only) to->code[to->n_code++] = p->kernel[k].code[c];
    }
    return SPARTA_OK;
}

static sparta_status verify_for(sparta_ctx *cx, const sparta_package *p, sp_graph *g, sp_target only,
                                const sp_tolerance *tolerance)
{
    sparta_package view;
    sp_arena *arena = sp_arena_create(cx);
    SP_NEED(cx, arena);
    sparta_status s = view_for(arena, p, only, &view);
    if (s == SPARTA_OK) s = sp_lower_verify(cx, &view, g, tolerance);
    sp_arena_free(arena);
    return s == SPARTA_OK ? s : sp_fail_in(cx, "target %s", sp_target_name(only));
}

sparta_status sp_lower_verify_targets(sparta_ctx *cx, const sparta_package *p, sp_graph *g,
                                      const sp_tolerance *tolerance)
{
    sp_package_target t[SP_TARGETS];
    const int n = sp_package_targets(p, t);
    bool first = true; /* what runs here is what a session takes */
    SP_TRY(sp_lower_verify(cx, p, g, tolerance));
    for (int i = 0; i < n; i++) {
        const char *name = sp_target_name(t[i].target);
        if (t[i].unchecked)
            sp_note(cx,
                    "compile: the code for %s is not checked, since this CPU cannot run it; on one that can, "
                    "compare "
                    "the package's answers with those of the model (`sparta_model_run`)",
                    name);
        else if (!first)
            SP_TRY(verify_for(cx, p, g, t[i].target, tolerance));
        first &= t[i].unchecked;
    }
    return SPARTA_OK;
}
