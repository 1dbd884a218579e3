/* The text of a format: a lexer that knows line and column, and one function per rule of the grammar.
 *
 *     format  := map {',' width} | name ['(' integer {',' integer} ')'] {',' width}
 *     map     := '(' d {',' d} ')' '->' '(' level {',' level} ')'
 *     level   := expr ':' kind ['[' integer {',' integer} | 'auto' ']'] ['(' property {',' property} ')']
 *     expr    := d | d '/' c | d '%' c | d '%' c '/' c | d '-' d | d '+' d
 *     width   := ('pos' | 'crd') ['[' level ['..' level] ']'] '=' (u2 | u4 | u8 | u16 | u32 | u64 | i32 | i64)
 *
 * Sums of formats are recognised and refused as not there yet. Nothing is allocated; texts are short and may be
 * hostile.
 */
#include "format/level.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TEXT_LIMIT 4096

#define KINDS "(dense ragged compressed loose packed structured singleton bitmap range)"
static const char *const props[] = {"nonunique", "nonordered", "soa", "aos", "pad", "zeroless"};
static const unsigned prop_bits[] = {SPARTA_PROP_NONUNIQUE, SPARTA_PROP_NONORDERED, SPARTA_PROP_SOA,
                                     SPARTA_PROP_AOS,       SPARTA_PROP_PAD_ZERO,   SPARTA_PROP_ZEROLESS};
static const char *const widths[] = {"u8", "u16", "u32", "u64", "i32", "i64"};
static const char *const later_names[] = {"hyb", "sum"};
static const struct {
    const char *name;
    int arguments;
    const char *text;
} named[] = {
#define SPARTA_FORMAT(name, arguments, text) {name, arguments, text},
#include "format/formats.def"
#undef SPARTA_FORMAT
};

/* ------------------------------------------------------------------ lexer */

typedef enum { END, NAME, NUMBER, ARROW, DOTS, SYMBOL } token_kind;

typedef struct {
    token_kind kind;
    char symbol;      /* of SYMBOL */
    const char *text; /* length bytes */
    int length;
    sparta_place at;
} token;

typedef struct {
    sparta_ctx *cx;
    const char *next;
    sparta_place at; /* of `next` */
    token now;       /* the token to look at */
} parser;

static void step(parser *p, int n)
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

static void advance(parser *p)
{
    while (*p->next == ' ' || *p->next == '\t' || *p->next == '\n' || *p->next == '\r') step(p, 1);
    const char *s = p->next;
    token t = {.kind = END, .symbol = *s, .text = s, .length = 1, .at = p->at};
    if (!*s)
        t.length = 0;
    else if (isdigit((unsigned char)*s))
        t.kind = NUMBER, t.length = length_while(s, false);
    else if (isalpha((unsigned char)*s) || *s == '_')
        t.kind = NAME, t.length = length_while(s, true);
    else if (s[0] == '-' && s[1] == '>')
        t.kind = ARROW, t.length = 2;
    else if (s[0] == '.' && s[1] == '.')
        t.kind = DOTS, t.length = 2;
    else
        t.kind = SYMBOL;
    step(p, t.length);
    p->now = t;
}

/* ------------------------------------------------------------------ messages */

static sparta_status SPARTA_PRINTF(4, 5)
    fail(parser *p, sparta_status status, sparta_place at, const char *format, ...)
{
    char message[320];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return sparta_fail(p->cx, status, "format:%d:%d: %s", at.line, at.column, message);
}

/* A token for a message: printable and short. */
static const char *show(const token *t, char out[40])
{
    if (t->kind == END) return "the end";
    if (t->kind == SYMBOL && !isprint((unsigned char)t->symbol))
        snprintf(out, 40, "byte 0x%02x", (unsigned char)t->symbol);
    else
        snprintf(out, 40, "'%.*s%s'", SPARTA_MIN(t->length, 24), t->text, t->length > 24 ? "..." : "");
    return out;
}

static sparta_status expected(parser *p, const char *what)
{
    char buffer[40];
    return fail(p, SPARTA_E_USAGE, p->now.at, "expected %s, got %s", what, show(&p->now, buffer));
}

static sparta_status unsupported(parser *p, sparta_place at, const char *what)
{
    return fail(p, SPARTA_E_UNSUPPORTED, at,
                "%s: sums of formats are part of the language, but not there yet; use one format", what);
}

