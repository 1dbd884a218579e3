/* The text of a format: one function per rule of the grammar.
 *
 *     format  := (map | name ['(' integer {',' integer} ')'] | sum) {',' width}
 *     map     := '(' d {',' d} ')' '->' '(' level {',' level} ')'
 *     level   := expr ':' kind ['[' integer {',' integer} | 'auto' ']'] ['(' property {',' property} ')']
 *     expr    := d | d '/' c | d '%' c | d '%' c '/' c | d '-' d | d '+' d
 *     width   := ('pos' | 'crd') ['[' level ['..' level] ']'] '=' (u2 | u4 | u8 | u16 | u32 | u64 | i32 | i64)
 *
 * Sums are in sum_text.c, names in names.c. A format ends at the first token that is none of its own: the end of the text,
 * or ';' and '}' in a sum.
 */
#include "format/text.h"
#include <stdio.h>
#include <string.h>

#define KINDS "(dense ragged compressed loose packed structured singleton bitmap range)"
static const char *const props[] = {"nonunique", "nonordered", "soa", "aos", "pad", "zeroless"};
static const unsigned prop_bits[] = {SPARTA_PROP_NONUNIQUE, SPARTA_PROP_NONORDERED, SPARTA_PROP_SOA,
                                     SPARTA_PROP_AOS,       SPARTA_PROP_PAD_ZERO,   SPARTA_PROP_ZEROLESS};
static const char *const widths[] = {"u8", "u16", "u32", "u64", "i32", "i64"};

/* ------------------------------------------------------------------ dimensions and levels */

static int find_dim(const sparta_format *f, const sparta_token *t)
{
    for (int d = 0; d < f->rank; d++)
        if (sparta_token_is(t, f->dim_name[d])) return d;
    return -1;
}

static sparta_status parse_dims(sparta_parser *p, sparta_format *f, sparta_place place[SPARTA_RANK])
{
    SPARTA_TRY(sparta_lex_need(p, '('));
    do {
        if (f->rank) sparta_lex_next(p);
        char buffer[40];
        if (p->now.kind != SPARTA_TOKEN_NAME) return sparta_lex_expected(p, "the name of a dimension");
        if (f->rank == SPARTA_RANK)
            return sparta_lex_fail(p, p->now.at, "more than %d dimensions", SPARTA_RANK);
        if (p->now.length >= (int)sizeof f->dim_name[0])
            return sparta_lex_fail(p, p->now.at, "the name %s is longer than %d letters",
                                   sparta_token_show(&p->now, buffer), (int)sizeof f->dim_name[0] - 1);
        if (find_dim(f, &p->now) >= 0)
            return sparta_lex_fail(p, p->now.at, "dimension %s twice", sparta_token_show(&p->now, buffer));
        place[f->rank] = p->now.at;
        snprintf(f->dim_name[f->rank++], sizeof f->dim_name[0], "%.*s", p->now.length, p->now.text);
        sparta_lex_next(p);
    } while (sparta_lex_is(p, ','));
    return sparta_lex_need(p, ')');
}

static sparta_status parse_dim(sparta_parser *p, const sparta_format *f, int *dim)
{
    if (p->now.kind != SPARTA_TOKEN_NAME) return sparta_lex_expected(p, "a dimension");
    *dim = find_dim(f, &p->now);
    if (*dim < 0) {
        char all[SPARTA_RANK * 18] = "", buffer[40];
        for (int d = 0; d < f->rank; d++) {
            size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", d ? ", " : "", f->dim_name[d]);
        }
        return sparta_lex_fail(p, p->now.at, "unknown dimension %s; there %s %s",
                               sparta_token_show(&p->now, buffer), f->rank == 1 ? "is" : "are", all);
    }
    sparta_lex_next(p);
    return SPARTA_OK;
}

