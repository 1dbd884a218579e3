/* Names of formats: the rows of formats.def and opaque.def, and those that users add to the context.
 *
 *     bsr(4)  --expand-->  (i,j)->(i/4:dense, j/4:compressed, i%4:dense, j%4:dense)  --parse-->  format
 *     mine    ---------------------------------------------------------------------------------> format
 *
 * A user's name stands for a format that was parsed when it was defined; it takes no arguments.
 */
#include "format/text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_LENGTH 63
#define USER_NAMES  4096 /* of one context: looking them up is linear */

/* ------------------------------------------------------------------ the table */

typedef sparta_status (*writer)(sp_parser *p, sp_text_place at, const int64_t *argument, char *out,
                                size_t size);

/* hyb(c,k): c parts of the columns (one: all); in each, rows of up to 1, 2, 4, ... 2^k elements in tables of that width,
 * longer ones cut into pieces of 2^k. */
static sparta_status hyb(sp_parser *p, sp_text_place at, const int64_t *argument, char *out, size_t size)
{
    long long c = argument[0], k = argument[1];
    size_t used = 0;
    if (k > 30 || c * (k + 2) > SP_PARTS)
        return sp_format_wrong(p->cx, &at,
                               "hyb(%lld,%lld): %lld column part%s of %lld buckets; at most %d in all, and "
                               "rows of 2^30: use a smaller c or k",
                               c, k, c, c == 1 ? "" : "s", k + 2, SP_PARTS);
    if (c > 1) used += (size_t)snprintf(out, size, "sum{colpart(%lld) -> ", c);
    used +=
        (size_t)snprintf(out + used, size - used, "sum{rownnz<=1 -> (i,j)->(i:compressed, j:packed[1]); ");
    for (int b = 1; b <= k; b++)
        used += (size_t)snprintf(out + used, size - used,
                                 "rownnz in (%lld,%lld] -> (i,j)->(i:compressed, j:packed[%lld]); ",
                                 1LL << (b - 1), 1LL << b, 1LL << b);
    snprintf(out + used, size - used, "rest -> (i,j)->(i:compressed(nonunique), j:packed[%lld])}%s", 1LL << k,
             c > 1 ? "}" : "");
    return SPARTA_OK;
}

static const struct {
    const char *name;
    int arguments;
    const char *text; /* or */
    writer write;
} named[] = {
#define SP_FORMAT(name, arguments, text)           {name, arguments, text, NULL},
#define SP_FORMAT_WRITTEN(name, arguments, writer) {name, arguments, NULL, writer},
#include "format/formats.def"
#undef SP_FORMAT
#undef SP_FORMAT_WRITTEN
};
#define NAMED ((int)SP_COUNT(named))

/* Words of the language that are no names: a format of that name would read as something else. */
static const char *const words[] = {"sum", "in", "auto", "pos", "crd", "format"};

/* ------------------------------------------------------------------ finding */

static int find_named(const sp_token *t)
{
    for (int i = 0; i < NAMED; i++)
        if (sp_token_is(t, named[i].name)) return i;
    return -1;
}

static const sp_opaque *find_opaque(const sp_token *t)
{
    for (int i = 0; i < sp_opaque_count(); i++)
        if (sp_token_is(t, sp_opaque_row(i)->name)) return sp_opaque_row(i);
    return NULL;
}

static const sp_format_name *find_user(const sparta_ctx *cx, const sp_token *t)
{
    const sp_formats *all = sp_ctx_slot(cx, SP_SLOT_FORMATS);
    const sp_format_name *n = all ? all->names : NULL;
    while (n && !sp_token_is(t, n->name)) n = n->next;
    return n;
}

static sp_token word_of(const char *name)
{
    return (sp_token){.kind = SP_TOKEN_NAME, .text = name, .length = (int)strnlen(name, NAME_LENGTH + 1)};
}

bool sp_format_is_name(sparta_ctx *cx, const char *name)
{
    sp_token t = word_of(name);
    return find_named(&t) >= 0 || find_opaque(&t) || find_user(cx, &t);
}

