/* contrib.c: operators of onnxruntime's own domain, com.microsoft, that its optimisers and quantisers write, as those of ONNX that they stand for:
 *
 *     Gelu, BiasGelu, FastGelu, QuickGelu      [Add,] Gelu or Swish
 *     SkipLayerNormalization                   Add, [Add,] LayerNormalization; the simplified form RMSNormalization
 *     EmbedLayerNormalization                  Gather of each table, Add, LayerNormalization
 *     FusedMatMul                              [Transpose,] MatMul, [Mul]
 *     FusedGemm, FusedConv                     Gemm or Conv, [Add,] an activation
 *     QuantizeLinear, DequantizeLinear         the same
 */
#include "import/parts.h"
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ activations */

static void gelu_of(sp_parts *p, const char *approximate)
{
    sp_value *x = p->in[1] ? PART(p, Add, p->in[0], p->in[1]) : p->in[0];
    RESULT_WITH(p, 0, Gelu, SP_ATTRS(SP_STRING("approximate", approximate)), x);
}

static void gelu(sp_parts *p)
{
    gelu_of(p, "none");
}

static void fast_gelu(sp_parts *p)
{
    gelu_of(p, "tanh");
}

static void quick_gelu(sp_parts *p)
{
    const float alpha = sp_part_float(p, "alpha", 1.702f);
    RESULT_WITH(p, 0, Swish, SP_ATTRS(SP_FLOAT("alpha", alpha)), p->in[0]);
}

/* ------------------------------------------------------------------ normalisations */

/* The statistics are for training; the sum that is normalised may be an output too, the last of them. */
static sp_value *normalised_sum(sp_parts *p, sp_value *bias)
{
    if (p->out[1] || p->out[2])
        return sp_part_refuse(p, "its mean and deviation are outputs, as in training");
    sp_value *sum = bias ? PART(p, Add, p->in[0], bias) : p->in[0];
    return sp_part(p, p->out[3], SP_OP_Add, NULL, 2, (sp_value *[]){sum, p->in[1]});
}

/* input, skip, gamma, beta, bias */
static void skip_layer_normalization(sp_parts *p)
{
    const float epsilon = sp_part_float(p, "epsilon", 1e-12f);
    sp_value *sum = normalised_sum(p, p->in[4]);
    RESULT_WITH(p, 0, LayerNormalization, SP_ATTRS(SP_INT("axis", -1), SP_FLOAT("epsilon", epsilon)), sum,
                p->in[2], p->in[3]);
}

/* input, skip, gamma, bias */
static void skip_simplified(sp_parts *p)
{
    const float epsilon = sp_part_float(p, "epsilon", 1e-12f);
    sp_value *sum = normalised_sum(p, p->in[3]);
    RESULT_WITH(p, 0, RMSNormalization, SP_ATTRS(SP_INT("axis", -1), SP_FLOAT("epsilon", epsilon)), sum,
                p->in[2]);
}

/* onnxruntime writes it into ONNX's own domain. */
static void simplified(sp_parts *p)
{
    const float epsilon = sp_part_float(p, "epsilon", 1e-5f);
    const int64_t axis = sp_part_int(p, "axis", -1);
    sp_part_int(p, "stash_type", 1);
    RESULT_WITH(p, 0, RMSNormalization, SP_ATTRS(SP_INT("axis", axis), SP_FLOAT("epsilon", epsilon)),
                p->in[0], p->in[1]);
}

enum { IDS, SEGMENTS, WORDS, POSITIONS, SEGMENT_WORDS, GAMMA, BETA, MASK, POSITION_IDS };

/* The rows of the places 0, 1, ... or of those given. */
static sp_value *positions(sp_parts *p)
{
    if (p->in[POSITION_IDS]) return PART(p, Gather, p->in[POSITIONS], p->in[POSITION_IDS]);
    sp_value *zero = sp_part_ints(p, 1, (int64_t[]){0}),
             *length = PART_WITH(p, Shape, SP_ATTRS(SP_INT("start", 1), SP_INT("end", 2)), p->in[IDS]);
    return PART(p, Slice, p->in[POSITIONS], zero, length, zero);
}

