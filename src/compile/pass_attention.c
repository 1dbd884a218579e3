/* attention: Attention from its products, and from ONNX's operator of that name.
 *
 *     q (B,h,S,e) --*a--\
 *                        MatMul --*c--> cap --> + masks --> Softmax --> MatMul --> (B,h,S,d)
 *     k (B,h,e,T) --*b--/                                             /
 *     v (B,h,T,d) ---------------------------------------------------'        the scale is the product of all scalars on the way
 *
 * becomes  Attention(q', k', v', mask) on (B,S,h*e) and (B,T,h*d) values, with a Transpose and a Reshape before and after
 * it, which simplify then cancels against those that the exporter wrote. On the way from the softmax up to the product there may be, in any
 * order: terms that are added, Where(keep, scores, -inf), and reshapes between (B,h,S,T) and (B*h,S,T). cap is c tanh(x / c).
 * A guard Where(IsNaN(p), 0, p) around the softmax is kept as the attribute nan_to_zero. k and v whose heads are repeated for
 * several heads of q are taken before that (grouped.c); what a mask says of the distance of key and query becomes a window (window.c);
 * what is left of all masks is one sum, which layers that have the same one share. A Sparsify of scores, with the q and k that they are of, before the
 * softmax becomes a Route, whose list of blocks the Attention reads.
 */
#include "compile/grouped.h"
#include "compile/onnx_attention.h"
#include "compile/passes.h"
#include "compile/window.h"
#include <math.h>

enum { DEEPEST = 10, TERMS = 6 };

/* What is added to scores: a value, or (choice) `hidden` where a condition says so. */
typedef struct term {
    sp_value *value, *choice;
    int keeps;     /* which branch of the Where has the scores: 1 or 2 */
    double hidden; /* what the other one puts there */
} term;

typedef struct heads {
    sp_value *q, *k, *v; /* k is (B,h,e,T) */
    sp_value *mask;
    sp_dims scores; /* (B,h,S,T) */
    term term[TERMS];
    int terms;
    double scale, cap, hidden;
    sp_window window;
    bool scaled; /* on the way to the product, by a number or a cap: a term further in would be too */
    bool nan_to_zero;
    const sp_node *sparsify; /* of the scores; NULL: none */
    int64_t n, groups, e, d; /* heads of q, of k and v, the width of q and k, that of v */
} heads;

/* ------------------------------------------------------------------ from the softmax up to the product */

/* Scores that are put so low are lost, whatever they were. One that is no finite number would show: not when strict. */
static bool hides(const sp_match *m, const sp_value *v, double *hidden)
{
    return !sp_ctx_strict(m->g->cx) && sp_match_scalar(v, hidden) && *hidden <= -1e37;
}

