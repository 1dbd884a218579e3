/* onnx_attention.c: ONNX's Attention as ours, where nobody reads its scores and it has no lengths of its own.
 *
 *     past (B,g,P,e) ----------------------------------\
 *     k (B,S,g*e) --Reshape, Transpose--> (B,g,S,e) ---- Concat --> present (B,g,P+S,e), which ours attends to as it lies
 *
 * Its causal mask counts queries from the end of the past, ours from the last key: they are the same when there are as many new keys as queries. A
 * mask of bools is added as 0 and -inf; one that is shorter than the keys is left. What a mask says of the distance of key and query becomes a window
 * (window.c), and heads of k and v that were repeated for those of q are taken before that (grouped.c).
 *
 *     mask --ReduceMax (bools), or Greater(ReduceMax, -inf)--\
 *     Attention(q, k, v, mask) ------------------------------ Where --> y         a query that sees no key gets 0, where ONNX has NaN: nan_to_zero=2
 *     0 ----------------------------------------------------/
 *
 * There the file asks the mask, and ours the scores: not when strict. Queries of NaN that see no key get NaN instead of 0, those whose scores are all -inf
 * without the mask 0 instead of NaN.
 */
#include "compile/onnx_attention.h"
#include "compile/grouped.h"
#include "compile/window.h"
#include "ops/ops.h"
#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD }; /* inputs */
enum { Y, PRESENT_K, PRESENT_V, SCORES };       /* outputs */

typedef struct form {
    bool four; /* (B,h,S,e), otherwise (B,S,h*e) */
    bool past;
    const sp_expr *queries, *keys; /* new ones */
    const sp_expr *total;          /* keys, with those of the past */
    int64_t heads, groups, e, d;
} form;

static bool count(const sp_expr *x, int64_t *out)
{
    return sp_expr_is_const(x, out) && *out > 0;
}

static bool form_of(const sp_node *n, form *f)
{
    const sp_dims *q = &n->in[Q]->dims, *k = &n->in[K]->dims, *v = &n->in[V]->dims;
    f->four = q->rank == 4;
    f->queries = q->dim[f->four ? 2 : 1];
    f->keys = k->dim[f->four ? 2 : 1];
    if (f->four)
        return count(q->dim[1], &f->heads) && count(k->dim[1], &f->groups) && count(q->dim[3], &f->e) &&
               count(v->dim[3], &f->d);
    f->heads = sp_attr_int(&n->attrs, "q_num_heads", 0);
    f->groups = sp_attr_int(&n->attrs, "kv_num_heads", 0);
    if (f->heads < 1 || f->groups < 1 || !count(q->dim[2], &f->e) || !count(v->dim[2], &f->d)) return false;
    f->e /= f->heads;
    f->d /= f->groups;
    return f->e > 0 && f->d > 0;
}

static bool fits(const sp_match *m, const sp_node *n, form *f)
{
    for (int i = Q; i <= V; i++)
        if (!sp_match_f32(n->in[i])) return false;
    f->past = n->n_in > PAST_V && n->in[PAST_K] && n->in[PAST_V];
    if (n->n_in > NONPAD && n->in[NONPAD]) return false;
    for (int i = f->past ? SCORES : PRESENT_K; i < n->n_out; i++)
        if (n->out[i]->is_output || sp_match_uses(m, n->out[i]) > 0) return false;
    if (!form_of(n, f)) return false;
    f->total = f->past ? sp_expr_add(m->g->arena, n->in[PAST_K]->dims.dim[2], f->keys) : f->keys;
    if (!f->total) return false;
    if (sp_attr_int(&n->attrs, "is_causal", 0) && !sp_expr_equal(f->queries, f->keys)) return false;
    const sp_value *mask = n->n_in > MASK ? n->in[MASK] : NULL;
    if (!mask) return true;
    return (sp_match_f32(mask) || mask->dtype == SPARTA_BOOL) && mask->dims.rank > 0 &&
           sp_expr_equal(mask->dims.dim[mask->dims.rank - 1], f->total);
}

/* 0 where it is true, -inf elsewhere. */
static sparta_status added(sp_match *m, const char *name, sp_value **mask)
{
    static const float value[] = {0, -__builtin_inff()};
    sp_value *in[] = {*mask, NULL, NULL};
    if (!*mask || (*mask)->dtype != SPARTA_BOOL) return SPARTA_OK;
    for (int i = 0; i < 2; i++) {
        const sparta_tensor t = sparta_tensor_view(SPARTA_F32, 0, NULL, (void *)(uintptr_t)&value[i]);
        SP_TRY(sp_match_constant(m, &t, &in[1 + i]));
    }
    return sp_match_add(m, SP_OP_Where, name, 3, in, NULL, mask);
}

