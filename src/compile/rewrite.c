/* rewrite.c: the changing half of match.h: nodes that become others, aliases, new nodes and the shapes they
 * need. */
#include "compile/match.h"
#include "ops/ops.h"
#include <string.h>

/* Names and strings of attributes are literals or of the graph already; arrays may be on the caller's stack.
 */
static sparta_status keep_attrs(sp_graph *g, const sp_attrs *from, sp_attrs *out)
{
    sp_attrs none = {0};
    if (!from) from = &none;
    sp_attr *list = sp_arena_array(g->arena, (size_t)from->n, sizeof *list);
    SP_NEED(g->cx, list);
    for (int i = 0; i < from->n; i++) {
        list[i] = from->attr[i];
        if (list[i].kind != SP_ATTR_INTS) continue;
        int64_t *ints = sp_arena_array(g->arena, (size_t)list[i].n, sizeof *ints);
        SP_NEED(g->cx, ints);
        if (list[i].n) memcpy(ints, from->attr[i].ints, (size_t)list[i].n * sizeof *ints);
        list[i].ints = ints;
    }
    *out = (sp_attrs){from->n, list};
    return SPARTA_OK;
}

sparta_status sp_match_become(sp_match *m, sp_node *n, sp_op_id op, int n_in, sp_value *const *in,
                              const sp_attrs *attrs)
{
    sp_attrs kept;
    SP_TRY(keep_attrs(m->g, attrs, &kept));
    sp_value **list = sp_arena_array(m->g->arena, (size_t)n_in, sizeof *list);
    SP_NEED(m->g->cx, list);
    for (int i = 0; i < n_in; i++) {
        list[i] = in[i];
        sp_match_use(m, in[i]);
    }
    for (int i = 0; i < n->n_in; i++) sp_match_release(m, n->in[i]);
    n->op = op;
    n->n_in = n_in;
    n->in = list;
    n->attrs = kept;
    return SPARTA_OK;
}

sparta_status sp_match_rename(sp_match *m, sp_node *n, const char *name)
{
    const char *kept = sp_arena_string(m->g->arena, name);
    SP_NEED(m->g->cx, kept);
    n->name = kept;
    return SPARTA_OK;
}

static bool reads(const sp_node *n, const sp_value *v)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == v) return true;
    return false;
}

/* `by` has no other user: its producer writes `out` instead, and n is left with `by`, which nobody uses. */
static void steal(sp_match *m, sp_node *n, sp_value *by)
{
    sp_value *out = n->out[0];
    sp_node *maker = by->producer;
    for (int i = 0; i < maker->n_out; i++)
        if (maker->out[i] == by) maker->out[i] = out;
    out->producer = maker;
    n->out[0] = by;
    by->producer = n;
    m->uses[by->id] = 0;
}

sparta_status sp_match_alias(sp_match *m, sp_node *n, sp_value *by)
{
    sp_value *out = n->out[0];
    if (out->is_output && by->producer && sp_match_once(m, by) && reads(n, by)) {
        steal(m, n, by);
        return SPARTA_OK;
    }
    if (out->is_output) /* an input, a constant, or wanted by others: a copy is what was asked for */
        return n->op == SP_OP_Identity ? SPARTA_OK
                                       : sp_match_become(m, n, SP_OP_Identity, 1, (sp_value *[]){by}, NULL);
    m->alias[out->id] = by;
    m->uses[by->id] += m->uses[out->id];
    m->uses[out->id] = 0;
    for (int i = 0; i < n->n_in; i++) sp_match_release(m, n->in[i]);
    return SPARTA_OK;
}

sparta_status sp_match_add(sp_match *m, sp_op_id op, const char *name, int n_in, sp_value *const *in,
                           const sp_attrs *attrs, sp_value **out)
{
    sp_value *made = NULL;
    sp_node *n;
    SP_TRY(sp_graph_add_node(m->g, op, name, n_in, in, 1, &made, attrs, &n));
    SP_TRY(sp_match_room(m));
    for (int i = 0; i < n_in; i++) sp_match_use(m, in[i]);
    SP_TRY(sp_ops_infer_node(m->g, n));
    m->added = true;
    *out = made;
    return SPARTA_OK;
}

sparta_status sp_match_split(sp_match *m, const char *name, sp_value *x, int n, const int64_t *sizes,
                             sp_value **part)
{
    sp_value *in[] = {x, NULL};
    sp_node *split;
    SP_TRY(sp_match_constant_ints(m, n, sizes, &in[1]));
    SP_TRY(sp_graph_add_node(m->g, SP_OP_Split, name, 2, in, n, part, SP_ATTRS(SP_INT("axis", -1)), &split));
    SP_TRY(sp_match_room(m));
    for (int i = 0; i < 2; i++) sp_match_use(m, in[i]);
    m->added = true;
    return sp_ops_infer_node(m->g, split);
}

/* ------------------------------------------------------------------ shapes */

sparta_status sp_match_constant(sp_match *m, const sparta_tensor *t, sp_value **out)
{
    SP_TRY(sp_graph_add_constant(m->g, NULL, t, true, out));
    return sp_match_room(m);
}

sparta_status sp_match_constant_ints(sp_match *m, int n, const int64_t *ints, sp_value **out)
{
    const sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, (int64_t[]){n}, (void *)(uintptr_t)ints);
    return sp_match_constant(m, &t, out);
}

sp_value *sp_match_known_of(const sp_match_known *k, const sparta_tensor *t)
{
    for (int i = 0; i < k->n; i++)
        if (sp_tensor_same_bytes(k->from[i], t)) return k->made[i];
    return NULL;
}

void sp_match_know(sp_match_known *k, const sparta_tensor *t, sp_value *made)
{
    if (k->n == SP_MATCH_KNOWN) return;
    k->from[k->n] = t;
    k->made[k->n++] = made;
}

