/* pins: formats and implements that a schedule asked for, found again after the passes. Layers are known by their weights; merged ones (query, key and
 * value) are stored as one, so that what is asked of their parts must agree.
 */
#include "compile/lower.h"
#include <string.h>

static sp_effect *pin_named(const sp_obeyed *o, const char *name)
{
    for (int i = 0; i < o->n; i++) {
        sp_effect *e = &o->effect[i];
        if (e->implement && !strcmp(e->tensor, name)) return e;
    }
    return NULL;
}

static bool same_pin(const sp_effect *a, const sp_effect *b)
{
    return a->implement == b->implement && !strcmp(a->point, b->point) && !a->format == !b->format &&
           (!a->format || !strcmp(a->format, b->format)) && !a->kernel == !b->kernel &&
           (!a->kernel || !strcmp(a->kernel, b->kernel));
}

static sparta_status pin_merged(sparta_ctx *cx, const sp_obeyed *o, const sp_value *w, const sp_effect **out)
{
    int pinned = 0;
    sp_effect *some = NULL;
    bool same = true;
    for (int i = 0; i < w->n_parts; i++) {
        sp_effect *e = pin_named(o, w->part[i]);
        if (!e) continue;
        same &= !some || same_pin(some, e);
        some = e;
        e->used = true;
        pinned++;
    }
    if (pinned && (pinned < w->n_parts || !same)) {
        sp_fail(cx, SPARTA_E_UNSUPPORTED,
                "%s %.100s of '%.100s': the layer is merged into '%.100s', which is stored as one; say the "
                "same %s for all of them",
                some->clause, some->text, some->tensor, sp_initialiser_name(w), some->clause);
        return sp_lower_fail_at(cx, some->at);
    }
    *out = some;
    return SPARTA_OK;
}

sparta_status sp_lower_pin(sparta_ctx *cx, const sp_obeyed *o, const sp_node *n, const sp_effect **out)
{
    sparta_tensor w;
    *out = NULL;
    if (!o || !sp_implement_weight(n, &w)) return SPARTA_OK;
    sp_effect *e = pin_named(o, sp_initialiser_name(n->in[1]));
    if (!e) return pin_merged(cx, o, n->in[1], out);
    e->used = true;
    *out = e;
    return SPARTA_OK;
}

sparta_status sp_lower_pin_failed(sparta_ctx *cx, const lower_node *ln)
{
    const sp_implement *im = ln->pin->implement;
    const char *why = im->sparse && ln->sparse == LOWER_FORBIDDEN ? "only dense implements were asked for"
                      : ln->task.strict && im->sparse             ? "options.strict allows no sparse product"
                      : ln->pin->kernel
                          ? "there is no code of it: give a compiler, and a target that is not portable"
                      : ln->pin_wrong ? "it was tried and is wrong, as a note says"
                                      : "the layer does not fit it";
    sp_fail(cx, SPARTA_E_UNSUPPORTED, "%s %.100s of layer '%.100s': implement %s cannot run it: %s",
            ln->pin->clause, ln->pin->text, ln->node->name, im->name, why);
    return sp_lower_fail_at(cx, ln->pin->at);
}

sparta_status sp_lower_pins_used(sparta_ctx *cx, const sp_obeyed *o)
{
    for (int i = 0; o && i < o->n; i++) {
        const sp_effect *e = &o->effect[i];
        if (!e->implement || e->used) continue;
        sp_fail(cx, SPARTA_E_UNSUPPORTED,
                "%s %.100s of '%.100s': '%.100s' did not become a linear layer, so nothing stores it so",
                e->clause, e->text, e->tensor, e->layer);
        return sp_lower_fail_at(cx, e->at);
    }
    return SPARTA_OK;
}
