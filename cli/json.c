/* JSON, written in order. Depth is bounded by what the verbs write (a dozen levels at most). */
#include "cli.h"
#include <math.h>
#include <string.h>

static void before(cli_json *j, const char *key)
{
    if (j->filled[j->depth]) sp_text_printf(j->t, ",");
    j->filled[j->depth] = true;
    if (!key) return;
    sp_text_json(j->t, key);
    sp_text_printf(j->t, ":");
}

void cli_json_open(cli_json *j, const char *key, char bracket)
{
    before(j, key);
    sp_text_printf(j->t, "%c", bracket);
    if (j->depth + 1 < (int)SP_COUNT(j->filled)) j->depth++;
    j->filled[j->depth] = false;
}

void cli_json_close(cli_json *j, char bracket)
{
    sp_text_printf(j->t, "%c", bracket);
    if (j->depth > 0) j->depth--;
}

void cli_json_text(cli_json *j, const char *key, const char *value)
{
    before(j, key);
    if (value)
        sp_text_json(j->t, value);
    else
        sp_text_printf(j->t, "null");
}

void cli_json_int(cli_json *j, const char *key, int64_t value)
{
    before(j, key);
    sp_text_printf(j->t, "%lld", (long long)value);
}

void cli_json_real(cli_json *j, const char *key, double value)
{
    before(j, key);
    if (isfinite(value))
        sp_text_printf(j->t, "%.9g", value);
    else
        sp_text_printf(j->t, "null");
}

void cli_json_bool(cli_json *j, const char *key, bool value)
{
    before(j, key);
    sp_text_printf(j->t, value ? "true" : "false");
}

cli_json cli_json_begin(cli *c, const char *verb)
{
    cli_json j = {.t = &c->out};
    cli_json_open(&j, NULL, '{');
    before(&j, "schema");
    sp_text_printf(j.t, "\"sparta.%s/1\"", verb);
    return j;
}

void cli_json_end(cli *c, cli_json *j)
{
    const char *notes = cli_words_of(c, sparta_notes(c->cx));
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
