/* attention: Attention from its products.
 *
 *     q (B,h,S,e) --*a--\
 *                        MatMul --*c--> + mask --> Softmax --> MatMul --> (B,h,S,d)
 *     k (B,h,e,T) --*b--/                                    /
 *     v (B,h,T,d) ------------------------------------------'        the scale is the product of all scalars on the way
 *
 * becomes  Attention(q', k', v', mask) on (B,S,h*e) and (B,T,h*d) values, with a Transpose and a Reshape before and after
 * it, which simplify then cancels against those that the exporter wrote. The mask is added; Where(keep,
 * scores, -inf) is turned into an added one. A guard Where(IsNaN(p), 0, p) around the softmax is kept as the
 * attribute nan_to_zero.
 */
#include "compile/match.h"
#include "compile/passes.h"
#include <math.h>

typedef struct heads {
    sparta_value *q, *k, *v, *mask; /* k is (B,h,e,T) */
    sparta_value *choice;           /* of the Where form, its condition */
    int keeps;                      /* which of its branches has the scores: 1 or 2 */
    double hidden;                  /* what the other one puts there */
    double scale;
    bool nan_to_zero;
    int64_t n, e, d; /* heads, the width of q and k, that of v */
} heads;

/* Look through multiplications with scalars that nobody else wants. */
static sparta_value *unscaled(const sparta_match *m, sparta_value *v, double *scale)
{
    sparta_value *x;
    double c;
    for (int i = 0; i < 4 && v->producer && sparta_match_once(m, v); i++, v = x) {
        const sparta_node *n = v->producer;
        if (n->op != SPARTA_OP_Mul && n->op != SPARTA_OP_Div) break;
        if (!sparta_match_with_scalar(n, &x, &c) || !sparta_match_same_dims(x, v)) break;
        if (n->op == SPARTA_OP_Div && (x != n->in[0] || c == 0)) break;
        *scale = n->op == SPARTA_OP_Mul ? *scale * c : *scale / c;
    }
    return v;
}

/* The softmax p inside of Where(IsNaN(p), 0, p), or v itself. */
static sparta_value *unguarded(const sparta_match *m, sparta_value *v, bool *guarded)
{
    const sparta_node *where = sparta_match_made_by(v, SPARTA_OP_Where);
    double zero;
    *guarded = false;
    if (!where || !sparta_match_once(m, v) || !sparta_match_scalar(where->in[1], &zero) || zero != 0)
        return v;
    const sparta_node *is_nan = sparta_match_made_by(where->in[0], SPARTA_OP_IsNaN);
    if (!is_nan || is_nan->in[0] != where->in[2] || !sparta_match_once(m, where->in[0])) return v;
    *guarded = true;
    return where->in[2];
}

/* Where(keep, scores, -inf) or Where(hide, -inf, scores). Also when it is not quite -inf, but so low that a
 * score is lost in the sum, whatever it was. A score that is no finite number would show: not when strict. */
static sparta_value *unchosen(const sparta_match *m, const sparta_node *where, heads *h)
{
    for (int i = 1; i <= 2 && !sparta_ctx_strict(m->g->cx); i++) {
        if (!sparta_match_scalar(where->in[3 - i], &h->hidden) || !(h->hidden <= -1e37)) continue;
        if (!sparta_match_same_dims(where->in[i], where->out[0])) continue;
        h->choice = where->in[0];
        h->keeps = i;
        return where->in[i];
    }
    return where->out[0];
}

/* The scores before the mask. */
static sparta_value *unmasked(const sparta_match *m, sparta_value *v, heads *h)
{
    const sparta_node *n = v->producer;
    if (!n || !sparta_match_once(m, v)) return v;
    if (n->op == SPARTA_OP_Where) return unchosen(m, n, h);
    if (n->op != SPARTA_OP_Add) return v;
    for (int i = 0; i < 2; i++) {
        double ignored = 1;
        sparta_value *scores = n->in[i];
        if (!sparta_match_made_by(unscaled(m, scores, &ignored), SPARTA_OP_MatMul) ||
            !sparta_match_same_dims(scores, v))
            continue;
        h->mask = n->in[1 - i];
        return scores;
    }
    return v;
}

static bool same(const sparta_value *a, int i, const sparta_value *b, int j)
{
    return sparta_expr_equal(a->dims.dim[i], b->dims.dim[j]);
}

/* (B,h,S,e) (B,h,e,T) (B,h,T,d), no broadcasting, h, e and d numbers. */
static bool shapes_fit(heads *h)
{
    if (!sparta_match_f32(h->q) || !sparta_match_f32(h->k) || !sparta_match_f32(h->v)) return false;
    if (h->q->dims.rank != 4 || h->k->dims.rank != 4 || h->v->dims.rank != 4) return false;
    for (int i = 0; i < 2; i++)
        if (!same(h->q, i, h->k, i) || !same(h->q, i, h->v, i)) return false;
    if (!sparta_expr_is_const(h->q->dims.dim[1], &h->n) || !sparta_expr_is_const(h->q->dims.dim[3], &h->e) ||
        !sparta_expr_is_const(h->v->dims.dim[3], &h->d))
        return false;
    if (h->n < 1 || h->e < 1 || h->d < 1 || h->n > INT64_MAX / SPARTA_MAX(h->e, h->d)) return false;
    if (h->mask && (!sparta_match_f32(h->mask) || h->mask->dims.rank > 4)) return false;
    return same(h->q, 3, h->k, 2) && same(h->k, 3, h->v, 2);
}

