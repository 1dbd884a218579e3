/* simplify: a graph with less in it that computes the same.
 *
 *   Identity, Dropout at inference, a Cast or Reshape to what it is, Pad by 0, Concat of one, x * 1      gone
 *   Where and And with a condition that is known, and the same everywhere                                what is left of it, unless a Where widens that;
 *                                                                                                        an And that does is an Expand
 *   equal nodes, equal small constants                                                                   one of them
 *   Reshape, Transpose, Squeeze, ... one after the other                                                 the shortest chain
 *   Reshape(x, Concat(Gather(Shape ...)))                                                                Reshape(x, [0, 0, 4, 64])
 *   sizes, however computed                                                                              Shape of an input
 *   Squeeze of a Split's or Slice's part of size 1                                                       Gather of one place
 *   Expand before an elementwise operator                                                                after it, or gone
 *
 * Sizes, Reshape and Expand so free computed values of users that only wanted their shape, and keep attention masks small.
 */
#include "compile/chain.h"
#include "compile/passes.h"
#include <string.h>

/* What is remembered of nodes and constants passed, to find equal ones. A full table forgets nothing and
 * learns nothing. */
typedef struct seen {
    size_t size, n; /* a power of two */
    uint64_t *hash;
    void **what;
} seen;

typedef struct simplify {
    seen nodes, constants;
} simplify;

/* ------------------------------------------------------------------ equal things */

static uint64_t hash_attr(const sp_attr *a, uint64_t h)
{
    h = sp_hash(a->name, strlen(a->name), h);
    h = sp_hash(&a->i, sizeof a->i, h);
    h = sp_hash(&a->f, sizeof a->f, h);
    if (a->s) h = sp_hash(a->s, strlen(a->s), h);
    if (a->n && a->ints) h = sp_hash(a->ints, (size_t)a->n * sizeof *a->ints, h);
    return h;
}

static bool same_attr(const sp_attr *a, const sp_attr *b)
{
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind) return false;
    switch (a->kind) {
    case SP_ATTR_INT: return a->i == b->i;
    case SP_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case SP_ATTR_STRING: return strcmp(a->s, b->s) == 0;
    case SP_ATTR_INTS:
        return a->n == b->n && (!a->n || memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints) == 0);
    case SP_ATTR_FLOATS:
    case SP_ATTR_TENSOR: return false;
    }
    return false;
}

static uint64_t hash_node(const sp_node *n)
{
    uint64_t h = sp_hash(&n->op, sizeof n->op, (uint64_t)n->n_in);
    h = sp_hash(n->in, (size_t)n->n_in * sizeof *n->in, h);
    for (int i = 0; i < n->attrs.n; i++) h = hash_attr(&n->attrs.attr[i], h);
    return h;
}

static bool same_node(const void *x, const void *y)
{
    const sp_node *a = x, *b = y;
    if (a->op != b->op || a->n_in != b->n_in || a->attrs.n != b->attrs.n || a->n_out != 1) return false;
    if (a->n_in && memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) != 0) return false;
    for (int i = 0; i < a->attrs.n; i++)
        if (!same_attr(&a->attrs.attr[i], &b->attrs.attr[i])) return false;
    return true;
}

static size_t bytes_of(const sparta_tensor *t)
{
    return (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype);
}

static uint64_t hash_constant(const sp_value *v)
{
    const sparta_tensor *t = v->constant;
    uint64_t h = sp_hash(t->dim, (size_t)t->rank * sizeof *t->dim, (uint64_t)t->dtype);
    return sp_hash(t->data, bytes_of(t), h);
}

static bool same_constant(const void *x, const void *y)
{
    return sp_tensor_same_bytes(((const sp_value *)x)->constant, ((const sp_value *)y)->constant);
}

/* The one that was there before, or `what` itself, which is remembered. */
static void *first_like(seen *s, uint64_t hash, void *what, bool (*same)(const void *, const void *))
{
    size_t i = hash & (s->size - 1);
    for (; s->what[i]; i = (i + 1) & (s->size - 1))
        if (s->hash[i] == hash && same(s->what[i], what)) return s->what[i];
    if (2 * s->n >= s->size) return what;
    s->hash[i] = hash;
    s->what[i] = what;
    s->n++;
    return what;
}

static sparta_status begin_seen(sparta_ctx *cx, seen *s, int expected)
{
    for (s->size = 64; s->size < 4 * (size_t)expected;) s->size *= 2;
    s->hash = sp_alloc_array(cx, s->size, sizeof *s->hash);
    SP_NEED(cx, s->hash);
    s->what = sp_alloc_array(cx, s->size, sizeof *s->what);
    SP_NEED(cx, s->what);
    return SPARTA_OK;
}