static sparta_status parse_expr(sparta_parser *p, const sparta_format *f, sparta_level *l)
{
    SPARTA_TRY(parse_dim(p, f, &l->dim));
    if (sparta_lex_is(p, '-') || sparta_lex_is(p, '+')) {
        l->map = sparta_lex_is(p, '-') ? SPARTA_MAP_SUB : SPARTA_MAP_ADD;
        sparta_lex_next(p);
        return parse_dim(p, f, &l->other);
    }
    if (!sparta_lex_is(p, '/') && !sparta_lex_is(p, '%')) return SPARTA_OK;
    l->map = sparta_lex_is(p, '/') ? SPARTA_MAP_DIV : SPARTA_MAP_MOD;
    sparta_lex_next(p);
    SPARTA_TRY(sparta_lex_number(p, "block size", 1, INT32_MAX, &l->c));
    if (l->map != SPARTA_MAP_MOD || !sparta_lex_is(p, '/')) return SPARTA_OK;
    l->map = SPARTA_MAP_NEST;
    sparta_lex_next(p);
    return sparta_lex_number(p, "inner block size", 1, INT32_MAX, &l->inner);
}

static sparta_status unknown_property(sparta_parser *p)
{
    char buffer[40], near[80];
    return sparta_lex_fail(p, p->now.at, "unknown property %s%s (nonunique nonordered soa aos pad zeroless)",
                           sparta_token_show(&p->now, buffer),
                           sparta_token_hint(&p->now, props, (int)SPARTA_COUNT(props), near));
}

static sparta_status parse_property(sparta_parser *p, sparta_level *l)
{
    if (p->now.kind != SPARTA_TOKEN_NAME) return sparta_lex_expected(p, "a property");
    int i = sparta_token_find(&p->now, props, (int)SPARTA_COUNT(props));
    if (i < 0) return unknown_property(p);
    if (!(sparta_level_table[l->kind].properties & prop_bits[i]))
        return sparta_lex_fail(p, p->now.at, "'%s' does not take '%s'; remove it",
                               sparta_level_table[l->kind].name, props[i]);
    sparta_lex_next(p);
    unsigned bits = prop_bits[i];
    if (bits == SPARTA_PROP_PAD_ZERO) {
        SPARTA_TRY(sparta_lex_need(p, '='));
        if (!sparta_token_is(&p->now, "last") && !sparta_token_is(&p->now, "zero"))
            return sparta_lex_expected(p, "last or zero");
        if (sparta_token_is(&p->now, "last")) bits = 0; /* as it is without */
        sparta_lex_next(p);
    }
    l->properties |= bits;
    return SPARTA_OK;
}

static sparta_status parse_properties(sparta_parser *p, sparta_level *l)
{
    if (!sparta_lex_is(p, '(')) return SPARTA_OK;
    do {
        sparta_lex_next(p);
        SPARTA_TRY(parse_property(p, l));
    } while (sparta_lex_is(p, ','));
    return sparta_lex_need(p, ')');
}

/* packed[w], packed[auto], structured[n,m] */
static sparta_status parse_size(sparta_parser *p, sparta_level *l)
{
    const sparta_level_info *info = &sparta_level_table[l->kind];
    if (!info->arguments) {
        if (!sparta_lex_is(p, '[')) return SPARTA_OK;
        return sparta_lex_fail(p, p->now.at, "'%s' takes no [ ]", info->name);
    }
    if (!sparta_lex_is(p, '['))
        return sparta_lex_expected(p, info->arguments == 1 ? "[w] or [auto] after 'packed'"
                                                           : "[n,m] after 'structured'");
    sparta_lex_next(p);
    if (info->arguments == 1 && sparta_token_is(&p->now, "auto"))
        sparta_lex_next(p);
    else
        SPARTA_TRY(sparta_lex_number(p, "width", 1, INT32_MAX, &l->w));
    if (info->arguments > 1) {
        SPARTA_TRY(sparta_lex_need(p, ','));
        SPARTA_TRY(sparta_lex_number(p, "group", 1, INT32_MAX, &l->m));
    }
    return sparta_lex_need(p, ']');
}

