/* patches: Linear from a convolution whose windows do not overlap: kernel and stride are the same, nothing is padded, one group.
 *
 *     Conv(x (B, C, H, W), w (M, C, p, q)) with strides p, q
 *
 *     x --> Reshape (B, C, H/p, p, W/q, q) --> Transpose (B, H/p, W/q, C, p, q) --> Reshape (B, patches, C*p*q)
 *       --> Linear (B, patches, M) --> Transpose (B, M, patches) --> Reshape (B, M, H/p, W/q)
 *
 * This is how vision transformers cut an image into tokens; they go on with the transpose back, which cancels. A convolution of 1 x 1 is
 * a product of the channels, with a stride one of those that a Slice leaves. The weight stays the constant it is, seen as a matrix. Sizes that a kernel larger than 1 does not divide,
 * or that are not known, are left alone.
 */
#include "compile/match.h"
#include "compile/passes.h"
#include "ops/window.h"

typedef struct patches {
    int n;                             /* spatial dims */
    const sp_expr *count[SPARTA_RANK]; /* windows along each */
    int64_t side[SPARTA_RANK], stride[SPARTA_RANK];
    bool gaps; /* windows of 1 that visit some places only */
} patches;

/* Whole windows only, side by side? */
static bool tiles(sp_match *m, const sp_node *n, const sp_window *w, patches *out)
{
    const int first = SP_WINDOW_DIMS - w->n;
    bool wide = false;
    *out = (patches){.n = w->n};
    if (w->group != 1 || sp_window_padded(w) || 2 + 2 * w->n > SPARTA_RANK) return false;
    for (int i = 0; i < w->n; i++) {
        const sp_expr *size = n->in[0]->dims.dim[2 + i];
        const int64_t side = w->kernel[first + i];
        int64_t known;
        const bool fixed = sp_expr_is_const(size, &known);
        if (side > 1 && (w->stride[first + i] != side || w->dilation[first + i] != 1)) return false;
        out->side[i] = side;
        out->stride[i] = w->stride[first + i];
        out->count[i] = size;
        wide = wide || side > 1;
        if (side == 1 && out->stride[i] > 1) {
            out->gaps = true;
            out->count[i] = n->out[0]->dims.dim[2 + i];
            if (!fixed) return false;
        }
        if (side == 1) continue;
        if (!fixed || known % side != 0) return false;
        out->count[i] = sp_expr_const(m->g->arena, known / side);
        if (!out->count[i]) return false;
    }
    return !(out->gaps && wide);
}

static sparta_status reshaped(sp_match *m, sp_value *x, const sp_dims *dims, sp_value **out)
{
    sp_value *in[] = {x, NULL};
    *out = NULL;
    SP_TRY(sp_match_reshape_target(m, x, dims, &in[1]));
    return in[1] ? sp_match_add(m, SP_OP_Reshape, "", 2, in, NULL, out) : SPARTA_OK;
}

/* The places of x that windows of 1 visit, as (B, places, C): with the channels last, as the product before it leaves them. */
static sparta_status visited(sp_match *m, sp_value *x, const patches *p, sp_value **out)
{
    int64_t perm[SPARTA_RANK] = {0}, from[SPARTA_RANK] = {0}, to[SPARTA_RANK], axes[SPARTA_RANK];
    sp_dims flat = {.rank = 3, .dim = {x->dims.dim[0], sp_expr_const(m->g->arena, 1), x->dims.dim[1]}};
    perm[1 + p->n] = 1;
    for (int i = 0; i < p->n; i++) {
        perm[1 + i] = 2 + i;
        to[i] = INT64_MAX;
        axes[i] = 1 + i;
        flat.dim[1] = sp_expr_mul(m->g->arena, flat.dim[1], p->count[i]);
    }
    SP_NEED(m->g->cx, flat.dim[1]);
    const int64_t *const of[] = {from, to, axes, p->stride};
    sp_value *in[5];
    SP_TRY(sp_match_add(m, SP_OP_Transpose, "", 1, &x, SP_ATTRS(SP_INTS("perm", 2 + p->n, perm)), &in[0]));
    for (int i = 0; i < 4; i++) SP_TRY(sp_match_constant_ints(m, p->n, of[i], &in[1 + i]));
    SP_TRY(sp_match_add(m, SP_OP_Slice, "", 5, in, NULL, &x));
    return reshaped(m, x, &flat, out);
}

