/* A symbol replaced: everything that has it is made anew, and so simplified anew. */
#include "expr/inside.h"
#include <string.h>

static const sp_expr *in_atom(sp_arena *a, const atom *at, const char *symbol, const sp_expr *by)
{
    const sp_expr *same = NULL;
    if (at->kind == ATOM_SYMBOL) {
        if (strcmp(at->name, symbol) == 0) return by;
        sparta_status status = sp_expr_of_atom(a, at, &same);
        return status ? sp_expr_explain(a, status) : same;
    }
    const sp_expr *x = sp_expr_substitute(a, at->x, symbol, by),
                  *y = x ? sp_expr_substitute(a, at->y, symbol, by) : NULL;
    if (!y) return NULL;
    switch (at->kind) {
    case ATOM_DIV: return sp_expr_div(a, x, y);
    case ATOM_MOD: return sp_expr_mod(a, x, y);
    case ATOM_MIN: return sp_expr_min(a, x, y);
    default: return sp_expr_max(a, x, y);
    }
}

const sp_expr *sp_expr_substitute(sp_arena *a, const sp_expr *x, const char *symbol, const sp_expr *by)
{
    const sp_expr *sum = sp_expr_const(a, 0);
    for (int i = 0; i < x->n && sum; i++) {
        const sp_expr *product = sp_expr_const(a, x->term[i].c);
        for (int k = 0; k < x->term[i].n && product; k++) {
            const sp_expr *factor = in_atom(a, x->term[i].atoms[k], symbol, by);
            product = factor ? sp_expr_mul(a, product, factor) : NULL;
        }
        sum = product ? sp_expr_add(a, sum, product) : NULL;
    }
    return sum;
}

bool sp_expr_is_polynomial(const sp_expr *x)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < x->term[i].n; k++)
            if (x->term[i].atoms[k]->kind != ATOM_SYMBOL) return false;
    return true;
}
