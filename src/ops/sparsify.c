/* Sparsify: type and dims of the input. What is known of its result is how many elements of a line are there at most, not which. */
#include "ops/flow.h"
#include <math.h>

static bool banded(const sp_node *n)
{
    return sp_attr_int(&n->attrs, "left", -1) >= 0 || sp_attr_int(&n->attrs, "right", -1) >= 0;
}

static sparta_status shape(sp_graph *g, sp_node *n)
{
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
