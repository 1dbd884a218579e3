/* rotary: RotaryEmbedding from its pieces, and every one of them in the form that kernels take.
 *
 *     x (B,h,S,D) --------------------------* cos --\
 *        \--Slice D/2.. --Neg--\                      Add --> (B,h,S,D)        cos: Cos(Concat(f, f)), f (1 or B, S, D/2), with a dim of 1
 *         \-Slice ..D/2 ----- Concat -------* sin --/                          for the heads; sin: the same with Sin
 *
 * becomes RotaryEmbedding(x', Cos(f), Sin(f)) on (B,S,h*D), with a Transpose and a Reshape before and after it, which simplify cancels
 * against those that the exporter wrote. The tables are made once for all layers, simplify sees to that. Where only the first elements of
 * a head turn (Concat of what is above, of a Slice, with the rest) attribute rotary_embedding_dim says how many.
 *
 * Where all sizes are numbers, cos and sin are constants by now. Those whose halves are alike are tables, too; layers that have equal ones share them.
 *
 * One with positions, as ONNX writes it, gets tables of its tokens: Gather(cos, positions).
 */
#include "compile/match.h"
#include "compile/passes.h"
#include <string.h>

typedef struct rotation {
    /* x (B,h,S,D); the tables (1 or B, S, half) before Cos and Sin, or constants (1 or B, 1, S, 2 half) */
    sp_value *x, *cos, *sin;
    int64_t heads, dim, turned;
} rotation;

/* ------------------------------------------------------------------ what turns */

static bool joins_last(const sp_node *n)
{
    return n && n->n_in == 2 && sp_match_axis(n, 0, n->out[0]->dims.rank) == n->out[0]->dims.rank - 1;
}

/* x, when v is Concat(-x[half:], x[:half]) */
static sp_value *half_turned(const sp_match *m, const sp_value *v)
{
    const sp_node *n = sp_match_made_by(v, SP_OP_Concat);
    int64_t size, from[2], to[2];
    if (!joins_last(n) || !sp_match_once(m, v)) return NULL;
    const sp_node *neg = sp_match_made_by(n->in[0], SP_OP_Neg);
    if (!neg || !sp_match_once(m, n->in[0])) return NULL;
    sp_value *x = sp_match_slice_of(neg->in[0], &from[0], &to[0]);
    if (!x || sp_match_slice_of(n->in[1], &from[1], &to[1]) != x) return NULL;
    if (!sp_expr_is_const(x->dims.dim[x->dims.rank - 1], &size) || size % 2) return NULL;
    return from[0] == size / 2 && to[0] == size && from[1] == 0 && to[1] == size / 2 ? x : NULL;
}

/* ------------------------------------------------------------------ the tables */

/* Through nodes that only put in or take out dims of 1. */
static sp_value *same_elements(sp_value *v)
{
    while (v->producer && SP_OP_AMONG(v->producer->op, SP_OP_Unsqueeze, SP_OP_Squeeze, SP_OP_Reshape) &&
           v->producer->in[0]->typed)
        v = v->producer->in[0];
    return v;
}

/* Is the second half of every line as the first, bit by bit? */
static bool halves_alike(const sparta_tensor *t)
{
    const int64_t width = t->dim[t->rank - 1], n = sparta_tensor_elements(t);
    if (t->dtype != SPARTA_F32 || width < 2 || width % 2 || !sp_tensor_contiguous(t)) return false;
    for (const float *x = t->data, *end = x + n; x < end; x += width)
        if (memcmp(x, x + width / 2, (size_t)width / 2 * sizeof *x)) return false;
    return true;
}

/* f, when v, (b,1,S,D), is Cos or Sin of Concat(f, f), with f (b,S,D/2); v itself where it is known. */
static sp_value *angles_of(sp_value *v, sp_op_id op)
{
    if (!v->typed || v->dims.rank != 4 || !sp_expr_is(v->dims.dim[1], 1)) return NULL;
    if (v->constant) return halves_alike(v->constant) ? v : NULL;
    const sp_value *u = same_elements(v);
    const sp_node *f = sp_match_made_by(u, op);
    if (!f || u->dims.rank != 3 || !sp_expr_equal(u->dims.dim[0], v->dims.dim[0]) ||
        !sp_expr_equal(u->dims.dim[1], v->dims.dim[2]) || !sp_expr_equal(u->dims.dim[2], v->dims.dim[3]))
        return NULL;
    const sp_node *twice = sp_match_made_by(f->in[0], SP_OP_Concat);
    return joins_last(twice) && twice->in[0] == twice->in[1] ? twice->in[0] : NULL;
}

