/* rows: a Linear does not care in which order its rows come, so rearrangements of rows on both sides cancel.
 *
 *   Reshape(Linear(Reshape(x)))                     Linear(x)              when the rows end where they began
 *   Transpose of every part of a Split              Split of the Transpose
 *   Gather(.., 0), Gather(.., 1), Gather(.., 2)     Split                  of packed projections: (S,B,3*E) as (3,S,B,E)
 *   Relu(Reshape(Linear(x)))                        Reshape(Relu(Linear))  what a Linear can end with; sums of two that were moved alike
 *
 * This is how torch.nn.MultiheadAttention, which wants the sequence first, is exported; and how convolutions of 1 x 1 come to be followed by what they
 * end with.
 */
#include "builtin/epilogue.h"
#include "compile/chain.h"
#include "compile/passes.h"
#include "ops/ops.h"
#include <string.h>

enum { PARTS = SP_MATCH_READERS, LONGEST = 8 };

/* ------------------------------------------------------------------ across a Linear */

/* The rearrangement `step` of rows of N, done to rows of K. */
static bool step_rows(sp_match *m, sp_chain *rows, const sp_node *step, const sp_expr *n, const sp_expr *k)
{
    const sp_dims *to = &step->out[0]->dims, *from = &step->in[0]->dims;
    if (to->rank < 2 || !sp_expr_equal(to->dim[to->rank - 1], n) ||
        !sp_expr_equal(from->dim[from->rank - 1], n))
        return false;
    if (step->op == SP_OP_Transpose) {
        const sp_attr *perm = sp_attr_find(&step->attrs, "perm");
        return perm && perm->ints[perm->n - 1] == perm->n - 1 && sp_chain_step(m, rows, step);
    }
    sp_dims dims = *to;
    dims.dim[dims.rank - 1] = k;
    return sp_chain_reshape(m, rows, &dims);
}

/* The steps from the Linear's result down to n are single-use; n itself is the last. Returns the Linear, or
 * NULL. */
static sp_node *linear_above(const sp_match *m, sp_node *n, sp_node **step, int *steps)
{
    for (*steps = 0; *steps < LONGEST && sp_chain_is_step(n); n = n->in[0]->producer) {
        step[(*steps)++] = n;
        if (!n->in[0]->producer || !sp_match_once(m, n->in[0])) return NULL;
    }
    bool fits = n->op == SP_OP_Linear && *steps > 0 && n->n_in <= 3;
    return fits ? n : NULL;
}

static sparta_status across_linear(sp_match *m, sp_node *n)
{
    sp_node *step[LONGEST];
    sp_chain rows;
    int steps;
    const sp_node *linear = linear_above(m, n, step, &steps);
    if (!linear || !sp_chain_of(m, linear->in[0], &rows) || rows.steps == 0) return SPARTA_OK;
    const sp_dims *x = &linear->in[0]->dims, *y = &linear->out[0]->dims;
    while (steps > 0)
        if (!step_rows(m, &rows, step[--steps], y->dim[y->rank - 1], x->dim[x->rank - 1])) return SPARTA_OK;
    if (!sp_chain_is_base(&rows)) return SPARTA_OK;
    sp_value *in[] = {rows.base, linear->in[1], linear->n_in > 2 ? linear->in[2] : NULL};
    sp_attrs attrs = linear->attrs;
    SP_TRY(sp_match_rename(m, n, linear->name));
    return sp_match_become(m, n, SP_OP_Linear, linear->n_in, in, &attrs);
}

/* ------------------------------------------------------------------ Split */

/* `n` makes `out` from now on; the node that made it is left with a value that nobody uses. */
static void take_over(sp_match *m, sp_node *n, int at, sp_node *from)
{
    sp_value *out = from->out[0], *idle = n->out[at];
    for (int i = 0; i < from->n_in; i++) sp_match_release(m, from->in[i]);
    n->out[at] = out;
    out->producer = n;
    from->out[0] = idle;
    idle->producer = from;
    m->uses[idle->id] = 0;
    m->added = true;
}

static const sp_attr *row_perm(const sp_node *n)
{
    const sp_attr *perm = n->op == SP_OP_Transpose ? sp_attr_find(&n->attrs, "perm") : NULL;
    return perm && perm->n > 0 && perm->ints[perm->n - 1] == perm->n - 1 ? perm : NULL;
}

