/* The text of a pattern with its sparsity: "4x1:0.9", "2:4", "2:4@out", "rows:0.5", "cols:0.5". */
#include "prune/prune.h"
#include <stdio.h>
#include <string.h>

#define FORMS "write NxM:SPARSITY, n:m, n:m@out, rows:SPARSITY or cols:SPARSITY, e.g. 4x1:0.9, 2:4"
#define MOST  (1 << 20) /* of a block's size */

/* A number of at most 7 digits at *s; moves *s behind it. */
static bool number(const char **s, int *out)
{
    int value = 0, digits = 0;
    for (; **s >= '0' && **s <= '9' && digits < 8; (*s)++, digits++) value = value * 10 + (**s - '0');
    *out = value;
    return digits > 0 && digits < 8 && value <= MOST;
}

static sparta_status sparsity(sparta_ctx *cx, const char *text, const char *s, sparta_prune_spec *spec,
                              sparta_prune_spec *out)
{
    if (*s != ':')
        return sparta_fail(cx, SPARTA_E_USAGE, "prune: '%.60s' has no sparsity; write e.g. %.30s:0.9", text,
                           text);
    if (!sparta_parse_double(s + 1, &spec->sparsity) || !(spec->sparsity >= 0 && spec->sparsity <= 1))
        return sparta_fail(cx, SPARTA_E_USAGE,
                           "prune: '%.60s': the sparsity '%.30s' must be a number between 0 and 1", text,
                           s + 1);
    *out = *spec;
    return SPARTA_OK;
}

static sparta_status keep_of(sparta_ctx *cx, const char *text, const char *s, sparta_prune_spec *spec,
                             sparta_prune_spec *out)
{
    spec->along_out = !strcmp(s, "@out");
    if (*s && !spec->along_out)
        return sparta_fail(cx, SPARTA_E_USAGE,
                           "prune: '%.60s': '%.30s' after n:m, which takes no sparsity; only @out may follow",
                           text, s);
    if (spec->of < 2 || spec->of > 256 || spec->keep < 1 || spec->keep > spec->of)
        return sparta_fail(cx, SPARTA_E_USAGE,
                           "prune: '%.60s': n:m keeps n of each m, 1 <= n <= m, 2 <= m <= 256", text);
    *out = *spec;
    return SPARTA_OK;
}

sparta_status sparta_prune_parse(sparta_ctx *cx, const char *text, sparta_prune_spec *out)
{
    sparta_prune_spec spec = {0};
    const char *s = text;
    int first;
    if (!strncmp(text, "heads", 5) || !strncmp(text, "bands", 5))
        return sparta_fail(cx, SPARTA_E_UNSUPPORTED, "prune: '%.60s': %.5s are not there yet; " FORMS, text,
                           text);
    if (!strncmp(text, "rows", 4) || !strncmp(text, "cols", 4)) {
        spec.block_n = text[0] == 'r' ? 1 : 0;
        spec.block_m = 1 - spec.block_n;
        return sparsity(cx, text, text + 4, &spec, out);
    }
    if (!number(&s, &first))
        return sparta_fail(cx, SPARTA_E_USAGE, "prune: '%.60s' is no pattern; " FORMS, text);
    spec.block_n = spec.keep = first;
    if (*s == 'x' && (s++, number(&s, &spec.block_m)) && spec.block_n && spec.block_m) {
        spec.keep = 0;
        return sparsity(cx, text, s, &spec, out);
    }
    if (*s == ':' && (s++, number(&s, &spec.of))) {
        spec.block_n = spec.block_m = 1;
        return keep_of(cx, text, s, &spec, out);
    }
    return sparta_fail(cx, SPARTA_E_USAGE, "prune: '%.60s' is no pattern; " FORMS, text);
}
