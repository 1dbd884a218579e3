/* expr: integer expressions over named symbols: the words in which sizes are said.
 *
 * A dimension of a model is a number, a symbol (`batch`), or arithmetic on them (`batch*sequence`,
 * `(n+63)/64`). Expressions are immutable, live in an arena and are kept in a canonical form: a sum of terms,
 * each an integer times a sorted product of atoms; an atom is a symbol or one of  a/b  a%b  min(a,b) max(a,b)
 * that could not be simplified. Two expressions are equal for every value of their symbols exactly when the
 * canonical forms are equal, for polynomials; with / % min max in them equality is only sufficient ("not
 * equal" means "not known to be equal").
 *
 *     sp_expr_parse(arena, "2*batch*sequence + 1", &e);   print gives the canonical text
 *
 * Division and remainder floor (Python's // and %); symbols are sizes, hence >= 0. Overflow of int64 is an
 * error. What is divided by is taken to be other than 0, so n*k/k is n. The canonical text of an expression
 * is never longer than SP_EXPR_LENGTH nor nested deeper than SP_EXPR_DEPTH: larger ones are refused
 * with E_LIMIT when they are made, so that walking one is always cheap.
 */
#ifndef SP_EXPR_H
#define SP_EXPR_H

#include "base/base.h"

enum { SP_EXPR_LENGTH = 4096, SP_EXPR_DEPTH = 64, SP_EXPR_TERMS = 256 };

typedef struct sp_expr sp_expr;

/* Constructors return NULL on failure (out of memory, overflow, division by the constant 0): the context has
 * the message. NULL for an operand gives NULL, so that only the last of several has to be looked at. */
const sp_expr *sp_expr_const(sp_arena *a, int64_t value) SP_MUST;
/* [A-Za-z_][A-Za-z0-9_.]*; others are mangled. */
const sp_expr *sp_expr_symbol(sp_arena *a, const char *name) SP_MUST;
/* The name a symbol gets: the same when it is one already, else its good characters, _ and 8 hex digits of
 * its hash, so that different names stay different. For bindings by a user's names. `out` has
 * SP_SYMBOL_SIZE bytes. */
enum { SP_SYMBOL_SIZE = 256 };
void sp_expr_symbol_name(const char *name, char *out);
const sp_expr *sp_expr_add(sp_arena *a, const sp_expr *x, const sp_expr *y) SP_MUST;
const sp_expr *sp_expr_sub(sp_arena *a, const sp_expr *x, const sp_expr *y) SP_MUST;
const sp_expr *sp_expr_mul(sp_arena *a, const sp_expr *x, const sp_expr *y) SP_MUST;
/* Exact when it divides. */
const sp_expr *sp_expr_div(sp_arena *a, const sp_expr *x, const sp_expr *y) SP_MUST;
const sp_expr *sp_expr_mod(sp_arena *a, const sp_expr *x, const sp_expr *y) SP_MUST;
const sp_expr *sp_expr_min(sp_arena *a, const sp_expr *x, const sp_expr *y) SP_MUST;
const sp_expr *sp_expr_max(sp_arena *a, const sp_expr *x, const sp_expr *y) SP_MUST;
const sp_expr *sp_expr_copy(sp_arena *a, const sp_expr *x) SP_MUST; /* into another arena */

/* x with every `symbol` in it replaced by `by`. */
const sp_expr *sp_expr_substitute(sp_arena *a, const sp_expr *x, const char *symbol,
                                  const sp_expr *by) SP_MUST;

bool sp_expr_is_const(const sp_expr *x, int64_t *value); /* value may be NULL */
bool sp_expr_is_symbol(const sp_expr *x, const char **name);
bool sp_expr_equal(const sp_expr *x, const sp_expr *y);
bool sp_expr_is(const sp_expr *x, int64_t value); /* the constant `value`? */
bool sp_expr_is_polynomial(const sp_expr *x);     /* no / % min max in it? */
/* The k with x = y * k, for Reshape's -1. */
/* NULL without message: no. */
const sp_expr *sp_expr_divide_exact(sp_arena *a, const sp_expr *x, const sp_expr *y);

/* Values of symbols. */
typedef struct sp_bindings {
    int n;
    const char *const *name;
    const int64_t *value;
} sp_bindings;
sparta_status sp_expr_eval(sparta_ctx *cx, const sp_expr *x, const sp_bindings *b, int64_t *out) SP_MUST;
/* Call fn for every symbol that occurs (repeats possible). */
void sp_expr_symbols(const sp_expr *x, void (*fn)(void *arg, const char *name), void *arg);

void sp_expr_print(const sp_expr *x, sp_text *out);
/* Depth and length are limited: the text may be hostile. */
sparta_status sp_expr_parse(sp_arena *a, const char *text, const sp_expr **out) SP_MUST;

/* A shape of expressions. */
typedef struct sp_dims {
    int rank;
    const sp_expr *dim[SPARTA_RANK];
} sp_dims;
bool sp_dims_equal(const sp_dims *a, const sp_dims *b);
bool sp_dims_const(const sp_dims *d, int64_t out[SPARTA_RANK]); /* all constant? */
const sp_expr *sp_dims_elements(sp_arena *a, const sp_dims *d) SP_MUST;
sparta_status sp_dims_eval(sparta_ctx *cx, const sp_dims *d, const sp_bindings *b,
                           int64_t out[SPARTA_RANK]) SP_MUST;
void sp_dims_print(const sp_dims *d, sp_text *out); /* [batch,sequence,768] */
sparta_status sp_dims_parse(sp_arena *a, const char *text, sp_dims *out) SP_MUST;

#endif