/* Split on the last axis whose every part is transposed alike, last axis in place: transpose first. */
static sparta_status before_split(sp_match *m, sp_node *n, int64_t *effort)
{
    sp_node *after[PARTS];
    int rank = n->in[0]->dims.rank;
    if (n->n_out > PARTS || sp_match_axis(n, 0, rank) != rank - 1) return SPARTA_OK;
    for (int i = 0; i < n->n_out; i++) {
        sp_readers u = sp_match_readers(m, n->out[i], effort);
        const sp_attr *perm = u.n == 1 ? row_perm(u.node[0]) : NULL, *first = i ? row_perm(after[0]) : perm;
        if (!perm || perm->n != first->n ||
            memcmp(perm->ints, first->ints, (size_t)perm->n * sizeof *perm->ints) != 0)
            return SPARTA_OK;
        after[i] = u.node[0];
    }
    sp_value *x;
    sp_attrs attrs = after[0]->attrs;
    SP_TRY(sp_match_add(m, SP_OP_Transpose, after[0]->name, 1, &n->in[0], &attrs, &x));
    sp_match_use(m, x);
    sp_match_release(m, n->in[0]);
    n->in[0] = x;
    for (int i = 0; i < n->n_out; i++) take_over(m, n, i, after[i]);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ Gathers that are a Split */

/* Gathers of places 0 .. n-1 of axis `axis` of v, each once, in u.node[place]. */
static bool all_places(const sp_match *m, const sp_value *v, int64_t *effort, int *axis, sp_readers *out)
{
    sp_readers u = sp_match_readers(m, v, effort);
    if (u.n < 2) return false;
    *axis = sp_match_axis(u.node[0], 0, v->dims.rank);
    *out = (sp_readers){.n = u.n};
    if (*axis < 0 || *axis >= v->dims.rank || !sp_expr_is(v->dims.dim[*axis], u.n)) return false;
    for (int i = 0; i < u.n; i++) {
        int64_t place[SPARTA_RANK];
        const sp_node *n = u.node[i];
        if (n->op != SP_OP_Gather || sp_match_axis(n, 0, v->dims.rank) != *axis || n->in[1]->dims.rank != 0)
            return false;
        if (sp_match_ints(n->in[1], place) != 1) return false;
        if (place[0] < 0) place[0] += u.n;
        if (place[0] < 0 || place[0] >= u.n || out->node[place[0]]) return false;
        out->node[place[0]] = u.node[i];
    }
    return true;
}

/* The last dim of the chain's base begins with an atom that is the whole of the view's dim `axis`? What follows that atom is *width
 * elements. */
static bool leads_last_dim(const sp_chain *c, int axis, int64_t *width)
{
    int begin = axis ? c->end[axis - 1] : 0;
    int64_t last, places, size, product;
    if (c->end[axis] != begin + 1 || c->base->dims.rank < 1) return false;
    if (!sp_expr_is_const(c->base->dims.dim[c->base->dims.rank - 1], &last)) return false;
    const int leader = c->order[begin];
    *width = 1;
    for (int i = leader + 1; i < c->n; i++)
        if (!sp_expr_is_const(c->size[i], &size) || !sp_int_mul(*width, size, width)) return false;
    return sp_expr_is_const(c->size[leader], &places) && sp_int_mul(places, *width, &product) &&
           product == last;
}

/* The chain without its dim `axis`, which is one atom, on another base. */
static sp_chain without(const sp_chain *c, int axis, sp_value *base, const sp_dims *dims)
{
    sp_chain rest = {.base = base, .steps = 4, .dims = *dims}; /* 4: any chain is shorter */
    int gone = c->order[axis ? c->end[axis - 1] : 0], dim = 0;
    for (int k = 0; k < c->dims.rank; k++) {
        if (k == axis) continue;
        for (int a = k ? c->end[k - 1] : 0; a < c->end[k]; a++)
            rest.order[rest.n++] = c->order[a] - (c->order[a] > gone);
        rest.end[dim++] = rest.n;
    }
    for (int a = 0; a < c->n; a++)
        if (a != gone) rest.size[a - (a > gone)] = c->size[a];
    return rest;
}

/* (.., 3*E) as (3, .., E): places of 3 are parts of the last dim of the base. What remains is a chain on each
 * part. */
static sparta_status split_places(sp_match *m, const sp_chain *c, int axis, int64_t width,
                                  const sp_readers *u)
{
    sp_value *part[PARTS] = {NULL};
    int64_t sizes[PARTS];
    for (int i = 0; i < u->n; i++) sizes[i] = width;
    SP_TRY(sp_match_split(m, u->node[0]->name, c->base, u->n, sizes, part));
    for (int i = 0; i < u->n; i++) {
        sp_chain rest = without(c, axis, part[i], &u->node[i]->out[0]->dims);
        bool written;
        SP_TRY(sp_chain_write(m, &rest, u->node[i], &written));
    }
    return SPARTA_OK;
}

static sparta_status gathers(sp_match *m, sp_node *n, int64_t *effort)
{
    sp_readers u;
    int axis;
    sp_chain c;
    if (sp_match_uses(m, n->out[0]) < 2 || !all_places(m, n->out[0], effort, &axis, &u)) return SPARTA_OK;
    int64_t width;
    if (!sp_chain_of(m, n->out[0], &c) || !leads_last_dim(&c, axis, &width)) return SPARTA_OK;
    return split_places(m, &c, axis, width, &u);
}

/* ------------------------------------------------------------------ what a Linear ends with */

/* v is a Linear's result, or what it will end with, for one reader. */
static bool of_linear(const sp_match *m, const sp_value *v, int depth)
{
    const sp_node *n = v->producer;
    if (!depth || !n || !sp_match_once(m, v)) return false;
    if (n->op == SP_OP_Linear) return true;
    if (sp_word_of(n->op, &n->attrs) < 0) return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && of_linear(m, n->in[i], depth - 1)) return true;
    return false;
}

