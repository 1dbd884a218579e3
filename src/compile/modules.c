/* modules: PyTorch's names of weights that an exporter gave another. It does where it transposed them:
 *
 *     encoder.layer.0.query = nn.Linear(...)                     encoder.layer.0.query.weight is (out, in)
 *     MatMul(x, "onnx::MatMul_317") of that module               the file's is (in, out): turned
 *     Add(y, "encoder.layer.0.query.bias")                       says it too, where nothing else does
 *
 * What an exporter only passes on (a convolution, GPT-2's Conv1D, a Gemm) keeps its parameter's name and its shape, and is not here. */
#include "compile/modules.h"
#include <string.h>

/* A name that two weights have (a bias that they share, a module that multiplies twice) is none. */
static sparta_status add(sp_modules *m, const char *name, const sp_module_weight *w)
{
    int64_t at;
    const sp_value *own = sp_graph_find(m->g, name);
    if (own && own->constant) return SPARTA_OK; /* a name of the file means what lies there */
    if (sp_map_get(m->by_name, name, &at)) {
        m->weight[at].several |= m->weight[at].value != w->value;
        return SPARTA_OK;
    }
    m->weight[m->n] = *w;
    m->weight[m->n].name = name;
    return sp_map_put(m->by_name, name, m->n++);
}

/* The name of the bias that is added to a product; NULL: none is. */
static const char *bias_of(const sp_graph *g, const sp_users *u, const sp_node *n)
{
    if (n->op == SP_OP_Gemm) return n->n_in > 2 && n->in[2] ? n->in[2]->name : NULL;
    const int id = n->out[0]->id;
    for (int i = u->first[id]; i < u->first[id + 1]; i++) {
        const sp_node *add = g->node[u->user[i]];
        if (add->op != SP_OP_Add || add->n_in != 2) continue;
        const sp_value *other = add->in[add->in[0] == n->out[0]];
        if (other && !other->is_input) return other->name;
    }
    return NULL;
}

/* "query.bias" -> "query.weight", "in_proj_bias" -> "in_proj_weight". A bias of another module than the node's says nothing. */
static sparta_status add_by_bias(sp_modules *m, const char *bias, const sp_node *n, const sp_module_weight *w)
{
    const size_t length = bias ? strlen(bias) : 0, tail = strlen("bias");
    const size_t path = n->module ? strlen(n->module) : 0;
    if (length < tail || strcmp(bias + length - tail, "bias") != 0) return SPARTA_OK;
    if (path && (strncmp(bias, n->module, path) != 0 || bias[path] != '.')) return SPARTA_OK;
    const char *name = sp_arena_printf(m->arena, "%.*sweight", (int)SP_MIN(length - tail, 2000), bias);
    SP_NEED(m->g->cx, name);
    return add(m, name, w);
}

static sparta_status add_node(sp_modules *m, const sp_users *u, const sp_node *n)
{
    sp_module_weight w = {0};
    w.value = sp_schedule_weight_of(n, &w.turned);
    if (!w.value) return SPARTA_OK;
    SP_TRY(add_by_bias(m, bias_of(m->g, u, n), n, &w));
    if (!n->module) return SPARTA_OK;
    const char *name = sp_arena_printf(m->arena, "%s.weight", n->module);
    SP_NEED(m->g->cx, name);
    return add(m, name, &w);
}

sparta_status sp_modules_find_all(sp_graph *g, sp_modules *out)
{
    sp_modules m = {.g = g, .arena = sp_arena_create(g->cx), .by_name = sp_map_create(g->cx)};
    sp_users u;
    sparta_status s = m.arena && m.by_name ? SPARTA_OK : sp_ctx_status(g->cx);
    if (s == SPARTA_OK) {
        m.weight = sp_arena_array(m.arena, 2 * (size_t)g->n_nodes + 1, sizeof *m.weight);
        s = m.weight ? sp_graph_users(g, m.arena, &u) : sp_ctx_status(g->cx);
    }
    for (int i = 0; i < g->n_nodes && s == SPARTA_OK; i++) s = add_node(&m, &u, g->node[i]);
    *out = m;
    if (s != SPARTA_OK) sp_modules_free(out);
    return s;
}

const sp_module_weight *sp_modules_find(const sp_modules *m, const char *name)
{
    int64_t at;
    return m->by_name && sp_map_get(m->by_name, name, &at) ? &m->weight[at] : NULL;
}

void sp_modules_free(sp_modules *m)
{
    sp_map_free(m->by_name);
    sp_arena_free(m->arena);
    *m = (sp_modules){0};
}