/* ------------------------------------------------------------------ parse */

static sparta_status unknown_name(sp_parser *p)
{
    const char *all[NAMED + 128];
    int n = 0;
    char buffer[40], near[SP_HINT];
    const sp_formats *users = sp_ctx_slot(p->cx, SP_SLOT_FORMATS);
    for (const sp_format_name *u = users ? users->names : NULL; u && n < 100; u = u->next) all[n++] = u->name;
    for (int i = 0; i < NAMED; i++) all[n++] = named[i].name;
    for (int i = 0; i < sp_opaque_count() && i < 20; i++) all[n++] = sp_opaque_row(i)->name;
    all[n++] = "sum";
    return sp_format_wrong(p->cx, &p->now.at,
                           "unknown format %s%s; write a name with its arguments, e.g. csr, bsr(4,4), or "
                           "(i,j)->(i:dense, j:compressed)",
                           sp_token_show(&p->now, buffer), sp_token_hint(&p->now, all, n, near));
}

/* At most `most`, up to `largest`; *n is how many there are. */
static sparta_status parse_arguments(sp_parser *p, const sp_token *name, int most, int64_t largest, int *n,
                                     int64_t value[SP_FORMAT_ARGUMENTS])
{
    char buffer[40];
    *n = 0;
    if (!sp_lex_is(p, '(')) return SPARTA_OK;
    do {
        sp_lex_next(p);
        if (*n == most)
            return sp_format_wrong(p->cx, &p->now.at, "%s takes %d argument%s", sp_token_show(name, buffer),
                                   most, most == 1 ? "" : "s");
        SP_TRY(sp_lex_number(p, "argument", 1, largest, &value[(*n)++]));
    } while (sp_lex_is(p, ','));
    return sp_lex_need(p, ')');
}

/* Put the arguments into the text of a row. */
static void expand(const char *text, const int64_t *value, char *out, size_t size)
{
    size_t used = 0;
    for (; *text && used + 1 < size; text++) {
        if (text[0] == '$' && text[1] >= '1' && text[1] < '1' + SP_FORMAT_ARGUMENTS) {
            used += (size_t)snprintf(out + used, size - used, "%lld", (long long)value[*++text - '1']);
            used = SP_MIN(used, size - 1);
        } else {
            out[used++] = *text;
        }
    }
    out[used] = 0;
}

static sparta_status parse_row(sp_parser *p, const sp_token *name, int row, sp_format *out)
{
    int64_t value[SP_FORMAT_ARGUMENTS] = {0};
    char text[SP_FORMAT_TEXT], buffer[40];
    int n, want = named[row].arguments;
    SP_TRY(parse_arguments(p, name, want, INT32_MAX, &n, value));
    if (want && !n)
        return sp_format_wrong(p->cx, &p->now.at, "%s needs %d argument%s", sp_token_show(name, buffer), want,
                               want == 1 ? "" : "s");
    for (; n && n < want; n++) value[n] = value[n - 1]; /* bsr(32) is bsr(32,32) */
    if (named[row].write)
        SP_TRY(named[row].write(p, name->at, value, text, sizeof text));
    else
        expand(named[row].text, value, text, sizeof text);
    sp_parser inside = sp_lex(p->cx, text, name->at);
    inside.depth = p->depth;
    return sp_parse_format(&inside, out);
}

/* Arguments that are left out are 0: the row's check says whether it can do without. */
static sparta_status parse_opaque(sp_parser *p, const sp_token *name, const sp_opaque *row, sp_format *out)
{
    sp_format f = {.rank = 2, .dim_name = {"n", "k"}, .opaque = row};
    int n;
    if (parse_arguments(p, name, row->arguments, row->most, &n, f.argument))
        return row->usage ? sp_fail(p->cx, SPARTA_E_USAGE, "%s; %s", sparta_message(p->cx), row->usage)
                          : SPARTA_E_USAGE;
    *out = f;
    return SPARTA_OK;
}

