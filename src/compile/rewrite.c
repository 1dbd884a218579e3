/* rewrite.c: the changing half of match.h: nodes that become others, aliases, new nodes and the shapes they
 * need. */
#include "compile/match.h"
#include "ops/ops.h"
#include <string.h>

/* Names and strings of attributes are literals or of the graph already; arrays may be on the caller's stack.
 */
static sparta_status keep_attrs(sparta_graph *g, const sparta_attrs *from, sparta_attrs *out)
{
    sparta_attrs none = {0};
    if (!from) from = &none;
    sparta_attr *list = sparta_arena_array(g->arena, (size_t)from->n, sizeof *list);
    SPARTA_NEED(g->cx, list);
    for (int i = 0; i < from->n; i++) {
        list[i] = from->attr[i];
        if (list[i].kind != SPARTA_ATTR_INTS) continue;
        int64_t *ints = sparta_arena_array(g->arena, (size_t)list[i].n, sizeof *ints);
        SPARTA_NEED(g->cx, ints);
        if (list[i].n) memcpy(ints, from->attr[i].ints, (size_t)list[i].n * sizeof *ints);
        list[i].ints = ints;
    }
    *out = (sparta_attrs){from->n, list};
    return SPARTA_OK;
}

sparta_status sparta_match_become(sparta_match *m, sparta_node *n, sparta_op_id op, int n_in,
                                  sparta_value *const *in, const sparta_attrs *attrs)
{
    sparta_attrs kept;
    SPARTA_TRY(keep_attrs(m->g, attrs, &kept));
    sparta_value **list = sparta_arena_array(m->g->arena, (size_t)n_in, sizeof *list);
    SPARTA_NEED(m->g->cx, list);
    for (int i = 0; i < n_in; i++) {
        list[i] = in[i];
        sparta_match_use(m, in[i]);
    }
    for (int i = 0; i < n->n_in; i++) sparta_match_release(m, n->in[i]);
    n->op = op;
    n->n_in = n_in;
    n->in = list;
    n->attrs = kept;
    return SPARTA_OK;
}

sparta_status sparta_match_rename(sparta_match *m, sparta_node *n, const char *name)
{
    const char *kept = sparta_arena_string(m->g->arena, name);
    SPARTA_NEED(m->g->cx, kept);
    n->name = kept;
    return SPARTA_OK;
}

static bool reads(const sparta_node *n, const sparta_value *v)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == v) return true;
    return false;
}

/* `by` has no other user: its producer writes `out` instead, and n is left with `by`, which nobody uses. */
static void steal(sparta_match *m, sparta_node *n, sparta_value *by)
{
    sparta_value *out = n->out[0];
    sparta_node *maker = by->producer;
    for (int i = 0; i < maker->n_out; i++)
        if (maker->out[i] == by) maker->out[i] = out;
    out->producer = maker;
    n->out[0] = by;
    by->producer = n;
    m->uses[by->id] = 0;
}

sparta_status sparta_match_alias(sparta_match *m, sparta_node *n, sparta_value *by)
{
    sparta_value *out = n->out[0];
    if (out->is_output && by->producer && sparta_match_once(m, by) && reads(n, by)) {
        steal(m, n, by);
        return SPARTA_OK;
    }
    if (out->is_output) /* an input, a constant, or wanted by others: a copy is what was asked for */
        return n->op == SPARTA_OP_Identity
                   ? SPARTA_OK
                   : sparta_match_become(m, n, SPARTA_OP_Identity, 1, (sparta_value *[]){by}, NULL);
    m->alias[out->id] = by;
    m->uses[by->id] += m->uses[out->id];
    m->uses[out->id] = 0;
    for (int i = 0; i < n->n_in; i++) sparta_match_release(m, n->in[i]);
    return SPARTA_OK;
}

