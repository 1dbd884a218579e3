/* zoo: models made in C with seeded weights, for demos, tests and benchmarks.
 *
 * Each row of zoo.def is a model: its graph is built as PyTorch's exporter would write it (decomposed
 * attention, Gelu as its Erf pieces, LayerNormalization as an operator), symbolic batch and sequence, weights
 * from a seed. Names follow the usual ones ("encoder.layer.0.attention.self.query.weight"). Pruning, when asked for, is applied to the linear layers
 * of the encoder (of the MLP), not to embeddings or heads; of convolutional networks (weights named as torchvision's, "layer3.0.conv3.weight")
 * to the filters, seen as (out, in*height*width), but not to the first nor to depthwise ones.
 */
#ifndef SPARTA_ZOO_H
#define SPARTA_ZOO_H

#include "graph/graph.h"
#include "prune/prune.h"

typedef struct sparta_zoo_request {
    const char *name; /* row of zoo.def */
    uint64_t seed;
    const sparta_prune_spec *prune; /* NULL: dense */
    sparta_bindings dims;           /* overrides: layers, hidden, vocab, ... as the model documents */
} sparta_zoo_request;

typedef struct sparta_zoo_model {
    const char *name, *what;
    sparta_status (*build)(sparta_graph *g, const sparta_zoo_request *r);
    int64_t parameters; /* of the default sizes */
} sparta_zoo_model;

int sparta_zoo_count(void);
const sparta_zoo_model *sparta_zoo_row(int i);
sparta_status sparta_zoo_build(sparta_ctx *cx, const sparta_zoo_request *r, sparta_graph **out) SPARTA_MUST;

#endif
