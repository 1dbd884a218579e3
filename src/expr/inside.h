/* The inside of an expression: a sum of terms, the largest monomial first.
 *
 *     2*batch*(n/64) + batch + 7      terms  {2, [batch, n/64]}  {1, [batch]}  {7, []}
 *
 * Monomials are ordered by degree, then by their sorted atoms. Multiplying two monomials by a third keeps
 * their order, which is what makes products merges and long division end. The functions here return a status
 * and say nothing: E_RANGE is overflow, E_LIMIT too large; sparta_expr_explain gives the message where the
 * failure matters. (E_MEMORY has its message.) */
#ifndef SPARTA_EXPR_INSIDE_H
#define SPARTA_EXPR_INSIDE_H

#include "expr/expr.h"

typedef enum atom_kind { ATOM_SYMBOL, ATOM_DIV, ATOM_MOD, ATOM_MIN, ATOM_MAX } atom_kind;

typedef struct atom {
    atom_kind kind;
    int depth;                /* of nesting: 0 for a symbol */
    int length;               /* at least that of its text */
    const char *name;         /* of a symbol */
    const sparta_expr *x, *y; /* of the others */
} atom;

typedef struct term {
    int64_t c; /* never 0, never INT64_MIN: |c| can be printed and negated */
    int n;
    const atom *const *atoms; /* sorted */
} term;

struct sparta_expr {
    int n, depth, length;
    const term *term;
};

extern const sparta_expr sparta_expr_zero, sparta_expr_one;

int sparta_atom_compare(const atom *a, const atom *b);
int sparta_monomial_compare(const term *a, const term *b); /* < 0: a stands first */
int sparta_expr_compare(const sparta_expr *x, const sparta_expr *y);

bool sparta_coefficient_mul(int64_t a, int64_t b, int64_t *out);
bool sparta_coefficient_add(int64_t a, int64_t b, int64_t *out);

/* n terms in order (the array is kept, it lives in the arena) as an expression, limits checked. */
sparta_status sparta_expr_make(sparta_arena *a, int n, const term *terms,
                               const sparta_expr **out) SPARTA_MUST;
sparta_status sparta_expr_of_atom(sparta_arena *a, const atom *at, const sparta_expr **out) SPARTA_MUST;
sparta_status sparta_expr_binary(sparta_arena *a, atom_kind kind, const sparta_expr *x, const sparta_expr *y,
                                 const sparta_expr **out) SPARTA_MUST;
/* x + c * monomial * y: addition, subtraction and the step of a long division. */
sparta_status sparta_expr_add_scaled(sparta_arena *a, const sparta_expr *x, const term *scale,
                                     const sparta_expr *y, const sparta_expr **out) SPARTA_MUST;
sparta_status sparta_expr_product(sparta_arena *a, const sparta_expr *x, const sparta_expr *y,
                                  const sparta_expr **out) SPARTA_MUST;
/* The monomial t / by into *out: false when it does not divide. */
bool sparta_term_divides(const term *t, const term *by);
sparta_status sparta_term_quotient(sparta_arena *a, const term *t, const term *by, term *out) SPARTA_MUST;
/* *out is NULL when y does not divide x. */
sparta_status sparta_expr_exact(sparta_arena *a, const sparta_expr *x, const sparta_expr *y,
                                const sparta_expr **out) SPARTA_MUST;
bool sparta_expr_nonnegative(const sparta_expr *x); /* for all values of the symbols? false: not known */

int64_t sparta_floor_div(int64_t x, int64_t y); /* y != 0, and not INT64_MIN / -1 */
int64_t sparta_floor_mod(int64_t x, int64_t y);

/* The message for a status of these functions; returns NULL, as constructors do. */
const sparta_expr *sparta_expr_explain(sparta_arena *a, sparta_status status);

#endif
