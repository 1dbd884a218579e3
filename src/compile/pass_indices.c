/* indices: the arithmetic of positions that exporters write for masks, seen through.
 *
 * An integer value is affine when its element at (i0, i1, ...) is base + c0*i0 + c1*i1 + ...: a Range is, and
 * so is what Unsqueeze, Expand, Add and Mul make of it. Then
 *
 *   Gather(x, 0 .. n-1 in order)                    is Reshape(x)
 *   GatherND(x, the grid of its own indices)        is Reshape(x)
 *   positions >= 0                                  is true, expanded
 *
 * and a mask that was gathered element by element is the input's mask again.
 */
#include "compile/match.h"
#include "compile/passes.h"

typedef struct affine {
    sp_dims dims;
    const sp_expr *base, *coefficient[SPARTA_RANK]; /* of dims that are not the constant 1; NULL: 0 */
} affine;

enum { DEEPEST = 8 }; /* of an index expression; files may be deeper, exporters are not */

static bool find_affine(sp_match *m, const sp_value *v, int depth, affine *out);

static const sp_expr *sum(sp_match *m, const sp_expr *a, const sp_expr *b)
{
    return !a ? b : !b ? a : sp_expr_add(m->g->arena, a, b);
}

/* a as if it had these dims, which it broadcasts to. */
static affine widened(const affine *a, const sp_dims *dims)
{
    affine w = {.dims = *dims, .base = a->base};
    for (int i = 0; i < a->dims.rank; i++) w.coefficient[i + dims->rank - a->dims.rank] = a->coefficient[i];
    return w;
}

static bool add_affine(sp_match *m, const affine *a, const affine *b, affine *out)
{
    out->base = sum(m, a->base, b->base);
    for (int i = 0; i < out->dims.rank; i++) {
        out->coefficient[i] = sum(m, a->coefficient[i], b->coefficient[i]);
        if ((a->coefficient[i] || b->coefficient[i]) && !out->coefficient[i]) return false;
    }
    return out->base != NULL;
}

static bool is_single(const affine *a)
{
    for (int i = 0; i < a->dims.rank; i++)
        if (a->coefficient[i]) return false;
    return true;
}

static bool scale_affine(sp_match *m, const affine *a, const sp_expr *by, affine *out)
{
    out->base = sp_expr_mul(m->g->arena, a->base, by);
    for (int i = 0; i < out->dims.rank; i++) {
        out->coefficient[i] = a->coefficient[i] ? sp_expr_mul(m->g->arena, a->coefficient[i], by) : NULL;
        if (a->coefficient[i] && !out->coefficient[i]) return false;
    }
    return out->base != NULL;
}

static bool of_two(sp_match *m, const sp_node *n, int depth, affine *out)
{
    affine a, b;
    if (!find_affine(m, n->in[0], depth, &a) || !find_affine(m, n->in[1], depth, &b)) return false;
    if (a.dims.rank > out->dims.rank || b.dims.rank > out->dims.rank) return false;
    a = widened(&a, &out->dims);
    b = widened(&b, &out->dims);
    if (n->op == SP_OP_Add) return add_affine(m, &a, &b, out);
    if (is_single(&b)) return scale_affine(m, &a, b.base, out);
    return is_single(&a) && scale_affine(m, &b, a.base, out);
}

static bool of_range(const sp_node *n, affine *out)
{
    if (!n->in[0]->ints || !n->in[2]->ints) return false;
    out->base = n->in[0]->ints[0];
    out->coefficient[0] = n->in[2]->ints[0];
    return true;
}

/* Dims of 1 come and go, the others keep their order. */
static bool of_reshape(sp_match *m, const sp_node *n, int depth, affine *out)
{
    affine a;
    int from = 0;
    if (!find_affine(m, n->in[0], depth, &a)) return false;
    out->base = a.base;
    for (int i = 0; i < out->dims.rank; i++) {
        if (sp_expr_is(out->dims.dim[i], 1)) continue;
        while (from < a.dims.rank && sp_expr_is(a.dims.dim[from], 1)) from++;
        if (from == a.dims.rank || !sp_expr_equal(a.dims.dim[from], out->dims.dim[i])) return false;
        out->coefficient[i] = a.coefficient[from++];
    }
    while (from < a.dims.rank && sp_expr_is(a.dims.dim[from], 1)) from++;
    return from == a.dims.rank;
}

static bool of_expand(sp_match *m, const sp_node *n, int depth, affine *out)
{
    affine a;
    if (!find_affine(m, n->in[0], depth, &a) || a.dims.rank > out->dims.rank) return false;
    *out = widened(&a, &out->dims);
    return true;
}

static bool find_affine(sp_match *m, const sp_value *v, int depth, affine *out)
{
    if (depth == 0 || !v->typed || (v->dtype != SPARTA_I64 && v->dtype != SPARTA_I32)) return false;
    *out = (affine){.dims = v->dims};
    if (v->ints && v->n_ints == 1) {
        out->base = v->ints[0];
        return true;
    }
    const sp_node *n = v->producer;
    if (!n) return false;
    switch (n->op) {
    case SP_OP_Range: return of_range(n, out);
    case SP_OP_Add:
    case SP_OP_Mul: return of_two(m, n, depth - 1, out);
    case SP_OP_Reshape:
    case SP_OP_Squeeze:
    case SP_OP_Unsqueeze: return of_reshape(m, n, depth - 1, out);
    case SP_OP_Expand: return of_expand(m, n, depth - 1, out);
    default: return false;
    }
}