/* ------------------------------------------------------------------ small rules */

static bool is_symbol(const parser *p, char c)
{
    return p->now.kind == SYMBOL && p->now.symbol == c;
}

static bool is_name(const token *t, const char *name)
{
    return t->kind == NAME && strlen(name) == (size_t)t->length && !memcmp(name, t->text, (size_t)t->length);
}

static int find(const token *t, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (is_name(t, names[i])) return i;
    return -1;
}

static sparta_status need_symbol(parser *p, char c)
{
    char what[4] = {'\'', c, '\'', 0};
    if (!is_symbol(p, c)) return expected(p, what);
    advance(p);
    return SPARTA_OK;
}

static sparta_status need_number(parser *p, const char *what, int64_t least, int64_t most, int64_t *out)
{
    if (p->now.kind != NUMBER) return expected(p, what);
    int64_t value = 0;
    for (int i = 0; i < p->now.length && value <= most; i++) value = value * 10 + (p->now.text[i] - '0');
    if (value < least || value > most) {
        char buffer[40];
        return fail(p, SPARTA_E_USAGE, p->now.at, "%s %s must be between %lld and %lld", what,
                    show(&p->now, buffer), (long long)least, (long long)most);
    }
    advance(p);
    *out = value;
    return SPARTA_OK;
}

/* The nearest of the names, as "; did you mean 'x'?" or "". */
static const char *hint(const token *t, const char *const *names, int n, char out[64])
{
    char word[32];
    snprintf(word, sizeof word, "%.*s", SPARTA_MIN(t->length, 31), t->text);
    const char *near = sparta_nearest(word, names, n);
    if (near)
        snprintf(out, 64, "; did you mean '%s'?", near);
    else
        out[0] = 0;
    return out;
}

/* ------------------------------------------------------------------ dimensions and levels */

static int find_dim(const sparta_format *f, const token *t)
{
    for (int d = 0; d < f->rank; d++)
        if (is_name(t, f->dim_name[d])) return d;
    return -1;
}

static sparta_status parse_dims(parser *p, sparta_format *f, sparta_place place[SPARTA_RANK])
{
    SPARTA_TRY(need_symbol(p, '('));
    do {
        if (f->rank) advance(p);
        char buffer[40];
        if (p->now.kind != NAME) return expected(p, "the name of a dimension");
        if (f->rank == SPARTA_RANK)
            return fail(p, SPARTA_E_USAGE, p->now.at, "more than %d dimensions", SPARTA_RANK);
        if (p->now.length >= (int)sizeof f->dim_name[0])
            return fail(p, SPARTA_E_USAGE, p->now.at, "the name %s is longer than %d letters",
                        show(&p->now, buffer), (int)sizeof f->dim_name[0] - 1);
        if (find_dim(f, &p->now) >= 0)
            return fail(p, SPARTA_E_USAGE, p->now.at, "dimension %s twice", show(&p->now, buffer));
        place[f->rank] = p->now.at;
        snprintf(f->dim_name[f->rank++], sizeof f->dim_name[0], "%.*s", p->now.length, p->now.text);
        advance(p);
    } while (is_symbol(p, ','));
    return need_symbol(p, ')');
}

static sparta_status parse_dim(parser *p, const sparta_format *f, int *dim)
{
    if (p->now.kind != NAME) return expected(p, "a dimension");
    *dim = find_dim(f, &p->now);
    if (*dim < 0) {
        char all[SPARTA_RANK * 18] = "", buffer[40];
        for (int d = 0; d < f->rank; d++) {
            size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", d ? ", " : "", f->dim_name[d]);
        }
        return fail(p, SPARTA_E_USAGE, p->now.at, "unknown dimension %s; there %s %s", show(&p->now, buffer),
                    f->rank == 1 ? "is" : "are", all);
    }
    advance(p);
    return SPARTA_OK;
}

static sparta_status parse_expr(parser *p, const sparta_format *f, sparta_level *l)
{
    SPARTA_TRY(parse_dim(p, f, &l->dim));
    if (is_symbol(p, '-') || is_symbol(p, '+')) {
        l->map = is_symbol(p, '-') ? SPARTA_MAP_SUB : SPARTA_MAP_ADD;
        advance(p);
        return parse_dim(p, f, &l->other);
    }
    if (!is_symbol(p, '/') && !is_symbol(p, '%')) return SPARTA_OK;
    l->map = is_symbol(p, '/') ? SPARTA_MAP_DIV : SPARTA_MAP_MOD;
    advance(p);
    SPARTA_TRY(need_number(p, "block size", 1, INT32_MAX, &l->c));
    if (l->map != SPARTA_MAP_MOD || !is_symbol(p, '/')) return SPARTA_OK;
    l->map = SPARTA_MAP_NEST;
    advance(p);
    return need_number(p, "inner block size", 1, INT32_MAX, &l->inner);
}

