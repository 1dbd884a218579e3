/* cache: attention reads keys and values as a cache has them.
 *
 *     past (B,g,P,e) --\
 *                       Concat axis 2 --> (B,g,T,e) --Transpose--> (B,T,g,e) --Reshape--> (B,T,g*e) --> Attention
 *     k (B,g,S,e) -----/                      \__________________________________________________________^
 *
 * The attention pass wants heads side by side, which costs a copy of the whole cache for every token. Keys and values that were appended to a past, or
 * that come in as they are (of an encoder), are taken before they are turned; an attention takes both of them so, or none. */
#include "compile/match.h"
#include "compile/passes.h"

/* The value in a cache's form that v is, turned; NULL: it is none. */
static sp_value *in_cache(const sp_value *v, int64_t groups)
{
    static const int64_t turn[] = {0, 2, 1, 3};
    const sp_node *reshape = sp_match_made_by(v, SP_OP_Reshape);
    const sp_node *transpose = reshape ? sp_match_made_by(reshape->in[0], SP_OP_Transpose) : NULL;
    const sp_attr *perm = transpose ? sp_attr_find(&transpose->attrs, "perm") : NULL;
    if (!perm || perm->n != 4 || !v->typed || v->dims.rank != 3) return NULL;
    for (int i = 0; i < 4; i++)
        if (perm->ints[i] != turn[i]) return NULL;
    sp_value *x = transpose->in[0];
    const sp_node *concat = sp_match_made_by(x, SP_OP_Concat);
    if (!sp_match_f32(x) || !(x->is_input || (concat && sp_match_axis(concat, 0, 4) == 2))) return NULL;
    const bool heads_last = sp_expr_is(x->dims.dim[1], groups) &&
                            sp_expr_equal(x->dims.dim[0], v->dims.dim[0]) &&
                            sp_expr_equal(x->dims.dim[2], v->dims.dim[1]);
    return heads_last ? x : NULL;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    if (n->op != SP_OP_Attention || !n->in[1] || !n->in[2] || n->n_in > 4) return SPARTA_OK;
    const int64_t groups = sp_attr_int(&n->attrs, "kv_heads", sp_attr_int(&n->attrs, "heads", 1));
    sp_value *in[] = {n->in[0], in_cache(n->in[1], groups), in_cache(n->in[2], groups),
                      n->n_in > 3 ? n->in[3] : NULL};
    return in[1] && in[2] ? sp_match_become(m, n, SP_OP_Attention, n->n_in, in, &n->attrs) : SPARTA_OK;
}

SP_MATCH_PASS(cache, visit)
