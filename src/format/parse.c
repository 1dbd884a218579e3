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
static const unsigned prop_bits[] = {SP_PROP_NONUNIQUE, SP_PROP_NONORDERED, SP_PROP_SOA,
                                     SP_PROP_AOS,       SP_PROP_PAD_ZERO,   SP_PROP_ZEROLESS};
static const char *const widths[] = {"u8", "u16", "u32", "u64", "i32", "i64"};

/* ------------------------------------------------------------------ dimensions and levels */

static int find_dim(const sp_format *f, const sp_token *t)
{
    for (int d = 0; d < f->rank; d++)
        if (sp_token_is(t, f->dim_name[d])) return d;
    return -1;
}

static sparta_status parse_dims(sp_parser *p, sp_format *f, sp_text_place place[SPARTA_RANK])
{
    SP_TRY(sp_lex_need(p, '('));
    do {
        if (f->rank) sp_lex_next(p);
        char buffer[40];
        if (p->now.kind != SP_TOKEN_NAME) return sp_lex_expected(p, "the name of a dimension");
        if (f->rank == SPARTA_RANK)
            return sp_format_wrong(p->cx, &p->now.at, "more than %d dimensions", SPARTA_RANK);
        if (p->now.length >= (int)sizeof f->dim_name[0])
            return sp_format_wrong(p->cx, &p->now.at, "the name %s is longer than %d letters",
                                   sp_token_show(&p->now, buffer), (int)sizeof f->dim_name[0] - 1);
        if (find_dim(f, &p->now) >= 0)
            return sp_format_wrong(p->cx, &p->now.at, "dimension %s twice", sp_token_show(&p->now, buffer));
        place[f->rank] = p->now.at;
        snprintf(f->dim_name[f->rank++], sizeof f->dim_name[0], "%.*s", p->now.length, p->now.text);
        sp_lex_next(p);
    } while (sp_lex_is(p, ','));
    return sp_lex_need(p, ')');
}

static sparta_status parse_dim(sp_parser *p, const sp_format *f, int *dim)
{
    if (p->now.kind != SP_TOKEN_NAME) return sp_lex_expected(p, "a dimension");
    *dim = find_dim(f, &p->now);
    if (*dim < 0) {
        char all[SPARTA_RANK * 18] = "", buffer[40];
        for (int d = 0; d < f->rank; d++) {
            size_t used = strlen(all);
            snprintf(all + used, sizeof all - used, "%s%s", d ? ", " : "", f->dim_name[d]);
        }
        return sp_format_wrong(p->cx, &p->now.at, "unknown dimension %s; there %s %s",
                               sp_token_show(&p->now, buffer), f->rank == 1 ? "is" : "are", all);
    }
    sp_lex_next(p);
    return SPARTA_OK;
}

static sparta_status parse_expr(sp_parser *p, const sp_format *f, sp_level *l)
{
    SP_TRY(parse_dim(p, f, &l->dim));
    if (sp_lex_is(p, '-') || sp_lex_is(p, '+')) {
        l->map = sp_lex_is(p, '-') ? SP_MAP_SUB : SP_MAP_ADD;
        sp_lex_next(p);
        return parse_dim(p, f, &l->other);
    }
    if (!sp_lex_is(p, '/') && !sp_lex_is(p, '%')) return SPARTA_OK;
    l->map = sp_lex_is(p, '/') ? SP_MAP_DIV : SP_MAP_MOD;
    sp_lex_next(p);
    SP_TRY(sp_lex_number(p, "block size", 1, INT32_MAX, &l->c));
    if (l->map != SP_MAP_MOD || !sp_lex_is(p, '/')) return SPARTA_OK;
    l->map = SP_MAP_NEST;
    sp_lex_next(p);
    return sp_lex_number(p, "inner block size", 1, INT32_MAX, &l->inner);
}

static sparta_status unknown_property(sp_parser *p)
{
    char buffer[40], near[SP_HINT];
    return sp_format_wrong(
        p->cx, &p->now.at, "unknown property %s%s (nonunique nonordered soa aos pad zeroless)",
        sp_token_show(&p->now, buffer), sp_token_hint(&p->now, props, (int)SP_COUNT(props), near));
}

static sparta_status parse_property(sp_parser *p, sp_level *l)
{
    if (p->now.kind != SP_TOKEN_NAME) return sp_lex_expected(p, "a property");
    int i = sp_token_find(&p->now, props, (int)SP_COUNT(props));
    if (i < 0) return unknown_property(p);
    if (!(sp_level_table[l->kind].properties & prop_bits[i]))
        return sp_format_wrong(p->cx, &p->now.at, "'%s' does not take '%s'; remove it",
                               sp_level_table[l->kind].name, props[i]);
    sp_lex_next(p);
    unsigned bits = prop_bits[i];
    if (bits == SP_PROP_PAD_ZERO) {
        SP_TRY(sp_lex_need(p, '='));
        if (!sp_token_is(&p->now, "last") && !sp_token_is(&p->now, "zero"))
            return sp_lex_expected(p, "last or zero");
        if (sp_token_is(&p->now, "last")) bits = 0; /* as it is without */
        sp_lex_next(p);
    }
    l->properties |= bits;
    return SPARTA_OK;
}