/* The vector of one element, a dim of some input; NULL when none is that. */
static sparta_status dim_vector(sp_match *m, const sp_expr *dim, sp_value **out)
{
    *out = NULL;
    for (int i = 0; i < m->g->n_inputs; i++)
        for (int axis = 0; axis < m->g->input[i]->dims.rank; axis++) {
            if (!sp_expr_equal(m->g->input[i]->dims.dim[axis], dim)) continue;
            return sp_match_add(m, SP_OP_Shape, "", 1, &m->g->input[i],
                                SP_ATTRS(SP_INT("start", axis), SP_INT("end", axis + 1)), out);
        }
    return SPARTA_OK;
}

/* Symbols of an expression that it is a multiple of: the last found, and how many times that it is. */
typedef struct factor {
    sp_arena *arena;
    const sp_expr *x, *symbol;
    int64_t times;
} factor;

static void try_factor(void *arg, const char *name)
{
    factor *f = arg;
    const sp_expr *symbol = sp_expr_symbol(f->arena, name),
                  *times = symbol ? sp_expr_divide_exact(f->arena, f->x, symbol) : NULL;
    if (times && sp_expr_is_const(times, &f->times)) f->symbol = symbol;
}

/* The vector of one element that is no constant: a dim of an input, or a multiple of one (4*batch). */
static sparta_status size_vector(sp_match *m, const sp_expr *x, sp_value **out)
{
    factor f = {m->g->arena, x, NULL, 0};
    SP_TRY(dim_vector(m, x, out));
    if (*out) return SPARTA_OK;
    sp_expr_symbols(x, try_factor, &f);
    if (!f.symbol) return SPARTA_OK;
    sp_value *in[2];
    SP_TRY(dim_vector(m, f.symbol, &in[0]));
    if (!in[0]) return SPARTA_OK;
    SP_TRY(sp_match_constant_ints(m, 1, &f.times, &in[1]));
    return sp_match_add(m, SP_OP_Mul, "", 2, in, NULL, out);
}

bool sp_match_is_size(const sp_node *n)
{
    const sp_node *shape = n->op == SP_OP_Mul ? sp_match_made_by(n->in[0], SP_OP_Shape) : NULL;
    return shape && shape->in[0]->is_input && n->in[1]->constant;
}

sparta_status sp_match_shape_vector(sp_match *m, int n, const sp_expr *const *ints, sp_value **out)
{
    sp_value *part[SPARTA_RANK];
    int64_t run[SPARTA_RANK];
    int parts = 0, length = 0;
    *out = NULL;
    if (n < 1 || n > SPARTA_RANK) return SPARTA_OK;
    for (int i = 0; i < n; i++) { /* runs of constants, and sizes between them */
        const bool number = sp_expr_is_const(ints[i], &run[length]);
        length += number;
        if (length && (i + 1 == n || !sp_expr_is_const(ints[i + 1], NULL))) {
            SP_TRY(sp_match_constant_ints(m, length, run, &part[parts++]));
            length = 0;
        }
        if (number) continue;
        SP_TRY(size_vector(m, ints[i], &part[parts]));
        if (!part[parts++]) return SPARTA_OK;
    }
    if (parts == 1)
        *out = part[0];
    else
        SP_TRY(sp_match_add(m, SP_OP_Concat, "", parts, part, SP_ATTRS(SP_INT("axis", 0)), out));
    return SPARTA_OK;
}

/* Can the target be a constant? Numbers as they are, 0 where the dim stays in its place, -1 once. */
static bool constant_target(const sp_value *x, const sp_dims *dims, int64_t *target)
{
    bool guessed = false;
    for (int i = 0; i < dims->rank; i++) {
        if (sp_expr_is_const(dims->dim[i], &target[i])) continue;
        if (i < x->dims.rank && sp_expr_equal(dims->dim[i], x->dims.dim[i]))
            target[i] = 0;
        else if (!guessed) {
            target[i] = -1;
            guessed = true;
        } else
            return false;
    }
    return true;
}

/* The first dim that is neither a number nor a symbol, 4*batch say, is what the others leave: -1. */
static sparta_status leave_one(sp_match *m, sp_dims *dims)
{
    const char *symbol;
    int64_t number;
    for (int i = 0; i < dims->rank; i++) {
        if (sp_expr_is_const(dims->dim[i], &number) || sp_expr_is_symbol(dims->dim[i], &symbol)) continue;
        dims->dim[i] = sp_expr_const(m->g->arena, -1);
        SP_NEED(m->g->cx, dims->dim[i]);
        return SPARTA_OK;
    }
    return SPARTA_OK;
}

sparta_status sp_match_reshape_target(sp_match *m, const sp_value *x, const sp_dims *dims, sp_value **out)
{
    int64_t target[SPARTA_RANK];
    *out = NULL;
    for (int i = 0; i < dims->rank; i++)
        if (sp_expr_is(dims->dim[i], 0)) return SPARTA_OK; /* an empty dim: 0 would mean "copy" */
    if (constant_target(x, dims, target)) return sp_match_constant_ints(m, dims->rank, target, out);
    sp_dims said = *dims;
    SP_TRY(leave_one(m, &said));
    return sp_match_shape_vector(m, said.rank, said.dim, out);
}

sparta_status sp_match_reshaped(sp_match *m, const char *name, const sp_dims *dims, sp_value **x)
{
    sp_value *in[] = {*x, NULL};
    SP_TRY(sp_match_reshape_target(m, *x, dims, &in[1]));
    *x = NULL;
    return in[1] ? sp_match_add(m, SP_OP_Reshape, name, 2, in, NULL, x) : SPARTA_OK;
}