static sparta_status parse_kind(sparta_parser *p, sparta_level *l)
{
    if (p->now.kind != SPARTA_TOKEN_NAME) return sparta_lex_expected(p, "a level kind " KINDS);
    const char *names[SPARTA_LEVEL_KINDS];
    char buffer[40], near[80];
    for (int k = 0; k < SPARTA_LEVEL_KINDS; k++) names[k] = sparta_level_table[k].name;
    int kind = sparta_token_find(&p->now, names, SPARTA_LEVEL_KINDS);
    if (kind < 0)
        return sparta_lex_fail(p, p->now.at, "unknown level kind %s%s " KINDS,
                               sparta_token_show(&p->now, buffer),
                               sparta_token_hint(&p->now, names, SPARTA_LEVEL_KINDS, near));
    sparta_lex_next(p);
    l->kind = (sparta_level_kind)kind;
    SPARTA_TRY(parse_size(p, l));
    SPARTA_TRY(parse_properties(p, l));
    if (l->kind == SPARTA_LEVEL_SINGLETON && !(l->properties & SPARTA_PROP_AOS))
        l->properties |= SPARTA_PROP_SOA;
    return SPARTA_OK;
}

static sparta_status parse_levels(sparta_parser *p, sparta_format *f, sparta_place place[SPARTA_LEVELS])
{
    SPARTA_TRY(sparta_lex_need(p, '('));
    do {
        if (f->n) sparta_lex_next(p);
        if (f->n == SPARTA_LEVELS) return sparta_lex_fail(p, p->now.at, "more than %d levels", SPARTA_LEVELS);
        sparta_level l = {.map = SPARTA_MAP_ALL, .c = 1, .pos = SPARTA_I32, .crd = SPARTA_I32};
        place[f->n] = p->now.at;
        SPARTA_TRY(parse_expr(p, f, &l));
        SPARTA_TRY(sparta_lex_need(p, ':'));
        SPARTA_TRY(parse_kind(p, &l));
        f->level[f->n++] = l;
    } while (sparta_lex_is(p, ','));
    return sparta_lex_need(p, ')');
}

static sparta_status parse_map(sparta_parser *p, sparta_format *f)
{
    sparta_place dim[SPARTA_RANK], level[SPARTA_LEVELS];
    SPARTA_TRY(parse_dims(p, f, dim));
    if (p->now.kind != SPARTA_TOKEN_ARROW) return sparta_lex_expected(p, "'->'");
    sparta_lex_next(p);
    SPARTA_TRY(parse_levels(p, f, level));
    return sparta_format_structure(p->cx, f, level, dim);
}

/* ------------------------------------------------------------------ widths */

static sparta_status parse_range(sparta_parser *p, const sparta_format *f, sparta_width *w)
{
    int64_t from = 0, to = f->n - 1;
    w->from = 0;
    w->to = SPARTA_LEVELS - 1;
    if (!sparta_lex_is(p, '[')) return SPARTA_OK;
    if (f->sum)
        return sparta_lex_fail(p, p->now.at,
                               "a sum has no levels of its own; leave out the [ ], which is for all "
                               "parts, or write it behind the format of a part");
    sparta_lex_next(p);
    SPARTA_TRY(sparta_lex_number(p, "level", 0, f->n - 1, &from));
    to = from;
    if (p->now.kind == SPARTA_TOKEN_DOTS) {
        sparta_lex_next(p);
        SPARTA_TRY(sparta_lex_number(p, "last level", from, f->n - 1, &to));
    }
    w->from = (int)from;
    w->to = (int)to;
    return sparta_lex_need(p, ']');
}

static sparta_status parse_width(sparta_parser *p, sparta_dtype *out, int *bits)
{
    int n = (int)SPARTA_COUNT(widths);
    char buffer[40], name[8];
    *bits = sparta_token_is(&p->now, "u2") ? 2 : sparta_token_is(&p->now, "u4") ? 4 : 0;
    int i = *bits ? 0 : sparta_token_find(&p->now, widths, n); /* they lie in bytes: u8 */
    if (i < 0)
        return sparta_lex_fail(p, p->now.at,
                               "unknown width %s (u8 u16 u32 u64 i32 i64; u2 u4 for structured)",
                               sparta_token_show(&p->now, buffer));
    snprintf(name, sizeof name, "%s", widths[i]);
    if (!sparta_dtype_parse(name, out))
        return sparta_fail(p->cx, SPARTA_E_INTERNAL, "format: no type %s", name);
    sparta_lex_next(p);
    return SPARTA_OK;
}

