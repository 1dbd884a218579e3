/* Constants that repeat.
 *
 * A table of two token types that is gathered with constant ids is folded, as everything constant is, into (batch, sequence,
 * features): the file would grow by what says the same over and over. Where all who use such a constant broadcast, it is kept once
 * along the axes on which it repeats, but for its last: a bias may take up other constants. What the file has stays as it is. */
#include "propagate/facts.h"
#include <string.h>

static sparta_status keep_once(sp_graph *g, sp_value *v)
{
    const size_t element = sparta_dtype_size(v->dtype);
    int64_t inner = 1, left = sparta_tensor_elements(v->constant);
    sparta_tensor t = *v->constant;
    bool last = true; /* that has more than one index */
    for (int k = t.rank - 1; k >= 0; k--) {
        const int64_t size = t.dim[k], outer = left / (inner * SP_MAX(size, 1));
        if (size > 1 && !last && sp_slices_alike(t.data, outer, size, (size_t)inner * element)) {
            if (t.data == v->constant->data) { /* others may have it too */
                SP_TRY(sp_tensor_alloc_in(g->arena, t.dtype, t.rank, t.dim, &t));
                memcpy(t.data, v->constant->data, (size_t)left * element);
            }
            sp_slices_first(t.data, outer, size, (size_t)inner * element);
            t.dim[k] = 1;
            left /= size;
        }
        last &= size == 1;
        inner *= t.dim[k];
    }
    if (t.data == v->constant->data) return SPARTA_OK;
    sparta_tensor *smaller = sp_arena_alloc(g->arena, sizeof *smaller);
    SP_NEED(g->cx, smaller);
    *smaller = sparta_tensor_view(t.dtype, t.rank, t.dim, t.data);
    v->constant = smaller;
    for (int k = 0; k < t.rank; k++) {
        v->dims.dim[k] = sp_expr_const(g->arena, t.dim[k]);
        SP_NEED(g->cx, v->dims.dim[k]);
    }
    return SPARTA_OK;
}

/* May be kept once, unless somebody needs it as it is. */
static bool repeats(const sp_value *v, const bool *held)
{
    return v->constant && !v->origin && !v->is_output && !v->ints && !held[v->id];
}

/* Two that repeat alike would leave their node's output without the dims that each has because of the other: one of its inputs that
 * have those stays as it is. */
static void hold_one(const sp_node *n, bool *held)
{
    const sp_value *first = NULL;
    for (int k = 0; k < n->n_in; k++) {
        if (!n->in[k] || !sp_dims_equal(&n->in[k]->dims, &n->out[0]->dims)) continue;
        if (!repeats(n->in[k], held)) return;
        if (!first) first = n->in[k];
    }
    if (first) held[first->id] = true;
}

/* held[id]: somebody needs the constant as it is. */
static sparta_status find_held(sp_graph *g, sp_arena *arena, bool *held)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        bool some = false;
        for (int k = 0; k < n->n_in; k++) some |= n->in[k] && n->in[k]->constant && !n->in[k]->origin;
        if (!some) continue;
        sp_axes a;
        SP_TRY(sp_axes_of(g, n, arena, &a));
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] && !sp_may_broadcast(&a, k, n->in[k])) held[n->in[k]->id] = true;
        hold_one(n, held);
    }
    return SPARTA_OK;
}

sparta_status sp_keep_once(sp_graph *g)
{
    sp_arena *arena = sp_arena_create(g->cx);
    SP_NEED(g->cx, arena);
    bool *held = sp_arena_array(arena, (size_t)SP_MAX(g->n_values, 1), sizeof *held);
    sparta_status status = held ? find_held(g, arena, held) : sp_ctx_status(g->cx);
    for (int i = 0; status == SPARTA_OK && i < g->n_values; i++) {
        sp_value *v = g->value[i];
        if (repeats(v, held) && sparta_tensor_elements(v->constant) > 1) status = keep_once(g, v);
    }
    sp_arena_free(arena);
    return status;
}
