/* The parts of rule.h. */
#include "ops/ints.h"
#include "ops/rule.h"
#include <stdio.h>
#include <string.h>

sparta_status sp_ops_fail(const sp_graph *g, const sp_node *n, sparta_status status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sp_fail(g->cx, status, "%s '%.200s': %s", sp_builtin_row(n->op)->name, n->name, text);
}

/* ------------------------------------------------------------------ words for messages */
static const char *keep(const sp_graph *g, sp_text *t)
{
    const char *s = sp_text_keep(t, g->arena);
    return s ? s : "?";
}

const char *sp_ops_say(const sp_graph *g, const sp_expr *x)
{
    sp_text t;
    sp_text_init(&t, g->cx);
    sp_expr_print(x, &t);
    return keep(g, &t);
}

const char *sp_ops_say_dims(const sp_graph *g, const sp_dims *d)
{
    sp_text t;
    sp_text_init(&t, g->cx);
    sp_dims_print(d, &t);
    return keep(g, &t);
}

/* ------------------------------------------------------------------ checks */
sparta_status sp_ops_types(const sp_graph *g, const sp_node *n, int i, unsigned types)
{
    if (!sp_ops_has(n, i) || types & SP_TYPE(n->in[i]->dtype)) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_DTYPE, "input %d '%.200s' is %s, which this operator does not take", i,
                       n->in[i]->name, sparta_dtype_name(n->in[i]->dtype));
}

sparta_status sp_ops_same_type(const sp_graph *g, const sp_node *n, int i, int j)
{
    if (!sp_ops_has(n, i) || !sp_ops_has(n, j) || n->in[i]->dtype == n->in[j]->dtype) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_DTYPE, "'%.200s' is %s and '%.200s' is %s; they must have one type",
                       n->in[i]->name, sparta_dtype_name(n->in[i]->dtype), n->in[j]->name,
                       sparta_dtype_name(n->in[j]->dtype));
}

sparta_status sp_ops_rank(const sp_graph *g, const sp_node *n, int i, int least, int most)
{
    if (!sp_ops_has(n, i)) return SPARTA_OK;
    int rank = n->in[i]->dims.rank;
    if (rank >= least && rank <= most) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_SHAPE, "input %d '%.200s' has rank %d (%s); it must be %d to %d", i,
                       n->in[i]->name, rank, sp_ops_say_dims(g, &n->in[i]->dims), least, most);
}

sparta_status sp_ops_scalar(const sp_graph *g, const sp_node *n, int i)
{
    if (!sp_ops_has(n, i)) return SPARTA_OK;
    const sp_dims *d = &n->in[i]->dims;
    for (int k = 0; k < d->rank; k++)
        if (!sp_expr_is(d->dim[k], 1))
            return sp_ops_fail(g, n, SPARTA_E_SHAPE, "input %d '%.200s' has dims %s; it must be one element",
                               i, n->in[i]->name, sp_ops_say_dims(g, d));
    return SPARTA_OK;
}

sparta_status sp_ops_axis(const sp_graph *g, const sp_node *n, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "axis %lld of a tensor of rank %d; it must be in [%d, %d]",
                           (long long)axis, rank, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return SPARTA_OK;
}

/* Known to differ, for every size that a symbol may have? */
static sparta_status differ(sp_graph *g, const sp_expr *a, const sp_expr *b, bool *yes)
{
    const sp_expr *equal;
    SP_TRY(sp_ints_equal(g, a, b, &equal));
    *yes = equal && sp_expr_is(equal, 0);
    return SPARTA_OK;
}

sparta_status sp_ops_agree(sp_graph *g, const sp_node *n, const char *what, const sp_expr *a,
                           const sp_expr *b)
{
    bool never;
    if (sp_expr_equal(a, b)) return SPARTA_OK;
    SP_TRY(differ(g, a, b, &never));
    if (!never) return sp_graph_add_must(g, a, b, *n->name ? n->name : sp_builtin_row(n->op)->name);
    return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s: %s and %s differ", what, sp_ops_say(g, a),
                       sp_ops_say(g, b));
}

