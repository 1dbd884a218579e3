/* simplify: a graph with less in it that computes the same.
 *
 *   Identity, Dropout at inference, a Cast or Reshape to what it is, Concat of one, x * 1, true And x    gone
 *   equal nodes, equal small constants                                                                   one of them
 *   Reshape, Transpose, Squeeze, ... one after the other                                                 the shortest chain
 *   Reshape(x, Concat(Gather(Shape ...)))                                                                Reshape(x, [0, 0, 4, 64])
 *   sizes, however computed                                                                              Shape of an input
 *   Expand before an elementwise operator                                                                after it, or gone
 *
 * The last three free computed values of users that only wanted their shape, and keep attention masks small.
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

static uint64_t hash_attr(const sparta_attr *a, uint64_t h)
{
    h = sparta_hash(a->name, strlen(a->name), h);
    h = sparta_hash(&a->i, sizeof a->i, h);
    h = sparta_hash(&a->f, sizeof a->f, h);
    if (a->s) h = sparta_hash(a->s, strlen(a->s), h);
    if (a->n && a->ints) h = sparta_hash(a->ints, (size_t)a->n * sizeof *a->ints, h);
    return h;
}

static bool same_attr(const sparta_attr *a, const sparta_attr *b)
{
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind) return false;
    switch (a->kind) {
    case SPARTA_ATTR_INT: return a->i == b->i;
    case SPARTA_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case SPARTA_ATTR_STRING: return strcmp(a->s, b->s) == 0;
    case SPARTA_ATTR_INTS:
        return a->n == b->n && (!a->n || memcmp(a->ints, b->ints, (size_t)a->n * sizeof *a->ints) == 0);
    case SPARTA_ATTR_FLOATS:
    case SPARTA_ATTR_TENSOR: return false;
    }
    return false;
}

static uint64_t hash_node(const sparta_node *n)
{
    uint64_t h = sparta_hash(&n->op, sizeof n->op, (uint64_t)n->n_in);
    h = sparta_hash(n->in, (size_t)n->n_in * sizeof *n->in, h);
    for (int i = 0; i < n->attrs.n; i++) h = hash_attr(&n->attrs.attr[i], h);
    return h;
}

static bool same_node(const void *x, const void *y)
{
    const sparta_node *a = x, *b = y;
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

static uint64_t hash_constant(const sparta_value *v)
{
    const sparta_tensor *t = v->constant;
    uint64_t h = sparta_hash(t->dim, (size_t)t->rank * sizeof *t->dim, (uint64_t)t->dtype);
    return sparta_hash(t->data, bytes_of(t), h);
}

static bool same_constant(const void *x, const void *y)
{
    const sparta_tensor *a = ((const sparta_value *)x)->constant, *b = ((const sparta_value *)y)->constant;
    return a->dtype == b->dtype && sparta_tensor_same_shape(a, b) &&
           memcmp(a->data, b->data, bytes_of(a)) == 0;
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
    s->hash = sparta_alloc_array(cx, s->size, sizeof *s->hash);
    SPARTA_NEED(cx, s->hash);
    s->what = sparta_alloc_array(cx, s->size, sizeof *s->what);
    SPARTA_NEED(cx, s->what);
    return SPARTA_OK;
}

static void end_seen(sparta_ctx *cx, seen *s)
{
    sparta_free(cx, s->hash);
    sparta_free(cx, s->what);
}

/* Small constants only: weights that are equal by chance keep their names. */
static void share_constants(sparta_match *m, simplify *s, sparta_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        sparta_value *v = n->in[i];
        if (!v || !v->constant || v->producer || sparta_tensor_elements(v->constant) > SPARTA_RANK) continue;
        sparta_value *first = first_like(&s->constants, hash_constant(v), v, same_constant);
        if (first == v) continue;
        sparta_match_use(m, first);
        n->in[i] = first;
        sparta_match_release(m, v);
    }
}

/* Not one that died meanwhile: what it reads does not count it any more. */
static sparta_node *earlier_twin(const sparta_match *m, simplify *s, sparta_node *n)
{
    if (n->n_out != 1) return NULL;
    sparta_node *first = first_like(&s->nodes, hash_node(n), n, same_node);
    return first == n || sparta_match_uses(m, first->out[0]) == 0 ? NULL : first;
}