static bool find_heads(const sparta_match *m, const sparta_node *n, heads *h)
{
    *h = (heads){.scale = 1, .v = n->in[1]};
    sparta_value *p = unguarded(m, n->in[0], &h->nan_to_zero);
    const sparta_node *softmax = sparta_match_made_by(p, SPARTA_OP_Softmax);
    int reads = h->nan_to_zero ? 2 : 1;
    if (!softmax || p->is_output || sparta_match_uses(m, p) != reads || p->dims.rank != 4) return false;
    if (sparta_match_axis(softmax, -1, 4) != 3) return false;
    sparta_value *scores = unscaled(m, unmasked(m, softmax->in[0], h), &h->scale);
    const sparta_node *product = sparta_match_made_by(scores, SPARTA_OP_MatMul);
    if (!product || !sparta_match_once(m, scores)) return false;
    h->q = unscaled(m, product->in[0], &h->scale);
    h->k = unscaled(m, product->in[1], &h->scale);
    return isfinite((float)h->scale) && shapes_fit(h);
}

/* The Where form as a mask to add: 0 for scores that count, what was there for the others. */
static sparta_status added_mask(sparta_match *m, const char *name, heads *h)
{
    float value[3] = {0};
    sparta_value *in[] = {h->choice, NULL, NULL};
    if (!h->choice) return SPARTA_OK;
    value[3 - h->keeps] = (float)h->hidden;
    for (int i = 1; i <= 2; i++) {
        sparta_tensor t = sparta_tensor_view(SPARTA_F32, 0, NULL, &value[i]);
        SPARTA_TRY(sparta_graph_add_constant(m->g, NULL, &t, true, &in[i]));
    }
    SPARTA_TRY(sparta_match_room(m));
    return sparta_match_add(m, SPARTA_OP_Where, name, 3, in, NULL, &h->mask);
}

/* A value of four dims as (B, rows, columns): moved by perm to (B, rows, h, d), then the heads put side by side.
 */
static sparta_status side_by_side(sparta_match *m, const char *name, int64_t columns, const int64_t *perm,
                                  sparta_value **x)
{
    SPARTA_TRY(
        sparta_match_add(m, SPARTA_OP_Transpose, name, 1, x, SPARTA_ATTRS(SPARTA_INTS("perm", 4, perm)), x));
    sparta_value *in[] = {*x, NULL};
    SPARTA_TRY(sparta_match_constant_ints(m, 3, (int64_t[]){0, 0, columns}, &in[1]));
    return sparta_match_add(m, SPARTA_OP_Reshape, name, 2, in, NULL, x);
}

static sparta_status visit(sparta_match *m, sparta_node *n, void *arg)
{
    static const int64_t swap[] = {0, 2, 1, 3}, from_columns[] = {0, 3, 1, 2};
    heads h;
    sparta_value *y;
    (void)arg;
    if (n->op != SPARTA_OP_MatMul || !find_heads(m, n, &h)) return SPARTA_OK;
    SPARTA_TRY(added_mask(m, n->name, &h));
    SPARTA_TRY(side_by_side(m, n->name, h.n * h.e, swap, &h.q));
    SPARTA_TRY(side_by_side(m, n->name, h.n * h.e, from_columns, &h.k));
    SPARTA_TRY(side_by_side(m, n->name, h.n * h.d, swap, &h.v));
    sparta_attr attr[] = {SPARTA_INT("heads", h.n), SPARTA_FLOAT("scale", (float)h.scale),
                          SPARTA_INT("nan_to_zero", 1)};
    sparta_attrs attrs = {h.nan_to_zero ? 3 : 2, attr};
    sparta_value *in[] = {h.q, h.k, h.v, h.mask};
    SPARTA_TRY(sparta_match_add(m, SPARTA_OP_Attention, n->name, h.mask ? 4 : 3, in, &attrs, &y));
    sparta_value *split[] = {y, NULL};
    SPARTA_TRY(sparta_match_constant_ints(m, 4, (int64_t[]){0, 0, h.n, h.d}, &split[1]));
    SPARTA_TRY(sparta_match_add(m, SPARTA_OP_Reshape, n->name, 2, split, NULL, &y));
    return sparta_match_become(m, n, SPARTA_OP_Transpose, 1, &y, SPARTA_ATTRS(SPARTA_INTS("perm", 4, swap)));
}

sparta_status sparta_pass_attention(sparta_graph *g)
{
    return sparta_match_run(g, visit, NULL);
}