/* Add(Mul(x, cos), Mul(half_turned(x), sin)) */
static bool find_whole(const sp_match *m, const sp_node *add, rotation *r)
{
    for (int i = 0; i < 2; i++) {
        const sp_node *a = sp_match_made_by(add->in[i], SP_OP_Mul),
                      *b = sp_match_made_by(add->in[1 - i], SP_OP_Mul);
        if (!a || !b || !sp_match_once(m, add->in[i]) || !sp_match_once(m, add->in[1 - i])) continue;
        for (int k = 0; k < 4; k++) {
            r->x = a->in[k & 1];
            if (half_turned(m, b->in[k >> 1]) != r->x) continue;
            r->cos = angles_of(a->in[1 - (k & 1)], SP_OP_Cos);
            r->sin = angles_of(b->in[1 - (k >> 1)], SP_OP_Sin);
            if (r->cos && r->sin) return true;
        }
    }
    return false;
}

/* f (1 or B, S, half of what turns), or a constant (1 or B, 1, S, what turns). */
static bool table_fits(const sp_value *f, const sp_dims *x, int64_t turned)
{
    const sp_dims *t = &f->dims;
    const int last = t->rank - 1;
    int64_t width;
    return sp_match_f32(f) && t->rank >= 3 && sp_expr_is_const(t->dim[last], &width) &&
           (last == 3 ? width : width * 2) == turned && sp_expr_equal(t->dim[last - 1], x->dim[2]) &&
           (sp_expr_is(t->dim[0], 1) || sp_expr_equal(t->dim[0], x->dim[0]));
}

/* The sizes that everything rests on, of x (B,h,S,D) and the tables. */
static bool sizes_fit(rotation *r)
{
    const sp_dims *x = &r->x->dims;
    if (!sp_match_f32(r->x) || x->rank != 4 || !sp_expr_is_const(x->dim[1], &r->heads) ||
        !sp_expr_is_const(x->dim[3], &r->dim) || r->heads < 1 || r->dim < 1 || r->heads > INT64_MAX / r->dim)
        return false;
    return r->turned <= r->dim && table_fits(r->cos, x, r->turned) && table_fits(r->sin, x, r->turned);
}

/* ------------------------------------------------------------------ what takes its place */

/* *t, (1 or B, S, half), for every item: (B, S, half). NULL: the sizes cannot be said. */
static sparta_status for_items(sp_match *m, const char *name, const sp_expr *items, sp_value **t)
{
    const sp_dims *d = &(*t)->dims;
    if (sp_expr_equal(d->dim[0], items)) return SPARTA_OK;
    sp_value *in[] = {*t, NULL};
    SP_TRY(sp_match_shape_vector(m, 3, (const sp_expr *[]){items, d->dim[1], d->dim[2]}, &in[1]));
    *t = NULL;
    return in[1] ? sp_match_add(m, SP_OP_Expand, name, 2, in, NULL, t) : SPARTA_OK;
}

