/* What the families of the zoo build with: each call appends a node or a constant and gives its value; after
 * a failure every later call does nothing and gives NULL, so that a model reads as a list of steps and looks
 * at the status once.
 *
 * Weights come from a generator of their own, seeded by (seed, name): a layer has the same bytes whatever
 * stands before it. */
#ifndef SPARTA_ZOO_BUILD_H
#define SPARTA_ZOO_BUILD_H

#include "zoo/zoo.h"

typedef struct sparta_zoo_builder {
    sparta_graph *g;
    const sparta_zoo_request *request;
    sparta_status status; /* sticky */
} sparta_zoo_builder;

/* A size that the request may override. */
typedef struct sparta_zoo_size {
    const char *name;
    int64_t *value; /* the default on entry; NULL: a symbol of the model, free unless the request fixes it */
} sparta_zoo_size;

/* Put the request's overrides into the sizes; a name that is not among them is E_USAGE. */
sparta_status sparta_zoo_sizes(sparta_graph *g, const sparta_zoo_request *r, const sparta_zoo_size *size,
                               int n) SPARTA_MUST;
/* The dimension of a symbol: its name, or the number that the request fixes it to. */
const sparta_expr *sparta_zoo_symbol(sparta_zoo_builder *b, const char *name);
sparta_value *sparta_zoo_input(sparta_zoo_builder *b, const char *name, sparta_dtype dtype, int rank,
                               const sparta_expr *const *dim);
void sparta_zoo_output(sparta_zoo_builder *b, sparta_value *v, const char *name, int rank,
                       const sparta_expr *const *dim);

sparta_value *sparta_zoo_ints(sparta_zoo_builder *b, const char *name, int n,
                              const int64_t *value);                                  /* i64[n] */
sparta_value *sparta_zoo_int(sparta_zoo_builder *b, const char *name, int64_t value); /* i64 scalar */
sparta_value *sparta_zoo_float(sparta_zoo_builder *b, const char *name, float value); /* f32 scalar */
/* Nearly normal numbers around `mean`; never exactly `mean`, so that a dense weight has no zeros. */
sparta_value *sparta_zoo_vector(sparta_zoo_builder *b, const char *name, int64_t n, float mean,
                                float deviation);
sparta_value *sparta_zoo_matrix(sparta_zoo_builder *b, const char *name, int64_t rows, int64_t cols,
                                float deviation);
/* A weight that the request prunes, seen as (out, in); stored (in, out) when `in_out`, as MatMul wants it. */
sparta_value *sparta_zoo_weight(sparta_zoo_builder *b, const char *name, int64_t out, int64_t in, bool in_out,
                                float deviation);

/* Filters of a convolution, dim (out, in, height, width); seen as (out, in*height*width) where the request prunes them. */
sparta_value *sparta_zoo_filters(sparta_zoo_builder *b, const char *name, const int64_t dim[4],
                                 float deviation, bool pruned);

/* A node with one output; the output's name is the node's with "_output_0", as PyTorch names them. */
sparta_value *sparta_zoo_node(sparta_zoo_builder *b, sparta_op_id op, const char *name, int n_in,
                              sparta_value *const *in, const sparta_attrs *attrs);
sparta_value *sparta_zoo_unary(sparta_zoo_builder *b, sparta_op_id op, const char *name, sparta_value *x);
sparta_value *sparta_zoo_binary(sparta_zoo_builder *b, sparta_op_id op, const char *name, sparta_value *x,
                                sparta_value *y);
sparta_value *sparta_zoo_transpose(sparta_zoo_builder *b, const char *name, sparta_value *x, int n,
                                   const int64_t *perm);

/* Equal parts along `axis`. */
void sparta_zoo_split(sparta_zoo_builder *b, const char *name, sparta_value *x, int64_t axis, int n,
                      sparta_value **out);
/* Positions 0 .. sequence-1 of ids (batch, sequence): a slice of the constant `name`, [1, most] -> [1, sequence]. Nodes are named
 * "<node>/Shape" and so on. */
sparta_value *sparta_zoo_positions(sparta_zoo_builder *b, const char *name, const char *node, int64_t most,
                                   sparta_value *ids);

/* torch.nn.Linear on two dimensions: Gemm with "<layer>.weight" (out, in), pruned or not, and "<layer>.bias"; weights of a size
 * that keeps the size of activations through Relu. */
sparta_value *sparta_zoo_gemm(sparta_zoo_builder *b, const char *layer, sparta_value *x, int64_t in,
                              int64_t out, bool pruned);

/* MatMul "<node>/MatMul" with "<path>.weight" (in, out), pruned: what exporters make of a linear layer on three dimensions. */
sparta_value *sparta_zoo_matmul(sparta_zoo_builder *b, const char *path, const char *node, sparta_value *x,
                                int64_t in, int64_t out, float deviation);
/* LayerNormalization over the last dimension with "<path>.weight" around 1 and "<path>.bias". */
sparta_value *sparta_zoo_layer_norm(sparta_zoo_builder *b, const char *path, const char *node,
                                    sparta_value *x, int64_t size, float epsilon, float deviation);

/* "prefix" and "rest" as one text that lives as long as the graph ("" after a failure). */
const char *sparta_zoo_join(sparta_zoo_builder *b, const char *prefix, const char *rest);

#define SPARTA_ZOO(id, name, parameters, what)                                                               \
    sparta_status sparta_zoo_##id(sparta_graph *g, const sparta_zoo_request *r);
#include "zoo/zoo.def"
#undef SPARTA_ZOO

#endif
