/* The words of the language, each with its place. Texts may be hostile: lengths are limited, control bytes refused. */
#include "schedule/inside.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

reader sparta_schedule_reader(sparta_schedule *s, const char *text, const char *file)
{
    return (reader){.cx = s->cx, .s = s, .next = text, .at = {file, 1, 1}};
}

sparta_status sparta_schedule_fail(sparta_ctx *cx, sparta_schedule_at at, const char *format, ...)
{
    char message[900];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return sparta_fail(cx, SPARTA_E_USAGE, "%.200s:%d:%d: %s", at.file, at.line, at.column, message);
}

/* A token as a message shows it. */
static const char *show(const token *t, char out[80])
{
    if (t->kind == END)
        snprintf(out, 80, "the end");
    else if (t->kind == SYMBOL)
        snprintf(out, 80, "'%c'", t->symbol);
    else
        snprintf(out, 80, t->kind == STRING_TOKEN ? "\"%.*s%s\"" : "'%.*s%s'", SPARTA_MIN(t->length, 60),
                 t->text, t->length > 60 ? "..." : "");
    return out;
}

sparta_status sparta_schedule_expected(const reader *r, const char *what, const char *const *names, int n)
{
    char found[80], word[80];
    const char *near = NULL;
    if (r->now.kind == WORD_TOKEN && n) {
        snprintf(word, sizeof word, "%.*s", SPARTA_MIN(r->now.length, 79), r->now.text);
        near = sparta_nearest(word, names, n);
    }
    return sparta_schedule_fail(r->cx, r->now.at, "expected %s, found %s%s%s%s", what, show(&r->now, found),
                                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
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

static sparta_status too_long(const reader *r, const char *what)
{
    return sparta_schedule_fail(r->cx, r->now.at, "%s is longer than %d bytes; shorten it", what,
                                SPARTA_SCHEDULE_WORD);
}

static sparta_status string(reader *r)
{
    step(r);
    r->now.kind = STRING_TOKEN;
    r->now.text = r->next;
    while (*r->next != '"') {
        if ((unsigned char)*r->next < ' ' || *r->next == 127)
            return sparta_schedule_fail(r->cx, *r->next && *r->next != '\n' ? r->at : r->now.at,
                                        *r->next && *r->next != '\n'
                                            ? "a control byte in a string; remove it"
                                            : "this string does not end on its line; close it with '\"'");
        if (*r->next == '\\') {
            if (r->next[1] != '"' && r->next[1] != '\\')
                return sparta_schedule_fail(r->cx, r->at, "a string knows the escapes \\\" and \\\\ only");
            step(r);
        }
        step(r);
        if (r->next - r->now.text > SPARTA_SCHEDULE_WORD) return too_long(r, "the string");
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
    if (r->next - r->now.text > SPARTA_SCHEDULE_WORD) return too_long(r, "the word");
    r->now.length = (int)(r->next - r->now.text);
    return SPARTA_OK;
}

sparta_status sparta_schedule_next(reader *r)
{
    const bool fresh = skip(r);
    r->now = (token){.kind = END, .text = r->next, .fresh_line = fresh, .at = r->at};
    if (!*r->next) return SPARTA_OK;
    if (*r->next == '"') return string(r);
    if (is_word(*r->next)) return word(r);
    if (!strchr("{}(),;=", *r->next))
        return sparta_schedule_fail(r->cx, r->at,
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

sparta_status sparta_schedule_raw(reader *r, const char **out, sparta_schedule_at *at)
{
    int depth = 0;
    sparta_text t;
    sparta_text_init(&t, r->cx);
    while (*r->next == ' ' || *r->next == '\t') step(r);
    r->now.at = *at = r->at;
    for (; *r->next; step(r)) {
        const char c = *r->next;
        if (depth <= 0 && (c == '\n' || c == ';' || c == '}')) break;
        if (c == '{' || c == '}' || c == ';' || c == '"')
            break; /* no format has them: the brackets do not close */
        if (c == '#') {
            while (r->next[1] && r->next[1] != '\n') step(r);
            continue;
        }
        depth += (c == '(') - (c == ')');
        if (!is_blank(c))
            sparta_text_put(&t, &c, 1);
        else if (t.size && t.data[t.size - 1] != ' ')
            sparta_text_put(&t, " ", 1);
        if (t.size > SPARTA_SCHEDULE_WORD) break;
    }
    while (t.size && t.data[t.size - 1] == ' ') t.data[--t.size] = 0;
    const bool is_long = t.size > SPARTA_SCHEDULE_WORD;
    char *text = t.status == SPARTA_OK ? sparta_arena_string(r->s->arena, sparta_text_str(&t)) : NULL;
    sparta_text_free(&t);
    SPARTA_NEED(r->cx, text);
    if (is_long) return too_long(r, "the format");
    SPARTA_TRY(sparta_schedule_next(r));
    *out = text;
    return SPARTA_OK;
}

char *sparta_schedule_copy(const reader *r, const token *t)
{
    char *copy = sparta_arena_bytes(r->s->arena, t->text, (size_t)t->length), *to = copy;
    if (!copy || t->kind != STRING_TOKEN) return copy;
    for (const char *from = copy; *from; from++) {
        if (*from == '\\') from++;
        *to++ = *from;
    }
    *to = 0;
    return copy;
}