/* v is that, moved, and nobody else reads it on the way. */
static bool moved(sp_match *m, sp_value *v, sp_chain *out)
{
    const sp_value *x = v;
    for (int i = 0; i < LONGEST && x->producer && sp_chain_is_step(x->producer); i++) {
        if (!sp_match_once(m, x)) return false;
        x = x->producer->in[0];
    }
    return of_linear(m, x, SP_EPILOGUE_WORDS) && sp_chain_of(m, v, out) && out->base == x && out->steps > 0;
}

static bool moved_alike(const sp_chain *a, const sp_chain *b)
{
    if (a->n != b->n || !sp_dims_equal(&a->base->dims, &b->base->dims) || !sp_dims_equal(&a->dims, &b->dims))
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->order[i] != b->order[i] || !sp_expr_equal(a->size[i], b->size[i])) return false;
    return memcmp(a->end, b->end, (size_t)a->dims.rank * sizeof *a->end) == 0;
}

/* n, element by element on what was moved, is done before that. */
static sparta_status before_moving(sp_match *m, sp_node *n)
{
    const int word = sp_word_of(n->op, &n->attrs);
    if (word < 0 || !sp_match_f32(n->out[0]) || !sp_match_f32(n->in[0])) return SPARTA_OK;
    const bool two = sp_word_row((sp_word_id)word)->slot != 0;
    sp_chain at[2];
    bool written;
    if (two && (n->n_in != 2 || !sp_match_f32(n->in[1]) || n->in[0]->constant || n->in[1]->constant))
        return SPARTA_OK;
    const int first = moved(m, n->in[0], &at[0]) ? 0 : two && moved(m, n->in[1], &at[1]) ? 1 : -1;
    if (first < 0) return SPARTA_OK;
    if (two && (!sp_chain_of(m, n->in[1 - first], &at[1 - first]) || !moved_alike(&at[0], &at[1])))
        return SPARTA_OK;
    sp_value *in[] = {at[0].base, two ? at[1].base : NULL};
    sp_attrs attrs = n->attrs;
    sp_chain after = at[0];
    SP_TRY(sp_match_add(m, n->op, n->name, two ? 2 : 1, in, &attrs, &after.base));
    after.steps = 4; /* any chain is shorter */
    SP_TRY(sp_chain_write(m, &after, n, &written));
    const bool dead = !written && sp_match_uses(m, after.base) == 0;
    for (int i = 0; i < 1 + two && dead; i++) sp_match_release(m, in[i]);
    return SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    int64_t *effort = m->state;
    if (n->op == SP_OP_Split) return before_split(m, n, effort);
    if (!sp_chain_is_step(n)) return before_moving(m, n);
    SP_TRY(across_linear(m, n));
    return sp_chain_is_step(n) ? gathers(m, n, effort) : SPARTA_OK;
}

sparta_status sp_pass_rows(sp_graph *g)
{
    int64_t effort = (int64_t)1 << 30;
    return sp_match_run(g, visit, &effort);
}
