/* relative: what DeBERTa's positions add to scores, from its pieces.
 *
 *     c (B,S,h*K) --> heads (B*h,S,K) --> GatherElements(, Expand(at (1,S,T))) -------------- * scale ---\
 *                                                                                                        Add --> (B*h,S,T)
 *     p (B,T,h*L) --> heads (B*h,T,L) --> GatherElements(, Expand(back (1,T,S))) --Transpose-- * scale --/
 *
 * becomes Relative(c, at, p, back), which reads c and p where they lie and has one index for all items and heads. The first term may stand
 * alone. (B,h,S,K) are heads as well.
 */
#include "compile/chain.h"
#include "compile/passes.h"
#include <string.h>

/* ------------------------------------------------------------------ one term */

/* Is the chain the heads of its base (B,S,h*K), put before the rows? How many there are; 0: it is not. */
static int64_t heads_of(const sp_chain *c)
{
    const sp_dims *x = &c->base->dims;
    static const int moved[] = {0, 2, 1, 3};
    int64_t heads, columns, all;
    int at[4], n = 0, place = 0;
    if (x->rank != 3 || c->n < 1 || !sp_expr_is_const(x->dim[2], &all)) return 0;
    if (!sp_expr_is_const(c->size[c->n - 1], &columns) || columns < 1 || all % columns) return 0;
    heads = all / columns;
    const bool there[] = {!sp_expr_is(x->dim[0], 1), !sp_expr_is(x->dim[1], 1), heads > 1, columns > 1};
    for (int i = 0; i < 4; i++) at[i] = there[i] ? n++ : -1;
    if (n != c->n) return 0;
    for (int i = 0; i < 4; i++)
        if (at[moved[i]] >= 0 && c->order[place++] != at[moved[i]]) return 0;
    return heads;
}

/* The view as (B*h,S,K) or (B,h,S,K): the last two dims are S and K. */
static bool ends_in_rows(const sp_chain *c, int64_t heads)
{
    int64_t all;
    const int rank = c->dims.rank;
    return (rank == 3 || rank == 4) && sp_expr_equal(c->dims.dim[rank - 2], c->base->dims.dim[1]) &&
           sp_expr_is_const(c->base->dims.dim[2], &all) && sp_expr_is(c->dims.dim[rank - 1], all / heads);
}

/* The same of a constant. */
static sparta_status one_plane(sp_match *m, const sparta_tensor *t, sp_value **out)
{
    const int rank = t->rank;
    if (rank < 2 || !sp_tensor_contiguous(t) || sparta_tensor_elements(t) < 1) return SPARTA_OK;
    const sparta_tensor plane =
        sparta_tensor_view(t->dtype, 2, (int64_t[]){t->dim[rank - 2], t->dim[rank - 1]}, t->data);
    const size_t bytes = (size_t)sparta_tensor_elements(&plane) * sparta_dtype_size(t->dtype);
    const int64_t planes = sparta_tensor_elements(t) / sparta_tensor_elements(&plane);
    for (int64_t i = 1; i < planes; i++)
        if (memcmp(t->data, (const char *)t->data + (size_t)i * bytes, bytes)) return SPARTA_OK;
    if ((*out = sp_match_known_of(m->state, &plane))) return SPARTA_OK;
    SP_TRY(sp_graph_add_constant(m->g, NULL, &plane, false, out)); /* where it lies in t */
    sp_match_know(m->state, (*out)->constant, *out);
    return sp_match_room(m);
}

/* (S,T), when the indices are that for every item and head; NULL: they are not. */
static sparta_status one_index(sp_match *m, const char *name, sp_value *v, sp_value **out)
{
    const sp_node *expand = sp_match_made_by(v, SP_OP_Expand);
    *out = NULL;
    if (v->constant) return one_plane(m, v->constant, out);
    if (!expand || !expand->in[0]->typed) return SPARTA_OK;
    sp_value *x = expand->in[0];
    const int rank = v->dims.rank;
    const sp_dims last = {.rank = 2, .dim = {v->dims.dim[rank - 2], v->dims.dim[rank - 1]}};
    for (int i = 0; i < x->dims.rank; i++) {
        const int from_end = x->dims.rank - i;
        if (from_end > 2 ? !sp_expr_is(x->dims.dim[i], 1)
                         : !sp_expr_equal(x->dims.dim[i], last.dim[2 - from_end]))
            return SPARTA_OK;
    }
    if (x->dims.rank < 2) return SPARTA_OK;
    *out = x;
    return x->dims.rank == 2 ? SPARTA_OK : sp_match_reshaped(m, name, &last, out);
}

