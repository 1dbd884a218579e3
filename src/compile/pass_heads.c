/* heads: products of heads with constants, a matrix for each head, into a Linear with those matrices on its diagonal.
 *
 *     x (B,S,h*D) --> (B,h,S,D) or (B*h,S,D) --\                            D  [C0      ]
 *                                               MatMul      Linear(x, W)  W =  [   C1   ]  --> (B,S,h*K) --> heads again
 *     C (h,D,K), repeated for every item ------/                               [      C2]
 *
 * So are products with positions that DeBERTa's attention adds to its scores. The zeros cost nothing: the Linear is one with a sparse weight,
 * on the panels where x lies, and the constants are no longer repeated for items.
 */
#include "compile/chain.h"
#include "compile/passes.h"
#include <string.h>

enum { LARGEST = 1 << 24 }; /* elements of W: it is mostly zeros */

typedef struct blocks {
    sp_value *x;     /* (B,S,h*D) */
    sparta_tensor c; /* (h,D,K), or (h,K,D) when turned */
    bool turned;
    int64_t heads, in, out;
} blocks;

/* ------------------------------------------------------------------ the constant */

/* v, (h,a,b), when `repeated` is v for every item: Tile along its first axis only. */
static sp_value *once(sp_value *repeated, const sp_expr *items)
{
    const sp_node *tile = sp_match_made_by(repeated, SP_OP_Tile);
    if (repeated->constant || !tile) return repeated;
    const sp_dims *x = &tile->in[0]->dims, *y = &repeated->dims;
    const sp_value *times = tile->in[1];
    if (!tile->in[0]->typed || x->rank != 3 || !times->ints || times->n_ints != 3) return NULL;
    if (!sp_expr_equal(times->ints[0], items) || !sp_expr_equal(x->dim[1], y->dim[1]) ||
        !sp_expr_equal(x->dim[2], y->dim[2]))
        return NULL;
    return tile->in[0];
}

/* The first of as many equal parts as there are items. */
static bool first_of(const sp_expr *items, sparta_tensor *c)
{
    int64_t n;
    if (!sp_expr_is_const(items, &n) || n < 2 || c->dim[0] % n || !sp_tensor_contiguous(c)) return false;
    const size_t part = (size_t)(sparta_tensor_elements(c) / n) * sizeof(float);
    for (int64_t i = 1; i < n; i++)
        if (memcmp(c->data, (const char *)c->data + (size_t)i * part, part)) return false;
    c->dim[0] /= n;
    return true;
}

/* Swaps the last two of three dims? */
static bool turns(const sp_node *n)
{
    const sp_attr *perm = n ? sp_attr_find(&n->attrs, "perm") : NULL;
    return perm && perm->n == 3 && perm->ints[0] == 0 && perm->ints[1] == 2;
}

/* several: the first dim of v is that of items and heads. */
static bool find_constant(sp_value *v, const sp_expr *items, bool several, blocks *b)
{
    const sp_node *turn = sp_match_made_by(v, SP_OP_Transpose);
    b->turned = !v->constant && turns(turn);
    sp_value *given = b->turned ? turn->in[0] : v;
    const sp_value *c = once(given, items);
    if (!c || !c->constant || !sp_match_f32(c) || c->constant->rank != 3) return false;
    b->c = *c->constant;
    if (several && c == given) (void)first_of(items, &b->c);
    b->heads = b->c.dim[0];
    b->in = b->c.dim[b->turned ? 2 : 1];
    b->out = b->c.dim[b->turned ? 1 : 2];
    int64_t elements;
    return b->heads > 0 && b->in > 0 && b->out > 0 && sp_int_mul(b->heads * b->heads, b->in, &elements) &&
           sp_int_mul(elements, b->out, &elements) && elements <= LARGEST;
}

/* ------------------------------------------------------------------ the heads */

/* Is the chain the heads of its base (B,S,h*D), put before the rows? */
static bool is_heads(sp_match *m, const sp_chain *c, const blocks *b)
{
    const sp_dims *x = &c->base->dims;
    static const int moved[] = {0, 2, 1, 3};
    int at[4], n = 0, place = 0;
    if (x->rank != 3 || !sp_expr_is(x->dim[2], b->heads * b->in)) return false;
    const sp_expr *size[] = {x->dim[0], x->dim[1], sp_expr_const(m->g->arena, b->heads),
                             sp_expr_const(m->g->arena, b->in)};
    for (int i = 0; i < 4; i++) {
        if (!size[i]) return false;
        at[i] = sp_expr_is(size[i], 1) ? -1 : n;
        if (at[i] < 0) continue;
        if (n == c->n || !sp_expr_equal(c->size[n++], size[i])) return false;
    }
    for (int i = 0; i < 4; i++)
        if (at[moved[i]] >= 0 && c->order[place++] != at[moved[i]]) return false;
    return n == c->n;
}

