/* Sums of products: order, addition, multiplication, exact division. */
#include "expr/inside.h"
#include <stdio.h>
#include <string.h>

static const term one_term = {1, 0, NULL};
const sparta_expr sparta_expr_zero = {0, 0, 1, NULL}, sparta_expr_one = {1, 0, 1, &one_term};

/* ------------------------------------------------------------------ order */

int sparta_atom_compare(const atom *a, const atom *b)
{
    if (a == b) return 0;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->kind == ATOM_SYMBOL) return strcmp(a->name, b->name);
    int order = sparta_expr_compare(a->x, b->x);
    return order ? order : sparta_expr_compare(a->y, b->y);
}

int sparta_monomial_compare(const term *a, const term *b)
{
    if (a->n != b->n) return a->n > b->n ? -1 : 1;
    for (int i = 0; i < a->n; i++) {
        int order = sparta_atom_compare(a->atoms[i], b->atoms[i]);
        if (order) return order;
    }
    return 0;
}

int sparta_expr_compare(const sparta_expr *x, const sparta_expr *y)
{
    if (x == y) return 0;
    for (int i = 0; i < x->n && i < y->n; i++) {
        int order = sparta_monomial_compare(&x->term[i], &y->term[i]);
        if (order) return order;
        if (x->term[i].c != y->term[i].c) return x->term[i].c < y->term[i].c ? -1 : 1;
    }
    return x->n == y->n ? 0 : x->n < y->n ? -1 : 1;
}

bool sparta_expr_equal(const sparta_expr *x, const sparta_expr *y)
{
    return sparta_expr_compare(x, y) == 0;
}

/* ------------------------------------------------------------------ making */

bool sparta_coefficient_mul(int64_t a, int64_t b, int64_t *out)
{
    return sparta_int_mul(a, b, out) && *out != INT64_MIN;
}

bool sparta_coefficient_add(int64_t a, int64_t b, int64_t *out)
{
    return sparta_int_add(a, b, out) && *out != INT64_MIN;
}

static int digits(int64_t c)
{
    int n = 1;
    for (uint64_t v = c < 0 ? -(uint64_t)c : (uint64_t)c; v >= 10; v /= 10) n++;
    return n;
}

sparta_status sparta_expr_make(sparta_arena *a, int n, const term *terms, const sparta_expr **out)
{
    int depth = 0, length = 1;
    if (n > SPARTA_EXPR_TERMS) return SPARTA_E_LIMIT;
    for (int i = 0; i < n; i++) {
        length += 1 + digits(terms[i].c);
        for (int k = 0; k < terms[i].n; k++) {
            const atom *at = terms[i].atoms[k];
            depth = SPARTA_MAX(depth, at->depth);
            length += 1 + at->length;
            if (length > SPARTA_EXPR_LENGTH) return SPARTA_E_LIMIT;
        }
    }
    if (length > SPARTA_EXPR_LENGTH) return SPARTA_E_LIMIT;
    sparta_expr *x = sparta_arena_alloc(a, sizeof *x);
    SPARTA_NEED(sparta_arena_ctx(a), x);
    *x = (sparta_expr){n, depth, length, terms};
    *out = x;
    return SPARTA_OK;
}

static sparta_status constant(sparta_arena *a, int64_t value, const sparta_expr **out)
{
    term *t;
    if (value == INT64_MIN) return SPARTA_E_RANGE;
    t = sparta_arena_alloc(a, sizeof *t);
    SPARTA_NEED(sparta_arena_ctx(a), t);
    *t = (term){value, 0, NULL};
    return sparta_expr_make(a, value != 0, t, out);
}

sparta_status sparta_expr_of_atom(sparta_arena *a, const atom *at, const sparta_expr **out)
{
    term *t = sparta_arena_alloc(a, sizeof *t);
    const atom **atoms = sparta_arena_alloc(a, sizeof *atoms);
    SPARTA_NEED(sparta_arena_ctx(a), t && atoms);
    *atoms = at;
    *t = (term){1, 1, atoms};
    return sparta_expr_make(a, 1, t, out);
}

