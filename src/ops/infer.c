/* Inference over a whole graph: type every value, fold what is constant, settle shapes, sweep what is dead.
 */
#include "ops/ints.h"
#include "ops/window.h"
#include <string.h>

enum { ROUNDS = 16 }; /* of solving for symbols: an export takes one or two */
/* The largest result worth keeping as a constant, and bytes read and written by all folding: an end to it for a hostile model. */
#define FOLD_BYTES    ((size_t)16 << 20)
#define FOLD_MOVED    ((size_t)16 << 30)
#define FOLD_WORK     ((int64_t)1 << 27) /* multiplications: a product beyond it stays in the graph */
#define FOLD_WORK_ALL ((int64_t)1 << 31) /* of all products, in all inferences of a graph */

/* ------------------------------------------------------------------ one node */
static sparta_status check_slots(const sp_graph *g, const sp_node *n)
{
    const sp_builtin *row = sp_builtin_row(n->op);
    if (n->n_in < row->min_in || (row->max_in >= 0 && n->n_in > row->max_in))
        return sp_ops_fail(g, n, SPARTA_E_FORMAT, "%d inputs; it takes at least %d", n->n_in, row->min_in);
    if (n->n_out < 1 || (row->max_out >= 0 && n->n_out > row->max_out))
        return sp_ops_fail(g, n, SPARTA_E_FORMAT, "%d outputs; it has at most %d", n->n_out, row->max_out);
    int needed = row->max_in < 0 ? n->n_in : row->min_in;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i] && i < needed) return sp_ops_fail(g, n, SPARTA_E_FORMAT, "input %d is absent", i);
        if (n->in[i] && !n->in[i]->typed)
            return sp_ops_fail(g, n, SPARTA_E_FORMAT,
                               "input %d '%.200s' has no type; nothing before this node makes it", i,
                               n->in[i]->name);
    }
    return SPARTA_OK;
}

/* What rooms below refuse (sizes beyond 64 bits, no memory) does not say yet at which node. */
sparta_status sp_ops_infer_node(sp_graph *g, sp_node *n)
{
    SP_TRY(check_slots(g, n));
    for (int i = 0; i < n->n_out; i++) {
        n->out[i]->ints = NULL;
        n->out[i]->n_ints = 0;
        n->out[i]->constant = NULL;
        n->out[i]->typed = false;
    }
    const char *op = sp_builtin_row(n->op)->name;
    const sp_rule *rule = sp_rule_of(n->op);
    sparta_status status = sp_ops_types(g, n, 0, rule->types);
    if (status == SPARTA_OK) status = rule->shape(g, n);
    const bool named =
        !strncmp(sparta_message(g->cx), op, strlen(op)) || !strncmp(sparta_message(g->cx), "node '", 6);
    return status == SPARTA_OK || named ? status : sp_fail_in(g->cx, "%s '%.200s'", op, n->name);
}

/* ------------------------------------------------------------------ folding */
/* Contents that are all numbers are a constant. */
static sparta_status fold_ints(sp_graph *g, sp_value *v)
{
    int64_t dim[SPARTA_RANK], x;
    if (!v->ints || v->constant || !sp_dims_const(&v->dims, dim)) return SPARTA_OK;
    for (int i = 0; i < v->n_ints; i++)
        if (!sp_expr_is_const(v->ints[i], NULL)) return SPARTA_OK;
    sparta_tensor *t = sp_arena_alloc(g->arena, sizeof *t);
    SP_NEED(g->cx, t);
    SP_TRY(sp_tensor_alloc_in(g->arena, v->dtype, v->dims.rank, dim, t));
    for (int i = 0; i < v->n_ints; i++)
        if (sp_expr_is_const(v->ints[i], &x)) sp_element_set_int(v->dtype, t->data, i, x);
    v->constant = t;
    return SPARTA_OK;
}

static bool slides(sp_op_id op)
{
    return SP_OP_AMONG(op, SP_OP_Conv, SP_OP_ConvTranspose, SP_OP_MaxPool, SP_OP_AveragePool, SP_OP_LpPool);
}

/* A nest of loops over every combination of elements of the operands, at most; scores are rows of q times those of k. */
static bool too_much_together(const sp_node *n, int inputs, int64_t *cost)
{
    int64_t work = 1;
    for (int i = 0; i < inputs; i++)
        if (!sp_int_mul(work, SP_MAX(sparta_tensor_elements(n->in[i]->constant), 1), &work)) return true;
    *cost = work;
    return work > FOLD_WORK;
}

