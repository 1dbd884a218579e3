/* Growing text, JSON strings, globs, "did you mean", strict numbers. */
#include "base/ctx.h"
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ text */

void sp_text_init(sp_text *t, sparta_ctx *cx)
{
    *t = (sp_text){.cx = cx, .status = SPARTA_OK};
}

void sp_text_free(sp_text *t)
{
    sp_free(t->cx, t->data);
    sp_text_init(t, t->cx);
}

/* Room for n more bytes and the final 0. */
static bool reserve(sp_text *t, size_t n)
{
    size_t need;
    if (t->status) return false;
    if (!sp_size_add(t->size, n, &need) || !sp_size_add(need, 1, &need)) need = SIZE_MAX;
    if (need <= t->capacity) return true;
    size_t capacity = SP_MAX(need, SP_MAX((size_t)128, t->capacity + t->capacity / 2));
    char *data = sp_realloc(t->cx, t->data, capacity);
    if (!data) {
        t->status = sp_ctx_status(t->cx);
        return false;
    }
    t->data = data;
    t->capacity = capacity;
    return true;
}

void sp_text_put(sp_text *t, const void *bytes, size_t n)
{
    if (!reserve(t, n)) return;
    if (n) memcpy(t->data + t->size, bytes, n);
    t->size += n;
    t->data[t->size] = 0;
}

void sp_text_vprintf(sp_text *t, const char *format, va_list args)
{
    char small[256];
    va_list again;
    va_copy(again, args);
    int n = sp_vformat(small, sizeof small, format, args);
    if (n < 0) {
        if (!t->status)
            t->status = sp_fail(t->cx, SPARTA_E_INTERNAL, "text: \"%s\" cannot be formatted", format);
    } else if ((size_t)n < sizeof small) {
        sp_text_put(t, small, (size_t)n);
    } else if (reserve(t, (size_t)n)) {
        sp_vformat(t->data + t->size, (size_t)n + 1, format, again);
        t->size += (size_t)n;
    }
    va_end(again);
}

void sp_text_printf(sp_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sp_text_vprintf(t, format, args);
    va_end(args);
}

const char *sp_text_str(const sp_text *t)
{
    return t->data ? t->data : "";
}

char *sp_text_keep(sp_text *t, sp_arena *arena)
{
    char *kept = t->status == SPARTA_OK ? sp_arena_string(arena, sp_text_str(t)) : NULL;
    sp_text_free(t);
    return kept;
}

/* Bytes of the valid UTF-8 character at s, 0 when it is none (overlong forms, surrogates and > U+10FFFF are none). */
static int utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    int n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
    if (s[0] == 0xed && s[1] > 0x9f) return 0;
    if (s[0] == 0xf0 && s[1] < 0x90) return 0;
    if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
    return n;
}

/* The code point of the valid UTF-8 character of n bytes at s. */
static unsigned code_point(const unsigned char *s, int n)
{
    unsigned c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) c = c << 6 | (s[i] & 0x3fu);
    return c;
}

/* Does a terminal or an editor act on the character instead of showing it? Controls (C0, DEL, C1), separators of lines and
 * paragraphs, and marks that turn the direction of what follows. */