/* Output 1 counts the tokens of each sentence that are no padding, all zeros where there is no mask. */
static void count_tokens(sp_parts *p)
{
    sp_value *last = sp_part_ints(p, 1, (int64_t[]){1});
    sp_value *mask = p->in[MASK] ? p->in[MASK] : PART(p, Sub, p->in[IDS], p->in[IDS]);
    sp_value *i32 = sp_part_cast(p, mask, SPARTA_I32);
    sp_part(p, p->out[1], SP_OP_ReduceSum, SP_ATTRS(SP_INT("keepdims", 0)), 2, (sp_value *[]){i32, last});
}

static void embed_layer_normalization(sp_parts *p)
{
    const float epsilon = sp_part_float(p, "epsilon", 1e-12f);
    sp_part_int(p, "mask_index_type", 0);
    if (!p->in[WORDS] || !p->in[POSITIONS] || !p->in[GAMMA] || !p->in[BETA] ||
        !p->in[SEGMENTS] != !p->in[SEGMENT_WORDS]) {
        sp_part_refuse(p, "a table, gamma or beta is missing");
        return;
    }
    sp_value *sum = PART(p, Gather, p->in[WORDS], p->in[IDS]), *segment = NULL;
    if (p->in[SEGMENTS]) segment = PART(p, Gather, p->in[SEGMENT_WORDS], p->in[SEGMENTS]);
    sp_value *place = positions(p);
    if (segment) sum = PART(p, Add, sum, place);
    sum = sp_part(p, p->out[2], SP_OP_Add, NULL, 2, (sp_value *[]){sum, segment ? segment : place});
    RESULT_WITH(p, 0, LayerNormalization, SP_ATTRS(SP_INT("axis", -1), SP_FLOAT("epsilon", epsilon)), sum,
                p->in[GAMMA], p->in[BETA]);
    if (p->out[1]) count_tokens(p);
}

/* ------------------------------------------------------------------ products */

/* The last two dims in turn, by Einsum where the file does not let it be known how many there are. */
static sp_value *swapped(sp_parts *p, sp_value *v)
{
    int64_t perm[SPARTA_RANK];
    const int rank = sp_part_rank(v);
    if (rank < 0) return PART_WITH(p, Einsum, SP_ATTRS(SP_STRING("equation", "...ij->...ji")), v);
    if (rank < 2 || rank > SPARTA_RANK)
        return sp_part_refuse(p, "a factor that it transposes has no two dims");
    for (int i = 0; i < rank; i++) perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return PART_WITH(p, Transpose, SP_ATTRS(SP_INTS("perm", rank, perm)), v);
}

static void fused_matmul(sp_parts *p)
{
    const float alpha = sp_part_float(p, "alpha", 1);
    const int64_t a = sp_part_int(p, "transA", 0), b = sp_part_int(p, "transB", 0);
    if (sp_part_int(p, "transBatchA", 0) || sp_part_int(p, "transBatchB", 0)) {
        sp_part_refuse(p, "it transposes the batch too");
        return;
    }
    sp_value *in[] = {a ? swapped(p, p->in[0]) : p->in[0], b ? swapped(p, p->in[1]) : p->in[1]};
    if (alpha == 1) {
        RESULT(p, 0, MatMul, in[0], in[1]);
        return;
    }
    /* Of the type that the factors have, which is not known yet where both are computed. */
    sp_value *scale = sp_part_number(p, SPARTA_F32, alpha);
    const sp_value *typed = p->in[0]->typed ? p->in[0] : p->in[1]->typed ? p->in[1] : NULL;
    if (!typed)
        scale = PART(p, CastLike, scale, p->in[0]);
    else if (typed->dtype != SPARTA_F32)
        scale = sp_part_number(p, typed->dtype, alpha);
    RESULT(p, 0, Mul, PART(p, MatMul, in[0], in[1]), scale);
}

/* onnxruntime writes all parameters of an activation; one that is not there has no default. */
static bool there(sp_parts *p, int n, const float *by)
{
    for (int i = 0; i < n; i++)
        if (isnan(by[i])) return sp_part_refuse(p, "a parameter of its activation is missing");
    return true;
}

