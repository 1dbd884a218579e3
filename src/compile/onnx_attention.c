/* onnx_attention.c: ONNX's Attention as ours, where nobody reads its scores and it has no lengths of its own.
 *
 *     past (B,g,P,e) ----------------------------------\
 *     k (B,S,g*e) --Reshape, Transpose--> (B,g,S,e) ---- Concat --> present (B,g,P+S,e), which ours attends to as it lies
 *
 * Its causal mask counts queries from the end of the past, ours from the last key: they are the same when there are as many new keys as queries. A
 * mask of bools is added as 0 and -inf; one that is shorter than the keys is left. */
#include "compile/onnx_attention.h"
#include "ops/ops.h"

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

sparta_status sp_attention_of_onnx(sp_match *m, sp_node *n)
{
    form f;
    if (!fits(m, n, &f)) return SPARTA_OK;
    const float scale = sp_attr_float(&n->attrs, "scale", (float)(1 / __builtin_sqrt((double)f.e)));
    const float cap = sp_attr_float(&n->attrs, "softcap", 0);
    sp_attr attr[5] = {SP_INT("heads", f.heads), SP_INT("kv_heads", f.groups), SP_FLOAT("scale", scale)};
    sp_attrs attrs = {3, attr};
    if (cap > 0) attr[attrs.n++] = (sp_attr)SP_FLOAT("softcap", cap);
    if (sp_attr_int(&n->attrs, "is_causal", 0)) attr[attrs.n++] = (sp_attr)SP_INT("right", 0);
    sp_value *in[] = {n->in[Q], n->in[K], n->in[V], n->n_in > MASK ? n->in[MASK] : NULL}, *y;
    SP_TRY(added(m, n->name, &in[MASK]));
    const int n_in = in[MASK] ? 4 : 3;
    if (f.past) SP_TRY(join_past(m, n, &f, &in[K], &in[V]));
    if (!f.four) return sp_match_become(m, n, SP_OP_Attention, n_in, in, &attrs);
    SP_TRY(side_by_side(m, n->name, f.heads * f.e, &in[Q]));
    if (!f.past) {
        SP_TRY(side_by_side(m, n->name, f.groups * f.e, &in[K]));
        SP_TRY(side_by_side(m, n->name, f.groups * f.d, &in[V]));
    }
    SP_TRY(sp_match_add(m, SP_OP_Attention, n->name, n_in, in, &attrs, &y));
    sp_value *split[] = {y, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, f.heads, f.d}, &split[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, n->name, 2, split, NULL, &y));
    return sp_match_become(m, n, SP_OP_Transpose, 1, &y, SP_ATTRS(SP_INTS("perm", 4, swap)));
}
