/* zoo: models made in C with seeded weights, for demos, tests and benchmarks.
 *
 * Each row of zoo.def is a model: its graph is built as PyTorch's exporter would write it (decomposed
 * attention, Gelu as its Erf pieces, LayerNormalization as an operator), symbolic batch and sequence, weights
 * from a seed. Names follow the usual ones ("encoder.layer.0.attention.self.query.weight"). Pruning, when asked for, is applied to the linear layers
 * of the encoder (of the MLP), not to embeddings or heads; of convolutional networks (weights named as torchvision's, "layer3.0.conv3.weight")
 * to the filters, seen as (out, in*height*width), but not to the first nor to depthwise ones.
 */
#ifndef SP_ZOO_H
#define SP_ZOO_H

#include "graph/graph.h"
#include "prune/prune.h"

typedef struct sp_zoo_request {
    const char *name; /* row of zoo.def */
    uint64_t seed;
    const sp_prune_spec *prune; /* NULL: dense */
    sp_bindings dims;           /* overrides: layers, hidden, vocab, ... as the model documents */
} sp_zoo_request;

typedef struct sp_zoo_model {
    const char *name, *what;
    sparta_status (*build)(sp_graph *g, const sp_zoo_request *r);
    int64_t parameters; /* of the default sizes */
} sp_zoo_model;

int sp_zoo_count(void);
const sp_zoo_model *sp_zoo_row(int i);
sparta_status sp_zoo_build(sparta_ctx *cx, const sp_zoo_request *r, sp_graph **out) SP_MUST;

#endif
