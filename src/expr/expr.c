/* Sums of products: order, addition, multiplication, exact division. */
#include "expr/inside.h"
#include <stdio.h>
#include <string.h>

static const term one_term = {1, 0, NULL};
const sp_expr sp_expr_zero = {0, 0, 1, NULL}, sp_expr_one = {1, 0, 1, &one_term};

/* ------------------------------------------------------------------ order */

int sp_atom_compare(const atom *a, const atom *b)
{
    if (a == b) return 0;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->kind == ATOM_SYMBOL) return strcmp(a->name, b->name);
    int order = sp_expr_compare(a->x, b->x);
    return order ? order : sp_expr_compare(a->y, b->y);
}

int sp_monomial_compare(const term *a, const term *b)
{
    if (a->n != b->n) return a->n > b->n ? -1 : 1;
    for (int i = 0; i < a->n; i++) {
        int order = sp_atom_compare(a->atoms[i], b->atoms[i]);
        if (order) return order;
    }
    return 0;
}

int sp_expr_compare(const sp_expr *x, const sp_expr *y)
{
    if (x == y) return 0;
    for (int i = 0; i < x->n && i < y->n; i++) {
        int order = sp_monomial_compare(&x->term[i], &y->term[i]);
        if (order) return order;
        if (x->term[i].c != y->term[i].c) return x->term[i].c < y->term[i].c ? -1 : 1;
    }
    return x->n == y->n ? 0 : x->n < y->n ? -1 : 1;
}

bool sp_expr_equal(const sp_expr *x, const sp_expr *y)
{
    return sp_expr_compare(x, y) == 0;
}

/* ------------------------------------------------------------------ making */

bool sp_coefficient_mul(int64_t a, int64_t b, int64_t *out)
{
    return sp_int_mul(a, b, out) && *out != INT64_MIN;
}

bool sp_coefficient_add(int64_t a, int64_t b, int64_t *out)
{
    return sp_int_add(a, b, out) && *out != INT64_MIN;
}

static int digits(int64_t c)
{
    int n = 1;
    for (uint64_t v = c < 0 ? -(uint64_t)c : (uint64_t)c; v >= 10; v /= 10) n++;
    return n;
}

/* The canonical form: no term twice, the largest first; coefficients that can be negated; atoms in order. */
static bool is_canonical(int n, const term *t)
{
    for (int i = 0; i < n; i++) {
        if (!t[i].c || t[i].c == INT64_MIN || (i && sp_monomial_compare(&t[i - 1], &t[i]) >= 0)) return false;
        for (int k = 1; k < t[i].n; k++)
            if (sp_atom_compare(t[i].atoms[k - 1], t[i].atoms[k]) > 0) return false;
    }
    return true;
}

sparta_status sp_expr_make(sp_arena *a, int n, const term *terms, const sp_expr **out)
{
    int depth = 0, length = 1;
    if (n > SP_EXPR_TERMS) return SPARTA_E_LIMIT;
    SP_ASSERT(is_canonical(n, terms));
    for (int i = 0; i < n; i++) {
        length += 1 + digits(terms[i].c);
        for (int k = 0; k < terms[i].n; k++) {
            const atom *at = terms[i].atoms[k];
            depth = SP_MAX(depth, at->depth);
            length += 1 + at->length;
            if (length > SP_EXPR_LENGTH) return SPARTA_E_LIMIT;
        }
    }
    if (length > SP_EXPR_LENGTH) return SPARTA_E_LIMIT;
    sp_expr *x = sp_arena_alloc(a, sizeof *x);
    SP_NEED(sp_arena_ctx(a), x);
    *x = (sp_expr){n, depth, length, terms};
    *out = x;
    return SPARTA_OK;
}

static sparta_status constant(sp_arena *a, int64_t value, const sp_expr **out)
{
    term *t;
    if (value == INT64_MIN) return SPARTA_E_RANGE;
    t = sp_arena_alloc(a, sizeof *t);
    SP_NEED(sp_arena_ctx(a), t);
    *t = (term){value, 0, NULL};
    return sp_expr_make(a, value != 0, t, out);
}

