/* Which implement stores a weight in a given format: what a schedule's format clause asks for, and what advice tells. */
#include "implement/implement.h"
#include <string.h>

/* The same storage? Widths that were not asked for are the implement's choice. */
static bool same_storage(sp_format asked, const sp_format *has, bool widths)
{
    for (int i = 0; !widths && i < SP_MIN(asked.n, has->n); i++) {
        asked.level[i].pos = has->level[i].pos;
        asked.level[i].crd = has->level[i].crd;
    }
    return sp_format_equal(&asked, has);
}

void sp_implement_print_format(const sp_implement *im, const sp_task *task, sp_text *out)
{
    for (const char *p = im->format; *p; p += strspn(p, "$ACDEFGIKNORSTU")) {
        const size_t plain = strcspn(p, "$");
        sp_text_put(out, p, plain);
        p += plain;
        if (!strncmp(p, "$CRD", 4))
            sp_text_printf(out, task->k < 65536 ? "u16" : "u32");
        else if (!strncmp(p, "$RANGE", 6))
            sp_text_printf(out, "%lld", (long long)sp_point_get(task->point, "RANGE", 128));
        else if (!strncmp(p, "$ASKED", 6))
            sp_text_printf(out, "%s", task->format);
        else if (!strncmp(p, "$USER", 5))
            sp_text_printf(out, "%s", sp_implement_user_format(task));
        else if (!strncmp(p, "$FUNCTION", 9))
            sp_text_printf(out, "%s", sp_implement_function_format(task));
    }
}

sparta_status sp_implement_format(sparta_ctx *cx, const sp_implement *im, const sp_task *task, sp_format *out)
{
    sp_text text;
    sp_text_init(&text, cx);
    sp_implement_print_format(im, task, &text);
    sparta_status status = text.status;
    if (!status) status = sp_format_parse(cx, sp_text_str(&text), out);
    sp_text_free(&text);
    return status;
}

sparta_status sp_implement_for_format(sparta_ctx *cx, const sp_format *f, bool widths, int64_t n, int64_t k,
                                      const sp_implement **out)
{
    const sp_implement *walk = &sp_implement_walk;
    for (int i = 0; i < sp_implement_count(); i++) {
        const sp_implement *im = sp_implement_row(i);
        if (!im->format || !im->kernel || sp_implement_stores_any(im) || im->version ||
            !sp_implement_in_lanes(im))
            continue; /* what a format means does not depend on what may be here or not, nor on tokens */
        for (int p = 0; p < sp_implement_points(im); p++) {
            sp_task task = {.n = n, .k = k};
            sp_format has;
            if (!sp_implement_point(im, p, &task)) continue;
            SP_TRY(sp_implement_format(cx, im, &task, &has));
            if (!same_storage(*f, &has, widths)) continue;
            *out = im;
            return SPARTA_OK;
        }
    }
    *out = walk;
    return SPARTA_OK;
}
