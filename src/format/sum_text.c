/* Sums: their text, which parts may stand together, and one copy of equal ones.
 *
 *     sum      := 'sum' '{' part {';' part} '}'
 *     part     := selector '->' format                     with its widths: rest -> csr, crd=u16; behind the '}', for all
 *     selector := 'rownnz' '<=' n | 'rownnz' 'in' '(' a ',' b ']' | 'colpart' '(' c ')' | 'blockdensity' '>=' x
 *               | 'first' '(' k ')' | 'rest'
 *
 * Each element has one place: one kind of selector in a sum, ranges of rownnz that do not meet, the other selectors once,
 * colpart alone, rest last. A format is a value of fixed size, so the parts live in the context: equal sums (by canonical
 * text) are one object, however often they are parsed.
 */
#include "format/text.h"
#include <string.h>

/* ------------------------------------------------------------------ parse */

#define SELECTORS "(rownnz<=n, rownnz in (a,b], colpart(c), blockdensity>=x, first(k), rest)"

/* As the enum. */
static const char *const selectors[] = {"rownnz", "colpart", "blockdensity", "first", "rest"};

bool sp_select_is_word(const char *word)
{
    for (size_t i = 0; i < SP_COUNT(selectors); i++)
        if (!strcmp(word, selectors[i])) return true;
    return false;
}

static sparta_status parse_rownnz(sp_parser *p, sp_select *s)
{
    if (sp_token_is(&p->now, "in")) {
        sp_lex_next(p);
        SP_TRY(sp_lex_need(p, '('));
        SP_TRY(sp_lex_number(p, "count", 0, INT32_MAX - 1, &s->a));
        SP_TRY(sp_lex_need(p, ','));
        SP_TRY(sp_lex_number(p, "count", s->a + 1, INT32_MAX, &s->b));
        return sp_lex_need(p, ']');
    }
    if (!sp_lex_is(p, '<')) return sp_lex_expected(p, "'<=' or 'in' after 'rownnz'");
    sp_lex_next(p);
    SP_TRY(sp_lex_need(p, '='));
    return sp_lex_number(p, "count", 1, INT32_MAX, &s->b);
}

static sparta_status parse_density(sp_parser *p, sp_select *s)
{
    SP_TRY(sp_lex_need(p, '>'));
    SP_TRY(sp_lex_need(p, '='));
    sp_text_place at = p->now.at;
    SP_TRY(sp_lex_decimal(p, "density", &s->x));
    if (s->x > 0 && s->x <= 1) return SPARTA_OK;
    return sp_format_wrong(p->cx, &at, "density must be above 0 and at most 1");
}

static sparta_status parse_select(sp_parser *p, sp_select *s)
{
    int n = (int)SP_COUNT(selectors), kind = sp_token_find(&p->now, selectors, n);
    char buffer[40], near[SP_HINT];
    if (p->now.kind != SP_TOKEN_NAME) return sp_lex_expected(p, "a selector " SELECTORS);
    if (kind < 0)
        return sp_format_wrong(p->cx, &p->now.at, "unknown selector %s%s " SELECTORS,
                               sp_token_show(&p->now, buffer), sp_token_hint(&p->now, selectors, n, near));
    s->kind = (sp_select_kind)kind;
    sp_lex_next(p);
    switch (s->kind) {
    case SP_SELECT_ROWNNZ: return parse_rownnz(p, s);
    case SP_SELECT_BLOCKDENSITY: return parse_density(p, s);
    case SP_SELECT_REST: return SPARTA_OK;
    default: break;
    }
    int64_t most = s->kind == SP_SELECT_COLPART ? SP_PARTS : INT32_MAX;
    SP_TRY(sp_lex_need(p, '('));
    SP_TRY(sp_lex_number(p, s->kind == SP_SELECT_COLPART ? "parts" : "count", 1, most, &s->b));
    return sp_lex_need(p, ')');
}

/* Room for one part more, all 0. */
static sparta_status grow(sparta_ctx *cx, sp_sum **sum, int n)
{
    size_t size = sizeof **sum + (size_t)(n + 1) * sizeof *(*sum)->part;
    sp_sum *more = sp_realloc(cx, *sum, size);
    SP_NEED(cx, more);
    memset(&more->part[n], 0, sizeof *more->part);
    more->n = n + 1;
    *sum = more;
    return SPARTA_OK;
}