sparta_status sp_expr_of_atom(sp_arena *a, const atom *at, const sp_expr **out)
{
    term *t = sp_arena_alloc(a, sizeof *t);
    const atom **atoms = sp_arena_alloc(a, sizeof *atoms);
    SP_NEED(sp_arena_ctx(a), t && atoms);
    *atoms = at;
    *t = (term){1, 1, atoms};
    return sp_expr_make(a, 1, t, out);
}

sparta_status sp_expr_binary(sp_arena *a, atom_kind kind, const sp_expr *x, const sp_expr *y,
                             const sp_expr **out)
{
    int depth = 1 + SP_MAX(x->depth, y->depth);
    int length = x->length + y->length + 8; /* "((x)/(y))", "min(x,y)" */
    /* A level costs the parser two: the parentheses around an operand and those around an atom in a product. */
    if (2 * depth >= SP_EXPR_DEPTH || length > SP_EXPR_LENGTH) return SPARTA_E_LIMIT;
    atom *at = sp_arena_alloc(a, sizeof *at);
    SP_NEED(sp_arena_ctx(a), at);
    *at = (atom){.kind = kind, .depth = depth, .length = length, .x = x, .y = y};
    return sp_expr_of_atom(a, at, out);
}

const sp_expr *sp_expr_explain(sp_arena *a, sparta_status status)
{
    sparta_ctx *cx = sp_arena_ctx(a);
    if (status == SPARTA_E_RANGE)
        sp_fail(cx, status, "expr: a number does not fit in 64 bits");
    else if (status == SPARTA_E_LIMIT)
        sp_fail(cx, status,
                "expr: the expression is too large: more than %d terms, %d characters or %d levels",
                SP_EXPR_TERMS, SP_EXPR_LENGTH, SP_EXPR_DEPTH / 2);
    return NULL;
}

const sp_expr *sp_expr_const(sp_arena *a, int64_t value)
{
    const sp_expr *out = NULL;
    sparta_status status = constant(a, value, &out);
    return status ? sp_expr_explain(a, status) : out;
}

/* ------------------------------------------------------------------ symbols */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_character(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.';
}

void sp_expr_symbol_name(const char *name, char *out)
{
    enum { KEPT = 64 };
    size_t n = strlen(name);
    bool good = is_letter(name[0]) && n < SP_SYMBOL_SIZE;
    for (size_t i = 0; good && i < n; i++) good = is_name_character(name[i]);
    if (good) {
        memcpy(out, name, n + 1);
        return;
    }
    size_t at = 0;
    if (!is_letter(name[0])) out[at++] = '_';
    for (size_t i = 0; i < n && i < KEPT; i++) out[at++] = is_name_character(name[i]) ? name[i] : '_';
    snprintf(out + at, SP_SYMBOL_SIZE - at, "_%08x", (unsigned)(sp_hash(name, n, 0) >> 32));
}

const sp_expr *sp_expr_symbol(sp_arena *a, const char *name)
{
    char good[SP_SYMBOL_SIZE];
    sp_expr_symbol_name(name, good);
    atom *at = sp_arena_alloc(a, sizeof *at);
    char *kept = at ? sp_arena_string(a, good) : NULL;
    const sp_expr *out = NULL;
    if (!kept) return NULL;
    *at = (atom){.kind = ATOM_SYMBOL, .name = kept, .length = (int)strlen(kept)};
    sparta_status status = sp_expr_of_atom(a, at, &out);
    return status ? sp_expr_explain(a, status) : out;
}

/* ------------------------------------------------------------------ sums */