static const int64_t swap[] = {0, 2, 1, 3};

static sparta_status side_by_side(sp_match *m, const char *name, int64_t columns, sp_value **x)
{
    SP_TRY(sp_match_add(m, SP_OP_Transpose, name, 1, x, SP_ATTRS(SP_INTS("perm", 4, swap)), x));
    sp_value *in[] = {*x, NULL};
    SP_TRY(sp_match_constant_ints(m, 3, (int64_t[]){0, 0, columns}, &in[1]));
    return sp_match_add(m, SP_OP_Reshape, name, 2, in, NULL, x);
}

/* *x (B,S,heads*d) as (B,heads,S,d) */
static sparta_status apart(sp_match *m, const char *name, int64_t heads, int64_t d, sp_value **x)
{
    sp_value *in[] = {*x, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, heads, d}, &in[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, name, 2, in, NULL, x));
    return sp_match_add(m, SP_OP_Transpose, name, 1, x, SP_ATTRS(SP_INTS("perm", 4, swap)), x);
}

/* *x behind the past, as output `out` of n, which is handed over where there is one. */
static sparta_status append(sp_match *m, sp_node *n, sp_value *past, int out, sp_value **x)
{
    sp_value *in[] = {past, *x}, *all = out < n->n_out ? n->out[out] : NULL;
    sp_node *concat;
    if (all) all->producer = NULL;
    SP_TRY(
        sp_graph_add_node(m->g, SP_OP_Concat, n->name, 2, in, 1, &all, SP_ATTRS(SP_INT("axis", 2)), &concat));
    SP_TRY(sp_match_room(m));
    for (int i = 0; i < 2; i++) sp_match_use(m, in[i]);
    m->added = true;
    *x = all;
    return sp_ops_infer_node(m->g, concat);
}

/* Keys and values as (B,g,T,..), those of the past first. */
static sparta_status join_past(sp_match *m, sp_node *n, const form *f, sp_value **k, sp_value **v)
{
    if (!f->four) {
        SP_TRY(apart(m, n->name, f->groups, f->e, k));
        SP_TRY(apart(m, n->name, f->groups, f->d, v));
    }
    SP_TRY(append(m, n, n->in[PAST_K], PRESENT_K, k));
    SP_TRY(append(m, n, n->in[PAST_V], PRESENT_V, v));
    n->n_out = 1;
    return SPARTA_OK;
}

/* What the mask is, without items, heads and queries that it is repeated for. */
static sp_value *before_expand(sp_value *mask, const sp_expr *keys)
{
    const sp_node *expand = sp_match_made_by(mask, SP_OP_Expand);
    if (!expand || !expand->in[0]->typed || expand->in[0]->dims.rank < 1) return mask;
    const sp_dims *d = &expand->in[0]->dims;
    return sp_expr_equal(d->dim[d->rank - 1], keys) ? expand->in[0] : mask;
}

/* The window that it says, and what else: *mask, NULL where that is nothing. A score that is no number would show where it is hidden: not when strict. */
static sparta_status take_window(sp_match *m, const char *name, const form *f, sp_value **mask, sp_window *w)
{
    double hidden;
    sp_window is = *w;
    sp_value *rest;
    bool taken;
    if (!*mask) return SPARTA_OK;
    SP_TRY(sp_check_cancel(m->g->cx)); /* a constant is read whole */
    if (!sp_ctx_strict(m->g->cx) && sp_window_is(*mask, &is, &hidden) && isinf(hidden)) {
        *mask = NULL;
        *w = is;
        return SPARTA_OK;
    }
    *mask = before_expand(*mask, f->total);
    if (sp_ctx_strict(m->g->cx) || (*mask)->dtype != SPARTA_BOOL) return SPARTA_OK;
    SP_TRY(sp_window_take(m, name, *mask, false, w, &rest, &taken));
    if (taken) *mask = rest;
    return SPARTA_OK;
}

