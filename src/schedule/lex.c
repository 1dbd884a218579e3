/* The words of the language, each with its place. Texts may be hostile: lengths are limited, control bytes refused. */
#include "schedule/inside.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

reader sp_schedule_reader(sparta_schedule *s, const char *text, const char *file)
{
    return (reader){.cx = s->cx, .s = s, .next = text, .at = {file, 1, 1}};
}

sparta_status sp_schedule_fail(sparta_ctx *cx, sp_schedule_at at, const char *format, ...)
{
    char message[900];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return sp_fail(cx, SPARTA_E_USAGE, "%.200s:%d:%d: %s", at.file, at.line, at.column, message);
}

/* A token as a message shows it. */
static const char *show(const token *t, char out[80])
{
    if (t->kind == END)
        snprintf(out, 80, "the end");
    else if (t->kind == SYMBOL)
        snprintf(out, 80, "'%c'", t->symbol);
    else
        snprintf(out, 80, t->kind == STRING_TOKEN ? "\"%.*s%s\"" : "'%.*s%s'", SP_MIN(t->length, 60), t->text,
                 t->length > 60 ? "..." : "");
    return out;
}

sparta_status sp_schedule_expected(const reader *r, const char *what, const char *const *names, int n)
{
    char found[80], word[80] = "", hint[SP_HINT];
    if (r->now.kind == WORD_TOKEN)
        snprintf(word, sizeof word, "%.*s", SP_MIN(r->now.length, 79), r->now.text);
    return sp_schedule_fail(r->cx, r->now.at, "expected %s, found %s%s", what, show(&r->now, found),
                            sp_did_you_mean(word, names, *word ? n : 0, "", hint));
}

