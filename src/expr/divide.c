/* Floor division, remainder, minimum, maximum: simplified where that is certain, else an atom.
 *
 * What is used (q, r, k integers; divisors not 0):
 *     (q*y + r) / y = q + r/y          (q*y + r) % y = r % y
 *     (g*x + k) / (g*c) = (x + k/g) / c                        c constant, g > 0
 *     (m*x) / (m*y) = x/y              m a product of atoms
 *     (x/c) / d = x / (c*d)            c, d > 0 constant
 *     x / -c = -x / c                  x % -c = -(-x % c)
 */
#include "expr/inside.h"
#include <string.h>

int64_t sp_floor_div(int64_t x, int64_t y)
{
    return x / y - (x % y != 0 && (x % y < 0) != (y < 0));
}

int64_t sp_floor_mod(int64_t x, int64_t y)
{
    int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static const term plus = {1, 0, NULL}, minus = {-1, 0, NULL};

/* ------------------------------------------------------------------ signs */

static bool atom_nonnegative(const atom *at)
{
    switch (at->kind) {
    case ATOM_SYMBOL: return true;
    case ATOM_DIV: return sp_expr_nonnegative(at->x) && sp_expr_nonnegative(at->y);
    case ATOM_MOD: return sp_expr_nonnegative(at->y);
    case ATOM_MIN: return sp_expr_nonnegative(at->x) && sp_expr_nonnegative(at->y);
    case ATOM_MAX: return sp_expr_nonnegative(at->x) || sp_expr_nonnegative(at->y);
    }
    return false;
}

static bool term_nonnegative(const term *t)
{
    if (t->c < 0) return false;
    for (int k = 0; k < t->n; k++) {
        bool square = k + 1 < t->n && sp_atom_compare(t->atoms[k], t->atoms[k + 1]) == 0;
        if (square)
            k++;
        else if (!atom_nonnegative(t->atoms[k]))
            return false;
    }
    return true;
}

bool sp_expr_nonnegative(const sp_expr *x)
{
    for (int i = 0; i < x->n; i++)
        if (!term_nonnegative(&x->term[i])) return false;
    return true;
}

/* ------------------------------------------------------------------ splitting x = q*y + r */

/* The part of the term t that y (a single term) divides goes to q, the rest to r; either may be 0. A constant
 * leaves a rest of y's sign, other terms one of their own sign: n - 1 over 64 does not become 63*n. */
static sparta_status split_term(sp_arena *a, const term *t, const term *y, term *q, term *r)
{
    term unit = {1, y->n, y->atoms};
    *q = (term){0, 0, NULL};
    *r = *t;
    if (!sp_term_divides(t, &unit)) return SPARTA_OK;
    SP_TRY(sp_term_quotient(a, t, &unit, q));
    bool floors = t->n == 0 && y->n == 0;
    q->c = floors ? sp_floor_div(t->c, y->c) : t->c / y->c;
    r->c = floors ? sp_floor_mod(t->c, y->c) : t->c % y->c;
    return SPARTA_OK;
}

static sparta_status split(sp_arena *a, const sp_expr *x, const term *y, const sp_expr **q, const sp_expr **r)
{
    term *whole = sp_arena_array(a, (size_t)x->n + 1, sizeof *whole);
    term *rest = sp_arena_array(a, (size_t)x->n + 1, sizeof *rest);
    int n = 0, m = 0;
    SP_NEED(sp_arena_ctx(a), whole && rest);
    for (int i = 0; i < x->n; i++) {
        SP_TRY(split_term(a, &x->term[i], y, &whole[n], &rest[m]));
        n += whole[n].c != 0;
        m += rest[m].c != 0;
    }
    SP_TRY(sp_expr_make(a, n, whole, q));
    return sp_expr_make(a, m, rest, r);
}

/* ------------------------------------------------------------------ cancelling */

static int64_t gcd(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The greatest common divisor of the terms of x and of g, into g (its atoms are overwritten). The constant
 * term of a dividend is left out of the numbers when the divisor is a constant: (2*n + 3)/4 = (n + 1)/2. */
static void common(const sp_expr *x, bool skip_constant, term *g, const atom **atoms)
{
    for (int i = 0; i < x->n; i++) {
        const term *t = &x->term[i];
        if (t->n == 0 && skip_constant) continue;
        g->c = gcd(g->c, t->c);
        int n = 0, k = 0;
        for (int j = 0; j < g->n; j++) {
            while (k < t->n && sp_atom_compare(t->atoms[k], atoms[j]) < 0) k++;
            if (k < t->n && sp_atom_compare(t->atoms[k], atoms[j]) == 0) {
                atoms[n++] = atoms[j];
                k++;
            }
        }
        g->n = n;
    }
}

static sparta_status over(sp_arena *a, const sp_expr *x, const term *g, const sp_expr **out)
{
    term *terms = sp_arena_array(a, (size_t)x->n + 1, sizeof *terms);
    int n = 0;
    SP_NEED(sp_arena_ctx(a), terms);
    for (int i = 0; i < x->n; i++) {
        SP_TRY(sp_term_quotient(a, &x->term[i], g, &terms[n]));
        if (x->term[i].n == 0) terms[n].c = sp_floor_div(x->term[i].c, g->c);
        n += terms[n].c != 0;
    }
    return sp_expr_make(a, n, terms, out);
}

static sparta_status cancel(sp_arena *a, const sp_expr **x, const sp_expr **y)
{
    bool by_constant = sp_expr_is_const(*y, NULL);
    const term *first = &(*y)->term[0];
    const atom **atoms = sp_arena_array(a, (size_t)first->n + 1, sizeof *atoms);
    SP_NEED(sp_arena_ctx(a), atoms);
    if (first->n) memcpy(atoms, first->atoms, (size_t)first->n * sizeof *atoms);
    term g = {first->c, first->n, atoms};
    common(*y, false, &g, atoms);
    common(*x, by_constant, &g, atoms);
    if (g.c < 0) g.c = -g.c;
    if (g.c == 1 && g.n == 0) return SPARTA_OK;
    SP_TRY(over(a, *x, &g, x));
    return over(a, *y, &g, y);
}

/* ------------------------------------------------------------------ division */

static const atom *only_atom(const sp_expr *x, atom_kind kind)
{
    bool alone = x->n == 1 && x->term[0].c == 1 && x->term[0].n == 1 && x->term[0].atoms[0]->kind == kind;
    return alone ? x->term[0].atoms[0] : NULL;
}

static sparta_status negate(sp_arena *a, const sp_expr **x)
{
    return sp_expr_add_scaled(a, &sp_expr_zero, &minus, *x, x);
}

/* x / -c = -x / c: the rules with constants hold for those above 0. */
static sparta_status turn_positive(sp_arena *a, const sp_expr **x, const sp_expr **y)
{
    int64_t c;
    if (!sp_expr_is_const(*y, &c) || c > 0) return SPARTA_OK;
    SP_TRY(negate(a, x));
    return negate(a, y);
}

static sparta_status divide(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out);

/* (inner->x / c) / d with constants above 0, when inner is that. */
static sparta_status divide_nested(sp_arena *a, const sp_expr *x, int64_t d, const sp_expr **out)
{
    const atom *inner = only_atom(x, ATOM_DIV);
    int64_t c, both;
    if (!inner || d <= 0 || !sp_expr_is_const(inner->y, &c) || c <= 0) return SPARTA_OK;
    if (!sp_coefficient_mul(c, d, &both)) return SPARTA_OK;
    const term t = {both, 0, NULL};
    const sp_expr *product;
    SP_TRY(sp_expr_add_scaled(a, &sp_expr_zero, &t, &sp_expr_one, &product));
    return divide(a, inner->x, product, out);
}

/* The rest of a division: nothing more comes out whole. */
static sparta_status divide_rest(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out)
{
    int64_t c, v;
    const sp_expr *nested = NULL;
    if (x->n) SP_TRY(cancel(a, &x, &y));
    if (sp_expr_is_const(y, &c)) {
        if (c == 1 || x->n == 0) return sp_expr_add_scaled(a, &sp_expr_zero, &plus, x, out);
        if (sp_expr_is_const(x, &v)) {
            const term t = {sp_floor_div(v, c), 0, NULL};
            return sp_expr_add_scaled(a, &sp_expr_zero, &t, t.c ? &sp_expr_one : &sp_expr_zero, out);
        }
        SP_TRY(divide_nested(a, x, c, &nested));
        if (nested) {
            *out = nested;
            return SPARTA_OK;
        }
    }
    if (x->n == 0) return sp_expr_add_scaled(a, &sp_expr_zero, &plus, x, out);
    return sp_expr_binary(a, ATOM_DIV, x, y, out);
}

static sparta_status divide(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out)
{
    const sp_expr *exact = NULL, *q = &sp_expr_zero, *r;
    SP_TRY(sp_expr_exact(a, x, y, &exact));
    if (exact) {
        *out = exact;
        return SPARTA_OK;
    }
    SP_TRY(turn_positive(a, &x, &y));
    SP_TRY(cancel(a, &x, &y));
    SP_TRY(turn_positive(a, &x, &y)); /* n / (-2*n) */
    r = x;
    if (y->n == 1) SP_TRY(split(a, x, &y->term[0], &q, &r));
    SP_TRY(divide_rest(a, r, y, &r));
    return sp_expr_add_scaled(a, q, &plus, r, out);
}

static sparta_status remain(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out)
{
    const sp_expr *exact = NULL, *q;
    int64_t c, v;
    SP_TRY(sp_expr_exact(a, x, y, &exact));
    if (exact) return sp_expr_add_scaled(a, &sp_expr_zero, &plus, &sp_expr_zero, out);
    bool by_constant = sp_expr_is_const(y, &c);
    if (by_constant && c < 0) {
        SP_TRY(negate(a, &x));
        SP_TRY(negate(a, &y));
        SP_TRY(remain(a, x, y, out));
        return negate(a, out);
    }
    if (y->n == 1) SP_TRY(split(a, x, &y->term[0], &q, &x));
    if (by_constant && sp_expr_is_const(x, &v)) {
        const term t = {sp_floor_mod(v, c), 0, NULL};
        return sp_expr_add_scaled(a, &sp_expr_zero, &t, t.c ? &sp_expr_one : &sp_expr_zero, out);
    }
    const atom *inner = only_atom(x, ATOM_MOD);
    if (x->n == 0 || (inner && sp_expr_equal(inner->y, y)))
        return sp_expr_add_scaled(a, &sp_expr_zero, &plus, x, out);
    return sp_expr_binary(a, ATOM_MOD, x, y, out);
}

typedef sparta_status operation(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out);

static const sp_expr *by(sp_arena *a, operation *op, const sp_expr *x, const sp_expr *y)
{
    const sp_expr *out = NULL;
    if (!x || !y) return NULL;
    if (y->n == 0) {
        sp_fail(sp_arena_ctx(a), SPARTA_E_RANGE, "expr: division by zero");
        return NULL;
    }
    sparta_status status = op(a, x, y, &out);
    return status ? sp_expr_explain(a, status) : out;
}

const sp_expr *sp_expr_div(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    return by(a, divide, x, y);
}

const sp_expr *sp_expr_mod(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    return by(a, remain, x, y);
}

/* ------------------------------------------------------------------ minimum, maximum */

/* Which is known to be the larger: < 0 x, > 0 y, 0 neither. */
static sparta_status larger(sp_arena *a, const sp_expr *x, const sp_expr *y, int *which)
{
    const sp_expr *difference;
    *which = 0;
    sparta_status status = sp_expr_add_scaled(a, y, &minus, x, &difference);
    if (status == SPARTA_E_RANGE || status == SPARTA_E_LIMIT) return SPARTA_OK;
    SP_TRY(status);
    if (sp_expr_nonnegative(difference)) {
        *which = 1;
        return SPARTA_OK;
    }
    SP_TRY(negate(a, &difference));
    if (sp_expr_nonnegative(difference)) *which = -1;
    return SPARTA_OK;
}

static const sp_expr *choose(sp_arena *a, atom_kind kind, const sp_expr *x, const sp_expr *y)
{
    int which;
    const sp_expr *out = NULL;
    if (!x || !y) return NULL;
    sparta_status status = larger(a, x, y, &which);
    if (status) return sp_expr_explain(a, status);
    if (which) return (which > 0) == (kind == ATOM_MAX) ? y : x;
    bool ordered = sp_expr_compare(x, y) <= 0;
    status = sp_expr_binary(a, kind, ordered ? x : y, ordered ? y : x, &out);
    return status ? sp_expr_explain(a, status) : out;
}

const sp_expr *sp_expr_min(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    return choose(a, ATOM_MIN, x, y);
}

const sp_expr *sp_expr_max(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    return choose(a, ATOM_MAX, x, y);
}
