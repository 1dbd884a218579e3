/* The pieces of transformer.h. */
#include "zoo/transformer.h"
#include <math.h>

static sparta_status take_sizes(sp_zoo_transformer *m, sp_graph *g, const sp_zoo_request *r)
{
    const sp_zoo_size size[] = {{"layers", &m->layers}, {"hidden", &m->hidden}, {"heads", &m->heads},
                                {"ffn", &m->ffn},       {"vocab", &m->vocab},   {"positions", &m->positions},
                                {"batch", NULL},        {"sequence", NULL},     {"groups", &m->groups},
                                {"past", NULL}};
    SP_TRY(sp_zoo_sizes(g, r, size, (int)SP_COUNT(size) - !m->groups - !m->cached));
    if (m->hidden % m->heads)
        return sp_fail(g->cx, SPARTA_E_USAGE,
                       "zoo %s: hidden=%lld is no multiple of heads=%lld; change one with --dim", g->name,
                       (long long)m->hidden, (long long)m->heads);
    if (m->layers > 1000)
        return sp_fail(g->cx, SPARTA_E_USAGE, "zoo %s: layers=%lld; at most 1000", g->name,
                       (long long)m->layers);
    return SPARTA_OK;
}

sparta_status sp_zoo_transformer_begin(sp_zoo_transformer *m, sp_graph *g, const sp_zoo_request *r,
                                       const int64_t *columns)
{
    SP_TRY(take_sizes(m, g, r));
    m->b = (sp_zoo_builder){.g = g, .request = r};
    m->dim[0] = sp_zoo_symbol(&m->b, "batch");
    m->dim[1] = sp_zoo_symbol(&m->b, "sequence");
    m->dim[2] = sp_zoo_number(&m->b, *columns);
    m->ids = sp_zoo_input(&m->b, "input_ids", SPARTA_I64, 2, m->dim);
    return m->b.status;
}

void sp_zoo_transformer_constants(sp_zoo_transformer *m)
{
    sp_zoo_builder *b = &m->b;
    const int64_t each = m->hidden / m->heads;
    m->one = sp_zoo_float(b, "/Constant_one", 1);
    m->half = sp_zoo_float(b, "/Constant_half", 0.5f);
    m->scale = sp_zoo_float(b, "/Constant_scale", sqrtf((float)each));
    m->to_heads = sp_zoo_ints(b, "/Constant_to_heads", 4, (int64_t[]){0, 0, m->heads, each});
    m->from_heads = sp_zoo_ints(b, "/Constant_from_heads", 3, (int64_t[]){0, 0, m->hidden});
}

sp_value *sp_zoo_linear(sp_zoo_transformer *m, const char *path, const char *node, sp_value *x, int64_t in,
                        int64_t out, bool bias_first)
{
    sp_zoo_builder *b = &m->b;
    sp_value *y = sp_zoo_matmul(b, path, node, x, in, out, SP_ZOO_DEVIATION);
    sp_value *bias = sp_zoo_vector(b, sp_zoo_join(b, path, ".bias"), out, 0, SP_ZOO_DEVIATION);
    return sp_zoo_binary(b, SP_OP_Add, sp_zoo_join(b, node, "/Add"), bias_first ? bias : y,
                         bias_first ? y : bias);
}

/* Heads in front, in the order that the products want. */
static sp_value *heads(sp_zoo_transformer *m, const char *node, sp_value *x, const int64_t perm[4])
{
    x = sp_zoo_binary(&m->b, SP_OP_Reshape, sp_zoo_join(&m->b, node, "/Reshape"), x, m->to_heads);
    return sp_zoo_transpose(&m->b, sp_zoo_join(&m->b, node, "/Transpose"), x, 4, perm);
}

sp_value *sp_zoo_attend(sp_zoo_transformer *m, const char *node, sp_value *q, sp_value *k, sp_value *v)
{
    static const int64_t bhsd[] = {0, 2, 1, 3}, bhds[] = {0, 2, 3, 1};
    sp_zoo_builder *b = &m->b;
    q = heads(m, sp_zoo_join(b, node, "/query"), q, bhsd);
    k = heads(m, sp_zoo_join(b, node, "/key"), k, bhds);
    v = heads(m, sp_zoo_join(b, node, "/value"), v, bhsd);
    sp_value *s = sp_zoo_binary(b, SP_OP_MatMul, sp_zoo_join(b, node, "/MatMul"), q, k);
    s = sp_zoo_binary(b, SP_OP_Div, sp_zoo_join(b, node, "/Div"), s, m->scale);
    s = sp_zoo_binary(b, SP_OP_Add, sp_zoo_join(b, node, "/Add"), s, m->mask);
    s = sp_zoo_node(b, SP_OP_Softmax, sp_zoo_join(b, node, "/Softmax"), 1, &s, SP_ATTRS(SP_INT("axis", -1)));
    s = sp_zoo_binary(b, SP_OP_MatMul, sp_zoo_join(b, node, "/MatMul_1"), s, v);
    s = sp_zoo_transpose(b, sp_zoo_join(b, node, "/Transpose"), s, 4, bhsd);
    return sp_zoo_binary(b, SP_OP_Reshape, sp_zoo_join(b, node, "/Reshape"), s, m->from_heads);
}
