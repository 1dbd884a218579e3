/* layernorm: LayerNormalization and RMSNormalization over the last axis from their pieces.
 *
 *     d = x - ReduceMean(x)      v = ReduceMean(d^2)      y = d / Sqrt(v + eps)       the first
 *     d = x                                                                           the second
 *
 * d^2 is Pow(d, 2) or Mul(d, d); the quotient is Div, or Mul with a Reciprocal, or Pow with -0.5. The quotient becomes a normalisation
 * with a gain of ones; a Mul with a vector (H) after it is its gain, an Add of a vector after that the bias of the first.
 */
#include "compile/match.h"
#include "compile/passes.h"

/* x, when v is the mean of x over its last axis, kept as a dim of 1. */
static sp_value *mean_of(const sp_value *v)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_ReduceMean);
    int64_t axis[SPARTA_RANK];
    if (!n || n->n_in < 2 || sp_attr_int(&n->attrs, "keepdims", 1) != 1) return NULL;
    int rank = n->in[0]->dims.rank;
    if (sp_match_ints(n->in[1], axis) != 1 || (axis[0] != -1 && axis[0] != rank - 1)) return NULL;
    return n->in[0];
}

/* x, when v is x - mean(x). */
static sp_value *centred(const sp_match *m, const sp_value *v)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_Sub);
    if (!n || mean_of(n->in[1]) != n->in[0] || !sp_match_once(m, n->in[1])) return NULL;
    return n->in[0];
}

/* How often d is read to make v, when v is d^2; 0: it is not. */
static int square_reads(const sp_value *v, const sp_value *d)
{
    const sp_node *n = v->producer;
    if (!n || n->n_in != 2 || n->in[0] != d) return 0;
    if (n->op == SP_OP_Mul && n->in[1] == d) return 2;
    return n->op == SP_OP_Pow && sp_match_is(n->in[1], 2) ? 1 : 0;
}

/* How often d is read to make v, when v is mean(d^2) + eps; 0: it is not. */
static int variance_reads(const sp_match *m, const sp_value *v, const sp_value *d, double *epsilon)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_Add);
    sp_value *mean, *square;
    if (!n || !sp_match_once(m, v) || !sp_match_with_scalar(n, &mean, epsilon) || !(*epsilon >= 0)) return 0;
    if (!sp_match_once(m, mean) || !(square = mean_of(mean)) || !sp_match_once(m, square)) return 0;
    return square_reads(square, d);
}

/* The variance v, when x is its square root. */
static sp_value *root_of(const sp_match *m, const sp_value *x)
{
    const sp_node *n = x->producer;
    if (!n || !sp_match_once(m, x)) return NULL;
    if (n->op == SP_OP_Sqrt) return n->in[0];
    return n->op == SP_OP_Pow && sp_match_is(n->in[1], 0.5) ? n->in[0] : NULL;
}

/* v, when x is 1 / sqrt(v). */
static sp_value *inverse_root_of(const sp_match *m, const sp_value *x)
{
    const sp_node *n = x->producer;
    if (!n || !sp_match_once(m, x)) return NULL;
    if (n->op == SP_OP_Reciprocal) return root_of(m, n->in[0]);
    if (n->op == SP_OP_Div && sp_match_is(n->in[0], 1)) return root_of(m, n->in[1]);
    return n->op == SP_OP_Pow && sp_match_is(n->in[1], -0.5) ? n->in[0] : NULL;
}

/* d and what is added to the mean of its squares, when n is d / sqrt(mean(d^2) + eps) and nothing else wants what is under the root;
 * how often d is read for it, 0: it is not. */
static int quotient(const sp_match *m, const sp_node *n, sp_value **d, double *epsilon)
{
    if (n->op == SP_OP_Div) {
        const sp_value *variance = root_of(m, n->in[1]);
        *d = n->in[0];
        return variance ? variance_reads(m, variance, *d, epsilon) : 0;
    }
    for (int i = 0; i < 2; i++) {
        const sp_value *variance = inverse_root_of(m, n->in[i]);
        *d = n->in[1 - i];
        const int reads = variance ? variance_reads(m, variance, *d, epsilon) : 0;
        if (reads) return reads;
    }
    return 0;
}

