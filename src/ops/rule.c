/* The parts of rule.h. */
#include "ops/ints.h"
#include "ops/rule.h"
#include <stdio.h>
#include <string.h>

sparta_status sparta_ops_fail(const sparta_graph *g, const sparta_node *n, sparta_status status,
                              const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sparta_fail(g->cx, status, "%s '%.200s': %s", sparta_builtin_row(n->op)->name, n->name, text);
}

/* ------------------------------------------------------------------ words for messages */
static const char *keep(const sparta_graph *g, sparta_text *t)
{
    const char *s = t->status == SPARTA_OK ? sparta_arena_string(g->arena, sparta_text_str(t)) : NULL;
    sparta_text_free(t);
    return s ? s : "?";
}

const char *sparta_ops_say(const sparta_graph *g, const sparta_expr *x)
{
    sparta_text t;
    sparta_text_init(&t, g->cx);
    sparta_expr_print(x, &t);
    return keep(g, &t);
}

const char *sparta_ops_say_dims(const sparta_graph *g, const sparta_dims *d)
{
    sparta_text t;
    sparta_text_init(&t, g->cx);
    sparta_dims_print(d, &t);
    return keep(g, &t);
}

/* ------------------------------------------------------------------ checks */
sparta_status sparta_ops_types(const sparta_graph *g, const sparta_node *n, int i, unsigned types)
{
    if (!sparta_ops_has(n, i) || types & SPARTA_TYPE(n->in[i]->dtype)) return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_DTYPE, "input %d '%.200s' is %s, which this operator does not take",
                           i, n->in[i]->name, sparta_dtype_name(n->in[i]->dtype));
}

sparta_status sparta_ops_same_type(const sparta_graph *g, const sparta_node *n, int i, int j)
{
    if (!sparta_ops_has(n, i) || !sparta_ops_has(n, j) || n->in[i]->dtype == n->in[j]->dtype)
        return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_DTYPE, "'%.200s' is %s and '%.200s' is %s; they must have one type",
                           n->in[i]->name, sparta_dtype_name(n->in[i]->dtype), n->in[j]->name,
                           sparta_dtype_name(n->in[j]->dtype));
}

sparta_status sparta_ops_rank(const sparta_graph *g, const sparta_node *n, int i, int least, int most)
{
    if (!sparta_ops_has(n, i)) return SPARTA_OK;
    int rank = n->in[i]->dims.rank;
    if (rank >= least && rank <= most) return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "input %d '%.200s' has rank %d (%s); it must be %d to %d", i,
                           n->in[i]->name, rank, sparta_ops_say_dims(g, &n->in[i]->dims), least, most);
}

sparta_status sparta_ops_scalar(const sparta_graph *g, const sparta_node *n, int i)
{
    if (!sparta_ops_has(n, i)) return SPARTA_OK;
    const sparta_dims *d = &n->in[i]->dims;
    for (int k = 0; k < d->rank; k++)
        if (!sparta_expr_is(d->dim[k], 1))
            return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                                   "input %d '%.200s' has dims %s; it must be one element", i, n->in[i]->name,
                                   sparta_ops_say_dims(g, d));
    return SPARTA_OK;
}

sparta_status sparta_ops_axis(const sparta_graph *g, const sparta_node *n, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                               "axis %lld of a tensor of rank %d; it must be in [%d, %d]", (long long)axis,
                               rank, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return SPARTA_OK;
}

/* Known to differ, for every size that a symbol may have? */
static sparta_status differ(sparta_graph *g, const sparta_expr *a, const sparta_expr *b, bool *yes)
{
    const sparta_expr *equal;
    SPARTA_TRY(sparta_ints_equal(g, a, b, &equal));
    *yes = equal && sparta_expr_is(equal, 0);
    return SPARTA_OK;
}

sparta_status sparta_ops_agree(sparta_graph *g, const sparta_node *n, const char *what, const sparta_expr *a,
                               const sparta_expr *b)
{
    bool never;
    if (sparta_expr_equal(a, b)) return SPARTA_OK;
    SPARTA_TRY(differ(g, a, b, &never));
    if (!never) return sparta_graph_add_must(g, a, b, *n->name ? n->name : sparta_builtin_row(n->op)->name);
    return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s: %s and %s differ", what, sparta_ops_say(g, a),
                           sparta_ops_say(g, b));
}

