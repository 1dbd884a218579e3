/* The BERT family: an encoder as PyTorch's exporter writes it, without a pooler.
 *
 *   input_ids, token_type_ids, positions --Gather--> sum --> LayerNormalization --> x
 *
 *   a layer, L times:
 *     x --query, key, value--> (B,S,H) --> (B,A,S,H/A) --MatMul--> / sqrt(H/A) + mask --> Softmax --MatMul--> c
 *     c --attention.output.dense--> + x --> LayerNormalization --> y
 *     y --intermediate.dense--> Erf pieces of Gelu --output.dense--> + y --> LayerNormalization --> x
 *
 *   x = last_hidden_state (B,S,H)
 *
 * The linear layers of the encoder are pruned. Sizes: layers hidden heads ffn vocab positions. */
#include "zoo/build.h"
#include <float.h>
#include <math.h>
#include <stdio.h>

typedef struct bert {
    sp_zoo_builder b;
    sp_zoo_transformer s;
    /* Constants that every layer shares. */
    sp_value *mask, *scale, *sqrt2, *one, *half, *to_heads, *from_heads;
} bert;

static const float deviation = 0.02f;

static const char *join(bert *m, const char *prefix, const char *rest)
{
    return sp_zoo_join(&m->b, prefix, rest);
}

/* ------------------------------------------------------------------ pieces */

/* MatMul with a weight (in, out), then the bias: what the exporter makes of torch.nn.Linear on three
 * dimensions. */
static sp_value *linear(bert *m, const char *path, const char *node, sp_value *x, int64_t in, int64_t out)
{
    sp_value *y = sp_zoo_matmul(&m->b, path, node, x, in, out, deviation);
    sp_value *bias = sp_zoo_vector(&m->b, join(m, path, ".bias"), out, 0, deviation);
    return sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add"), bias, y);
}

static sp_value *layer_norm(bert *m, const char *path, const char *node, sp_value *x)
{
    return sp_zoo_layer_norm(&m->b, path, node, x, m->s.hidden, 1e-12f, deviation);
}

/* 0.5 x (1 + erf(x / sqrt 2)) */
static sp_value *gelu(bert *m, const char *node, sp_value *x)
{
    sp_value *y = sp_zoo_binary(&m->b, SP_OP_Div, join(m, node, "/Div"), x, m->sqrt2);
    y = sp_zoo_unary(&m->b, SP_OP_Erf, join(m, node, "/Erf"), y);
    y = sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add"), y, m->one);
    y = sp_zoo_binary(&m->b, SP_OP_Mul, join(m, node, "/Mul"), x, y);
    return sp_zoo_binary(&m->b, SP_OP_Mul, join(m, node, "/Mul_1"), y, m->half);
}

/* ------------------------------------------------------------------ embeddings */

static sp_value *lookup(bert *m, const char *table, int64_t rows, const char *node, sp_value *ids)
{
    sp_value *w = sp_zoo_matrix(&m->b, table, rows, m->s.hidden, deviation);
    return sp_zoo_binary(&m->b, SP_OP_Gather, node, w, ids);
}

static sp_value *embeddings(bert *m, sp_value *input_ids, sp_value *type_ids)
{
    sp_value *word = lookup(m, "embeddings.word_embeddings.weight", m->s.vocab,
                            "/embeddings/word_embeddings/Gather", input_ids);
    sp_value *type = lookup(m, "embeddings.token_type_embeddings.weight", 2,
                            "/embeddings/token_type_embeddings/Gather", type_ids);
    sp_value *place = lookup(
        m, "embeddings.position_embeddings.weight", m->s.positions, "/embeddings/position_embeddings/Gather",
        sp_zoo_positions(&m->b, "embeddings.position_ids", "/embeddings", m->s.positions, input_ids));
    sp_value *x = sp_zoo_binary(&m->b, SP_OP_Add, "/embeddings/Add", word, type);
    x = sp_zoo_binary(&m->b, SP_OP_Add, "/embeddings/Add_1", x, place);
    return layer_norm(m, "embeddings.LayerNorm", "/embeddings/LayerNorm", x);
}

/* (B,S) of ones and zeros -> (B,1,1,S) of 0 and the lowest float. */
static sp_value *additive_mask(bert *m, sp_value *mask)
{
    sp_zoo_builder *b = &m->b;
    sp_value *x = sp_zoo_binary(b, SP_OP_Unsqueeze, "/Unsqueeze", mask,
                                sp_zoo_ints(b, "/Constant_1", 1, (int64_t[]){1}));
    x = sp_zoo_binary(b, SP_OP_Unsqueeze, "/Unsqueeze_1", x,
                      sp_zoo_ints(b, "/Constant_2", 1, (int64_t[]){2}));
    x = sp_zoo_node(b, SP_OP_Cast, "/Cast", 1, &x, SP_ATTRS(SP_INT("to", sp_dtype_to_onnx(SPARTA_F32))));
    x = sp_zoo_binary(b, SP_OP_Sub, "/Sub", m->one, x);
    return sp_zoo_binary(b, SP_OP_Mul, "/Mul", x, sp_zoo_float(b, "/Constant_lowest", -FLT_MAX));
}

/* ------------------------------------------------------------------ a layer */

/* (B,S,H) -> heads in front, in the order that the products want */
static sp_value *heads(bert *m, const char *node, sp_value *x, const int64_t perm[4])
{
    x = sp_zoo_binary(&m->b, SP_OP_Reshape, join(m, node, "/Reshape"), x, m->to_heads);
    return sp_zoo_transpose(&m->b, join(m, node, "/Transpose"), x, 4, perm);
}