/* ------------------------------------------------------------------ what follows from it */

static bool is_zero(const sp_expr *x)
{
    return sp_expr_is(x, 0);
}

/* Does it count 0, 1, 2, ... through its dims in row-major order, up to n? */
static bool counts_up(sp_match *m, const affine *a, const sp_expr *n)
{
    const sp_expr *stride = sp_expr_const(m->g->arena, 1);
    if (!is_zero(a->base)) return false;
    for (int i = a->dims.rank - 1; i >= 0 && stride; i--) {
        if (sp_expr_is(a->dims.dim[i], 1)) continue;
        if (!a->coefficient[i] || !sp_expr_equal(a->coefficient[i], stride)) return false;
        stride = sp_expr_mul(m->g->arena, stride, a->dims.dim[i]);
    }
    return stride && sp_expr_equal(stride, n);
}

static sparta_status to_reshape(sp_match *m, sp_node *n)
{
    sp_value *in[] = {n->in[0], NULL};
    SP_TRY(sp_match_reshape_target(m, in[0], &n->out[0]->dims, &in[1]));
    return in[1] ? sp_match_become(m, n, SP_OP_Reshape, 2, in, NULL) : SPARTA_OK;
}

static sparta_status gather(sp_match *m, sp_node *n)
{
    affine a;
    const sp_dims *x = &n->in[0]->dims;
    if (sp_match_axis(n, 0, x->rank) != 0 || n->in[1]->dims.rank == 0) return SPARTA_OK;
    return find_affine(m, n->in[1], DEEPEST, &a) && counts_up(m, &a, x->dim[0]) ? to_reshape(m, n)
                                                                                : SPARTA_OK;
}

/* Is the component exactly the index along one axis, of that many places? The axis, or -1. */
static int only_axis(const affine *a, const sp_expr *places)
{
    int found = -1;
    if (!is_zero(a->base)) return -1;
    for (int i = 0; i < a->dims.rank; i++) {
        if (!a->coefficient[i] || sp_expr_is(a->dims.dim[i], 1)) continue;
        if (found >= 0 || !sp_expr_is(a->coefficient[i], 1) || !sp_expr_equal(a->dims.dim[i], places))
            return -1;
        found = i;
    }
    return found;
}

/* The indices are Concat(component 0, component 1, ...) on their last axis. */
static bool is_own_grid(sp_match *m, const sp_node *concat, const sp_dims *x)
{
    int last = concat->out[0]->dims.rank - 1, previous = -1;
    bool used[SPARTA_RANK] = {false};
    if (sp_match_axis(concat, 0, last + 1) != last || concat->n_in > x->rank) return false;
    for (int k = 0; k < concat->n_in; k++) {
        affine a;
        if (!find_affine(m, concat->in[k], DEEPEST, &a) || !sp_expr_is(a.dims.dim[last], 1)) return false;
        int axis = only_axis(&a, x->dim[k]);
        if (axis <= previous) return false;
        used[previous = axis] = true;
    }
    for (int i = 0; i < last; i++)
        if (!used[i] && !sp_expr_is(concat->out[0]->dims.dim[i], 1)) return false;
    return true;
}

static sparta_status gather_nd(sp_match *m, sp_node *n)
{
    sp_node *concat = sp_match_made_by(n->in[1], SP_OP_Concat);
    if (!concat || sp_attr_int(&n->attrs, "batch_dims", 0) != 0) return SPARTA_OK;
    return is_own_grid(m, concat, &n->in[0]->dims) ? to_reshape(m, n) : SPARTA_OK;
}

static bool at_least(const affine *a, int64_t bound)
{
    int64_t c;
    const char *symbol;
    if (!sp_expr_is_const(a->base, &c) || c < bound) return false;
    for (int i = 0; i < a->dims.rank; i++) {
        const sp_expr *x = a->coefficient[i];
        bool nonnegative = !x || sp_expr_is_symbol(x, &symbol) || (sp_expr_is_const(x, &c) && c >= 0);
        if (!nonnegative) return false;
    }
    return true;
}

static sparta_status greater_or_equal(sp_match *m, sp_node *n)
{
    affine a;
    int64_t bound[SPARTA_RANK];
    if (sp_match_ints(n->in[1], bound) != 1 || !find_affine(m, n->in[0], DEEPEST, &a) ||
        !at_least(&a, bound[0]))
        return SPARTA_OK;
    bool yes = true;
    sparta_tensor t = sparta_tensor_view(SPARTA_BOOL, 0, NULL, &yes);
    sp_value *in[2];
    SP_TRY(sp_match_shape_vector(m, n->out[0]->dims.rank, n->out[0]->dims.dim, &in[1]));
    if (!in[1]) return SPARTA_OK;
    SP_TRY(sp_match_constant(m, &t, &in[0]));
    return sp_match_become(m, n, SP_OP_Expand, 2, in, NULL);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    switch (n->op) {
    case SP_OP_Gather: return gather(m, n);
    case SP_OP_GatherND: return gather_nd(m, n);
    case SP_OP_GreaterOrEqual: return greater_or_equal(m, n);
    default: return SPARTA_OK;
    }
}

SP_MATCH_PASS(indices, visit)
