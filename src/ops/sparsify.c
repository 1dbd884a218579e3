/* Sparsify: type and dims of the input. What is known of its result is how many elements of a line are there at most, not which. */
#include "ops/flow.h"
#include "ops/ints.h"
#include <math.h>

static bool banded(const sp_node *n)
{
    return sp_attr_int(&n->attrs, "left", -1) >= 0 || sp_attr_int(&n->attrs, "right", -1) >= 0;
}

/* Of three operands: matrices of as many pairs as x has. */
static sparta_status pairs(sp_graph *g, sp_node *n)
{
    const sp_dims *x = &n->in[0]->dims, *q = &n->in[1]->dims, *k = &n->in[2]->dims;
    for (int i = 0; i < 3; i++) {
        SP_TRY(sp_ops_rank(g, n, i, 2, SPARTA_RANK));
        SP_TRY(sp_ops_same_type(g, n, 0, i));
    }
    SP_TRY(sp_ops_route(g, n));
    SP_TRY(sp_ops_agree(g, n, "rows of x and of q", x->dim[x->rank - 2], q->dim[q->rank - 2]));
    SP_TRY(sp_ops_agree(g, n, "columns of x and of k", x->dim[x->rank - 1], k->dim[k->rank - 1]));
    SP_TRY(sp_ops_agree(g, n, "columns of q and rows of k", q->dim[q->rank - 1], k->dim[k->rank - 2]));
    if (sp_attr_int(&n->attrs, "own", 0))
        SP_TRY(sp_ops_agree(g, n, "rows and columns, with own", x->dim[x->rank - 2], x->dim[x->rank - 1]));
    return sp_ops_same(g, n);
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
    if (sp_ops_has(n, 1) && sp_ops_has(n, 2)) return pairs(g, n);
    if (n->n_in > 1) return sp_ops_fail(g, n, SPARTA_E_SHAPE, "it takes x, or x, q and k");
    const int64_t keep = sp_attr_int(&n->attrs, "keep", 0);
    const double above = (double)sp_attr_float(&n->attrs, "above", 0),
                 expect = (double)sp_attr_float(&n->attrs, "expect", 0);
    if (keep < 0)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "keep is %lld; give how many may stay, or 0: all",
                           (long long)keep);
    if (!(above >= 0) || isinf(above))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "above is %g; it must be a number of at least 0", above);
    if (!(expect >= 0 && expect <= 1))
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "expect is %g; it must be a share between 0 and 1", expect);
    if (sp_attr_int(&n->attrs, "left", -1) < -1 || sp_attr_int(&n->attrs, "right", -1) < -1)
        return sp_ops_fail(
            g, n, SPARTA_E_SHAPE, "left and right are %lld and %lld; give how many stay, or -1: all",
            (long long)sp_attr_int(&n->attrs, "left", -1), (long long)sp_attr_int(&n->attrs, "right", -1));
    SP_TRY(sp_ops_rank(g, n, 0, banded(n) ? 2 : 1, SPARTA_RANK));
    return sp_ops_same(g, n);
}

/* Without a bound every element is looked at by itself. With one they compete: of equals the first stay, so that only zeros pass; a function may look at
 * all of a line, and where a band lies is a matter of two axes. */
static sparta_status axes(sp_axes *a)
{
    bool whole[SPARTA_RANK] = {false};
    const int rank = a->n->in[0]->dims.rank;
    const bool function = *sp_attr_string(&a->n->attrs, "function", "");
    if (a->n->n_in > 1) return sp_axes_opaque(a);
    if (!sp_attr_int(&a->n->attrs, "keep", 0) && !function && !banded(a->n)) return sp_flow_each(a);
    whole[rank - 1] = true;
    if (banded(a->n)) whole[rank - 2] = true;
    SP_TRY(sp_flow_along(a, whole, "which of them stay is known only as the model runs"));
    a->how = SP_FLOW_PRODUCT;
    a->in[0].role = SP_FACTOR;
    a->no_values = true;
    return SPARTA_OK;
}

SP_RULE(Sparsify, shape, SP_FLOATS, SP_CONSERVATIVE, axes, NULL,
        "element by element; with a bound zero where the line along the last axis is, all of which stays",
        "");