/* Elements of the result times K: the multiplications of a product of constants. */
static bool too_much_work(const sp_node *n, int64_t *cost)
{
    int64_t work, k, dim[SPARTA_RANK];
    if (n->op == SP_OP_Einsum) return too_much_together(n, n->n_in, cost);
    if (n->op == SP_OP_OnnxAttention) return (n->n_in > 4 && n->in[4]) || too_much_together(n, 2, cost);
    if (!slides(n->op) && n->op != SP_OP_MatMul && n->op != SP_OP_Gemm && n->op != SP_OP_Linear &&
        n->op != SP_OP_Attention && n->op != SP_OP_Interact)
        return false;
    if (!sp_dims_const(&n->out[0]->dims, dim)) return true;
    sparta_tensor out = sparta_tensor_view(n->out[0]->dtype, n->out[0]->dims.rank, dim, NULL);
    k = SP_MAX(n->in[0]->constant->dim[0], n->in[0]->constant->dim[SP_MAX(n->in[0]->constant->rank - 1, 0)]);
    if (slides(n->op)) k = sp_ops_window_work(n);
    if (!sp_int_mul(sparta_tensor_elements(&out), k, &work)) return true;
    *cost = work;
    return work > FOLD_WORK;
}

/* What folding has cost so far, in bytes. */
typedef struct folding {
    size_t made, moved;
} folding;

static size_t constant_bytes(const sparta_tensor *t)
{
    return (size_t)sparta_tensor_elements(t) * sparta_dtype_size(t->dtype);
}

/* All inputs constant, results of known and moderate size, nothing spent beyond the limits? Counts what it
 * will cost. */
static bool foldable(sp_graph *g, const sp_node *n, folding *f)
{
    size_t read = 0, made = 0;
    int64_t work = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        if (!n->in[i]->constant || !sp_size_add(read, constant_bytes(n->in[i]->constant), &read))
            return false;
    }
    for (int i = 0; i < n->n_out; i++) {
        int64_t dim[SPARTA_RANK];
        size_t one;
        if (!sp_dims_const(&n->out[i]->dims, dim)) return false;
        if (sp_tensor_bytes(g->cx, n->out[i]->dtype, n->out[i]->dims.rank, dim, &one) != SPARTA_OK) {
            sp_ctx_clear(g->cx); /* too large: the run will say so */
            return false;
        }
        if (one > FOLD_BYTES || !sp_size_add(made, one, &made)) return false;
    }
    if (made > FOLD_BYTES || too_much_work(n, &work) || g->folded + work > FOLD_WORK_ALL) return false;
    if (f->made + made > sp_ctx_budget(g->cx) / 4 || read > FOLD_MOVED || f->moved + read + made > FOLD_MOVED)
        return false;
    g->folded += work;
    f->made += made;
    f->moved += read + made;
    return true;
}

/* A weight keeps its narrow type: what dequantises it stays in the graph. */
bool sp_ops_keeps(const sp_node *n)
{
    return n->op == SP_OP_DequantizeLinear;
}

/* Run the reference once and keep what it makes. */
sparta_status sp_ops_fold(sp_graph *g, sp_node *n)
{
    sparta_tensor *in = sp_arena_array(g->arena, (size_t)(n->n_in + n->n_out), sizeof *in),
                  *out = in + n->n_in;
    SP_NEED(g->cx, in);
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] ? *n->in[i]->constant : (sparta_tensor){.rank = -1};
    for (int i = 0; i < n->n_out; i++) {
        int64_t dim[SPARTA_RANK] = {0};
        (void)sp_dims_const(&n->out[i]->dims, dim);
        SP_TRY(sp_tensor_alloc_in(g->arena, n->out[i]->dtype, n->out[i]->dims.rank, dim, &out[i]));
    }
    if (sp_builtin_run(g->cx, n->op, &(sp_op_args){&n->attrs, n->n_in, n->n_out, in, out}) != SPARTA_OK)
        return sp_fail_in(g->cx, "node '%.200s'", n->name);
    for (int i = 0; i < n->n_out; i++) n->out[i]->constant = &out[i];
    return SPARTA_OK;
}

