/* The lexer of format texts: tokens that know their line and column, and the one shape of messages,
 * "format:LINE:COLUMN: what; what to do". Nothing is allocated; texts may be hostile. */
#include "format/text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void step(sp_parser *p, int n)
{
    for (; n > 0; n--, p->next++) {
        if (*p->next == '\n')
            p->at.line++, p->at.column = 1;
        else
            p->at.column++;
    }
}

static int length_while(const char *s, bool name)
{
    int n = 0;
    while (name ? isalnum((unsigned char)s[n]) || s[n] == '_' : isdigit((unsigned char)s[n])) n++;
    return n;
}

void sp_lex_next(sp_parser *p)
{
    while (*p->next == ' ' || *p->next == '\t' || *p->next == '\n' || *p->next == '\r') step(p, 1);
    const char *s = p->next;
    sp_token t = {.kind = SP_TOKEN_END, .symbol = *s, .text = s, .length = 1, .at = p->at};
    if (!*s)
        t.length = 0;
    else if (isdigit((unsigned char)*s))
        t.kind = SP_TOKEN_NUMBER, t.length = length_while(s, false);
    else if (isalpha((unsigned char)*s) || *s == '_')
        t.kind = SP_TOKEN_NAME, t.length = length_while(s, true);
    else if (s[0] == '-' && s[1] == '>')
        t.kind = SP_TOKEN_ARROW, t.length = 2;
    else if (s[0] == '.' && s[1] == '.')
        t.kind = SP_TOKEN_DOTS, t.length = 2;
    else
        t.kind = SP_TOKEN_SYMBOL;
    step(p, t.length);
    p->now = t;
}

sp_parser sp_lex(sparta_ctx *cx, const char *text, sp_text_place at)
{
    sp_parser p = {.cx = cx, .next = text, .at = at};
    sp_lex_next(&p);
    return p;
}

void sp_lex_join(sp_parser *p)
{
    while (p->next[0] == '-' && isalpha((unsigned char)p->next[1])) {
        int more = 1 + length_while(p->next + 1, true);
        step(p, more);
        p->now.length += more;
    }
}

/* ------------------------------------------------------------------ messages */

const char *sp_token_show(const sp_token *t, char out[40])
{
    if (t->kind == SP_TOKEN_END) return "the end";
    if (t->kind == SP_TOKEN_SYMBOL && !isprint((unsigned char)t->symbol))
        snprintf(out, 40, "byte 0x%02x", (unsigned char)t->symbol);
    else
        snprintf(out, 40, "'%.*s%s'", SP_MIN(t->length, 24), t->text, t->length > 24 ? "..." : "");
    return out;
}

const char *sp_token_hint(const sp_token *t, const char *const *names, int n, char out[SP_HINT])
{
    char word[32];
    snprintf(word, sizeof word, "%.*s", SP_MIN(t->length, 31), t->text);
    return sp_did_you_mean(word, names, n, "", out);
}

sparta_status sp_lex_expected(sp_parser *p, const char *what)
{
    char buffer[40];
    return sp_format_wrong(p->cx, &p->now.at, "expected %s, got %s", what, sp_token_show(&p->now, buffer));
}

/* ------------------------------------------------------------------ small rules */

bool sp_lex_is(const sp_parser *p, char symbol)
{
    return p->now.kind == SP_TOKEN_SYMBOL && p->now.symbol == symbol;
}

bool sp_token_is(const sp_token *t, const char *name)
{
    return t->kind == SP_TOKEN_NAME && strlen(name) == (size_t)t->length &&
           !memcmp(name, t->text, (size_t)t->length);
}

int sp_token_find(const sp_token *t, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (sp_token_is(t, names[i])) return i;
    return -1;
}

sparta_status sp_lex_need(sp_parser *p, char symbol)
{
    char what[4] = {'\'', symbol, '\'', 0};
    if (!sp_lex_is(p, symbol)) return sp_lex_expected(p, what);
    sp_lex_next(p);
    return SPARTA_OK;
}

sparta_status sp_lex_number(sp_parser *p, const char *what, int64_t least, int64_t most, int64_t *out)
{
    if (p->now.kind != SP_TOKEN_NUMBER) return sp_lex_expected(p, what);
    int64_t value = 0;
    for (int i = 0; i < p->now.length && value <= most; i++) value = value * 10 + (p->now.text[i] - '0');
    if (value < least || value > most) {
        char buffer[40];
        return sp_format_wrong(p->cx, &p->now.at, "%s %s must be between %lld and %lld", what,
                               sp_token_show(&p->now, buffer), (long long)least, (long long)most);
    }
    sp_lex_next(p);
    *out = value;
    return SPARTA_OK;
}

sparta_status sp_lex_decimal(sp_parser *p, const char *what, double *out)
{
    const char *s = p->now.text;
    char number[40], buffer[40];
    if (p->now.kind != SP_TOKEN_NUMBER) return sp_lex_expected(p, what);
    int n = p->now.length;
    if (s[n] == '.') n += 1 + length_while(s + n + 1, false);
    if (s[n] == 'e' || s[n] == 'E') {
        int sign = s[n + 1] == '-' || s[n + 1] == '+', digits = length_while(s + n + 1 + sign, false);
        if (digits) n += 1 + sign + digits;
    }
    snprintf(number, sizeof number, "%.*s", n, s);
    if (n >= (int)sizeof number || !sp_parse_double(number, out))
        return sp_format_wrong(p->cx, &p->now.at, "%s %s is no number such as 0.25", what,
                               sp_token_show(&p->now, buffer));
    step(p, n - p->now.length);
    sp_lex_next(p);
    return SPARTA_OK;
}
