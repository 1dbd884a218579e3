/* Points that somebody asks for by name: are they in the space of a row, and if not, what is? */
#include "implement/implement.h"
#include <stdio.h>
#include <string.h>

static bool has_word(const char *point, const char *word, size_t length)
{
    for (const char *p = point; *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        if (n == length && !memcmp(p, word, n)) return true;
        p += n;
    }
    return false;
}

bool sp_point_has(const char *point, const char *words)
{
    for (const char *p = words; *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        if (!has_word(point, p, n)) return false;
        p += n;
    }
    return true;
}

/* "RANGE=128|256|512 CL=1|2 (where RANGE=128)" */
static void list_knobs(const sp_implement *im, sp_text *out)
{
    if (!im->space) sp_text_printf(out, "none");
    for (int i = 0; im->space && i < im->space->n; i++) {
        const sp_knob *knob = &im->space->knob[i];
        sp_text_printf(out, "%s%s=", i ? " " : "", knob->name);
        for (int k = 0; k < knob->n; k++) sp_text_printf(out, "%s%d", k ? "|" : "", knob->value[k]);
        if (knob->when) sp_text_printf(out, " (where %s)", knob->when);
    }
}

/* The knob of a word; *value: the one it says is among its own. */
static const sp_knob *knob_of(const sp_implement *im, const char *word, size_t length, bool *value)
{
    const size_t name = SP_MIN(strcspn(word, "="), length);
    for (int i = 0; im->space && i < im->space->n; i++) {
        const sp_knob *knob = &im->space->knob[i];
        if (strlen(knob->name) != name || memcmp(knob->name, word, name)) continue;
        *value = false;
        for (int k = 0; k < knob->n && !*value; k++) {
            char text[48];
            snprintf(text, sizeof text, "%s=%d", knob->name, knob->value[k]);
            *value = strlen(text) == length && !memcmp(text, word, length);
        }
        return knob;
    }
    return NULL;
}

static sparta_status refuse(sparta_ctx *cx, const sp_implement *im, const char *word, size_t length,
                            const char *why)
{
    sp_text knobs;
    sp_text_init(&knobs, cx);
    list_knobs(im, &knobs);
    const sparta_status s = sp_fail(cx, SPARTA_E_USAGE, "implement %s: %.*s: %s; its knobs: %s", im->name,
                                    (int)SP_MIN(length, 60), word, why, sp_text_str(&knobs));
    sp_text_free(&knobs);
    return s;
}

sparta_status sp_implement_has_point(sparta_ctx *cx, const sp_implement *im, const char *words, int64_t n,
                                     int64_t k)
{
    bool met = false, fits = false;
    for (const char *p = words; *p; p += strspn(p, " ")) {
        const size_t length = strcspn(p, " ");
        bool value;
        const sp_knob *knob = knob_of(im, p, length, &value);
        if (!knob) return refuse(cx, im, p, length, "it has no such knob");
        if (!value) return refuse(cx, im, p, length, "the knob has no such value");
        p += length;
    }
    for (int i = 0; i < sp_implement_points(im); i++) {
        sp_task task = {.n = n, .k = k};
        const bool allowed = sp_implement_point(im, i, &task);
        if (!sp_point_has(task.point, words)) continue;
        met = true;
        fits |= allowed;
    }
    if (!met) return refuse(cx, im, words, strlen(words), "one of these counts only where another is met");
    if (sp_implement_is_user(im)) return SPARTA_OK; /* it looks at the weight first */
    if (!fits) {
        char why[100];
        snprintf(why, sizeof why, "for a weight of (n, k) = (%lld, %lld) it is the same as another point",
                 (long long)n, (long long)k);
        return refuse(cx, im, words, strlen(words), why);
    }
    return SPARTA_OK;
}
