/* What edges say, said in the graph: a constant's elements that do not exist become 0; of another value they are multiplied by 0, so that propagation
 * carries it forward and backward as it does any other zero, and the graph still says all of it. */
#include "specialize/specialize.h"
#include <string.h>

static sparta_status check_facts(sparta_ctx *cx, const sp_value *v, const sparta_tesa_facts *f)
{
    if (f->known.data)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "TeSA of %s: constants in a value are not taken; make them a const of the graph",
                       v->name);
    if (f->precision && strcmp(f->precision, "f32") && strcmp(f->precision, "any"))
        return sp_fail(cx, SPARTA_E_UNSUPPORTED,
                       "TeSA of %s: its precision is %.60s, kernels are generated for f32 alone", v->name,
                       f->precision);
    if (v->typed && f->has.data && v->dtype != SPARTA_F32)
        return sp_fail(cx, SPARTA_E_UNSUPPORTED, "TeSA of %s: it is %s; elements go of f32 alone", v->name,
                       sparta_dtype_name(v->dtype));
    return SPARTA_OK;
}

/* Which elements exist, as a tensor of f32 that broadcasts to the value: checked against its dims. */
static sparta_status mask_of(sparta_specialized *s, const sp_value *v, const sparta_tensor *has,
                             sparta_tensor *out)
{
    int64_t dim[SPARTA_RANK];
    if (has->rank != v->dims.rank)
        return sp_fail(s->cx, SPARTA_E_SHAPE, "TeSA of %s: it has %d dimensions, the value has %d", v->name,
                       has->rank, v->dims.rank);
    for (int d = 0; d < has->rank; d++)
        if (has->dim[d] != 1 && (!sp_expr_is_const(v->dims.dim[d], &dim[d]) || dim[d] != has->dim[d]))
            return sp_fail(s->cx, SPARTA_E_SHAPE,
                           "TeSA of %s: %lld elements in dimension %d are not those of the value", v->name,
                           (long long)has->dim[d], d);
    SP_TRY(sp_tensor_alloc_in(s->given->arena, SPARTA_F32, has->rank, has->dim, out));
    for (int64_t i = 0; i < sparta_tensor_elements(out); i++)
        ((float *)out->data)[i] = ((const uint8_t *)has->data)[i] ? 1 : 0;
    return SPARTA_OK;
}

static sparta_status mask_constant(sparta_specialized *s, sp_value *v, const sparta_tensor *mask)
{
    sparta_tensor wide, *kept = sp_arena_array(s->given->arena, 1, sizeof *kept);
    SP_NEED(s->cx, kept);
    SP_TRY(sp_tensor_alloc_in(s->given->arena, SPARTA_F32, v->constant->rank, v->constant->dim, kept));
    SP_TRY(sp_tensor_copy(s->cx, v->constant, kept));
    SP_TRY(sp_tensor_broadcast(s->cx, mask, kept->rank, kept->dim, &wide));
    const sparta_tensor *both[] = {kept, &wide};
    for (sp_cursor i = sp_cursor_begin(kept->rank, kept->dim, 2, both); i.more; sp_cursor_next(&i))
        if (((const float *)wide.data)[i.at[1]] == 0) ((float *)kept->data)[i.at[0]] = 0;
    v->constant = kept;
    return SPARTA_OK;
}

static int place_after(const sp_graph *g, const sp_node *producer)
{
    for (int i = 0; producer && i < g->n_nodes; i++)
        if (g->node[i] == producer) return i + 1;
    return 0;
}

static sparta_status multiply(sparta_specialized *s, sp_value *v, const sparta_tensor *mask)
{
    sp_graph *g = s->given;
    sp_users users;
    sp_value *constant, *out = NULL;
    sp_node *node;
    SP_TRY(sp_graph_users(g, s->arena, &users));
    SP_TRY(sp_graph_add_constant(g, NULL, mask, false, &constant));
    const int at = place_after(g, v->producer);
    SP_TRY(sp_graph_add_node(g, SP_OP_Mul, "TeSA", 2, (sp_value *[]){v, constant}, 1, &out, NULL, &node));
    SP_TRY(sp_ops_infer_node(g, node));
    sp_graph_replace(g, &users, v, out); /* users are known by their places: it moves afterwards */
    sp_graph_move_node(g, at, node);
    return SPARTA_OK;
}

static sparta_status find(const sparta_specialized *s, const sparta_edge *e, sp_value **out)
{
    char hint[SP_HINT];
    if (!e->value) return sp_fail(s->cx, SPARTA_E_USAGE, "options.edge: an edge has no value");
    *out = sp_graph_find(s->given, e->value);
    if (*out) return SPARTA_OK;
    const char **names = sp_arena_array(s->arena, (size_t)s->given->n_values + 1, sizeof *names);
    SP_NEED(s->cx, names);
    for (int i = 0; i < s->given->n_values; i++) names[i] = s->given->value[i]->name;
    return sp_fail(s->cx, SPARTA_E_USAGE, "edge %.100s: the graph has no such value%s", e->value,
                   sp_did_you_mean(e->value, names, s->given->n_values, "; give one of its names", hint));
}

static sparta_status apply(sparta_specialized *s, const sparta_edge *e)
{
    sparta_tesa_facts facts = SPARTA_OPTIONS(sparta_tesa_facts);
    sparta_tensor mask;
    sp_value *v;
    SP_TRY(find(s, e, &v));
    if (!e->tesa) return SPARTA_OK;
    sparta_tesa_get(e->tesa, &facts);
    SP_TRY(check_facts(s->cx, v, &facts));
    if (!facts.has.data) return SPARTA_OK;
    SP_TRY(mask_of(s, v, &facts.has, &mask));
    return v->constant ? mask_constant(s, v, &mask) : multiply(s, v, &mask);
}

sparta_status sp_specialize_edges(sparta_specialized *s)
{
    s->used = sp_arena_array(s->arena, (size_t)s->options.edges + 1, sizeof *s->used);
    SP_NEED(s->cx, s->used);
    for (int i = 0; i < s->options.edges; i++) SP_TRY(apply(s, &s->options.edge[i]));
    return sp_graph_verify(s->given);
}

/* ------------------------------------------------------------------ formats that are asked for */
const char *sp_specialize_asked(const sparta_specialized *s, const sp_value *v)
{
    for (int i = 0; v && i < s->options.edges; i++) {
        const sparta_edge *e = &s->options.edge[i];
        if (!e->format ||
            (strcmp(e->value, v->name) && !(v->constant && v->origin && !strcmp(e->value, v->origin))))
            continue;
        s->used[i] = true;
        return e->format;
    }
    return NULL;
}

sparta_status sp_specialize_all_used(const sparta_specialized *s)
{
    for (int i = 0; i < s->options.edges; i++)
        if (s->options.edge[i].format && !s->used[i])
            return sp_fail(s->cx, SPARTA_E_USAGE,
                           "format of %.100s: no kernel has this value, which was folded or fused away; "
                           "leave it out",
                           s->options.edge[i].value);
    return SPARTA_OK;
}
