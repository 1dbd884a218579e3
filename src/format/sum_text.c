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

static const char *const selectors[] = {"rownnz", "colpart", "blockdensity", "first",
                                        "rest"}; /* as the enum */

bool sparta_select_is_word(const char *word)
{
    for (size_t i = 0; i < SPARTA_COUNT(selectors); i++)
        if (!strcmp(word, selectors[i])) return true;
    return false;
}

static sparta_status parse_rownnz(sparta_parser *p, sparta_select *s)
{
    if (sparta_token_is(&p->now, "in")) {
        sparta_lex_next(p);
        SPARTA_TRY(sparta_lex_need(p, '('));
        SPARTA_TRY(sparta_lex_number(p, "count", 0, INT32_MAX - 1, &s->a));
        SPARTA_TRY(sparta_lex_need(p, ','));
        SPARTA_TRY(sparta_lex_number(p, "count", s->a + 1, INT32_MAX, &s->b));
        return sparta_lex_need(p, ']');
    }
    if (!sparta_lex_is(p, '<')) return sparta_lex_expected(p, "'<=' or 'in' after 'rownnz'");
    sparta_lex_next(p);
    SPARTA_TRY(sparta_lex_need(p, '='));
    return sparta_lex_number(p, "count", 1, INT32_MAX, &s->b);
}

static sparta_status parse_density(sparta_parser *p, sparta_select *s)
{
    SPARTA_TRY(sparta_lex_need(p, '>'));
    SPARTA_TRY(sparta_lex_need(p, '='));
    sparta_place at = p->now.at;
    SPARTA_TRY(sparta_lex_decimal(p, "density", &s->x));
    if (s->x > 0 && s->x <= 1) return SPARTA_OK;
    return sparta_lex_fail(p, at, "density must be above 0 and at most 1");
}

static sparta_status parse_select(sparta_parser *p, sparta_select *s)
{
    int n = (int)SPARTA_COUNT(selectors), kind = sparta_token_find(&p->now, selectors, n);
    char buffer[40], near[80];
    if (p->now.kind != SPARTA_TOKEN_NAME) return sparta_lex_expected(p, "a selector " SELECTORS);
    if (kind < 0)
        return sparta_lex_fail(p, p->now.at, "unknown selector %s%s " SELECTORS,
                               sparta_token_show(&p->now, buffer),
                               sparta_token_hint(&p->now, selectors, n, near));
    s->kind = (sparta_select_kind)kind;
    sparta_lex_next(p);
    switch (s->kind) {
    case SPARTA_SELECT_ROWNNZ: return parse_rownnz(p, s);
    case SPARTA_SELECT_BLOCKDENSITY: return parse_density(p, s);
    case SPARTA_SELECT_REST: return SPARTA_OK;
    default: break;
    }
    int64_t most = s->kind == SPARTA_SELECT_COLPART ? SPARTA_PARTS : INT32_MAX;
    SPARTA_TRY(sparta_lex_need(p, '('));
    SPARTA_TRY(sparta_lex_number(p, s->kind == SPARTA_SELECT_COLPART ? "parts" : "count", 1, most, &s->b));
    return sparta_lex_need(p, ')');
}

/* Room for one part more, all 0. */
static sparta_status grow(sparta_ctx *cx, sparta_sum **sum, int n)
{
    size_t size = sizeof **sum + (size_t)(n + 1) * sizeof *(*sum)->part;
    sparta_sum *more = sparta_realloc(cx, *sum, size);
    SPARTA_NEED(cx, more);
    memset(&more->part[n], 0, sizeof *more->part);
    more->n = n + 1;
    *sum = more;
    return SPARTA_OK;
}

static sparta_status parse_parts(sparta_parser *p, sparta_sum **sum, sparta_place *place)
{
    int n = 0;
    do {
        sparta_lex_next(p); /* '{' or ';' */
        if (n == SPARTA_PARTS) return sparta_lex_fail(p, p->now.at, "sum: more than %d parts", SPARTA_PARTS);
        SPARTA_TRY(grow(p->cx, sum, n));
        place[n] = p->now.at;
        SPARTA_TRY(parse_select(p, &(*sum)->part[n].select));
        if (p->now.kind != SPARTA_TOKEN_ARROW) return sparta_lex_expected(p, "'->' after the selector");
        sparta_lex_next(p);
        SPARTA_TRY(sparta_parse_format(p, &(*sum)->part[n++].format));
    } while (sparta_lex_is(p, ';'));
    if (!sparta_lex_is(p, '}')) return sparta_lex_expected(p, "';' and the next part, or '}'");
    return SPARTA_OK;
}

