/* The text of expressions and of shapes, read back.
 *
 *     shape   = "[" [ sum { "," sum } ] "]"
 *     sum     = product { ("+" | "-") product }
 *     product = factor { ("*" | "/" | "//" | "%") factor }
 *     factor  = "-" factor | number | name | ("min" | "max") "(" sum "," sum ")" | "(" sum ")"
 */
#include "expr/expr.h"
#include <string.h>

typedef struct parser {
    sp_arena *a;
    const char *text, *at;
    int depth;
} parser;

static sparta_ctx *context(const parser *p)
{
    return sp_arena_ctx(p->a);
}

static sparta_status expected(const parser *p, const char *what)
{
    char found[8] = "the end";
    if (*p->at) memcpy(found, (char[]){'\'', *p->at, '\'', 0}, 4);
    return sp_fail(context(p), SPARTA_E_USAGE, "expr: \"%.60s\", character %d: expected %s, found %s",
                   p->text, (int)(p->at - p->text) + 1, what, found);
}

static void skip_space(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t') p->at++;
}

static bool accept(parser *p, char c)
{
    skip_space(p);
    if (*p->at != c) return false;
    p->at++;
    skip_space(p);
    return true;
}

static sparta_status need(parser *p, char c)
{
    char what[4] = {'\'', c, '\'', 0};
    return accept(p, c) ? SPARTA_OK : expected(p, what);
}

static sparta_status made(const parser *p, const sp_expr *x, const sp_expr **out)
{
    SP_NEED(context(p), x);
    *out = x;
    return SPARTA_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static sparta_status parse_sum(parser *p, const sp_expr **out);

static sparta_status parse_number(parser *p, const sp_expr **out)
{
    int64_t value = 0;
    for (; is_digit(*p->at); p->at++)
        if (!sp_int_mul(value, 10, &value) || !sp_int_add(value, *p->at - '0', &value))
            return sp_fail(context(p), SPARTA_E_RANGE, "expr: \"%.60s\": a number does not fit in 64 bits",
                           p->text);
    if (is_letter(*p->at) || *p->at == '.') return expected(p, "an operator");
    return made(p, sp_expr_const(p->a, value), out);
}

static sparta_status parse_call(parser *p, bool is_min, const sp_expr **out)
{
    const sp_expr *x = NULL, *y = NULL;
    SP_TRY(need(p, '('));
    SP_TRY(parse_sum(p, &x));
    SP_TRY(need(p, ','));
    SP_TRY(parse_sum(p, &y));
    SP_TRY(need(p, ')'));
    return made(p, is_min ? sp_expr_min(p->a, x, y) : sp_expr_max(p->a, x, y), out);
}

static sparta_status parse_name(parser *p, const sp_expr **out)
{
    char name[SP_SYMBOL_SIZE];
    const char *start = p->at;
    while (is_letter(*p->at) || is_digit(*p->at) || *p->at == '.') p->at++;
    size_t n = (size_t)(p->at - start);
    if (n >= sizeof name)
        return sp_fail(context(p), SPARTA_E_LIMIT, "expr: \"%.60s\": a name has more than %d characters",
                       p->text, SP_SYMBOL_SIZE - 1);
    memcpy(name, start, n);
    name[n] = 0;
    skip_space(p);
    if (*p->at == '(' && (!strcmp(name, "min") || !strcmp(name, "max")))
        return parse_call(p, name[1] == 'i', out);
    return made(p, sp_expr_symbol(p->a, name), out);
}

static sparta_status parse_factor(parser *p, const sp_expr **out);

static sparta_status parse_inner(parser *p, const sp_expr **out)
{
    const sp_expr *x = NULL, *zero = NULL;
    if (accept(p, '-')) {
        SP_TRY(made(p, sp_expr_const(p->a, 0), &zero));
        SP_TRY(parse_factor(p, &x));
        return made(p, sp_expr_sub(p->a, zero, x), out);
    }
    if (accept(p, '(')) {
        SP_TRY(parse_sum(p, &x));
        SP_TRY(need(p, ')'));
        *out = x;
        return SPARTA_OK;
    }
    if (is_digit(*p->at)) return parse_number(p, out);
    if (is_letter(*p->at)) return parse_name(p, out);
    return expected(p, "a number, a name, '-' or '('");
}

/* All recursion goes through here: one place counts its depth. */
static sparta_status parse_factor(parser *p, const sp_expr **out)
{
    if (p->depth > SP_EXPR_DEPTH)
        return sp_fail(context(p), SPARTA_E_LIMIT, "expr: \"%.60s\": nested deeper than %d", p->text,
                       SP_EXPR_DEPTH);
    p->depth++;
    sparta_status status = parse_inner(p, out);
    p->depth--;
    return status;
}

static sparta_status parse_product(parser *p, const sp_expr **out)
{
    const sp_expr *x = NULL, *y = NULL, *z;
    SP_TRY(parse_factor(p, &x));
    for (;;) {
        skip_space(p);
        char op = *p->at;
        if (op != '*' && op != '/' && op != '%') break;
        p->at += op == '/' && p->at[1] == '/' ? 2 : 1;
        skip_space(p);
        SP_TRY(parse_factor(p, &y));
        z = op == '*'   ? sp_expr_mul(p->a, x, y)
            : op == '/' ? sp_expr_div(p->a, x, y)
                        : sp_expr_mod(p->a, x, y);
        SP_TRY(made(p, z, &x));
    }
    *out = x;
    return SPARTA_OK;
}

static sparta_status parse_sum(parser *p, const sp_expr **out)
{
    const sp_expr *x = NULL, *y = NULL;
    SP_TRY(parse_product(p, &x));
    for (;;) {
        bool plus = accept(p, '+');
        if (!plus && !accept(p, '-')) break;
        SP_TRY(parse_product(p, &y));
        SP_TRY(made(p, plus ? sp_expr_add(p->a, x, y) : sp_expr_sub(p->a, x, y), &x));
    }
    *out = x;
    return SPARTA_OK;
}

static sparta_status start(parser *p, size_t limit)
{
    if (strnlen(p->text, limit + 1) > limit)
        return sp_fail(context(p), SPARTA_E_LIMIT, "expr: \"%.60s...\" is longer than %zu characters",
                       p->text, limit);
    skip_space(p);
    return SPARTA_OK;
}

sparta_status sp_expr_parse(sp_arena *a, const char *text, const sp_expr **out)
{
    parser p = {.a = a, .text = text, .at = text};
    const sp_expr *x = NULL;
    SP_TRY(start(&p, SP_EXPR_LENGTH));
    SP_TRY(parse_sum(&p, &x));
    if (*p.at) return expected(&p, "an operator");
    *out = x;
    return SPARTA_OK;
}

sparta_status sp_dims_parse(sp_arena *a, const char *text, sp_dims *out)
{
    parser p = {.a = a, .text = text, .at = text};
    sp_dims d = {0};
    SP_TRY(start(&p, (size_t)SPARTA_RANK * (SP_EXPR_LENGTH + 1) + 2));
    SP_TRY(need(&p, '['));
    if (!accept(&p, ']')) {
        do {
            if (d.rank == SPARTA_RANK)
                return sp_fail(sp_arena_ctx(a), SPARTA_E_LIMIT,
                               "shape: \"%.60s\" has more than %d dimensions", text, SPARTA_RANK);
            SP_TRY(parse_sum(&p, &d.dim[d.rank]));
            d.rank++;
        } while (accept(&p, ','));
        SP_TRY(need(&p, ']'));
    }
    if (*p.at) return expected(&p, "the end");
    *out = d;
    return SPARTA_OK;
}
