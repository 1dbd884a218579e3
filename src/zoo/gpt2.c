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
#include "zoo/build.h"
#include <float.h>
#include <math.h>
#include <stdio.h>

typedef struct gpt2 {
    sp_zoo_builder b;
    sp_zoo_transformer s;
    /* What every layer shares. */
    sp_value *mask, *scale, *one, *half, *three, *cubic, *root, *to_heads, *from_heads;
} gpt2;

static const float deviation = 0.02f;

static const char *join(gpt2 *m, const char *prefix, const char *rest)
{
    return sp_zoo_join(&m->b, prefix, rest);
}

/* ------------------------------------------------------------------ pieces */

/* Its Conv1D: MatMul with a weight (in, out), then the bias. */
static sp_value *linear(gpt2 *m, const char *path, const char *node, sp_value *x, int64_t in, int64_t out)
{
    sp_value *y = sp_zoo_matmul(&m->b, path, node, x, in, out, deviation);
    sp_value *bias = sp_zoo_vector(&m->b, join(m, path, ".bias"), out, 0, deviation);
    return sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add"), y, bias);
}

static sp_value *layer_norm(gpt2 *m, const char *path, const char *node, sp_value *x)
{
    return sp_zoo_layer_norm(&m->b, path, node, x, m->s.hidden, 1e-5f, deviation);
}

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
static sp_value *gelu(gpt2 *m, const char *node, sp_value *x)
{
    sp_value *half = sp_zoo_binary(&m->b, SP_OP_Mul, join(m, node, "/Mul"), x, m->half);
    sp_value *y = sp_zoo_binary(&m->b, SP_OP_Pow, join(m, node, "/Pow"), x, m->three);
    y = sp_zoo_binary(&m->b, SP_OP_Mul, join(m, node, "/Mul_1"), y, m->cubic);
    y = sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add"), x, y);
    y = sp_zoo_binary(&m->b, SP_OP_Mul, join(m, node, "/Mul_2"), y, m->root);
    y = sp_zoo_unary(&m->b, SP_OP_Tanh, join(m, node, "/Tanh"), y);
    y = sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add_1"), y, m->one);
    return sp_zoo_binary(&m->b, SP_OP_Mul, join(m, node, "/Mul_3"), half, y);
}

