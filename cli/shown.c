/* The flags of a verb as its help shows them: which, in which order, in which words (shown.def). */
#include "cli.h"
#include <string.h>

typedef struct shown {
    const char *verb;
    cli_option_id id;
    const char *metavar, *help; /* "": the option's own */
} shown;

static const shown rows[] = {
#define CLI_SHOWN(verb, option, metavar, help) {#verb, CLI_##option, metavar, help},
#include "shown.def"
#undef CLI_SHOWN
};

static const shown *row_of(const cli_option *o, const cli_verb *verb)
{
    for (size_t i = 0; verb && i < SP_COUNT(rows); i++)
        if (&cli_options[rows[i].id] == o && !strcmp(rows[i].verb, verb->name)) return &rows[i];
    return NULL;
}

const char *cli_shown_metavar(const cli_option *o, const cli_verb *verb)
{
    const shown *r = row_of(o, verb);
    return r && *r->metavar ? r->metavar : o->metavar;
}

const char *cli_shown_help(const cli_option *o, const cli_verb *verb)
{
    const shown *r = row_of(o, verb);
    return r && *r->help ? r->help : o->help;
}

bool cli_option_common(const cli_option *o)
{
    return o->verbs[0] == '*';
}

int cli_shown(const cli_verb *verb, cli_option_id out[CLI_OPTIONS])
{
    int n = 0;
    for (size_t i = 0; i < SP_COUNT(rows); i++)
        if (!strcmp(rows[i].verb, verb->name) && !cli_option_common(&cli_options[rows[i].id]))
            out[n++] = rows[i].id;
    for (int common = 0; common < 2; common++)
        for (int id = 0; id < CLI_OPTIONS; id++) {
            const cli_option *o = &cli_options[id];
            if (!cli_option_named(o, verb) || cli_option_common(o) != common) continue;
            if (common || !row_of(o, verb)) out[n++] = (cli_option_id)id;
        }
    return n;
}