static sparta_status parse_parts(sp_parser *p, sp_sum **sum, sp_text_place *place)
{
    int n = 0;
    do {
        sp_lex_next(p); /* '{' or ';' */
        if (n == SP_PARTS) return sp_format_wrong(p->cx, &p->now.at, "sum: more than %d parts", SP_PARTS);
        SP_TRY(grow(p->cx, sum, n));
        place[n] = p->now.at;
        SP_TRY(parse_select(p, &(*sum)->part[n].select));
        if (p->now.kind != SP_TOKEN_ARROW) return sp_lex_expected(p, "'->' after the selector");
        sp_lex_next(p);
        SP_TRY(sp_parse_format(p, &(*sum)->part[n++].format));
    } while (sp_lex_is(p, ';'));
    if (!sp_lex_is(p, '}')) return sp_lex_expected(p, "';' and the next part, or '}'");
    return SPARTA_OK;
}

sparta_status sp_parse_sum(sp_parser *p, sp_format *out)
{
    sp_text_place place[SP_PARTS];
    sp_sum *sum = NULL;
    sp_lex_next(p); /* 'sum' */
    if (!sp_lex_is(p, '{')) return sp_lex_expected(p, "'{' after 'sum'");
    p->depth++;
    sparta_status status = parse_parts(p, &sum, place);
    p->depth--;
    if (status) {
        sp_free(p->cx, sum);
        return status;
    }
    SP_TRY(sp_sum_intern(p->cx, sum, place, out));
    sp_lex_next(p); /* '}' */
    return SPARTA_OK;
}

/* hyb(2,4), crd=u16: the parts of a sum are the context's, so this is another sum. */
sparta_status sp_sum_apply_width(sp_parser *p, sp_format *f, sp_width *w)
{
    size_t size = sizeof *f->sum + (size_t)f->sum->n * sizeof *f->sum->part;
    sp_sum *sum = sp_alloc(p->cx, size);
    sparta_status status = SPARTA_OK;
    SP_NEED(p->cx, sum);
    memcpy(sum, f->sum, size);
    for (int i = 0; i < sum->n && !status; i++) {
        sp_format *part = &sum->part[i].format;
        status = part->sum ? sp_sum_apply_width(p, part, w) : sp_parse_apply_width(p, part, w);
    }
    if (!status) return sp_sum_intern(p->cx, sum, NULL, f);
    sp_free(p->cx, sum);
    return status;
}

/* ------------------------------------------------------------------ one copy */

static void free_formats(sparta_ctx *cx, void *thing)
{
    sp_formats *all = thing;
    sp_formats_forget(cx, all, NULL);
    while (all->sums) {
        sp_format_copy *copy = all->sums;
        all->sums = copy->next;
        sp_free(cx, copy->text);
        sp_free(cx, copy->sum);
        sp_free(cx, copy);
    }
    sp_free(cx, all);
}

sp_formats *sp_formats_of(sparta_ctx *cx)
{
    return sp_ctx_make_slot(cx, SP_SLOT_FORMATS, sizeof(sp_formats), free_formats);
}

/* Keep sum and text, or find those that are kept already. On failure neither is taken. */
static sparta_status keep(sparta_ctx *cx, sp_sum *sum, sp_text *text, const sp_sum **out)
{
    sp_formats *all = sp_formats_of(cx);
    SP_NEED(cx, all);
    uint64_t hash = sp_hash(text->data, text->size, 0);
    for (sp_format_copy *c = all->sums; c; c = c->next)
        if (c->hash == hash && !strcmp(c->text, text->data)) {
            *out = c->sum;
            return SPARTA_OK;
        }
    sp_format_copy *c = sp_alloc(cx, sizeof *c);
    SP_NEED(cx, c);
    *c = (sp_format_copy){.next = all->sums, .hash = hash, .text = text->data, .sum = sum};
    sp_text_init(text, cx); /* its bytes are the copy's now */
    all->sums = c;
    *out = sum;
    return SPARTA_OK;
}

static sparta_status intern(sparta_ctx *cx, sp_sum *sum, const sp_text_place *place, sp_format *f)
{
    sp_text text;
    sp_text_init(&text, cx);
    f->sum = sum;
    SP_TRY(sp_sum_structure(cx, f, place));
    sp_format_print(f, &text);
    sparta_status status = text.status;
    if (!status && text.size > SP_FORMAT_TEXT)
        status = sp_format_wrong(cx, place, "sum: written out it is longer than %d bytes; use fewer parts",
                                 SP_FORMAT_TEXT);
    if (!status) status = keep(cx, sum, &text, &f->sum);
    sp_text_free(&text);
    return status;
}

sparta_status sp_sum_intern(sparta_ctx *cx, sp_sum *sum, const sp_text_place *place, sp_format *out)
{
    sp_format f = {.rank = sum->part[0].format.rank};
    memcpy(f.dim_name, sum->part[0].format.dim_name, sizeof f.dim_name);
    sparta_status status = intern(cx, sum, place, &f);
    if (status || f.sum != sum) sp_free(cx, sum);
    if (!status) *out = f;
    return status;
}
