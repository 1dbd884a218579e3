/* gelu: Gelu and Swish from their pieces.
 *
 *     0.5 x (1 + Erf(x / sqrt 2))                               approximate "none"
 *     0.5 x (1 + Tanh(sqrt(2/pi) (x + 0.044715 x^3)))           approximate "tanh"
 *
 * The three factors may be multiplied in any order and grouping. The argument of Erf or Tanh is read as a
 * polynomial in x, so that any way of writing it will do.
 *
 *     x Sigmoid(alpha x)                                        Swish: silu, and CLIP's quick GELU with alpha = 1.702
 */
#include "compile/match.h"
#include "compile/passes.h"
#include <math.h>

enum { DEGREE = 3, FACTORS = 4, DEEPEST = 8 };

typedef struct polynomial {
    double c[DEGREE + 1];
} polynomial;

static bool multiply(const polynomial *a, const polynomial *b, polynomial *out)
{
    polynomial p = {{0}};
    for (int i = 0; i <= DEGREE; i++)
        for (int j = 0; j <= DEGREE; j++) {
            double c = a->c[i] * b->c[j];
            if (c != 0 && i + j > DEGREE) return false;
            if (c != 0) p.c[i + j] += c;
        }
    *out = p;
    return true;
}

static bool raise_to(const polynomial *a, double power, polynomial *out)
{
    polynomial p = {{1}};
    if (power != 2 && power != 3) return false;
    for (int i = 0; i < (int)power; i++)
        if (!multiply(&p, a, &p)) return false;
    *out = p;
    return true;
}

/* v as a polynomial in x, through values that nobody else wants. `depth` bounds the search. */
static bool read_polynomial(const sp_match *m, const sp_value *v, const sp_value *x, int depth,
                            polynomial *out)
{
    polynomial a, b;
    double c;
    *out = (polynomial){{0}};
    if (v == x) {
        out->c[1] = 1;
        return true;
    }
    if (sp_match_scalar(v, &c)) {
        out->c[0] = c;
        return true;
    }
    const sp_node *n = v->producer;
    if (depth == 0 || !n || n->n_in != 2 || !sp_match_once(m, v)) return false;
    if (!read_polynomial(m, n->in[0], x, depth - 1, &a)) return false;
    if (n->op == SP_OP_Pow) return sp_match_scalar(n->in[1], &c) && raise_to(&a, c, out);
    if (!read_polynomial(m, n->in[1], x, depth - 1, &b)) return false;
    if (n->op == SP_OP_Mul) return multiply(&a, &b, out);
    if (n->op == SP_OP_Div) {
        if (!sp_match_scalar(n->in[1], &c) || c == 0) return false;
        b = (polynomial){{1 / c}};
        return multiply(&a, &b, out);
    }
    for (int i = 0; n->op == SP_OP_Add && i <= DEGREE; i++) out->c[i] = a.c[i] + b.c[i];
    return n->op == SP_OP_Add;
}

static bool near(const polynomial *a, const polynomial *b)
{
    for (int i = 0; i <= DEGREE; i++)
        if (!(fabs(a->c[i] - b->c[i]) <= 2e-6 * fabs(b->c[i]))) return false;
    return true;
}

typedef struct product { /* constant times factor[0] times factor[1] ... */
    double constant;
    int n;
    sp_value *factor[FACTORS];
} product;

static bool collect(const sp_match *m, sp_value *v, int depth, product *p)
{
    double c;
    const sp_node *n = v->producer;
    if (sp_match_scalar(v, &c)) {
        p->constant *= c;
        return true;
    }
    bool inside = depth == DEEPEST || sp_match_once(m, v);
    if (depth > 0 && inside && n && n->op == SP_OP_Mul)
        return collect(m, n->in[0], depth - 1, p) && collect(m, n->in[1], depth - 1, p);
    if (depth > 0 && inside && n && n->op == SP_OP_Div && sp_match_scalar(n->in[1], &c) && c != 0) {
        p->constant /= c;
        return collect(m, n->in[0], depth - 1, p);
    }
    if (p->n == FACTORS) return false;
    p->factor[p->n++] = v;
    return true;
}

/* Is v = 1 + f(u) with u the right polynomial in x? Which approximation, or NULL. */
static const char *bell(const sp_match *m, const sp_value *v, const sp_value *x)
{
    static const polynomial erf_of = {{0, 0.70710678118654752, 0, 0}};
    static const polynomial tanh_of = {{0, 0.79788456080286536, 0, 0.79788456080286536 * 0.044715}};
    const sp_node *add = sp_match_made_by(v, SP_OP_Add);
    sp_value *curve;
    double one;
    polynomial u;
    if (!add || !sp_match_once(m, v) || !sp_match_with_scalar(add, &curve, &one) || one != 1) return NULL;
    const sp_node *f = curve->producer;
    if (!f || !sp_match_once(m, curve) || (f->op != SP_OP_Erf && f->op != SP_OP_Tanh)) return NULL;
    if (f->in[0] == x || !read_polynomial(m, f->in[0], x, DEEPEST, &u)) return NULL;
    if (f->op == SP_OP_Erf) return near(&u, &erf_of) ? "none" : NULL;
    return near(&u, &tanh_of) ? "tanh" : NULL;
}

/* n becomes Swish(x) if it is x times a Sigmoid of x or of a multiple of x that nobody else wants. */
static sparta_status swish(sp_match *m, sp_node *n, bool *done)
{
    for (int i = 0; i < 2 && n->op == SP_OP_Mul; i++) {
        sp_value *x = n->in[i], *of;
        const sp_node *f = sp_match_made_by(n->in[1 - i], SP_OP_Sigmoid);
        polynomial u;
        if (!f || !sp_match_once(m, n->in[1 - i]) || !sp_match_same_dims(x, n->out[0])) continue;
        of = f->in[0];
        if (!read_polynomial(m, of, x, DEEPEST, &u) || u.c[0] != 0 || u.c[2] != 0 || u.c[3] != 0) continue;
        if (!isfinite((float)u.c[1]) || u.c[1] == 0) continue;
        *done = true;
        return sp_match_become(m, n, SP_OP_Swish, 1, &x, SP_ATTRS(SP_FLOAT("alpha", (float)u.c[1])));
    }
    return SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    bool done = false;
    if ((n->op != SP_OP_Mul && n->op != SP_OP_Div) || !sp_match_f32(n->out[0])) return SPARTA_OK;
    SP_TRY(swish(m, n, &done));
    if (done) return SPARTA_OK;
    product p = {.constant = 1};
    if (!collect(m, n->out[0], DEEPEST, &p) || p.n != 2 || fabs(p.constant - 0.5) > 1e-6) return SPARTA_OK;
    for (int i = 0; i < 2; i++) {
        sp_value *x = p.factor[i];
        const char *approximate = bell(m, p.factor[1 - i], x);
        if (!approximate || !sp_match_same_dims(x, n->out[0])) continue;
        return sp_match_become(m, n, SP_OP_Gelu, 1, &x, SP_ATTRS(SP_STRING("approximate", approximate)));
    }
    return SPARTA_OK;
}

SP_MATCH_PASS(gelu, visit)
