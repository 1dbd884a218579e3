/* The Llama family: a decoder with the operators that ONNX has for it since opset 23, without biases.
 *
 *   input_ids --Gather--> x
 *
 *   a layer, L times:
 *     x --input_layernorm--> q_proj (B,S,A*D) --RotaryEmbedding--\
 *                            k_proj (B,S,G*D) --RotaryEmbedding--- Attention, causal, A heads in G groups --> o_proj --> + x --> y
 *                            v_proj (B,S,G*D) -------------------/
 *     y --post_attention_layernorm--> down_proj(silu(gate_proj) * up_proj) --> + y --> x
 *
 *   x --norm--> lm_head --> logits (B,S,V)
 *
 * With a cache (llama-decode) the tokens follow P others. Their positions come in, and for each layer the keys and values of those others, which go
 * out with the new ones behind them:
 *
 *   position_ids (B,S)     past_key_values.L.key, .value (B,G,P,D) --Attention--> present.L.key, .value (B,G,P+S,D)
 *
 * The linear layers of the decoder are pruned, the head is not. Sizes: layers hidden heads groups ffn vocab positions. */
#include "zoo/transformer.h"
#include <math.h>

typedef struct llama {
    sp_zoo_transformer t;
    sp_value *cos, *sin, *places; /* tables (positions, D/2), position of each token (B, S) */
    const sp_expr *past, *all;    /* with a cache: P and P+S */
    sp_value **present;           /* and its outputs, two a layer: keys and values */
} llama;

static const char *join(llama *m, const char *prefix, const char *rest)
{
    return sp_zoo_join(&m->t.b, prefix, rest);
}

/* ------------------------------------------------------------------ pieces */

static sp_value *linear(llama *m, const char *path, const char *node, sp_value *x, int64_t in, int64_t out)
{
    return sp_zoo_matmul(&m->t.b, path, node, x, in, out, SP_ZOO_DEVIATION);
}

static sp_value *norm(llama *m, const char *path, const char *node, sp_value *x)
{
    sp_value *in[2] = {x, sp_zoo_vector(&m->t.b, join(m, path, ".weight"), m->t.hidden, 1, 0.05f)};
    return sp_zoo_node(&m->t.b, SP_OP_RMSNormalization, join(m, node, "/RMSNormalization"), 2, in,
                       SP_ATTRS(SP_FLOAT("epsilon", 1e-5f)));
}

static sp_value *rotary(llama *m, const char *node, sp_value *x, int64_t heads)
{
    sp_value *in[] = {x, m->cos, m->sin, m->places};
    return sp_zoo_node(&m->t.b, SP_OP_RotaryEmbedding, join(m, node, "/RotaryEmbedding"), 4, in,
                       SP_ATTRS(SP_INT("num_heads", heads)));
}

/* Angles: position / 10000^(i / half), the cosines or sines of them. */
static sp_value *table(llama *m, const char *name, double (*f)(double))
{
    sp_zoo_builder *b = &m->t.b;
    const int64_t half = m->t.hidden / m->t.heads / 2, dim[2] = {m->t.positions, half};
    sparta_tensor t;
    if (!b->status) b->status = sp_tensor_alloc_in(b->g->arena, SPARTA_F32, 2, dim, &t);
    if (b->status) return NULL;
    for (int64_t p = 0; p < m->t.positions; p++)
        for (int64_t i = 0; i < half; i++)
            ((float *)t.data)[p * half + i] = (float)f((double)p * pow(10000, -(double)i / (double)half));
    return sp_zoo_constant(b, name, &t);
}

/* ------------------------------------------------------------------ a layer */

static const char *const cache[] = {".key", ".value"};

/* A tensor of the cache of layer i, keys (0) or values (1): (B, G, length, D). */
static sp_dims cache_dims(llama *m, const sp_expr *length)
{
    return (sp_dims){.rank = 4,
                     .dim = {m->t.dim[0], sp_zoo_number(&m->t.b, m->t.groups), length,
                             sp_zoo_number(&m->t.b, m->t.hidden / m->t.heads)}};
}

