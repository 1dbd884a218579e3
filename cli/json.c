/* JSON, written in order. Depth is bounded by what the verbs write (a dozen levels at most). */
#include "cli.h"
#include <math.h>
#include <string.h>

/* A comma and the key; false: nobody reads this. */
static bool before(cli_json *j, const char *key)
{
    if (!j->t) return false;
    if (j->filled[j->depth]) sp_text_printf(j->t, ",");
    j->filled[j->depth] = true;
    if (key) sp_text_json(j->t, key);
    if (key) sp_text_printf(j->t, ":");
    return true;
}

void cli_json_open(cli_json *j, const char *key, char bracket)
{
    if (!before(j, key)) return;
    sp_text_printf(j->t, "%c", bracket);
    if (j->depth + 1 < (int)SP_COUNT(j->filled)) j->depth++;
    j->filled[j->depth] = false;
}

void cli_json_close(cli_json *j, char bracket)
{
    if (!j->t) return;
    sp_text_printf(j->t, "%c", bracket);
    if (j->depth > 0) j->depth--;
}

void cli_json_text(cli_json *j, const char *key, const char *value)
{
    if (!before(j, key)) return;
    if (value)
        sp_text_json(j->t, value);
    else
        sp_text_printf(j->t, "null");
}

void cli_json_int(cli_json *j, const char *key, int64_t value)
{
    if (before(j, key)) sp_text_printf(j->t, "%lld", (long long)value);
}

void cli_json_ints(cli_json *j, const char *key, int n, const int64_t *value)
{
    cli_json_open(j, key, '[');
    for (int i = 0; i < n; i++) cli_json_int(j, NULL, value[i]);
    cli_json_close(j, ']');
}

void cli_json_real(cli_json *j, const char *key, double value)
{
    if (!before(j, key)) return;
    if (isfinite(value))
        sp_text_printf(j->t, "%.9g", value);
    else
        sp_text_printf(j->t, "null");
}

void cli_json_bool(cli_json *j, const char *key, bool value)
{
    if (before(j, key)) sp_text_printf(j->t, value ? "true" : "false");
}

void cli_json_range(cli_json *j, const char *key, double from, double to)
{
    cli_json_open(j, key, '[');
    cli_json_real(j, NULL, from);
    cli_json_real(j, NULL, to);
    cli_json_close(j, ']');
}

cli_json cli_json_begin(cli *c, const char *verb)
{
    cli_json j = {.t = cli_wants_json(c) ? &c->out : NULL};
    cli_json_open(&j, NULL, '{');
    if (before(&j, "schema")) sp_text_printf(j.t, "\"sparta.%s/1\"", verb);
    return j;
}

void cli_json_end(cli *c, cli_json *j)
{
    const char *notes = cli_words_of(c, sparta_notes(c->cx));
    if (!j->t) return;
    cli_json_open(j, "notes", '[');
    for (const char *p = notes; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *one = sp_arena_bytes(c->arena, p, strcspn(p, "\n"));
        if (one && *one) cli_json_text(j, NULL, one);
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
    sp_text_printf(j->t, "\n");
}

bool cli_wants_json(const cli *c)
{
    return cli_has(c, CLI_JSON);
}