sparta_status sparta_expr_binary(sparta_arena *a, atom_kind kind, const sparta_expr *x, const sparta_expr *y,
                                 const sparta_expr **out)
{
    int depth = 1 + SPARTA_MAX(x->depth, y->depth);
    int length = x->length + y->length + 8; /* "((x)/(y))", "min(x,y)" */
    /* A level costs the parser two: the parentheses around an operand and those around an atom in a product.
     */
    if (2 * depth >= SPARTA_EXPR_DEPTH || length > SPARTA_EXPR_LENGTH) return SPARTA_E_LIMIT;
    atom *at = sparta_arena_alloc(a, sizeof *at);
    SPARTA_NEED(sparta_arena_ctx(a), at);
    *at = (atom){.kind = kind, .depth = depth, .length = length, .x = x, .y = y};
    return sparta_expr_of_atom(a, at, out);
}

const sparta_expr *sparta_expr_explain(sparta_arena *a, sparta_status status)
{
    sparta_ctx *cx = sparta_arena_ctx(a);
    if (status == SPARTA_E_RANGE)
        sparta_fail(cx, status, "expr: a number does not fit in 64 bits");
    else if (status == SPARTA_E_LIMIT)
        sparta_fail(cx, status,
                    "expr: the expression is too large: more than %d terms, %d characters or %d levels",
                    SPARTA_EXPR_TERMS, SPARTA_EXPR_LENGTH, SPARTA_EXPR_DEPTH / 2);
    return NULL;
}

