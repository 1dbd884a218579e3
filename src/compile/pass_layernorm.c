/* layernorm: LayerNormalization over the last axis from its pieces.
 *
 *     d = x - ReduceMean(x)      v = ReduceMean(d^2)      y = d / Sqrt(v + eps) * gamma + beta
 *
 * d^2 is Pow(d, 2) or Mul(d, d); the quotient is Div, or Mul with a Reciprocal, or Pow with -0.5. gamma (H)
 * is needed, beta (H) is not. Mul with gamma becomes LayerNormalization(x, gamma); an Add of beta after it
 * becomes the whole.
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

/* x, when v is (x - mean) / sqrt(variance + eps) and nothing inside is wanted by others. */
static sp_value *normalised(const sp_match *m, const sp_value *v, double *epsilon)
{
    const sp_node *n = v->producer;
    sp_value *d = NULL, *variance = NULL;
    if (!n || !sp_match_once(m, v) || n->n_in != 2) return NULL;
    if (n->op == SP_OP_Div) {
        d = n->in[0];
        variance = root_of(m, n->in[1]);
    } else if (n->op == SP_OP_Mul) {
        for (int i = 0; i < 2 && !variance; i++) {
            d = n->in[1 - i];
            variance = inverse_root_of(m, n->in[i]);
        }
    }
    int reads = variance ? variance_reads(m, variance, d, epsilon) : 0;
    if (!reads || d->is_output || sp_match_uses(m, d) != reads + 1) return NULL;
    return centred(m, d);
}

static sparta_status scale(sp_match *m, sp_node *n)
{
    for (int i = 0; i < 2; i++) {
        sp_value *gamma = n->in[i], *v = n->in[1 - i];
        double epsilon;
        if (!sp_match_f32(v) || v->dims.rank < 1 || !sp_match_vector(gamma, v->dims.dim[v->dims.rank - 1]))
            continue;
        sp_value *x = normalised(m, v, &epsilon);
        if (!x || !sp_match_same_dims(x, n->out[0])) continue;
        return sp_match_become(m, n, SP_OP_LayerNormalization, 2, (sp_value *[]){x, gamma},
                               SP_ATTRS(SP_INT("axis", -1), SP_FLOAT("epsilon", (float)epsilon)));
    }
    return SPARTA_OK;
}

static sparta_status shift(sp_match *m, sp_node *n)
{
    for (int i = 0; i < 2; i++) {
        sp_value *beta = n->in[i], *v = n->in[1 - i];
        const sp_node *norm = sp_match_made_by(v, SP_OP_LayerNormalization);
        if (!norm || norm->n_out != 1 || norm->n_in > 2 || !sp_match_once(m, v)) continue;
        int rank = v->dims.rank, axis = sp_match_axis(norm, -1, rank);
        if (axis != rank - 1 || !sp_match_vector(beta, v->dims.dim[axis])) continue;
        SP_TRY(sp_match_rename(m, n, norm->name));
        sp_attrs attrs = norm->attrs;
        return sp_match_become(m, n, SP_OP_LayerNormalization, 3,
                               (sp_value *[]){norm->in[0], norm->in[1], beta}, &attrs);
    }
    return SPARTA_OK;
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    if (n->op == SP_OP_Mul) return scale(m, n);
    return n->op == SP_OP_Add ? shift(m, n) : SPARTA_OK;
}

SP_MATCH_PASS(layernorm, visit)