static void step(reader *r)
{
    if (*r->next == '\n')
        r->at.line++, r->at.column = 1;
    else
        r->at.column++;
    r->next++;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Blanks and comments; true when a line began. */
static bool skip(reader *r)
{
    const int line = r->at.line;
    while (is_blank(*r->next) || *r->next == '#')
        if (*r->next == '#')
            while (*r->next && *r->next != '\n') step(r);
        else
            step(r);
    return r->at.line != line;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_.:@+-/*%", c));
}

static sparta_status too_long(const reader *r, const char *what, int most)
{
    return sp_schedule_fail(r->cx, r->now.at, "%s is longer than %d bytes; shorten it", what, most);
}

static sparta_status string(reader *r)
{
    step(r);
    r->now.kind = STRING_TOKEN;
    r->now.text = r->next;
    while (*r->next != '"') {
        if ((unsigned char)*r->next < ' ' || *r->next == 127)
            return sp_schedule_fail(r->cx, *r->next && *r->next != '\n' ? r->at : r->now.at,
                                    *r->next && *r->next != '\n'
                                        ? "a control byte in a string; remove it"
                                        : "this string does not end on its line; close it with '\"'");
        if (*r->next == '\\') {
            if (r->next[1] != '"' && r->next[1] != '\\')
                return sp_schedule_fail(r->cx, r->at, "a string knows the escapes \\\" and \\\\ only");
            step(r);
        }
        step(r);
        if (r->next - r->now.text > SP_SCHEDULE_WORD) return too_long(r, "the string", SP_SCHEDULE_WORD);
    }
    r->now.length = (int)(r->next - r->now.text);
    step(r);
    return SPARTA_OK;
}

static sparta_status word(reader *r)
{
    r->now.kind = WORD_TOKEN;
    r->now.text = r->next;
    while (is_word(*r->next)) step(r);
    if (r->next - r->now.text > SP_SCHEDULE_WORD) return too_long(r, "the word", SP_SCHEDULE_WORD);
    r->now.length = (int)(r->next - r->now.text);
    return SPARTA_OK;
}

sparta_status sp_schedule_next(reader *r)
{
    const bool fresh = skip(r);
    r->now = (token){.kind = END, .text = r->next, .fresh_line = fresh, .at = r->at};
    if (!*r->next) return SPARTA_OK;
    if (*r->next == '"') return string(r);
    if (is_word(*r->next)) return word(r);
    if (!strchr("{}(),;=", *r->next))
        return sp_schedule_fail(r->cx, r->at,
                                isprint((unsigned char)*r->next)
                                    ? "'%c' means nothing here; names with such letters go in quotes"
                                    : "byte %d means nothing here; names with such letters go in quotes",
                                isprint((unsigned char)*r->next) ? *r->next : (unsigned char)*r->next);
    r->now.kind = SYMBOL;
    r->now.symbol = *r->next;
    r->now.length = 1;
    step(r);
    return SPARTA_OK;
}

/* Brackets of a format that are open. */
typedef struct brackets {
    int n;
    char open[64];
} brackets;

/* Does the text of a format end before this byte? Lines, ';' and '}' end it, but ( ) and [ ] go over lines, and the { } of a sum hold
 * whatever is between them. Brackets that do not close end where the clause does, so that the mistake is found there. */
static bool format_ends(brackets *b, const sp_text *t, char c)
{
    const char top = b->n ? b->open[b->n - 1] : 0;
    const size_t blank = t->size && t->data[t->size - 1] == ' ';
    const bool sum = t->size >= 3 + blank && !memcmp(t->data + t->size - blank - 3, "sum", 3);
    if (c == '"') return true;
    if (c == '\n') return !top;
    if (c == ';') return top != '{';
    if (c == '{' && !sum) return true;
    if (c == '}' && top != '{') return true;
    if (c == '}' || ((c == ')' || c == ']') && (top == '(' || top == '['))) b->n--; /* (4,8] is a pair */
    if (c == '{' || c == '(' || c == '[') {
        if (b->n == (int)sizeof b->open) return true;
        b->open[b->n++] = c;
    }
    return false;
}

/* The bytes themselves, comments as blanks: lines and columns in it are those of the file. */
static char *exact(const reader *r, const char *from)
{
    char *copy = sp_arena_bytes(r->s->arena, from, (size_t)(r->next - from));
    bool comment = false;
    for (char *p = copy; p && *p; p++) {
        comment = *p != '\n' && (comment || *p == '#');
        if (comment) *p = ' ';
    }
    return copy;
}

sparta_status sp_schedule_raw(reader *r, sp_schedule_raw_text *out)
{
    brackets b = {0};
    sp_text t;
    sp_text_init(&t, r->cx);
    while (*r->next == ' ' || *r->next == '\t') step(r);
    r->now.at = r->at;
    const sp_schedule_at at = r->at;
    const char *from = r->next;
    for (; *r->next && t.size <= SP_SCHEDULE_FORMAT; step(r)) {
        const char c = *r->next;
        if (format_ends(&b, &t, c)) break;
        if (c == '#') {
            while (r->next[1] && r->next[1] != '\n') step(r);
            continue;
        }
        if (!is_blank(c))
            sp_text_put(&t, &c, 1);
        else if (t.size && t.data[t.size - 1] != ' ')
            sp_text_put(&t, " ", 1);
    }
    while (t.size && t.data[t.size - 1] == ' ') t.data[--t.size] = 0;
    const bool is_long = t.size > SP_SCHEDULE_FORMAT;
    char *text = sp_text_keep(&t, r->s->arena);
    SP_NEED(r->cx, text);
    const char *bytes = exact(r, from);
    SP_NEED(r->cx, bytes);
    if (is_long) return too_long(r, "the format", SP_SCHEDULE_FORMAT);
    SP_TRY(sp_schedule_next(r));
    *out = (sp_schedule_raw_text){text, bytes, at};
    return SPARTA_OK;
}

char *sp_schedule_copy(const reader *r, const token *t)
{
    char *copy = sp_arena_bytes(r->s->arena, t->text, (size_t)t->length), *to = copy;
    if (!copy || t->kind != STRING_TOKEN) return copy;
    for (const char *from = copy; *from; from++) {
        if (*from == '\\') from++;
        *to++ = *from;
    }
    *to = 0;
    return copy;
}