sparta_status sparta_parse_sum(sparta_parser *p, sparta_format *out)
{
    sparta_place place[SPARTA_PARTS];
    sparta_sum *sum = NULL;
    sparta_lex_next(p); /* 'sum' */
    if (!sparta_lex_is(p, '{')) return sparta_lex_expected(p, "'{' after 'sum'");
    p->depth++;
    sparta_status status = parse_parts(p, &sum, place);
    p->depth--;
    if (status) {
        sparta_free(p->cx, sum);
        return status;
    }
    SPARTA_TRY(sparta_sum_intern(p->cx, sum, place, out));
    sparta_lex_next(p); /* '}' */
    return SPARTA_OK;
}

/* hyb(2,4), crd=u16: the parts of a sum are the context's, so this is another sum. */
sparta_status sparta_sum_apply_width(sparta_parser *p, sparta_format *f, sparta_width *w)
{
    size_t size = sizeof *f->sum + (size_t)f->sum->n * sizeof *f->sum->part;
    sparta_sum *sum = sparta_alloc(p->cx, size);
    sparta_status status = SPARTA_OK;
    SPARTA_NEED(p->cx, sum);
    memcpy(sum, f->sum, size);
    for (int i = 0; i < sum->n && !status; i++) {
        sparta_format *part = &sum->part[i].format;
        status = part->sum ? sparta_sum_apply_width(p, part, w) : sparta_parse_apply_width(p, part, w);
    }
    if (!status) return sparta_sum_intern(p->cx, sum, NULL, f);
    sparta_free(p->cx, sum);
    return status;
}

/* ------------------------------------------------------------------ one copy */

static void free_formats(sparta_ctx *cx, void *thing)
{
    sparta_formats *all = thing;
    sparta_formats_forget(cx, all, NULL);
    while (all->sums) {
        sparta_format_copy *copy = all->sums;
        all->sums = copy->next;
        sparta_free(cx, copy->text);
        sparta_free(cx, copy->sum);
        sparta_free(cx, copy);
    }
    sparta_free(cx, all);
}

sparta_formats *sparta_formats_of(sparta_ctx *cx)
{
    sparta_formats *all = sparta_ctx_slot(cx, SPARTA_SLOT_FORMATS);
    if (all) return all;
    all = sparta_zalloc(cx, sizeof *all);
    if (all) sparta_ctx_set_slot(cx, SPARTA_SLOT_FORMATS, all, free_formats);
    return all;
}

/* Keep sum and text, or find those that are kept already. On failure neither is taken. */
static sparta_status keep(sparta_ctx *cx, sparta_sum *sum, sparta_text *text, const sparta_sum **out)
{
    sparta_formats *all = sparta_formats_of(cx);
    SPARTA_NEED(cx, all);
    uint64_t hash = sparta_hash(text->data, text->size, 0);
    for (sparta_format_copy *c = all->sums; c; c = c->next)
        if (c->hash == hash && !strcmp(c->text, text->data)) {
            *out = c->sum;
            return SPARTA_OK;
        }
    sparta_format_copy *c = sparta_alloc(cx, sizeof *c);
    SPARTA_NEED(cx, c);
    *c = (sparta_format_copy){.next = all->sums, .hash = hash, .text = text->data, .sum = sum};
    sparta_text_init(text, cx); /* its bytes are the copy's now */
    all->sums = c;
    *out = sum;
    return SPARTA_OK;
}

static sparta_status intern(sparta_ctx *cx, sparta_sum *sum, const sparta_place *place, sparta_format *f)
{
    sparta_text text;
    sparta_text_init(&text, cx);
    f->sum = sum;
    SPARTA_TRY(sparta_sum_structure(cx, f, place));
    sparta_format_print(f, &text);
    sparta_status status = text.status;
    if (!status && text.size > SPARTA_FORMAT_TEXT)
        status = sparta_format_wrong(
            cx, place, "sum: written out it is longer than %d bytes; use fewer parts", SPARTA_FORMAT_TEXT);
    if (!status) status = keep(cx, sum, &text, &f->sum);
    sparta_text_free(&text);
    return status;
}

sparta_status sparta_sum_intern(sparta_ctx *cx, sparta_sum *sum, const sparta_place *place,
                                sparta_format *out)
{
    sparta_format f = {.rank = sum->part[0].format.rank};
    memcpy(f.dim_name, sum->part[0].format.dim_name, sizeof f.dim_name);
    sparta_status status = intern(cx, sum, place, &f);
    if (status || f.sum != sum) sparta_free(cx, sum);
    if (!status) *out = f;
    return status;
}
