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
static sp_value *weight(sp_value *w, bool *transposed)
{
    const sp_node *t = sp_match_made_by(w, SP_OP_Transpose);
    *transposed = t && !w->constant;
    if (*transposed && !sp_match_is_turn(t)) return NULL;
    if (*transposed) w = t->in[0];
    return w->constant && sp_match_f32(w) && w->dims.rank == 2 ? w : NULL;
}

static sparta_status matmul(sp_match *m, sp_node *n)
{
    bool transposed;
    sp_value *x = n->in[0], *w = weight(n->in[1], &transposed);
    if (!w || !sp_match_f32(x) || x->dims.rank < 2 || x->constant) return SPARTA_OK;
    return sp_match_become(m, n, SP_OP_Linear, 2, (sp_value *[]){x, w},
                           SP_ATTRS(SP_INT("transposed", transposed), SP_STRING("epilogue", "")));
}

/* `c` times `by`, as a constant that keeps its origin. */
static sparta_status scaled(sp_match *m, sp_value **c, float by)
{
    if (by == 1 || !*c) return SPARTA_OK;
    const sparta_tensor *from = (*c)->constant;
    sparta_tensor t;
    sp_value *made;
    SP_TRY(sp_tensor_alloc_in(m->g->arena, from->dtype, from->rank, from->dim, &t));
    for (int64_t i = 0; i < sparta_tensor_elements(from); i++)
        ((float *)t.data)[i] = by * ((const float *)from->data)[i];
    SP_TRY(sp_graph_add_constant(m->g, NULL, &t, false, &made));
    SP_TRY(sp_match_room(m));
    made->origin = (*c)->origin ? (*c)->origin : (*c)->name;
    *c = made;
    return SPARTA_OK;
}

static sparta_status gemm(sp_match *m, sp_node *n)
{
    bool flipped;
    sp_value *in[] = {n->in[0], weight(n->in[1], &flipped), n->n_in > 2 ? n->in[2] : NULL};
    int64_t transposed = sp_attr_int(&n->attrs, "transB", 0);
    if (!in[1] || !sp_match_f32(in[0]) || in[0]->constant || sp_attr_int(&n->attrs, "transA", 0) != 0)
        return SPARTA_OK;
    const sp_expr *columns = n->out[0]->dims.dim[1];
    if (in[2] && !sp_match_vector(in[2], columns)) return SPARTA_OK;
    float alpha = sp_attr_float(&n->attrs, "alpha", 1), beta = sp_attr_float(&n->attrs, "beta", 1);
    SP_TRY(scaled(m, &in[1], alpha));
    SP_TRY(scaled(m, &in[2], beta));
    return sp_match_become(m, n, SP_OP_Linear, in[2] ? 3 : 2, in,
                           SP_ATTRS(SP_INT("transposed", (transposed != 0) != flipped),
                                    SP_STRING("epilogue", in[2] ? "bias" : "")));
}

static bool is_bare(const sp_node *linear)
{
    return linear->n_in == 2 && sp_attr_string(&linear->attrs, "epilogue", "")[0] == 0;
}

static sparta_status bias(sp_match *m, sp_node *n)
{
    for (int i = 0; i < 2; i++) {
        sp_value *b = n->in[i], *y = n->in[1 - i];
        const sp_node *linear = sp_match_made_by(y, SP_OP_Linear);
        if (!linear || !is_bare(linear) || !sp_match_once(m, y)) continue;
        if (!sp_match_vector(b, y->dims.dim[y->dims.rank - 1])) continue;
        const int64_t transposed = sp_attr_int(&linear->attrs, "transposed", 0);
        SP_TRY(sp_match_rename(m, n, linear->name));
        return sp_match_become(m, n, SP_OP_Linear, 3, (sp_value *[]){linear->in[0], linear->in[1], b},
                               SP_ATTRS(SP_INT("transposed", transposed), SP_STRING("epilogue", "bias")));
    }
    return SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    switch (n->op) {
    case SP_OP_MatMul: return matmul(m, n);
    case SP_OP_Gemm: return gemm(m, n);
    case SP_OP_Add: return bias(m, n);
    default: return SPARTA_OK;
    }
}

SP_MATCH_PASS(linear, visit)