static void end_seen(sparta_ctx *cx, seen *s)
{
    sp_free(cx, s->hash);
    sp_free(cx, s->what);
}

/* Small constants only: weights that are equal by chance keep their names. */
static void share_constants(sp_match *m, simplify *s, sp_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        sp_value *v = n->in[i];
        if (!v || !v->constant || v->producer || sparta_tensor_elements(v->constant) > SPARTA_RANK) continue;
        sp_value *first = first_like(&s->constants, hash_constant(v), v, same_constant);
        if (first == v) continue;
        sp_match_use(m, first);
        n->in[i] = first;
        sp_match_release(m, v);
    }
}

/* Not one that died meanwhile: what it reads does not count it any more. */
static sp_node *earlier_twin(const sp_match *m, simplify *s, sp_node *n)
{
    if (n->n_out != 1) return NULL;
    sp_node *first = first_like(&s->nodes, hash_node(n), n, same_node);
    return first == n || sp_match_uses(m, first->out[0]) == 0 ? NULL : first;
}

/* ------------------------------------------------------------------ things that do nothing */

/* Steps that are all 1, pads that are all 0; absent ones are. */
static bool all_are(const sp_value *v, int64_t wanted)
{
    if (!v) return true;
    for (int i = 0; v->ints && i < v->n_ints; i++)
        if (!sp_expr_is(v->ints[i], wanted)) return false;
    return v->ints != NULL;
}

/* Dropout passes x on unless training is asked for, which is an input that must be known. */
static bool is_idle_dropout(const sp_match *m, const sp_node *n)
{
    double training = 0;
    if (n->n_out > 1 && sp_match_uses(m, n->out[1]) > 0) return false;
    return n->n_in < 3 || !n->in[2] || (sp_match_scalar(n->in[2], &training) && training == 0);
}

/* op(x, c) = x for this scalar c? */
static bool is_neutral(const sp_node *n, sp_value **x)
{
    double c;
    if (!sp_match_with_scalar(n, x, &c) || c != 1) return false;
    return n->op != SP_OP_Div || *x == n->in[0];
}

/* A constant of bools that are all alike. */
static bool is_settled(const sp_value *v, bool *yes)
{
    const sparta_tensor *t = v ? v->constant : NULL;
    const int64_t n = t && t->dtype == SPARTA_BOOL && sp_tensor_contiguous(t) ? sparta_tensor_elements(t) : 0;
    const unsigned char *x = n > 0 ? t->data : NULL;
    for (int64_t i = 1; i < n; i++)
        if (!x[i] != !x[0]) return false;
    if (n > 0) *yes = x[0] != 0;
    return n > 0;
}

/* What a Where takes everywhere, or an And with what is true; it may have to be repeated. */
static sp_value *settled(const sp_node *n)
{
    bool yes;
    if (n->op == SP_OP_Where) return is_settled(n->in[0], &yes) ? n->in[yes ? 1 : 2] : NULL;
    if (n->op != SP_OP_And) return NULL;
    for (int i = 0; i < 2; i++)
        if (is_settled(n->in[i], &yes) && yes) return n->in[1 - i];
    return NULL;
}

/* The input that is the output, if the node does nothing. */
static sp_value *passes_on(const sp_match *m, const sp_node *n)
{
    sp_value *x = n->n_in ? n->in[0] : NULL, *other;
    if (!x || !x->typed || !n->out[0]->typed) return NULL;
    bool same = x->dtype == n->out[0]->dtype && sp_dims_equal(&x->dims, &n->out[0]->dims);
    if (n->op == SP_OP_Identity || (n->op == SP_OP_Dropout && is_idle_dropout(m, n)) ||
        (n->op == SP_OP_Concat && n->n_in == 1) ||
        (same && SP_OP_AMONG(n->op, SP_OP_Cast, SP_OP_CastLike, SP_OP_Reshape, SP_OP_Flatten, SP_OP_Squeeze,
                             SP_OP_Unsqueeze, SP_OP_Expand)) ||
        (same && n->op == SP_OP_Slice && all_are(n->n_in > 4 ? n->in[4] : NULL, 1)) ||
        (same && n->op == SP_OP_Pad && n->n_in > 1 && all_are(n->in[1], 0)))
        return x;
    if ((other = settled(n))) return sp_match_same_dims(other, n->out[0]) ? other : NULL;
    if (!SP_OP_AMONG(n->op, SP_OP_And, SP_OP_Mul, SP_OP_Div) || !is_neutral(n, &other) || !other->typed)
        return NULL;
    return sp_dims_equal(&other->dims, &n->out[0]->dims) ? other : NULL;
}