const sparta_expr *sparta_expr_const(sparta_arena *a, int64_t value)
{
    const sparta_expr *out = NULL;
    sparta_status status = constant(a, value, &out);
    return status ? sparta_expr_explain(a, status) : out;
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

void sparta_expr_symbol_name(const char *name, char *out)
{
    enum { KEPT = 64 };
    size_t n = strlen(name);
    bool good = is_letter(name[0]) && n < SPARTA_SYMBOL_SIZE;
    for (size_t i = 0; good && i < n; i++) good = is_name_character(name[i]);
    if (good) {
        memcpy(out, name, n + 1);
        return;
    }
    size_t at = 0;
    if (!is_letter(name[0])) out[at++] = '_';
    for (size_t i = 0; i < n && i < KEPT; i++) out[at++] = is_name_character(name[i]) ? name[i] : '_';
    snprintf(out + at, SPARTA_SYMBOL_SIZE - at, "_%08x", (unsigned)(sparta_hash(name, n, 0) >> 32));
}

const sparta_expr *sparta_expr_symbol(sparta_arena *a, const char *name)
{
    char good[SPARTA_SYMBOL_SIZE];
    sparta_expr_symbol_name(name, good);
    atom *at = sparta_arena_alloc(a, sizeof *at);
    char *kept = at ? sparta_arena_string(a, good) : NULL;
    const sparta_expr *out = NULL;
    if (!kept) return NULL;
    *at = (atom){.kind = ATOM_SYMBOL, .name = kept, .length = (int)strlen(kept)};
    sparta_status status = sparta_expr_of_atom(a, at, &out);
    return status ? sparta_expr_explain(a, status) : out;
}

/* ------------------------------------------------------------------ sums */

/* The product of two terms: their atoms merged. */
static sparta_status term_product(sparta_arena *a, const term *t, const term *u, term *out)
{
    int64_t c;
    if (!sparta_coefficient_mul(t->c, u->c, &c)) return SPARTA_E_RANGE;
    if (t->n + u->n > SPARTA_EXPR_LENGTH) return SPARTA_E_LIMIT;
    if (t->n == 0 || u->n == 0) {
        *out = (term){c, t->n + u->n, t->n ? t->atoms : u->atoms};
        return SPARTA_OK;
    }
    const atom **atoms = sparta_arena_array(a, (size_t)(t->n + u->n), sizeof *atoms);
    SPARTA_NEED(sparta_arena_ctx(a), atoms);
    for (int i = 0, j = 0; i + j < t->n + u->n;) {
        bool left = j == u->n || (i < t->n && sparta_atom_compare(t->atoms[i], u->atoms[j]) <= 0);
        atoms[i + j] = left ? t->atoms[i] : u->atoms[j];
        if (left)
            i++;
        else
            j++;
    }
    *out = (term){c, t->n + u->n, atoms};
    return SPARTA_OK;
}

sparta_status sparta_expr_add_scaled(sparta_arena *a, const sparta_expr *x, const term *scale,
                                     const sparta_expr *y, const sparta_expr **out)
{
    term *terms = sparta_arena_array(a, (size_t)(x->n + y->n) + 1, sizeof *terms), scaled = {0};
    int n = 0, i = 0, j = 0;
    SPARTA_NEED(sparta_arena_ctx(a), terms);
    if (y->n) SPARTA_TRY(term_product(a, scale, &y->term[0], &scaled));
    while (i < x->n || j < y->n) {
        int order = j == y->n ? -1 : i == x->n ? 1 : sparta_monomial_compare(&x->term[i], &scaled);
        terms[n] = order <= 0 ? x->term[i] : scaled;
        if (order == 0 && !sparta_coefficient_add(x->term[i].c, scaled.c, &terms[n].c)) return SPARTA_E_RANGE;
        if (terms[n].c != 0) n++;
        if (order <= 0) i++;
        if (order >= 0 && ++j < y->n) SPARTA_TRY(term_product(a, scale, &y->term[j], &scaled));
    }
    return sparta_expr_make(a, n, terms, out);
}

/* Steps are made in an arena of their own: only the last one is kept. */
static sparta_status keep(sparta_arena *a, const sparta_expr *x, const sparta_expr **out)
{
    term *terms = sparta_arena_array(a, (size_t)x->n + 1, sizeof *terms);
    SPARTA_NEED(sparta_arena_ctx(a), terms);
    for (int i = 0; i < x->n; i++) {
        terms[i] = x->term[i];
        const atom **atoms = sparta_arena_array(a, (size_t)terms[i].n + 1, sizeof *atoms);
        SPARTA_NEED(sparta_arena_ctx(a), atoms);
        if (terms[i].n) memcpy(atoms, terms[i].atoms, (size_t)terms[i].n * sizeof *atoms);
        terms[i].atoms = atoms;
    }
    return sparta_expr_make(a, x->n, terms, out);
}

sparta_status sparta_expr_product(sparta_arena *a, const sparta_expr *x, const sparta_expr *y,
                                  const sparta_expr **out)
{
    if (x->n > y->n) {
        const sparta_expr *swap = x;
        x = y;
        y = swap;
    }
    if (x->n == 0) return constant(a, 0, out);
    if (x->n == 1) return sparta_expr_add_scaled(a, &sparta_expr_zero, &x->term[0], y, out);
    sparta_ctx *cx = sparta_arena_ctx(a);
    sparta_arena *steps = sparta_arena_create(cx);
    SPARTA_NEED(cx, steps);
    const sparta_expr *sum = &sparta_expr_zero;
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < x->n && !status; i++)
        status = sparta_expr_add_scaled(steps, sum, &x->term[i], y, &sum);
    if (!status) status = keep(a, sum, out);
    sparta_arena_free(steps);
    return status;
}

static const sparta_expr *add_times(sparta_arena *a, const sparta_expr *x, int64_t c, const sparta_expr *y)
{
    const term scale = {c, 0, NULL};
    const sparta_expr *out = NULL;
    sparta_status status = sparta_expr_add_scaled(a, x, &scale, y, &out);
    return status ? sparta_expr_explain(a, status) : out;
}

const sparta_expr *sparta_expr_add(sparta_arena *a, const sparta_expr *x, const sparta_expr *y)
{
    return add_times(a, x, 1, y);
}

const sparta_expr *sparta_expr_sub(sparta_arena *a, const sparta_expr *x, const sparta_expr *y)
{
    return add_times(a, x, -1, y);
}

const sparta_expr *sparta_expr_mul(sparta_arena *a, const sparta_expr *x, const sparta_expr *y)
{
    const sparta_expr *out = NULL;
    sparta_status status = sparta_expr_product(a, x, y, &out);
    return status ? sparta_expr_explain(a, status) : out;
}

