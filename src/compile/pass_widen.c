/* Models in f16 and bf16 are computed in f32, which the kernels are for: weights are widened here, what goes in and out is converted.
 *
 *     x: f16 --> MatMul(w: f16) --> y: f16          x: f16 --> Cast --> MatMul(w: f32) --> Cast --> y: f16
 *
 * Inside nothing is rounded to the narrow type any more, and what would have become Inf there (above 65504 in f16) stays finite. Where
 * that matters, --strict leaves the model as it is. A Cast to the narrow type and straight back says that rounding is meant, and stays. */
#include "builtin/elementwise.h"
#include "compile/passes.h"
#include "ops/ops.h"
#include <string.h>

typedef struct widening {
    sp_graph *g;
    sp_users users;
    bool *rounds; /* by id: a value that is made narrow to be rounded, and stays so */
} widening;

static bool is_narrow(sparta_dtype t)
{
    return t == SPARTA_F16 || t == SPARTA_BF16;
}

static bool is_cast(const sp_node *n)
{
    return n->op == SP_OP_Cast;
}

/* Made by a Cast from something wider, and read by Casts to something wider alone. */
static bool is_rounding(const widening *w, const sp_value *v)
{
    const sp_node *p = v->producer;
    if (v->is_output || !p || !is_cast(p) || !sp_dtype_is_float(p->in[0]->dtype) ||
        is_narrow(p->in[0]->dtype))
        return false;
    bool back = false;
    for (int i = w->users.first[v->id]; i < w->users.first[v->id + 1]; i++) {
        const sp_node *n = w->g->node[w->users.user[i]];
        if (n == p) continue;
        if (!is_cast(n) || is_narrow(n->out[0]->dtype)) return false;
        back = true;
    }
    return back;
}

static sparta_status widen_tensor(sp_graph *g, const sparta_tensor *from, const sparta_tensor **out)
{
    sparta_tensor *t = sp_arena_alloc(g->arena, sizeof *t);
    SP_NEED(g->cx, t);
    SP_TRY(sp_tensor_alloc_in(g->arena, SPARTA_F32, from->rank, from->dim, t));
    SP_TRY(sp_check_cancel(g->cx));
    SP_TRY(sp_builtin_convert(g->cx, from, t));
    *out = t;
    return SPARTA_OK;
}

/* ------------------------------------------------------------------ edges */

static sparta_status add_cast(sp_graph *g, sp_value *from, sp_value *to, sparta_dtype type)
{
    const sp_attr attr = {.name = "to", .kind = SP_ATTR_INT, .i = sp_dtype_to_onnx(type)};
    const char *name = sp_arena_printf(g->arena, "%s/Cast", to->is_output ? to->name : from->name);
    SP_NEED(g->cx, name);
    return sp_graph_add_node(g, SP_OP_Cast, name, 1, &from, 1, &to, &(sp_attrs){1, &attr}, NULL);
}

/* A value of the same shape in f32 that all readers of v read instead. */
static sparta_status stand_in(widening *w, sp_value *v, sp_value **out)
{
    sp_value *wide;
    SP_TRY(sp_graph_add_value(w->g, NULL, &wide));
    wide->dims = v->dims;
    wide->dtype = SPARTA_F32;
    wide->typed = true;
    for (int i = w->users.first[v->id]; i < w->users.first[v->id + 1]; i++) {
        sp_node *n = w->g->node[w->users.user[i]];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == v) n->in[k] = wide;
    }
    *out = wide;
    return SPARTA_OK;
}

static sparta_status convert_input(widening *w, sp_value *v)
{
    sp_value *wide;
    SP_TRY(stand_in(w, v, &wide));
    return add_cast(w->g, v, wide, SPARTA_F32);
}

/* The output keeps its name and type; its producer makes another value. */
static sparta_status convert_output(widening *w, sp_value *v)
{
    sp_node *p = v->producer;
    sp_value *wide;
    SP_TRY(stand_in(w, v, &wide));
    if (!p) { /* a constant */
        SP_TRY(widen_tensor(w->g, v->constant, &wide->constant));
        wide->origin = v->origin;
        return SPARTA_OK;
    }
    for (int i = 0; i < p->n_out; i++)
        if (p->out[i] == v) p->out[i] = wide;
    wide->producer = p;
    v->producer = NULL;
    return add_cast(w->g, wide, v, v->dtype);
}