/* ------------------------------------------------------------------ things that do nothing */

static bool all_ones(const sparta_value *steps)
{
    int64_t step[SPARTA_RANK];
    int n = steps ? sparta_match_ints(steps, step) : 0;
    for (int i = 0; i < n; i++)
        if (step[i] != 1) return false;
    return n >= 0;
}

/* Dropout passes x on unless training is asked for, which is an input that must be known. */
static bool is_idle_dropout(const sparta_match *m, const sparta_node *n)
{
    double training = 0;
    if (n->n_out > 1 && sparta_match_uses(m, n->out[1]) > 0) return false;
    return n->n_in < 3 || !n->in[2] || (sparta_match_scalar(n->in[2], &training) && training == 0);
}

/* op(x, c) = x for this scalar c? */
static bool is_neutral(const sparta_node *n, sparta_value **x)
{
    double c;
    if (!sparta_match_with_scalar(n, x, &c) || c != 1) return false;
    return n->op != SPARTA_OP_Div || *x == n->in[0];
}

/* The input that is the output, if the node does nothing. */
static sparta_value *passes_on(const sparta_match *m, const sparta_node *n)
{
    sparta_value *x = n->n_in ? n->in[0] : NULL, *other;
    if (!x || !x->typed || !n->out[0]->typed) return NULL;
    bool same = x->dtype == n->out[0]->dtype && sparta_dims_equal(&x->dims, &n->out[0]->dims);
    switch (n->op) {
    case SPARTA_OP_Identity: return x;
    case SPARTA_OP_Dropout: return is_idle_dropout(m, n) ? x : NULL;
    case SPARTA_OP_Cast:
    case SPARTA_OP_CastLike:
    case SPARTA_OP_Reshape:
    case SPARTA_OP_Flatten:
    case SPARTA_OP_Squeeze:
    case SPARTA_OP_Unsqueeze:
    case SPARTA_OP_Expand: return same ? x : NULL;
    case SPARTA_OP_Concat: return n->n_in == 1 ? x : NULL;
    case SPARTA_OP_Slice: return same && all_ones(n->n_in > 4 ? n->in[4] : NULL) ? x : NULL;
    case SPARTA_OP_And:
    case SPARTA_OP_Mul:
    case SPARTA_OP_Div:
        if (!is_neutral(n, &other) || !other->typed || !sparta_dims_equal(&other->dims, &n->out[0]->dims))
            return NULL;
        return other;
    default: return NULL;
    }
}

/* ------------------------------------------------------------------ shapes */

static sparta_status plain_reshape(sparta_match *m, sparta_node *n)
{
    sparta_value *x = n->in[0], *target;
    if (n->in[1]->constant || !x->typed || !n->out[0]->typed) return SPARTA_OK;
    SPARTA_TRY(sparta_match_reshape_target(m, x, &n->out[0]->dims, &target));
    if (!target || !target->constant) return SPARTA_OK;
    return sparta_match_become(m, n, SPARTA_OP_Reshape, 2, (sparta_value *[]){x, target}, NULL);
}

/* A vector of sizes that was computed in any way: its symbols come from inputs, so ask those. */
static bool is_sizes(const sparta_node *n)
{
    const sparta_value *out = n->out[0];
    if (n->n_out != 1 || !out->ints || out->constant || out->dtype != SPARTA_I64 || out->dims.rank != 1)
        return false;
    return n->op == SPARTA_OP_Shape ? !n->in[0]->is_input || out->n_ints > 1 : n->op != SPARTA_OP_Concat;
}

static sparta_status plain_sizes(sparta_match *m, sparta_node *n)
{
    sparta_value *out = n->out[0], *made;
    SPARTA_TRY(sparta_match_shape_vector(m, out->n_ints, out->ints, &made));
    return made ? sparta_match_alias(m, n, made) : SPARTA_OK;
}

static sparta_status shorten(sparta_match *m, sparta_node *n)
{
    sparta_chain chain;
    bool shorter;
    if (!sparta_chain_of(m, n->out[0], &chain)) return SPARTA_OK;
    return sparta_chain_write(m, &chain, n, &shorter);
}

/* ------------------------------------------------------------------ Expand */