/* (B,h,S,D), which the constant repeats into by itself, or (B*h,S,D). */
static bool is_view(sp_match *m, const sp_dims *view, const blocks *b)
{
    const sp_dims *x = &b->x->dims;
    const sp_expr *heads = sp_expr_const(m->g->arena, b->heads);
    if (!heads || !sp_expr_equal(view->dim[view->rank - 2], x->dim[1])) return false;
    if (view->rank == 4) return sp_expr_equal(view->dim[0], x->dim[0]) && sp_expr_equal(view->dim[1], heads);
    const sp_expr *both = sp_expr_mul(m->g->arena, x->dim[0], heads);
    return view->rank == 3 && both && sp_expr_equal(view->dim[0], both);
}

static bool find_blocks(sp_match *m, const sp_node *n, blocks *b)
{
    sp_chain c;
    if (!sp_match_f32(n->in[0]) || !sp_match_f32(n->out[0]) || !n->in[1]->typed || n->in[1]->dims.rank != 3)
        return false;
    if (!sp_chain_of(m, n->in[0], &c) || c.steps == 0 || c.base->constant || c.base->dims.rank != 3)
        return false;
    b->x = c.base;
    if (!find_constant(n->in[1], c.base->dims.dim[0], c.dims.rank == 3, b)) return false;
    /* What is not repeated must not be (h*B, ...) by chance: it broadcasts over items of (B,h,...), or there is one item. */
    const bool whole = sp_expr_is(n->in[1]->dims.dim[0], b->heads);
    if (whole && c.dims.rank == 3 && !sp_expr_is(c.base->dims.dim[0], 1)) return false;
    if (!whole && c.dims.rank != 3) return false;
    return is_heads(m, &c, b) && is_view(m, &c.dims, b);
}

/* ------------------------------------------------------------------ the Linear */

static sparta_status diagonal(sp_match *m, const blocks *b, sp_value **out)
{
    const int64_t rows = b->heads * b->in, columns = b->heads * b->out, *step = b->c.stride;
    const int64_t by_in = step[b->turned ? 2 : 1], by_out = step[b->turned ? 1 : 2];
    sparta_tensor t;
    SP_TRY(sp_tensor_alloc_in(m->g->arena, SPARTA_F32, 2, (int64_t[]){rows, columns}, &t));
    float *w = t.data; /* (h*D, h*K) */
    for (int64_t i = 0; i < rows * columns; i++) w[i] = 0;
    for (int64_t h = 0; h < b->heads; h++)
        for (int64_t i = 0; i < b->in; i++)
            for (int64_t k = 0; k < b->out; k++)
                w[(h * b->in + i) * columns + h * b->out + k] =
                    ((const float *)b->c.data)[h * step[0] + i * by_in + k * by_out];
    SP_TRY(sp_graph_add_constant(m->g, NULL, &t, false, out));
    return sp_match_room(m);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    static const int64_t swap[] = {0, 2, 1, 3};
    blocks b;
    /* 0 x Inf beside the blocks would be NaN */
    if (sp_ctx_strict(m->g->cx) || n->op != SP_OP_MatMul || !find_blocks(m, n, &b)) return SPARTA_OK;
    sp_value *in[] = {b.x, NULL}, *y, *target;
    SP_TRY(diagonal(m, &b, &in[1]));
    SP_TRY(sp_match_add(
        m, SP_OP_Linear, n->name, 2, in,
        SP_ATTRS(SP_INT("transposed", 0), SP_STRING("epilogue", ""), SP_INT("diagonal", b.heads)), &y));
    sp_value *split[] = {y, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, b.heads, b.out}, &split[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, n->name, 2, split, NULL, &y));
    SP_TRY(sp_match_add(m, SP_OP_Transpose, n->name, 1, &y, SP_ATTRS(SP_INTS("perm", 4, swap)), &y));
    SP_TRY(sp_match_reshape_target(m, y, &n->out[0]->dims, &target));
    return target ? sp_match_become(m, n, SP_OP_Reshape, 2, (sp_value *[]){y, target}, NULL) : SPARTA_OK;
}

SP_MATCH_PASS(heads, visit)