static sp_value *attention(bert *m, const char *path, const char *node, sp_value *x)
{
    static const int64_t bhsd[] = {0, 2, 1, 3}, bhds[] = {0, 2, 3, 1};
    const int64_t h = m->s.hidden;
    const char *qn = join(m, node, "/query"), *kn = join(m, node, "/key"), *vn = join(m, node, "/value");
    sp_value *q = heads(m, qn, linear(m, join(m, path, ".query"), qn, x, h, h), bhsd);
    sp_value *k = heads(m, kn, linear(m, join(m, path, ".key"), kn, x, h, h), bhds);
    sp_value *v = heads(m, vn, linear(m, join(m, path, ".value"), vn, x, h, h), bhsd);
    sp_value *s = sp_zoo_binary(&m->b, SP_OP_MatMul, join(m, node, "/MatMul"), q, k);
    s = sp_zoo_binary(&m->b, SP_OP_Div, join(m, node, "/Div"), s, m->scale);
    s = sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add"), s, m->mask);
    s = sp_zoo_node(&m->b, SP_OP_Softmax, join(m, node, "/Softmax"), 1, &s, SP_ATTRS(SP_INT("axis", -1)));
    s = sp_zoo_binary(&m->b, SP_OP_MatMul, join(m, node, "/MatMul_1"), s, v);
    s = sp_zoo_transpose(&m->b, join(m, node, "/Transpose"), s, 4, bhsd);
    return sp_zoo_binary(&m->b, SP_OP_Reshape, join(m, node, "/Reshape"), s, m->from_heads);
}

static sp_value *encoder_layer(bert *m, int i, sp_value *x)
{
    sp_zoo_builder *b = &m->b;
    const int64_t h = m->s.hidden, f = m->s.ffn;
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    const char *path = join(m, "encoder.layer.", number), *node = join(m, "/encoder/layer.", number);
    const char *output = join(m, node, "/attention/output");
    sp_value *y = attention(m, join(m, path, ".attention.self"), join(m, node, "/attention/self"), x);
    y = linear(m, join(m, path, ".attention.output.dense"), join(m, output, "/dense"), y, h, h);
    y = sp_zoo_binary(b, SP_OP_Add, join(m, output, "/Add"), y, x);
    y = layer_norm(m, join(m, path, ".attention.output.LayerNorm"), join(m, output, "/LayerNorm"), y);
    sp_value *z =
        linear(m, join(m, path, ".intermediate.dense"), join(m, node, "/intermediate/dense"), y, h, f);
    z = gelu(m, join(m, node, "/intermediate/intermediate_act_fn"), z);
    z = linear(m, join(m, path, ".output.dense"), join(m, node, "/output/dense"), z, f, h);
    z = sp_zoo_binary(b, SP_OP_Add, join(m, node, "/output/Add"), z, y);
    return layer_norm(m, join(m, path, ".output.LayerNorm"), join(m, node, "/output/LayerNorm"), z);
}

/* ------------------------------------------------------------------ the model */

static void shared_constants(bert *m)
{
    sp_zoo_builder *b = &m->b;
    const int64_t each = m->s.hidden / m->s.heads;
    m->one = sp_zoo_float(b, "/Constant_one", 1);
    m->half = sp_zoo_float(b, "/Constant_half", 0.5f);
    m->sqrt2 = sp_zoo_float(b, "/Constant_sqrt2", 1.41421356237309504880f);
    m->scale = sp_zoo_float(b, "/Constant_scale", sqrtf((float)each));
    m->to_heads = sp_zoo_ints(b, "/Constant_to_heads", 4, (int64_t[]){0, 0, m->s.heads, each});
    m->from_heads = sp_zoo_ints(b, "/Constant_from_heads", 3, (int64_t[]){0, 0, m->s.hidden});
}

static sparta_status build(sp_graph *g, const sp_zoo_request *r, sp_zoo_transformer s)
{
    SP_TRY(sp_zoo_transformer_sizes(g, r, &s));
    bert m = {.b = {.g = g, .request = r}, .s = s};
    const sp_expr *dim[3] = {sp_zoo_symbol(&m.b, "batch"), sp_zoo_symbol(&m.b, "sequence"),
                             sp_expr_const(g->arena, s.hidden)};
    SP_NEED(g->cx, dim[2]);
    sp_value *ids = sp_zoo_input(&m.b, "input_ids", SPARTA_I64, 2, dim);
    sp_value *mask = sp_zoo_input(&m.b, "attention_mask", SPARTA_I64, 2, dim);
    sp_value *types = sp_zoo_input(&m.b, "token_type_ids", SPARTA_I64, 2, dim);
    shared_constants(&m);
    m.mask = additive_mask(&m, mask);
    sp_value *x = embeddings(&m, ids, types);
    for (int i = 0; i < s.layers && !m.b.status; i++) x = encoder_layer(&m, i, x);
    sp_zoo_output(&m.b, x, "last_hidden_state", 3, dim);
    return m.b.status;
}

sparta_status sp_zoo_bert_mini(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, (sp_zoo_transformer){4, 256, 4, 1024, 30522, 512, 0});
}

sparta_status sp_zoo_bert_base(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, (sp_zoo_transformer){12, 768, 12, 3072, 30522, 512, 0});
}

sparta_status sp_zoo_bert_large(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, (sp_zoo_transformer){24, 1024, 16, 4096, 30522, 512, 0});
}