static sparta_status unknown_property(parser *p)
{
    char buffer[40], near[64];
    return fail(p, SPARTA_E_USAGE, p->now.at,
                "unknown property %s%s (nonunique nonordered soa aos pad zeroless)", show(&p->now, buffer),
                hint(&p->now, props, (int)SPARTA_COUNT(props), near));
}

static sparta_status parse_property(parser *p, sparta_level *l)
{
    if (p->now.kind != NAME) return expected(p, "a property");
    int i = find(&p->now, props, (int)SPARTA_COUNT(props));
    if (i < 0) return unknown_property(p);
    if (!(sparta_level_table[l->kind].properties & prop_bits[i]))
        return fail(p, SPARTA_E_USAGE, p->now.at, "'%s' does not take '%s'; remove it",
                    sparta_level_table[l->kind].name, props[i]);
    advance(p);
    unsigned bits = prop_bits[i];
    if (bits == SPARTA_PROP_PAD_ZERO) {
        SPARTA_TRY(need_symbol(p, '='));
        if (!is_name(&p->now, "last") && !is_name(&p->now, "zero")) return expected(p, "last or zero");
        if (is_name(&p->now, "last")) bits = 0; /* as it is without */
        advance(p);
    }
    l->properties |= bits;
    return SPARTA_OK;
}

static sparta_status parse_properties(parser *p, sparta_level *l)
{
    if (!is_symbol(p, '(')) return SPARTA_OK;
    do {
        advance(p);
        SPARTA_TRY(parse_property(p, l));
    } while (is_symbol(p, ','));
    return need_symbol(p, ')');
}

/* packed[w], packed[auto], structured[n,m] */
static sparta_status parse_size(parser *p, sparta_level *l)
{
    const sparta_level_info *info = &sparta_level_table[l->kind];
    if (!info->arguments) {
        if (!is_symbol(p, '[')) return SPARTA_OK;
        return fail(p, SPARTA_E_USAGE, p->now.at, "'%s' takes no [ ]", info->name);
    }
    if (!is_symbol(p, '['))
        return expected(p,
                        info->arguments == 1 ? "[w] or [auto] after 'packed'" : "[n,m] after 'structured'");
    advance(p);
    if (info->arguments == 1 && is_name(&p->now, "auto"))
        advance(p);
    else
        SPARTA_TRY(need_number(p, "width", 1, INT32_MAX, &l->w));
    if (info->arguments > 1) {
        SPARTA_TRY(need_symbol(p, ','));
        SPARTA_TRY(need_number(p, "group", 1, INT32_MAX, &l->m));
    }
    return need_symbol(p, ']');
}

static sparta_status parse_kind(parser *p, sparta_level *l)
{
    if (p->now.kind != NAME) return expected(p, "a level kind " KINDS);
    const char *names[SPARTA_LEVEL_KINDS];
    char buffer[40], near[64];
    for (int k = 0; k < SPARTA_LEVEL_KINDS; k++) names[k] = sparta_level_table[k].name;
    int kind = find(&p->now, names, SPARTA_LEVEL_KINDS);
    if (kind < 0)
        return fail(p, SPARTA_E_USAGE, p->now.at, "unknown level kind %s%s " KINDS, show(&p->now, buffer),
                    hint(&p->now, names, SPARTA_LEVEL_KINDS, near));
    advance(p);
    l->kind = (sparta_level_kind)kind;
    SPARTA_TRY(parse_size(p, l));
    SPARTA_TRY(parse_properties(p, l));
    if (l->kind == SPARTA_LEVEL_SINGLETON && !(l->properties & SPARTA_PROP_AOS))
        l->properties |= SPARTA_PROP_SOA;
    return SPARTA_OK;
}