/* (S,S): 0 on and below the diagonal, the lowest float above it. */
static sp_value *causal_mask(gpt2 *m, sp_value *ids)
{
    sp_zoo_builder *b = &m->b;
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

/* (B,S,H) -> heads in front, in the order that the products want */
static sp_value *heads(gpt2 *m, const char *node, sp_value *x, const int64_t perm[4])
{
    x = sp_zoo_binary(&m->b, SP_OP_Reshape, join(m, node, "/Reshape"), x, m->to_heads);
    return sp_zoo_transpose(&m->b, join(m, node, "/Transpose"), x, 4, perm);
}

static sp_value *attention(gpt2 *m, const char *path, const char *node, sp_value *x)
{
    static const int64_t bhsd[] = {0, 2, 1, 3}, bhds[] = {0, 2, 3, 1};
    const int64_t h = m->s.hidden;
    sp_zoo_builder *b = &m->b;
    sp_value *part[3];
    x = linear(m, join(m, path, ".c_attn"), join(m, node, "/c_attn"), x, h, 3 * h);
    sp_zoo_split(b, join(m, node, "/Split"), x, 2, 3, part);
    sp_value *q = heads(m, join(m, node, "/query"), part[0], bhsd);
    sp_value *k = heads(m, join(m, node, "/key"), part[1], bhds);
    sp_value *v = heads(m, join(m, node, "/value"), part[2], bhsd);
    sp_value *s = sp_zoo_binary(b, SP_OP_MatMul, join(m, node, "/MatMul"), q, k);
    s = sp_zoo_binary(b, SP_OP_Div, join(m, node, "/Div"), s, m->scale);
    s = sp_zoo_binary(b, SP_OP_Add, join(m, node, "/Add"), s, m->mask);
    s = sp_zoo_node(b, SP_OP_Softmax, join(m, node, "/Softmax"), 1, &s, SP_ATTRS(SP_INT("axis", -1)));
    s = sp_zoo_binary(b, SP_OP_MatMul, join(m, node, "/MatMul_1"), s, v);
    s = sp_zoo_transpose(b, join(m, node, "/Transpose"), s, 4, bhsd);
    s = sp_zoo_binary(b, SP_OP_Reshape, join(m, node, "/Reshape"), s, m->from_heads);
    return linear(m, join(m, path, ".c_proj"), join(m, node, "/c_proj"), s, h, h);
}

static sp_value *layer(gpt2 *m, int i, sp_value *x)
{
    const int64_t h = m->s.hidden, f = m->s.ffn;
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    const char *path = join(m, "h.", number), *node = join(m, "/h.", number);
    sp_value *y = layer_norm(m, join(m, path, ".ln_1"), join(m, node, "/ln_1"), x);
    y = attention(m, join(m, path, ".attn"), join(m, node, "/attn"), y);
    y = sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add"), y, x);
    sp_value *z = layer_norm(m, join(m, path, ".ln_2"), join(m, node, "/ln_2"), y);
    z = linear(m, join(m, path, ".mlp.c_fc"), join(m, node, "/mlp/c_fc"), z, h, f);
    z = gelu(m, join(m, node, "/mlp/act"), z);
    z = linear(m, join(m, path, ".mlp.c_proj"), join(m, node, "/mlp/c_proj"), z, f, h);
    return sp_zoo_binary(&m->b, SP_OP_Add, join(m, node, "/Add_1"), y, z);
}

/* ------------------------------------------------------------------ the model */

static void shared_constants(gpt2 *m)
{
    sp_zoo_builder *b = &m->b;
    const int64_t each = m->s.hidden / m->s.heads;
    m->one = sp_zoo_float(b, "/Constant_one", 1);
    m->half = sp_zoo_float(b, "/Constant_half", 0.5f);
    m->three = sp_zoo_float(b, "/Constant_three", 3);
    m->cubic = sp_zoo_float(b, "/Constant_cubic", 0.044715f);
    m->root = sp_zoo_float(b, "/Constant_root", 0.79788456080286535588f); /* sqrt(2/pi) */
    m->scale = sp_zoo_float(b, "/Constant_scale", sqrtf((float)each));
    m->to_heads = sp_zoo_ints(b, "/Constant_to_heads", 4, (int64_t[]){0, 0, m->s.heads, each});
    m->from_heads = sp_zoo_ints(b, "/Constant_from_heads", 3, (int64_t[]){0, 0, m->s.hidden});
}

static sp_value *head(gpt2 *m, sp_value *table, sp_value *x)
{
    static const int64_t swap[] = {1, 0};
    x = layer_norm(m, "ln_f", "/ln_f", x);
    return sp_zoo_binary(&m->b, SP_OP_MatMul, "/lm_head/MatMul", x,
                         sp_zoo_transpose(&m->b, "/lm_head/Transpose", table, 2, swap));
}

sparta_status sp_zoo_gpt2_small(sp_graph *g, const sp_zoo_request *r)
{
    sp_zoo_transformer s = {12, 768, 12, 3072, 50257, 1024, 0};
    SP_TRY(sp_zoo_transformer_sizes(g, r, &s));
    gpt2 m = {.b = {.g = g, .request = r}, .s = s};
    sp_zoo_builder *b = &m.b;
    const sp_expr *dim[3] = {sp_zoo_symbol(b, "batch"), sp_zoo_symbol(b, "sequence"),
                             sp_expr_const(g->arena, s.vocab)};
    SP_NEED(g->cx, dim[2]);
    sp_value *ids = sp_zoo_input(b, "input_ids", SPARTA_I64, 2, dim);
    shared_constants(&m);
    m.mask = causal_mask(&m, ids);
    sp_value *words = sp_zoo_matrix(b, "wte.weight", s.vocab, s.hidden, deviation);
    sp_value *places = sp_zoo_matrix(b, "wpe.weight", s.positions, s.hidden, deviation);
    sp_value *at = sp_zoo_positions(b, "position_ids", "/positions", s.positions, ids);
    sp_value *x = sp_zoo_binary(b, SP_OP_Gather, "/wte/Gather", words, ids);
    x = sp_zoo_binary(b, SP_OP_Add, "/Add", x, sp_zoo_binary(b, SP_OP_Gather, "/wpe/Gather", places, at));
    for (int i = 0; i < s.layers && !m.b.status; i++) x = layer(&m, i, x);
    sp_zoo_output(b, head(&m, words, x), "logits", 3, dim);
    return m.b.status;
}
