/* interact: how recommenders cross their features, into Interact.
 *
 *     x, e1, e2, ... --Concat, Reshape--> T (B,N,D) --> MatMul(T, T^T) (B,N,N) --> its elements (i, j) --> (B,P)
 *
 * The elements are picked by a Gather from the flattened product or a GatherND, before or after a Transpose that puts the batch
 * last: exporters write any of them for Z[:, i, j]. The product is symmetric, so it does not matter which index is which. A
 * Concat of one of the vectors and the dots becomes `keep`.
 */
#include "compile/chain.h"
#include "compile/passes.h"

enum { VECTORS = 64, PAIRS = VECTORS * VECTORS };

typedef struct crossing {
    int n; /* vectors */
    sp_value *vector[VECTORS];
    sp_value *product; /* (B,N,N) */
} crossing;

/* ------------------------------------------------------------------ the vectors */

/* `part` as (B,D): itself, or what was given a dim of 1 in the middle. */
static sp_value *plain_vector(sp_match *m, sp_value *part, const sp_expr *items, const sp_expr *length)
{
    sp_chain c;
    const sp_dims want = {.rank = 2, .dim = {items, length}};
    if (!sp_match_f32(part) || part->constant) return NULL;
    if (sp_dims_equal(&part->dims, &want)) return part;
    if (part->dims.rank != 3 || !sp_expr_is(part->dims.dim[1], 1) || !sp_chain_of(m, part, &c)) return NULL;
    for (int i = 0; i < c.n; i++)
        if (c.order[i] != i) return NULL;
    return sp_dims_equal(&c.base->dims, &want) ? c.base : NULL;
}

/* T's elements are those of a Concat of N vectors of D, in its order? */
static bool is_stack(sp_match *m, sp_value *concat, const sp_dims *t, crossing *out)
{
    const sp_node *n = sp_match_made_by(concat, SP_OP_Concat);
    int64_t vectors;
    if (!n || sp_match_axis(n, 0, concat->dims.rank) != 1 || n->n_in > VECTORS ||
        !sp_expr_is_const(t->dim[1], &vectors) || n->n_in != vectors)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        out->vector[i] = plain_vector(m, n->in[i], t->dim[0], t->dim[2]);
        if (!out->vector[i]) return false;
    }
    out->n = n->n_in;
    return true;
}

/* v's elements in the order of the base, but for its last two dims, which are swapped when `turned`. */
static bool is_view(const sp_chain *c, const sp_dims *t, bool turned)
{
    const int at = c->n - 2;
    if (c->dims.rank != 3 || at < 0 || c->end[0] != at || c->end[1] != at + 1 || c->end[2] != at + 2)
        return false;
    for (int i = 0; i < at; i++)
        if (c->order[i] != i) return false;
    return c->order[at] == at + turned && c->order[at + 1] == at + 1 - turned &&
           sp_expr_equal(c->dims.dim[1], t->dim[turned ? 2 : 1]) &&
           sp_expr_equal(c->dims.dim[2], t->dim[turned ? 1 : 2]);
}

static bool is_product(sp_match *m, sp_value *z, crossing *out)
{
    const sp_node *n = sp_match_made_by(z, SP_OP_MatMul);
    sp_chain a, b;
    if (!n || !sp_match_f32(z) || z->dims.rank != 3 || !sp_match_f32(n->in[0]) || n->in[0]->dims.rank != 3)
        return false;
    const sp_dims *t = &n->in[0]->dims;
    out->product = z;
    return sp_chain_of(m, n->in[0], &a) && sp_chain_of(m, n->in[1], &b) && a.base == b.base &&
           is_view(&a, t, false) && is_view(&b, t, true) && is_stack(m, a.base, t, out);
}

/* ------------------------------------------------------------------ the pairs */

/* Which element of the constant counts from the end, as indices may. */
static bool index_at(const sparta_tensor *t, int64_t at, int64_t size, int64_t *out)
{
    *out = sp_element_get_int(t->dtype, t->data, at);
    if (*out < 0) *out += size;
    return *out >= 0 && *out < size;
}

