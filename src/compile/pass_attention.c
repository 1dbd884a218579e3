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
    sp_value *q, *k, *v, *mask; /* k is (B,h,e,T) */
    sp_value *choice;           /* of the Where form, its condition */
    int keeps;                  /* which of its branches has the scores: 1 or 2 */
    double hidden;              /* what the other one puts there */
    double scale;
    bool nan_to_zero;
    int64_t n, e, d; /* heads, the width of q and k, that of v */
} heads;

/* Look through multiplications with scalars that nobody else wants. */
static sp_value *unscaled(const sp_match *m, sp_value *v, double *scale)
{
    sp_value *x;
    double c;
    for (int i = 0; i < 4 && v->producer && sp_match_once(m, v); i++, v = x) {
        const sp_node *n = v->producer;
        if (n->op != SP_OP_Mul && n->op != SP_OP_Div) break;
        if (!sp_match_with_scalar(n, &x, &c) || !sp_match_same_dims(x, v)) break;
        if (n->op == SP_OP_Div && (x != n->in[0] || c == 0)) break;
        *scale = n->op == SP_OP_Mul ? *scale * c : *scale / c;
    }
    return v;
}

/* The softmax p inside of Where(IsNaN(p), 0, p), or v itself. */
static sp_value *unguarded(const sp_match *m, sp_value *v, bool *guarded)
{
    const sp_node *where = sp_match_made_by(v, SP_OP_Where);
    double zero;
    *guarded = false;
    if (!where || !sp_match_once(m, v) || !sp_match_scalar(where->in[1], &zero) || zero != 0) return v;
    const sp_node *is_nan = sp_match_made_by(where->in[0], SP_OP_IsNaN);
    if (!is_nan || is_nan->in[0] != where->in[2] || !sp_match_once(m, where->in[0])) return v;
    *guarded = true;
    return where->in[2];
}

/* Where(keep, scores, -inf) or Where(hide, -inf, scores). Also when it is not quite -inf, but so low that a
 * score is lost in the sum, whatever it was. A score that is no finite number would show: not when strict. */
static sp_value *unchosen(const sp_match *m, const sp_node *where, heads *h)
{
    for (int i = 1; i <= 2 && !sp_ctx_strict(m->g->cx); i++) {
        if (!sp_match_scalar(where->in[3 - i], &h->hidden) || !(h->hidden <= -1e37)) continue;
        if (!sp_match_same_dims(where->in[i], where->out[0])) continue;
        h->choice = where->in[0];
        h->keeps = i;
        return where->in[i];
    }
    return where->out[0];
}

/* The scores before the mask. */
static sp_value *unmasked(const sp_match *m, sp_value *v, heads *h)
{
    const sp_node *n = v->producer;
    if (!n || !sp_match_once(m, v)) return v;
    if (n->op == SP_OP_Where) return unchosen(m, n, h);
    if (n->op != SP_OP_Add) return v;
    for (int i = 0; i < 2; i++) {
        double ignored = 1;
        sp_value *scores = n->in[i];
        if (!sp_match_made_by(unscaled(m, scores, &ignored), SP_OP_MatMul) || !sp_match_same_dims(scores, v))
            continue;
        h->mask = n->in[1 - i];
        return scores;
    }
    return v;
}

static bool same(const sp_value *a, int i, const sp_value *b, int j)
{
    return sp_expr_equal(a->dims.dim[i], b->dims.dim[j]);
}

/* (B,h,S,e) (B,h,e,T) (B,h,T,d), no broadcasting, h, e and d numbers. */
static bool shapes_fit(heads *h)
{
    if (!sp_match_f32(h->q) || !sp_match_f32(h->k) || !sp_match_f32(h->v)) return false;
    if (h->q->dims.rank != 4 || h->k->dims.rank != 4 || h->v->dims.rank != 4) return false;
    for (int i = 0; i < 2; i++)
        if (!same(h->q, i, h->k, i) || !same(h->q, i, h->v, i)) return false;
    if (!sp_expr_is_const(h->q->dims.dim[1], &h->n) || !sp_expr_is_const(h->q->dims.dim[3], &h->e) ||
        !sp_expr_is_const(h->v->dims.dim[3], &h->d))
        return false;
    if (h->n < 1 || h->e < 1 || h->d < 1 || h->n > INT64_MAX / SP_MAX(h->e, h->d)) return false;
    if (h->mask && (!sp_match_f32(h->mask) || h->mask->dims.rank > 4)) return false;
    return same(h->q, 3, h->k, 2) && same(h->k, 3, h->v, 2);
}

