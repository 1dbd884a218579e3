/* hint.c: the operators of a file that are not supported, all of them at once, and what the reader can do about it. What a loop is for, where
 * its body shows it, is told apart, so that the advice fits. */
#include "import/parts.h"
#include <string.h>

enum { ATTRIBUTE_G = 6, LOOKS_UP = 1, REDUCES = 2, COMPUTES = 4 };

/* A bag looks rows up and reduces them, and does nothing else but move them. */
static int what_it_does(const char *op)
{
    static const char *const moves[] = {"Cast",      "CastLike", "Constant", "Slice",   "Squeeze",
                                        "Unsqueeze", "Reshape",  "Concat",   "Identity"};
    if (!strcmp(op, "Gather")) return LOOKS_UP;
    if (!strcmp(op, "ReduceSum") || !strcmp(op, "ReduceMean") || !strcmp(op, "ReduceMax")) return REDUCES;
    for (size_t i = 0; i < SP_COUNT(moves); i++)
        if (!strcmp(op, moves[i])) return 0;
    return COMPUTES;
}

/* Call `look` with every message of one field; what is malformed is somebody else's to say. */
static int each(sp_importer *im, const char *what, sp_bytes of, uint32_t field,
                int (*look)(sp_importer *, sp_bytes))
{
    sp_wire w = sp_wire_of(im->cx, what, of);
    sp_wire_field f;
    sp_bytes bytes;
    int found = 0;
    while (sp_wire_find(&w, field, &f) == SPARTA_OK && f.number && sp_wire_bytes(&w, &f, &bytes) == SPARTA_OK)
        found |= look(im, bytes);
    return found;
}

static int in_node(sp_importer *im, sp_bytes node)
{
    sp_wire w = sp_wire_of(im->cx, "NodeProto", node);
    sp_wire_field f;
    const char *op = "";
    if (sp_wire_find(&w, NODE_OP, &f) != SPARTA_OK || !f.number) return 0;
    return sp_wire_string(&w, &f, im->scratch, &op) == SPARTA_OK ? what_it_does(op) : 0;
}

static int in_graph(sp_importer *im, sp_bytes graph)
{
    return each(im, "GraphProto", graph, GRAPH_NODE, in_node);
}

static int in_attribute(sp_importer *im, sp_bytes attribute)
{
    return each(im, "AttributeProto", attribute, ATTRIBUTE_G, in_graph);
}

static bool is_bag(sp_importer *im, sp_bytes node)
{
    return each(im, "NodeProto", node, NODE_ATTRIBUTE, in_attribute) == (LOOKS_UP | REDUCES);
}

/* ------------------------------------------------------------------ advice */

static bool is_default(const char *domain)
{
    return !*domain || !strcmp(domain, "ai.onnx");
}

#define BAG                                                                                                  \
    "it looks like nn.EmbeddingBag: nn.Embedding with the same weight, and .sum(1) over the ids of a bag "   \
    "(.mean(1) or .amax(1), as its mode says), computes the same without a loop"
#define FLOW                                                                                                 \
    "export the model without control flow: a trace with fixed choices, or the part between such nodes"
#define QDQ                                                                                                  \
    "quantize it with onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ), or give " \
    "the file that this wrote from before onnxruntime optimised it"
#define BEFORE "onnxruntime's optimisers write it: give the file from before they ran"
#define EXPORTED                                                                                             \
    "onnxruntime.transformers or onnxruntime-genai wrote it: give the file from before, or export the "      \
    "model with torch.onnx.export"

/* The first row that fits counts; * stands for any words. An operator that no tool is known to write has none. */
static const struct advice {
    const char *domain, *op, *says;
} table[] = {
    {"", "If", FLOW},
    {"", "Loop", FLOW},
    {"", "Scan", FLOW},
    {"", "Sequence*", "export the model with plain tensors only"},
    {"", "Optional*", "export the model with plain tensors only"},
    {"*", "QLinear*", QDQ},
    {"*", "QGemm", QDQ},
    {"com.microsoft", "QAttention",
     "it is quantised from an Attention that onnxruntime's optimisers wrote: quantize the file from before "
     "they ran"},
    {"com.microsoft", "MatMulNBits",
     "its weight is quantised by blocks: with quant_format=QuantFormat.QDQ, onnxruntime's "
     "MatMulNBitsQuantizer writes what is read"},
    {"com.microsoft.nchwc", "*",
     "onnxruntime wrote it for one machine: give the file from before, or optimise that with "
     "SessionOptions.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED"},
    {"com.microsoft", "MultiHeadAttention", EXPORTED},
    {"com.microsoft", "GroupQueryAttention", EXPORTED},
    {"com.microsoft", "RotaryEmbedding", EXPORTED},
    {"com.microsoft", "Attention", BEFORE},
    {"com.microsoft", "Packed*", BEFORE},
    {"com.microsoft", "BiasAdd", BEFORE},
    {"com.microsoft", "BiasSoftmax", BEFORE},
    {"com.microsoft", "BiasSplitGelu", BEFORE},
    {"com.microsoft", "GemmFastGelu", BEFORE},
    {"com.microsoft", "*GroupNorm", BEFORE},
    {"com.microsoft", "*RelativePositionBias", BEFORE},
    {"com.microsoft", "Nhwc*", BEFORE},
    {"com.microsoft", "FusedMatMulActivation", BEFORE},
    {"com.microsoft", "QOrdered*", BEFORE},
};