static sp_value *past(llama *m, int i, int which)
{
    const sp_dims dims = cache_dims(m, m->past);
    return sp_zoo_input(&m->t.b, sp_zoo_numbered(&m->t.b, "past_key_values.", i, cache[which]), SPARTA_F32, 4,
                        dims.dim);
}

static sp_value *present(llama *m, int i, int which)
{
    sp_zoo_builder *b = &m->t.b;
    const sp_dims dims = cache_dims(m, m->all);
    sp_value *v = NULL;
    if (!b->status) b->status = sp_graph_add_value(b->g, sp_zoo_numbered(b, "present.", i, cache[which]), &v);
    if (b->status) return NULL;
    v->typed = true;
    v->dtype = SPARTA_F32;
    v->dims = dims;
    return m->present[2 * i + which] = v;
}

/* Attention of layer i to what its cache holds and to k and v, which go behind it; in: q, k, v. */
static sp_value *attend_all(llama *m, int i, const char *name, sp_value *const *in, const sp_attrs *attrs)
{
    sp_zoo_builder *b = &m->t.b;
    sp_value *from[] = {in[0], in[1], in[2], NULL, past(m, i, 0), past(m, i, 1)};
    sp_value *to[] = {NULL, present(m, i, 0), present(m, i, 1)};
    if (!b->status) b->status = sp_graph_add_value(b->g, join(m, name, "_output_0"), &to[0]);
    if (!b->status)
        b->status = sp_graph_add_node(b->g, SP_OP_OnnxAttention, name, 6, from, 3, to, attrs, NULL);
    return b->status ? NULL : to[0];
}

static sp_value *attention(llama *m, int i, const char *path, const char *node, sp_value *x)
{
    const int64_t h = m->t.hidden, kept = h / m->t.heads * m->t.groups; /* columns of k and v */
    const char *qn = join(m, node, "/q_proj"), *kn = join(m, node, "/k_proj"), *vn = join(m, node, "/v_proj");
    sp_value *in[3];
    in[0] = rotary(m, qn, linear(m, join(m, path, ".q_proj"), qn, x, h, h), m->t.heads);
    in[1] = rotary(m, kn, linear(m, join(m, path, ".k_proj"), kn, x, h, kept), m->t.groups);
    in[2] = linear(m, join(m, path, ".v_proj"), vn, x, h, kept);
    const char *name = join(m, node, "/Attention");
    const sp_attrs *attrs = SP_ATTRS(SP_INT("is_causal", 1), SP_INT("q_num_heads", m->t.heads),
                                     SP_INT("kv_num_heads", m->t.groups));
    sp_value *y = m->t.cached ? attend_all(m, i, name, in, attrs)
                              : sp_zoo_node(&m->t.b, SP_OP_OnnxAttention, name, 3, in, attrs);
    return linear(m, join(m, path, ".o_proj"), join(m, node, "/o_proj"), y, h, h);
}

/* down(silu(gate x) * up x), silu(z) = z sigmoid(z) */
static sp_value *swiglu(llama *m, const char *path, const char *node, sp_value *x)
{
    sp_zoo_builder *b = &m->t.b;
    const int64_t h = m->t.hidden, f = m->t.ffn;
    sp_value *gate = linear(m, join(m, path, ".gate_proj"), join(m, node, "/gate_proj"), x, h, f);
    sp_value *up = linear(m, join(m, path, ".up_proj"), join(m, node, "/up_proj"), x, h, f);
    sp_value *s = sp_zoo_unary(b, SP_OP_Sigmoid, join(m, node, "/act_fn/Sigmoid"), gate);
    s = sp_zoo_binary(b, SP_OP_Mul, join(m, node, "/act_fn/Mul"), gate, s);
    s = sp_zoo_binary(b, SP_OP_Mul, join(m, node, "/Mul"), s, up);
    return linear(m, join(m, path, ".down_proj"), join(m, node, "/down_proj"), s, f, h);
}