static sparta_status parse_levels(parser *p, sparta_format *f, sparta_place place[SPARTA_LEVELS])
{
    SPARTA_TRY(need_symbol(p, '('));
    do {
        if (f->n) advance(p);
        if (f->n == SPARTA_LEVELS)
            return fail(p, SPARTA_E_USAGE, p->now.at, "more than %d levels", SPARTA_LEVELS);
        sparta_level l = {.map = SPARTA_MAP_ALL, .c = 1, .pos = SPARTA_I32, .crd = SPARTA_I32};
        place[f->n] = p->now.at;
        SPARTA_TRY(parse_expr(p, f, &l));
        SPARTA_TRY(need_symbol(p, ':'));
        SPARTA_TRY(parse_kind(p, &l));
        f->level[f->n++] = l;
    } while (is_symbol(p, ','));
    return need_symbol(p, ')');
}

static sparta_status parse_map(parser *p, sparta_format *f)
{
    sparta_place dim[SPARTA_RANK], level[SPARTA_LEVELS];
    SPARTA_TRY(parse_dims(p, f, dim));
    if (p->now.kind != ARROW) return expected(p, "'->'");
    advance(p);
    SPARTA_TRY(parse_levels(p, f, level));
    return sparta_format_structure(p->cx, f, level, dim);
}

/* ------------------------------------------------------------------ widths */

static sparta_status parse_range(parser *p, const sparta_format *f, int64_t *from, int64_t *to)
{
    *from = 0;
    *to = f->n - 1;
    if (!is_symbol(p, '[')) return SPARTA_OK;
    advance(p);
    SPARTA_TRY(need_number(p, "level", 0, f->n - 1, from));
    *to = *from;
    if (p->now.kind == DOTS) {
        advance(p);
        SPARTA_TRY(need_number(p, "last level", *from, f->n - 1, to));
    }
    return need_symbol(p, ']');
}

static sparta_status parse_width(parser *p, sparta_dtype *out, int *bits)
{
    int n = (int)SPARTA_COUNT(widths);
    char buffer[40], name[8];
    *bits = is_name(&p->now, "u2") ? 2 : is_name(&p->now, "u4") ? 4 : 0;
    int i = *bits ? 0 : find(&p->now, widths, n); /* they lie in bytes: u8 */
    if (i < 0)
        return fail(p, SPARTA_E_USAGE, p->now.at,
                    "unknown width %s (u8 u16 u32 u64 i32 i64; u2 u4 for structured)", show(&p->now, buffer));
    snprintf(name, sizeof name, "%s", widths[i]);
    if (!sparta_dtype_parse(name, out))
        return sparta_fail(p->cx, SPARTA_E_INTERNAL, "format: no type %s", name);
    advance(p);
    return SPARTA_OK;
}

static sparta_status parse_key(parser *p, sparta_format *f)
{
    token key = p->now;
    bool crd = is_name(&key, "crd"), any = false;
    if (!crd && !is_name(&key, "pos")) return expected(p, "a key, pos or crd");
    advance(p);
    int64_t from, to;
    int bits;
    sparta_dtype width;
    SPARTA_TRY(parse_range(p, f, &from, &to));
    SPARTA_TRY(need_symbol(p, '='));
    sparta_place at = p->now.at;
    SPARTA_TRY(parse_width(p, &width, &bits));
    for (int64_t i = from; i <= to; i++) {
        sparta_level *l = &f->level[i];
        if (crd ? !sparta_level_has_crd(l) : !sparta_level_table[l->kind].has_pos) continue;
        if (bits && (!crd || l->kind != SPARTA_LEVEL_STRUCTURED))
            return fail(p, SPARTA_E_USAGE, at,
                        "widths u2 and u4 are for crd of structured levels, level %d is '%s'", (int)i,
                        sparta_level_table[l->kind].name);
        any = true;
        *(crd ? &l->crd : &l->pos) = width;
        if (crd) l->crd_bits = bits;
    }
    if (any) return SPARTA_OK;
    return fail(p, SPARTA_E_USAGE, key.at, "%s: no such level stores %s; remove it", crd ? "crd" : "pos",
                crd ? "coordinates" : "positions");
}

static sparta_status parse_keys(parser *p, sparta_format *f)
{
    while (is_symbol(p, ',')) {
        advance(p);
        SPARTA_TRY(parse_key(p, f));
    }
    if (p->now.kind != END) return expected(p, "',' and a key, or the end");
    return sparta_format_structure(p->cx, f, NULL, NULL); /* the widths may have spoilt it */
}

/* ------------------------------------------------------------------ names */

#define ARGUMENTS 4