/* The product of two terms: their atoms merged. */
static sparta_status term_product(sp_arena *a, const term *t, const term *u, term *out)
{
    int64_t c;
    if (!sp_coefficient_mul(t->c, u->c, &c)) return SPARTA_E_RANGE;
    if (t->n + u->n > SP_EXPR_LENGTH) return SPARTA_E_LIMIT;
    if (t->n == 0 || u->n == 0) {
        *out = (term){c, t->n + u->n, t->n ? t->atoms : u->atoms};
        return SPARTA_OK;
    }
    const atom **atoms = sp_arena_array(a, (size_t)(t->n + u->n), sizeof *atoms);
    SP_NEED(sp_arena_ctx(a), atoms);
    for (int i = 0, j = 0; i + j < t->n + u->n;) {
        bool left = j == u->n || (i < t->n && sp_atom_compare(t->atoms[i], u->atoms[j]) <= 0);
        atoms[i + j] = left ? t->atoms[i] : u->atoms[j];
        if (left)
            i++;
        else
            j++;
    }
    *out = (term){c, t->n + u->n, atoms};
    return SPARTA_OK;
}

sparta_status sp_expr_add_scaled(sp_arena *a, const sp_expr *x, const term *scale, const sp_expr *y,
                                 const sp_expr **out)
{
    term *terms = sp_arena_array(a, (size_t)(x->n + y->n) + 1, sizeof *terms), scaled = {0};
    int n = 0, i = 0, j = 0;
    SP_NEED(sp_arena_ctx(a), terms);
    if (y->n) SP_TRY(term_product(a, scale, &y->term[0], &scaled));
    while (i < x->n || j < y->n) {
        int order = j == y->n ? -1 : i == x->n ? 1 : sp_monomial_compare(&x->term[i], &scaled);
        terms[n] = order <= 0 ? x->term[i] : scaled;
        if (order == 0 && !sp_coefficient_add(x->term[i].c, scaled.c, &terms[n].c)) return SPARTA_E_RANGE;
        if (terms[n].c != 0) n++;
        if (order <= 0) i++;
        if (order >= 0 && ++j < y->n) SP_TRY(term_product(a, scale, &y->term[j], &scaled));
    }
    return sp_expr_make(a, n, terms, out);
}

/* Steps are made in an arena of their own: only the last one is kept. */
static sparta_status keep(sp_arena *a, const sp_expr *x, const sp_expr **out)
{
    term *terms = sp_arena_array(a, (size_t)x->n + 1, sizeof *terms);
    SP_NEED(sp_arena_ctx(a), terms);
    for (int i = 0; i < x->n; i++) {
        terms[i] = x->term[i];
        const atom **atoms = sp_arena_array(a, (size_t)terms[i].n + 1, sizeof *atoms);
        SP_NEED(sp_arena_ctx(a), atoms);
        if (terms[i].n) memcpy(atoms, terms[i].atoms, (size_t)terms[i].n * sizeof *atoms);
        terms[i].atoms = atoms;
    }
    return sp_expr_make(a, x->n, terms, out);
}

sparta_status sp_expr_product(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out)
{
    if (x->n > y->n) {
        const sp_expr *swap = x;
        x = y;
        y = swap;
    }
    if (x->n == 0) return constant(a, 0, out);
    if (x->n == 1) return sp_expr_add_scaled(a, &sp_expr_zero, &x->term[0], y, out);
    sparta_ctx *cx = sp_arena_ctx(a);
    sp_arena *steps = sp_arena_create(cx);
    SP_NEED(cx, steps);
    const sp_expr *sum = &sp_expr_zero;
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < x->n && !status; i++) status = sp_expr_add_scaled(steps, sum, &x->term[i], y, &sum);
    if (!status) status = keep(a, sum, out);
    sp_arena_free(steps);
    return status;
}

static const sp_expr *add_times(sp_arena *a, const sp_expr *x, int64_t c, const sp_expr *y)
{
    const term scale = {c, 0, NULL};
    const sp_expr *out = NULL;
    if (!x || !y) return NULL;
    sparta_status status = sp_expr_add_scaled(a, x, &scale, y, &out);
    return status ? sp_expr_explain(a, status) : out;
}

const sp_expr *sp_expr_add(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    return add_times(a, x, 1, y);
}

const sp_expr *sp_expr_sub(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    return add_times(a, x, -1, y);
}

