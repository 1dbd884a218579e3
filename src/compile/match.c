/* match.c: the table of uses and the rewriting of nodes that all passes share, and the small questions they
 * ask. */
#include "compile/match.h"
#include "ops/ops.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ the table */

sparta_status sp_match_room(sp_match *m)
{
    if (m->g->n_values <= m->capacity) return SPARTA_OK;
    int wanted = m->g->n_values + m->g->n_values / 2 + 16;
    int *uses = sp_realloc(m->g->cx, m->uses, (size_t)wanted * sizeof *uses);
    SP_NEED(m->g->cx, uses);
    m->uses = uses;
    sp_value **alias = sp_realloc(m->g->cx, m->alias, (size_t)wanted * sizeof *alias);
    SP_NEED(m->g->cx, alias);
    m->alias = alias;
    memset(uses + m->capacity, 0, (size_t)(wanted - m->capacity) * sizeof *uses);
    for (int i = m->capacity; i < wanted; i++) alias[i] = NULL;
    m->capacity = wanted;
    return SPARTA_OK;
}

void sp_match_use(sp_match *m, sp_value *v)
{
    if (v) m->uses[v->id]++;
}

static bool dead(const sp_match *m, const sp_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (m->uses[n->out[i]->id] > 0) return false;
    return true;
}

/* `depth` is bounded because chains in a file are not; a count that stays too high only prevents a fusion. */
static void release(sp_match *m, sp_value *v, int depth)
{
    while (v && m->alias[v->id]) v = m->alias[v->id];
    if (!v || --m->uses[v->id] > 0 || !v->producer || depth > 64 || !dead(m, v->producer)) return;
    for (int i = 0; i < v->producer->n_in; i++) release(m, v->producer->in[i], depth + 1);
}

void sp_match_release(sp_match *m, sp_value *v)
{
    release(m, v, 0);
}

static void follow(sp_match *m, sp_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        while (n->in[i] && m->alias[n->in[i]->id]) n->in[i] = m->alias[n->in[i]->id];
}

static sparta_status visit_all(sp_match *m, sp_match_visit visit)
{
    sp_graph *g = m->g;
    SP_TRY(sp_match_room(m));
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->node[i]->n_in; j++) sp_match_use(m, g->node[i]->in[j]);
    for (int i = 0; i < g->n_outputs; i++) sp_match_use(m, g->output[i]);
    for (int i = 0; i < g->n_nodes; i++) {
        sp_node *n = g->node[i];
        follow(m, n);
        if (dead(m, n)) continue;
        if (i % 256 == 0) SP_TRY(sp_check_cancel(g->cx));
        SP_TRY(visit(m, n));
    }
    /* Users of aliased nodes that were added came before them. */
    for (int i = 0; i < g->n_nodes; i++) follow(m, g->node[i]);
    SP_TRY(sp_graph_sweep(g));
    return m->added ? sp_graph_sort(g) : SPARTA_OK;
}

sparta_status sp_match_run(sp_graph *g, sp_match_visit visit, void *state)
{
    sp_match m = {.g = g, .state = state};
    sparta_status status = visit_all(&m, visit);
    sp_free(g->cx, m.uses);
    sp_free(g->cx, m.alias);
    return status;
}

/* ------------------------------------------------------------------ asking */

sp_node *sp_match_made_by(const sp_value *v, sp_op_id op)
{
    return v && v->producer && v->producer->op == op ? v->producer : NULL;
}

int sp_match_uses(const sp_match *m, const sp_value *v)
{
    return m->uses[v->id];
}

bool sp_match_once(const sp_match *m, const sp_value *v)
{
    return m->uses[v->id] == 1 && !v->is_output;
}

sp_readers sp_match_readers(const sp_match *m, const sp_value *v, int64_t *effort)
{
    sp_readers u = {0};
    *effort -= m->g->n_nodes;
    if (v->is_output || *effort < 0) return (sp_readers){.n = -1};
    for (int i = 0; i < m->g->n_nodes; i++)
        for (int j = 0; j < m->g->node[i]->n_in; j++) {
            if (m->g->node[i]->in[j] != v || sp_match_uses(m, m->g->node[i]->out[0]) == 0) continue;
            if (u.n == SP_MATCH_READERS) return (sp_readers){.n = -1};
            u.node[u.n++] = m->g->node[i];
        }
    return u;
}