/* The activation that a product of onnxruntime has within, of its parameters as that writes them; NAN: missing. */
static void activated(sp_parts *p, const char *word, const float *by, sp_value *x)
{
    static const struct {
        const char *word;
        sp_op_id op;
        int n; /* parameters */
    } known[] = {{"Relu", SP_OP_Relu, 0},       {"Tanh", SP_OP_Tanh, 0},
                 {"Sigmoid", SP_OP_Sigmoid, 0}, {"LeakyRelu", SP_OP_LeakyRelu, 1},
                 {"Elu", SP_OP_Elu, 1},         {"HardSigmoid", SP_OP_HardSigmoid, 2},
                 {"", SP_OP_Identity, 0},       {"Softplus", SP_OP_Softplus, 0}};
    if (!strcmp(word, "Clip")) {
        if (!there(p, 2, by)) return;
        RESULT(p, 0, Clip, x, sp_part_number(p, SPARTA_F32, by[0]), sp_part_number(p, SPARTA_F32, by[1]));
        return;
    }
    for (size_t i = 0; i < SP_COUNT(known); i++) {
        if (strcmp(known[i].word, word) != 0) continue;
        if (!there(p, known[i].n, by)) return;
        const sp_attr attr[] = {SP_FLOAT("alpha", by[0]), SP_FLOAT("beta", by[1])};
        sp_part(p, p->out[0], known[i].op, &(sp_attrs){known[i].n, attr}, 1, &x);
        return;
    }
    sp_part_refuse(p, "its activation is not supported; Relu, Tanh, Sigmoid, LeakyRelu, Elu, HardSigmoid, "
                      "Softplus and Clip are");
}

static void fused_gemm(sp_parts *p)
{
    const char *word = sp_part_word(p, "activation", "");
    const float by[] = {sp_part_float(p, "activation_alpha", NAN), sp_part_float(p, "activation_beta", NAN)};
    sp_part_float(p, "activation_gamma", NAN);
    const sp_attrs attrs = {p->n->n_attr, p->n->attr};
    activated(p, word, by, PART_WITH(p, Gemm, &attrs, p->in[0], p->in[1], p->in[2]));
    p->n->n_attr = 0;
}

/* x, w, bias, and what is added to the sums */
static void fused_conv(sp_parts *p)
{
    const char *word = sp_part_word(p, "activation", "");
    float by[2];
    sp_part_floats(p, "activation_params", 2, by);
    const sp_attrs attrs = {p->n->n_attr, p->n->attr};
    sp_value *sums = PART_WITH(p, Conv, &attrs, p->in[0], p->in[1], p->in[2]);
    activated(p, word, by, p->in[3] ? PART(p, Add, sums, p->in[3]) : sums);
    p->n->n_attr = 0;
}

/* They had 16 and 4 bits before those of ONNX: quantize_static(extra_options={"UseQDQContribOps": True}). */
static void as_in_onnx(sp_parts *p)
{
    const sp_attrs attrs = {p->n->n_attr, p->n->attr};
    const sp_op_id op = *p->n->op == 'Q' ? SP_OP_QuantizeLinear : SP_OP_DequantizeLinear;
    sp_part(p, p->out[0], op, &attrs, 3, p->in);
    p->n->n_attr = 0;
}

const sp_part_row sp_contrib_rows[] = {
    {"com.microsoft", "Gelu", 1, 1, 1, gelu, "Gelu"},
    {"com.microsoft", "BiasGelu", 2, 2, 1, gelu, "Add, Gelu"},
    {"com.microsoft", "FastGelu", 1, 2, 1, fast_gelu, "Add, Gelu of tanh"},
    {"com.microsoft", "QuickGelu", 1, 1, 1, quick_gelu, "Swish"},
    {"com.microsoft", "SkipLayerNormalization", 3, 5, 4, skip_layer_normalization, "Add, LayerNormalization"},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 3, 4, 4, skip_simplified, "Add, RMSNormalization"},
    {"", "SimplifiedLayerNormalization", 2, 2, 1, simplified, "RMSNormalization"},
    {"com.microsoft", "EmbedLayerNormalization", 1, 9, 3, embed_layer_normalization,
     "Gather, Add, LayerNormalization"},
    {"com.microsoft", "FusedMatMul", 2, 2, 1, fused_matmul, "Transpose, MatMul, Mul"},
    {"com.microsoft", "FusedGemm", 2, 3, 1, fused_gemm, "Gemm, an activation"},
    {"com.microsoft", "FusedConv", 2, 4, 1, fused_conv, "Conv, Add, an activation"},
    {"com.microsoft", "QuantizeLinear", 2, 3, 1, as_in_onnx, "QuantizeLinear"},
    {"com.microsoft", "DequantizeLinear", 2, 3, 1, as_in_onnx, "DequantizeLinear"},
};
const int sp_contrib_n_rows = (int)SP_COUNT(sp_contrib_rows);