static sp_value *layer(llama *m, int i, sp_value *x)
{
    const char *path = sp_zoo_numbered(&m->t.b, "model.layers.", i, ""),
               *node = sp_zoo_numbered(&m->t.b, "/model/layers.", i, "");
    sp_value *y = norm(m, join(m, path, ".input_layernorm"), join(m, node, "/input_layernorm"), x);
    y = attention(m, i, join(m, path, ".self_attn"), join(m, node, "/self_attn"), y);
    y = sp_zoo_binary(&m->t.b, SP_OP_Add, join(m, node, "/Add"), x, y);
    sp_value *z =
        norm(m, join(m, path, ".post_attention_layernorm"), join(m, node, "/post_attention_layernorm"), y);
    z = swiglu(m, join(m, path, ".mlp"), join(m, node, "/mlp"), z);
    return sp_zoo_binary(&m->t.b, SP_OP_Add, join(m, node, "/Add_1"), y, z);
}

/* ------------------------------------------------------------------ the model */

static sparta_status check_sizes(sp_graph *g, const sp_zoo_transformer *s)
{
    if (s->hidden / s->heads % 2 || s->heads % s->groups)
        return sp_fail(g->cx, SPARTA_E_USAGE,
                       "zoo %s: hidden=%lld, heads=%lld, groups=%lld; heads must divide hidden into even "
                       "parts, and groups must divide heads; change one with --dim",
                       g->name, (long long)s->hidden, (long long)s->heads, (long long)s->groups);
    return SPARTA_OK;
}

/* [1, sequence] for every row of the batch. */
static sp_value *places(llama *m, sp_value *ids)
{
    sp_zoo_builder *b = &m->t.b;
    sp_value *row = sp_zoo_positions(b, "position_ids", "/positions", m->t.positions, ids);
    sp_value *all = sp_zoo_unary(b, SP_OP_Shape, "/positions/Shape_1", ids);
    return sp_zoo_binary(b, SP_OP_Expand, "/positions/Expand", row, all);
}

/* What comes in and goes out with a cache. */
static sparta_status open_cache(llama *m)
{
    sp_zoo_builder *b = &m->t.b;
    m->past = sp_zoo_symbol(b, "past");
    if (b->status) return b->status;
    m->all = sp_expr_add(b->g->arena, m->past, m->t.dim[1]);
    m->present = sp_arena_array(b->g->arena, 2 * (size_t)m->t.layers, sizeof *m->present);
    if (!m->all || !m->present) return sp_ctx_status(b->g->cx);
    m->places = sp_zoo_input(b, "position_ids", SPARTA_I64, 2, m->t.dim);
    return b->status;
}

static sparta_status build(sp_graph *g, const sp_zoo_request *r, bool cached)
{
    llama m = {.t = {4, 256, 8, 768, 32000, 512, .groups = 2, .cached = cached}};
    sp_zoo_transformer *s = &m.t;
    sp_zoo_builder *b = &s->b;
    SP_TRY(sp_zoo_transformer_begin(s, g, r, &s->vocab));
    SP_TRY(check_sizes(g, s));
    m.cos = table(&m, "cos_cache", cos);
    m.sin = table(&m, "sin_cache", sin);
    if (cached)
        SP_TRY(open_cache(&m));
    else
        m.places = places(&m, s->ids);
    sp_value *words = sp_zoo_matrix(b, "model.embed_tokens.weight", s->vocab, s->hidden, SP_ZOO_DEVIATION);
    sp_value *x = sp_zoo_binary(b, SP_OP_Gather, "/model/embed_tokens/Gather", words, s->ids);
    for (int i = 0; i < s->layers && !b->status; i++) x = layer(&m, i, x);
    x = norm(&m, "model.norm", "/model/norm", x);
    sp_value *head = sp_zoo_matrix(b, "lm_head.weight", s->hidden, s->vocab, SP_ZOO_DEVIATION);
    x = sp_zoo_binary(b, SP_OP_MatMul, "/lm_head/MatMul", x, head);
    sp_zoo_output(b, x, "logits", 3, s->dim);
    for (int64_t i = 0; cached && i < 2 * s->layers && !b->status; i++)
        b->status = sp_graph_add_output(g, m.present[i]);
    return b->status;
}

sparta_status sp_zoo_llama_mini(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, false);
}

sparta_status sp_zoo_llama_decode(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, true);
}