static bool acts(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void sp_clean(char *s)
{
    char *to = s;
    for (const char *from = s; *from;) {
        int n = utf8_length((const unsigned char *)from);
        if (n && !acts(code_point((const unsigned char *)from, n))) {
            memmove(to, from, (size_t)n);
            to += n;
        } else {
            *to++ = '?';
        }
        from += n ? n : 1;
    }
    *to = 0;
}

static void json_character(sp_text *t, const unsigned char *s, int n)
{
    const unsigned c = n ? code_point(s, n) : 0;
    if (n == 0)
        sp_text_put(t, "\xef\xbf\xbd", 3);
    else if (!acts(c) && c != '"' && c != '\\')
        sp_text_put(t, s, (size_t)n);
    else if (*s == '"' || *s == '\\')
        sp_text_printf(t, "\\%c", *s);
    else if (*s == '\n')
        sp_text_put(t, "\\n", 2);
    else if (*s == '\t')
        sp_text_put(t, "\\t", 2);
    else
        sp_text_printf(t, "\\u%04x", c);
}

void sp_text_json(sp_text *t, const char *s)
{
    sp_text_put(t, "\"", 1);
    for (const unsigned char *at = (const unsigned char *)s; *at;) {
        int n = utf8_length(at);
        json_character(t, at, n);
        at += n ? n : 1;
    }
    sp_text_put(t, "\"", 1);
}

/* ------------------------------------------------------------------ matching */

/* On a mismatch the last star takes one character more: linear in practice, quadratic at worst. */
bool sp_glob(const char *glob, const char *s)
{
    const char *star = NULL, *star_s = NULL;
    while (*s) {
        if (*glob == '*') {
            star = glob++;
            star_s = s;
        } else if (*glob == '?' || *glob == *s) {
            glob++;
            s++;
        } else if (star) {
            glob = star + 1;
            s = ++star_s;
        } else {
            return false;
        }
    }
    while (*glob == '*') glob++;
    return *glob == 0;
}

enum { NEAR_LENGTH = 64 };

static int edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    int row[NEAR_LENGTH + 1];
    for (size_t j = 0; j <= nb; j++) row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = SP_MIN(change, SP_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[nb];
}

const char *sp_nearest(const char *s, const char *const *names, int n)
{
    size_t length = strnlen(s, NEAR_LENGTH + 1);
    if (length > NEAR_LENGTH) return NULL;
    /* Three changes turn any three letters into any others, and "serve" into "kernel": short words must be nearer. */
    int best = SP_MIN(4, (int)length / 3 + 2);
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        size_t other = strnlen(names[i], NEAR_LENGTH + 1);
        if (other > NEAR_LENGTH) continue;
        int d = edit_distance(s, length, names[i], other);
        if (d < best && (size_t)d < SP_MAX(length, other)) {
            best = d;
            found = names[i];
        }
    }
    return found;
}

const char *sp_did_you_mean(const char *s, const char *const *names, int n, const char *otherwise,
                            char out[SP_HINT])
{
    const char *near = sp_nearest(s, names, n);
    snprintf(out, SP_HINT, near ? "; did you mean '%.100s'?" : "%s", near ? near : otherwise);
    return out;
}

/* ------------------------------------------------------------------ numbers */

static const char *skip_digits(const char *s)
{
    while (*s >= '0' && *s <= '9') s++;
    return s;
}

bool sp_parse_int(const char *s, int64_t *out)
{
    const char *digits = s + (*s == '-');
    if (skip_digits(digits) == digits || *skip_digits(digits)) return false;
    errno = 0;
    long long v = strtoll(s, NULL, 10);
    if (errno) return false;
    *out = v;
    return true;
}

/* [-]digits[.digits][e[+-]digits], a digit before or after the point: no spaces, no hex, no inf. */
static bool is_decimal(const char *s)
{
    const char *whole = s + (*s == '-'), *at = skip_digits(whole);
    bool any = at > whole;
    if (*at == '.') {
        const char *part = at + 1;
        at = skip_digits(part);
        any = any || at > part;
    }
    if (any && (*at == 'e' || *at == 'E')) {
        at++;
        if (*at == '+' || *at == '-') at++;
        if (skip_digits(at) == at) return false;
        at = skip_digits(at);
    }
    return any && *at == 0;
}

bool sp_parse_double(const char *s, double *out)
{
    if (!is_decimal(s)) return false;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double v = plain ? strtod_l(s, NULL, plain) : strtod(s, NULL);
    if (plain) freelocale(plain);
    if (!isfinite(v)) return false;
    *out = v;
    return true;
}
