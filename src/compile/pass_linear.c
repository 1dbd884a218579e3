/* linear: Linear from MatMul or Gemm with a constant weight, and the bias added after it.
 *
 *     MatMul(x, w (K,N))                    Linear(x, w) transposed=0
 *     MatMul(x, Transpose(w (N,K)))         Linear(x, w) transposed=1
 *     Gemm(x, w, c), transB                 Linear(x, w, c) transposed=transB
 *     Add(Linear(x, w), bias (N))           Linear(x, w, bias)
 *     Mul(Linear(x, w, b), gain (N))        Linear(x, w gain, b gain)         MobileBERT's norms
 *     Add(Linear(x, w, b), shift (N))       Linear(x, w, b + shift)
 *
 * The weight stays the constant it is: no copy, unless Gemm's alpha or beta or a gain must be multiplied in. The node
 * keeps the name of the product, which is the path of the layer.
 */
#include "compile/match.h"
#include "compile/passes.h"
#include <math.h>
#include <string.h>

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

/* ------------------------------------------------------------------ gains and shifts */

/* The Linear with nothing but a constant bias, if any, that makes v for one user. */
static const sp_node *biased(const sp_match *m, const sp_value *v)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_Linear);
    if (!n || !sp_match_once(m, v) || !n->in[1]->constant || n->in[1]->constant->rank != 2) return NULL;
    const bool bias = n->n_in == 3 && strcmp(sp_attr_string(&n->attrs, "epilogue", ""), "bias") == 0;
    return is_bare(n) || (bias && sp_match_vector(n->in[2], v->dims.dim[v->dims.rank - 1])) ? n : NULL;
}

/* Finite ones change no zero of a weight, and none makes a column vanish. */
static bool is_gain(const sp_value *v)
{
    const sparta_tensor *t = v->constant;
    for (int64_t i = 0; i < t->dim[0]; i++) {
        const float x = ((const float *)t->data)[i * t->stride[0]];
        if (!isfinite(x) || x == 0) return false;
    }
    return true;
}

/* c with `by` (N) multiplied in, or added, along `axis`, as a constant that keeps its origin. */
static sparta_status adapted(sp_match *m, sp_value *c, int axis, const sp_value *by, bool add, sp_value **out)
{
    const sparta_tensor *x = c->constant, *g = by->constant;
    const int64_t columns = x->rank > 1 ? x->dim[1] : 1, across = x->rank > 1 ? x->stride[1] : 0;
    sparta_tensor t;
    SP_TRY(sp_tensor_alloc_in(m->g->arena, SPARTA_F32, x->rank, x->dim, &t));
    for (int64_t i = 0; i < x->dim[0]; i++)
        for (int64_t j = 0; j < columns; j++) {
            const float a = ((const float *)x->data)[i * x->stride[0] + j * across],
                        b = ((const float *)g->data)[(axis ? j : i) * g->stride[0]];
            ((float *)t.data)[i * columns + j] = add ? a + b : a * b;
        }
    SP_TRY(sp_graph_add_constant(m->g, NULL, &t, false, out));
    (*out)->origin = c->origin ? c->origin : c->name;
    return sp_match_room(m);
}

/* n, Linear times a gain or plus a shift, becomes the Linear. */
static sparta_status fold(sp_match *m, sp_node *n)
{
    const bool add = n->op == SP_OP_Add;
    for (int i = 0; i < 2; i++) {
        sp_value *g = n->in[i], *y = n->in[1 - i];
        const sp_node *l = biased(m, y);
        if (!l || (add && l->n_in < 3) || !sp_match_vector(g, y->dims.dim[y->dims.rank - 1]) ||
            (!add && !is_gain(g)))
            continue;
        sp_value *in[] = {l->in[0], l->in[1], l->n_in > 2 ? l->in[2] : NULL};
        sp_attrs attrs = l->attrs;
        const int axis = sp_attr_int(&l->attrs, "transposed", 0) ? 0 : 1;
        if (!add) SP_TRY(adapted(m, l->in[1], axis, g, false, &in[1]));
        if (in[2]) SP_TRY(adapted(m, l->in[2], 0, g, add, &in[2]));
        SP_TRY(sp_match_rename(m, n, l->name));
        return sp_match_become(m, n, SP_OP_Linear, l->n_in, in, &attrs);
    }
    return SPARTA_OK;
}

static sparta_status after_linear(sp_match *m, sp_node *n)
{
    if (n->op == SP_OP_Add) SP_TRY(bias(m, n));
    const bool done = n->op == SP_OP_Linear || sp_ctx_strict(m->g->cx) || !sp_match_f32(n->out[0]);
    return done ? SPARTA_OK : fold(m, n);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    switch (n->op) {
    case SP_OP_MatMul: return matmul(m, n);
    case SP_OP_Gemm: return gemm(m, n);
    case SP_OP_Mul:
    case SP_OP_Add: return after_linear(m, n);
    default: return SPARTA_OK;
    }
}

SP_MATCH_PASS(linear, visit)