static bool is_elementwise(sparta_op_id op)
{
    switch (op) {
    case SPARTA_OP_Add:
    case SPARTA_OP_Sub:
    case SPARTA_OP_Mul:
    case SPARTA_OP_Div:
    case SPARTA_OP_And:
    case SPARTA_OP_Or:
    case SPARTA_OP_Xor:
    case SPARTA_OP_Not:
    case SPARTA_OP_Equal:
    case SPARTA_OP_Less:
    case SPARTA_OP_LessOrEqual:
    case SPARTA_OP_Greater:
    case SPARTA_OP_GreaterOrEqual:
    case SPARTA_OP_Where:
    case SPARTA_OP_Cast: return true;
    default: return false;
    }
}

/* op(Expand(a, s), b) = Expand(op(a, b), s), and the Expand is not needed when op(a, b) has the dims already.
 */
static sparta_status sink_expand(sparta_match *m, sparta_node *n, bool *again)
{
    sparta_node *expand = NULL;
    sparta_value *in[3], *made;
    sparta_dims dims;
    if (n->n_in > 3) return SPARTA_OK;
    for (int i = 0; i < n->n_in; i++) {
        sparta_node *e = expand ? NULL : sparta_match_made_by(n->in[i], SPARTA_OP_Expand);
        expand = e ? e : expand;
        in[i] = e ? e->in[0] : n->in[i];
    }
    if (!expand || !sparta_match_broadcast(n->n_in, in, &dims)) return SPARTA_OK;
    sparta_attrs attrs = n->attrs;
    *again = sparta_dims_equal(&dims, &n->out[0]->dims); /* another input may be expanded too */
    if (*again) return sparta_match_become(m, n, n->op, n->n_in, in, &attrs);
    SPARTA_TRY(sparta_match_add(m, n->op, n->name, n->n_in, in, &attrs, &made));
    return sparta_match_become(m, n, SPARTA_OP_Expand, 2, (sparta_value *[]){made, expand->in[1]}, NULL);
}

/* A constant repeated is an Expand of one element. */
static sparta_status expand_constant(sparta_match *m, sparta_node *n)
{
    const sparta_attr *value = sparta_attr_find(&n->attrs, "value");
    if (!value || n->in[0]->constant) return SPARTA_OK;
    sparta_tensor one = sparta_tensor_view(value->tensor->dtype, 0, NULL, value->tensor->data);
    sparta_value *c;
    SPARTA_TRY(sparta_graph_add_constant(m->g, NULL, &one, true, &c));
    SPARTA_TRY(sparta_match_room(m));
    return sparta_match_become(m, n, SPARTA_OP_Expand, 2, (sparta_value *[]){c, n->in[0]}, NULL);
}

/* ------------------------------------------------------------------ the walk */

static sparta_status rewrite(sparta_match *m, sparta_node *n)
{
    if (is_sizes(n)) return plain_sizes(m, n);
    if (n->op == SPARTA_OP_ConstantOfShape) return expand_constant(m, n);
    for (bool again = is_elementwise(n->op); again;) {
        again = false;
        SPARTA_TRY(sink_expand(m, n, &again));
    }
    if (n->op == SPARTA_OP_Reshape) SPARTA_TRY(plain_reshape(m, n));
    return sparta_chain_is_step(n) ? shorten(m, n) : SPARTA_OK;
}

static sparta_status visit(sparta_match *m, sparta_node *n, void *arg)
{
    simplify *s = arg;
    share_constants(m, s, n);
    sparta_value *same = passes_on(m, n);
    if (same) return sparta_match_alias(m, n, same);
    SPARTA_TRY(rewrite(m, n));
    if (sparta_match_uses(m, n->out[0]) == 0) return SPARTA_OK; /* it was aliased away */
    sparta_node *twin = earlier_twin(m, s, n);
    return twin ? sparta_match_alias(m, n, twin->out[0]) : SPARTA_OK;
}

sparta_status sparta_pass_simplify(sparta_graph *g)
{
    simplify s = {0};
    sparta_status status = begin_seen(g->cx, &s.nodes, g->n_nodes);
    if (status == SPARTA_OK) status = begin_seen(g->cx, &s.constants, g->n_nodes);
    if (status == SPARTA_OK) status = sparta_match_run(g, visit, &s);
    end_seen(g->cx, &s.nodes);
    end_seen(g->cx, &s.constants);
    return status;
}
