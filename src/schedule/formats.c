/* The texts of formats in a schedule: names that it defines are written out, and mistakes are told with their place in the file.
 *
 *     format mine = bsr(4)                   mine, crd=u16                   ->  bsr(4), crd=u16
 *                                            sum{rownnz<=4 -> mine; ...}     ->  sum{rownnz<=4 -> bsr(4); ...}
 */
#include "format/format.h"
#include "schedule/inside.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the name of a defined format at the beginning of `text`; 0: there is none. */
static size_t defined_at(const sparta_schedule *s, const char *text, const sp_schedule_name **out)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || (text[n] && strchr("_.-", text[n]))) n++;
    for (int i = 0; i < s->n_formats; i++)
        if (strlen(s->format[i].name) == n && n && !memcmp(s->format[i].name, text, n)) {
            *out = &s->format[i];
            return n;
        }
    return 0;
}

/* Write out the names that the schedule defines. A format stands at the beginning and, in a sum, behind each "->". */
static sparta_status write_out(reader *r, const char *text, sp_schedule_at at, const char **out)
{
    sp_text t;
    bool here = true, any = false;
    sp_text_init(&t, r->cx);
    for (const char *p = text; *p && t.size <= SP_SCHEDULE_FORMAT;) {
        const sp_schedule_name *known = NULL;
        const size_t n = here ? defined_at(r->s, p, &known) : 0;
        any |= n > 0;
        sp_text_put(&t, n ? known->text : p, n ? strlen(known->text) : 1);
        here = *p == ' ' ? here : *p == '>' && p > text && p[-1] == '-';
        p += n ? n : 1;
    }
    const bool is_long = t.size > SP_SCHEDULE_FORMAT;
    const char *copy = t.status != SPARTA_OK ? NULL
                       : any                 ? sp_arena_string(r->s->arena, sp_text_str(&t))
                                             : text;
    sp_text_free(&t);
    SP_NEED(r->cx, copy);
    if (is_long)
        return sp_schedule_fail(r->cx, at, "the format with its names written out is longer than %d bytes",
                                SP_SCHEDULE_FORMAT);
    *out = copy;
    return SPARTA_OK;
}

/* A mistake in a format: "format:2:5: what" is told with line and column of the file. `moved`: names were written out, so that they are
 * those of another text. */
static sparta_status wrong_format(reader *r, sp_schedule_at at, bool moved)
{
    const sparta_status status = sp_ctx_status(r->cx);
    char said[900];
    int line, column, skip = 0;
    snprintf(said, sizeof said, "%s", sparta_message(r->cx));
    if (moved || sscanf(said, "format:%d:%d: %n", &line, &column, &skip) != 2 || !skip)
        return sp_fail_in(r->cx, "%.200s:%d:%d", at.file, at.line, at.column);
    return sp_fail(r->cx, status, "%.200s:%d:%d: format: %s", at.file, at.line + line - 1,
                   line > 1 ? column : at.column + column - 1, said + skip);
}

sparta_status sp_schedule_format_text(reader *r, const char **text, const char **means)
{
    sp_schedule_raw_text raw;
    sp_format f;
    SP_TRY(sp_schedule_raw(r, &raw));
    if (!*raw.text)
        return sp_schedule_fail(r->cx, raw.at, "expected the text of a format, e.g. strip(4), found nothing");
    SP_TRY(write_out(r, raw.text, raw.at, means));
    const bool moved = *means != raw.text;
    if (sp_format_parse(r->cx, moved ? *means : raw.bytes, &f) != SPARTA_OK)
        return wrong_format(r, raw.at, moved);
    *text = raw.text;
    return SPARTA_OK;
}