/* Node n becomes what `a` is, itself or the one attention that it reads. zero: nan_to_zero. */
static sparta_status become(sp_match *m, sp_node *n, sp_node *a, const form *f, int64_t zero)
{
    const float scale = sp_attr_float(&a->attrs, "scale", (float)(1 / __builtin_sqrt((double)f->e)));
    const float cap = sp_attr_float(&a->attrs, "softcap", 0);
    sp_window window = {f->queries, f->total, -1, sp_attr_int(&a->attrs, "is_causal", 0) ? 0 : -1};
    sp_value *in[] = {a->in[Q], a->in[K], a->in[V], a->n_in > MASK ? a->in[MASK] : NULL}, *y;
    int64_t groups = f->groups;
    SP_TRY(take_window(m, a->name, f, &in[MASK], &window));
    SP_TRY(added(m, a->name, &in[MASK]));
    const int n_in = in[MASK] ? 4 : 3;
    if (f->past) SP_TRY(join_past(m, a, f, &in[K], &in[V]));
    if (f->four && !f->past && groups == f->heads)
        SP_TRY(sp_ungroup(m, a->name, f->heads, &in[K], &in[V], &groups));
    sp_attr attr[7] = {SP_INT("heads", f->heads), SP_INT("kv_heads", groups), SP_FLOAT("scale", scale)};
    sp_attrs attrs = {3, attr};
    if (cap > 0) attr[attrs.n++] = (sp_attr)SP_FLOAT("softcap", cap);
    if (window.left >= 0) attr[attrs.n++] = (sp_attr)SP_INT("left", window.left);
    if (window.right >= 0) attr[attrs.n++] = (sp_attr)SP_INT("right", window.right);
    if (zero) attr[attrs.n++] = (sp_attr)SP_INT("nan_to_zero", zero);
    if (!f->four) return sp_match_become(m, n, SP_OP_Attention, n_in, in, &attrs);
    SP_TRY(side_by_side(m, a->name, f->heads * f->e, &in[Q]));
    if (!f->past) {
        SP_TRY(side_by_side(m, a->name, groups * f->e, &in[K]));
        SP_TRY(side_by_side(m, a->name, groups * f->d, &in[V]));
    }
    SP_TRY(sp_match_add(m, SP_OP_Attention, a->name, n_in, in, &attrs, &y));
    sp_value *split[] = {y, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, f->heads, f->d}, &split[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, a->name, 2, split, NULL, &y));
    return sp_match_become(m, n, SP_OP_Transpose, 1, &y, SP_ATTRS(SP_INTS("perm", 4, swap)));
}

sparta_status sp_attention_of_onnx(sp_match *m, sp_node *n)
{
    form f;
    return fits(m, n, &f) ? become(m, n, n, &f, 0) : SPARTA_OK;
}

/* Is `sees` whether the mask leaves a query a key? */
static bool is_sight(const sp_value *sees, const sp_value *mask)
{
    int64_t axis[SPARTA_RANK];
    double low;
    if (mask->dtype != SPARTA_BOOL) {
        const sp_node *greater = sp_match_made_by(sees, SP_OP_Greater);
        if (!greater || !sp_match_scalar(greater->in[1], &low) || !(low < 0) || !isinf(low)) return false;
        sees = greater->in[0];
    }
    const sp_node *most = sp_match_made_by(sees, SP_OP_ReduceMax);
    return most && most->in[0] == mask && most->n_in > 1 && most->in[1] && mask->typed &&
           sp_match_ints(most->in[1], axis) == 1 && sp_attr_int(&most->attrs, "keepdims", 1) &&
           (axis[0] == -1 || axis[0] == mask->dims.rank - 1);
}

sparta_status sp_attention_of_torch(sp_match *m, sp_node *n)
{
    form f;
    double zero;
    sp_node *a = n->op == SP_OP_Where ? sp_match_made_by(n->in[1], SP_OP_OnnxAttention) : NULL;
    if (!a || sp_ctx_strict(m->g->cx)) return SPARTA_OK;
    if (!sp_match_once(m, n->in[1]) || !sp_match_same_dims(n->in[1], n->out[0])) return SPARTA_OK;
    if (a->n_in <= MASK || !a->in[MASK] || !sp_match_scalar(n->in[2], &zero) || zero != 0) return SPARTA_OK;
    if (!is_sight(n->in[0], a->in[MASK]) || sp_attr_int(&a->attrs, "is_causal", 0)) return SPARTA_OK;
    if (!fits(m, a, &f) || f.past) return SPARTA_OK;
    /* y (B,S,h*e): what a mask of heads says of a query is read as if it were of an item */
    if (!f.four && a->in[MASK]->dims.rank > 2) return SPARTA_OK;
    return become(m, n, a, &f, 2);
}