/* Look through multiplications with scalars that nobody else wants; v itself is read so many times by those that are asking. */
static sp_value *unscaled(const sp_match *m, sp_value *v, int reads, double *scale)
{
    sp_value *x;
    double c;
    for (int i = 0; i < 4 && v->producer && !v->is_output && sp_match_uses(m, v) == reads; i++, v = x) {
        reads = 1;
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

static bool find_product(const sp_match *m, sp_value *v, heads *h, int depth);

/* One of the inputs first and first + 1 leads to the product, and the other is a term. */
static bool find_beside(const sp_match *m, const sp_node *n, int first, heads *h, int depth)
{
    const sp_value *v = n->out[0];
    const heads before = *h;
    if (v->dims.rank != 3 && !sp_dims_equal(&v->dims, &h->scores))
        return false; /* terms line up with its dims */
    for (int i = first; i < first + 2 && !h->scaled && h->terms < TERMS; i++, *h = before) {
        sp_value *scores = n->in[i], *other = n->in[2 * first + 1 - i];
        term *t = &h->term[h->terms++];
        *t = (term){.value = other};
        if (first) *t = (term){.choice = n->in[0], .keeps = i};
        if (first && !hides(m, other, &t->hidden)) continue;
        if (sp_match_same_dims(scores, v) && find_product(m, scores, h, depth - 1)) return true;
    }
    return false;
}

/* A number times scores, or the end of a cap. */
static bool find_scaled(const sp_match *m, sp_value *v, heads *h, int depth)
{
    double c = 1;
    sp_value *x = unscaled(m, v, 1, &c);
    const sp_node *tanh = sp_match_made_by(x, SP_OP_Tanh);
    const bool first = !h->scaled;
    h->scaled = true;
    h->scale *= c;
    if (!tanh) return x != v && find_product(m, x, h, depth - 1);
    h->cap = c;
    return c > 0 && first && sp_match_once(m, x) && find_product(m, tanh->in[0], h, depth - 1);
}

/* Between (B,h,S,T) and (B*h,S,T). */
static bool regroups(const sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *y = &n->out[0]->dims;
    if (!sp_chain_is_step(n) || n->op == SP_OP_Transpose || x->rank < 3 || y->rank < 3) return false;
    for (int i = 1; i <= 2; i++)
        if (!sp_expr_equal(x->dim[x->rank - i], y->dim[y->rank - i])) return false;
    return true;
}

/* q and k of the product. A Sparsify compares them, too: with another sign it would find others alike. */
static bool find_operands(const sp_match *m, const sp_node *n, heads *h)
{
    const sp_node *s = h->sparsify;
    const int reads = s ? 2 : 1;
    double scale = 1;
    if (s && (s->in[1] != n->in[0] || s->in[2] != n->in[1])) return false;
    h->q = unscaled(m, n->in[0], reads, &scale);
    h->k = unscaled(m, n->in[1], reads, &scale);
    h->scale *= scale;
    return h->q->typed && h->k->typed && (!s || scale > 0);
}

static bool find_product(const sp_match *m, sp_value *v, heads *h, int depth)
{
    sp_node *n = v->producer;
    if (!depth || !n || !v->typed || !sp_match_once(m, v)) return false;
    switch (n->op) {
    case SP_OP_MatMul: return find_operands(m, n, h);
    case SP_OP_Add: return find_beside(m, n, 0, h, depth);
    case SP_OP_Where: return find_beside(m, n, 1, h, depth);
    case SP_OP_Mul:
    case SP_OP_Div:
    case SP_OP_Tanh: return find_scaled(m, v, h, depth);
    default: return regroups(n) && find_product(m, n->in[0], h, depth - 1);
    }
}

/* ------------------------------------------------------------------ shapes */

static bool same(const sp_value *a, int i, const sp_value *b, int j)
{
    return sp_expr_equal(a->dims.dim[i], b->dims.dim[j]);
}

/* x, if any, as (B,h,...) where it is (B*h,...); *opened: it was not, or could be. */
static sparta_status open_heads(sp_match *m, const char *name, const heads *h, sp_value **x, bool *opened)
{
    const sp_expr *both = sp_expr_mul(m->g->arena, h->scores.dim[0], h->scores.dim[1]);
    if (!*x || !*opened || (*x)->dims.rank != 3 || !both || !sp_expr_equal((*x)->dims.dim[0], both))
        return SPARTA_OK;
    const sp_dims dims = {.rank = 4,
                          .dim = {h->scores.dim[0], h->scores.dim[1], (*x)->dims.dim[1], (*x)->dims.dim[2]}};
    SP_TRY(sp_match_reshaped(m, name, &dims, x));
    *opened = *x != NULL;
    return SPARTA_OK;
}

static sparta_status open_all(sp_match *m, const char *name, heads *h, bool *opened)
{
    *opened = true;
    SP_TRY(open_heads(m, name, h, &h->q, opened));
    SP_TRY(open_heads(m, name, h, &h->k, opened));
    for (int i = 0; i < h->terms; i++) {
        SP_TRY(open_heads(m, name, h, &h->term[i].value, opened));
        SP_TRY(open_heads(m, name, h, &h->term[i].choice, opened));
    }
    return SPARTA_OK;
}

/* (B,h,S,e) (B,h,e,T) (B,h,T,d), no broadcasting, h, e and d numbers. */
static bool shapes_fit(heads *h)
{
    if (!sp_match_f32(h->q) || !sp_match_f32(h->k) || !sp_match_f32(h->v)) return false;
    if (h->q->dims.rank != 4 || h->k->dims.rank != 4 || h->v->dims.rank != 4) return false;
    for (int i = 0; i < 2; i++)
        if (!same(h->q, i, h->k, i) || !same(h->q, i, h->v, i) ||
            !sp_expr_equal(h->q->dims.dim[i], h->scores.dim[i]))
            return false;
    if (!sp_expr_is_const(h->q->dims.dim[1], &h->n) || !sp_expr_is_const(h->q->dims.dim[3], &h->e) ||
        !sp_expr_is_const(h->v->dims.dim[3], &h->d))
        return false;
    if (h->n < 1 || h->e < 1 || h->d < 1 || h->n > INT64_MAX / SP_MAX(h->e, h->d)) return false;
    for (int i = 0; i < h->terms; i++)
        if (h->term[i].value && !sp_match_f32(h->term[i].value)) return false;
    return same(h->q, 3, h->k, 2) && same(h->k, 3, h->v, 2);
}

static bool find_heads(const sp_match *m, const sp_node *n, heads *h)
{
    *h = (heads){.scale = 1, .v = n->in[1], .window = {NULL, NULL, -1, -1}, .hidden = -INFINITY};
    sp_value *p = unguarded(m, n->in[0], &h->nan_to_zero);
    const sp_node *softmax = sp_match_made_by(p, SP_OP_Softmax);
    int reads = h->nan_to_zero ? 2 : 1;
    if (!softmax || p->is_output || sp_match_uses(m, p) != reads || p->dims.rank != 4) return false;
    if (sp_match_axis(softmax, -1, 4) != 3) return false;
    h->scores = p->dims;
    h->window.queries = p->dims.dim[2];
    h->window.keys = p->dims.dim[3];
    sp_value *x = softmax->in[0];
    const sp_node *s = sp_match_made_by(x, SP_OP_Sparsify);
    if (s && s->n_in == 3 && sp_match_once(m, x)) {
        h->sparsify = s;
        x = s->in[0];
    }
    return find_product(m, x, h, DEEPEST) && isfinite((float)h->scale);
}

/* ------------------------------------------------------------------ masks */

static sparta_status scalar(sp_match *m, double value, sp_value **out)
{
    float f = (float)value;
    const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 0, NULL, &f);
    return sp_match_constant(m, &t, out);
}

/* A term that is Where(condition, x, hidden), or the other way round. */
static sparta_status as_choice(sp_match *m, term *t, sp_value **x)
{
    const sp_node *where = t->value ? sp_match_made_by(t->value, SP_OP_Where) : NULL;
    *x = NULL;
    if (!where) return t->choice ? scalar(m, 0, x) : SPARTA_OK;
    for (int i = 1; i <= 2; i++)
        if (hides(m, where->in[3 - i], &t->hidden)) {
            t->choice = where->in[0];
            t->keeps = i;
            *x = where->in[i];
            return SPARTA_OK;
        }
    return SPARTA_OK;
}

/* The window that its condition has in it. Where scores are hidden by a finite number, other terms would be added to that. */
static sparta_status take_window(sp_match *m, const char *name, heads *h, term *t, sp_value *x)
{
    bool taken;
    sp_value *rest;
    const bool first = h->window.left < 0 && h->window.right < 0;
    if (!isinf((float)t->hidden) && h->terms > 1) return SPARTA_OK;
    if (!first && (float)h->hidden != (float)t->hidden) return SPARTA_OK;
    SP_TRY(sp_window_take(m, name, t->choice, t->keeps == 2, &h->window, &rest, &taken));
    if (!taken) return SPARTA_OK;
    h->hidden = t->hidden;
    *t = (term){.choice = rest, .keeps = 1, .hidden = t->hidden};
    if (!rest) t->value = x;
    return SPARTA_OK;
}

/* A constant that is no more than a window. */
static void take_constant(const sp_match *m, heads *h, term *t)
{
    sp_window is = h->window;
    double hidden;
    const bool first = h->window.left < 0 && h->window.right < 0;
    if (sp_ctx_strict(m->g->cx) || !t->value || t->choice || !sp_window_is(t->value, &is, &hidden)) return;
    if ((!isinf(hidden) && h->terms > 1) || (!first && (float)h->hidden != (float)hidden)) return;
    h->window = is;
    h->hidden = hidden;
    t->value = NULL;
}

/* Term i as a value to add, NULL: nothing. */
static sparta_status add_term(sp_match *m, const char *name, heads *h, int i)
{
    term *t = &h->term[i];
    sp_value *x, *given;
    double zero;
    SP_TRY(sp_check_cancel(m->g->cx)); /* a constant is read whole */
    take_constant(m, h, t);
    if (!t->value && !t->choice) return SPARTA_OK;
    given = t->value;
    SP_TRY(as_choice(m, t, &x));
    const sp_value *condition = t->choice;
    if (condition) SP_TRY(take_window(m, name, h, t, x));
    if (t->choice && (t->choice != condition || !given)) {
        sp_value *in[] = {t->choice, x, x};
        SP_TRY(scalar(m, t->hidden, &in[3 - t->keeps]));
        SP_TRY(sp_match_add(m, SP_OP_Where, name, 3, in, NULL, &t->value));
    }
    if (t->value && sp_match_scalar(t->value, &zero) && zero == 0) t->value = NULL;
    if (t->value) SP_TRY(sp_mask_of_some(m, name, &t->value));
    if (!t->value) return SPARTA_OK;
    sp_value *in[] = {h->mask, t->value};
    h->mask = t->value;
    return in[0] ? sp_match_add(m, SP_OP_Add, name, 2, in, NULL, &h->mask) : SPARTA_OK;
}

/* ------------------------------------------------------------------ the node */

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

/* x itself where it only was taken apart and put together again, without a number that it was multiplied with before that. */
static void unscale(sp_match *m, sp_value **x, double *scale)
{
    sp_chain c;
    if (sp_chain_of(m, *x, &c) && sp_chain_is_base(&c)) *x = unscaled(m, c.base, 1, scale);
}

/* The list of what a Sparsify of the scores leaves, as q, k and mask of the attention say it. */
static sparta_status write_route(sp_match *m, const sp_node *n, const heads *h, sp_value **list)
{
    const sp_attrs *said = &h->sparsify->attrs;
    sp_attr attr[] = {SP_INT("heads", h->n),
                      SP_INT("kv_heads", h->groups),
                      SP_INT("block", sp_attr_int(said, "block", 1)),
                      SP_INT("keep", sp_attr_int(said, "keep", 1)),
                      SP_INT("own", sp_attr_int(said, "own", 0)),
                      SP_INT("left", h->window.left),
                      SP_INT("right", h->window.right)};
    sp_value *in[] = {h->q, h->k, h->mask};
    const char *name = sp_arena_printf(m->g->arena, "%s/Route", n->name);
    SP_NEED(m->g->cx, name);
    return sp_match_add(m, SP_OP_Route, name, h->mask ? 3 : 2, in, &(sp_attrs){SP_COUNT(attr), attr}, list);
}

static sparta_status write(sp_match *m, sp_node *n, heads *h)
{
    static const int64_t swap[] = {0, 2, 1, 3}, from_columns[] = {0, 3, 1, 2};
    sp_value *y;
    double scale = 1;
    sp_attr attr[9] = {SP_INT("heads", h->n)};
    sp_attrs attrs = {1, attr};
    SP_TRY(sp_ungroup(m, n->name, h->n, &h->k, &h->v, &h->groups));
    SP_TRY(side_by_side(m, n->name, h->n * h->e, swap, &h->q));
    SP_TRY(side_by_side(m, n->name, h->groups * h->e, from_columns, &h->k));
    SP_TRY(side_by_side(m, n->name, h->groups * h->d, swap, &h->v));
    sp_value *as_they_are[] = {h->q, h->k};
    unscale(m, &h->q, &scale);
    unscale(m, &h->k, &scale);
    if (h->sparsify && !(scale > 0)) h->q = as_they_are[0], h->k = as_they_are[1], scale = 1;
    h->scale *= scale;
    attr[attrs.n++] = (sp_attr)SP_FLOAT("scale", (float)h->scale);
    if (h->groups != h->n) attr[attrs.n++] = (sp_attr)SP_INT("kv_heads", h->groups);
    if (h->cap > 0) attr[attrs.n++] = (sp_attr)SP_FLOAT("softcap", (float)h->cap);
    if (h->window.left >= 0) attr[attrs.n++] = (sp_attr)SP_INT("left", h->window.left);
    if (h->window.right >= 0) attr[attrs.n++] = (sp_attr)SP_INT("right", h->window.right);
    if (!isinf((float)h->hidden)) attr[attrs.n++] = (sp_attr)SP_FLOAT("hidden", (float)h->hidden);
    if (h->nan_to_zero) attr[attrs.n++] = (sp_attr)SP_INT("nan_to_zero", 1);
    sp_value *in[] = {h->q, h->k, h->v, h->mask, NULL};
    int n_in = h->mask ? 4 : 3;
    if (h->sparsify) {
        attr[attrs.n++] = (sp_attr)SP_INT("block", sp_attr_int(&h->sparsify->attrs, "block", 1));
        SP_TRY(write_route(m, n, h, &in[4]));
        n_in = 5;
    }
    SP_TRY(sp_match_add(m, SP_OP_Attention, n->name, n_in, in, &attrs, &y));
    sp_value *split[] = {y, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, h->n, h->d}, &split[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, n->name, 2, split, NULL, &y));
    return sp_match_become(m, n, SP_OP_Transpose, 1, &y, SP_ATTRS(SP_INTS("perm", 4, swap)));
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    heads h;
    bool opened;
    if (n->op == SP_OP_OnnxAttention) return sp_attention_of_onnx(m, n);
    if (n->op != SP_OP_MatMul || !find_heads(m, n, &h)) return SPARTA_OK;
    SP_TRY(open_all(m, n->name, &h, &opened));
    if (!opened || !shapes_fit(&h)) return SPARTA_OK;
    for (int i = 0; i < h.terms; i++) SP_TRY(add_term(m, n->name, &h, i));
    return write(m, n, &h);
}

sparta_status sp_pass_attention(sp_graph *g)
{
    SP_TRY(sp_match_run(g, sp_attention_of_torch, NULL));
    return sp_match_run(g, visit, NULL);
}
