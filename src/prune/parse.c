/* The text of a pattern, alone ("4x1", "rows", "2:4@out") and with its sparsity ("4x1:0.9", "2:4", "rows:0.5"). */
#include "prune/prune.h"
#include <stdio.h>
#include <string.h>

#define PATTERNS "NxM, n:m, n:m@out, rows or cols, e.g. 4x1, 2:4"
#define FORMS    "NxM:SPARSITY, n:m, n:m@out, rows:SPARSITY or cols:SPARSITY, e.g. 4x1:0.9, 2:4"
#define MOST     (1 << 20) /* of a block's size */

/* A number of at most 7 digits at *s; moves *s behind it. */
static bool number(const char **s, int *out)
{
    int value = 0, digits = 0;
    for (; **s >= '0' && **s <= '9' && digits < 8; (*s)++, digits++) value = value * 10 + (**s - '0');
    *out = value;
    return digits > 0 && digits < 8 && value <= MOST;
}

static sparta_status sparsity(sparta_ctx *cx, const char *text, const char *s, sp_prune_spec *spec)
{
    if (*s != ':')
        return sp_fail(cx, SPARTA_E_USAGE, "prune: '%.60s' has no sparsity; write e.g. %.30s:0.9", text,
                       text);
    if (!sp_parse_double(s + 1, &spec->sparsity) || !(spec->sparsity >= 0 && spec->sparsity <= 1))
        return sp_fail(cx, SPARTA_E_USAGE,
                       "prune: '%.60s': the sparsity '%.30s' must be a number between 0 and 1", text, s + 1);
    return SPARTA_OK;
}

static sparta_status keep_of(sparta_ctx *cx, const char *text, const char *s, sp_prune_spec *spec)
{
    spec->along_out = !strcmp(s, "@out");
    if (*s && !spec->along_out)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "prune: '%.60s': '%.30s' after n:m, which takes no sparsity; only @out may follow",
                       text, s);
    if (spec->of < 2 || spec->of > 256 || spec->keep < 1 || spec->keep > spec->of)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "prune: '%.60s': n:m keeps n of each m, 1 <= n <= m, 2 <= m <= 256", text);
    return SPARTA_OK;
}

/* The pattern at the beginning of the text; *rest is what follows it. */
static sparta_status pattern(sparta_ctx *cx, const char *text, const char *forms, sp_prune_spec *spec,
                             const char **rest)
{
    const char *s = text;
    *spec = (sp_prune_spec){0};
    *rest = text + 4;
    if (!strncmp(text, "heads", 5) || !strncmp(text, "bands", 5))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "prune: '%.60s': %.5s are not there yet; write %s", text,
                       text, forms);
    if (!strncmp(text, "rows", 4) || !strncmp(text, "cols", 4)) {
        spec->block_n = text[0] == 'r' ? 1 : 0;
        spec->block_m = 1 - spec->block_n;
        return SPARTA_OK;
    }
    if (!number(&s, &spec->block_n))
        return sp_fail(cx, SPARTA_E_USAGE, "prune: '%.60s' is no pattern; write %s", text, forms);
    if (*s == 'x' && (s++, number(&s, &spec->block_m)) && spec->block_n && spec->block_m) {
        *rest = s;
        return SPARTA_OK;
    }
    spec->keep = spec->block_n;
    if (*s == ':' && (s++, number(&s, &spec->of))) {
        spec->block_n = spec->block_m = 1;
        *rest = s + strlen(s);
        return keep_of(cx, text, s, spec);
    }
    return sp_fail(cx, SPARTA_E_USAGE, "prune: '%.60s' is no pattern; write %s", text, forms);
}

sparta_status sp_prune_parse_pattern(sparta_ctx *cx, const char *text, sp_prune_spec *out)
{
    sp_prune_spec spec;
    const char *rest;
    SP_TRY(pattern(cx, text, PATTERNS, &spec, &rest));
    if (*rest)
        return sp_fail(cx, SPARTA_E_USAGE, "prune: '%.60s' is no pattern: what is '%.30s'? write " PATTERNS,
                       text, rest);
    *out = spec;
    return SPARTA_OK;
}

sparta_status sp_prune_parse(sparta_ctx *cx, const char *text, sp_prune_spec *out)
{
    sp_prune_spec spec;
    const char *rest;
    SP_TRY(pattern(cx, text, FORMS, &spec, &rest));
    if (!spec.of) SP_TRY(sparsity(cx, text, rest, &spec));
    *out = spec;
    return SPARTA_OK;
}