/* From indices (P) into N*N elements, or (P,2) into N by N. */
static bool read_pairs(const sp_value *indices, int64_t n, int64_t (*pair)[2], int64_t *count)
{
    const sparta_tensor *t = indices->constant;
    if (!t || sp_dtype_is_float(t->dtype) || t->rank < 1 || t->rank > 2 || t->dim[0] > PAIRS ||
        t->dim[0] < 1 || (t->rank == 2 && t->dim[1] != 2) || !sp_tensor_contiguous(t))
        return false;
    *count = t->dim[0];
    for (int64_t p = 0; p < *count; p++) {
        int64_t flat;
        if (t->rank == 2) {
            if (!index_at(t, 2 * p, n, &pair[p][0]) || !index_at(t, 2 * p + 1, n, &pair[p][1])) return false;
        } else {
            if (!index_at(t, p, n * n, &flat)) return false;
            pair[p][0] = flat / n, pair[p][1] = flat % n;
        }
    }
    return true;
}

/* The dims of this view of the product that hold its two vectors: one dim of both when `flat`, else two that follow each other. */
static bool holds_pairs(const sp_chain *c, int dim, bool flat)
{
    const int begin = dim ? c->end[dim - 1] : 0, end = c->end[flat ? dim : dim + 1];
    if (c->n < 2 || end - begin != 2) return false;
    return SP_MIN(c->order[begin], c->order[begin + 1]) == c->n - 2;
}

/* n picks elements of the product; *last: the batch comes after them in its output. */
static bool is_pick(sp_match *m, const sp_node *n, crossing *out, bool *last)
{
    sp_chain c;
    if (n->op != SP_OP_Gather && n->op != SP_OP_GatherND) return false;
    const bool flat = n->op == SP_OP_Gather;
    const int rank = flat ? 2 : 3;
    if (!n->in[1]->constant || n->in[1]->dims.rank != (flat ? 1 : 2) || !sp_match_f32(n->in[0]) ||
        n->in[0]->dims.rank != rank || !sp_chain_of(m, n->in[0], &c) || !is_product(m, c.base, out))
        return false;
    if (!flat && sp_attr_int(&n->attrs, "batch_dims", 0) != 0) return false;
    const int axis = flat ? sp_match_axis(n, 0, 2) : 0;
    *last = axis == 0;
    return holds_pairs(&c, axis, flat);
}

/* ------------------------------------------------------------------ the node */

static sparta_status become(sp_match *m, sp_node *n, const crossing *x, const sp_value *indices)
{
    int64_t(*pair)[2] = sp_arena_array(m->g->arena, PAIRS, sizeof *pair), count = 0;
    sp_value *in[VECTORS + 1];
    SP_NEED(m->g->cx, pair);
    if (!read_pairs(indices, x->n, pair, &count)) return SPARTA_OK;
    const sparta_tensor t = sparta_tensor_view(SPARTA_I64, 2, (int64_t[]){count, 2}, pair);
    for (int i = 0; i < x->n; i++) in[i] = x->vector[i];
    SP_TRY(sp_graph_add_constant(m->g, NULL, &t, false, &in[x->n]));
    SP_TRY(sp_match_room(m));
    return sp_match_become(m, n, SP_OP_Interact, x->n + 1, in, SP_ATTRS(SP_INT("keep", -1)));
}

static sparta_status pick(sp_match *m, sp_node *n)
{
    crossing x;
    bool last;
    const sp_node *from = sp_match_is_turn(n) && n->in[0]->producer ? n->in[0]->producer : n;
    if (!is_pick(m, from, &x, &last) || last != (from != n)) return SPARTA_OK;
    return become(m, n, &x, from->in[1]);
}

/* Concat(vector k, dots) */
static sparta_status keep(sp_match *m, sp_node *n)
{
    sp_node *dots = n->n_in == 2 ? sp_match_made_by(n->in[1], SP_OP_Interact) : NULL;
    if (!dots || !sp_match_once(m, n->in[1]) || sp_match_axis(n, 0, 2) != 1 ||
        sp_attr_int(&dots->attrs, "keep", -1) >= 0)
        return SPARTA_OK;
    for (int i = 0; i < dots->n_in - 1; i++)
        if (dots->in[i] == n->in[0])
            return sp_match_become(m, n, SP_OP_Interact, dots->n_in, dots->in, SP_ATTRS(SP_INT("keep", i)));
    return SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    switch (n->op) {
    case SP_OP_Gather:
    case SP_OP_Transpose: return pick(m, n);
    case SP_OP_Concat: return keep(m, n);
    default: return SPARTA_OK;
    }
}

SP_MATCH_PASS(interact, visit)
