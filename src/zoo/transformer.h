/* What the transformers of the zoo share: their sizes and inputs, linear layers, and attention as exporters decompose it. */
#ifndef SP_ZOO_TRANSFORMER_H
#define SP_ZOO_TRANSFORMER_H

#include "zoo/build.h"

typedef struct sp_zoo_transformer {
    /* The defaults, which the request may override; groups is 0 where a family has none. */
    int64_t layers, hidden, heads, ffn, vocab, positions, groups;
    bool cached; /* tokens follow `past` others, whose keys and values come in */
    sp_zoo_builder b;
    const sp_expr *dim[3]; /* batch, sequence, the columns of the output */
    sp_value *ids;         /* input_ids (batch, sequence) */
    sp_value *mask;        /* added to the scores; the family makes it */
    /* Constants that every layer shares. */
    sp_value *one, *half, *scale, *to_heads, *from_heads;
} sp_zoo_transformer;

/* Sizes, overridden and checked: heads divide hidden. The output has as many columns as *columns, one of them, says then. */
sparta_status sp_zoo_transformer_begin(sp_zoo_transformer *m, sp_graph *g, const sp_zoo_request *r,
                                       const int64_t *columns) SP_MUST;
/* The constants, before the first layer that attends. */
void sp_zoo_transformer_constants(sp_zoo_transformer *m);
/* MatMul with a weight (in, out), then the bias: what exporters make of torch.nn.Linear on three dimensions, with the bias in front, and of
 * GPT-2's Conv1D. */
sp_value *sp_zoo_linear(sp_zoo_transformer *m, const char *path, const char *node, sp_value *x, int64_t in,
                        int64_t out, bool bias_first);
/* q, k, v (B,S,H) --> (B,A,S,H/A) --MatMul--> / sqrt(H/A) + mask --> Softmax --MatMul--> (B,S,H) */
sp_value *sp_zoo_attend(sp_zoo_transformer *m, const char *node, sp_value *q, sp_value *k, sp_value *v);

#define SP_ZOO_DEVIATION 0.02f /* of weights and biases */

#endif