/* ------------------------------------------------------------------ shapes */

static sparta_status plain_reshape(sp_match *m, sp_node *n)
{
    sp_value *x = n->in[0], *target;
    if (n->in[1]->constant || !x->typed || !n->out[0]->typed) return SPARTA_OK;
    SP_TRY(sp_match_reshape_target(m, x, &n->out[0]->dims, &target));
    if (!target || !target->constant) return SPARTA_OK;
    return sp_match_become(m, n, SP_OP_Reshape, 2, (sp_value *[]){x, target}, NULL);
}

/* A vector of sizes that was computed in any way: its symbols come from inputs, so ask those. */
static bool is_sizes(const sp_node *n)
{
    const sp_value *out = n->out[0];
    if (n->n_out != 1 || !out->ints || out->constant || out->dtype != SPARTA_I64 || out->dims.rank != 1)
        return false;
    if (sp_match_is_size(n)) return false;
    return n->op == SP_OP_Shape ? !n->in[0]->is_input || out->n_ints > 1 : n->op != SP_OP_Concat;
}

static sparta_status plain_sizes(sp_match *m, sp_node *n)
{
    sp_value *out = n->out[0], *made;
    SP_TRY(sp_match_shape_vector(m, out->n_ints, out->ints, &made));
    return made ? sp_match_alias(m, n, made) : SPARTA_OK;
}

static sparta_status shorten(sp_match *m, sp_node *n)
{
    sp_chain chain;
    bool shorter;
    if (!sp_chain_of(m, n->out[0], &chain)) return SPARTA_OK;
    return sp_chain_write(m, &chain, n, &shorter);
}

/* ------------------------------------------------------------------ Expand */

static bool is_elementwise(sp_op_id op)
{
    return SP_OP_AMONG(op, SP_OP_Add, SP_OP_Sub, SP_OP_Mul, SP_OP_Div, SP_OP_And, SP_OP_Or, SP_OP_Xor,
                       SP_OP_Not, SP_OP_Equal, SP_OP_Less, SP_OP_LessOrEqual, SP_OP_Greater,
                       SP_OP_GreaterOrEqual, SP_OP_Where, SP_OP_Cast);
}

/* op(Expand(a, s), b) = Expand(op(a, b), s), and the Expand is not needed when op(a, b) has the dims already.
 */
static sparta_status sink_expand(sp_match *m, sp_node *n, bool *again)
{
    sp_node *expand = NULL;
    sp_value *in[3], *made;
    sp_dims dims;
    if (n->n_in > 3) return SPARTA_OK;
    for (int i = 0; i < n->n_in; i++) {
        sp_node *e = expand ? NULL : sp_match_made_by(n->in[i], SP_OP_Expand);
        expand = e ? e : expand;
        in[i] = e ? e->in[0] : n->in[i];
    }
    if (!expand || !sp_match_broadcast(n->n_in, in, &dims)) return SPARTA_OK;
    sp_attrs attrs = n->attrs;
    *again = sp_dims_equal(&dims, &n->out[0]->dims); /* another input may be expanded too */
    if (*again) return sp_match_become(m, n, n->op, n->n_in, in, &attrs);
    SP_TRY(sp_match_add(m, n->op, n->name, n->n_in, in, &attrs, &made));
    return sp_match_become(m, n, SP_OP_Expand, 2, (sp_value *[]){made, expand->in[1]}, NULL);
}

/* What a settled condition leaves, repeated. */
static sparta_status expand_settled(sp_match *m, sp_node *n)
{
    sp_value *in[] = {settled(n), NULL};
    if (!in[0] || !in[0]->typed || !n->out[0]->typed || in[0]->constant) return SPARTA_OK;
    SP_TRY(sp_match_shape_vector(m, n->out[0]->dims.rank, n->out[0]->dims.dim, &in[1]));
    return in[1] ? sp_match_become(m, n, SP_OP_Expand, 2, in, NULL) : SPARTA_OK;
}

/* A constant repeated is an Expand of one element. */
static sparta_status expand_constant(sp_match *m, sp_node *n)
{
    const sp_attr *value = sp_attr_find(&n->attrs, "value");
    if (!value || n->in[0]->constant) return SPARTA_OK;
    sparta_tensor one = sparta_tensor_view(value->tensor->dtype, 0, NULL, value->tensor->data);
    sp_value *c;
    SP_TRY(sp_match_constant(m, &one, &c));
    return sp_match_become(m, n, SP_OP_Expand, 2, (sp_value *[]){c, n->in[0]}, NULL);
}