const sp_expr *sp_expr_mul(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    const sp_expr *out = NULL;
    if (!x || !y) return NULL;
    sparta_status status = sp_expr_product(a, x, y, &out);
    return status ? sp_expr_explain(a, status) : out;
}

/* ------------------------------------------------------------------ exact division */

bool sp_term_divides(const term *t, const term *by)
{
    int j = 0;
    if (t->c % by->c) return false;
    for (int i = 0; i < t->n && j < by->n; i++) j += sp_atom_compare(t->atoms[i], by->atoms[j]) == 0;
    return j == by->n;
}

sparta_status sp_term_quotient(sp_arena *a, const term *t, const term *by, term *out)
{
    const atom **atoms = sp_arena_array(a, (size_t)t->n + 1, sizeof *atoms);
    int n = 0, j = 0;
    SP_NEED(sp_arena_ctx(a), atoms);
    for (int i = 0; i < t->n; i++) {
        if (j < by->n && sp_atom_compare(t->atoms[i], by->atoms[j]) == 0)
            j++;
        else
            atoms[n++] = t->atoms[i];
    }
    *out = (term){t->c / by->c, n, atoms};
    return SPARTA_OK;
}

/* Long division: every step removes the leading term of what is left, or says no. */
static sparta_status divide_steps(sp_arena *steps, const sp_expr *left, const sp_expr *y,
                                  const sp_expr **quotient)
{
    const sp_expr *sum = &sp_expr_zero;
    for (int step = 0; left->n; step++) {
        term q;
        if (step == SP_EXPR_TERMS || !sp_term_divides(&left->term[0], &y->term[0])) return SPARTA_OK;
        SP_TRY(sp_term_quotient(steps, &left->term[0], &y->term[0], &q));
        SP_TRY(sp_expr_add_scaled(steps, sum, &q, &sp_expr_one, &sum));
        q.c = -q.c;
        SP_TRY(sp_expr_add_scaled(steps, left, &q, y, &left));
    }
    *quotient = sum;
    return SPARTA_OK;
}

sparta_status sp_expr_exact(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out)
{
    sparta_ctx *cx = sp_arena_ctx(a);
    const sp_expr *quotient = NULL;
    *out = NULL;
    if (y->n == 0) return SPARTA_OK;
    sp_arena *steps = sp_arena_create(cx);
    SP_NEED(cx, steps);
    sparta_status status = divide_steps(steps, x, y, &quotient);
    if (status == SPARTA_E_RANGE || status == SPARTA_E_LIMIT)
        status = SPARTA_OK; /* a quotient that cannot be said: no */
    if (!status && quotient) status = keep(a, quotient, out);
    sp_arena_free(steps);
    return status;
}

const sp_expr *sp_expr_divide_exact(sp_arena *a, const sp_expr *x, const sp_expr *y)
{
    const sp_expr *out = NULL;
    return sp_expr_exact(a, x, y, &out) ? NULL : out;
}

/* ------------------------------------------------------------------ looking */

bool sp_expr_is_const(const sp_expr *x, int64_t *value)
{
    if (x->n > 1 || (x->n == 1 && x->term[0].n)) return false;
    if (value) *value = x->n ? x->term[0].c : 0;
    return true;
}

bool sp_expr_is(const sp_expr *x, int64_t value)
{
    int64_t v;
    return sp_expr_is_const(x, &v) && v == value;
}

bool sp_expr_is_symbol(const sp_expr *x, const char **name)
{
    if (x->n != 1 || x->term[0].c != 1 || x->term[0].n != 1 || x->term[0].atoms[0]->kind != ATOM_SYMBOL)
        return false;
    if (name) *name = x->term[0].atoms[0]->name;
    return true;
}

void sp_expr_symbols(const sp_expr *x, void (*fn)(void *arg, const char *name), void *arg)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < x->term[i].n; k++) {
            const atom *at = x->term[i].atoms[k];
            if (at->kind == ATOM_SYMBOL) {
                fn(arg, at->name);
            } else {
                sp_expr_symbols(at->x, fn, arg);
                sp_expr_symbols(at->y, fn, arg);
            }
        }
}
