/* Text files of numbers, line by line. */
#include "arrays/lines.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_MOST = 512 }; /* characters of a number that is read */

bool sp_line_next(line_reader *r)
{
    if (r->at == r->end) return false;
    const char *eol = memchr(r->at, '\n', (size_t)(r->end - r->at));
    r->next = r->at;
    r->eol = eol ? eol : r->end;
    r->at = eol ? eol + 1 : r->end;
    r->line++;
    return true;
}

static bool is_blank(const line_reader *r, char c)
{
    return (c == ',' && r->commas) || c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

line_token sp_line_token(line_reader *r)
{
    while (r->next < r->eol && is_blank(r, *r->next)) r->next++;
    line_token t = {r->next, 0};
    while (r->next < r->eol && !is_blank(r, *r->next)) r->next++;
    t.n = (size_t)(r->next - t.p);
    return t;
}

bool sp_line_is(line_token t, const char *word)
{
    return t.n == strlen(word) && !strncasecmp(t.p, word, t.n);
}

sparta_status sp_line_fail(const line_reader *r, sparta_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sp_fail(r->cx, status, "line %lld: %s", (long long)r->line, text);
}

const char *sp_line_quote(line_reader *r, line_token t)
{
    size_t n = SP_MIN(t.n, sizeof r->quoted - 4);
    for (size_t i = 0; i < n; i++) r->quoted[i] = t.p[i] >= 32 && t.p[i] < 127 ? t.p[i] : '?';
    memcpy(r->quoted + n, t.n > n ? "..." : "", t.n > n ? 4 : 1);
    return r->quoted;
}

static sparta_status not_number(line_reader *r, const char *what, line_token t, const char *kind)
{
    if (!t.n) return sp_line_fail(r, SPARTA_E_FORMAT, "%s is missing", what);
    return sp_line_fail(r, SPARTA_E_FORMAT, "%s '%s' is no %s", what, sp_line_quote(r, t), kind);
}

static sparta_status too_large(line_reader *r, const char *what, line_token t)
{
    return sp_line_fail(r, SPARTA_E_RANGE, "%s '%s' does not fit in 64 bits", what, sp_line_quote(r, t));
}

sparta_status sp_line_whole(line_reader *r, const char *what, bool *minus, uint64_t *size)
{
    line_token t = sp_line_token(r);
    size_t i = t.n && (t.p[0] == '-' || t.p[0] == '+');
    uint64_t v = 0;
    if (i == t.n) return not_number(r, what, t, "integer");
    for (size_t k = i; k < t.n; k++)
        if (t.p[k] < '0' || t.p[k] > '9') return not_number(r, what, t, "integer");
    for (; i < t.n; i++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(t.p[i] - '0'), &v))
            return too_large(r, what, t);
    *minus = t.p[0] == '-' && v;
    *size = v;
    return SPARTA_OK;
}

sparta_status sp_line_int(line_reader *r, const char *what, int64_t *out)
{
    line_reader ahead = *r;
    bool minus = false;
    uint64_t size = 0;
    SP_TRY(sp_line_whole(r, what, &minus, &size));
    if (size > (uint64_t)INT64_MAX + minus) return too_large(r, what, sp_line_token(&ahead));
    *out = (int64_t)(minus ? 0 - size : size);
    return SPARTA_OK;
}

sparta_status sp_line_natural(line_reader *r, const char *what, int64_t *out)
{
    int64_t v = 0;
    SP_TRY(sp_line_int(r, what, &v));
    if (v < 0) return sp_line_fail(r, SPARTA_E_FORMAT, "%s %lld is negative", what, (long long)v);
    *out = v;
    return SPARTA_OK;
}

/* 12  -.5  1e-3  +2.E7; the words of infinity and NaN are looked for before. */
static bool is_decimal(const char *s)
{
    int digits = 0;
    s += *s == '+' || *s == '-';
    for (; *s >= '0' && *s <= '9'; s++) digits++;
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++) digits++;
    if (!digits) return false;
    if (*s != 'e' && *s != 'E') return *s == 0;
    s++;
    s += *s == '+' || *s == '-';
    size_t n = strspn(s, "0123456789");
    return n > 0 && s[n] == 0;
}

static bool is_word(const char *s)
{
    s += *s == '+' || *s == '-';
    return !strcasecmp(s, "inf") || !strcasecmp(s, "infinity") || !strcasecmp(s, "nan");
}

/* strtod obeys the locale of the thread: give it the one character it may expect instead of a point. */
static double to_double(char *s)
{
    const char *point = localeconv()->decimal_point;
    char *dot = strchr(s, '.');
    if (dot && point[0] && !point[1]) *dot = point[0];
    return strtod(s, NULL);
}

sparta_status sp_line_real(line_reader *r, const char *what, double *out)
{
    char text[NUMBER_MOST];
    line_token t = sp_line_token(r);
    if (t.n >= sizeof text) return sp_line_fail(r, SPARTA_E_LIMIT, "%s has %zu characters", what, t.n);
    memcpy(text, t.p, t.n);
    text[t.n] = 0;
    bool word = is_word(text);
    if (memchr(t.p, 0, t.n) || (!word && !is_decimal(text))) return not_number(r, what, t, "number");
    double v = to_double(text);
    if (!word && !isfinite(v))
        return sp_line_fail(r, SPARTA_E_RANGE, "%s '%s' does not fit in a double", what, sp_line_quote(r, t));
    *out = v;
    return SPARTA_OK;
}

sparta_status sp_line_end(line_reader *r)
{
    line_token t = sp_line_token(r);
    if (!t.n) return SPARTA_OK;
    return sp_line_fail(r, SPARTA_E_FORMAT, "'%s' follows what the line should hold", sp_line_quote(r, t));
}
