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
#include "zoo/transformer.h"
#include <float.h>

typedef struct bert {
    sp_zoo_transformer t;
    sp_value *sqrt2;
} bert;

static const char *join(bert *m, const char *prefix, const char *rest)
{
    return sp_zoo_join(&m->t.b, prefix, rest);
}

/* ------------------------------------------------------------------ pieces */

static sp_value *linear(bert *m, const char *path, const char *node, sp_value *x, int64_t in, int64_t out)
{
    return sp_zoo_linear(&m->t, path, node, x, in, out, true);
}

static sp_value *layer_norm(bert *m, const char *path, const char *node, sp_value *x)
{
    return sp_zoo_layer_norm(&m->t.b, path, node, x, m->t.hidden, 1e-12f, SP_ZOO_DEVIATION);
}

/* 0.5 x (1 + erf(x / sqrt 2)) */
static sp_value *gelu(bert *m, const char *node, sp_value *x)
{
    sp_value *y = sp_zoo_binary(&m->t.b, SP_OP_Div, join(m, node, "/Div"), x, m->sqrt2);
    y = sp_zoo_unary(&m->t.b, SP_OP_Erf, join(m, node, "/Erf"), y);
    y = sp_zoo_binary(&m->t.b, SP_OP_Add, join(m, node, "/Add"), y, m->t.one);
    y = sp_zoo_binary(&m->t.b, SP_OP_Mul, join(m, node, "/Mul"), x, y);
    return sp_zoo_binary(&m->t.b, SP_OP_Mul, join(m, node, "/Mul_1"), y, m->t.half);
}

/* ------------------------------------------------------------------ embeddings */

static sp_value *lookup(bert *m, const char *table, int64_t rows, const char *node, sp_value *ids)
{
    sp_value *w = sp_zoo_matrix(&m->t.b, table, rows, m->t.hidden, SP_ZOO_DEVIATION);
    return sp_zoo_binary(&m->t.b, SP_OP_Gather, node, w, ids);
}

static sp_value *embeddings(bert *m, sp_value *input_ids, sp_value *type_ids)
{
    sp_value *word = lookup(m, "embeddings.word_embeddings.weight", m->t.vocab,
                            "/embeddings/word_embeddings/Gather", input_ids);
    sp_value *type = lookup(m, "embeddings.token_type_embeddings.weight", 2,
                            "/embeddings/token_type_embeddings/Gather", type_ids);
    sp_value *place = lookup(
        m, "embeddings.position_embeddings.weight", m->t.positions, "/embeddings/position_embeddings/Gather",
        sp_zoo_positions(&m->t.b, "embeddings.position_ids", "/embeddings", m->t.positions, input_ids));
    sp_value *x = sp_zoo_binary(&m->t.b, SP_OP_Add, "/embeddings/Add", word, type);
    x = sp_zoo_binary(&m->t.b, SP_OP_Add, "/embeddings/Add_1", x, place);
    return layer_norm(m, "embeddings.LayerNorm", "/embeddings/LayerNorm", x);
}

/* (B,S) of ones and zeros -> (B,1,1,S) of 0 and the lowest float. */
static sp_value *additive_mask(bert *m, sp_value *mask)
{
    sp_zoo_builder *b = &m->t.b;
    sp_value *x = sp_zoo_binary(b, SP_OP_Unsqueeze, "/Unsqueeze", mask,
                                sp_zoo_ints(b, "/Constant_1", 1, (int64_t[]){1}));
    x = sp_zoo_binary(b, SP_OP_Unsqueeze, "/Unsqueeze_1", x,
                      sp_zoo_ints(b, "/Constant_2", 1, (int64_t[]){2}));
    x = sp_zoo_node(b, SP_OP_Cast, "/Cast", 1, &x, SP_ATTRS(SP_INT("to", sp_dtype_to_onnx(SPARTA_F32))));
    x = sp_zoo_binary(b, SP_OP_Sub, "/Sub", m->t.one, x);
    return sp_zoo_binary(b, SP_OP_Mul, "/Mul", x, sp_zoo_float(b, "/Constant_lowest", -FLT_MAX));
}

/* ------------------------------------------------------------------ a layer */

static sp_value *attention(bert *m, const char *path, const char *node, sp_value *x)
{
    const int64_t h = m->t.hidden;
    sp_value *q = linear(m, join(m, path, ".query"), join(m, node, "/query"), x, h, h);
    sp_value *k = linear(m, join(m, path, ".key"), join(m, node, "/key"), x, h, h);
    sp_value *v = linear(m, join(m, path, ".value"), join(m, node, "/value"), x, h, h);
    return sp_zoo_attend(&m->t, node, q, k, v);
}

static sp_value *encoder_layer(bert *m, int i, sp_value *x)
{
    sp_zoo_builder *b = &m->t.b;
    const int64_t h = m->t.hidden, f = m->t.ffn;
    const char *path = sp_zoo_numbered(b, "encoder.layer.", i, ""),
               *node = sp_zoo_numbered(b, "/encoder/layer.", i, "");
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

static sparta_status build(sp_graph *g, const sp_zoo_request *r, sp_zoo_transformer sizes)
{
    bert m = {.t = sizes};
    sp_zoo_transformer *t = &m.t;
    SP_TRY(sp_zoo_transformer_begin(t, g, r, &t->hidden));
    sp_value *mask = sp_zoo_input(&t->b, "attention_mask", SPARTA_I64, 2, t->dim);
    sp_value *types = sp_zoo_input(&t->b, "token_type_ids", SPARTA_I64, 2, t->dim);
    sp_zoo_transformer_constants(t);
    m.sqrt2 = sp_zoo_float(&t->b, "/Constant_sqrt2", 1.41421356237309504880f);
    t->mask = additive_mask(&m, mask);
    sp_value *x = embeddings(&m, t->ids, types);
    for (int i = 0; i < t->layers && !t->b.status; i++) x = encoder_layer(&m, i, x);
    sp_zoo_output(&t->b, x, "last_hidden_state", 3, t->dim);
    return t->b.status;
}

sparta_status sp_zoo_bert_mini(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, (sp_zoo_transformer){4, 256, 4, 1024, 30522, 512, .groups = 0});
}

sparta_status sp_zoo_bert_base(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, (sp_zoo_transformer){12, 768, 12, 3072, 30522, 512, .groups = 0});
}

sparta_status sp_zoo_bert_large(sp_graph *g, const sp_zoo_request *r)
{
    return build(g, r, (sp_zoo_transformer){24, 1024, 16, 4096, 30522, 512, .groups = 0});
}