/* A constant that is another one reshaped or converted keeps the name that one had in the file. */
static void keep_origin(const sp_node *n)
{
    if (!SP_OP_AMONG(n->op, SP_OP_Identity, SP_OP_Cast, SP_OP_CastLike, SP_OP_Reshape, SP_OP_Flatten,
                     SP_OP_Transpose, SP_OP_Squeeze, SP_OP_Unsqueeze, SP_OP_DequantizeLinear))
        return;
    n->out[0]->origin = n->in[0]->origin;
    n->out[0]->part = n->in[0]->part;
    n->out[0]->n_parts = n->in[0]->n_parts;
}

/* Infer one node; *gone when its outputs are constants and nobody needs it any more. */
static sparta_status infer_and_fold(sp_graph *g, sp_node *n, folding *f, bool *gone)
{
    SP_TRY(sp_ops_infer_node(g, n));
    bool all = true;
    for (int i = 0; i < n->n_out; i++) {
        SP_TRY(fold_ints(g, n->out[i]));
        all &= n->out[i]->constant != NULL;
    }
    if (!all && !sp_ops_keeps(n) && foldable(g, n, f)) {
        SP_TRY(sp_ops_fold(g, n));
        keep_origin(n);
        all = true;
    }
    for (int i = 0; i < n->n_out; i++) {
        sp_value *v = n->out[i];
        if (v->constant && !v->ints) SP_TRY(sp_graph_read_ints(g, v));
        if (all) v->producer = NULL;
        if (!all) v->constant = NULL; /* a value has a producer or is a constant, not both */
    }
    *gone = all;
    return SPARTA_OK;
}

/* Nodes that folded leave the list; after a failure the rest stays as it is. */
static sparta_status infer_nodes(sp_graph *g)
{
    folding spent = {0};
    int kept = 0;
    sparta_status status = SPARTA_OK;
    for (int i = 0; i < g->n_nodes; i++) {
        bool gone = false;
        if (status == SPARTA_OK) status = sp_check_cancel(g->cx);
        if (status == SPARTA_OK) status = infer_and_fold(g, g->node[i], &spent, &gone);
        if (!gone) g->node[kept++] = g->node[i];
    }
    g->n_nodes = kept;
    return status;
}

/* ------------------------------------------------------------------ shapes that need no arithmetic */
/* The result's dims are known, so Reshape([batch, sequence, 4, 64]) can be said with numbers: [0, 0, 4, 64].
 */
static bool reshape_numbers(const sp_node *n, int64_t *out)
{
    const sp_dims *x = &n->in[0]->dims, *y = &n->out[0]->dims;
    int open = 0;
    for (int i = 0; i < y->rank; i++) {
        if (i < x->rank && sp_expr_equal(x->dim[i], y->dim[i]))
            out[i] = 0;
        else if (!sp_expr_is_const(y->dim[i], &out[i])) {
            out[i] = -1;
            open++;
        } else if (out[i] == 0)
            return false;
    }
    return open <= 1;
}

/* Dims of x that do not change are 1 in the shape of an Expand; those that do must be numbers. */
static bool expand_numbers(const sp_node *n, int64_t *out)
{
    const sp_dims *x = &n->in[0]->dims, *y = &n->out[0]->dims;
    for (int i = 0; i < y->rank; i++) {
        int from = i - (y->rank - x->rank);
        out[i] = 1;
        if (from >= 0 && sp_expr_equal(x->dim[from], y->dim[i])) continue;
        if (!sp_expr_is_const(y->dim[i], &out[i])) return false;
    }
    return true;
}

static sparta_status settle_shapes(sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        sp_node *n = g->node[i];
        int64_t numbers[SPARTA_RANK] = {0};
        if ((n->op != SP_OP_Reshape && n->op != SP_OP_Expand) || n->in[1]->constant) continue;
        if (!(n->op == SP_OP_Reshape ? reshape_numbers(n, numbers) : expand_numbers(n, numbers))) continue;
        sp_value *shape;
        sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){n->out[0]->dims.rank}, numbers);
        SP_TRY(sp_graph_add_constant(g, NULL, &t, true, &shape));
        /* The new shape copies with 0, whatever allowzero said of the old one. */
        if (n->op == SP_OP_Reshape) SP_TRY(sp_graph_drop_attr(g, n, "allowzero"));
        n->in[1] = shape;
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ the graph */
/* Shapes again whenever they have said what a symbol is. A rule that fails may be mended by that. The last round's word stands,
 * however many symbols there are: what is not solved is compared by runs. */
static sparta_status infer_solved(sp_graph *g)
{
    for (int round = 0;; round++) {
        bool solved = false;
        g->n_musts = 0;
        sparta_status status = infer_nodes(g);
        if (status == SPARTA_E_MEMORY || status == SPARTA_E_CANCELLED) return status;
        if (round < ROUNDS) SP_TRY(sp_ops_solve(g, &solved));
        if (!solved) return status;
        sp_ctx_clear(g->cx);
    }
}

