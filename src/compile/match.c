/* match.c: the table of uses and the rewriting of nodes that all passes share, and the small questions they
 * ask. */
#include "compile/match.h"
#include "ops/ops.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ the table */

sparta_status sparta_match_room(sparta_match *m)
{
    if (m->g->n_values <= m->capacity) return SPARTA_OK;
    int wanted = m->g->n_values + m->g->n_values / 2 + 16;
    int *uses = sparta_realloc(m->g->cx, m->uses, (size_t)wanted * sizeof *uses);
    SPARTA_NEED(m->g->cx, uses);
    m->uses = uses;
    sparta_value **alias = sparta_realloc(m->g->cx, m->alias, (size_t)wanted * sizeof *alias);
    SPARTA_NEED(m->g->cx, alias);
    m->alias = alias;
    memset(uses + m->capacity, 0, (size_t)(wanted - m->capacity) * sizeof *uses);
    for (int i = m->capacity; i < wanted; i++) alias[i] = NULL;
    m->capacity = wanted;
    return SPARTA_OK;
}

void sparta_match_use(sparta_match *m, sparta_value *v)
{
    if (v) m->uses[v->id]++;
}

static bool dead(const sparta_match *m, const sparta_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (m->uses[n->out[i]->id] > 0) return false;
    return true;
}

/* `depth` is bounded because chains in a file are not; a count that stays too high only prevents a fusion. */
static void release(sparta_match *m, sparta_value *v, int depth)
{
    while (v && m->alias[v->id]) v = m->alias[v->id];
    if (!v || --m->uses[v->id] > 0 || !v->producer || depth > 64 || !dead(m, v->producer)) return;
    for (int i = 0; i < v->producer->n_in; i++) release(m, v->producer->in[i], depth + 1);
}

void sparta_match_release(sparta_match *m, sparta_value *v)
{
    release(m, v, 0);
}

static void follow(sparta_match *m, sparta_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        while (n->in[i] && m->alias[n->in[i]->id]) n->in[i] = m->alias[n->in[i]->id];
}

static sparta_status walk(sparta_match *m, sparta_match_visit visit, void *arg)
{
    sparta_graph *g = m->g;
    SPARTA_TRY(sparta_match_room(m));
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->node[i]->n_in; j++) sparta_match_use(m, g->node[i]->in[j]);
    for (int i = 0; i < g->n_outputs; i++) sparta_match_use(m, g->output[i]);
    for (int i = 0; i < g->n_nodes; i++) {
        sparta_node *n = g->node[i];
        follow(m, n);
        if (dead(m, n)) continue;
        if (i % 256 == 0) SPARTA_TRY(sparta_check_cancel(g->cx));
        SPARTA_TRY(visit(m, n, arg));
    }
    for (int i = 0; i < g->n_nodes; i++)
        follow(m, g->node[i]); /* users of aliased nodes that were added came before them */
    SPARTA_TRY(sparta_graph_sweep(g));
    return m->added ? sparta_graph_sort(g) : SPARTA_OK;
}

sparta_status sparta_match_run(sparta_graph *g, sparta_match_visit visit, void *arg)
{
    sparta_match m = {.g = g};
    sparta_status status = walk(&m, visit, arg);
    sparta_free(g->cx, m.uses);
    sparta_free(g->cx, m.alias);
    return status;
}

/* ------------------------------------------------------------------ asking */

sparta_node *sparta_match_made_by(const sparta_value *v, sparta_op_id op)
{
    return v && v->producer && v->producer->op == op ? v->producer : NULL;
}

int sparta_match_uses(const sparta_match *m, const sparta_value *v)
{
    return m->uses[v->id];
}

bool sparta_match_once(const sparta_match *m, const sparta_value *v)
{
    return m->uses[v->id] == 1 && !v->is_output;
}

bool sparta_match_scalar(const sparta_value *v, double *out)
{
    if (!v || !v->constant || sparta_tensor_elements(v->constant) != 1) return false;
    *out = sparta_element_get(v->constant->dtype, v->constant->data, 0);
    return true;
}

bool sparta_match_is(const sparta_value *v, double wanted)
{
    double c;
    return sparta_match_scalar(v, &c) && fabs(c - wanted) <= 1e-6 * fabs(wanted);
}

int sparta_match_ints(const sparta_value *v, int64_t out[SPARTA_RANK])
{
    if (!v || !v->constant || sparta_dtype_is_float(v->constant->dtype)) return -1;
    int64_t n = sparta_tensor_elements(v->constant);
    if (n < 0 || n > SPARTA_RANK) return -1;
    for (int64_t i = 0; i < n; i++) out[i] = sparta_element_get_int(v->constant->dtype, v->constant->data, i);
    return (int)n;
}

bool sparta_match_f32(const sparta_value *v)
{
    return v && v->typed && v->dtype == SPARTA_F32;
}

bool sparta_match_same_dims(const sparta_value *a, const sparta_value *b)
{
    return a->typed && b->typed && sparta_dims_equal(&a->dims, &b->dims);
}

bool sparta_match_vector(const sparta_value *v, const sparta_expr *n)
{
    return v && v->constant && sparta_match_f32(v) && v->dims.rank == 1 &&
           sparta_expr_equal(v->dims.dim[0], n);
}

bool sparta_match_with_scalar(const sparta_node *n, sparta_value **other, double *scalar)
{
    if (n->n_in != 2) return false;
    for (int i = 1; i >= 0; i--)
        if (sparta_match_scalar(n->in[i], scalar)) {
            *other = n->in[1 - i];
            return true;
        }
    return false;
}

int sparta_match_axis(const sparta_node *n, int64_t otherwise, int rank)
{
    int64_t axis = sparta_attr_int(&n->attrs, "axis", otherwise);
    return (int)(axis < 0 ? axis + rank : axis);
}

bool sparta_match_is_turn(const sparta_node *n)
{
    const sparta_attr *perm = sparta_attr_find(&n->attrs, "perm");
    return n->op == SPARTA_OP_Transpose && n->in[0]->dims.rank == 2 &&
           (!perm || (perm->n == 2 && perm->ints[0] == 1 && perm->ints[1] == 0));
}

bool sparta_match_broadcast(int n, sparta_value *const *in, sparta_dims *out)
{
    sparta_dims d = {0};
    for (int i = 0; i < n; i++) {
        if (!in[i]->typed) return false;
        d.rank = SPARTA_MAX(d.rank, in[i]->dims.rank);
    }
    for (int axis = 0; axis < d.rank; axis++)
        for (int i = 0; i < n; i++) {
            int k = axis - (d.rank - in[i]->dims.rank);
            const sparta_expr *size = k < 0 ? NULL : in[i]->dims.dim[k];
            if (!size) continue;
            if (!d.dim[axis] || sparta_expr_is(d.dim[axis], 1))
                d.dim[axis] = size;
            else if (!sparta_expr_is(size, 1) && !sparta_expr_equal(size, d.dim[axis]))
                return false;
        }
    *out = d;
    return true;
}