static sparta_status parse_properties(sp_parser *p, sp_level *l)
{
    if (!sp_lex_is(p, '(')) return SPARTA_OK;
    do {
        sp_lex_next(p);
        SP_TRY(parse_property(p, l));
    } while (sp_lex_is(p, ','));
    return sp_lex_need(p, ')');
}

/* packed[w], packed[auto], structured[n,m] */
static sparta_status parse_size(sp_parser *p, sp_level *l)
{
    const sp_level_info *info = &sp_level_table[l->kind];
    if (!info->arguments) {
        if (!sp_lex_is(p, '[')) return SPARTA_OK;
        return sp_format_wrong(p->cx, &p->now.at, "'%s' takes no [ ]", info->name);
    }
    if (!sp_lex_is(p, '['))
        return sp_lex_expected(p, info->arguments == 1 ? "[w] or [auto] after 'packed'"
                                                       : "[n,m] after 'structured'");
    sp_lex_next(p);
    if (info->arguments == 1 && sp_token_is(&p->now, "auto"))
        sp_lex_next(p);
    else
        SP_TRY(sp_lex_number(p, "width", 1, INT32_MAX, &l->w));
    if (info->arguments > 1) {
        SP_TRY(sp_lex_need(p, ','));
        SP_TRY(sp_lex_number(p, "group", 1, INT32_MAX, &l->m));
    }
    return sp_lex_need(p, ']');
}

static sparta_status parse_kind(sp_parser *p, sp_level *l)
{
    if (p->now.kind != SP_TOKEN_NAME) return sp_lex_expected(p, "a level kind " KINDS);
    const char *names[SP_LEVEL_KINDS];
    char buffer[40], near[SP_HINT];
    for (int k = 0; k < SP_LEVEL_KINDS; k++) names[k] = sp_level_table[k].name;
    int kind = sp_token_find(&p->now, names, SP_LEVEL_KINDS);
    if (kind < 0)
        return sp_format_wrong(p->cx, &p->now.at, "unknown level kind %s%s " KINDS,
                               sp_token_show(&p->now, buffer),
                               sp_token_hint(&p->now, names, SP_LEVEL_KINDS, near));
    sp_lex_next(p);
    l->kind = (sp_level_kind)kind;
    SP_TRY(parse_size(p, l));
    SP_TRY(parse_properties(p, l));
    if (l->kind == SP_LEVEL_SINGLETON && !(l->properties & SP_PROP_AOS)) l->properties |= SP_PROP_SOA;
    return SPARTA_OK;
}

static sparta_status parse_levels(sp_parser *p, sp_format *f, sp_text_place place[SP_LEVELS])
{
    SP_TRY(sp_lex_need(p, '('));
    do {
        if (f->n) sp_lex_next(p);
        if (f->n == SP_LEVELS) return sp_format_wrong(p->cx, &p->now.at, "more than %d levels", SP_LEVELS);
        sp_level l = {.map = SP_MAP_ALL, .c = 1, .pos = SPARTA_I32, .crd = SPARTA_I32};
        place[f->n] = p->now.at;
        SP_TRY(parse_expr(p, f, &l));
        SP_TRY(sp_lex_need(p, ':'));
        SP_TRY(parse_kind(p, &l));
        f->level[f->n++] = l;
    } while (sp_lex_is(p, ','));
    return sp_lex_need(p, ')');
}

static sparta_status parse_map(sp_parser *p, sp_format *f)
{
    sp_text_place dim[SPARTA_RANK], level[SP_LEVELS];
    SP_TRY(parse_dims(p, f, dim));
    if (p->now.kind != SP_TOKEN_ARROW) return sp_lex_expected(p, "'->'");
    sp_lex_next(p);
    SP_TRY(parse_levels(p, f, level));
    return sp_format_structure(p->cx, f, level, dim);
}

/* ------------------------------------------------------------------ widths */

static sparta_status parse_range(sp_parser *p, const sp_format *f, sp_width *w)
{
    int64_t from = 0, to = f->n - 1;
    w->from = 0;
    w->to = SP_LEVELS - 1;
    if (!sp_lex_is(p, '[')) return SPARTA_OK;
    if (f->sum)
        return sp_format_wrong(p->cx, &p->now.at,
                               "a sum has no levels of its own; leave out the [ ], which is for all "
                               "parts, or write it behind the format of a part");
    sp_lex_next(p);
    SP_TRY(sp_lex_number(p, "level", 0, f->n - 1, &from));
    to = from;
    if (p->now.kind == SP_TOKEN_DOTS) {
        sp_lex_next(p);
        SP_TRY(sp_lex_number(p, "last level", from, f->n - 1, &to));
    }
    w->from = (int)from;
    w->to = (int)to;
    return sp_lex_need(p, ']');
}

