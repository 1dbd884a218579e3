/* Which implement stores a weight in a given format: what a schedule's format clause asks for, and what advice tells. */
#include "implement/implement.h"

/* The same storage? Widths that were not asked for are the implement's choice. */
static bool same_storage(sparta_format asked, const sparta_format *has, bool widths)
{
    for (int i = 0; !widths && i < SPARTA_MIN(asked.n, has->n); i++) {
        asked.level[i].pos = has->level[i].pos;
        asked.level[i].crd = has->level[i].crd;
    }
    return sparta_format_equal(&asked, has);
}

/* The format in which the implement keeps a weight of this shape. */
static sparta_status format_of(sparta_ctx *cx, const sparta_implement *im, const sparta_task *task,
                               sparta_format *out)
{
    sparta_text text;
    sparta_text_init(&text, cx);
    im->format(task, &text);
    sparta_status status = text.status;
    if (!status) status = sparta_format_parse(cx, sparta_text_str(&text), out);
    sparta_text_free(&text);
    return status;
}

sparta_status sparta_implement_for_format(sparta_ctx *cx, const sparta_format *f, bool widths, int64_t n,
                                          int64_t k, const sparta_implement **out)
{
    const sparta_implement *walk = sparta_implement_find("walk");
    for (int i = 0; i < sparta_implement_count(); i++) {
        const sparta_implement *im = sparta_implement_row(i);
        if (!im->format || !im->kernel || im == walk || im->version || im->rows)
            continue; /* what a schedule means does not depend on a library that may be here or not, nor on tokens */
        for (int setting = 0; setting < sparta_implement_settings(im); setting++) {
            const sparta_task task = {.n = n, .k = k, .setting = setting};
            sparta_format has;
            if (im->differs && !im->differs(&task)) continue;
            SPARTA_TRY(format_of(cx, im, &task, &has));
            if (!same_storage(*f, &has, widths)) continue;
            *out = im;
            return SPARTA_OK;
        }
    }
    *out = walk;
    return SPARTA_OK;
}