sparta_status sparta_match_add(sparta_match *m, sparta_op_id op, const char *name, int n_in,
                               sparta_value *const *in, const sparta_attrs *attrs, sparta_value **out)
{
    sparta_value *made = NULL;
    sparta_node *n;
    SPARTA_TRY(sparta_graph_add_node(m->g, op, name, n_in, in, 1, &made, attrs, &n));
    SPARTA_TRY(sparta_match_room(m));
    for (int i = 0; i < n_in; i++) sparta_match_use(m, in[i]);
    SPARTA_TRY(sparta_ops_infer_node(m->g, n));
    m->added = true;
    *out = made;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ shapes */

sparta_status sparta_match_constant_ints(sparta_match *m, int n, const int64_t *ints, sparta_value **out)
{
    int64_t dim[1] = {n};
    sparta_tensor t = sparta_tensor_view(SPARTA_I64, 1, dim, (void *)(uintptr_t)ints);
    sparta_value *made;
    SPARTA_TRY(sparta_graph_add_constant(m->g, NULL, &t, true, &made));
    SPARTA_TRY(sparta_match_room(m));
    *out = made;
    return SPARTA_OK;
}

/* The vector of one element [symbol], from an input that has it as a dim; NULL when none has. */
static sparta_status symbol_vector(sparta_match *m, const char *symbol, sparta_value **out)
{
    *out = NULL;
    for (int i = 0; i < m->g->n_inputs; i++)
        for (int axis = 0; axis < m->g->input[i]->dims.rank; axis++) {
            const char *name;
            if (!sparta_expr_is_symbol(m->g->input[i]->dims.dim[axis], &name) || strcmp(name, symbol) != 0)
                continue;
            return sparta_match_add(m, SPARTA_OP_Shape, "", 1, &m->g->input[i],
                                    SPARTA_ATTRS(SPARTA_INT("start", axis), SPARTA_INT("end", axis + 1)),
                                    out);
        }
    return SPARTA_OK;
}

sparta_status sparta_match_shape_vector(sparta_match *m, int n, const sparta_expr *const *ints,
                                        sparta_value **out)
{
    sparta_value *part[SPARTA_RANK];
    int64_t run[SPARTA_RANK];
    int parts = 0, length = 0;
    *out = NULL;
    if (n < 1 || n > SPARTA_RANK) return SPARTA_OK;
    for (int i = 0; i < n; i++) {
        const char *symbol;
        if (!sparta_expr_is_const(ints[i], NULL) && !sparta_expr_is_symbol(ints[i], &symbol))
            return SPARTA_OK;
    }
    for (int i = 0; i < n; i++) { /* runs of constants, and symbols between them */
        const char *symbol;
        if (sparta_expr_is_const(ints[i], &run[length])) length++;
        if (length && (i + 1 == n || !sparta_expr_is_const(ints[i + 1], NULL))) {
            SPARTA_TRY(sparta_match_constant_ints(m, length, run, &part[parts++]));
            length = 0;
        }
        if (!sparta_expr_is_symbol(ints[i], &symbol)) continue;
        SPARTA_TRY(symbol_vector(m, symbol, &part[parts]));
        if (!part[parts++]) return SPARTA_OK;
    }
    if (parts == 1)
        *out = part[0];
    else
        SPARTA_TRY(
            sparta_match_add(m, SPARTA_OP_Concat, "", parts, part, SPARTA_ATTRS(SPARTA_INT("axis", 0)), out));
    return SPARTA_OK;
}

/* Can the target be a constant? Numbers as they are, 0 where the dim stays in its place, -1 once. */
static bool constant_target(const sparta_value *x, const sparta_dims *dims, int64_t *target)
{
    bool guessed = false;
    for (int i = 0; i < dims->rank; i++) {
        if (sparta_expr_is_const(dims->dim[i], &target[i])) continue;
        if (i < x->dims.rank && sparta_expr_equal(dims->dim[i], x->dims.dim[i]))
            target[i] = 0;
        else if (!guessed) {
            target[i] = -1;
            guessed = true;
        } else
            return false;
    }
    return true;
}

sparta_status sparta_match_reshape_target(sparta_match *m, const sparta_value *x, const sparta_dims *dims,
                                          sparta_value **out)
{
    int64_t target[SPARTA_RANK];
    *out = NULL;
    for (int i = 0; i < dims->rank; i++)
        if (sparta_expr_is(dims->dim[i], 0)) return SPARTA_OK; /* an empty dim: 0 would mean "copy" */
    if (constant_target(x, dims, target)) return sparta_match_constant_ints(m, dims->rank, target, out);
    return sparta_match_shape_vector(m, dims->rank, dims->dim, out);
}