/* ------------------------------------------------------------------ what is inside */

/* Attributes that name a type: `to` of Cast, output_dtype, and the value of ConstantOfShape. */
static sparta_status widen_attributes(sp_graph *g, sp_node *n)
{
    sp_attr *list = NULL;
    for (int i = 0; i < n->attrs.n; i++) {
        const sp_attr *a = &n->attrs.attr[i];
        const bool type =
            a->kind == SP_ATTR_INT && (!strcmp(a->name, "to") || !strcmp(a->name, "output_dtype"));
        sparta_dtype named;
        const bool narrow = type ? sp_dtype_from_onnx(a->i, &named) && is_narrow(named)
                                 : a->kind == SP_ATTR_TENSOR && is_narrow(a->tensor->dtype);
        if (!narrow) continue;
        if (!list) {
            list = sp_arena_array(g->arena, (size_t)n->attrs.n, sizeof *list);
            SP_NEED(g->cx, list);
            memcpy(list, n->attrs.attr, (size_t)n->attrs.n * sizeof *list);
            n->attrs.attr = list;
        }
        if (type)
            list[i].i = sp_dtype_to_onnx(SPARTA_F32);
        else
            SP_TRY(widen_tensor(g, a->tensor, &list[i].tensor));
    }
    return SPARTA_OK;
}

static sparta_status widen_value(widening *w, sp_value *v)
{
    if (!v->typed || !is_narrow(v->dtype) || w->rounds[v->id]) return SPARTA_OK;
    if (v->is_input) return convert_input(w, v);
    if (v->is_output) return convert_output(w, v);
    if (v->constant) SP_TRY(widen_tensor(w->g, v->constant, &v->constant));
    v->dtype = SPARTA_F32;
    return SPARTA_OK;
}

static sparta_status widen(widening *w, const char *type)
{
    sp_graph *g = w->g;
    const int n_nodes = g->n_nodes, n_values = g->n_values;
    for (int i = 0; i < n_values; i++)
        w->rounds[i] = is_narrow(g->value[i]->dtype) && is_rounding(w, g->value[i]);
    for (int i = 0; i < n_nodes; i++) {
        sp_node *n = g->node[i];
        if (!n->n_out || !n->out[0] || !w->rounds[n->out[0]->id]) SP_TRY(widen_attributes(g, n));
    }
    for (int i = 0; i < n_values; i++) SP_TRY(widen_value(w, g->value[i]));
    sp_note(g->cx,
            "the model is in %s and is computed in f32: weights are widened, what goes in and out is "
            "converted; options.strict leaves it as it is, on references",
            type);
    return sp_graph_sort(g);
}

/* The narrow type that something is computed in; NULL: none is. */
static const char *narrow_type(const sp_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->node[i]->n_out; k++) {
            const sp_value *v = g->node[i]->out[k];
            if (v && v->typed && is_narrow(v->dtype)) return sparta_dtype_name(v->dtype);
        }
    return NULL;
}

sparta_status sp_pass_widen(sp_graph *g)
{
    const char *type = narrow_type(g);
    if (!type || sp_ctx_strict(g->cx)) return SPARTA_OK;
    sp_arena *arena = sp_arena_create(g->cx);
    SP_NEED(g->cx, arena);
    widening w = {.g = g, .rounds = sp_arena_array(arena, (size_t)g->n_values + 1, sizeof *w.rounds)};
    sparta_status s = w.rounds ? sp_graph_users(g, arena, &w.users) : sp_ctx_status(g->cx);
    if (s == SPARTA_OK) s = widen(&w, type);
    sp_arena_free(arena);
    return s;
}

sparta_status sp_compile_widen(sp_graph *g)
{
    SP_TRY(sp_ops_infer(g));
    SP_TRY(sp_pass_widen(g));
    return sp_ops_infer(g);
}
