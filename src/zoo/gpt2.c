/* GPT-2: a decoder with its tied head, as PyTorch's exporter writes it; the causal mask is made once and added in every layer.
 *
 *   input_ids, positions --Gather--> sum --> x
 *
 *   a layer, L times:
 *     x --ln_1--> c_attn --Split--> q, k, v (B,A,S,H/A) --MatMul--> / sqrt(H/A) + mask --> Softmax --MatMul--> c_proj --> + x --> y
 *     y --ln_2--> mlp.c_fc --> Tanh pieces of Gelu --> mlp.c_proj --> + y --> x
 *
 *   x --ln_f--> MatMul with the transposed table of words --> logits (B,S,V)
 *
 * The linear layers of the decoder are pruned. Sizes: layers hidden heads ffn vocab positions. */
#include "zoo/transformer.h"
#include <float.h>

typedef struct gpt2 {
    sp_zoo_transformer t;
    sp_value *three, *cubic, *root;
} gpt2;

static const char *join(gpt2 *m, const char *prefix, const char *rest)
{
    return sp_zoo_join(&m->t.b, prefix, rest);
}

/* ------------------------------------------------------------------ pieces */

static sp_value *linear(gpt2 *m, const char *path, const char *node, sp_value *x, int64_t in, int64_t out)
{
    return sp_zoo_linear(&m->t, path, node, x, in, out, false);
}

static sp_value *layer_norm(gpt2 *m, const char *path, const char *node, sp_value *x)
{
    return sp_zoo_layer_norm(&m->t.b, path, node, x, m->t.hidden, 1e-5f, SP_ZOO_DEVIATION);
}

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
static sp_value *gelu(gpt2 *m, const char *node, sp_value *x)
{
    sp_value *half = sp_zoo_binary(&m->t.b, SP_OP_Mul, join(m, node, "/Mul"), x, m->t.half);
    sp_value *y = sp_zoo_binary(&m->t.b, SP_OP_Pow, join(m, node, "/Pow"), x, m->three);
    y = sp_zoo_binary(&m->t.b, SP_OP_Mul, join(m, node, "/Mul_1"), y, m->cubic);
    y = sp_zoo_binary(&m->t.b, SP_OP_Add, join(m, node, "/Add"), x, y);
    y = sp_zoo_binary(&m->t.b, SP_OP_Mul, join(m, node, "/Mul_2"), y, m->root);
    y = sp_zoo_unary(&m->t.b, SP_OP_Tanh, join(m, node, "/Tanh"), y);
    y = sp_zoo_binary(&m->t.b, SP_OP_Add, join(m, node, "/Add_1"), y, m->t.one);
    return sp_zoo_binary(&m->t.b, SP_OP_Mul, join(m, node, "/Mul_3"), half, y);
}

/* (S,S): 0 on and below the diagonal, the lowest float above it. */
static sp_value *causal_mask(gpt2 *m, sp_value *ids)
{
    sp_zoo_builder *b = &m->t.b;
    float lowest = -FLT_MAX;
    const int64_t dim[1] = {1};
    sparta_tensor t = sparta_tensor_view(SPARTA_F32, 1, dim, &lowest);
    const sp_attr value = {.name = "value", .kind = SP_ATTR_TENSOR, .tensor = &t};
    sp_value *size = sp_zoo_unary(b, SP_OP_Shape, "/mask/Shape", ids);
    sp_value *last = sp_zoo_ints(b, "/mask/Constant", 1, (int64_t[]){1});
    size = sp_zoo_binary(b, SP_OP_Gather, "/mask/Gather", size, last);
    sp_value *twice[] = {size, size};
    sp_value *square = sp_zoo_node(b, SP_OP_Concat, "/mask/Concat", 2, twice, SP_ATTRS(SP_INT("axis", 0)));
    sp_value *in[2];
    in[0] =
        sp_zoo_node(b, SP_OP_ConstantOfShape, "/mask/ConstantOfShape", 1, &square, &(sp_attrs){1, &value});
    in[1] = sp_zoo_int(b, "/mask/Constant_1", 1);
    return sp_zoo_node(b, SP_OP_Trilu, "/mask/Trilu", 2, in, SP_ATTRS(SP_INT("upper", 1)));
}

