/* window.c: comparisons of indices of keys and queries, and what else stands in a condition; windows in constant masks. */
#include "compile/window.h"
#include "compile/chain.h"
#include <math.h>

enum { DEEPEST = 8, RESTS = 8, FARTHEST = 1 << 30 };

/* ------------------------------------------------------------------ indices */

typedef struct form { /* place * p + key * k + c, p being the place of the query among the keys */
    int place, key;
    const sp_expr *c;
} form;

/* The one axis that is not 1, counted from the end; 0: there is none, or there are several. */
static int only_axis(const sp_value *v)
{
    int found = 0;
    for (int i = 0; i < v->dims.rank; i++) {
        if (sp_expr_is(v->dims.dim[i], 1)) continue;
        if (found) return 0;
        found = v->dims.rank - i;
    }
    return found;
}

/* The Range that v is, reshaped in any way: with one axis that counts, its elements stay in order. */
static const sp_node *range_of(const sp_value *v)
{
    for (int i = 0; i < DEEPEST && v->producer; i++) {
        const sp_node *n = v->producer;
        const bool whole = n->op == SP_OP_Cast && n->in[0]->typed && !sp_dtype_is_float(n->in[0]->dtype);
        if (n->op == SP_OP_Range) return n;
        if (!whole && !sp_chain_is_step(n)) return NULL;
        v = n->in[0];
    }
    return NULL;
}

static bool index_form(const sp_match *m, const sp_window *w, const sp_value *v, form *out)
{
    const int axis = only_axis(v);
    const sp_node *range = axis == 1 || axis == 2 ? range_of(v) : NULL;
    const sp_expr *size = axis ? v->dims.dim[v->dims.rank - axis] : NULL;
    if (!range || !range->in[0]->ints || range->in[0]->n_ints != 1 || !sp_match_is(range->in[2], 1))
        return false;
    const sp_expr *start = range->in[0]->ints[0];
    if (!sp_expr_equal(size, axis == 1 ? w->keys : w->queries)) return false;
    *out = (form){axis == 2, axis == 1, start};
    if (axis == 1) return true;
    out->c = sp_expr_add(m->g->arena, start, w->queries); /* a query's index is its place - K + Q */
    if (out->c) out->c = sp_expr_sub(m->g->arena, out->c, w->keys);
    return out->c != NULL;
}

static bool form_of(const sp_match *m, const sp_window *w, const sp_value *v, int depth, form *out)
{
    const sp_node *n = v->producer;
    form a, b = {0};
    if (!depth || !v->typed || sp_dtype_is_float(v->dtype)) return false;
    if (v->ints && v->n_ints == 1) {
        *out = (form){0, 0, v->ints[0]};
        return true;
    }
    if (!n || (n->op != SP_OP_Add && n->op != SP_OP_Sub)) return index_form(m, w, v, out);
    if (!form_of(m, w, n->in[0], depth - 1, &a) || !form_of(m, w, n->in[1], depth - 1, &b)) return false;
    const int sign = n->op == SP_OP_Add ? 1 : -1;
    *out = (form){a.place + sign * b.place, a.key + sign * b.key,
                  sign > 0 ? sp_expr_add(m->g->arena, a.c, b.c) : sp_expr_sub(m->g->arena, a.c, b.c)};
    return out->c != NULL;
}

/* f <= limit, as a limit of the window. */
static bool narrow(sp_window *w, const form *f, int64_t limit)
{
    int64_t c, by;
    if (f->place + f->key != 0 || f->key * f->key != 1 || !sp_expr_is_const(f->c, &c)) return false;
    if (limit > FARTHEST || c > FARTHEST || c < -FARTHEST || (by = limit - c) < 0) return false;
    int64_t *side = f->key > 0 ? &w->right : &w->left;
    *side = *side < 0 ? by : SP_MIN(*side, by);
    return true;
}

/* A comparison (`negated`: that it does not hold) of keys and queries. */
static bool compare(const sp_match *m, const sp_node *n, bool negated, sp_window *w)
{
    if (!SP_OP_AMONG(n->op, SP_OP_Less, SP_OP_LessOrEqual, SP_OP_Greater, SP_OP_GreaterOrEqual)) return false;
    const bool swap = SP_OP_AMONG(n->op, SP_OP_Greater, SP_OP_GreaterOrEqual) != negated;
    const bool strict = SP_OP_AMONG(n->op, SP_OP_Less, SP_OP_Greater) != negated;
    const sp_value *low = n->in[swap], *high = n->in[!swap];
    const sp_node *size = sp_match_made_by(low, SP_OP_Abs);
    form a, b;
    int64_t limit;
    sp_window both = *w;
    if (!form_of(m, w, high, DEEPEST, &b)) return false;
    if (!size) {
        if (!form_of(m, w, low, DEEPEST, &a)) return false;
        const form f = {a.place - b.place, a.key - b.key, sp_expr_sub(m->g->arena, a.c, b.c)};
        return f.c && narrow(w, &f, strict ? -1 : 0);
    }
    if (!form_of(m, w, size->in[0], DEEPEST, &a) || b.place || b.key || !sp_expr_is_const(b.c, &limit))
        return false;
    const sp_expr *zero = sp_expr_const(m->g->arena, 0);
    const form minus = {-a.place, -a.key, zero ? sp_expr_sub(m->g->arena, zero, a.c) : NULL};
    if (!minus.c || !narrow(&both, &a, limit - strict) || !narrow(&both, &minus, limit - strict))
        return false;
    *w = both;
    return true;
}

/* ------------------------------------------------------------------ conditions */