/* x as (B, patches, C * window), or NULL when a shape cannot be said. */
static sparta_status unfold(sp_match *m, sp_value *x, const patches *p, sp_value **out)
{
    sp_arena *a = m->g->arena;
    sp_dims cut = {.rank = 2 + 2 * p->n, .dim = {x->dims.dim[0], x->dims.dim[1]}};
    sp_dims flat = {.rank = 3, .dim = {x->dims.dim[0], sp_expr_const(a, 1), x->dims.dim[1]}};
    int64_t perm[SPARTA_RANK] = {0};
    perm[1 + p->n] = 1;
    for (int i = 0; i < p->n; i++) {
        const sp_expr *side = sp_expr_const(a, p->side[i]);
        cut.dim[2 + 2 * i] = p->count[i];
        cut.dim[3 + 2 * i] = side;
        perm[1 + i] = 2 + 2 * i;
        perm[2 + p->n + i] = 3 + 2 * i;
        flat.dim[1] = sp_expr_mul(a, flat.dim[1], p->count[i]);
        flat.dim[2] = sp_expr_mul(a, flat.dim[2], side);
    }
    SP_NEED(m->g->cx, flat.dim[1]);
    SP_NEED(m->g->cx, flat.dim[2]);
    SP_TRY(reshaped(m, x, &cut, &x));
    *out = x;
    if (!x) return SPARTA_OK;
    SP_TRY(sp_match_add(m, SP_OP_Transpose, "", 1, &x, SP_ATTRS(SP_INTS("perm", cut.rank, perm)), &x));
    return reshaped(m, x, &flat, out);
}

/* The weight (M, C, ...) as (M, C * window): the same elements. */
static sparta_status as_matrix(sp_match *m, const sp_value *w, sp_value **out)
{
    const sparta_tensor *from = w->constant;
    const int64_t filters = from->dim[0], elements = sparta_tensor_elements(from);
    const sparta_tensor t =
        sparta_tensor_view(from->dtype, 2, (int64_t[]){filters, elements / filters}, from->data);
    SP_TRY(sp_graph_add_constant(m->g, NULL, &t, false, out));
    SP_TRY(sp_match_room(m));
    (*out)->origin = sp_initialiser_name(w);
    return SPARTA_OK;
}

static bool fits(const sp_node *n)
{
    if (n->op != SP_OP_Conv) return false;
    const sp_value *x = n->in[0], *w = n->in[1];
    if (!sp_match_f32(x) || x->constant || !w->constant || !sp_match_f32(w)) return false;
    if (sparta_tensor_elements(w->constant) == 0) return false;
    return n->n_in < 3 || !n->in[2] || sp_match_vector(n->in[2], n->out[0]->dims.dim[1]);
}

static sparta_status visit(sp_match *m, sp_node *n)
{
    sp_window window;
    patches p;
    sp_value *in[3], *y, *target;
    if (!fits(n)) return SPARTA_OK;
    SP_TRY(sp_ops_window(m->g, n, &n->in[1]->dims, &window));
    if (!tiles(m, n, &window, &p)) return SPARTA_OK;
    SP_TRY(p.gaps ? visited(m, n->in[0], &p, &in[0]) : unfold(m, n->in[0], &p, &in[0]));
    if (!in[0]) return SPARTA_OK;
    SP_TRY(as_matrix(m, n->in[1], &in[1]));
    const bool bias = n->n_in > 2 && n->in[2];
    if (bias) in[2] = n->in[2];
    SP_TRY(sp_match_add(m, SP_OP_Linear, n->name, bias ? 3 : 2, in,
                        SP_ATTRS(SP_INT("transposed", 1), SP_STRING("epilogue", bias ? "bias" : "")), &y));
    y->producer->module = n->module;
    SP_TRY(sp_match_add(m, SP_OP_Transpose, "", 1, &y, SP_ATTRS(SP_INTS("perm", 3, ((int64_t[]){0, 2, 1}))),
                        &y));
    SP_TRY(sp_match_reshape_target(m, y, &n->out[0]->dims, &target));
    if (!target) return SPARTA_OK;
    SP_TRY(sp_match_rename(m, n, ""));
    return sp_match_become(m, n, SP_OP_Reshape, 2, (sp_value *[]){y, target}, NULL);
}

SP_MATCH_PASS(patches, visit)
