/* turned: a product of two activations reads one that was turned for it as it lies.
 *
 *     a (B,h,i,d) ------------------------------------\
 *                                                      MatMul --> (B,h,i,j)         Einsum "abxz,abyz->abxy" of a and b
 *     b (B,h,j,d) --Transpose 0132--> (B,h,d,j) ------/
 *
 * What is left here is no attention: that has been recognised. Einsum's quick twin takes operands with any strides. */
#include "compile/match.h"
#include "compile/passes.h"

/* What v was before its last two axes were exchanged, for this product alone; NULL: they were not. */
static sp_value *before_turn(const sp_match *m, const sp_value *v)
{
    const sp_node *t = sp_match_made_by(v, SP_OP_Transpose);
    const sp_attr *perm = t ? sp_attr_find(&t->attrs, "perm") : NULL;
    const int rank = v->dims.rank;
    if (!perm || perm->n != rank || rank < 2 || !sp_match_once(m, v)) return NULL;
    for (int i = 0; i < rank; i++)
        if (perm->ints[i] != (i < rank - 2 ? i : 2 * rank - 3 - i)) return NULL;
    return t->in[0];
}

/* Both activations, of one rank, with the same batch. */
static bool is_plain(const sp_node *n)
{
    if (n->op != SP_OP_MatMul) return false;
    const sp_value *a = n->in[0], *b = n->in[1];
    if (!sp_match_f32(a) || !sp_match_f32(b) || a->constant || b->constant || a->dims.rank != b->dims.rank ||
        a->dims.rank < 2)
        return false;
    for (int i = 0; i < a->dims.rank - 2; i++)
        if (!sp_expr_equal(a->dims.dim[i], b->dims.dim[i])) return false;
    return true;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    if (!is_plain(n)) return SPARTA_OK;
    sp_value *a = before_turn(m, n->in[0]), *b = before_turn(m, n->in[1]);
    if (!a && !b) return SPARTA_OK;
    char batch[SPARTA_RANK] = "";
    for (int i = 0; i < n->in[0]->dims.rank - 2; i++) batch[i] = (char)('a' + i);
    const char *equation = sp_arena_printf(m->g->arena, "%s%s,%s%s->%sxy", batch, a ? "zx" : "xz", batch,
                                           b ? "yz" : "zy", batch);
    SP_NEED(m->g->cx, equation);
    sp_value *in[] = {a ? a : n->in[0], b ? b : n->in[1]};
    return sp_match_become(m, n, SP_OP_Einsum, 2, in, SP_ATTRS(SP_STRING("equation", equation)));
}

SP_MATCH_PASS(turned, visit)
