/* grouped.c: looking through the Expand in a chain of reshapes and transposes. */
#include "compile/grouped.h"

enum { DEEPEST = 4 };

typedef struct repeat { /* a value that is a rearranged Expand of x along one axis */
    sp_chain chain;
    sp_value *x;
    int atom; /* of the chain: what the Expand made */
} repeat;

static bool is_expanded(const sp_value *x, const sp_value *y, int *axis)
{
    *axis = -1;
    if (!x->typed || x->dims.rank != y->dims.rank) return false;
    for (int i = 0; i < x->dims.rank; i++) {
        if (sp_expr_equal(x->dims.dim[i], y->dims.dim[i])) continue;
        if (*axis >= 0 || !sp_expr_is(x->dims.dim[i], 1)) return false;
        *axis = i;
    }
    return *axis >= 0;
}

/* No dim of the Expand may be cut: atoms are then its dims that are not 1. */
static bool find_repeat(sp_match *m, sp_value *v, repeat *r)
{
    int axis, atoms = 0;
    if (!sp_chain_of(m, v, &r->chain)) return false;
    sp_value *base = r->chain.base;
    const sp_node *expand = sp_match_made_by(base, SP_OP_Expand);
    if (!expand || !is_expanded(expand->in[0], base, &axis)) return false;
    for (int i = 0; i < base->dims.rank; i++) {
        if (i == axis) r->atom = atoms;
        atoms += !sp_expr_is(base->dims.dim[i], 1);
    }
    r->x = expand->in[0];
    return atoms == r->chain.n;
}

/* x as v is, without what the Expand made: `dims`. NULL when that cannot be said. */
static sparta_status rearrange(sp_match *m, const char *name, const repeat *r, const sp_dims *dims,
                               sp_value **out)
{
    const sp_chain *c = &r->chain;
    sp_dims cut = {0};
    int64_t perm[SP_CHAIN_ATOMS];
    int n = 0;
    *out = NULL;
    if (c->n - 1 > SPARTA_RANK) return SPARTA_OK;
    for (int i = 0; i < c->n; i++)
        if (i != r->atom) cut.dim[cut.rank++] = c->size[i];
    for (int i = 0; i < c->n; i++)
        if (c->order[i] != r->atom) perm[n++] = c->order[i] - (c->order[i] > r->atom);
    *out = r->x;
    SP_TRY(sp_match_reshaped(m, name, &cut, out));
    if (!*out) return SPARTA_OK;
    SP_TRY(sp_match_add(m, SP_OP_Transpose, name, 1, out, SP_ATTRS(SP_INTS("perm", n, perm)), out));
    return sp_match_reshaped(m, name, dims, out);
}

/* ------------------------------------------------------------------ heads */

/* Heads before they are repeated: the last of what makes them up is what the Expand made. 0: they are not. */
static int64_t groups_of(const repeat *r, int64_t heads)
{
    const sp_chain *c = &r->chain;
    int64_t times;
    if (c->dims.rank != 4 || c->end[1] == c->end[0] || c->order[c->end[1] - 1] != r->atom) return 0;
    if (!sp_expr_is_const(c->size[r->atom], &times) || times < 2 || heads % times) return 0;
    return heads / times;
}

sparta_status sp_ungroup(sp_match *m, const char *name, int64_t heads, sp_value **k, sp_value **v,
                         int64_t *groups)
{
    repeat of[2];
    sp_value *made[2];
    *groups = heads;
    if (!find_repeat(m, *k, &of[0]) || !find_repeat(m, *v, &of[1])) return SPARTA_OK;
    const int64_t n = groups_of(&of[0], heads);
    if (!n || groups_of(&of[1], heads) != n) return SPARTA_OK;
    for (int i = 0; i < 2; i++) {
        sp_dims dims = of[i].chain.dims;
        dims.dim[1] = sp_expr_const(m->g->arena, n);
        SP_NEED(m->g->cx, dims.dim[1]);
        SP_TRY(rearrange(m, name, &of[i], &dims, &made[i]));
        if (!made[i]) return SPARTA_OK;
    }
    *k = made[0];
    *v = made[1];
    *groups = n;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ masks */

/* The items before they are repeated: the first of what makes them up is what the Expand made. */
static sparta_status mask_of_some(sp_match *m, const char *name, sp_value *mask, int depth, sp_value **out)
{
    repeat r;
    const sp_node *add = sp_match_made_by(mask, SP_OP_Add);
    *out = NULL;
    if (!depth || !mask->typed || mask->dims.rank != 4) return SPARTA_OK;
    if (sp_expr_is(mask->dims.dim[0], 1)) {
        *out = mask;
        return SPARTA_OK;
    }
    if (add) {
        sp_value *in[2];
        for (int i = 0; i < 2; i++) {
            SP_TRY(mask_of_some(m, name, add->in[i], depth - 1, &in[i]));
            if (!in[i]) return SPARTA_OK;
        }
        sp_dims together;
        return sp_match_broadcast(2, in, &together) ? sp_match_add(m, SP_OP_Add, name, 2, in, NULL, out)
                                                    : SPARTA_OK;
    }
    if (!find_repeat(m, mask, &r) || r.chain.end[0] < 1 || r.chain.order[0] != r.atom) return SPARTA_OK;
    sp_dims dims = r.chain.dims;
    dims.dim[0] = sp_expr_divide_exact(m->g->arena, dims.dim[0], r.chain.size[r.atom]);
    return dims.dim[0] ? rearrange(m, name, &r, &dims, out) : SPARTA_OK;
}

sparta_status sp_mask_of_some(sp_match *m, const char *name, sp_value **mask)
{
    sp_value *made;
    SP_TRY(mask_of_some(m, name, *mask, DEEPEST, &made));
    if (made) *mask = made;
    return SPARTA_OK;
}
