/* batchnorm: the gain and shift that a BatchNormalization is at inference go into the convolution before it.
 *
 *     x --Conv(w (M,C,..), b (M))--> BatchNormalization(scale, shift, mean, var)        g = scale / sqrt(var + epsilon)
 *
 * becomes  Conv(x, g w, g (b - mean) + shift): one product with a bias, as exporters that train write it when they are asked to. Gains that are 0 or no finite
 * number stay: finite ones change no zero of a weight, and none makes a filter vanish. Where others read the weight it stays, too: each
 * would get a copy. Not when strict: sums are rounded otherwise, and may overflow.
 */
#include "compile/match.h"
#include "compile/passes.h"
#include <math.h>

enum { X, SCALE, SHIFT, MEAN, VARIANCE, INPUTS };

/* The convolution of one user with constants that makes v. */
static const sp_node *conv_of(const sp_match *m, const sp_value *v)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_Conv);
    if (!n || !sp_match_once(m, v) || !sp_match_f32(v) || !sp_match_f32(n->in[1])) return NULL;
    const sparta_tensor *w = n->in[1]->constant;
    if (!w || sp_match_uses(m, n->in[1]) != 1 || !sp_tensor_contiguous(w) || w->rank < 3 ||
        sparta_tensor_elements(w) < 1)
        return NULL;
    return n->n_in < 3 || !n->in[2] || sp_match_vector(n->in[2], v->dims.dim[1]) ? n : NULL;
}

static bool fits(const sp_match *m, const sp_node *n)
{
    if (n->op != SP_OP_BatchNormalization || n->n_in < INPUTS || sp_ctx_strict(m->g->cx)) return false;
    if (!sp_match_f32(n->in[X]) || n->in[X]->dims.rank < 3 || sp_attr_int(&n->attrs, "training_mode", 0))
        return false;
    for (int i = SCALE; i < INPUTS; i++)
        if (!sp_match_vector(n->in[i], n->in[X]->dims.dim[1])) return false;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i]->is_output || sp_match_uses(m, n->out[i])) return false;
    return true;
}

static double at(const sp_value *v, int64_t i)
{
    return ((const float *)v->constant->data)[i * v->constant->stride[0]];
}

static double gain_of(const sp_node *n, int64_t i)
{
    return at(n->in[SCALE], i) /
           sqrt(at(n->in[VARIANCE], i) + (double)sp_attr_float(&n->attrs, "epsilon", 1e-5f));
}

/* Every gain and shift a number that can be multiplied in? */
static bool is_plain(const sp_node *n, int64_t filters)
{
    for (int64_t i = 0; i < filters; i++) {
        const double g = gain_of(n, i);
        if (!isfinite((float)g) || (float)g == 0 || !isfinite(at(n->in[SHIFT], i)) ||
            !isfinite(at(n->in[MEAN], i)))
            return false;
    }
    return true;
}

static sparta_status add_constant(sp_match *m, const sparta_tensor *t, const sp_value *from, sp_value **out)
{
    SP_TRY(sp_graph_add_constant(m->g, NULL, t, false, out));
    if (from) (*out)->origin = from->origin ? from->origin : from->name;
    return sp_match_room(m);
}

static sparta_status adapt(sp_match *m, const sp_node *n, const sp_node *conv, sp_value *in[3])
{
    const sparta_tensor *w = conv->in[1]->constant;
    const int64_t filters = w->dim[0], each = sparta_tensor_elements(w) / filters;
    sp_value *bias = conv->n_in > 2 ? conv->in[2] : NULL;
    sparta_tensor weight, shift;
    SP_TRY(sp_tensor_alloc_in(m->g->arena, SPARTA_F32, w->rank, w->dim, &weight));
    SP_TRY(sp_tensor_alloc_in(m->g->arena, SPARTA_F32, 1, &filters, &shift));
    for (int64_t i = 0; i < filters; i++) {
        const double g = gain_of(n, i);
        for (int64_t k = i * each; k < (i + 1) * each; k++)
            ((float *)weight.data)[k] = (float)((double)((const float *)w->data)[k] * g);
        ((float *)shift.data)[i] =
            (float)(((bias ? at(bias, i) : 0) - at(n->in[MEAN], i)) * g + at(n->in[SHIFT], i));
    }
    in[0] = conv->in[0];
    SP_TRY(add_constant(m, &weight, conv->in[1], &in[1]));
    return add_constant(m, &shift, bias ? bias : n->in[SHIFT], &in[2]);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    const sp_node *conv = fits(m, n) ? conv_of(m, n->in[X]) : NULL;
    sp_value *in[3];
    if (!conv || !is_plain(n, conv->in[1]->constant->dim[0])) return SPARTA_OK;
    SP_TRY(adapt(m, n, conv, in));
    sp_attrs attrs = conv->attrs;
    n->n_out = 1;
    n->module = conv->module;
    SP_TRY(sp_match_rename(m, n, conv->name));
    return sp_match_become(m, n, SP_OP_Conv, 3, in, &attrs);
}

SP_MATCH_PASS(batchnorm, visit)
