/* write_opset.c: the lowest opset, from 21 on, that has every operator and type of a graph, and the IR version that goes with
 * it. Most runtimes are behind ONNX's newest: a file asks for no more than it needs. */
#include "builtin/epilogue.h"
#include "import/write.h"

/* Attributes and inputs of operators that came after opset 21. */
static const struct {
    sp_op_id op;
    int opset;
    const char *attribute;
    int input; /* where it is not 0, and the node has it */
} later[] = {
    {SP_OP_OnnxAttention, 24, NULL, 6}, /* nonpad_kv_seqlen */
    {SP_OP_QuantizeLinear, 23, "precision", 0}, {SP_OP_DequantizeLinear, 23, "output_dtype", 0},
    {SP_OP_MaxPool, 22, "ceil_mode", 0}, /* before, a last window that starts in the padding counted */
    {SP_OP_AveragePool, 22, "ceil_mode", 0},
};

/* Operators of images that take bf16 since 22. */
static bool bf16_since_22(sp_op_id op)
{
    return SP_OP_AMONG(op, SP_OP_Conv, SP_OP_ConvTranspose, SP_OP_MaxPool, SP_OP_AveragePool, SP_OP_LpPool,
                       SP_OP_GlobalMaxPool, SP_OP_GlobalAveragePool, SP_OP_GlobalLpPool,
                       SP_OP_InstanceNormalization, SP_OP_HardSwish, SP_OP_HardSigmoid, SP_OP_Softplus,
                       SP_OP_Softsign, SP_OP_Elu, SP_OP_Selu, SP_OP_Mish);
}

static int of_node(const sp_node *n)
{
    int opset = SP_MAX(SP_OPSET_WRITTEN, sp_builtin_row(n->op)->since);
    for (size_t i = 0; i < SP_COUNT(later); i++) {
        if (later[i].op != n->op || later[i].opset < opset) continue;
        if (later[i].attribute && !sp_attr_find(&n->attrs, later[i].attribute)) continue;
        if (later[i].input && (later[i].input >= n->n_in || !n->in[later[i].input])) continue;
        opset = later[i].opset;
    }
    /* A scale may have another type than x since 23. */
    if (n->op == SP_OP_QuantizeLinear && n->in[0]->typed && n->in[1]->typed &&
        n->in[0]->dtype != n->in[1]->dtype && n->in[0]->dtype != SPARTA_I32)
        opset = SP_MAX(opset, 23);
    if (n->op == SP_OP_TopK && n->in[0]->typed && n->in[0]->dtype == SPARTA_BF16) opset = SP_MAX(opset, 24);
    sp_words words = {0};
    if (n->op == SP_OP_Linear &&
        !sp_words_of(&n->attrs, n->n_in > 2 && n->in[2], n->n_in > 3 && n->in[3], &words))
        for (int i = 0; i < words.n; i++)
            opset = SP_MAX(opset, sp_builtin_row(sp_word_row(words.word[i])->op)->since);
    if (bf16_since_22(n->op) && n->in[0]->typed && n->in[0]->dtype == SPARTA_BF16) opset = SP_MAX(opset, 22);
    return opset;
}

static int of_type(const sp_value *v)
{
    return v && v->typed && sp_dtype_bits(v->dtype) == 2 ? 25 : SP_OPSET_WRITTEN;
}

sp_onnx_versions sp_onnx_versions_of(const sp_graph *g)
{
    int opset = SP_OPSET_WRITTEN;
    for (int i = 0; i < g->n_nodes; i++) {
        const sp_node *n = g->node[i];
        opset = SP_MAX(opset, of_node(n));
        for (int k = 0; k < n->n_in; k++) opset = SP_MAX(opset, of_type(n->in[k]));
        for (int k = 0; k < n->n_out; k++) opset = SP_MAX(opset, of_type(n->out[k]));
    }
    for (int i = 0; i < g->n_outputs; i++) opset = SP_MAX(opset, of_type(g->output[i]));
    /* IR 10 came with opset 21, and each of the opsets 23, 24 and 25 with one more. */
    return (sp_onnx_versions){opset, opset < 23 ? SP_IR_WRITTEN : SP_IR_WRITTEN + opset - 22};
}
