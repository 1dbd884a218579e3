/* JSON as RFC 8259 has it, strictly: no comments, no trailing commas, no control characters in strings. */
#include "arrays/json.h"
#include <string.h>

sparta_status sp_json_wrong(const json_reader *r, const char *what)
{
    return sp_fail(r->cx, SPARTA_E_FORMAT, "malformed JSON at byte %lld: %s", (long long)(r->at - r->begin),
                   what);
}

static void skip_space(json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool accept(json_reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* ------------------------------------------------------------------ containers */

sparta_status sp_json_open(json_reader *r, char bracket)
{
    if (!accept(r, bracket))
        return sp_json_wrong(r, bracket == '{' ? "'{' was expected" : "'[' was expected");
    r->first = true;
    return SPARTA_OK;
}

sparta_status sp_json_more(json_reader *r, char bracket, bool *more)
{
    bool first = r->first;
    r->first = false; /* of the container around this one something has been read, this one */
    *more = false;
    if (accept(r, bracket)) return SPARTA_OK;
    if (!first && !accept(r, ','))
        return sp_json_wrong(r, bracket == '}' ? "',' or '}' was expected" : "',' or ']' was expected");
    *more = true;
    return SPARTA_OK;
}

sparta_status sp_json_end(json_reader *r)
{
    skip_space(r);
    return r->at == r->end ? SPARTA_OK : sp_json_wrong(r, "something follows the last '}'");
}

/* ------------------------------------------------------------------ strings */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool hex4(json_reader *r, uint32_t *out)
{
    uint32_t v = 0;
    if (r->end - r->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        int d = hex_digit(r->at[i]);
        if (d < 0) return false;
        v = v << 4 | (uint32_t)d;
    }
    r->at += 4;
    *out = v;
    return true;
}

static void put_utf8(sp_text *t, uint32_t c)
{
    uint8_t b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) b[i] = (uint8_t)(0x80 | (c & 63));
    b[0] = (uint8_t)(n == 1 ? c : (0xf00u >> n & 0xff) | c);
    sp_text_put(t, b, n);
}

/* After "\u": one unit, or a pair of them for what lies beyond 16 bits. */
static sparta_status unicode(json_reader *r, sp_text *out)
{
    uint32_t c = 0, low = 0;
    if (!hex4(r, &c)) return sp_json_wrong(r, "\\u needs four hexadecimal digits");
    if (c == 0) return sp_json_wrong(r, "a string contains NUL");
    if (c >= 0xdc00 && c < 0xe000) return sp_json_wrong(r, "half of a surrogate pair");
    if (c >= 0xd800 && c < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return sp_json_wrong(r, "half of a surrogate pair");
        r->at += 2;
        if (!hex4(r, &low) || low < 0xdc00 || low >= 0xe000)
            return sp_json_wrong(r, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    put_utf8(out, c);
    return SPARTA_OK;
}

static sparta_status escape(json_reader *r, sp_text *out)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return sp_json_wrong(r, "a string does not end");
    char c = *r->at++;
    if (c == 'u') return unicode(r, out);
    const char *found = c ? strchr(names, c) : NULL;
    if (!found) return sp_json_wrong(r, "unknown escape in a string");
    sp_text_put(out, &means[found - names], 1);
    return SPARTA_OK;
}

/* Bytes of the UTF-8 character at p, 0 when there is none: no overlong forms, no surrogates, nothing past U+10FFFF. */
static int utf8_length(const uint8_t *p, const uint8_t *end)
{
    int n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (!n || end - p < n) return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    bool wrong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
                 (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);
    return wrong ? 0 : n;
}

bool sp_json_is_text(const char *s)
{
    const uint8_t *p = (const uint8_t *)s, *end = p + strlen(s);
    for (int n; p < end; p += n)
        if (!(n = utf8_length(p, end))) return false;
    return true;
}

sparta_status sp_json_string(json_reader *r, sp_text *out)
{
    out->size = 0;
    sp_text_put(out, "", 0);
    if (!accept(r, '"')) return sp_json_wrong(r, "a string was expected");
    while (r->at < r->end && *r->at != '"') {
        if (*r->at == '\\') {
            r->at++;
            SP_TRY(escape(r, out));
            continue;
        }
        int n = utf8_length((const uint8_t *)r->at, (const uint8_t *)r->end);
        if (!n) return sp_json_wrong(r, "a string is no UTF-8");
        if ((uint8_t)*r->at < 32) return sp_json_wrong(r, "a control character in a string");
        sp_text_put(out, r->at, (size_t)n);
        r->at += n;
    }
    if (r->at == r->end) return sp_json_wrong(r, "a string does not end");
    r->at++;
    return out->status;
}

sparta_status sp_json_key(json_reader *r, sp_text *out)
{
    SP_TRY(sp_json_string(r, out));
    return accept(r, ':') ? SPARTA_OK : sp_json_wrong(r, "':' was expected");
}

/* ------------------------------------------------------------------ numbers and other values */

static bool is_digit(const json_reader *r)
{
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

sparta_status sp_json_size(json_reader *r, uint64_t *out)
{
    uint64_t v = 0;
    skip_space(r);
    const char *start = r->at;
    for (; is_digit(r); r->at++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*r->at - '0'), &v))
            return sp_json_wrong(r, "a number does not fit in 64 bits");
    if (r->at == start || (*start == '0' && r->at - start > 1) ||
        (r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E')))
        return sp_json_wrong(r, "a natural number was expected");
    *out = v;
    return SPARTA_OK;
}

static sparta_status digits(json_reader *r)
{
    if (!is_digit(r)) return sp_json_wrong(r, "a digit was expected");
    while (is_digit(r)) r->at++;
    return SPARTA_OK;
}

static sparta_status skip_number(json_reader *r)
{
    if (r->at < r->end && *r->at == '-') r->at++;
    if (r->at < r->end && *r->at == '0')
        r->at++;
    else
        SP_TRY(digits(r));
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        SP_TRY(digits(r));
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        SP_TRY(digits(r));
    }
    return SPARTA_OK;
}

static sparta_status skip_word(json_reader *r)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < SP_COUNT(words); i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= n && !memcmp(r->at, words[i], n)) {
            r->at += n;
            return SPARTA_OK;
        }
    }
    return skip_number(r);
}

static sparta_status skip(json_reader *r, sp_text *scratch, int depth)
{
    skip_space(r);
    char c = r->at < r->end ? *r->at : 0, close = c == '{' ? '}' : ']';
    bool more = false;
    if (c == '"') return sp_json_string(r, scratch);
    if (c != '{' && c != '[') return skip_word(r);
    if (depth == JSON_DEPTH) return sp_json_wrong(r, "values are nested too deep");
    SP_TRY(sp_json_open(r, c));
    for (;;) {
        SP_TRY(sp_json_more(r, close, &more));
        if (!more) return SPARTA_OK;
        if (c == '{') SP_TRY(sp_json_key(r, scratch));
        SP_TRY(skip(r, scratch, depth + 1));
    }
}

sparta_status sp_json_skip(json_reader *r)
{
    sp_text scratch;
    sp_text_init(&scratch, r->cx);
    sparta_status status = skip(r, &scratch, 0);
    sp_text_free(&scratch);
    return status;
}
