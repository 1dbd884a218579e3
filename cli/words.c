/* What the library says of its options, in the words of the command line: "options.dims" is --dim to somebody who typed that. */
#include "cli.h"
#include <ctype.h>
#include <string.h>

static const struct {
    const char *option, *flag;
} words[] = {
    {"dims", "--dim"},
    {"strict", "--strict"},
    {"max_memory", "--max-memory"},
    {"threads", "--threads"},
    {"target", "--target"},
    {"masks", "--masks"},
    {"schedule", "--schedule"},
    {"remove", "--remove"},
    {"multiple", "--multiple"},
    {"no_propagate", "--no-propagate"},
    {"dense_only", "--dense"},
    {"no_measure", "--no-measure"},
    {"limit", "--limit"},
    {"rtol", "--rtol"},
    {"atol", "--atol"},
    {"db", "--db"},
    {"external_data_root", "--external-data-root"},
    {"copy_files", "--copy"},
    {"cache_dir", "--cache"},
    {"compiler", "--compiler"},
};
static const char prefix[] = "options.";

/* The flag of an option whose name begins at `name`; NULL: there is none. */
static const char *flag_at(const char *name, size_t *length)
{
    *length = 0;
    while (isalpha((unsigned char)name[*length]) || name[*length] == '_') ++*length;
    for (size_t i = 0; i < SP_COUNT(words); i++)
        if (strlen(words[i].option) == *length && !memcmp(words[i].option, name, *length))
            return words[i].flag;
    return NULL;
}

/* In place: a flag is never longer than its option. */
void cli_words(char *text)
{
    char *to = text;
    for (const char *p = text; *p;) {
        size_t length = 0;
        const char *flag =
            strncmp(p, prefix, sizeof prefix - 1) ? NULL : flag_at(p + sizeof prefix - 1, &length);
        if (!flag) {
            *to++ = *p++;
            continue;
        }
        to = stpcpy(to, flag);
        p += sizeof prefix - 1 + length;
    }
    *to = 0;
}

const char *cli_words_of(cli *c, const char *text)
{
    char *said = c->arena && strstr(text, prefix) ? sp_arena_string(c->arena, text) : NULL;
    if (said) cli_words(said);
    return said ? said : text;
}

void cli_json_words(cli_json *j, const char *key, const char *text)
{
    sp_text said;
    if (!j->t) return;
    sp_text_init(&said, j->t->cx);
    if (text && strstr(text, prefix)) sp_text_printf(&said, "%s", text);
    if (said.size) cli_words(said.data);
    cli_json_text(j, key, said.size ? said.data : text);
    sp_text_free(&said);
}