/* ------------------------------------------------------------------ dims */
/* One dim of two that broadcast; *out NULL: they do not. */
static sparta_status broadcast_dim(sp_graph *g, const sp_node *n, const sp_expr *x, const sp_expr *y,
                                   const sp_expr **out)
{
    bool never = false;
    *out = sp_expr_is(x, 1) ? y : x;
    if (sp_expr_equal(x, y) || sp_expr_is(x, 1) || sp_expr_is(y, 1)) return SPARTA_OK;
    SP_TRY(differ(g, x, y, &never));
    if (never) {
        *out = NULL;
        return SPARTA_OK;
    }
    if (sp_expr_is_const(y, NULL)) *out = y;
    return sp_ops_agree(g, n, "a dim", x, y);
}

sparta_status sp_ops_broadcast(sp_graph *g, const sp_node *n, const sp_dims *a, const sp_dims *b,
                               sp_dims *out)
{
    sp_dims d = {.rank = SP_MAX(a->rank, b->rank)};
    for (int i = 0; i < d.rank; i++) {
        int ia = i - (d.rank - a->rank), ib = i - (d.rank - b->rank);
        const sp_expr *x = ia >= 0 ? a->dim[ia] : NULL, *y = ib >= 0 ? b->dim[ib] : NULL;
        d.dim[i] = x ? x : y;
        if (x && y) SP_TRY(broadcast_dim(g, n, x, y, &d.dim[i]));
        if (!d.dim[i])
            return sp_ops_fail(g, n, SPARTA_E_SHAPE,
                               "%s and %s do not broadcast: dim %d is %s on one side and %s on the other",
                               sp_ops_say_dims(g, a), sp_ops_say_dims(g, b), i, sp_ops_say(g, x),
                               sp_ops_say(g, y));
    }
    *out = d;
    return SPARTA_OK;
}

sparta_status sp_ops_broadcasts_to(sp_graph *g, const sp_node *n, const sp_dims *from, const sp_dims *to)
{
    sp_dims both;
    bool wider = false;
    SP_TRY(sp_ops_broadcast(g, n, to, from, &both));
    for (int i = 0; i < both.rank; i++) {
        const int k = i - (both.rank - to->rank);
        wider |= k < 0 || (sp_expr_is(to->dim[k], 1) && !sp_expr_is(both.dim[i], 1));
    }
    if (!wider) return SPARTA_OK;
    return sp_ops_fail(g, n, SPARTA_E_SHAPE, "%s does not repeat into %s", sp_ops_say_dims(g, from),
                       sp_ops_say_dims(g, to));
}

sparta_status sp_ops_append(const sp_graph *g, const sp_node *n, sp_dims *d, const sp_expr *x)
{
    int64_t size;
    if (!x) return sp_fail_in(g->cx, "%s '%.200s'", sp_builtin_row(n->op)->name, n->name);
    if (d->rank == SPARTA_RANK)
        return sp_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "the result has more than %d dims", SPARTA_RANK);
    if (sp_expr_is_const(x, &size) && size < 0)
        return sp_ops_fail(g, n, SPARTA_E_SHAPE, "dim %d would be %lld; sizes are not negative", d->rank,
                           (long long)size);
    d->dim[d->rank++] = x;
    return SPARTA_OK;
}

void sp_ops_set(sp_node *n, int i, sparta_dtype dtype, const sp_dims *dims)
{
    if (i >= n->n_out) return;
    n->out[i]->dtype = dtype;
    n->out[i]->dims = *dims;
    n->out[i]->typed = true;
}

sparta_status sp_ops_done(sp_node *n, sparta_dtype dtype, const sp_dims *dims)
{
    sp_ops_set(n, 0, dtype, dims);
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ whole rules */
sparta_status sp_ops_same(sp_graph *g, sp_node *n)
{
    (void)g;
    return sp_ops_done(n, n->in[0]->dtype, &n->in[0]->dims);
}

sparta_status sp_ops_into(sp_graph *g, sp_node *n)
{
    SP_TRY(sp_ops_same_type(g, n, 0, 1));
    SP_TRY(sp_ops_broadcasts_to(g, n, &n->in[1]->dims, &n->in[0]->dims));
    return sp_ops_same(g, n);
}

sparta_status sp_ops_test(sp_graph *g, sp_node *n)
{
    (void)g;
    return sp_ops_done(n, SPARTA_BOOL, &n->in[0]->dims);
}