/* ------------------------------------------------------------------ exact division */

bool sparta_term_divides(const term *t, const term *by)
{
    int j = 0;
    if (t->c % by->c) return false;
    for (int i = 0; i < t->n && j < by->n; i++) j += sparta_atom_compare(t->atoms[i], by->atoms[j]) == 0;
    return j == by->n;
}

sparta_status sparta_term_quotient(sparta_arena *a, const term *t, const term *by, term *out)
{
    const atom **atoms = sparta_arena_array(a, (size_t)t->n + 1, sizeof *atoms);
    int n = 0, j = 0;
    SPARTA_NEED(sparta_arena_ctx(a), atoms);
    for (int i = 0; i < t->n; i++) {
        if (j < by->n && sparta_atom_compare(t->atoms[i], by->atoms[j]) == 0)
            j++;
        else
            atoms[n++] = t->atoms[i];
    }
    *out = (term){t->c / by->c, n, atoms};
    return SPARTA_OK;
}

/* Long division: every step removes the leading term of what is left, or says no. */
static sparta_status divide_steps(sparta_arena *steps, const sparta_expr *left, const sparta_expr *y,
                                  const sparta_expr **quotient)
{
    const sparta_expr *sum = &sparta_expr_zero;
    for (int step = 0; left->n; step++) {
        term q;
        if (step == SPARTA_EXPR_TERMS || !sparta_term_divides(&left->term[0], &y->term[0])) return SPARTA_OK;
        SPARTA_TRY(sparta_term_quotient(steps, &left->term[0], &y->term[0], &q));
        SPARTA_TRY(sparta_expr_add_scaled(steps, sum, &q, &sparta_expr_one, &sum));
        q.c = -q.c;
        SPARTA_TRY(sparta_expr_add_scaled(steps, left, &q, y, &left));
    }
    *quotient = sum;
    return SPARTA_OK;
}

sparta_status sparta_expr_exact(sparta_arena *a, const sparta_expr *x, const sparta_expr *y,
                                const sparta_expr **out)
{
    sparta_ctx *cx = sparta_arena_ctx(a);
    const sparta_expr *quotient = NULL;
    *out = NULL;
    if (y->n == 0) return SPARTA_OK;
    sparta_arena *steps = sparta_arena_create(cx);
    SPARTA_NEED(cx, steps);
    sparta_status status = divide_steps(steps, x, y, &quotient);
    if (status == SPARTA_E_RANGE || status == SPARTA_E_LIMIT)
        status = SPARTA_OK; /* a quotient that cannot be said: no */
    if (!status && quotient) status = keep(a, quotient, out);
    sparta_arena_free(steps);
    return status;
}

const sparta_expr *sparta_expr_divide_exact(sparta_arena *a, const sparta_expr *x, const sparta_expr *y)
{
    const sparta_expr *out = NULL;
    return sparta_expr_exact(a, x, y, &out) ? NULL : out;
}

/* ------------------------------------------------------------------ looking */

bool sparta_expr_is_const(const sparta_expr *x, int64_t *value)
{
    if (x->n > 1 || (x->n == 1 && x->term[0].n)) return false;
    if (value) *value = x->n ? x->term[0].c : 0;
    return true;
}

bool sparta_expr_is(const sparta_expr *x, int64_t value)
{
    int64_t v;
    return sparta_expr_is_const(x, &v) && v == value;
}

bool sparta_expr_is_symbol(const sparta_expr *x, const char **name)
{
    if (x->n != 1 || x->term[0].c != 1 || x->term[0].n != 1 || x->term[0].atoms[0]->kind != ATOM_SYMBOL)
        return false;
    if (name) *name = x->term[0].atoms[0]->name;
    return true;
}

void sparta_expr_symbols(const sparta_expr *x, void (*fn)(void *arg, const char *name), void *arg)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < x->term[i].n; k++) {
            const atom *at = x->term[i].atoms[k];
            if (at->kind == ATOM_SYMBOL) {
                fn(arg, at->name);
            } else {
                sparta_expr_symbols(at->x, fn, arg);
                sparta_expr_symbols(at->y, fn, arg);
            }
        }
}