/* ------------------------------------------------------------------ a layer */

static sp_value *attention(gpt2 *m, const char *path, const char *node, sp_value *x)
{
    const int64_t h = m->t.hidden;
    sp_value *part[3];
    x = linear(m, join(m, path, ".c_attn"), join(m, node, "/c_attn"), x, h, 3 * h);
    sp_zoo_split(&m->t.b, join(m, node, "/Split"), x, 2, 3, part);
    x = sp_zoo_attend(&m->t, node, part[0], part[1], part[2]);
    return linear(m, join(m, path, ".c_proj"), join(m, node, "/c_proj"), x, h, h);
}

static sp_value *layer(gpt2 *m, int i, sp_value *x)
{
    const int64_t h = m->t.hidden, f = m->t.ffn;
    const char *path = sp_zoo_numbered(&m->t.b, "h.", i, ""), *node = sp_zoo_numbered(&m->t.b, "/h.", i, "");
    sp_value *y = layer_norm(m, join(m, path, ".ln_1"), join(m, node, "/ln_1"), x);
    y = attention(m, join(m, path, ".attn"), join(m, node, "/attn"), y);
    y = sp_zoo_binary(&m->t.b, SP_OP_Add, join(m, node, "/Add"), y, x);
    sp_value *z = layer_norm(m, join(m, path, ".ln_2"), join(m, node, "/ln_2"), y);
    z = linear(m, join(m, path, ".mlp.c_fc"), join(m, node, "/mlp/c_fc"), z, h, f);
    z = gelu(m, join(m, node, "/mlp/act"), z);
    z = linear(m, join(m, path, ".mlp.c_proj"), join(m, node, "/mlp/c_proj"), z, f, h);
    return sp_zoo_binary(&m->t.b, SP_OP_Add, join(m, node, "/Add_1"), y, z);
}

/* ------------------------------------------------------------------ the model */

static sp_value *head(gpt2 *m, sp_value *table, sp_value *x)
{
    static const int64_t swap[] = {1, 0};
    x = layer_norm(m, "ln_f", "/ln_f", x);
    return sp_zoo_binary(&m->t.b, SP_OP_MatMul, "/lm_head/MatMul", x,
                         sp_zoo_transpose(&m->t.b, "/lm_head/Transpose", table, 2, swap));
}

sparta_status sp_zoo_gpt2_small(sp_graph *g, const sp_zoo_request *r)
{
    gpt2 m = {.t = {12, 768, 12, 3072, 50257, 1024, .groups = 0}};
    sp_zoo_transformer *s = &m.t;
    sp_zoo_builder *b = &s->b;
    SP_TRY(sp_zoo_transformer_begin(s, g, r, &s->vocab));
    sp_zoo_transformer_constants(s);
    m.three = sp_zoo_float(b, "/Constant_three", 3);
    m.cubic = sp_zoo_float(b, "/Constant_cubic", 0.044715f);
    m.root = sp_zoo_float(b, "/Constant_root", 0.79788456080286535588f); /* sqrt(2/pi) */
    s->mask = causal_mask(&m, s->ids);
    sp_value *words = sp_zoo_matrix(b, "wte.weight", s->vocab, s->hidden, SP_ZOO_DEVIATION);
    sp_value *places = sp_zoo_matrix(b, "wpe.weight", s->positions, s->hidden, SP_ZOO_DEVIATION);
    sp_value *at = sp_zoo_positions(b, "position_ids", "/positions", s->positions, s->ids);
    sp_value *x = sp_zoo_binary(b, SP_OP_Gather, "/wte/Gather", words, s->ids);
    x = sp_zoo_binary(b, SP_OP_Add, "/Add", x, sp_zoo_binary(b, SP_OP_Gather, "/wpe/Gather", places, at));
    for (int i = 0; i < s->layers && !b->status; i++) x = layer(&m, i, x);
    sp_zoo_output(b, head(&m, words, x), "logits", 3, s->dim);
    return b->status;
}