/* Every value that a node takes or gives. */
static bool is_typed(const sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] && !n->in[k]->typed) return false;
        for (int k = 0; k < n->n_out; k++)
            if (!n->out[k]->typed) return false;
    }
    return true;
}

sparta_status sp_ops_infer(sp_graph *g)
{
    SP_TRY(sp_graph_sort(g));
    SP_TRY(sp_graph_sweep(g)); /* what nobody uses need not make sense */
    SP_TRY(infer_solved(g));
    SP_TRY(settle_shapes(g));
    SP_TRY(sp_graph_sweep(g));
    SP_ASSERT(is_typed(g));
    return SPARTA_OK;
}

/* An input dim with some of its symbols replaced: all of them, since what is left could not be said. */
static sparta_status bind_dim(sp_graph *g, const sp_value *v, const sp_bindings *b, const sp_expr **dim)
{
    const char *symbol;
    int64_t value;
    bool plain = sp_expr_is_symbol(*dim, &symbol), bound = false;
    for (int i = 0; plain && i < b->n; i++) bound |= !strcmp(b->name[i], symbol);
    if (plain && !bound) return SPARTA_OK;
    if (sp_expr_is_const(*dim, NULL)) return SPARTA_OK;
    if (sp_expr_eval(g->cx, *dim, b, &value) != SPARTA_OK)
        return sp_fail_in(g->cx, "input '%.200s'", v->name);
    if (value < 0)
        return sp_fail(g->cx, SPARTA_E_USAGE, "input '%.200s': a dim would be %lld", v->name,
                       (long long)value);
    *dim = sp_expr_const(g->arena, value);
    SP_NEED(g->cx, *dim);
    return SPARTA_OK;
}

static bool has_symbol(const sp_graph *g, const char *name)
{
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++)
            if (sp_ops_mentions(g->input[i]->dims.dim[d], name)) return true;
    return false;
}

bool sp_ops_is_size(const sp_graph *g, const char *name)
{
    const char *symbol;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++)
            if (sp_expr_is_symbol(g->input[i]->dims.dim[d], &symbol) && !strcmp(symbol, name)) return true;
    return false;
}

sparta_status sp_ops_infer_given(sp_graph *g, const sp_bindings *given, bool *bind)
{
    int before = 0, after = 0;
    bool hidden = false;
    for (int i = 0; i < given->n; i++) {
        before += has_symbol(g, given->name[i]);
        hidden |= has_symbol(g, given->name[i]) && !sp_ops_is_size(g, given->name[i]);
    }
    const sparta_status status = sp_ops_infer(g);
    for (int i = 0; i < given->n; i++) after += has_symbol(g, given->name[i]);
    const bool shape = status == SPARTA_E_SHAPE || status == SPARTA_E_UNSUPPORTED || status == SPARTA_E_LIMIT;
    *bind = before && (shape || (status == SPARTA_OK && (hidden || after < before)));
    return status;
}

static sparta_status check_symbol(const sp_graph *g, const char *name)
{
    if (has_symbol(g, name)) return SPARTA_OK;
    sp_text t;
    sp_text_init(&t, g->cx);
    for (int i = 0; i < g->n_inputs; i++) {
        sp_text_printf(&t, "%s %.200s", i ? "," : "", g->input[i]->name);
        sp_dims_print(&g->input[i]->dims, &t);
    }
    sparta_status status = sp_fail(
        g->cx, SPARTA_E_USAGE, "options.dims %.200s: no input has a dim of this name; the inputs are%.1000s",
        name, sp_text_str(&t));
    sp_text_free(&t);
    return status;
}

sparta_status sp_ops_bind(sp_graph *g, const sp_bindings *b)
{
    for (int i = 0; i < b->n; i++) {
        const sp_bound bound = sp_graph_bound(g, b->name[i]);
        SP_TRY(check_symbol(g, b->name[i]));
        SP_TRY(sp_bound_check(g->cx, &bound, b->value[i]));
    }
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->input[i]->dims.rank; d++)
            SP_TRY(bind_dim(g, g->input[i], b, &g->input[i]->dims.dim[d]));
    for (int i = 0; i < b->n; i++) SP_TRY(sp_graph_add_fixed(g, b->name[i], b->value[i]));
    return SPARTA_OK;
}
