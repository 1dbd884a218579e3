/* Values of expressions, their text, and copies. */
#include "expr/inside.h"
#include <string.h>

/* ------------------------------------------------------------------ values */

static sparta_status symbol_value(sparta_ctx *cx, const char *name, const sp_bindings *b, int64_t *out)
{
    for (int i = 0; b && i < b->n; i++) {
        if (strcmp(b->name[i], name)) continue;
        if (b->value[i] < 0)
            return sp_fail(cx, SPARTA_E_SHAPE, "expr: the size %s is %lld; sizes are not negative", name,
                           (long long)b->value[i]);
        *out = b->value[i];
        return SPARTA_OK;
    }
    return sp_fail(cx, SPARTA_E_USAGE,
                   "expr: the size %s is not known; give it a value with options.dims %s=N", name, name);
}

static sparta_status overflow(sparta_ctx *cx)
{
    return sp_fail(cx, SPARTA_E_LIMIT, "expr: a number does not fit in 64 bits");
}

static sparta_status atom_value(sparta_ctx *cx, const atom *at, const sp_bindings *b, int64_t *out)
{
    int64_t x, y;
    if (at->kind == ATOM_SYMBOL) return symbol_value(cx, at->name, b, out);
    SP_TRY(sp_expr_eval(cx, at->x, b, &x));
    SP_TRY(sp_expr_eval(cx, at->y, b, &y));
    if (at->kind == ATOM_MIN || at->kind == ATOM_MAX) {
        *out = (x < y) == (at->kind == ATOM_MIN) ? x : y;
        return SPARTA_OK;
    }
    if (y == 0) return sp_fail(cx, SPARTA_E_RANGE, "expr: division by zero");
    if (y == -1) { /* INT64_MIN / -1 does not fit */
        if (at->kind == ATOM_DIV && !sp_int_mul(x, -1, out)) return overflow(cx);
        if (at->kind == ATOM_MOD) *out = 0;
        return SPARTA_OK;
    }
    *out = at->kind == ATOM_DIV ? sp_floor_div(x, y) : sp_floor_mod(x, y);
    return SPARTA_OK;
}

sparta_status sp_expr_eval(sparta_ctx *cx, const sp_expr *x, const sp_bindings *b, int64_t *out)
{
    int64_t sum = 0;
    for (int i = 0; i < x->n; i++) {
        int64_t product = x->term[i].c, factor = 0;
        for (int k = 0; k < x->term[i].n; k++) {
            SP_TRY(atom_value(cx, x->term[i].atoms[k], b, &factor));
            if (!sp_int_mul(product, factor, &product)) return overflow(cx);
        }
        if (!sp_int_add(sum, product, &sum)) return overflow(cx);
    }
    *out = sum;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ text */

/* Needs no parentheses as an operand: a number, a symbol, min(), max(). */
static bool is_simple(const sp_expr *x)
{
    int64_t c;
    if (sp_expr_is_const(x, &c)) return c >= 0;
    if (x->n != 1 || x->term[0].c != 1 || x->term[0].n != 1) return false;
    atom_kind kind = x->term[0].atoms[0]->kind;
    return kind == ATOM_SYMBOL || kind == ATOM_MIN || kind == ATOM_MAX;
}

static void print_operand(const sp_expr *x, sp_text *out)
{
    bool bare = is_simple(x);
    if (!bare) sp_text_put(out, "(", 1);
    sp_expr_print(x, out);
    if (!bare) sp_text_put(out, ")", 1);
}

static void print_atom(const atom *at, bool alone, sp_text *out)
{
    if (at->kind == ATOM_SYMBOL) {
        sp_text_put(out, at->name, strlen(at->name));
    } else if (at->kind == ATOM_MIN || at->kind == ATOM_MAX) {
        sp_text_put(out, at->kind == ATOM_MIN ? "min(" : "max(", 4);
        sp_expr_print(at->x, out);
        sp_text_put(out, ",", 1);
        sp_expr_print(at->y, out);
        sp_text_put(out, ")", 1);
    } else { /* 2*a/b is (2*a)/b: in a product a quotient needs its own parentheses */
        if (!alone) sp_text_put(out, "(", 1);
        print_operand(at->x, out);
        sp_text_put(out, at->kind == ATOM_DIV ? "/" : "%", 1);
        print_operand(at->y, out);
        if (!alone) sp_text_put(out, ")", 1);
    }
}

static void print_term(const term *t, sp_text *out)
{
    uint64_t size = t->c < 0 ? -(uint64_t)t->c : (uint64_t)t->c;
    bool number = size != 1 || t->n == 0;
    if (number) sp_text_printf(out, "%llu", (unsigned long long)size);
    for (int k = 0; k < t->n; k++) {
        if (k || number) sp_text_put(out, "*", 1);
        print_atom(t->atoms[k], t->n == 1 && t->c == 1, out);
    }
}

void sp_expr_print(const sp_expr *x, sp_text *out)
{
    if (x->n == 0) sp_text_put(out, "0", 1);
    for (int i = 0; i < x->n; i++) {
        if (x->term[i].c < 0)
            sp_text_put(out, "-", 1);
        else if (i)
            sp_text_put(out, "+", 1);
        print_term(&x->term[i], out);
    }
}

/* ------------------------------------------------------------------ copies */

static const atom *copy_atom(sp_arena *a, const atom *from)
{
    atom *at = sp_arena_alloc(a, sizeof *at);
    if (!at) return NULL;
    *at = *from;
    if (from->kind == ATOM_SYMBOL) {
        at->name = sp_arena_string(a, from->name);
        return at->name ? at : NULL;
    }
    at->x = sp_expr_copy(a, from->x);
    at->y = at->x ? sp_expr_copy(a, from->y) : NULL;
    return at->y ? at : NULL;
}

static bool copy_term(sp_arena *a, const term *from, term *to)
{
    const atom **atoms = sp_arena_array(a, (size_t)from->n + 1, sizeof *atoms);
    if (!atoms) return false;
    for (int k = 0; k < from->n; k++)
        if (!(atoms[k] = copy_atom(a, from->atoms[k]))) return false;
    *to = (term){from->c, from->n, atoms};
    return true;
}

const sp_expr *sp_expr_copy(sp_arena *a, const sp_expr *x)
{
    sp_expr *copy = sp_arena_alloc(a, sizeof *copy);
    term *terms = copy ? sp_arena_array(a, (size_t)x->n + 1, sizeof *terms) : NULL;
    if (!terms) return NULL;
    for (int i = 0; i < x->n; i++)
        if (!copy_term(a, &x->term[i], &terms[i])) return NULL;
    *copy = (sp_expr){x->n, x->depth, x->length, terms};
    return copy;
}
