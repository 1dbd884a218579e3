/* Precision beside the facts: which type the numbers of a value really have.
 *
 *     q: i8 --DequantizeLinear--> x: f32 (i8) --Transpose--> y: f32 (i8) --QuantizeLinear--> r: i8
 *
 * The precision of a value is its type's, but what DequantizeLinear makes has that of its input, and what only moves keeps it (several
 * inputs: the first precision that holds them all). Where, as above, the pair at both ends has one scale, zero point and type, it
 * cancels: r = Transpose(q). Rounding cannot tell: (q - z) * s / s is within 2^-6 of q - z in f32 for 16 bits, and is rounded to it.
 */
#include "propagate/facts.h"
#include <float.h>
#include <string.h>

/* ------------------------------------------------------------------ forward */
static sp_precision moved(const sp_propagation *p, const sp_axes *a, const sp_value *out)
{
    sp_precision joined = sp_precision_of(out->dtype);
    bool first = true;
    for (int i = 0; i < a->n->n_in; i++) {
        if (!a->n->in[i] || a->in[i].role != SP_ARG || a->n->in[i]->dtype != out->dtype) continue;
        const sp_precision one = sp_tesa_precision(sp_propagation_tesa(p, a->n->in[i]), NULL);
        joined = first ? one : sp_precision_join(joined, one);
        first = false;
    }
    return joined;
}

/* One cell each, side by side. */
static sparta_status begin(sp_propagation *p)
{
    const sp_graph *g = p->g;
    uint8_t *cell = sp_arena_alloc(p->arena, (size_t)SP_MAX(g->n_values, 1));
    SP_NEED(p->cx, cell);
    for (int i = 0; i < g->n_values; i++) {
        const sp_value *v = g->value[i];
        sp_tesa *t = &p->fact[i].tesa;
        t->dims = v->dims;
        for (int k = 0; k < SPARTA_RANK; k++) t->precision.extent[k] = 1;
        t->precision.at = cell + i;
        cell[i] = (uint8_t)(v->typed ? sp_precision_of(v->dtype) : SP_PRECISION_ANY);
    }
    return SPARTA_OK;
}

sparta_status sp_precisions(sp_propagation *p)
{
    const sp_graph *g = p->g;
    SP_TRY(begin(p));
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        if (n->op == SP_OP_DequantizeLinear)
            sp_fact_of(p, n->out[0])->tesa.precision.at[0] = sp_fact_of(p, n->in[0])->tesa.precision.at[0];
        for (int k = 0; k < n->n_out && p->axes[i].how == SP_FLOW_MOVE; k++)
            sp_fact_of(p, n->out[k])->tesa.precision.at[0] = (uint8_t)moved(p, &p->axes[i], n->out[k]);
    }
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ round trips that cancel */
/* One number for all of the tensor; absent is 0. */
static bool one_number(const sp_node *n, int i, double *out)
{
    const sp_value *v = i < n->n_in ? n->in[i] : NULL;
    *out = 0;
    if (!v) return true;
    if (!v->constant || sparta_tensor_elements(v->constant) != 1) return false;
    *out = sp_element_get(v->dtype, v->constant->data, 0);
    return true;
}

static bool is_round_trip(const sp_node *dequantize, const sp_node *quantize)
{
    double scale[2], zero[2];
    const sp_node *n[2] = {dequantize, quantize};
    for (int i = 0; i < 2; i++) {
        if (!one_number(n[i], 1, &scale[i]) || !one_number(n[i], 2, &zero[i])) return false;
        if (n[i]->in[1]->dtype != SPARTA_F32 || sp_attr_int(&n[i]->attrs, "block_size", 0)) return false;
    }
    if (dequantize->out[0]->dtype != SPARTA_F32 || dequantize->in[0]->dtype != quantize->out[0]->dtype)
        return false;
    return scale[0] == scale[1] && zero[0] == zero[1] && scale[0] >= FLT_MIN && scale[0] < FLT_MAX / 65536;
}