/* ------------------------------------------------------------------ dims */
/* One dim of two that broadcast; *out NULL: they do not. */
static sparta_status broadcast_dim(sparta_graph *g, const sparta_node *n, const sparta_expr *x,
                                   const sparta_expr *y, const sparta_expr **out)
{
    bool never = false;
    *out = sparta_expr_is(x, 1) ? y : x;
    if (sparta_expr_equal(x, y) || sparta_expr_is(x, 1) || sparta_expr_is(y, 1)) return SPARTA_OK;
    SPARTA_TRY(differ(g, x, y, &never));
    if (never) {
        *out = NULL;
        return SPARTA_OK;
    }
    if (sparta_expr_is_const(y, NULL)) *out = y;
    return sparta_ops_agree(g, n, "a dim", x, y);
}

sparta_status sparta_ops_broadcast(sparta_graph *g, const sparta_node *n, const sparta_dims *a,
                                   const sparta_dims *b, sparta_dims *out)
{
    sparta_dims d = {.rank = SPARTA_MAX(a->rank, b->rank)};
    for (int i = 0; i < d.rank; i++) {
        int ia = i - (d.rank - a->rank), ib = i - (d.rank - b->rank);
        const sparta_expr *x = ia >= 0 ? a->dim[ia] : NULL, *y = ib >= 0 ? b->dim[ib] : NULL;
        d.dim[i] = x ? x : y;
        if (x && y) SPARTA_TRY(broadcast_dim(g, n, x, y, &d.dim[i]));
        if (!d.dim[i])
            return sparta_ops_fail(g, n, SPARTA_E_SHAPE,
                                   "%s and %s do not broadcast: dim %d is %s on one side and %s on the other",
                                   sparta_ops_say_dims(g, a), sparta_ops_say_dims(g, b), i,
                                   sparta_ops_say(g, x), sparta_ops_say(g, y));
    }
    *out = d;
    return SPARTA_OK;
}

sparta_status sparta_ops_broadcasts_to(sparta_graph *g, const sparta_node *n, const sparta_dims *from,
                                       const sparta_dims *to)
{
    sparta_dims both;
    bool wider = false;
    SPARTA_TRY(sparta_ops_broadcast(g, n, to, from, &both));
    for (int i = 0; i < both.rank; i++) {
        const int k = i - (both.rank - to->rank);
        wider |= k < 0 || (sparta_expr_is(to->dim[k], 1) && !sparta_expr_is(both.dim[i], 1));
    }
    if (!wider) return SPARTA_OK;
    return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "%s does not repeat into %s", sparta_ops_say_dims(g, from),
                           sparta_ops_say_dims(g, to));
}

sparta_status sparta_ops_append(const sparta_graph *g, const sparta_node *n, sparta_dims *d,
                                const sparta_expr *x)
{
    int64_t size;
    if (!x) return sparta_fail_in(g->cx, "%s '%.200s'", sparta_builtin_row(n->op)->name, n->name);
    if (d->rank == SPARTA_RANK)
        return sparta_ops_fail(g, n, SPARTA_E_UNSUPPORTED, "the result has more than %d dims", SPARTA_RANK);
    if (sparta_expr_is_const(x, &size) && size < 0)
        return sparta_ops_fail(g, n, SPARTA_E_SHAPE, "dim %d would be %lld; sizes are not negative", d->rank,
                               (long long)size);
    d->dim[d->rank++] = x;
    return SPARTA_OK;
}

void sparta_ops_set(sparta_node *n, int i, sparta_dtype dtype, const sparta_dims *dims)
{
    if (i >= n->n_out) return;
    n->out[i]->dtype = dtype;
    n->out[i]->dims = *dims;
    n->out[i]->typed = true;
}

/* ------------------------------------------------------------------ whole rules */
sparta_status sparta_ops_unary(sparta_graph *g, sparta_node *n, unsigned types)
{
    SPARTA_TRY(sparta_ops_types(g, n, 0, types));
    sparta_ops_set(n, 0, n->in[0]->dtype, &n->in[0]->dims);
    return SPARTA_OK;
}

sparta_status sparta_ops_test(sparta_graph *g, sparta_node *n, unsigned types)
{
    SPARTA_TRY(sparta_ops_types(g, n, 0, types));
    sparta_ops_set(n, 0, SPARTA_BOOL, &n->in[0]->dims);
    return SPARTA_OK;
}