static sparta_status parse_text(sparta_ctx *cx, const char *text, bool names, sparta_format *f);

static sparta_status unknown_name(parser *p)
{
    const char *all[SPARTA_COUNT(named) + SPARTA_COUNT(later_names)];
    int n = 0;
    char buffer[40], near[64], what[80];
    if (find(&p->now, later_names, (int)SPARTA_COUNT(later_names)) >= 0) {
        snprintf(what, sizeof what, "format %s", show(&p->now, buffer));
        return unsupported(p, p->now.at, what);
    }
    for (size_t i = 0; i < SPARTA_COUNT(named); i++) all[n++] = named[i].name;
    for (size_t i = 0; i < SPARTA_COUNT(later_names); i++) all[n++] = later_names[i];
    return fail(p, SPARTA_E_USAGE, p->now.at,
                "unknown format %s%s; write a name with its arguments, e.g. csr, bsr(4,4), or "
                "(i,j)->(i:dense, j:compressed)",
                show(&p->now, buffer), hint(&p->now, all, n, near));
}

static sparta_status parse_arguments(parser *p, const token *name, int want, int64_t value[ARGUMENTS])
{
    int n = 0;
    char buffer[40];
    if (is_symbol(p, '(')) {
        do {
            advance(p);
            if (n == want)
                return fail(p, SPARTA_E_USAGE, p->now.at, "%s takes %d argument%s", show(name, buffer), want,
                            want == 1 ? "" : "s");
            SPARTA_TRY(need_number(p, "argument", 1, INT32_MAX, &value[n++]));
        } while (is_symbol(p, ','));
        SPARTA_TRY(need_symbol(p, ')'));
    }
    if (want && !n)
        return fail(p, SPARTA_E_USAGE, p->now.at, "%s needs %d argument%s", show(name, buffer), want,
                    want == 1 ? "" : "s");
    for (; n && n < want; n++) value[n] = value[n - 1]; /* bsr(32) is bsr(32,32) */
    return SPARTA_OK;
}

/* Put the arguments into the text of a row. */
static void expand(const char *text, const int64_t value[ARGUMENTS], char *out, size_t size)
{
    size_t used = 0;
    for (; *text && used + 1 < size; text++) {
        if (text[0] == '$' && text[1] >= '1' && text[1] < '1' + ARGUMENTS) {
            used += (size_t)snprintf(out + used, size - used, "%lld", (long long)value[*++text - '1']);
            used = SPARTA_MIN(used, size - 1);
        } else {
            out[used++] = *text;
        }
    }
    out[used] = 0;
}

static sparta_status parse_named(parser *p, sparta_format *f)
{
    size_t i = 0;
    while (p->next[0] == '-' && isalpha((unsigned char)p->next[1])) { /* sr-bcrs is one word */
        int more = 1 + length_while(p->next + 1, true);
        step(p, more);
        p->now.length += more;
    }
    token name = p->now;
    while (i < SPARTA_COUNT(named) && !is_name(&name, named[i].name)) i++;
    if (i == SPARTA_COUNT(named)) return unknown_name(p);
    advance(p);
    int64_t value[ARGUMENTS] = {0};
    char text[256];
    SPARTA_TRY(parse_arguments(p, &name, named[i].arguments, value));
    expand(named[i].text, value, text, sizeof text);
    return parse_text(p->cx, text, false, f);
}

/* ------------------------------------------------------------------ the whole */

static sparta_status parse_text(sparta_ctx *cx, const char *text, bool names, sparta_format *f)
{
    parser p = {.cx = cx, .next = text, .at = {1, 1}};
    advance(&p);
    if (is_symbol(&p, '('))
        SPARTA_TRY(parse_map(&p, f));
    else if (names && p.now.kind == NAME)
        SPARTA_TRY(parse_named(&p, f));
    else
        return expected(&p, "'(' or the name of a format");
    return parse_keys(&p, f);
}

sparta_status sparta_format_parse(sparta_ctx *cx, const char *text, sparta_format *out)
{
    if (strnlen(text, TEXT_LIMIT + 1) > TEXT_LIMIT)
        return sparta_fail(cx, SPARTA_E_USAGE, "format: the text is longer than %d bytes", TEXT_LIMIT);
    sparta_format f = {0};
    SPARTA_TRY(parse_text(cx, text, true, &f));
    *out = f;
    return SPARTA_OK;
}