/* The first half of each line of a constant (1 or B, 1, S, D), for every item. */
static sparta_status known_table(sp_match *m, const char *name, sp_value *c, const sp_expr *items,
                                 sp_value **out)
{
    const sp_value *known = *out = sp_match_known_of(m->state, c->constant);
    if (known && sp_expr_equal(known->dims.dim[0], items)) return SPARTA_OK;
    const int64_t *dim = c->constant->dim;
    sp_value *in[] = {c, NULL, NULL, NULL};
    for (int i = 0; i < 3; i++)
        SP_TRY(sp_match_constant_ints(m, 1, (int64_t[]){i == 1 ? dim[3] / 2 : i == 2 ? 3 : 0}, &in[1 + i]));
    SP_TRY(sp_match_add(m, SP_OP_Slice, name, 4, in, NULL, out));
    sp_value *flat[] = {*out, NULL};
    SP_TRY(sp_match_constant_ints(m, 3, (int64_t[]){dim[0], dim[2], dim[3] / 2}, &flat[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, name, 2, flat, NULL, out));
    SP_TRY(for_items(m, name, items, out));
    if (*out && !known) sp_match_know(m->state, c->constant, *out);
    return SPARTA_OK;
}

/* op(f), or the constant that f is, for every item: (B, S, half). NULL: the sizes cannot be said. */
static sparta_status table(sp_match *m, const char *name, sp_op_id op, sp_value *f, const sp_value *x,
                           sp_value **out)
{
    const sp_expr *items = x->dims.dim[0];
    if (f->dims.rank == 4) return known_table(m, name, f, items, out);
    SP_TRY(sp_match_add(m, op, name, 1, &f, NULL, out));
    return for_items(m, name, items, out);
}

static sparta_status replace(sp_match *m, sp_node *n, const rotation *r)
{
    static const int64_t swap[] = {0, 2, 1, 3};
    sp_value *in[3], *rows[2], *y;
    SP_TRY(table(m, n->name, SP_OP_Cos, r->cos, r->x, &in[1]));
    if (!in[1]) return SPARTA_OK;
    SP_TRY(table(m, n->name, SP_OP_Sin, r->sin, r->x, &in[2]));
    if (!in[2]) return SPARTA_OK;
    SP_TRY(sp_match_add(m, SP_OP_Transpose, n->name, 1, &(sp_value *){r->x},
                        SP_ATTRS(SP_INTS("perm", 4, swap)), &rows[0]));
    SP_TRY(sp_match_constant_ints(m, 3, (int64_t[]){0, 0, r->heads * r->dim}, &rows[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, n->name, 2, rows, NULL, &in[0]));
    const sp_attr attr[] = {SP_INT("num_heads", r->heads), SP_INT("rotary_embedding_dim", r->turned)};
    const sp_attrs attrs = {r->turned < r->dim ? 2 : 1, attr};
    SP_TRY(sp_match_add(m, SP_OP_RotaryEmbedding, n->name, 3, in, &attrs, &y));
    sp_value *split[] = {y, NULL};
    SP_TRY(sp_match_constant_ints(m, 4, (int64_t[]){0, 0, r->heads, r->dim}, &split[1]));
    SP_TRY(sp_match_add(m, SP_OP_Reshape, n->name, 2, split, NULL, &y));
    return sp_match_become(m, n, SP_OP_Transpose, 1, &y, SP_ATTRS(SP_INTS("perm", 4, swap)));
}

/* Concat(what turns of x[:turned], x[turned:]) */
static sparta_status visit_part(sp_match *m, sp_node *n)
{
    rotation r = {0};
    int64_t from[2], to[2];
    if (n->op != SP_OP_Concat || !joins_last(n) || !sp_match_f32(n->out[0])) return SPARTA_OK;
    const sp_node *add = sp_match_made_by(n->in[0], SP_OP_Add);
    if (!add || !sp_match_once(m, n->in[0]) || !find_whole(m, add, &r)) return SPARTA_OK;
    sp_value *x = sp_match_slice_of(r.x, &from[0], &to[0]);
    if (!x || sp_match_slice_of(n->in[1], &from[1], &to[1]) != x || from[0] != 0 || to[0] != from[1])
        return SPARTA_OK;
    r.x = x;
    r.turned = to[0];
    return sizes_fit(&r) && to[1] == r.dim && sp_match_same_dims(x, n->out[0]) ? replace(m, n, &r)
                                                                               : SPARTA_OK;
}

/* Tables by position, (positions, half), to tables of the tokens. */
static sparta_status place(sp_match *m, sp_node *n)
{
    sp_value *in[3] = {n->in[0], NULL, NULL};
    if (n->n_in < 4 || !n->in[3] || !sp_match_f32(n->in[0]) || n->in[0]->dims.rank != 3) return SPARTA_OK;
    for (int i = 1; i < 3; i++)
        SP_TRY(sp_match_add(m, SP_OP_Gather, n->name, 2, (sp_value *[]){n->in[i], n->in[3]},
                            SP_ATTRS(SP_INT("axis", 0)), &in[i]));
    sp_attrs attrs = n->attrs;
    return sp_match_become(m, n, SP_OP_RotaryEmbedding, 3, in, &attrs);
}

static sparta_status visit_whole(sp_match *m, sp_node *n)
{
    rotation r = {0};
    if (n->op == SP_OP_RotaryEmbedding) return place(m, n);
    if (n->op != SP_OP_Add || !sp_match_f32(n->out[0]) || n->out[0]->dims.rank != 4 || !find_whole(m, n, &r))
        return SPARTA_OK;
    return sp_expr_is_const(r.x->dims.dim[3], &r.turned) && sizes_fit(&r) &&
                   sp_match_same_dims(r.x, n->out[0])
               ? replace(m, n, &r)
               : SPARTA_OK;
}

sparta_status sp_pass_rotary(sp_graph *g)
{
    SP_TRY(sp_match_run(g, visit_part, &(sp_match_known){0}));
    return sp_match_run(g, visit_whole, &(sp_match_known){0});
}
