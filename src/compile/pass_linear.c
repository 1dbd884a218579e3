/* linear: Linear from MatMul or Gemm with a constant weight, and the bias added after it.
 *
 *     MatMul(x, w (K,N))                    Linear(x, w) transposed=0
 *     MatMul(x, Transpose(w (N,K)))         Linear(x, w) transposed=1
 *     Gemm(x, w, c), transB                 Linear(x, w, c) transposed=transB
 *     Add(Linear(x, w), bias (N))           Linear(x, w, bias)
 *
 * The weight stays the constant it is: no copy, unless Gemm's alpha or beta must be multiplied in. The node
 * keeps the name of the product, which is the path of the layer.
 */
#include "compile/match.h"
#include "compile/passes.h"

/* A constant f32 matrix, maybe seen through a Transpose; NULL: not that. */
static sparta_value *weight(sparta_value *w, bool *transposed)
{
    const sparta_node *t = sparta_match_made_by(w, SPARTA_OP_Transpose);
    *transposed = t && !w->constant;
    if (*transposed && !sparta_match_is_turn(t)) return NULL;
    if (*transposed) w = t->in[0];
    return w->constant && sparta_match_f32(w) && w->dims.rank == 2 ? w : NULL;
}

static sparta_status matmul(sparta_match *m, sparta_node *n)
{
    bool transposed;
    sparta_value *x = n->in[0], *w = weight(n->in[1], &transposed);
    if (!w || !sparta_match_f32(x) || x->dims.rank < 2 || x->constant) return SPARTA_OK;
    return sparta_match_become(
        m, n, SPARTA_OP_Linear, 2, (sparta_value *[]){x, w},
        SPARTA_ATTRS(SPARTA_INT("transposed", transposed), SPARTA_STRING("activation", "")));
}

/* `c` times `by`, as a constant that keeps its origin. */
static sparta_status scaled(sparta_match *m, sparta_value **c, float by)
{
    if (by == 1 || !*c) return SPARTA_OK;
    const sparta_tensor *from = (*c)->constant;
    sparta_tensor t;
    sparta_value *made;
    SPARTA_TRY(sparta_tensor_alloc_in(m->g->arena, from->dtype, from->rank, from->dim, &t));
    for (int64_t i = 0; i < sparta_tensor_elements(from); i++)
        ((float *)t.data)[i] = by * ((const float *)from->data)[i];
    SPARTA_TRY(sparta_graph_add_constant(m->g, NULL, &t, false, &made));
    SPARTA_TRY(sparta_match_room(m));
    made->origin = (*c)->origin ? (*c)->origin : (*c)->name;
    *c = made;
    return SPARTA_OK;
}

static sparta_status gemm(sparta_match *m, sparta_node *n)
{
    bool flipped;
    sparta_value *in[] = {n->in[0], weight(n->in[1], &flipped), n->n_in > 2 ? n->in[2] : NULL};
    int64_t transposed = sparta_attr_int(&n->attrs, "transB", 0);
    if (!in[1] || !sparta_match_f32(in[0]) || in[0]->constant || sparta_attr_int(&n->attrs, "transA", 0) != 0)
        return SPARTA_OK;
    const sparta_expr *columns = n->out[0]->dims.dim[1];
    if (in[2] && !sparta_match_vector(in[2], columns)) return SPARTA_OK;
    float alpha = sparta_attr_float(&n->attrs, "alpha", 1), beta = sparta_attr_float(&n->attrs, "beta", 1);
    SPARTA_TRY(scaled(m, &in[1], alpha));
    SPARTA_TRY(scaled(m, &in[2], beta));
    return sparta_match_become(m, n, SPARTA_OP_Linear, in[2] ? 3 : 2, in,
                               SPARTA_ATTRS(SPARTA_INT("transposed", (transposed != 0) != flipped),
                                            SPARTA_STRING("activation", "")));
}

static bool is_bare(const sparta_node *linear)
{
    return linear->n_in == 2 && sparta_attr_string(&linear->attrs, "activation", "")[0] == 0;
}

static sparta_status bias(sparta_match *m, sparta_node *n)
{
    for (int i = 0; i < 2; i++) {
        sparta_value *b = n->in[i], *y = n->in[1 - i];
        const sparta_node *linear = sparta_match_made_by(y, SPARTA_OP_Linear);
        if (!linear || !is_bare(linear) || !sparta_match_once(m, y)) continue;
        if (!sparta_match_vector(b, y->dims.dim[y->dims.rank - 1])) continue;
        sparta_attrs attrs = linear->attrs;
        SPARTA_TRY(sparta_match_rename(m, n, linear->name));
        return sparta_match_become(m, n, SPARTA_OP_Linear, 3,
                                   (sparta_value *[]){linear->in[0], linear->in[1], b}, &attrs);
    }
    return SPARTA_OK;
}

static sparta_status visit(sparta_match *m, sparta_node *n, void *arg)
{
    (void)arg;
    switch (n->op) {
    case SPARTA_OP_MatMul: return matmul(m, n);
    case SPARTA_OP_Gemm: return gemm(m, n);
    case SPARTA_OP_Add: return bias(m, n);
    default: return SPARTA_OK;
    }
}

sparta_status sparta_pass_linear(sparta_graph *g)
{
    return sparta_match_run(g, visit, NULL);
}