/* ------------------------------------------------------------------ one place of an axis */

/* The part of a Split: where it begins, if all before it are known. */
static bool part_begins(const sp_node *split, const sp_value *part, int axis, int64_t *at)
{
    int64_t size;
    *at = 0;
    for (int i = 0; i < split->n_out && split->out[i] != part; i++)
        if (!sp_expr_is_const(split->out[i]->dims.dim[axis], &size) || !sp_int_add(*at, size, at))
            return false;
    return true;
}

/* The one slice of a Slice along `axis`: where it is. */
static bool slice_begins(const sp_node *n, int axis, int64_t *at)
{
    int64_t of[SPARTA_RANK], size;
    if (n->n_in < 4 || !n->in[3] || sp_match_ints(n->in[3], of) != 1) return false;
    if ((of[0] < 0 ? of[0] + n->in[0]->dims.rank : of[0]) != axis ||
        !all_are(n->n_in > 4 ? n->in[4] : NULL, 1))
        return false;
    if (sp_match_ints(n->in[1], of) != 1 || !sp_expr_is_const(n->in[0]->dims.dim[axis], &size)) return false;
    *at = of[0] < 0 ? of[0] + size : of[0];
    return *at >= 0 && *at < size;
}

/* Squeeze of a part or slice of size 1: what unbind is exported as. A Gather of one place says it alike for every exporter. */
static sparta_status one_place(sp_match *m, sp_node *n)
{
    const sp_value *part = n->in[0];
    const sp_node *from = part->producer;
    int64_t axes[SPARTA_RANK], at;
    sp_value *in[2];
    if (!from || !SP_OP_AMONG(from->op, SP_OP_Split, SP_OP_Slice) || !sp_match_f32(part) || n->n_in < 2)
        return SPARTA_OK;
    if (!n->in[1] || sp_match_ints(n->in[1], axes) != 1) return SPARTA_OK;
    const int rank = part->dims.rank, axis = (int)(axes[0] < 0 ? axes[0] + rank : axes[0]);
    if (axis < 0 || axis >= rank || !sp_expr_is(part->dims.dim[axis], 1)) return SPARTA_OK;
    if (from->op == SP_OP_Split ? sp_match_axis(from, 0, rank) != axis || !part_begins(from, part, axis, &at)
                                : !slice_begins(from, axis, &at))
        return SPARTA_OK;
    const sparta_tensor place = sparta_tensor_view(SPARTA_I64, 0, NULL, &at);
    in[0] = from->in[0];
    SP_TRY(sp_match_constant(m, &place, &in[1]));
    return sp_match_become(m, n, SP_OP_Gather, 2, in, SP_ATTRS(SP_INT("axis", axis)));
}

/* ------------------------------------------------------------------ the walk */

static sparta_status rewrite(sp_match *m, sp_node *n)
{
    if (is_sizes(n)) return plain_sizes(m, n);
    if (n->op == SP_OP_ConstantOfShape) return expand_constant(m, n);
    if (n->op == SP_OP_And) SP_TRY(expand_settled(m, n));
    for (bool again = is_elementwise(n->op); again;) {
        again = false;
        SP_TRY(sink_expand(m, n, &again));
    }
    if (n->op == SP_OP_Reshape) SP_TRY(plain_reshape(m, n));
    if (n->op == SP_OP_Squeeze) SP_TRY(one_place(m, n));
    return sp_chain_is_step(n) ? shorten(m, n) : SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    simplify *s = m->state;
    share_constants(m, s, n);
    sp_value *same = passes_on(m, n);
    if (same) return sp_match_alias(m, n, same);
    SP_TRY(rewrite(m, n));
    if (sp_match_uses(m, n->out[0]) == 0) return SPARTA_OK; /* it was aliased away */
    sp_node *twin = earlier_twin(m, s, n);
    return twin ? sp_match_alias(m, n, twin->out[0]) : SPARTA_OK;
}

sparta_status sp_pass_simplify(sp_graph *g)
{
    simplify s = {0};
    sparta_status status = begin_seen(g->cx, &s.nodes, g->n_nodes);
    if (status == SPARTA_OK) status = begin_seen(g->cx, &s.constants, g->n_nodes);
    if (status == SPARTA_OK) status = sp_match_run(g, visit, &s);
    end_seen(g->cx, &s.nodes);
    end_seen(g->cx, &s.constants);
    return status;
}
