/* expr: integer expressions over named symbols: the words in which sizes are said.
 *
 * A dimension of a model is a number, a symbol (`batch`), or arithmetic on them (`batch*sequence`,
 * `(n+63)/64`). Expressions are immutable, live in an arena and are kept in a canonical form: a sum of terms,
 * each an integer times a sorted product of atoms; an atom is a symbol or one of  a/b  a%b  min(a,b) max(a,b)
 * that could not be simplified. Two expressions are equal for every value of their symbols exactly when the
 * canonical forms are equal, for polynomials; with / % min max in them equality is only sufficient ("not
 * equal" means "not known to be equal").
 *
 *     sparta_expr_parse(arena, "2*batch*sequence + 1", &e);   print gives the canonical text
 *
 * Division and remainder floor (Python's // and %); symbols are sizes, hence >= 0. Overflow of int64 is an
 * error. What is divided by is taken to be other than 0, so n*k/k is n. The canonical text of an expression
 * is never longer than SPARTA_EXPR_LENGTH nor nested deeper than SPARTA_EXPR_DEPTH: larger ones are refused
 * with E_LIMIT when they are made, so that walking one is always cheap.
 */
#ifndef SPARTA_EXPR_H
#define SPARTA_EXPR_H

#include "base/base.h"

enum { SPARTA_EXPR_LENGTH = 4096, SPARTA_EXPR_DEPTH = 64, SPARTA_EXPR_TERMS = 256 };

typedef struct sparta_expr sparta_expr;

/* Constructors return NULL on failure (out of memory, overflow, division by the constant 0): the context has
 * the message. */
const sparta_expr *sparta_expr_const(sparta_arena *a, int64_t value) SPARTA_MUST;
const sparta_expr *sparta_expr_symbol(sparta_arena *a, const char *name)
    SPARTA_MUST; /* [A-Za-z_][A-Za-z0-9_.]*; others are mangled */
/* The name a symbol gets: the same when it is one already, else its good characters, _ and 8 hex digits of
 * its hash, so that different names stay different. For bindings by a user's names. `out` has
 * SPARTA_SYMBOL_SIZE bytes. */
enum { SPARTA_SYMBOL_SIZE = 256 };
void sparta_expr_symbol_name(const char *name, char *out);
const sparta_expr *sparta_expr_add(sparta_arena *a, const sparta_expr *x, const sparta_expr *y) SPARTA_MUST;
const sparta_expr *sparta_expr_sub(sparta_arena *a, const sparta_expr *x, const sparta_expr *y) SPARTA_MUST;
const sparta_expr *sparta_expr_mul(sparta_arena *a, const sparta_expr *x, const sparta_expr *y) SPARTA_MUST;
const sparta_expr *sparta_expr_div(sparta_arena *a, const sparta_expr *x,
                                   const sparta_expr *y) SPARTA_MUST; /* exact when it divides */
const sparta_expr *sparta_expr_mod(sparta_arena *a, const sparta_expr *x, const sparta_expr *y) SPARTA_MUST;
const sparta_expr *sparta_expr_min(sparta_arena *a, const sparta_expr *x, const sparta_expr *y) SPARTA_MUST;
const sparta_expr *sparta_expr_max(sparta_arena *a, const sparta_expr *x, const sparta_expr *y) SPARTA_MUST;
const sparta_expr *sparta_expr_copy(sparta_arena *a,
                                    const sparta_expr *x) SPARTA_MUST; /* into another arena */

/* x with every `symbol` in it replaced by `by`. */
const sparta_expr *sparta_expr_substitute(sparta_arena *a, const sparta_expr *x, const char *symbol,
                                          const sparta_expr *by) SPARTA_MUST;

bool sparta_expr_is_const(const sparta_expr *x, int64_t *value); /* value may be NULL */
bool sparta_expr_is_symbol(const sparta_expr *x, const char **name);
bool sparta_expr_equal(const sparta_expr *x, const sparta_expr *y);
bool sparta_expr_is(const sparta_expr *x, int64_t value); /* the constant `value`? */
bool sparta_expr_is_polynomial(const sparta_expr *x);     /* no / % min max in it? */
/* The k with x = y * k, for Reshape's -1. */
const sparta_expr *sparta_expr_divide_exact(sparta_arena *a, const sparta_expr *x,
                                            const sparta_expr *y); /* NULL without message: no */

/* Values of symbols. */
typedef struct sparta_bindings {
    int n;
    const char *const *name;
    const int64_t *value;
} sparta_bindings;
sparta_status sparta_expr_eval(sparta_ctx *cx, const sparta_expr *x, const sparta_bindings *b,
                               int64_t *out) SPARTA_MUST;
/* Call fn for every symbol that occurs (repeats possible). */
void sparta_expr_symbols(const sparta_expr *x, void (*fn)(void *arg, const char *name), void *arg);

void sparta_expr_print(const sparta_expr *x, sparta_text *out);
/* Depth and length are limited: the text may be hostile. */
sparta_status sparta_expr_parse(sparta_arena *a, const char *text, const sparta_expr **out) SPARTA_MUST;

/* A shape of expressions. */
typedef struct sparta_dims {
    int rank;
    const sparta_expr *dim[SPARTA_RANK];
} sparta_dims;
bool sparta_dims_equal(const sparta_dims *a, const sparta_dims *b);
bool sparta_dims_const(const sparta_dims *d, int64_t out[SPARTA_RANK]); /* all constant? */
const sparta_expr *sparta_dims_elements(sparta_arena *a, const sparta_dims *d) SPARTA_MUST;
sparta_status sparta_dims_eval(sparta_ctx *cx, const sparta_dims *d, const sparta_bindings *b,
                               int64_t out[SPARTA_RANK]) SPARTA_MUST;
void sparta_dims_print(const sparta_dims *d, sparta_text *out); /* [batch,sequence,768] */
sparta_status sparta_dims_parse(sparta_arena *a, const char *text, sparta_dims *out) SPARTA_MUST;

#endif