sparta_status sparta_parse_apply_width(sparta_parser *p, sparta_format *f, sparta_width *w)
{
    for (int i = w->from; i <= w->to && i < f->n; i++) {
        sparta_level *l = &f->level[i];
        if (w->crd ? !sparta_level_has_crd(l) : !sparta_level_table[l->kind].has_pos) continue;
        if (w->bits && (!w->crd || l->kind != SPARTA_LEVEL_STRUCTURED))
            return sparta_lex_fail(p, w->at,
                                   "widths u2 and u4 are for crd of structured levels, level %d is '%s'", i,
                                   sparta_level_table[l->kind].name);
        w->used = true;
        *(w->crd ? &l->crd : &l->pos) = w->type;
        if (w->crd) l->crd_bits = w->bits;
    }
    return SPARTA_OK;
}

static sparta_status parse_key(sparta_parser *p, sparta_format *f)
{
    sparta_token key = p->now;
    sparta_width w = {.crd = sparta_token_is(&key, "crd")};
    if (!w.crd && !sparta_token_is(&key, "pos")) return sparta_lex_expected(p, "a key, pos or crd");
    sparta_lex_next(p);
    SPARTA_TRY(parse_range(p, f, &w));
    SPARTA_TRY(sparta_lex_need(p, '='));
    w.at = p->now.at;
    SPARTA_TRY(parse_width(p, &w.type, &w.bits));
    SPARTA_TRY(f->sum ? sparta_sum_apply_width(p, f, &w) : sparta_parse_apply_width(p, f, &w));
    if (w.used) return SPARTA_OK;
    return sparta_lex_fail(p, key.at, "%s: no such level stores %s; remove it", w.crd ? "crd" : "pos",
                           w.crd ? "coordinates" : "positions");
}

static sparta_status parse_keys(sparta_parser *p, sparta_format *f)
{
    if (f->opaque && sparta_lex_is(p, ','))
        return sparta_lex_fail(p, p->now.at, "%s takes no widths; remove them", f->opaque->name);
    while (sparta_lex_is(p, ',')) {
        sparta_lex_next(p);
        SPARTA_TRY(parse_key(p, f));
    }
    /* The widths may have spoilt it. */
    return f->n ? sparta_format_structure(p->cx, f, NULL, NULL) : SPARTA_OK;
}

/* ------------------------------------------------------------------ the whole */

sparta_status sparta_parse_format(sparta_parser *p, sparta_format *out)
{
    if (p->depth > SPARTA_FORMAT_DEPTH)
        return sparta_lex_fail(p, p->now.at, "sums lie more than %d deep inside each other",
                               SPARTA_FORMAT_DEPTH);
    if (sparta_lex_is(p, '('))
        SPARTA_TRY(parse_map(p, out));
    else if (sparta_token_is(&p->now, "sum"))
        SPARTA_TRY(sparta_parse_sum(p, out));
    else if (p->now.kind == SPARTA_TOKEN_NAME)
        SPARTA_TRY(sparta_parse_named(p, out));
    else
        return sparta_lex_expected(p, "'(' or the name of a format");
    return parse_keys(p, out);
}

sparta_status sparta_format_parse_at(sparta_ctx *cx, const char *text, sparta_place at, sparta_format *out)
{
    if (strnlen(text, SPARTA_FORMAT_TEXT + 1) > SPARTA_FORMAT_TEXT)
        return sparta_fail(cx, SPARTA_E_USAGE, "format: the text is longer than %d bytes",
                           SPARTA_FORMAT_TEXT);
    sparta_format f = {0};
    sparta_parser p = sparta_lex(cx, text, at);
    SPARTA_TRY(sparta_parse_format(&p, &f));
    if (p.now.kind != SPARTA_TOKEN_END)
        return sparta_lex_expected(&p, f.opaque ? "the end" : "',' and a key, or the end");
    *out = f;
    return SPARTA_OK;
}

sparta_status sparta_format_parse(sparta_ctx *cx, const char *text, sparta_format *out)
{
    return sparta_format_parse_at(cx, text, (sparta_place){1, 1}, out);
}