/* A constant of n ones. */
static sparta_status ones(sp_match *m, int64_t n, sp_value **out)
{
    sparta_tensor t;
    SP_TRY(sp_tensor_alloc_in(m->g->arena, SPARTA_F32, 1, &n, &t));
    for (int64_t i = 0; i < n; i++) ((float *)t.data)[i] = 1;
    SP_TRY(sp_graph_add_constant(m->g, NULL, &t, false, out));
    return sp_match_room(m);
}

static sparta_status normalise(sp_match *m, sp_node *n, bool *done)
{
    sp_value *d = NULL;
    double epsilon;
    int64_t features;
    const int reads = quotient(m, n, &d, &epsilon);
    if (!reads || !sp_match_f32(d) || d->dims.rank < 1 || !sp_match_same_dims(d, n->out[0])) return SPARTA_OK;
    if (!sp_expr_is_const(d->dims.dim[d->dims.rank - 1], &features) || features < 1) return SPARTA_OK;
    sp_value *x = d->is_output || sp_match_uses(m, d) != reads + 1 ? NULL : centred(m, d);
    sp_value *in[] = {x ? x : d, NULL};
    SP_TRY(ones(m, features, &in[1]));
    *done = true;
    return sp_match_become(m, n, x ? SP_OP_LayerNormalization : SP_OP_RMSNormalization, 2, in,
                           SP_ATTRS(SP_INT("axis", -1), SP_FLOAT("epsilon", (float)epsilon)));
}

static bool all_ones(const sp_value *v)
{
    const sparta_tensor *t = v->constant;
    if (!t || t->dtype != SPARTA_F32 || t->rank != 1) return false;
    for (int64_t i = 0; i < t->dim[0]; i++)
        if (((const float *)t->data)[i * t->stride[0]] != 1) return false;
    return true;
}

/* The normalisation of the last axis that makes v, which one node wants. */
static const sp_node *normalisation(const sp_match *m, const sp_value *v)
{
    const sp_node *n = v->producer;
    if (!n || !SP_OP_AMONG(n->op, SP_OP_LayerNormalization, SP_OP_RMSNormalization)) return NULL;
    if (n->n_out != 1 || n->n_in != 2 || !sp_match_once(m, v)) return NULL;
    return sp_match_axis(n, -1, v->dims.rank) == v->dims.rank - 1 ? n : NULL;
}

static sparta_status scale(sp_match *m, sp_node *n)
{
    for (int i = 0; i < 2; i++) {
        sp_value *gamma = n->in[i], *v = n->in[1 - i];
        const sp_node *norm = normalisation(m, v);
        if (!norm || !sp_match_vector(gamma, v->dims.dim[v->dims.rank - 1]) || !all_ones(norm->in[1]))
            continue;
        sp_attrs attrs = norm->attrs;
        return sp_match_become(m, n, norm->op, 2, (sp_value *[]){norm->in[0], gamma}, &attrs);
    }
    return SPARTA_OK;
}

static sparta_status shift(sp_match *m, sp_node *n)
{
    for (int i = 0; i < 2; i++) {
        sp_value *beta = n->in[i], *v = n->in[1 - i];
        const sp_node *norm = normalisation(m, v);
        if (!norm || norm->op != SP_OP_LayerNormalization ||
            !sp_match_vector(beta, v->dims.dim[v->dims.rank - 1]))
            continue;
        SP_TRY(sp_match_rename(m, n, norm->name));
        sp_attrs attrs = norm->attrs;
        return sp_match_become(m, n, SP_OP_LayerNormalization, 3,
                               (sp_value *[]){norm->in[0], norm->in[1], beta}, &attrs);
    }
    return SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    bool done = false;
    if (n->op == SP_OP_Add) return shift(m, n);
    if (n->op != SP_OP_Mul && n->op != SP_OP_Div) return SPARTA_OK;
    SP_TRY(normalise(m, n, &done));
    return n->op == SP_OP_Mul && !done ? scale(m, n) : SPARTA_OK;
}

SP_MATCH_PASS(layernorm, visit)
