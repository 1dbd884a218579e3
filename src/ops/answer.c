/* The answer of the references, and what it forgives.
 *
 * Of a quantised graph the answer jumps: a value that lies within rounding of the middle between two steps of a QuantizeLinear goes to
 * the one or to the other, and with it everything that comes after moves by a share of a step. No two right programs agree on
 * it. So it is with a Sparsify, where a magnitude that lies within rounding of the last one that stays is there or not, and with blocks of keys that are about as alike (Route). How far that may move an output is a property of the graph, and is measured: the references run once more, with what every one
 * of them reads moved at random by FLIP_JITTER of its largest value, a thousand times its rounding, and an output may differ by
 * FLIP_FACTOR times what that did; by a step where it was quantised itself. What is 0 stays so before a Sparsify: rounding makes no zero, and an
 * activation such as Relu makes exact ones. */
#include "ops/close.h"
#include <math.h>

#define FLIP_JITTER 1e-4
#define FLIP_FACTOR 2

enum { READ_QUANTIZE = 1, READ_SPARSIFY }; /* who reads a value and jumps */

typedef struct jitter {
    const char *read; /* by value id: READ_... */
    sp_rng rng;
} jitter;

static sparta_status shake(void *arg, const sp_value *v, const sparta_tensor *t)
{
    jitter *j = arg;
    if (!j->read[v->id]) return SPARTA_OK;
    const double by = FLIP_JITTER * sp_largest(t);
    for (int64_t i = 0, n = sparta_tensor_elements(t); i < n; i++) {
        const double x = sp_element_get(t->dtype, t->data, i);
        if (x == 0 && j->read[v->id] == READ_SPARSIFY) continue;
        sp_element_set(t->dtype, t->data, i, x + by * (2 * sp_rng_uniform(&j->rng) - 1));
    }
    return SPARTA_OK;
}

/* The inputs whose values decide: from, and so many. */
static int deciding(const sp_node *n, int *from)
{
    const bool compares = n->op == SP_OP_Route || (n->op == SP_OP_Sparsify && n->n_in > 1);
    *from = n->op == SP_OP_Sparsify && compares;
    return compares ? 2 : 1;
}

/* Where does the result of a node jump, if it does? */
static char jumps(const sp_node *n)
{
    if (n->op == SP_OP_Route) return READ_SPARSIFY;
    if (n->op == SP_OP_QuantizeLinear) return READ_QUANTIZE;
    const bool drops = n->op == SP_OP_Sparsify &&
                       (sp_attr_int(&n->attrs, "keep", 0) > 0 || sp_attr_float(&n->attrs, "above", 0) > 0 ||
                        *sp_attr_string(&n->attrs, "function", ""));
    return drops ? READ_SPARSIFY : 0;
}

/* Is there a node that jumps, of something computed? `read` is told which values. */
static bool any_jumps(const sp_graph *g, char *read)
{
    bool any = false;
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        const char how = jumps(n);
        int from, count = how ? deciding(n, &from) : 0;
        for (int k = 0; k < count; k++) {
            const sp_value *v = n->in[from + k];
            if (!v->producer) continue;
            read[v->id] = how;
            any = true;
        }
    }
    return any;
}

/* One step of an output that is quantised, or was and is a real number again; 0: it is neither. */
static double step_of(const sp_value *v)
{
    const sp_node *n = sp_computed_by(v);
    if (!n || !n->in[0]->producer) return 0;
    if (n->op == SP_OP_QuantizeLinear) return 1;
    if (n->op != SP_OP_DequantizeLinear || !n->in[1]->constant) return 0;
    return sp_largest(n->in[1]->constant);
}

/* Add what flips do to the slack of every output. */
static sparta_status add_flips(sparta_ctx *cx, const sp_graph *g, const sp_answer *a, const char *read)
{
    static const sp_tolerance none = {0, 0};
    jitter j = {.read = read, .rng = sp_rng_seed(17)};
    sparta_tensor *moved = sp_alloc_array(cx, (size_t)g->n_outputs + 1, sizeof *moved);
    SP_NEED(cx, moved);
    sparta_status status = sp_ops_run(cx, g, a->in, a->n_in, moved, shake, &j);
    for (int i = 0; i < g->n_outputs && !status; i++) {
        sp_closeness c;
        sp_close(&moved[i], &a->out[i], &none, 0, &c);
        a->slack[i] += fmax(FLIP_FACTOR * c.finite, step_of(g->output[i]));
        sp_free(cx, moved[i].data);
    }
    sp_free(cx, moved);
    return status;
}

static sparta_status run(sparta_ctx *cx, const sp_graph *g, const sp_answer *a)
{
    sp_scales scales;
    SP_TRY(sp_scales_create(cx, g, a->in, a->n_in, &scales));
    sparta_status status = sp_ops_run(cx, g, a->in, a->n_in, a->out, sp_scales_watch, &scales);
    for (int i = 0; i < g->n_outputs && !status; i++) a->slack[i] = sp_slack(&scales, g->output[i]);
    sp_scales_free(&scales);
    return status;
}

sparta_status sp_ops_answer(sparta_ctx *cx, const sp_graph *g, const sp_answer *a)
{
    char *read = sp_alloc_array(cx, (size_t)g->n_values + 1, sizeof *read);
    SP_NEED(cx, read);
    sparta_status status = run(cx, g, a);
    if (!status && any_jumps(g, read)) {
        status = add_flips(cx, g, a, read);
        for (int i = 0; i < g->n_outputs && status; i++) {
            sp_free(cx, a->out[i].data);
            a->out[i].data = NULL;
        }
    }
    sp_free(cx, read);
    return status;
}