typedef struct rest {
    sp_value *v[RESTS];
    bool negated[RESTS];
    int n;
} rest;

/* v without dims of size 1 that were put before its last two. */
static const sp_value *inner(const sp_value *v)
{
    for (int i = 0; i < DEEPEST && v->producer && sp_chain_is_step(v->producer); i++) {
        const sp_value *x = v->producer->in[0];
        if (v->producer->op == SP_OP_Transpose || x->dims.rank < 2) break;
        for (int k = 1; k <= SP_MAX(x->dims.rank, v->dims.rank); k++) {
            const sp_expr *a = k <= x->dims.rank ? x->dims.dim[x->dims.rank - k] : NULL,
                          *b = k <= v->dims.rank ? v->dims.dim[v->dims.rank - k] : NULL;
            if (a && b ? !sp_expr_equal(a, b) : !sp_expr_is(a ? a : b, 1)) return v;
        }
        v = x;
    }
    return v;
}

/* True in every element? */
static bool always(const sp_value *v)
{
    double c;
    for (int i = 0;
         i < DEEPEST && v->producer && (sp_chain_is_step(v->producer) || v->producer->op == SP_OP_Expand);
         i++)
        v = v->producer->in[0];
    return sp_match_scalar(v, &c) && c != 0;
}

static bool collect(const sp_match *m, sp_value *v, bool negated, int depth, sp_window *w, rest *r)
{
    const sp_node *n = v->producer;
    if (depth && n && n->op == SP_OP_Not) return collect(m, n->in[0], !negated, depth - 1, w, r);
    if (depth && n && n->op == (negated ? SP_OP_Or : SP_OP_And))
        return collect(m, n->in[0], negated, depth - 1, w, r) &&
               collect(m, n->in[1], negated, depth - 1, w, r);
    const sp_value *within = inner(v);
    if (within->producer && compare(m, within->producer, negated, w)) return true;
    if (!negated && always(v)) return true;
    if (r->n == RESTS) return false;
    r->v[r->n] = v;
    r->negated[r->n++] = negated;
    return true;
}

sparta_status sp_window_take(sp_match *m, const char *name, sp_value *condition, bool hides, sp_window *w,
                             sp_value **out, bool *taken)
{
    sp_window narrower = *w;
    rest r = {0};
    *taken = collect(m, condition, hides, DEEPEST, &narrower, &r) &&
             (narrower.left != w->left || narrower.right != w->right);
    *out = NULL;
    if (!*taken) return SPARTA_OK;
    *w = narrower;
    for (int i = 0; i < r.n; i++) {
        sp_value *in[] = {*out, r.v[i]};
        if (r.negated[i]) SP_TRY(sp_match_add(m, SP_OP_Not, name, 1, &in[1], NULL, &in[1]));
        *out = in[1];
        if (in[0]) SP_TRY(sp_match_add(m, SP_OP_And, name, 2, in, NULL, out));
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ constants */

typedef struct plane { /* a mask of all items and heads, one plane after the other */
    const sparta_tensor *t;
    int64_t planes, queries, keys;
} plane;

static bool plane_of(const sp_value *mask, const sp_window *w, plane *p)
{
    const sparta_tensor *t = mask->constant;
    if (!t || t->rank < 2 || !sp_tensor_contiguous(t) || sparta_tensor_elements(t) < 1) return false;
    *p = (plane){t, 1, t->dim[t->rank - 2], t->dim[t->rank - 1]};
    for (int i = 0; i + 2 < t->rank; i++) p->planes *= t->dim[i];
    return (t->dtype == SPARTA_BOOL || t->dtype == SPARTA_F32) && sp_expr_is(w->queries, p->queries) &&
           sp_expr_is(w->keys, p->keys);
}

/* What hides key t of query s; 0: nothing does. */
static double hidden_by(const plane *p, int64_t of, int64_t s, int64_t t)
{
    const double x = sp_element_get(p->t->dtype, p->t->data, (of * p->queries + s) * p->keys + t);
    return p->t->dtype != SPARTA_BOOL ? x : x != 0 ? 0 : -INFINITY;
}

/* How far the farthest key before and after its place is that some query sees. */
static void reach(const plane *p, int64_t *left, int64_t *right)
{
    *left = *right = 0;
    for (int64_t s = 0; s < p->queries; s++)
        for (int64_t t = 0; t < p->keys; t++) {
            const int64_t after = t - (s + p->keys - p->queries);
            if (hidden_by(p, 0, s, t) != 0) continue;
            *left = SP_MAX(*left, -after);
            *right = SP_MAX(*right, after);
        }
}

bool sp_window_is(const sp_value *mask, sp_window *w, double *hidden)
{
    plane p;
    int64_t left, right;
    bool some = false;
    if (!plane_of(mask, w, &p)) return false;
    reach(&p, &left, &right);
    double low = -INFINITY;
    for (int64_t of = 0; of < p.planes; of++)
        for (int64_t s = 0; s < p.queries; s++)
            for (int64_t t = 0; t < p.keys; t++) {
                const int64_t after = t - (s + p.keys - p.queries);
                const double x = hidden_by(&p, of, s, t);
                const bool seen = after <= right && -after <= left;
                if (seen ? x != 0 : !(x <= -1e37) || (some && x != low)) return false;
                if (!seen) low = x, some = true;
            }
    if (left < p.keys - 1) w->left = w->left < 0 ? left : SP_MIN(w->left, left);
    if (right < p.queries - 1) w->right = w->right < 0 ? right : SP_MIN(w->right, right);
    *hidden = low;
    return true;
}