static sparta_status parse_width(sp_parser *p, sparta_dtype *out, int *bits)
{
    int n = (int)SP_COUNT(widths);
    char buffer[40], name[8];
    *bits = sp_token_is(&p->now, "u2") ? 2 : sp_token_is(&p->now, "u4") ? 4 : 0;
    int i = *bits ? 0 : sp_token_find(&p->now, widths, n); /* they lie in bytes: u8 */
    if (i < 0)
        return sp_format_wrong(p->cx, &p->now.at,
                               "unknown width %s (u8 u16 u32 u64 i32 i64; u2 u4 for structured)",
                               sp_token_show(&p->now, buffer));
    snprintf(name, sizeof name, "%s", widths[i]);
    if (!sp_dtype_parse(name, out)) return sp_fail(p->cx, SPARTA_E_INTERNAL, "format: no type %s", name);
    sp_lex_next(p);
    return SPARTA_OK;
}

sparta_status sp_parse_apply_width(sp_parser *p, sp_format *f, sp_width *w)
{
    for (int i = w->from; i <= w->to && i < f->n; i++) {
        sp_level *l = &f->level[i];
        if (w->crd ? !sp_level_has_crd(l) : !sp_level_table[l->kind].has_pos) continue;
        if (w->bits && (!w->crd || l->kind != SP_LEVEL_STRUCTURED))
            return sp_format_wrong(p->cx, &w->at,
                                   "widths u2 and u4 are for crd of structured levels, level %d is '%s'", i,
                                   sp_level_table[l->kind].name);
        w->used = true;
        *(w->crd ? &l->crd : &l->pos) = w->type;
        if (w->crd) l->crd_bits = w->bits;
    }
    return SPARTA_OK;
}

static sparta_status parse_key(sp_parser *p, sp_format *f)
{
    sp_token key = p->now;
    sp_width w = {.crd = sp_token_is(&key, "crd")};
    if (!w.crd && !sp_token_is(&key, "pos")) return sp_lex_expected(p, "a key, pos or crd");
    sp_lex_next(p);
    SP_TRY(parse_range(p, f, &w));
    SP_TRY(sp_lex_need(p, '='));
    w.at = p->now.at;
    SP_TRY(parse_width(p, &w.type, &w.bits));
    SP_TRY(f->sum ? sp_sum_apply_width(p, f, &w) : sp_parse_apply_width(p, f, &w));
    if (w.used) return SPARTA_OK;
    return sp_format_wrong(p->cx, &key.at, "%s: no such level stores %s; remove it", w.crd ? "crd" : "pos",
                           w.crd ? "coordinates" : "positions");
}

static sparta_status parse_keys(sp_parser *p, sp_format *f)
{
    if (f->opaque && sp_lex_is(p, ','))
        return sp_format_wrong(p->cx, &p->now.at, "%s takes no widths; remove them", f->opaque->name);
    while (sp_lex_is(p, ',')) {
        sp_lex_next(p);
        SP_TRY(parse_key(p, f));
    }
    /* The widths may have spoilt it. */
    return f->n ? sp_format_structure(p->cx, f, NULL, NULL) : SPARTA_OK;
}

/* ------------------------------------------------------------------ the whole */

sparta_status sp_parse_format(sp_parser *p, sp_format *out)
{
    if (p->depth > SP_FORMAT_DEPTH)
        return sp_format_wrong(p->cx, &p->now.at, "sums lie more than %d deep inside each other",
                               SP_FORMAT_DEPTH);
    if (sp_lex_is(p, '('))
        SP_TRY(parse_map(p, out));
    else if (sp_token_is(&p->now, "sum"))
        SP_TRY(sp_parse_sum(p, out));
    else if (p->now.kind == SP_TOKEN_NAME)
        SP_TRY(sp_parse_named(p, out));
    else
        return sp_lex_expected(p, "'(' or the name of a format");
    return parse_keys(p, out);
}

sparta_status sp_format_parse_at(sparta_ctx *cx, const char *text, sp_text_place at, sp_format *out)
{
    if (strnlen(text, SP_FORMAT_TEXT + 1) > SP_FORMAT_TEXT)
        return sp_fail(cx, SPARTA_E_USAGE, "format: the text is longer than %d bytes", SP_FORMAT_TEXT);
    sp_format f = {0};
    sp_parser p = sp_lex(cx, text, at);
    SP_TRY(sp_parse_format(&p, &f));
    if (p.now.kind != SP_TOKEN_END)
        return sp_lex_expected(&p, f.opaque ? "the end" : "',' and a key, or the end");
    *out = f;
    return SPARTA_OK;
}

sparta_status sp_format_parse(sparta_ctx *cx, const char *text, sp_format *out)
{
    return sp_format_parse_at(cx, text, (sp_text_place){1, 1}, out);
}