bool sp_match_scalar(const sp_value *v, double *out)
{
    if (!v || !v->constant || sparta_tensor_elements(v->constant) != 1) return false;
    *out = sp_element_get(v->constant->dtype, v->constant->data, 0);
    return true;
}

bool sp_match_is(const sp_value *v, double wanted)
{
    double c;
    return sp_match_scalar(v, &c) && fabs(c - wanted) <= 1e-6 * fabs(wanted);
}

int sp_match_ints(const sp_value *v, int64_t out[SPARTA_RANK])
{
    if (!v || !v->constant || sp_dtype_is_float(v->constant->dtype)) return -1;
    int64_t n = sparta_tensor_elements(v->constant);
    if (n < 0 || n > SPARTA_RANK) return -1;
    for (int64_t i = 0; i < n; i++) out[i] = sp_element_get_int(v->constant->dtype, v->constant->data, i);
    return (int)n;
}

bool sp_match_f32(const sp_value *v)
{
    return v && v->typed && v->dtype == SPARTA_F32;
}

bool sp_match_same_dims(const sp_value *a, const sp_value *b)
{
    return a->typed && b->typed && sp_dims_equal(&a->dims, &b->dims);
}

bool sp_match_vector(const sp_value *v, const sp_expr *n)
{
    return v && v->constant && sp_match_f32(v) && v->dims.rank == 1 && sp_expr_equal(v->dims.dim[0], n);
}

bool sp_match_with_scalar(const sp_node *n, sp_value **other, double *scalar)
{
    if (n->n_in != 2) return false;
    for (int i = 1; i >= 0; i--)
        if (sp_match_scalar(n->in[i], scalar)) {
            *other = n->in[1 - i];
            return true;
        }
    return false;
}

int sp_match_axis(const sp_node *n, int64_t otherwise, int rank)
{
    int64_t axis = sp_attr_int(&n->attrs, "axis", otherwise);
    return (int)(axis < 0 ? axis + rank : axis);
}

bool sp_match_is_turn(const sp_node *n)
{
    const sp_attr *perm = sp_attr_find(&n->attrs, "perm");
    return n->op == SP_OP_Transpose && n->in[0]->dims.rank == 2 &&
           (!perm || (perm->n == 2 && perm->ints[0] == 1 && perm->ints[1] == 0));
}

bool sp_match_broadcast(int n, sp_value *const *in, sp_dims *out)
{
    sp_dims d = {0};
    for (int i = 0; i < n; i++) {
        if (!in[i]->typed) return false;
        d.rank = SP_MAX(d.rank, in[i]->dims.rank);
    }
    for (int axis = 0; axis < d.rank; axis++)
        for (int i = 0; i < n; i++) {
            int k = axis - (d.rank - in[i]->dims.rank);
            const sp_expr *size = k < 0 ? NULL : in[i]->dims.dim[k];
            if (!size) continue;
            if (!d.dim[axis] || sp_expr_is(d.dim[axis], 1))
                d.dim[axis] = size;
            else if (!sp_expr_is(size, 1) && !sp_expr_equal(size, d.dim[axis]))
                return false;
        }
    *out = d;
    return true;
}

sp_value *sp_match_slice_of(const sp_value *v, int64_t *from, int64_t *to)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_Slice);
    int64_t start[SPARTA_RANK], end[SPARTA_RANK], axis[SPARTA_RANK], step[SPARTA_RANK], size;
    if (!n || n->n_in < 4 || !n->in[3]) return NULL;
    const int last = n->in[0]->dims.rank - 1;
    if (sp_match_ints(n->in[1], start) != 1 || sp_match_ints(n->in[2], end) != 1 ||
        sp_match_ints(n->in[3], axis) != 1 || (axis[0] != -1 && axis[0] != last))
        return NULL;
    if (n->n_in > 4 && n->in[4] && (sp_match_ints(n->in[4], step) != 1 || step[0] != 1)) return NULL;
    if (last < 0 || !sp_expr_is_const(n->in[0]->dims.dim[last], &size)) return NULL;
    *from = start[0] < 0 ? start[0] + size : start[0];
    *to = end[0] < 0 ? end[0] + size : SP_MIN(end[0], size);
    return n->in[0];
}
