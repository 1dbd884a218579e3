/* A symbol replaced: everything that has it is made anew, and so simplified anew. */
#include "expr/inside.h"
#include <string.h>

static const sparta_expr *in_atom(sparta_arena *a, const atom *at, const char *symbol, const sparta_expr *by)
{
    const sparta_expr *same = NULL;
    if (at->kind == ATOM_SYMBOL) {
        if (strcmp(at->name, symbol) == 0) return by;
        sparta_status status = sparta_expr_of_atom(a, at, &same);
        return status ? sparta_expr_explain(a, status) : same;
    }
    const sparta_expr *x = sparta_expr_substitute(a, at->x, symbol, by),
                      *y = x ? sparta_expr_substitute(a, at->y, symbol, by) : NULL;
    if (!y) return NULL;
    switch (at->kind) {
    case ATOM_DIV: return sparta_expr_div(a, x, y);
    case ATOM_MOD: return sparta_expr_mod(a, x, y);
    case ATOM_MIN: return sparta_expr_min(a, x, y);
    default: return sparta_expr_max(a, x, y);
    }
}

const sparta_expr *sparta_expr_substitute(sparta_arena *a, const sparta_expr *x, const char *symbol,
                                          const sparta_expr *by)
{
    const sparta_expr *sum = sparta_expr_const(a, 0);
    for (int i = 0; i < x->n && sum; i++) {
        const sparta_expr *product = sparta_expr_const(a, x->term[i].c);
        for (int k = 0; k < x->term[i].n && product; k++) {
            const sparta_expr *factor = in_atom(a, x->term[i].atoms[k], symbol, by);
            product = factor ? sparta_expr_mul(a, product, factor) : NULL;
        }
        sum = product ? sparta_expr_add(a, sum, product) : NULL;
    }
    return sum;
}

bool sparta_expr_is_polynomial(const sparta_expr *x)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < x->term[i].n; k++)
            if (x->term[i].atoms[k]->kind != ATOM_SYMBOL) return false;
    return true;
}
