/* The inside of an expression: a sum of terms, the largest monomial first.
 *
 *     2*batch*(n/64) + batch + 7      terms  {2, [batch, n/64]}  {1, [batch]}  {7, []}
 *
 * Monomials are ordered by degree, then by their sorted atoms. Multiplying two monomials by a third keeps
 * their order, which is what makes products merges and long division end. The functions here return a status
 * and say nothing: E_RANGE is overflow, E_LIMIT too large; sp_expr_explain gives the message where the
 * failure matters. (E_MEMORY has its message.) */
#ifndef SP_EXPR_INSIDE_H
#define SP_EXPR_INSIDE_H

#include "expr/expr.h"

typedef enum atom_kind { ATOM_SYMBOL, ATOM_DIV, ATOM_MOD, ATOM_MIN, ATOM_MAX } atom_kind;

typedef struct atom {
    atom_kind kind;
    int depth;            /* of nesting: 0 for a symbol */
    int length;           /* at least that of its text */
    const char *name;     /* of a symbol */
    const sp_expr *x, *y; /* of the others */
} atom;

typedef struct term {
    int64_t c; /* never 0, never INT64_MIN: |c| can be printed and negated */
    int n;
    const atom *const *atoms; /* sorted */
} term;

struct sp_expr {
    int n, depth, length;
    const term *term;
};

extern const sp_expr sp_expr_zero, sp_expr_one;

int sp_atom_compare(const atom *a, const atom *b);
int sp_monomial_compare(const term *a, const term *b); /* < 0: a stands first */
int sp_expr_compare(const sp_expr *x, const sp_expr *y);

bool sp_coefficient_mul(int64_t a, int64_t b, int64_t *out);
bool sp_coefficient_add(int64_t a, int64_t b, int64_t *out);

/* n terms in order (the array is kept, it lives in the arena) as an expression, limits checked. */
sparta_status sp_expr_make(sp_arena *a, int n, const term *terms, const sp_expr **out) SP_MUST;
sparta_status sp_expr_of_atom(sp_arena *a, const atom *at, const sp_expr **out) SP_MUST;
sparta_status sp_expr_binary(sp_arena *a, atom_kind kind, const sp_expr *x, const sp_expr *y,
                             const sp_expr **out) SP_MUST;
/* x + c * monomial * y: addition, subtraction and the step of a long division. */
sparta_status sp_expr_add_scaled(sp_arena *a, const sp_expr *x, const term *scale, const sp_expr *y,
                                 const sp_expr **out) SP_MUST;
sparta_status sp_expr_product(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out) SP_MUST;
/* The monomial t / by into *out: false when it does not divide. */
bool sp_term_divides(const term *t, const term *by);
sparta_status sp_term_quotient(sp_arena *a, const term *t, const term *by, term *out) SP_MUST;
/* *out is NULL when y does not divide x. */
sparta_status sp_expr_exact(sp_arena *a, const sp_expr *x, const sp_expr *y, const sp_expr **out) SP_MUST;
bool sp_expr_nonnegative(const sp_expr *x); /* for all values of the symbols? false: not known */

int64_t sp_floor_div(int64_t x, int64_t y); /* y != 0, and not INT64_MIN / -1 */
int64_t sp_floor_mod(int64_t x, int64_t y);

/* The message for a status of these functions; returns NULL, as constructors do. */
const sp_expr *sp_expr_explain(sp_arena *a, sparta_status status);

#endif