static bool find_heads(const sp_match *m, const sp_node *n, heads *h)
{
    *h = (heads){.scale = 1, .v = n->in[1]};
    sp_value *p = unguarded(m, n->in[0], &h->nan_to_zero);
    const sp_node *softmax = sp_match_made_by(p, SP_OP_Softmax);
    int reads = h->nan_to_zero ? 2 : 1;
    if (!softmax || p->is_output || sp_match_uses(m, p) != reads || p->dims.rank != 4) return false;
    if (sp_match_axis(softmax, -1, 4) != 3) return false;
    sp_value *scores = unscaled(m, unmasked(m, softmax->in[0], h), &h->scale);
    const sp_node *product = sp_match_made_by(scores, SP_OP_MatMul);
    if (!product || !sp_match_once(m, scores)) return false;
    h->q = unscaled(m, product->in[0], &h->scale);
    h->k = unscaled(m, product->in[1], &h->scale);
    return isfinite((float)h->scale) && shapes_fit(h);
}

/* The Where form as a mask to add: 0 for scores that count, what was there for the others. */
static sparta_status added_mask(sp_match *m, const char *name, heads *h)
{
    float value[3] = {0};
    sp_value *in[] = {h->choice, NULL, NULL};
    if (!h->choice) return SPARTA_OK;
    value[3 - h->keeps] = (float)h->hidden;
    for (int i = 1; i <= 2; i++) {
        sparta_tensor t = sparta_tensor_view(SPARTA_F32, 0, NULL, &value[i]);
        SP_TRY(sp_match_constant(m, &t, &in[i]));
    }
    return sp_match_add(m, SP_OP_Where, name, 3, in, NULL, &h->mask);
}

/* A value of four dims as (B, rows, columns): moved by perm to (B, rows, h, d), then the heads put side by side.
 */
static sparta_status side_by_side(sp_match *m, const char *name, int64_t columns, const int64_t *perm,
                                  sp_value **x)
{
    SP_TRY(sp_match_add(m, SP_OP_Transpose, name, 1, x, SP_ATTRS(SP_INTS("perm", 4, perm)), x));
    sp_value *in[] = {*x, NULL};
    SP_TRY(sp_match_constant_ints(m, 3, (int64_t[]){0, 0, columns}, &in[1]));
    return sp_match_add(m, SP_OP_Reshape, name, 2, in, NULL, x);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    static const int64_t swap[] = {0, 2, 1, 3}, from_columns[] = {0, 3, 1, 2};
    heads h;
    sp_value *y;
    if (n->op != SP_OP_MatMul || !find_heads(m, n, &h)) return SPARTA_OK;
    SP_TRY(added_mask(m, n->name, &h));
    SP_TRY(side_by_side(m, n->name, h.n * h.e, swap, &h.q));
    SP_TRY(side_by_side(m, n->name, h.n * h.e, from_columns, &h.k));
    SP_TRY(side_by_side(m, n->name, h.n * h.d, swap, &h.v));
    sp_attr attr[] = {SP_INT("heads", h.n), SP_FLOAT("scale", (float)h.scale), SP_INT("nan_to_zero", 1)};
    sp_attrs attrs = {h.nan_to_zero ? 3 : 2, attr};
    sp_value *in[] = {h.q, h.k, h.v, h.mask};
    SP_TRY(sp_match_add(m, SP_OP_Attention, n->name, h.mask ? 4 : 3, in, &attrs, &y));
    sp_value *split[] = {y, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, h.n, h.d}, &split[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, n->name, 2, split, NULL, &y));
    return sp_match_become(m, n, SP_OP_Transpose, 1, &y, SP_ATTRS(SP_INTS("perm", 4, swap)));
}

SP_MATCH_PASS(attention, visit)
