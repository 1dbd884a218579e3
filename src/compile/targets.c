/* Targets of one package. The plan and the weights are the same for all of them; only machine code differs. The best target that runs here is the
 * one that choices are timed on. Code for the others is compiled from the same texts; what runs here is checked, what does not is marked. */
#include "compile/lower.h"
#include <string.h>

static sparta_status unknown(sparta_ctx *cx, const char *name, size_t n)
{
    sparta_text known;
    sparta_text_init(&known, cx);
    for (int t = 0; t < SPARTA_TARGETS; t++)
        sparta_text_printf(&known, "%s%s", t ? ", " : "", sparta_target_name((sparta_target)t));
    sparta_fail(cx, SPARTA_E_USAGE, "--target %.*s: unknown; this build knows %s",
                (int)SPARTA_MIN(n, (size_t)60), name, sparta_text_str(&known));
    sparta_text_free(&known);
    return SPARTA_E_USAGE;
}

static sparta_status mark(sparta_ctx *cx, const char *name, size_t n, bool *wanted)
{
    for (int t = 0; t < SPARTA_TARGETS; t++) {
        const char *known = sparta_target_name((sparta_target)t);
        if (strlen(known) != n || strncmp(known, name, n)) continue;
        wanted[t] = true;
        return SPARTA_OK;
    }
    return unknown(cx, name, n);
}

sparta_status sparta_lower_targets(sparta_ctx *cx, const char *list, lower_targets *out)
{
    bool wanted[SPARTA_TARGETS] = {false};
    lower_targets all = {.main = SPARTA_TARGET_PORTABLE, .foreign = true};
    SPARTA_TRY(sparta_target_check(cx));
    if (!list) wanted[sparta_target_best()] = true;
    for (const char *p = list; p; p = *p ? p + 1 : NULL) {
        const size_t n = strcspn(p, ",");
        SPARTA_TRY(mark(cx, p, n, wanted));
        p += n;
    }
    for (int t = 0; t < SPARTA_TARGETS; t++) { /* best first */
        if (!wanted[t]) continue;
        all.target[all.n++] = (sparta_target)t;
        if (!all.foreign || !sparta_target_fits((sparta_target)t)) continue;
        all.main = (sparta_target)t;
        all.foreign = false;
    }
    *out = all;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ code */

static sparta_status put(lowering *l, sparta_kernel *out, sparta_target target, const sparta_object *object)
{
    char *bytes = sparta_arena_bytes(l->package->arena, (const char *)object->bytes, object->size);
    SPARTA_NEED(l->cx, bytes);
    out->code[out->n_code++] =
        (sparta_kernel_code){target, (const uint8_t *)bytes, object->size, !sparta_target_fits(target)};
    return SPARTA_OK;
}

/* The kernel compiled once more, for a target beside the main one. */
static sparta_status compile_for(lowering *l, const lower_kernel *k, sparta_target target, sparta_kernel *out)
{
    sparta_text text;
    const sparta_object *object = NULL;
    sparta_text_init(&text, l->cx);
    sparta_status s = sparta_implement_text(k->kernel, k->parameters, target, &text);
    if (s == SPARTA_OK) s = text.status;
    if (s == SPARTA_OK) s = sparta_jit_get(l->cx, target, sparta_text_str(&text), &object, NULL);
    if (s == SPARTA_E_COMPILER) s = SPARTA_OK; /* the portable kernels are always there; jit left a note */
    if (s == SPARTA_OK && object) s = put(l, out, target, object);
    if (object) sparta_jit_close(object);
    sparta_text_free(&text);
    return s;
}

sparta_status sparta_lower_code(lowering *l, const lower_kernel *k, sparta_kernel *out)
{
    for (int i = 0; i < l->targets.n; i++) {
        const sparta_target t = l->targets.target[i];
        if (t == SPARTA_TARGET_PORTABLE) continue; /* is in the library */
        if (t != l->target)
            SPARTA_TRY(compile_for(l, k, t, out));
        else if (k->object)
            SPARTA_TRY(put(l, out, t, k->object));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ check */

/* The package as a machine sees it that runs nothing better than `only`. */
static sparta_status view_for(sparta_arena *arena, const sparta_package *p, sparta_target only,
                              sparta_package *out)
{
    *out = *p;
    out->kernel = sparta_arena_array(arena, (size_t)p->n_kernels + 1, sizeof *out->kernel);
    SPARTA_NEED(p->cx, out->kernel);
    for (int k = 0; k < p->n_kernels; k++) {
        sparta_kernel *to = &out->kernel[k];
        *to = p->kernel[k];
        to->n_code = 0;
        for (int c = 0; c < p->kernel[k].n_code; c++)
            if (p->kernel[k].code[c].target == only) to->code[to->n_code++] = p->kernel[k].code[c];
    }
    return SPARTA_OK;
}

static sparta_status verify_for(sparta_ctx *cx, const sparta_package *p, sparta_graph *g, sparta_target only,
                                const sparta_tolerance *tolerance)
{
    sparta_package view;
    sparta_arena *arena = sparta_arena_create(cx);
    SPARTA_NEED(cx, arena);
    sparta_status s = view_for(arena, p, only, &view);
    if (s == SPARTA_OK) s = sparta_lower_verify(cx, &view, g, tolerance);
    sparta_arena_free(arena);
    return s == SPARTA_OK ? s : sparta_fail_in(cx, "target %s", sparta_target_name(only));
}

sparta_status sparta_lower_verify_targets(sparta_ctx *cx, const sparta_package *p, sparta_graph *g,
                                          const sparta_tolerance *tolerance)
{
    sparta_package_target t[SPARTA_TARGETS];
    const int n = sparta_package_targets(p, t);
    bool first = true; /* what runs here is what a session takes */
    SPARTA_TRY(sparta_lower_verify(cx, p, g, tolerance));
    for (int i = 0; i < n; i++) {
        const char *name = sparta_target_name(t[i].target);
        if (t[i].unchecked)
            sparta_note(
                cx,
                "compile: the code for %s is not checked, since this CPU cannot run it; on one that can, "
                "`sparta verify PACKAGE --against MODEL` does",
                name);
        else if (!first)
            SPARTA_TRY(verify_for(cx, p, g, t[i].target, tolerance));
        first &= t[i].unchecked;
    }
    return SPARTA_OK;
}