sparta_status sp_parse_named(sp_parser *p, sp_format *out)
{
    sp_lex_join(p); /* sr-bcrs is one word */
    sp_token name = p->now;
    int row = find_named(&name);
    const sp_opaque *opaque = find_opaque(&name);
    const sp_format_name *user = find_user(p->cx, &name);
    if (row < 0 && !opaque && !user) return unknown_name(p);
    sp_lex_next(p);
    if (row >= 0) return parse_row(p, &name, row, out);
    if (opaque) return parse_opaque(p, &name, opaque, out);
    int64_t none[SP_FORMAT_ARGUMENTS];
    int n;
    SP_TRY(parse_arguments(p, &name, 0, 0, &n, none));
    *out = user->format;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ users' names */

void sp_formats_forget(sparta_ctx *cx, sp_formats *all, const sp_format_name *last)
{
    while (all->names != last) {
        sp_format_name *n = all->names;
        all->names = n->next;
        all->n_names--;
        sp_free(cx, n->file);
        sp_free(cx, n);
    }
}

static bool is_word(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && !(*s == '-' && isalpha((unsigned char)s[1])))
            return false;
    return true;
}

sparta_status sp_format_name_check(sparta_ctx *cx, const char *name)
{
    sp_token t = word_of(name);
    char shown[40];
    sp_token_show(&t, shown);
    if (t.length > NAME_LENGTH)
        return sp_fail(cx, SPARTA_E_USAGE, "format: the name %s is longer than %d letters", shown,
                       NAME_LENGTH);
    if (!is_word(name))
        return sp_fail(
            cx, SPARTA_E_USAGE,
            "format: a name is letters, digits, '_' and '-' before a letter, and begins with a letter");
    if (find_named(&t) >= 0 || find_opaque(&t))
        return sp_fail(cx, SPARTA_E_USAGE, "format: %s is one of sparta's own; choose another name", shown);
    bool word = sp_token_find(&t, words, (int)SP_COUNT(words)) >= 0 || sp_select_is_word(name);
    for (int k = 0; k < SP_LEVEL_KINDS; k++) word = word || !strcmp(name, sp_level_table[k].name);
    if (word)
        return sp_fail(cx, SPARTA_E_USAGE, "format: %s is a word of the language; choose another name",
                       shown);
    return SPARTA_OK;
}

/* Defined before: fine when it means the same. */
static sparta_status again(sparta_ctx *cx, const sp_format_name *old, const sp_format *f)
{
    if (sp_format_equal(&old->format, f)) return SPARTA_OK;
    if (!old->file)
        return sp_fail(cx, SPARTA_E_USAGE,
                       "format: '%s' is defined already, by a call, as something else; rename one",
                       old->name);
    return sp_fail(cx, SPARTA_E_USAGE,
                   "format: '%s' is defined already at %.200s:%d as something else; rename one", old->name,
                   old->file, old->line);
}

sparta_status sp_format_define_as(sparta_ctx *cx, const char *name, const sp_format *f, const char *file,
                                  int line)
{
    sp_token t = word_of(name);
    const sp_format_name *old = find_user(cx, &t);
    if (old) return again(cx, old, f);
    sp_formats *all = sp_formats_of(cx);
    SP_NEED(cx, all);
    if (all->n_names == USER_NAMES)
        return sp_fail(cx, SPARTA_E_LIMIT, "format: more than %d names are defined", USER_NAMES);
    sp_format_name *n = sp_zalloc(cx, sizeof *n + strlen(name) + 1);
    char *where = n && file ? sp_alloc(cx, strlen(file) + 1) : NULL;
    if (!n || (file && !where)) {
        sp_free(cx, n);
        return sp_ctx_status(cx);
    }
    if (file) strcpy(where, file);
    strcpy(n->name, name);
    n->format = *f, n->file = where, n->line = line, n->next = all->names;
    all->names = n;
    all->n_names++;
    return SPARTA_OK;
}