static sparta_status gather(sp_match *m, sp_node *n)
{
    sp_chain c;
    sp_value *in[2], *y, *target;
    if (!sp_match_f32(n->in[0]) || !n->in[1]->typed || n->in[0]->dims.rank < 3) return SPARTA_OK;
    if (sp_match_axis(n, 0, n->in[0]->dims.rank) != n->in[0]->dims.rank - 1) return SPARTA_OK;
    if (!sp_chain_of(m, n->in[0], &c) || c.steps == 0) return SPARTA_OK;
    const int64_t heads = heads_of(&c);
    if (!heads || !ends_in_rows(&c, heads)) return SPARTA_OK;
    for (int i = 0; i < c.dims.rank - 1; i++) /* no row is left out */
        if (!sp_expr_equal(c.dims.dim[i], n->out[0]->dims.dim[i])) return SPARTA_OK;
    in[0] = c.base;
    SP_TRY(one_index(m, n->name, n->in[1], &in[1]));
    if (!in[1]) return SPARTA_OK;
    SP_TRY(sp_match_add(m, SP_OP_Relative, n->name, 2, in, SP_ATTRS(SP_INT("heads", heads)), &y));
    SP_TRY(sp_match_reshape_target(m, y, &n->out[0]->dims, &target));
    return target ? sp_match_become(m, n, SP_OP_Reshape, 2, (sp_value *[]){y, target}, NULL) : SPARTA_OK;
}

/* ------------------------------------------------------------------ two */

/* The Relative of one term that v is a multiple of, reshaped; turned: its last two dims are swapped. */
static const sp_node *term(sp_match *m, sp_value *v, bool *turned, double *scale)
{
    sp_value *x;
    sp_chain c;
    double by = 1;
    const sp_node *n = v->producer;
    if (n && (n->op == SP_OP_Mul || n->op == SP_OP_Div) && sp_match_once(m, v) &&
        sp_match_with_scalar(n, &x, &by) && sp_match_same_dims(x, v) &&
        (n->op == SP_OP_Mul || x == n->in[0])) {
        if (n->op == SP_OP_Div) by = 1 / by;
        v = x;
    } else
        by = 1;
    if (!sp_chain_of(m, v, &c) || c.base->dims.rank != 4 || !sp_match_once(m, v)) return NULL;
    const sp_node *r = sp_match_made_by(c.base, SP_OP_Relative);
    if (!r || r->n_in != 2 || v->dims.rank < 3) return NULL;
    int order[4], n_atoms = 0;
    const int last = v->dims.rank - 1;
    for (int i = 0; i < 4; i++) order[i] = sp_expr_is(c.base->dims.dim[i], 1) ? -1 : n_atoms++;
    if (n_atoms != c.n || order[2] < 0 || order[3] < 0 || c.n < 2) return NULL;
    *turned = c.order[c.n - 2] == order[3] && c.order[c.n - 1] == order[2];
    if (!*turned && (c.order[c.n - 2] != order[2] || c.order[c.n - 1] != order[3])) return NULL;
    for (int i = 0; i < c.n - 2; i++)
        if (c.order[i] != i) return NULL;
    if (c.end[last] != c.n || c.end[last - 1] != c.n - 1 || c.end[last - 2] != c.n - 2) return NULL;
    *scale = by * (double)sp_attr_float(&r->attrs, "scale", 1);
    return r;
}

static sparta_status both(sp_match *m, sp_node *n)
{
    const sp_node *of[2];
    bool turned[2];
    double scale[2];
    for (int i = 0; i < 2; i++)
        if (!(of[i] = term(m, n->in[i], &turned[i], &scale[i]))) return SPARTA_OK;
    if (turned[0] == turned[1] || (float)scale[0] != (float)scale[1] ||
        !sp_match_same_dims(n->in[0], n->in[1]))
        return SPARTA_OK;
    const sp_node *c = of[turned[0]], *p = of[!turned[0]];
    const int64_t heads = sp_attr_int(&c->attrs, "heads", 1);
    if (sp_attr_int(&p->attrs, "heads", 1) != heads ||
        !sp_expr_equal(c->in[0]->dims.dim[0], p->in[0]->dims.dim[0]))
        return SPARTA_OK;
    sp_value *in[] = {c->in[0], c->in[1], p->in[0], p->in[1]}, *y, *target;
    SP_TRY(sp_match_add(m, SP_OP_Relative, n->name, 4, in,
                        SP_ATTRS(SP_INT("heads", heads), SP_FLOAT("scale", (float)scale[0])), &y));
    SP_TRY(sp_match_reshape_target(m, y, &n->out[0]->dims, &target));
    return target ? sp_match_become(m, n, SP_OP_Reshape, 2, (sp_value *[]){y, target}, NULL) : SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    if (n->op == SP_OP_GatherElements) return gather(m, n);
    return n->op == SP_OP_Add && sp_match_f32(n->out[0]) ? both(m, n) : SPARTA_OK;
}

sparta_status sp_pass_relative(sp_graph *g)
{
    return sp_match_run(g, visit, &(sp_match_known){0});
}