/* Every element of the one output is one of input 0, whatever its type? Nothing is filled in: an input that is a window of what the
 * output has would leave room. Dropout has no other types than floats. */
static bool only_moves(const sp_axes *a)
{
    int args = 0;
    if (a->how != SP_FLOW_MOVE || a->n->n_out != 1 || a->fill || a->n->op == SP_OP_Dropout) return false;
    for (int i = 0; i < a->n->n_in; i++) args += a->n->in[i] && a->in[i].role != SP_SIDE;
    if (args != 1 || a->in[0].role != SP_ARG || a->n->out[0]->dtype != a->n->in[0]->dtype) return false;
    for (int k = 0; k < a->n->in[0]->dims.rank; k++) {
        if (!a->in[0].axis[k].window) continue;
        for (int j = 0; j < a->n->out[0]->dims.rank; j++)
            if (a->out[0].axis[j].n && a->out[0].axis[j].label[0] == a->in[0].axis[k].label[0]) return false;
    }
    return true;
}

/* Operators that ONNX lets move types of less than 8 bits. */
static bool takes_narrow(sp_op_id op)
{
    return SP_OP_AMONG(op, SP_OP_Transpose, SP_OP_Reshape, SP_OP_Flatten, SP_OP_Squeeze, SP_OP_Unsqueeze,
                       SP_OP_Identity);
}

/* From QuantizeLinear back over moves that serve it alone to the DequantizeLinear; `first` is the move next to that. */
static sparta_status find_round_trip(sp_graph *g, sp_arena *arena, const sp_users *u, const sp_node *quantize,
                                     sp_node **first, sp_node **out)
{
    sp_node *n = quantize->in[0]->producer;
    bool narrow = sp_dtype_bits(quantize->out[0]->dtype) < 8;
    *first = *out = NULL;
    while (n && n->op != SP_OP_DequantizeLinear) {
        sp_axes a;
        const int *has = u->first + n->out[0]->id;
        if (n->n_out != 1 || n->out[0]->is_output || has[1] - has[0] != 2) return SPARTA_OK; /* n is one */
        SP_TRY(sp_axes_of(g, n, arena, &a));
        if (!only_moves(&a) || (narrow && !takes_narrow(n->op))) return SPARTA_OK;
        *first = n;
        n = n->in[0]->producer;
    }
    if (n && is_round_trip(n, quantize)) *out = n;
    return SPARTA_OK;
}

/* The moves from `first` to quantize move x; their results have its type at once, for a pair behind this one asks. */
static void move_narrow(sp_node *first, sp_value *x, const sp_node *quantize)
{
    first->in[0] = x;
    for (const sp_value *v = quantize->in[0]; v != x; v = v->producer->in[0])
        v->producer->out[0]->dtype = x->dtype;
}

static sparta_status cancel(sp_graph *g, sp_arena *arena, bool *changed)
{
    sp_users u; /* stays true for what is asked: a chain ends where an earlier one was changed */
    SP_TRY(sp_graph_users(g, arena, &u));
    for (int i = 0; i < g->n_nodes; i++) {
        sp_node *quantize = g->node[i], *first, *pair;
        if (quantize->op != SP_OP_QuantizeLinear) continue;
        SP_TRY(find_round_trip(g, arena, &u, quantize, &first, &pair));
        if (!pair) continue;
        sp_value *by = first ? quantize->in[0] : pair->in[0];
        if (quantize->out[0]->is_output && (by->is_input || by->constant || by->is_output)) continue;
        if (first) move_narrow(first, pair->in[0], quantize);
        sp_graph_replace(g, &u, quantize->out[0], by);
        *changed = true;
    }
    return SPARTA_OK;
}

sparta_status sp_cancel_round_trips(sp_graph *g, bool *changed)
{
    sp_arena *arena = sp_arena_create(g->cx);
    SP_NEED(g->cx, arena);
    *changed = false;
    sparta_status status = cancel(g, arena, changed);
    sp_arena_free(arena);
    return status == SPARTA_OK && *changed ? sp_ops_infer(g) : status;
}