/* NULL: nothing that fits this operator alone. */
static const char *what_helps(sp_importer *im, const sp_onnx_node *n, sp_bytes bytes)
{
    if (is_default(n->domain) && !strcmp(n->op, "Loop") && is_bag(im, bytes))
        return BAG; /* as PyTorch's older exporter writes it, whatever the bags */
    for (size_t i = 0; i < SP_COUNT(table); i++)
        if (sp_glob(table[i].domain, is_default(n->domain) ? "" : n->domain) && sp_glob(table[i].op, n->op))
            return table[i].says;
    return NULL;
}

/* ------------------------------------------------------------------ all of a file */

enum { TOLD = 20 }; /* operators in a message */

typedef struct sp_onnx_missing {
    sp_map *seen;
    sp_text list;
    int n;
    const char *op, *domain, *node; /* of the first */
    const char *helps, *helped;     /* of the first that has advice of its own, and which that is */
    bool one_helps_all;             /* none has other advice, or none */
} missing;

static sparta_status add_missing(sp_importer *im, missing *m, const sp_onnx_node *n, sp_bytes bytes)
{
    const char *domain = is_default(n->domain) ? "" : n->domain;
    const char *full = sp_arena_printf(im->keep, "%.100s%s%.100s", domain, *domain ? "." : "", n->op);
    SP_NEED(im->cx, full);
    const char *helps = what_helps(im, n, bytes);
    m->one_helps_all &= m->n ? helps == m->helps : true;
    if (!m->helps && (m->helps = helps)) m->helped = full;
    if (sp_map_get(m->seen, full, NULL)) return SPARTA_OK;
    SP_TRY(sp_map_put(m->seen, full, 1));
    if (m->n < TOLD) sp_text_printf(&m->list, "%s%s", m->n ? ", " : "", full);
    if (m->n++) return m->list.status;
    m->op = sp_arena_string(im->keep, n->op);
    m->domain = sp_arena_string(im->keep, *domain ? domain : "ai.onnx");
    m->node = sp_arena_string(im->keep, n->name);
    return m->op && m->domain && m->node ? SPARTA_OK : sp_ctx_status(im->cx);
}

sparta_status sp_onnx_look_at(sp_importer *im, const sp_onnx_node *n, sp_bytes bytes)
{
    if (is_default(n->domain) && sp_builtin_find("", n->op)) return SPARTA_OK;
    return sp_part_find(n->domain, n->op) ? SPARTA_OK : add_missing(im, im->missing, n, bytes);
}

static sparta_status refuse(sp_importer *im, const missing *m)
{
    const char *helps =
        m->helps ? m->helps
                 : "docs/operators.md lists what is; the part between such nodes is cut out in Python by "
                   "onnx.utils.extract_model(FILE, \"part.onnx\", [INPUTS], [OUTPUTS])";
    if (m->n == 1)
        return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                       "node '%.200s': operator %.100s of domain '%.100s' is not supported; %s", m->node,
                       m->op, m->domain, helps);
    const char *of =
        m->helps && !m->one_helps_all ? sp_arena_printf(im->scratch, "of %.200s alone: ", m->helped) : "";
    SP_NEED(im->cx, of);
    return sp_fail(im->cx, SPARTA_E_UNSUPPORTED,
                   "these operators are not supported: %s%s (the first is node '%.200s'); %s%s",
                   sp_text_str(&m->list), m->n > TOLD ? " and more" : "", m->node, of, helps);
}

sparta_status sp_onnx_check_operators(sp_importer *im, sp_bytes graph,
                                      sparta_status (*each_node)(sp_importer *, sp_bytes))
{
    missing m = {.seen = sp_map_create(im->cx), .one_helps_all = true};
    SP_NEED(im->cx, m.seen);
    sp_text_init(&m.list, im->cx);
    im->missing = &m;
    sparta_status s = each_node(im, graph);
    im->missing = NULL;
    if (s == SPARTA_OK) s = m.list.status;
    if (s == SPARTA_OK && m.n) s = refuse(im, &m);
    sp_text_free(&m.list);
    sp_map_free(m.seen);
    return s;
}
