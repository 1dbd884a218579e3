/* What the library says of its options and functions, in the words of the command line: "options.dims" is --dim to somebody who typed that. */
#include "cli.h"
#include <ctype.h>
#include <string.h>

static const struct {
    const char *library, *program; /* the program's is never longer: cli_words works in place */
} words[] = {
    {"options.dims", "--dim"},
    {"options.random", "--input"},
    {"options.strict", "--strict"},
    {"options.max_memory", "--max-memory"},
    {"options.threads", "--threads"},
    {"options.target", "--target"},
    {"options.tokens", "--tokens"},
    {"options.masks", "--masks"},
    {"options.schedule", "--schedule"},
    {"options.remove", "--remove"},
    {"options.multiple", "--multiple"},
    {"options.no_propagate", "--no-propagate"},
    {"options.dense_only", "--dense"},
    {"options.no_measure", "--no-measure"},
    {"options.remeasure", "--remeasure"},
    {"options.limit", "--limit"},
    {"options.rtol", "--rtol"},
    {"options.atol", "--atol"},
    {"options.db", "--db"},
    {"options.external_data_root", "--external-data-root"},
    {"options.copy_files", "--copy"},
    {"options.cache_dir", "--cache"},
    {"options.compiler", "--compiler"},
    {"sparta_archive_open", "sparta inspect"},
    {"sparta_compile", "sparta compile"},
    {"sparta_model_report", "sparta inspect"},
    {"sparta_model_run", "sparta verify"},
    {"sparta_package_open", "sparta run"},
    {"sparta_packed_create", "sparta format pack"},
    {"sparta_propagate_file", "sparta propagate"},
};

/* The program's word for what begins at `text`, a whole name; NULL: it has none. */
static const char *word_at(const char *text, size_t *length)
{
    *length = 0;
    while (isalnum((unsigned char)text[*length]) || (text[*length] && strchr("_.", text[*length]))) ++*length;
    while (*length && text[*length - 1] == '.') --*length; /* the end of a sentence */
    for (size_t i = 0; i < SP_COUNT(words); i++)
        if (strlen(words[i].library) == *length && !memcmp(words[i].library, text, *length))
            return words[i].program;
    return NULL;
}

void cli_words(char *text)
{
    char *to = text;
    bool inside = false;
    for (const char *p = text; *p;) {
        size_t length = 0;
        const char *word = inside ? NULL : word_at(p, &length);
        if (word) {
            to = stpcpy(to, word);
            p += length;
            continue;
        }
        inside = isalnum((unsigned char)*p) || *p == '_' || *p == '.';
        *to++ = *p++;
    }
    *to = 0;
}

const char *cli_words_of(cli *c, const char *text)
{
    char *said = c->arena ? sp_arena_string(c->arena, text) : NULL;
    if (said) cli_words(said);
    return said ? said : text;
}

void cli_json_words(cli_json *j, const char *key, const char *text)
{
    sp_text said;
    if (!j->t) return;
    sp_text_init(&said, j->t->cx);
    if (text) sp_text_printf(&said, "%s", text);
    if (said.size) cli_words(said.data);
    cli_json_text(j, key, said.size ? said.data : text);
    sp_text_free(&said);
}
